/* seat.c: the members of this host: who may sit down, and their frames, which
 * pass through with the rank that the agent knows, never the one they say. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/agent_state.h"
#include "launch/tree.h"

struct process *seat_find(struct agent *agent, bool is_server, uint32_t rank)
{
    for (uint32_t i = 0; i < agent->process_count; i++) {
        struct process *process = &agent->processes[i];

        if (process->is_server == is_server && process->rank == rank) {
            return process;
        }
    }
    return NULL;
}

/* ---- judging ------------------------------------------------------------ */

static psd_status judge_seat(const struct process *process, pid_t pid,
                             char *reason, size_t size)
{
    const char *role = process->is_server ? "server" : "rank";

    if (process->seat == SEAT_LEFT) {
        snprintf(reason, size,
                 "%s %" PRIu32 " has already left the job; a process opens "
                 "its session once",
                 role, process->rank);
        return PSD_EINVAL;
    }
    if (process->seat != SEAT_FREE) {
        snprintf(reason, size,
                 "%s %" PRIu32 " is already taken by pid %d; only one process "
                 "of a worker may open a session",
                 role, process->rank, (int)process->member_pid);
        return PSD_EINVAL;
    }
    if (!tree_descends(pid, process->pid)) {
        snprintf(reason, size,
                 "pid %d was not started as %s %" PRIu32 " (pid %d); do not "
                 "change PSD_RANK",
                 (int)pid, role, process->rank, (int)process->pid);
        return PSD_EINVAL;
    }
    return PSD_OK;
}

static psd_status judge(void *user, const struct message_hello *hello,
                        pid_t pid, struct message_welcome *welcome,
                        char *reason, size_t reason_size)
{
    struct agent *agent = user;
    const struct launch_start *start = &agent->start;
    struct process *process = seat_find(agent, hello->is_server, hello->rank);
    psd_status status;

    if (strcmp(hello->build, psd_version()) != 0) {
        snprintf(reason, reason_size,
                 "the worker's libposeidon is %s, psd_run is %s: use the "
                 "library that belongs to this psd_run",
                 hello->build, psd_version());
        return PSD_EPROTO;
    }
    if (process == NULL) {
        snprintf(reason, reason_size, "%s %" PRIu32 " is not of this host",
                 hello->is_server ? "server" : "rank", hello->rank);
        return PSD_EINVAL;
    }
    status = judge_seat(process, pid, reason, reason_size);
    if (status != PSD_OK) {
        return status;
    }
    process->seat = SEAT_HELD;
    process->member_pid = pid;
    welcome->job = start->job;
    welcome->workers = start->workers;
    welcome->shards = start->servers * start->threads_max;
    welcome->local_workers = agent->local_workers;
    welcome->local_rank = process->is_server ? 0 : process->local;
    welcome->server_threads = start->threads_max;
    snprintf(welcome->host, sizeof(welcome->host), "%s", agent->address);
    snprintf(welcome->ports, sizeof(welcome->ports), "%s", start->ports);
    return PSD_OK;
}

static void forget(void *user, const struct message_hello *hello)
{
    struct process *process = seat_find(user, hello->is_server, hello->rank);

    if (process != NULL && process->seat == SEAT_HELD) {
        process->seat = SEAT_FREE;
    }
}

/* ---- members ------------------------------------------------------------ */

static psd_status deliver(void *user, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload)
{
    struct process *process = user;
    struct agent *agent = process->owner;
    struct frame_header copy = *header;

    (void)link;
    switch (header->type) {
    case FRAME_BYE:
        process->said_bye = true;
        break;
    case FRAME_ENTER:
    case FRAME_SHARDS:
    case FRAME_REGISTER:
    case FRAME_TABLE_OK:
    case FRAME_DIGEST:
    case FRAME_METRICS:
    case FRAME_ABORT:
    case FRAME_STUCK:
    case FRAME_WHO:
        break;
    default:
        log_error("seat: pid %d sent a %s frame", (int)process->member_pid,
                  frame_type_name(header->type));
        return PSD_EPROTO;
    }
    copy.rank = (uint16_t)process->rank;
    copy.flags = process->is_server ? FRAME_FLAG_SERVER : 0;
    if (agent->link == NULL || agent->unguarded) {
        return PSD_OK;
    }
    return link_send(agent->link, &copy, payload);
}

static void send_lost(struct process *process)
{
    struct launch_lost lost = { .pid = (uint32_t)process->member_pid };
    struct pack pack;

    snprintf(lost.reason, sizeof(lost.reason),
             "%s %" PRIu32 " (pid %d) ended its session without psd_close",
             process->is_server ? "server" : "worker", process->rank,
             (int)process->member_pid);
    pack_init(&pack);
    launch_lost_pack(&pack, &lost);
    agent_send(process->owner, process, FRAME_LOST, &pack);
    pack_fini(&pack);
}

static void down(void *user, struct psd_link *link, psd_status why)
{
    struct process *process = user;

    (void)why;
    link_close(link);
    process->link = NULL;
    process->seat = SEAT_LEFT;
    if (!process->said_bye) {
        send_lost(process);
    }
    agent_member_gone(process->owner);
}

static const struct link_events member_events = { .deliver = deliver,
                                                  .down = down };

static void seat(void *user, const struct message_hello *hello, pid_t pid,
                 int fd)
{
    struct agent *agent = user;
    struct process *process = seat_find(agent, hello->is_server, hello->rank);

    (void)pid;
    process->seat = SEAT_TAKEN;
    if (link_adopt(agent->loop, fd, fd, &member_events, process,
                   &process->link) != PSD_OK) {
        process->link = NULL;
        process->seat = SEAT_FREE;
    }
}

psd_status seat_forward(struct agent *agent, const struct frame_header *header,
                        const void *payload)
{
    bool is_server = (header->flags & FRAME_FLAG_SERVER) != 0;
    struct process *process = seat_find(agent, is_server, header->rank);

    switch (header->type) {
    case FRAME_SHAPE:
    case FRAME_MEMBERS:
    case FRAME_TABLE:
    case FRAME_REGISTERED:
    case FRAME_END:
    case FRAME_LEFT:
    case FRAME_WHO:
        break;
    default:
        log_error("agent: no use for a %s frame",
                  frame_type_name(header->type));
        return PSD_EPROTO;
    }
    if (process != NULL && process->link != NULL) {
        (void)link_send(process->link, header, payload);
    }
    return PSD_OK;
}

psd_status seat_open(struct agent *agent)
{
    struct gate_events events = {
        .user = agent, .judge = judge, .seat = seat, .forget = forget
    };

    return gate_open(agent->loop, agent->path, &agent->regions, &events,
                     &agent->gate);
}
