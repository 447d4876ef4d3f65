/*
 * plan.h: from psd_run's command line to what an agent is told: command,
 * environment, and whether this machine has room for it. One thread.
 */
#ifndef PSD_LAUNCH_PLAN_H
#define PSD_LAUNCH_PLAN_H

#include "launch/launch_message.h"
#include "member/settings.h"

struct plan_request {
    uint32_t workers;
    uint32_t servers;
    const char *name; /* of the job */
    bool tee_all;
    const struct psd_settings *settings;
    const char *logs; /* log folder */
    char *const *command;
    uint32_t command_count;
    bool shell; /* one quoted string */
};

/* Has this machine files and processes enough? PSD_ESYSTEM with a sentence
 * that says what to raise. */
psd_status plan_check_limits(uint32_t workers, uint32_t servers, char *error,
                             size_t error_size);

/* Fill `start` for a job on this machine alone, with a fresh secret; `note`
 * receives the line about threads, or "". launch_start_fini frees it. */
psd_status plan_make(const struct plan_request *request,
                     struct launch_start *start, char *note, size_t note_size);

#endif
