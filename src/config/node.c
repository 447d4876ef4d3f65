/* node.c: an entry of worker_nodes or server_nodes: a host as text, or an
 * object that says how many processes run there and on which GPUs. */
#define _GNU_SOURCE
#include "config/config_state.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/word.h"

#define GPUS_MAX 64   /* of one entry */
#define GPU_MAX  64   /* "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6" */
#define LIST_MAX (GPUS_MAX * GPU_MAX) /* all of them, for one worker */

/* An entry as it is read. */
struct node {
    const char *name; /* of the list */
    bool server;
    char user[CLUSTER_NAME_MAX];
    char host[CLUSTER_NAME_MAX];
    uint16_t port;
    uint32_t slots;
    bool has_host;
    bool has_slots;
    bool has_gpus;
    unsigned gpu_count;
    char gpus[GPUS_MAX][GPU_MAX];
};

/* ---- fields of an object ------------------------------------------------ */

static psd_status read_text_host(struct config_reader *reader,
                                 struct locate_path path, struct node *node,
                                 const char *text)
{
    char user[CLUSTER_NAME_MAX];
    char error[256];
    uint16_t port = 0;

    if (cluster_parse_host(text, user, sizeof(user), node->host,
                           sizeof(node->host), &port, error,
                           sizeof(error)) != PSD_OK) {
        return config_complain(reader, path, "%s: %s", node->name, error);
    }
    if ((user[0] != '\0' && node->user[0] != '\0') ||
        (port != 0 && node->port != 0)) {
        return config_complain(reader, path,
                               "%s: the %s is given twice, in \"host\" and "
                               "beside it; remove one",
                               node->name,
                               port != 0 && node->port != 0 ? "port" : "user");
    }
    if (user[0] != '\0') {
        memcpy(node->user, user, sizeof(user));
    }
    if (port != 0) {
        node->port = port;
    }
    node->has_host = true;
    return PSD_OK;
}

static psd_status read_host(struct config_reader *reader,
                            struct locate_path path, struct node *node,
                            json_t *value)
{
    if (!json_is_string(value)) {
        return config_wrong_type(reader, path, "host", value,
                                 "a host name or an address");
    }
    return read_text_host(reader, path, node, json_string_value(value));
}

static psd_status read_user(struct config_reader *reader,
                            struct locate_path path, struct node *node,
                            json_t *value)
{
    const char *user = json_string_value(value);
    char error[256];

    if (user == NULL) {
        return config_wrong_type(reader, path, "user", value, "a user name");
    }
    if (cluster_check_user(user, error, sizeof(error)) != PSD_OK) {
        return config_complain(reader, path, "%s: %s", node->name, error);
    }
    snprintf(node->user, sizeof(node->user), "%s", user);
    return PSD_OK;
}

/* A whole number, as such or as text, in [1, high]. */
static psd_status read_number(struct config_reader *reader,
                              struct locate_path path, const char *name,
                              json_t *value, uint32_t high, uint32_t *number_p)
{
    json_int_t number = 0;
    char shown[WORD_SHOW_MAX];

    if (json_is_integer(value)) {
        number = json_integer_value(value);
        snprintf(shown, sizeof(shown), "%" JSON_INTEGER_FORMAT, number);
    } else if (json_is_string(value)) {
        const char *text = json_string_value(value);

        config_show(text, shown, sizeof(shown));
        if (text[0] != '\0' && strlen(text) <= 9 &&
            strspn(text, "0123456789") == strlen(text)) {
            number = (json_int_t)strtoul(text, NULL, 10);
        }
    } else {
        return config_wrong_type(reader, path, name, value, "a whole number");
    }
    if (number < 1 || number > (json_int_t)high) {
        return config_complain(reader, path,
                               "%s is '%s', it must be a number in 1..%" PRIu32,
                               name, shown, high);
    }
    *number_p = (uint32_t)number;
    return PSD_OK;
}

static psd_status read_port(struct config_reader *reader,
                            struct locate_path path, struct node *node,
                            json_t *value)
{
    uint32_t port = 0;
    psd_status status =
        read_number(reader, path, "port", value, UINT16_MAX, &port);

    node->port = (uint16_t)port;
    return status;
}

static psd_status read_slots(struct config_reader *reader,
                             struct locate_path path, struct node *node,
                             json_t *value)
{
    node->has_slots = true;
    return read_number(reader, path, "slots", value, WIRE_RANKS_MAX,
                       &node->slots);
}

