/*
 * desk.h: where a running psd_run answers: psd status, stop, logs and attach
 * come here. It reads the job and passes on what psd_run shows; the only thing
 * it changes is the end of the job, when it is asked for. The loop's thread.
 */
#ifndef PSD_LAUNCH_DESK_H
#define PSD_LAUNCH_DESK_H

#include "launch/desk_place.h"
#include "wire/wire.h"

#define DESK_VISITORS_MAX 32
#define DESK_WINDOW       (256u << 10) /* bytes of a log on their way */
#define DESK_LOOK_MS      5000 /* between looks whether the socket stands */
#define DESK_LAST_MS      1000 /* for visitors to take their last words */

struct desk;
struct supervise;

/* Answer for `supervise` at `place`, which it takes. `ready_fd` (-1: none),
 * which it takes too, is told the job's name when every process has started.
 */
psd_status desk_create(struct supervise *supervise, struct desk_place *place,
                       int ready_fd, struct desk **desk_p);
/* The job is over, with that exit code: everybody is told, the socket goes.
 * Every call here allows NULL for the desk. */
void desk_destroy(struct desk *desk, int code);

/* A process has started. */
void desk_started(struct desk *desk);
/* What psd_run shows, for those who are attached: the frames of agents and
 * master as they came, and its own lines. */
void desk_show(struct desk *desk, const struct frame_header *header,
               const void *payload);
void desk_say(struct desk *desk, const char *line);
/* FRAME_TAIL of the agent of that host. */
void desk_tail(struct desk *desk, uint32_t host,
               const struct frame_header *header, const void *payload);
/* That host is gone: nothing more comes from it. */
void desk_host_gone(struct desk *desk, uint32_t host);

#endif
