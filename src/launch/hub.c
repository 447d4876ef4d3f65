/* hub.c: frames between the agents and the master pass here; psd_run notes who
 * is in, takes what is for itself, and asks supervise.c what follows. */
#define _GNU_SOURCE
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/agent.h"
#include "launch/exit_code.h"
#include "launch/supervise_state.h"

/* ---- frames of an agent ------------------------------------------------- */

static psd_status take_started(struct supervise *supervise,
                               const struct host *host,
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
        char reason[WIRE_TEXT_MAX];

        snprintf(reason, sizeof(reason), "host %s: %.*s", host->where->name,
                 WIRE_TEXT_MAX / 2, started.reason);
        supervise_over(supervise, started.code, NULL,
                       supervise->host_count > 1 ? reason : started.reason);
        supervise_stop(supervise, 0);
        return PSD_OK;
    }
    if (process == NULL) {
        return PSD_EPROTO;
    }
    process->started = true;
    process->pid = started.pid;
    screen_detail(supervise->screen, "%s %" PRIu32 " is pid %" PRIu32 " on %s",
                  run_role(process), process->rank, process->pid,
                  process->host);
    desk_started(supervise->desk);
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
    process->memory = exited.memory;
    process->memory_size = exited.memory_size;
    process->stream = exited.stream;
    mem_free(process->tail);
    process->tail = mem_strdup(exited.tail);
    supervise_exited(supervise, process);
    return PSD_OK;
}

static psd_status take_look(struct supervise *supervise,
                            const struct run_process *process,
                            const struct frame_header *header,
                            const void *payload)
{
    static struct launch_look look;
    psd_status status = launch_look_unpack(&look, payload, header->size);

    if (status == PSD_OK) {
        inquiry_seen(supervise, process, &look);
    }
    return status;
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

/* A frame about a process of that host; an agent speaks of no other. */
static psd_status take_frame(struct supervise *supervise, struct host *host,
                             const struct frame_header *header,
                             const void *payload)
{
    struct run_process *process =
        run_find(&supervise->run, (header->flags & FRAME_FLAG_SERVER) != 0,
                 header->rank);
    unsigned which = header->block == LAUNCH_STREAM_STDERR ? 1 : 0;

    if (header->type == FRAME_STARTED && header->rank == WIRE_RANK_NONE) {
        return take_started(supervise, host, NULL, header, payload);
    }
    if (process == NULL || process->host != host->where->name) {
        log_error("run: the agent of %s speaks of a process that it has not",
                  host->where->name);
        return PSD_EPROTO;
    }
    switch (header->type) {
    case FRAME_STARTED:
        return take_started(supervise, host, process, header, payload);
    case FRAME_OUTPUT:
        host->owed[which] += header->size;
        screen_output(supervise->screen, header->rank, header->block, payload,
                      header->size);
        desk_show(supervise->desk, header, payload);
        return PSD_OK;
    case FRAME_EXITED:
        return take_exited(supervise, process, header, payload);
    case FRAME_LOOK:
        return take_look(supervise, process, header, payload);
    case FRAME_LOST:
        process->hung_up = true;
        supervise_hung_up(supervise);
        return PSD_OK;
    default:
        pass_to_master(supervise, process, header, payload);
        return PSD_OK;
    }
}

static psd_status agent_deliver(void *user, struct psd_link *link,
                                const struct frame_header *header,
                                const void *payload)
{
    struct host *host = user;
    static struct launch_ready ready;
    psd_status status;

    (void)link;
    host->heard_ns = clock_ns();
    switch (header->type) {
    case FRAME_BEAT:
        return PSD_OK;
    case FRAME_READY:
        status = launch_ready_unpack(&ready, payload, header->size);
        if (status == PSD_OK) {
            host_ready(host, &ready);
        }
        return status;
    case FRAME_TAIL:
        desk_tail(host->supervise->desk,
                  (uint32_t)(host - host->supervise->hosts), header, payload);
        return PSD_OK;
    default:
        return take_frame(host->supervise, host, header, payload);
    }
}

static void agent_down(void *user, struct psd_link *link, psd_status why)
{
    struct host *host = user;

    (void)link;
    (void)why;
    desk_host_gone(host->supervise->desk,
                   (uint32_t)(host - host->supervise->hosts));
    host_down(host);
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
        code = run_code(culprit);
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
        desk_show(supervise->desk, header, payload);
    }
    return PSD_OK;
}

static psd_status take_stall(struct supervise *supervise,
                             const struct frame_header *header,
                             const void *payload)
{
    struct launch_stall stall;
    psd_status status = launch_stall_unpack(&stall, payload, header->size);

    if (status == PSD_OK) {
        inquiry_take(supervise, &stall);
    }
    return status;
}

/* Through the agent of its host. */
static void pass_to_member(struct supervise *supervise,
                           const struct frame_header *header,
                           const void *payload)
{
    struct run_process *process =
        run_find(&supervise->run, (header->flags & FRAME_FLAG_SERVER) != 0,
                 header->rank);
    struct psd_link *link =
        process == NULL ? NULL
                        : supervise->hosts[process->host_index].helper.link;

    if (link != NULL) {
        (void)link_send(link, header, payload);
    }
}

static psd_status master_stream_deliver(void *user, struct psd_link *link,
                                        const struct frame_header *header,
                                        const void *payload)
{
    struct supervise *supervise = user;

    (void)link;
    supervise->master_heard_ns = clock_ns();
    switch (header->type) {
    case FRAME_BEAT:
        return PSD_OK;
    case FRAME_VERDICT:
        return take_verdict(supervise, header, payload);
    case FRAME_VIEW:
        return take_view(supervise, header, payload);
    case FRAME_STALL:
        return take_stall(supervise, header, payload);
    default:
        pass_to_member(supervise, header, payload);
        return PSD_OK;
    }
}

static void master_down(void *user, struct psd_link *link, psd_status why)
{
    struct supervise *supervise = user;

    (void)link;
    (void)why;
    host_master_lost(supervise, "its connection ended");
}

const struct link_events hub_agent_events = { .deliver = agent_deliver,
                                              .down = agent_down };
const struct link_events hub_master_events = { .deliver = master_stream_deliver,
                                               .down = master_down };
