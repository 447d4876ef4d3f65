/* task.c: see task.h. */
#define _GNU_SOURCE
#include "config/task.h"

#include <inttypes.h>
#include <strings.h>

#include "base/log.h"
#include "base/mem.h"
#include "member/settings.h"
#include "wire/pack.h"

#define OLD_PORT    5555 /* of the master, in the manual's examples */
#define ADDRESS_MAX (CLUSTER_NAME_MAX + 16)

/* ---- text that grows ---------------------------------------------------- */

static void put(struct pack *pack, const char *text)
{
    pack_bytes(pack, text, strlen(text));
}

static void put_number(struct pack *pack, uint32_t number)
{
    char text[16];

    snprintf(text, sizeof(text), "%" PRIu32, number);
    put(pack, text);
}

/* The text as memory of its own; NULL when there was none. Frees `pack`. */
static char *take_text(struct pack *pack)
{
    char *text = NULL;

    pack_u8(pack, 0);
    if (!pack->failed) {
        text = (char *)pack->data;
        pack->data = NULL;
    }
    pack_fini(pack);
    return text;
}

/* ---- addresses ---------------------------------------------------------- */

static const char *host_of(const struct cluster *cluster, struct task task)
{
    const struct cluster_seat *seats =
        task.is_server ? cluster->server_seats : cluster->worker_seats;

    PSD_ASSERT(task.index <
               (task.is_server ? cluster->servers : cluster->workers));
    return cluster->hosts[seats[task.index].host].name;
}

static void write_address(const char *host, uint32_t port, char *text,
                          size_t size)
{
    bool brackets = strchr(host, ':') != NULL;

    snprintf(text, size, "%s%s%s:%" PRIu32, brackets ? "[" : "", host,
             brackets ? "]" : "", port);
}

/* How many addresses each host has given out. Hosts that differ by user or
 * port of sshd may be one machine, so that the first of its name counts. */
struct counter {
    const struct cluster *cluster;
    uint32_t first;
    uint32_t *used;   /* by host */
    uint32_t *counts; /* by host: whose count to take */
};

static psd_status counter_init(struct counter *counter,
                               const struct cluster *cluster, uint32_t first)
{
    *counter = (struct counter){ .cluster = cluster, .first = first };
    counter->used = mem_zalloc_array(cluster->host_count,
                                     sizeof(*counter->used));
    counter->counts = mem_zalloc_array(cluster->host_count,
                                       sizeof(*counter->counts));
    if (counter->used == NULL || counter->counts == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        uint32_t same = 0;

        while (strcasecmp(cluster->hosts[same].name,
                          cluster->hosts[i].name) != 0) {
            same++;
        }
        counter->counts[i] = same;
    }
    return PSD_OK;
}

static void counter_fini(struct counter *counter)
{
    mem_free(counter->used);
    mem_free(counter->counts);
}

/* The addresses of all seats, with commas between. */
static void put_seats(struct counter *counter, const struct cluster_seat *seats,
                      uint32_t count, struct pack *pack, bool *out_of_ports_p)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t host = seats[i].host;
        uint32_t port =
            counter->first + counter->used[counter->counts[host]]++;
        char address[ADDRESS_MAX];

        if (port > UINT16_MAX) {
            *out_of_ports_p = true;
        }
        write_address(counter->cluster->hosts[host].name, port, address,
                      sizeof(address));
        put(pack, i == 0 ? "" : ",");
        put(pack, address);
    }
}

/* tcp://host:5555 of master_node, or else of worker 0's host. */
static char *old_master(const struct cluster *cluster)
{
    struct task chief = { .index = 0 };
    char address[ADDRESS_MAX];
    struct pack pack;

    pack_init(&pack);
    if (cluster->workers > 0 || cluster->master != CLUSTER_HERE) {
        write_address(cluster->master != CLUSTER_HERE
                          ? cluster->hosts[cluster->master].name
                          : host_of(cluster, chief),
                      OLD_PORT, address, sizeof(address));
        put(&pack, "tcp://");
        put(&pack, address);
    }
    return take_text(&pack);
}

static char *first_of(const char *list)
{
    size_t size = strcspn(list, ",");
    char *first = mem_zalloc(size + 1);

    if (first != NULL) {
        memcpy(first, list, size);
    }
    return first;
}

