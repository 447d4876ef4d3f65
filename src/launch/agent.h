/*
 * agent.h: the one that starts and watches the processes of a host. It reads
 * FRAME_START from its control stream, starts servers and workers, gives its
 * members their secret and memory, passes their frames to and from psd_run,
 * and ends everything it has started when it is told to, when the stream
 * ends, or when its guard dies. One thread.
 */
#ifndef PSD_LAUNCH_AGENT_H
#define PSD_LAUNCH_AGENT_H

#include <sys/types.h>

#define AGENT_END_MS 500 /* from SIGTERM to SIGKILL when nobody says */

/* Be the agent; the stream is descriptors 0 and 1, `folder` is private and
 * empty, `cgroup` is for what it starts ("": there is none). Returns the exit
 * code. */
int agent_run(pid_t guard, const char *folder, const char *cgroup);

#endif
