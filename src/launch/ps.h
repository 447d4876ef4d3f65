/*
 * ps.h: processes in the role of a ps, which wait until the workers are done
 * (python/poseidon/tensorflow/role.py). Each opens a FIFO of its own in the
 * agent's folder to read, which blocks; it goes on when somebody opens that to
 * write. One thread.
 */
#ifndef PSD_LAUNCH_PS_H
#define PSD_LAUNCH_PS_H

#define PS_VARIABLE "PSD_PS" /* the agent's socket, beside which they lie */
#define PS_PREFIX   "ps."

/* Let all go on that wait in `folder`; returns how many. */
unsigned ps_release(const char *folder);

#endif
