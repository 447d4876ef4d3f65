/*
 * injection.h: what lets a Python worker find Poseidon: the tree python/ that
 * lies beside this program in front of PYTHONPATH, and the library's path.
 * One thread.
 */
#ifndef PSD_LAUNCH_INJECTION_H
#define PSD_LAUNCH_INJECTION_H

#include "launch/launch_message.h"

/* Change the environment of a worker. Where the tree or the library is not
 * beside this program, nothing is said of it. */
psd_status injection_add(struct launch_words *environment);
/* The same for a program in `bin`; "" stands for no folder. For tests. */
psd_status injection_add_from(const char *bin,
                              struct launch_words *environment);

#endif