psd_status task_book_init(struct task_book *book,
                          const struct cluster *cluster, const char *ports,
                          char *error, size_t error_size)
{
    uint16_t first = TASK_PORT_FIRST;
    uint16_t last;
    struct counter counter;
    struct pack workers;
    struct pack servers;
    bool out_of_ports = false;

    *book = (struct task_book){ .cluster = cluster };
    if (ports != NULL && (!settings_ports(ports, &first, &last) ||
                          first == 0)) {
        first = TASK_PORT_FIRST;
    }
    snprintf(error, error_size, "out of memory");
    if (counter_init(&counter, cluster, first) != PSD_OK) {
        counter_fini(&counter);
        return PSD_ENOMEM;
    }
    pack_init(&workers);
    pack_init(&servers);
    put_seats(&counter, cluster->worker_seats, cluster->workers, &workers,
              &out_of_ports);
    put_seats(&counter, cluster->server_seats, cluster->servers, &servers,
              &out_of_ports);
    counter_fini(&counter);
    book->workers = take_text(&workers);
    book->servers = take_text(&servers);
    book->old_master = old_master(cluster);
    book->master = book->workers == NULL ? NULL : first_of(book->workers);
    if (book->servers == NULL || book->old_master == NULL ||
        book->master == NULL) {
        task_book_fini(book);
        return PSD_ENOMEM;
    }
    if (out_of_ports) {
        snprintf(error, error_size,
                 "a host has more processes than there are ports from %u on; "
                 "let \"ports\" begin lower",
                 first);
        task_book_fini(book);
        return PSD_EINVAL;
    }
    return PSD_OK;
}

void task_book_fini(struct task_book *book)
{
    mem_free(book->workers);
    mem_free(book->servers);
    mem_free(book->master);
    mem_free(book->old_master);
    *book = (struct task_book){ .cluster = NULL };
}

/* ---- placeholders ------------------------------------------------------- */

enum placeholder {
    PLACEHOLDER_RANK,
    PLACEHOLDER_SIZE,
    PLACEHOLDER_HOST,
    PLACEHOLDER_JOB_NAME,
    PLACEHOLDER_TASK_INDEX,
    PLACEHOLDER_PS_HOSTS,
    PLACEHOLDER_WORKER_HOSTS,
    PLACEHOLDER_MASTER,
    PLACEHOLDER_COUNT,
};

static const char *const placeholders[PLACEHOLDER_COUNT] = {
    [PLACEHOLDER_RANK] = "{rank}",
    [PLACEHOLDER_SIZE] = "{size}",
    [PLACEHOLDER_HOST] = "{host}",
    [PLACEHOLDER_JOB_NAME] = "{job_name}",
    [PLACEHOLDER_TASK_INDEX] = "{task_index}",
    [PLACEHOLDER_PS_HOSTS] = "{ps_hosts}",
    [PLACEHOLDER_WORKER_HOSTS] = "{worker_hosts}",
    [PLACEHOLDER_MASTER] = "{master}",
};

/* The placeholder at `text`; PLACEHOLDER_COUNT: none. */
static enum placeholder placeholder_at(const char *text)
{
    unsigned i = 0;

    while (i < PLACEHOLDER_COUNT &&
           strncmp(text, placeholders[i], strlen(placeholders[i])) != 0) {
        i++;
    }
    return (enum placeholder)i;
}

/* One step through a text: what lies at `text`, and how long it is. */
struct piece {
    enum placeholder placeholder; /* COUNT: to be copied */
    const char *text;
    size_t size; /* of the copy */
    size_t step; /* of the text */
};

static struct piece next_piece(const char *text)
{
    struct piece piece = { .placeholder = PLACEHOLDER_COUNT,
                           .text = text,
                           .size = 1,
                           .step = 1 };
    enum placeholder found;

    if (text[0] == '$' && text[1] == '{') {
        piece.size = piece.step = 2; /* the shell's */
        return piece;
    }
    if (text[0] != '{') {
        return piece;
    }
    found = placeholder_at(text + 1);
    if (text[1] == '{' && found != PLACEHOLDER_COUNT &&
        text[1 + strlen(placeholders[found])] == '}') {
        piece.text = text + 1;
        piece.size = strlen(placeholders[found]);
        piece.step = piece.size + 2;
        return piece;
    }
    found = placeholder_at(text);
    if (found != PLACEHOLDER_COUNT) {
        piece.placeholder = found;
        piece.step = strlen(placeholders[found]);
    }
    return piece;
}

