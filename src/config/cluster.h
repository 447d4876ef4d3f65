/*
 * cluster.h: the machines of a job and who runs where, whether that was read
 * from a JSON file, a hostfile, Slurm's environment, or is -n on this machine
 * alone. Data only: nothing is connected here. One thread.
 */
#ifndef PSD_CONFIG_CLUSTER_H
#define PSD_CONFIG_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/launch_message.h"

#define CLUSTER_HOSTS_MAX 1024
#define CLUSTER_HERE      UINT32_MAX /* no entry: this machine */
#define CLUSTER_NAME_MAX  256        /* of a host or a user, with its end */
#define CLUSTER_KEYS_MAX  16

/* One machine: one agent, however many entries name it. */
struct cluster_host {
    char *name;    /* what ssh is given, without user and port */
    char *user;    /* NULL: what ssh itself would use */
    uint16_t port; /* of sshd; 0: what ssh itself would use */
    bool local;    /* this machine: no ssh */
};

/* One worker or server: an entry of worker_nodes or server_nodes, by rank. */
struct cluster_seat {
    uint32_t host; /* index in hosts */
    char *gpus;    /* CUDA_VISIBLE_DEVICES for it; NULL: nothing was said */
};

struct cluster {
    uint32_t host_count;
    struct cluster_host *hosts; /* in the order of their first mention */
    uint32_t workers;
    struct cluster_seat *worker_seats; /* by rank */
    uint32_t servers;
    struct cluster_seat *server_seats;
    uint32_t master;   /* host index, or CLUSTER_HERE */
    char *pem_file;    /* ssh -i; NULL: none */
    char *virtualenv;  /* on every host; NULL: none */
    char *interface;   /* whose address the data links use; NULL: routed */
    bool roles;        /* the command is started for servers too, as ps */
    bool old_flags;    /* "poseidon_flags": add the manual's three flags */
    struct launch_words commands; /* "commands"; none, or one per worker */
    char *origin;                 /* the file, "Slurm"; NULL: this machine */
    uint32_t lines[CLUSTER_KEYS_MAX]; /* config.c's keys; 0: not there */
    struct launch_words texts;    /* of the file; settings borrow from them */
};

/* `workers` and `servers` on this machine. */
psd_status cluster_init_local(struct cluster *cluster, uint32_t workers,
                              uint32_t servers);
void cluster_fini(struct cluster *cluster);

/* The index of the host, added when it is new. Same name, user and port: same
 * host. PSD_ENOMEM, PSD_EINVAL when there are more than CLUSTER_HOSTS_MAX. */
psd_status cluster_add_host(struct cluster *cluster, const char *name,
                            const char *user, uint16_t port,
                            uint32_t *index_p);
/* Another worker or server on that host; `gpus` NULL: nothing was said. */
psd_status cluster_add_worker(struct cluster *cluster, uint32_t host,
                              const char *gpus);
psd_status cluster_add_server(struct cluster *cluster, uint32_t host);

/* Keep a copy of `text` as long as the cluster lives; NULL: no memory. */
const char *cluster_keep(struct cluster *cluster, const char *text);

/* Is this text all that a host's or a user's name may be? Then it is safe in
 * a command line: letters, digits, "._-" and for a host ":%", for a user "+";
 * no dash in front. Names with colons must be IPv6 addresses, four numbers
 * with dots an IPv4 address. PSD_EINVAL with a sentence. */
psd_status cluster_check_name(const char *name, char *error,
                              size_t error_size);
psd_status cluster_check_user(const char *user, char *error,
                              size_t error_size);

/* "host", "user@host", "host:port", "[::1]:port", "::1", "user@[fe80::1]:22".
 * Copies into the caller's memory. PSD_EINVAL with a sentence: empty, a
 * leading dash, a blank or control character, a port that is none. */
psd_status cluster_parse_host(const char *text, char *user, size_t user_size,
                              char *name, size_t name_size, uint16_t *port_p,
                              char *error, size_t error_size);

/* localhost, or a name or address of this machine (getaddrinfo compared with
 * getifaddrs). A name that does not resolve is not. */
bool cluster_is_local(const char *name);

/* Set `local` of every host; several hosts that are this machine become one,
 * and a master on this machine is CLUSTER_HERE. A host given by a name that
 * does not resolve stays: ssh may know it. So does one with a port of its own
 * other than 22: localhost:2222 is a tunnel or a container. May ask the name
 * server, which takes its time. */
psd_status cluster_settle(struct cluster *cluster);

/* "worker 3 of host b (user x, port 2222)" and such need the host as text:
 * user@name:port, with brackets around an IPv6 address. */
void cluster_host_text(const struct cluster_host *host, char *text,
                       size_t size);

#endif
