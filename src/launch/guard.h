/*
 * guard.h: the agent's parent. Both are subreapers; each ends everything when
 * the other dies, so that killing any one process leaves nothing behind.
 */
#ifndef PSD_LAUNCH_GUARD_H
#define PSD_LAUNCH_GUARD_H

/* Split this process into guard and agent and return the exit code of either.
 * The control stream is descriptors 0 and 1 (a socket, or ssh's pipes); only
 * the agent keeps it. */
int guard_run(void);

#endif
