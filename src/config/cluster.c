/* cluster.c: see cluster.h. */
#define _GNU_SOURCE
#include "config/cluster.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/word.h"
#include "config/address.h"

#define PORT_SSH 22

/* ---- life --------------------------------------------------------------- */

static void init(struct cluster *cluster)
{
    *cluster = (struct cluster){ .master = CLUSTER_HERE };
}

psd_status cluster_init_local(struct cluster *cluster, uint32_t workers,
                              uint32_t servers)
{
    uint32_t host;
    psd_status status;

    init(cluster);
    if (workers == 0 && servers == 0) {
        return PSD_OK;
    }
    status = cluster_add_host(cluster, "localhost", NULL, 0, &host);
    for (uint32_t i = 0; i < workers && status == PSD_OK; i++) {
        status = cluster_add_worker(cluster, host, NULL);
    }
    for (uint32_t i = 0; i < servers && status == PSD_OK; i++) {
        status = cluster_add_server(cluster, host);
    }
    if (status != PSD_OK) {
        cluster_fini(cluster);
        return status;
    }
    cluster->hosts[host].local = true;
    return PSD_OK;
}

static void free_seats(struct cluster_seat *seats, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mem_free(seats[i].gpus);
    }
    mem_free(seats);
}

void cluster_fini(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        mem_free(cluster->hosts[i].name);
        mem_free(cluster->hosts[i].user);
    }
    mem_free(cluster->hosts);
    free_seats(cluster->worker_seats, cluster->workers);
    free_seats(cluster->server_seats, cluster->servers);
    mem_free(cluster->pem_file);
    mem_free(cluster->virtualenv);
    mem_free(cluster->interface);
    mem_free(cluster->origin);
    launch_words_fini(&cluster->commands);
    launch_words_fini(&cluster->texts);
    init(cluster);
}

/* ---- growing ------------------------------------------------------------ */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

psd_status cluster_add_host(struct cluster *cluster, const char *name,
                            const char *user, uint16_t port, uint32_t *index_p)
{
    struct cluster_host host = { .port = port };
    void *hosts = cluster->hosts;

    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_host *known = &cluster->hosts[i];

        if (strcasecmp(known->name, name) == 0 &&
            same_text(known->user, user) && known->port == port) {
            *index_p = i;
            return PSD_OK;
        }
    }
    if (cluster->host_count >= CLUSTER_HOSTS_MAX) {
        return PSD_EINVAL;
    }
    host.name = mem_strdup(name);
    host.user = user == NULL ? NULL : mem_strdup(user);
    if (host.name == NULL || (user != NULL && host.user == NULL) ||
        mem_grow(&hosts, cluster->host_count,
                 (size_t)cluster->host_count + 1, sizeof(host)) != PSD_OK) {
        mem_free(host.name);
        mem_free(host.user);
        return PSD_ENOMEM;
    }
    cluster->hosts = hosts;
    *index_p = cluster->host_count++;
    cluster->hosts[*index_p] = host;
    return PSD_OK;
}

static psd_status add_seat(struct cluster_seat **seats_p, uint32_t *count_p,
                           uint32_t host, const char *gpus)
{
    struct cluster_seat seat = { .host = host };
    void *seats = *seats_p;

    seat.gpus = gpus == NULL ? NULL : mem_strdup(gpus);
    if ((gpus != NULL && seat.gpus == NULL) ||
        mem_grow(&seats, *count_p, (size_t)*count_p + 1, sizeof(seat)) !=
            PSD_OK) {
        mem_free(seat.gpus);
        return PSD_ENOMEM;
    }
    *seats_p = seats;
    (*seats_p)[(*count_p)++] = seat;
    return PSD_OK;
}

psd_status cluster_add_worker(struct cluster *cluster, uint32_t host,
                              const char *gpus)
{
    PSD_ASSERT(host < cluster->host_count);
    return add_seat(&cluster->worker_seats, &cluster->workers, host, gpus);
}

psd_status cluster_add_server(struct cluster *cluster, uint32_t host)
{
    PSD_ASSERT(host < cluster->host_count);
    return add_seat(&cluster->server_seats, &cluster->servers, host, NULL);
}

const char *cluster_keep(struct cluster *cluster, const char *text)
{
    struct launch_words *texts = &cluster->texts;
    char *copy = mem_strdup(text);
    void *words = texts->words;

    if (copy == NULL || mem_grow(&words, texts->count,
                                 (size_t)texts->count + 2,
                                 sizeof(*texts->words)) != PSD_OK) {
        mem_free(copy);
        return NULL;
    }
    texts->words = words;
    texts->words[texts->count++] = copy;
    return copy;
}

/* ---- names -------------------------------------------------------------- */

/* The first character that is no ASCII letter or digit nor one of `more`;
 * whatever the locale says. */
static const char *first_odd(const char *text, const char *more)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    while (*text != '\0' &&
           (strchr(plain, *text) != NULL || strchr(more, *text) != NULL)) {
        text++;
    }
    return text;
}

