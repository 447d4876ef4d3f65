/*
 * ps.h: processes in the role of a ps, which wait until the workers are done
 * (python/poseidon/tensorflow/role.py). Each makes a FIFO of its own in the
 * agent's folder when it begins and later opens it to read, which blocks; it
 * goes on when somebody opens that to write. One thread.
 */
#ifndef PSD_LAUNCH_PS_H
#define PSD_LAUNCH_PS_H

#define PS_VARIABLE "PSD_PS" /* the agent's socket, beside which they lie */
#define PS_PREFIX   "ps."

/* Let all go on that wait in `folder` now; returns how many there are that
 * wait, have waited, or are going to: call it again for these. */
unsigned ps_release(const char *folder);

#endif
