/* hub.c: frames between the agent and the master pass here; psd_run notes who
 * is in, takes what is for itself, and asks supervise.c what follows. */
#define _GNU_SOURCE
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/agent.h"
#include "launch/exit_code.h"
#include "launch/supervise_state.h"

/* ---- frames of the agent ------------------------------------------------ */

static psd_status take_started(struct supervise *supervise,
                               struct run_process *process,
                               const struct frame_header *header,
                               const void *payload)
{
    struct launch_started started;
    psd_status status = launch_started_unpack(&started, payload, header->size);

    if (status != PSD_OK) {
        return status;
    }
    if (started.code != 0) {
        supervise_over(supervise, started.code, NULL, started.reason);
        supervise_stop(supervise, 0);
        return PSD_OK;
    }
    if (process == NULL) {
        return PSD_EPROTO;
    }
    process->started = true;
    process->pid = started.pid;
    snprintf(supervise->folder, sizeof(supervise->folder), "%s",
             started.reason);
    log_info("run: %s %" PRIu32 " is pid %" PRIu32, run_role(process),
             process->rank, process->pid);
    return PSD_OK;
}

static psd_status take_exited(struct supervise *supervise,
                              struct run_process *process,
                              const struct frame_header *header,
                              const void *payload)
{
    struct launch_exited exited;
    psd_status status = launch_exited_unpack(&exited, payload, header->size);

    if (status != PSD_OK) {
        return status;
    }
    process->exited = true;
    process->code = exited.code;
    process->signal = exited.signal;
    process->tail = mem_strdup(exited.tail);
    supervise_exited(supervise, process);
    return PSD_OK;
}

/* Frames of a member pass on to the master; psd_run only notes who is in. */
static void pass_to_master(struct supervise *supervise,
                           struct run_process *process,
                           const struct frame_header *header,
                           const void *payload)
{
    if (supervise->master.link != NULL) {
        (void)link_send(supervise->master.link, header, payload);
    }
    if (header->type == FRAME_ENTER) {
        process->entered = true;
        supervise_check_deserters(supervise);
    } else if (header->type == FRAME_BYE) {
        process->said_bye = true;
    }
}

static psd_status agent_deliver(void *user, struct psd_link *link,
                                const struct frame_header *header,
                                const void *payload)
{
    struct supervise *supervise = user;
    struct run_process *process =
        run_find(&supervise->run, (header->flags & FRAME_FLAG_SERVER) != 0,
                 header->rank);

    (void)link;
    if (header->type == FRAME_STARTED) {
        return take_started(supervise, process, header, payload);
    }
    if (process == NULL) {
        log_error("run: the agent speaks of a process that is none");
        return PSD_EPROTO;
    }
    switch (header->type) {
    case FRAME_OUTPUT:
        screen_output(supervise->screen, header->rank, header->block, payload,
                      header->size);
        return PSD_OK;
    case FRAME_EXITED:
        return take_exited(supervise, process, header, payload);
    case FRAME_LOST:
        process->hung_up = true;
        supervise_hung_up(supervise);
        return PSD_OK;
    default:
        pass_to_master(supervise, process, header, payload);
        return PSD_OK;
    }
}

static void agent_down(void *user, struct psd_link *link, psd_status why)
{
    struct supervise *supervise = user;

    (void)why;
    link_close(link);
    supervise->guard.link = NULL;
    supervise->agent_gone = true;
    if (!supervise->stopping) {
        supervise_over(
            supervise, EXIT_CODE_UNAVAILABLE, NULL,
            "the agent was lost, and with it every process of the job");
        supervise_stop(supervise, 0);
    }
}

/* ---- frames of the master ----------------------------------------------- */

static psd_status take_verdict(struct supervise *supervise,
                               const struct frame_header *header,
                               const void *payload)
{
    struct launch_verdict verdict;
    struct run_process *culprit = NULL;
    psd_status status = launch_verdict_unpack(&verdict, payload, header->size);
    int code;

    if (status != PSD_OK) {
        return status;
    }
    if (verdict.has_culprit) {
        culprit = run_find(&supervise->run, verdict.is_server, verdict.rank);
    }
    code = verdict.code;
    if (code == 0 && culprit != NULL && run_failed(culprit)) {
        code = culprit->signal != 0 ? EXIT_CODE_SIGNAL + culprit->signal
                                    : culprit->code;
    }
    supervise_over(supervise, code == 0 ? EXIT_CODE_UNAVAILABLE : code, culprit,
                   verdict.reason);
    return PSD_OK;
}

static psd_status take_view(struct supervise *supervise,
                            const struct frame_header *header,
                            const void *payload)
{
    struct launch_view view;
    psd_status status = launch_view_unpack(&view, payload, header->size);

    if (status != PSD_OK) {
        return status;
    }
    supervise->run.view = view;
    supervise->run.has_view = true;
    if (view.final) {
        supervise->master_done = true;
    } else {
        screen_view(supervise->screen, &view);
    }
    return PSD_OK;
}

static psd_status master_stream_deliver(void *user, struct psd_link *link,
                                        const struct frame_header *header,
                                        const void *payload)
{
    struct supervise *supervise = user;

    (void)link;
    switch (header->type) {
    case FRAME_VERDICT:
        return take_verdict(supervise, header, payload);
    case FRAME_VIEW:
        return take_view(supervise, header, payload);
    default:
        if (supervise->guard.link != NULL) {
            (void)link_send(supervise->guard.link, header, payload);
        }
        return PSD_OK;
    }
}

static void master_down(void *user, struct psd_link *link, psd_status why)
{
    struct supervise *supervise = user;

    (void)why;
    link_close(link);
    supervise->master.link = NULL;
    supervise->master_done = true;
    if (!supervise->stopping) {
        supervise_over(supervise, EXIT_CODE_UNAVAILABLE, NULL,
                       "the master was lost");
        supervise_stop(supervise, AGENT_END_MS);
    }
}

const struct link_events hub_agent_events = { .deliver = agent_deliver,
                                              .down = agent_down };
const struct link_events hub_master_events = { .deliver = master_stream_deliver,
                                               .down = master_down };
