/*
 * detach.h: psd_run --detach: the launcher goes to the background, into a
 * session of its own, and whoever started it waits until the job really runs.
 * One thread; before the loop and before anything else is started.
 */
#ifndef PSD_LAUNCH_DETACH_H
#define PSD_LAUNCH_DETACH_H

#define DETACH_GO (-1) /* this is the background */

/* Split. The one that goes on in the background gets DETACH_GO, `*ready_fd_p`
 * to write the job's name to when it runs, its input from /dev/null and its
 * output in <logs>/console.log. The other one gets an exit code: 0 once the
 * job runs, and what to do next has been said; or, if it never did, the code
 * of the one in the background, whose words have been repeated. */
int detach_start(const char *logs, int *ready_fd_p);

#endif