/* A number, or the name that nvidia-smi -L prints. */
static psd_status add_gpu(struct config_reader *reader,
                          struct locate_path path, struct node *node,
                          const char *text, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/";
    char shown[WORD_SHOW_MAX];

    while (size > 0 && *text == ' ') {
        text++;
        size--;
    }
    while (size > 0 && text[size - 1] == ' ') {
        size--;
    }
    if (size == 0 || size >= GPU_MAX || text[0] == '-' ||
        strspn(text, plain) < size) {
        return config_complain(reader, path,
                               "gpus has '%s', it must be a number such as 0, "
                               "or a name as in GPU-8932f937",
                               word_show(text, size, shown, sizeof(shown)));
    }
    if (node->gpu_count >= GPUS_MAX) {
        return config_complain(reader, path, "gpus has more than %d entries",
                               GPUS_MAX);
    }
    memcpy(node->gpus[node->gpu_count], text, size);
    node->gpus[node->gpu_count++][size] = '\0';
    return PSD_OK;
}

static psd_status split_gpus(struct config_reader *reader,
                             struct locate_path path, struct node *node,
                             const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t size = strcspn(text, ",");
        psd_status status = add_gpu(reader, path, node, text, size);

        if (status != PSD_OK) {
            return status;
        }
        if (text[size] == ',' && text[size + 1] == '\0') {
            return config_complain(reader, path, "gpus ends with a comma");
        }
        text = text[size] == ',' ? text + size + 1 : NULL;
    }
    return PSD_OK;
}

static psd_status read_gpus(struct config_reader *reader,
                            struct locate_path path, struct node *node,
                            json_t *value)
{
    json_t *item;
    size_t i;

    node->has_gpus = true;
    if (node->server) {
        return config_complain(reader, path, "%s: a server uses no gpus; "
                               "remove them", node->name);
    }
    if (json_is_string(value)) {
        return split_gpus(reader, path, node, json_string_value(value));
    }
    if (!json_is_array(value)) {
        return config_wrong_type(reader, path, "gpus", value,
                                 "a list such as [0, 1]");
    }
    json_array_foreach(value, i, item) {
        struct locate_path at = locate_step(path, i, false);
        char text[32];
        psd_status status;

        if (json_is_integer(item)) {
            snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
                     json_integer_value(item));
            status = add_gpu(reader, at, node, text, strlen(text));
        } else if (json_is_string(item)) {
            status = add_gpu(reader, at, node, json_string_value(item),
                             json_string_length(item));
        } else {
            status = config_wrong_type(reader, at, "an entry of gpus", item,
                                       "a number such as 0");
        }
        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}

static const struct node_key {
    const char *name;
    psd_status (*read)(struct config_reader *reader, struct locate_path path,
                       struct node *node, json_t *value);
} node_keys[] = {
    { "user", read_user }, /* before host, which may have one, too */
    { "port", read_port },   { "host", read_host },
    { "slots", read_slots }, { "gpus", read_gpus },
};

#define NODE_KEYS (sizeof(node_keys) / sizeof(node_keys[0]))