static psd_status check_letters(const char *what, const char *text,
                                const char *more, char *error, size_t size)
{
    const char *odd = first_odd(text, more);
    char shown[WORD_SHOW_MAX];

    word_show(text, strlen(text), shown, sizeof(shown));
    if (text[0] == '\0') {
        snprintf(error, size, "the %s name is empty", what);
    } else if (strlen(text) >= CLUSTER_NAME_MAX) {
        snprintf(error, size, "the %s name '%s' is longer than %d characters",
                 what, shown, CLUSTER_NAME_MAX - 1);
    } else if (text[0] == '-') {
        snprintf(error, size, "the %s name '%s' begins with a dash", what,
                 shown);
    } else if ((unsigned char)*odd >= 0x80) {
        snprintf(error, size,
                 "the %s name '%s' has a letter that is not ASCII; write the "
                 "address, or an alias of your ssh configuration",
                 what, shown);
    } else if (*odd != '\0') {
        snprintf(error, size,
                 "the %s name '%s' has %s in it; it may have letters, digits "
                 "and %s",
                 what, shown,
                 *odd == ' '                   ? "a blank"
                 : iscntrl((unsigned char)*odd) ? "a control character"
                                               : "a special character",
                 more);
    } else {
        return PSD_OK;
    }
    return PSD_EINVAL;
}

/* "fe80::1%eth0" is an address and the name of an interface. */
static bool is_ipv6(const char *name)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    size_t size = strcspn(name, "%");

    if (size >= sizeof(address) || (name[size] == '%' &&
                                    (name[size + 1] == '\0' ||
                                     strpbrk(name + size + 1, "%:") != NULL))) {
        return false;
    }
    memcpy(address, name, size);
    address[size] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1;
}

/* Looks like an IPv4 address, whether or not it is one. */
static bool is_dotted(const char *name)
{
    unsigned dots = 0;

    for (; *name != '\0'; name++) {
        if (*name == '.') {
            dots++;
        } else if (!isdigit((unsigned char)*name)) {
            return false;
        }
    }
    return dots == 3;
}

psd_status cluster_check_name(const char *name, char *error, size_t error_size)
{
    struct in_addr parsed;
    psd_status status =
        check_letters("host", name, "._-:%", error, error_size);

    if (status != PSD_OK) {
        return status;
    }
    if (strpbrk(name, ":%") != NULL && !is_ipv6(name)) {
        snprintf(error, error_size,
                 "'%.80s' is no IPv6 address; it must be as in fe80::1%%eth0, "
                 "or [::1]:22 with a port",
                 name);
        return PSD_EINVAL;
    }
    if (is_dotted(name) && inet_pton(AF_INET, name, &parsed) != 1) {
        snprintf(error, error_size,
                 "'%.80s' is no IPv4 address; its four numbers must be in "
                 "0..255",
                 name);
        return PSD_EINVAL;
    }
    return PSD_OK;
}

psd_status cluster_check_user(const char *user, char *error, size_t error_size)
{
    return check_letters("user", user, "._+-", error, error_size);
}

static psd_status parse_port(const char *text, uint16_t *port_p, char *error,
                             size_t error_size)
{
    char shown[WORD_SHOW_MAX];
    unsigned long port = 0;
    size_t digits = strspn(text, "0123456789");

    if (digits > 0 && digits <= 5 && text[digits] == '\0') {
        port = strtoul(text, NULL, 10);
    }
    if (port == 0 || port > UINT16_MAX) {
        snprintf(error, error_size,
                 "the port is '%s', it must be a number in 1..65535",
                 word_show(text, strlen(text), shown, sizeof(shown)));
        return PSD_EINVAL;
    }
    *port_p = (uint16_t)port;
    return PSD_OK;
}

/* Copy [from, end) or say that it does not fit. */
static psd_status copy(const char *what, const char *from, const char *end,
                       char *to, size_t size, char *error, size_t error_size)
{
    size_t length = (size_t)(end - from);

    if (length >= size) {
        snprintf(error, error_size, "the %s name is longer than %zu "
                 "characters", what, size - 1);
        return PSD_EINVAL;
    }
    memcpy(to, from, length);
    to[length] = '\0';
    return PSD_OK;
}

/* Where the name begins and ends, and the text of the port, or NULL. */
static psd_status cut_host(const char *text, const char **name_p,
                           const char **end_p, const char **port_p,
                           char *error, size_t error_size)
{
    const char *end = text + strlen(text);
    const char *colon = strchr(text, ':');

    *name_p = text;
    *end_p = end;
    *port_p = NULL;
    if (text[0] == '[') {
        *name_p = text + 1;
        *end_p = strchrnul(text, ']');
        if (**end_p == '\0' || ((*end_p)[1] != '\0' && (*end_p)[1] != ':')) {
            snprintf(error, error_size,
                     "the bracket of an IPv6 address is not closed; it must "
                     "be as in [::1] or [::1]:22");
            return PSD_EINVAL;
        }
        *port_p = (*end_p)[1] == ':' ? *end_p + 2 : NULL;
    } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        *end_p = colon;
        *port_p = colon + 1;
    } /* two colons: an IPv6 address without a port */
    return PSD_OK;
}

