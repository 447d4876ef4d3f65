/*
 * ssh.h: how a program of ours is started on a host: directly when the host
 * is this one, through OpenSSH as the user has set it up, or through another
 * command (--rsh). And what it means when that fails. Pure: words in, words
 * out.
 */
#ifndef PSD_LAUNCH_SSH_H
#define PSD_LAUNCH_SSH_H

#include "config/cluster.h"

#define SSH_CONNECT_S 7 /* a host that does not answer is named before 10 s */

struct ssh_way {
    const char *psd;      /* the program here; looked for there first */
    const char *rsh;      /* instead of ssh: CMD HOST COMMAND...; NULL: ssh */
    const char *pem_file; /* NULL: none */
    const char *copy_id;  /* --copy: names the archive; NULL: none */
    const char *copy_data;
    size_t copy_size;
};

/* argv that runs `psd` with `arguments` (they end with NULL) on `host`. */
psd_status ssh_words(const struct ssh_way *way,
                     const struct cluster_host *host,
                     const char *const *arguments,
                     struct launch_words *argv_p);

/* The words after `ssh`, for a person: "user@host", "-p 2222 host". */
void ssh_target(const struct cluster_host *host, char *text, size_t size);

/* Why did it fail? `status` is waitpid's, `said` the last lines of stderr. The
 * sentence names host, cause and cure; true: trying again may help. */
bool ssh_explain(const struct ssh_way *way, const struct cluster_host *host,
                 int status, const char *said, char *sentence, size_t size);

#endif
