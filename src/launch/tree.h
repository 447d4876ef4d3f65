/*
 * tree.h: the processes below this one, found by walking /proc, so that a
 * child that called setsid or forked twice is found too (it falls to this
 * process when this is a subreaper). One thread.
 */
#ifndef PSD_LAUNCH_TREE_H
#define PSD_LAUNCH_TREE_H

#include <stdbool.h>
#include <sys/types.h>

/* Send `signal` (0: none) to every living descendant. Returns how many there
 * were; zombies do not count. A process may fork meanwhile: repeat until 0. */
unsigned tree_signal(int signal);

/* Is `pid` `ancestor` itself, below it, or in the session that it leads? */
bool tree_descends(pid_t pid, pid_t ancestor);

/* Kill everything below this process and reap it; returns when nothing is
 * left, or after `limit_ms`. */
void tree_end(unsigned limit_ms);

#endif
