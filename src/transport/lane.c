/* lane.c: see lane.h. */
#include "transport/lane.h"

#include "base/log.h"
#include "base/mem.h"

static struct lane_frame *frame_at(struct lane *lane, uint32_t index)
{
    return &lane->frames[(lane->head + index) % LINK_FRAMES_MAX];
}

void lane_frame_free(struct lane_frame *frame)
{
    if (frame->owned) {
        mem_free((void *)(uintptr_t)frame->payload);
        frame->owned = false;
    }
    frame->payload = NULL;
}

static psd_status frame_fill(struct lane_frame *frame,
                             const struct frame_header *header,
                             const void *payload, bool copy)
{
    void *bytes = NULL;

    if (header->size > 0 && copy) {
        unsigned depth = mem_path_pause(); /* spans are never copied */

        bytes = mem_zalloc(header->size);
        mem_path_resume(depth);
        if (bytes == NULL) {
            return PSD_ENOMEM;
        }
        memcpy(bytes, payload, header->size);
    }
    frame->header = *header;
    frame->header.version = WIRE_VERSION;
    frame->payload = copy ? bytes : payload;
    frame->owned = bytes != NULL;
    return PSD_OK;
}

psd_status lane_push(struct lane *lane, const struct frame_header *header,
                     const void *payload, bool copy, uint64_t due_ns,
                     uint64_t turn)
{
    struct lane_frame *frame = frame_at(lane, lane->count);
    psd_status status;

    if (lane->count == LINK_FRAMES_MAX) {
        return PSD_AGAIN;
    }
    status = frame_fill(frame, header, payload, copy);
    if (status != PSD_OK) {
        return status;
    }
    frame->due_ns = due_ns;
    frame->turn = turn;
    lane->count++;
    return PSD_OK;
}

void lane_echo(struct lane *lane, uint32_t later)
{
    struct lane_frame *frame = frame_at(lane, lane->count - 1);

    if (lane->has_echo ||
        frame_fill(&lane->echo, &frame->header, frame->payload,
                   frame->owned) != PSD_OK) {
        return;
    }
    lane->echo.due_ns = frame->due_ns;
    lane->echo.turn = frame->turn;
    lane->echo_after = lane->count + later;
    lane->has_echo = true;
}

static bool is_due(const struct lane_frame *frame, uint64_t turn,
                   uint64_t now_ns)
{
    return frame->turn < turn && frame->due_ns <= now_ns;
}

bool lane_take(struct lane *lane, uint64_t turn, uint64_t now_ns, bool idle,
               struct lane_frame *frame_p)
{
    if (lane->has_echo && is_due(&lane->echo, turn, now_ns) &&
        (lane->echo_after == 0 || (idle && lane->count == 0))) {
        *frame_p = lane->echo;
        lane->has_echo = false;
        return true;
    }
    if (lane->count == 0 || !is_due(frame_at(lane, 0), turn, now_ns)) {
        return false;
    }
    *frame_p = *frame_at(lane, 0);
    lane->head = (lane->head + 1) % LINK_FRAMES_MAX;
    lane->count--;
    if (lane->has_echo && lane->echo_after > 0) {
        lane->echo_after--;
    }
    return true;
}

uint64_t lane_next_ns(const struct lane *lane)
{
    if (lane->has_echo && (lane->echo_after == 0 || lane->count == 0)) {
        return lane->echo.due_ns;
    }
    return lane->count == 0 ? UINT64_MAX : lane->frames[lane->head].due_ns;
}

static void drop_echo(struct lane *lane)
{
    if (lane->has_echo) {
        lane_frame_free(&lane->echo);
        lane->has_echo = false;
    }
}

static void truncate_to(struct lane *lane, uint32_t keep)
{
    while (lane->count > keep) {
        lane->count--;
        lane_frame_free(frame_at(lane, lane->count));
    }
    drop_echo(lane);
}

void lane_clear(struct lane *lane)
{
    truncate_to(lane, 0);
}

void lane_forget_spans(struct lane *lane)
{
    uint32_t keep = 0;

    while (keep < lane->count && (frame_at(lane, keep)->payload == NULL ||
                                  frame_at(lane, keep)->owned)) {
        keep++;
    }
    truncate_to(lane, keep);
}