static void put_value(struct pack *pack, const struct task_book *book,
                      struct task task, enum placeholder placeholder)
{
    switch (placeholder) {
    case PLACEHOLDER_RANK:
    case PLACEHOLDER_TASK_INDEX:
        put_number(pack, task.index);
        return;
    case PLACEHOLDER_SIZE:
        put_number(pack, book->cluster->workers);
        return;
    case PLACEHOLDER_HOST:
        put(pack, host_of(book->cluster, task));
        return;
    case PLACEHOLDER_JOB_NAME:
        put(pack, task.is_server ? "ps" : "worker");
        return;
    case PLACEHOLDER_PS_HOSTS:
        put(pack, book->servers);
        return;
    case PLACEHOLDER_WORKER_HOSTS:
        put(pack, book->workers);
        return;
    case PLACEHOLDER_MASTER:
        put(pack, book->master);
        return;
    case PLACEHOLDER_COUNT:
        return;
    }
}

static void put_filled(struct pack *pack, const struct task_book *book,
                       struct task task, const char *text)
{
    while (*text != '\0') {
        struct piece piece = next_piece(text);

        if (piece.placeholder == PLACEHOLDER_COUNT) {
            pack_bytes(pack, piece.text, piece.size);
        } else {
            put_value(pack, book, task, piece.placeholder);
        }
        text += piece.step;
    }
}

psd_status task_fill(const struct task_book *book, struct task task,
                     const char *text, char **out_p)
{
    struct pack pack;
    char *out;

    pack_init(&pack);
    put_filled(&pack, book, task, text);
    out = take_text(&pack);
    if (out == NULL) {
        return PSD_ENOMEM;
    }
    *out_p = out;
    return PSD_OK;
}

static bool has_placeholder(const struct launch_words *commands,
                            enum placeholder placeholder)
{
    for (uint32_t i = 0; i < commands->count; i++) {
        const char *text = commands->words[i];

        while (*text != '\0') {
            struct piece piece = next_piece(text);

            if (piece.placeholder == placeholder) {
                return true;
            }
            text += piece.step;
        }
    }
    return false;
}

bool task_has_roles(const struct cluster *cluster,
                    const struct launch_words *commands)
{
    return cluster->roles || has_placeholder(commands, PLACEHOLDER_JOB_NAME) ||
           has_placeholder(commands, PLACEHOLDER_TASK_INDEX);
}

bool task_wants_servers(const struct launch_words *commands)
{
    return has_placeholder(commands, PLACEHOLDER_PS_HOSTS) ||
           has_placeholder(commands, PLACEHOLDER_JOB_NAME);
}

/* ---- commands ----------------------------------------------------------- */

/* The manual's flags, one at a time, or all behind a line of the shell. */
static void put_old_flag(struct pack *pack, const struct task_book *book,
                         struct task task, unsigned which)
{
    switch (which) {
    case 0:
        put(pack, "--distributed=true");
        return;
    case 1:
        put(pack, "--master_address=");
        put(pack, book->old_master);
        return;
    default:
        put(pack, "--client_id=");
        put_number(pack, task.index);
        return;
    }
}

#define OLD_FLAGS 3

/* Blanks and line ends behind a command would part it from the flags. */
static void cut_end(struct pack *pack)
{
    while (!pack->failed && pack->size > 0 &&
           strchr(" \t\r\n", pack->data[pack->size - 1]) != NULL) {
        pack->size--;
    }
}

static psd_status add_word(struct launch_words *words, struct pack *pack,
                           char *error, size_t error_size)
{
    bool too_long = pack->size >= LAUNCH_WORD_MAX;
    char *word = take_text(pack);

    if (word == NULL) {
        snprintf(error, error_size, "out of memory");
        return PSD_ENOMEM;
    }
    if (too_long) {
        snprintf(error, error_size,
                 "a word of the command is longer than the %u bytes that a "
                 "process may have; it begins with '%.40s'",
                 LAUNCH_WORD_MAX, word);
        mem_free(word);
        return PSD_EINVAL;
    }
    words->words[words->count++] = word;
    return PSD_OK;
}

