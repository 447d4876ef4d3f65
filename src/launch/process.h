/*
 * process.h: one worker or server that an agent has started. One thread.
 */
#ifndef PSD_LAUNCH_PROCESS_H
#define PSD_LAUNCH_PROCESS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "launch/launch_message.h"
#include "launch/look.h"
#include "launch/output.h"
#include "transport/transport.h"

/* Where its session stands. */
enum process_seat {
    SEAT_FREE,
    SEAT_HELD, /* judged well, the welcome is on its way */
    SEAT_TAKEN,
    SEAT_LEFT, /* said BYE, or hung up */
};

struct process {
    void *owner; /* struct agent */
    bool is_server;
    uint32_t rank;
    uint32_t local; /* index among those of its role on this host */
    pid_t pid;
    bool alive;
    int status; /* of waitpid, once reaped */
    uint64_t peak; /* bytes resident at most, once reaped */
    bool reaped;
    struct output outputs[2]; /* stdout and stderr; a server has one */
    unsigned output_count;
    enum process_seat seat;
    pid_t member_pid; /* that has the seat */
    bool said_bye;
    struct psd_link *link; /* to the member; NULL: none */
    struct look look;
};

/* Start it as `start` says; `agent_path` is the socket, `cgroup` may be "". On
 * failure `code` and `error` as in spawn.h. */
psd_status process_start(struct process *process,
                         const struct launch_start *start,
                         const struct launch_task *task,
                         const char *agent_path, const char *cgroup,
                         struct output_pool *pool, rlim_t files, int *code_p,
                         char *error, size_t error_size);
void process_fini(struct process *process);

#endif
