/*
 * task.h: what one process of a job is told: its command, with placeholders
 * filled in, and the variables that name it and its peers. The same words
 * serve programs for Poseidon and those written for distributed TensorFlow.
 * Data only. One thread.
 *
 * Whatever is put into a command is made of host names, numbers and "ps",
 * "worker": letters, digits and ._-:%[], and the comma between addresses. A
 * shell finds nothing in them to interpret (see cluster_check_name).
 */
#ifndef PSD_CONFIG_TASK_H
#define PSD_CONFIG_TASK_H

#include "config/cluster.h"

#define TASK_PORT_FIRST 2222

/* Worker 0 is the chief, and trains like the others. */
struct task {
    bool is_server; /* started for an entry of server_nodes, as "ps" */
    uint32_t index; /* rank of the worker, number of the server */
};

/* What is the same for all. Addresses are host:port, IPv6 in brackets; ports
 * count up on each host, workers before servers. */
struct task_book {
    const struct cluster *cluster; /* kept */
    char *workers;                 /* "a:2222,b:2222", by rank */
    char *servers;                 /* "" when there are none */
    char *master;                  /* that of worker 0 */
    char *old_master;              /* for --master_address */
};

/* Ports begin at the first of `ports` ("7000-7100"), or at TASK_PORT_FIRST
 * when it is NULL or "0". PSD_EINVAL with a sentence, PSD_ENOMEM. */
psd_status task_book_init(struct task_book *book,
                          const struct cluster *cluster, const char *ports,
                          char *error, size_t error_size);
void task_book_fini(struct task_book *book);

/* One quoted string as the commands of `workers` workers: as many as its
 * parts between commas, when each part begins with a program; else one. Commas
 * in quotes and brackets do not count. A word is a program when it is that of
 * the first part, is found in PATH, or has a slash and is executable here or
 * looks like a path. As --list /a,/b is more often a list than two commands,
 * without a blank behind the comma a path must be there, and a lone word of
 * several is no program. Variables in front (A=1 python) are passed over. */
psd_status task_split(const char *line, uint32_t workers,
                      struct launch_words *commands_p);

/* Is it also to be started once per server? It says {job_name} or
 * {task_index}, or the cluster file says roles. */
bool task_has_roles(const struct cluster *cluster,
                    const struct launch_words *commands);
/* Do the commands speak of servers, by {ps_hosts} or {job_name}? */
bool task_wants_servers(const struct launch_words *commands);

/* {rank} {size} {host} {job_name} {task_index} {ps_hosts} {worker_hosts}
 * {master} filled in; {{rank}} is {rank} itself, other braces stay, and so
 * does ${rank}, which is the shell's. {rank} of a server is its number, {size}
 * the number of workers. `*out_p` is the caller's. PSD_ENOMEM. */
psd_status task_fill(const struct task_book *book, struct task task,
                     const char *text, char **out_p);

/* The words of its command, each filled in. `shell`: there is one, for sh -c.
 * With "poseidon_flags" a worker gets the manual's three behind it. PSD_EINVAL
 * with a sentence: a word became longer than a process may have. */
psd_status task_command(const struct task_book *book, struct task task,
                        const struct launch_words *command, bool shell,
                        struct launch_words *out_p, char *error,
                        size_t error_size);

/* Append PSD_HOST, PSD_MASTER, JOB_NAME, EXPERIMENT_ID (both `name`),
 * CUDA_VISIBLE_DEVICES where the cluster file says something about it (empty
 * for servers) and, when asked for, TF_CONFIG. PSD_ENOMEM. */
psd_status task_variables(const struct task_book *book, struct task task,
                          const char *name, bool tf_config,
                          struct launch_words *variables);

#endif
