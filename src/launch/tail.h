/*
 * tail.h: an agent shows the log files of its processes to who asks psd_run
 * for them. Bytes go no faster than they are taken: each reader has a window.
 * The loop's thread.
 */
#ifndef PSD_LAUNCH_TAIL_H
#define PSD_LAUNCH_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/loop.h"

#define TAILS_MAX     64
#define TAIL_CHUNK    (64u << 10) /* of one read, and of one frame */
#define TAIL_POLL_MS  100         /* between looks at a log that grows */
#define TAIL_QUIET_MS 500         /* at the end: for one who takes nothing */
#define TAIL_END_MS   2000        /* and for all */
#define TAIL_SCAN_MAX (64u << 20) /* bytes searched for the last lines */

struct process;

struct tail {
    struct process *process; /* NULL: free */
    uint32_t id;
    int fds[2]; /* the files; -1: none */
    bool follow;
    uint64_t window; /* bytes that may go */
};

struct tail_set {
    struct tail tails[TAILS_MAX];
    struct loop_timer timer;
    uint64_t moved_ns; /* when something was last sent */
    uint64_t ended_ns; /* when everything else was over; 0: not yet */
};

/* Where the last `lines` lines of a file begin; at most TAIL_SCAN_MAX bytes
 * before its end. */
uint64_t tail_offset(int fd, uint64_t lines);

#endif
