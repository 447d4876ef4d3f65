/*
 * agent_state.h: what the files of the agent share; nobody else includes it.
 * agent.c starts and ends, seat.c knows the members.
 */
#ifndef PSD_LAUNCH_AGENT_STATE_H
#define PSD_LAUNCH_AGENT_STATE_H

#include "launch/gate.h"
#include "launch/memory_kill.h"
#include "launch/output.h"
#include "launch/process.h"
#include "launch/region.h"
#include "launch/tail.h"

struct agent {
    struct psd_loop *loop;
    struct psd_link *link; /* to psd_run; NULL: gone */
    int signal_fd;
    struct loop_watch signals;
    struct loop_watch guard; /* its pidfd */
    const char *folder;
    const char *cgroup;         /* "": none */
    char path[LAUNCH_PATH_MAX]; /* of the socket */
    struct launch_start start;
    bool prepared; /* START has come and was found good */
    char address[MESSAGE_URL_MAX]; /* for data links */
    uint32_t local_workers;
    uint64_t heard_ns; /* of psd_run */
    struct loop_timer beat;
    struct output_pool outputs;
    struct tail_set tails;
    struct memory_kill memory_kill;
    struct region_set regions;
    struct gate *gate;
    struct process *processes; /* servers, then workers */
    uint32_t process_count;    /* that were started */
    uint64_t ps_due_ns; /* until then a ps may end by itself; 0: not asked */
    bool ending;
    bool unguarded; /* the guard was killed */
    uint64_t kill_due_ns;
    uint64_t pipes_due_ns;
    struct loop_timer end_timer;
    struct loop_timer exit_timer; /* exits that wait for last frames */
    bool nobody_left;             /* below this process */
    bool done;
};

/* A frame to psd_run; `process` NULL: of the agent itself. */
void agent_send(struct agent *agent, const struct process *process,
                unsigned type, const struct pack *pack);
/* End everything: SIGTERM now, SIGKILL after `grace_ms`. The soonest wins. */
void agent_end(struct agent *agent, uint32_t grace_ms);

/* A member's link has ended: its exit may be told now. */
void agent_member_gone(struct agent *agent);

/* prepare.c: is everything there that the job needs on this host? Fills the
 * answer; changes `start` where this host decides (folder, logs, threads).
 * False: no, and the answer says what is missing. */
bool prepare_job(struct agent *agent, struct launch_ready *ready);

/* tail.c: FRAME_TAIL of psd_run. */
psd_status tail_take(struct agent *agent, const struct frame_header *header,
                     const void *payload);
/* Everything else is over: have the readers all, or do they take nothing? */
bool tail_settled(struct agent *agent);
void tail_fini(struct agent *agent);

/* seat.c: listen for members. */
psd_status seat_open(struct agent *agent);
/* The process of that role and rank; NULL: not of this host. */
struct process *seat_find(struct agent *agent, bool is_server, uint32_t rank);
/* A frame of the master for one of them. */
psd_status seat_forward(struct agent *agent, const struct frame_header *header,
                        const void *payload);

#endif