psd_status task_command(const struct task_book *book, struct task task,
                        const struct launch_words *command, bool shell,
                        struct launch_words *out_p, char *error,
                        size_t error_size)
{
    struct launch_words out = { .count = 0 };
    bool flags = book->cluster->old_flags && !task.is_server;
    psd_status status = PSD_OK;
    struct pack pack;

    out.words = mem_zalloc_array((size_t)command->count + OLD_FLAGS + 1,
                                 sizeof(*out.words));
    if (out.words == NULL) {
        snprintf(error, error_size, "out of memory");
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < command->count && status == PSD_OK; i++) {
        pack_init(&pack);
        put_filled(&pack, book, task, command->words[i]);
        if (flags && shell) {
            cut_end(&pack);
        }
        for (unsigned j = 0; j < OLD_FLAGS && flags && shell; j++) {
            put(&pack, " ");
            put_old_flag(&pack, book, task, j);
        }
        status = add_word(&out, &pack, error, error_size);
    }
    for (unsigned j = 0; j < OLD_FLAGS && flags && !shell && status == PSD_OK;
         j++) {
        pack_init(&pack);
        put_old_flag(&pack, book, task, j);
        status = add_word(&out, &pack, error, error_size);
    }
    if (status != PSD_OK) {
        launch_words_fini(&out);
        return status;
    }
    *out_p = out;
    return PSD_OK;
}

/* ---- variables ---------------------------------------------------------- */

/* "name":["a:1","b:2"], from "a:1,b:2"; nothing when the list is empty. */
static void put_list(struct pack *pack, const char *comma, const char *name,
                     const char *list, size_t size)
{
    if (size == 0) {
        return;
    }
    put(pack, comma);
    put(pack, "\"");
    put(pack, name);
    put(pack, "\":[\"");
    for (size_t i = 0; i < size; i++) {
        if (list[i] == ',') {
            put(pack, "\",\"");
        } else {
            pack_bytes(pack, list + i, 1);
        }
    }
    put(pack, "\"]");
}

/* The chief is "master" and the others "worker" from 0 on, as the guide of
 * distributed TensorFlow has them; "cloud" makes the master the chief. */
static char *make_tf_config(const struct task_book *book, struct task task)
{
    size_t chief = strlen(book->master);
    const char *others =
        book->workers[chief] == ',' ? book->workers + chief + 1 : "";
    bool is_chief = !task.is_server && task.index == 0;
    struct pack pack;

    pack_init(&pack);
    put(&pack, "{\"cluster\":{");
    put_list(&pack, "", "master", book->master, chief);
    put_list(&pack, ",", "worker", others, strlen(others));
    put_list(&pack, ",", "ps", book->servers, strlen(book->servers));
    put(&pack, "},\"task\":{\"type\":\"");
    put(&pack, task.is_server ? "ps" : is_chief ? "master" : "worker");
    put(&pack, "\",\"index\":");
    put_number(&pack, task.is_server || is_chief ? task.index
                                                 : task.index - 1);
    put(&pack, "},\"environment\":\"cloud\"}");
    return take_text(&pack);
}

static psd_status add_tf_config(const struct task_book *book, struct task task,
                                struct launch_words *variables)
{
    char *text = make_tf_config(book, task);
    psd_status status = PSD_ENOMEM;

    if (text != NULL &&
        strlen(text) + sizeof("TF_CONFIG=") > LAUNCH_WORD_MAX) {
        log_warn("task: TF_CONFIG of %zu bytes is longer than a variable may "
                 "be, and left out",
                 strlen(text));
        status = PSD_OK;
    } else if (text != NULL) {
        status = launch_words_add(variables, "TF_CONFIG", text);
    }
    mem_free(text);
    return status;
}

psd_status task_variables(const struct task_book *book, struct task task,
                          const char *name, bool tf_config,
                          struct launch_words *variables)
{
    const struct cluster *cluster = book->cluster;
    const char *gpus =
        task.is_server ? "" : cluster->worker_seats[task.index].gpus;
    psd_status status = launch_words_add(variables, "PSD_HOST",
                                         host_of(cluster, task));

    if (status == PSD_OK) {
        status = launch_words_add(variables, "PSD_MASTER", book->master);
    }
    if (status == PSD_OK) {
        status = launch_words_add(variables, "JOB_NAME", name);
    }
    if (status == PSD_OK) {
        status = launch_words_add(variables, "EXPERIMENT_ID", name);
    }
    if (status == PSD_OK && gpus != NULL) {
        status = launch_words_add(variables, "CUDA_VISIBLE_DEVICES", gpus);
    }
    if (status == PSD_OK && tf_config) {
        status = add_tf_config(book, task, variables);
    }
    return status;
}
