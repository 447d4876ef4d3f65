/*
 * config_state.h: a cluster file while it is read. Shared by config.c, which
 * knows the keys, and node.c, which knows the entries of worker_nodes and
 * server_nodes. One thread.
 */
#ifndef PSD_CONFIG_CONFIG_STATE_H
#define PSD_CONFIG_CONFIG_STATE_H

#include <jansson.h>

#include "config/cluster.h"
#include "config/document.h"
#include "config/locate.h"

struct config_reader {
    const struct document *document;
    struct cluster cluster; /* handed out when all is well */
    const char *username;   /* of entries without one; NULL: none */
    char *error;
    size_t error_size;
};

/* Writes file:line:column of `path` and the sentence. Returns PSD_EINVAL. */
psd_status config_complain(struct config_reader *reader,
                           struct locate_path path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "NAME is a number, it must be WANTED". */
psd_status config_wrong_type(struct config_reader *reader,
                             struct locate_path path, const char *name,
                             const json_t *value, const char *wanted);
/* `error` says that memory is gone. Returns PSD_ENOMEM. */
psd_status config_no_memory(struct config_reader *reader);
/* What is not printable, and what is too long, does not reach the screen. */
const char *config_show(const char *text, char *shown, size_t size);

/* true, false, 1, 0, and these as text. */
bool config_is_flag(const json_t *value, bool *on_p);

/* A key of the file that is no option. */
struct config_key {
    const char *name;
    bool required;
    psd_status (*read)(struct config_reader *reader, struct locate_path path,
                       json_t *value);
    /* (optional) Its value as text for --print-config. Default: no line. */
    void (*show)(const struct cluster *cluster, char *text, size_t size);
};

extern const struct config_key config_keys[]; /* ends with a NULL name */

/* All entries of the list `name`, as workers or as servers. */
psd_status node_read_list(struct config_reader *reader,
                          struct locate_path path, const char *name,
                          json_t *list, bool server);
/* "user@host:port" at `path`; its index in the cluster. */
psd_status node_read_host(struct config_reader *reader,
                          struct locate_path path, const char *name,
                          const char *text, uint32_t *host_p);

#endif
