/*
 * look.h: the agent looks at one of its processes that holds the others up:
 * what it is doing as /proc has it, and its own stack when it can show it. A
 * program that wants to show it installs a handler for the signal that
 * PSD_STACK_SIGNAL names (Python: faulthandler.register) which writes the
 * stack to stderr; a process without such a handler is never sent the signal,
 * for that would end it. The agent's thread.
 */
#ifndef PSD_LAUNCH_LOOK_H
#define PSD_LAUNCH_LOOK_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch/stall_message.h"
#include "transport/loop.h"

#define LOOK_VARIABLE  "PSD_STACK_SIGNAL"
#define LOOK_ANSWER_MS 1000 /* for the stack to appear */

struct process;

/* One look under way; zeroed: none. */
struct look {
    struct loop_timer timer;
    bool busy;
    pid_t pid;
    off_t from; /* end of its log when it was asked */
    off_t seen; /* and when last looked at */
    uint64_t due_ns;
};

/* The signal, for the environment of workers. */
int look_signal(void);

/* Look, and answer with FRAME_LOOK at once or when the stack has come. */
void look_start(struct process *process);
void look_stop(struct look *look);

/* What /proc says about `pid`; state 0: it is gone. `catches_p`: it has a
 * handler for `signo`. */
void look_at(pid_t pid, int signo, struct launch_look *look, bool *catches_p);

/* The process to look at below `pid`: itself, or where a chain of only
 * children ends (a shell that waits for its command). */
pid_t look_below(pid_t pid);

#endif