psd_status cluster_parse_host(const char *text, char *user, size_t user_size,
                              char *name, size_t name_size, uint16_t *port_p,
                              char *error, size_t error_size)
{
    const char *at = strchr(text, '@');
    const char *host = at == NULL ? text : at + 1;
    const char *end;
    const char *port_text;
    uint16_t port = 0;
    psd_status status =
        cut_host(host, &host, &end, &port_text, error, error_size);

    user[0] = '\0';
    if (status == PSD_OK && at != NULL) {
        status = copy("user", text, at, user, user_size, error, error_size);
        if (status == PSD_OK) {
            status = cluster_check_user(user, error, error_size);
        }
    }
    if (status == PSD_OK) {
        status = copy("host", host, end, name, name_size, error, error_size);
    }
    if (status == PSD_OK) {
        status = cluster_check_name(name, error, error_size);
    }
    if (status == PSD_OK && *end == ']' && strchr(name, ':') == NULL) {
        snprintf(error, error_size,
                 "'%.80s' is in brackets, but is no IPv6 address", name);
        status = PSD_EINVAL;
    }
    if (status == PSD_OK && port_text != NULL) {
        status = parse_port(port_text, &port, error, error_size);
    }
    if (status == PSD_OK) {
        *port_p = port;
    }
    return status;
}

void cluster_host_text(const struct cluster_host *host, char *text,
                       size_t size)
{
    bool brackets = strchr(host->name, ':') != NULL;
    char port[8] = "";

    if (host->port != 0) {
        snprintf(port, sizeof(port), ":%u", host->port);
    }
    snprintf(text, size, "%s%s%s%s%s%s", host->user == NULL ? "" : host->user,
             host->user == NULL ? "" : "@", brackets ? "[" : "", host->name,
             brackets ? "]" : "", port);
}

/* ---- this machine ------------------------------------------------------- */

bool cluster_is_local(const char *name)
{
    char mine[CLUSTER_NAME_MAX] = "";

    return strcasecmp(name, "localhost") == 0 ||
           (gethostname(mine, sizeof(mine) - 1) == 0 &&
            strcasecmp(name, mine) == 0) ||
           address_is_own(name);
}

/* ---- settling ----------------------------------------------------------- */

static void renumber(struct cluster *cluster, const uint32_t *to)
{
    for (uint32_t i = 0; i < cluster->workers; i++) {
        cluster->worker_seats[i].host = to[cluster->worker_seats[i].host];
    }
    for (uint32_t i = 0; i < cluster->servers; i++) {
        cluster->server_seats[i].host = to[cluster->server_seats[i].host];
    }
    if (cluster->master != CLUSTER_HERE) {
        cluster->master = to[cluster->master];
    }
}

/* Does a worker, a server or the master sit on that host? */
static void find_used(const struct cluster *cluster, bool *used)
{
    for (uint32_t i = 0; i < cluster->workers; i++) {
        used[cluster->worker_seats[i].host] = true;
    }
    for (uint32_t i = 0; i < cluster->servers; i++) {
        used[cluster->server_seats[i].host] = true;
    }
    if (cluster->master != CLUSTER_HERE) {
        used[cluster->master] = true;
    }
}

/* Keep the hosts that are used, one of those that are this machine. */
static void merge(struct cluster *cluster, uint32_t *to, const bool *used)
{
    uint32_t count = 0;
    uint32_t here = UINT32_MAX;

    for (uint32_t i = 0; i < cluster->host_count; i++) {
        struct cluster_host *host = &cluster->hosts[i];

        if (!used[i] || (host->local && here != UINT32_MAX)) {
            to[i] = here;
            mem_free(host->name);
            mem_free(host->user);
            continue;
        }
        if (host->local) {
            here = count;
        }
        to[i] = count;
        cluster->hosts[count++] = *host;
    }
    cluster->host_count = count;
}

psd_status cluster_settle(struct cluster *cluster)
{
    uint32_t *to = mem_zalloc_array(cluster->host_count, sizeof(*to));
    bool *used = mem_zalloc_array(cluster->host_count, sizeof(*used));

    if (to == NULL || used == NULL) {
        mem_free(to);
        mem_free(used);
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        struct cluster_host *host = &cluster->hosts[i];

        host->local = host->local ||
                      ((host->port == 0 || host->port == PORT_SSH) &&
                       cluster_is_local(host->name));
    }
    if (cluster->master != CLUSTER_HERE &&
        cluster->hosts[cluster->master].local) {
        cluster->master = CLUSTER_HERE;
    }
    find_used(cluster, used);
    merge(cluster, to, used);
    renumber(cluster, to);
    mem_free(to);
    mem_free(used);
    return PSD_OK;
}