static psd_status unknown_key(struct config_reader *reader,
                              struct locate_path path, const char *list,
                              const char *key)
{
    const char *nearest = NULL;
    size_t best = WORD_FAR;
    char shown[WORD_SHOW_MAX];

    for (size_t i = 0; i < NODE_KEYS; i++) {
        if (word_nearer(key, strlen(key), node_keys[i].name,
                        strlen(node_keys[i].name), &best)) {
            nearest = node_keys[i].name;
        }
    }
    config_show(key, shown, sizeof(shown));
    return config_complain(
        reader, path, "unknown key \"%s\" in an entry of %s; %s%s%s", shown,
        list, nearest == NULL ? "there are host, slots, gpus, user, port"
                              : "did you mean \"",
        nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
}

static psd_status read_object(struct config_reader *reader,
                              struct locate_path path, struct node *node,
                              json_t *entry)
{
    size_t index[NODE_KEYS];
    json_t *values[NODE_KEYS] = { NULL };
    const char *key;
    json_t *value;
    size_t at = 0;

    json_object_foreach(entry, key, value) {
        size_t i = 0;

        while (i < NODE_KEYS && strcmp(key, node_keys[i].name) != 0) {
            i++;
        }
        if (i == NODE_KEYS) {
            return unknown_key(reader, locate_step(path, at, true), node->name,
                               key);
        }
        index[i] = at++;
        values[i] = value;
    }
    for (size_t i = 0; i < NODE_KEYS; i++) {
        psd_status status;

        if (values[i] == NULL) {
            continue;
        }
        status = node_keys[i].read(reader, locate_step(path, index[i], false),
                                   node, values[i]);
        if (status != PSD_OK) {
            return status;
        }
    }
    if (!node->has_host) {
        return config_complain(reader, path, "an entry of %s has no \"host\"",
                               node->name);
    }
    return PSD_OK;
}

/* ---- entries ------------------------------------------------------------ */

static psd_status add_host(struct config_reader *reader,
                           struct locate_path path, const char *name,
                           const char *user, uint16_t port, uint32_t *host_p)
{
    psd_status status = cluster_add_host(
        &reader->cluster, name, user[0] != '\0' ? user : reader->username,
        port, host_p);

    if (status == PSD_EINVAL) {
        return config_complain(reader, path,
                               "more than %d hosts; a job has no more",
                               CLUSTER_HOSTS_MAX);
    }
    return status == PSD_OK ? PSD_OK : config_no_memory(reader);
}

psd_status node_read_host(struct config_reader *reader,
                          struct locate_path path, const char *name,
                          const char *text, uint32_t *host_p)
{
    char user[CLUSTER_NAME_MAX];
    char host[CLUSTER_NAME_MAX];
    char error[256];
    uint16_t port = 0;

    if (cluster_parse_host(text, user, sizeof(user), host, sizeof(host), &port,
                           error, sizeof(error)) != PSD_OK) {
        return config_complain(reader, path, "%s: %s", name, error);
    }
    return add_host(reader, path, host, user, port, host_p);
}

/* CUDA_VISIBLE_DEVICES of the `slot`-th worker of the entry. */
static const char *deal_gpus(const struct node *node, uint32_t slot,
                             char *text, size_t size)
{
    size_t used = 0;

    if (!node->has_gpus) {
        return NULL;
    }
    text[0] = '\0';
    if (node->gpu_count == 0) {
        return text;
    }
    if (node->slots > 1) {
        return node->gpus[slot % node->gpu_count];
    }
    for (unsigned i = 0; i < node->gpu_count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0 ? "" : ",", node->gpus[i]);
    }
    return text;
}

static psd_status add_seats(struct config_reader *reader,
                            struct locate_path path, const struct node *node)
{
    struct cluster *cluster = &reader->cluster;
    uint32_t limit = node->server ? WIRE_SHARDS_MAX : WIRE_RANKS_MAX;
    uint32_t host;
    psd_status status =
        add_host(reader, path, node->host, node->user, node->port, &host);

    for (uint32_t i = 0; i < node->slots && status == PSD_OK; i++) {
        char gpus[LIST_MAX];

        if ((node->server ? cluster->servers : cluster->workers) >= limit) {
            return config_complain(reader, path,
                                   "%s has more than %" PRIu32 " %s; a job "
                                   "has no more",
                                   node->name, limit,
                                   node->server ? "servers" : "workers");
        }
        status = node->server
                     ? cluster_add_server(cluster, host)
                     : cluster_add_worker(cluster, host,
                                          deal_gpus(node, i, gpus,
                                                    sizeof(gpus)));
        if (status != PSD_OK) {
            return config_no_memory(reader);
        }
    }
    return status;
}

static psd_status read_entry(struct config_reader *reader,
                             struct locate_path path, const char *name,
                             json_t *entry, bool server)
{
    struct node node = { .name = name, .server = server };
    psd_status status;

    if (json_is_string(entry)) {
        status = read_text_host(reader, path, &node, json_string_value(entry));
    } else if (json_is_object(entry)) {
        status = read_object(reader, path, &node, entry);
    } else {
        return config_complain(reader, path,
                               "an entry of %s must be a host as text, or an "
                               "object such as {\"host\": \"a\", \"slots\": "
                               "2}",
                               name);
    }
    if (status != PSD_OK) {
        return status;
    }
    if (!node.has_slots) {
        node.slots = node.gpu_count > 1 ? node.gpu_count : 1;
    }
    return add_seats(reader, path, &node);
}

psd_status node_read_list(struct config_reader *reader,
                          struct locate_path path, const char *name,
                          json_t *list, bool server)
{
    json_t *entry;
    size_t i;

    if (!json_is_array(list)) {
        return config_wrong_type(reader, path, name, list,
                                 "a list of hosts such as [\"10.0.0.1\"]");
    }
    if (json_array_size(list) == 0) {
        return config_complain(
            reader, path, "%s is empty; %s", name,
            server ? "name the hosts of worker_nodes again, and the workers "
                     "play the servers' role"
                   : "name one host at least");
    }
    json_array_foreach(list, i, entry) {
        psd_status status = read_entry(reader, locate_step(path, i, false),
                                       name, entry, server);

        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}
