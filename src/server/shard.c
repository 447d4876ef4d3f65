/*
 * shard.c: slots, rounds and answers; see shard.h. The slots' memory is taken
 * in shard_memory.c.
 */
#include "server/shard.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"

static struct shard_rank *rank_of(struct shard *shard,
                                  const struct psd_link *link)
{
    return &shard->rank[link->identity.rank];
}

/* Where this shard keeps `rank`'s part of a block when it comes by value. */
static char *slot_memory(const struct shard *shard, uint32_t index,
                         uint32_t rank)
{
    return shard->blocks[shard->local[index] - 1].buffer +
           (size_t)rank * shard->model->blocks[index].size;
}

/* ---- answers ----------------------------------------------------------- */

/* What an answer by frame carries. Ranks that step apart have one each: it
 * must last while others push. */
static char *result_of(const struct shard *shard, uint32_t rank,
                       uint32_t index)
{
    const struct shard_block *block =
        &shard->blocks[shard->local[index] - 1];

    return block->policy->apart ? slot_memory(shard, index, rank)
                                : block->result;
}

static void answer_header(const struct shard *shard, uint32_t rank,
                          uint32_t index, struct frame_header *header)
{
    uint32_t local = shard->local[index] - 1;
    const struct shard_block *block = &shard->blocks[local];
    const struct shard_slot *slot = &block->slots[rank];
    bool apart = block->policy->apart;

    *header = (struct frame_header){
        .type = FRAME_ANSWER,
        .epoch = shard->epoch,
        .block = index,
        .step = tally_step(&block->tally, rank) - 1,
        .flags = block->result_flags,
        .weight = apart ? slot->weight > 0.0 : block->contributors,
        .rank = (uint16_t)rank,
        .ranks = (uint16_t)(apart ? slot->bad : block->bad),
        .length = block->result_length,
    };
}

/* A joined rank follows the count of steps until it is told that all are. */
static bool follows(const struct shard_rank *rank)
{
    return rank->joined != 0 && !rank->joined_sent;
}

/* Answer one block to one rank. */
static psd_status answer_send(struct shard *shard, uint32_t rank,
                              uint32_t index)
{
    const struct shard_block *block =
        &shard->blocks[shard->local[index] - 1];
    const struct shard_slot *slot = &block->slots[rank];
    struct psd_link *link = shard->rank[rank].link;
    struct frame_header header;
    const char *payload = result_of(shard, rank, index);

    answer_header(shard, rank, index, &header);
    if (follows(&shard->rank[rank])) {
        header.flags = FRAME_FLAG_FOLLOW;
        header.step = tally_step(&block->tally, rank);
        header.ranks = 0;
        header.length = 0;
    } else if (slot->answer != NULL) {
        header.flags |= FRAME_FLAG_INPLACE;
        header.length = 0;
    }
    if (header.length == 0) {
        payload = NULL;
    } else if (!link->mapped) {
        header.size = header.length;
    }
    return link_send(link, &header, payload);
}

static void joined_send(struct shard *shard, uint32_t rank)
{
    struct shard_rank *to = &shard->rank[rank];
    struct frame_header header = {
        .type = FRAME_JOINED,
        .epoch = shard->epoch,
        .step = to->joined - 1,
        .rank = (uint16_t)rank,
    };

    if (follows(to) && to->joined <= shard->generation &&
        to->sched.count == 0) {
        to->joined_sent = link_send(to->link, &header, NULL) == PSD_OK;
    }
}

/* Send what is most urgent until the link pushes back. */
static void pump_rank(struct shard *shard, uint32_t rank)
{
    struct shard_rank *to = &shard->rank[rank];
    uint32_t index;

    if (to->link == NULL) {
        return;
    }
    while ((index = sched_peek(&to->sched)) != UINT32_MAX) {
        if (answer_send(shard, rank, index) != PSD_OK) {
            break;
        }
        to->queued[shard->local[index] - 1] = 0;
        sched_pop(&to->sched);
    }
    joined_send(shard, rank);
    link_flush_large(to->link);
}

static void answer_queue(struct shard *shard, uint32_t rank, uint32_t index)
{
    struct shard_rank *to = &shard->rank[rank];
    uint32_t local = shard->local[index] - 1;
    const struct model *model = shard->model;

    if (to->link != NULL && !to->queued[local]) {
        to->queued[local] = 1;
        sched_put(&to->sched, index,
                  model->tensors[model->blocks[index].tensor].priority);
    }
}

/* ---- rounds ------------------------------------------------------------ */

static void round_fill(struct shard *shard, struct shard_block *block,
                       uint32_t index)
{
    struct reduce_round *round = &shard->round;
    char *by_frame = NULL;

    round->tensor =
        &shard->model->tensors[shard->model->blocks[index].tensor];
    round->size = shard->model->blocks[index].size;
    round->step = block->tally.step;
    round->value = block->value;
    round->outputs = 0;
    for (uint32_t r = 0; r < shard->ranks; r++) {
        const struct shard_slot *slot = &block->slots[r];
        struct reduce_rank *rank = &round->rank[r];

        *rank = (struct reduce_rank){ .data = NULL };
        if (!rankset_has(&block->tally.arrived, r)) {
            continue; /* joined */
        }
        if (slot->answer != NULL) {
            round->output[round->outputs++] = slot->answer;
        } else {
            by_frame = result_of(shard, r, index);
        }
        rank->weight = slot->weight;
        rank->op = slot->op;
        if ((slot->flags & FRAME_FLAG_ABSENT) == 0) {
            rank->data = slot->data;
            rank->length = slot->length;
        }
    }
    if (by_frame != NULL) {
        round->output[round->outputs++] = by_frame;
    }
}

/* The next one begins: of all, or of those who were in it. */
static void close_round(struct shard_block *block, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks && block->policy->apart; r++) {
        if (rankset_has(&block->tally.arrived, r)) {
            block->slots[r].bad = block->bad;
            block->tally.turn[r]++;
        }
    }
    block->tally.step++;
    memset(&block->tally.arrived, 0, sizeof(block->tally.arrived));
}

/* Also called when a worker joins: its absence may complete the round. */
static void settle(struct shard *shard, uint32_t index)
{
    struct shard_block *block = &shard->blocks[shard->local[index] - 1];
    const struct rankset arrived = block->tally.arrived;

    if (!block->policy->complete(&block->tally)) {
        return;
    }
    round_fill(shard, block, index);
    reduce_run(&shard->round);                     /* aggregate, apply */
    block->result_flags = shard->round.flags;
    block->result_length = shard->round.length;
    block->contributors = shard->round.contributors;
    block->bad = shard->round.bad;
    close_round(block, shard->ranks);
    for (uint32_t r = 0; r < shard->ranks; r++) {  /* answer */
        if (!block->policy->apart || rankset_has(&arrived, r)) {
            answer_queue(shard, r, index);
        }
    }
}

static void pump_all(struct shard *shard)
{
    /* Start behind the own index, so that receivers are not swamped. */
    for (uint32_t i = 0; i < shard->ranks; i++) {
        uint32_t rank = (shard->index + 1 + i) % shard->ranks;

        if (shard->rank[rank].sched.count > 0) {
            pump_rank(shard, rank);
        }
    }
}

/* ---- pushes ------------------------------------------------------------ */

static psd_status check_push(const struct shard *shard,
                             const struct frame_header *header)
{
    const struct model_tensor *tensor;
    uint32_t size;
    bool absent = (header->flags & FRAME_FLAG_ABSENT) != 0;

    if (header->block >= shard->local_count ||
        shard->local[header->block] == 0) {
        log_error("shard: block %" PRIu32 " is not served here",
                  header->block);
        return PSD_EPROTO;
    }
    size = shard->model->blocks[header->block].size;
    tensor =
        &shard->model->tensors[shard->model->blocks[header->block].tensor];
    if (absent && header->size != 0) {
        log_error("shard: an absent push with %" PRIu32 " bytes for %s",
                  header->size, tensor->name);
        return PSD_EPROTO;
    }
    if (!absent && (tensor->kind == PSD_KIND_GATHER
                        ? header->length > size
                        : header->length != size)) {
        log_error("shard: a push of %" PRIu32 " bytes for %s",
                  header->length, tensor->name);
        return PSD_EPROTO;
    }
    if (absent && header->weight == 0.0) {
        return PSD_OK;
    }
    if (!(absent ? reduce_zeros_fit(tensor, header->op)
                 : reduce_op_fits(tensor, header->op)) ||
        !reduce_weight_fits(header->weight)) {
        log_error("shard: a push with op %u and weight %g for %s", header->op,
                  header->weight, tensor->name);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

static bool is_new(const struct shard *shard, const struct shard_rank *from,
                   uint32_t rank, const struct frame_header *header)
{
    const struct psd_tally *tally =
        &shard->blocks[shard->local[header->block] - 1].tally;

    return header->epoch == shard->epoch &&
           header->incarnation == from->incarnation &&
           header->step == tally_step(tally, rank) &&
           !rankset_has(&tally->arrived, rank);
}

static psd_status on_place(void *user, struct psd_link *link,
                           const struct frame_header *header, void **to_p)
{
    struct shard *shard = user;
    uint32_t rank = link->identity.rank;
    psd_status status;

    if (header->type != FRAME_PUSH) {
        log_error("shard: a worker sent a %s frame with a payload",
                  frame_type_name(header->type));
        return PSD_EPROTO;
    }
    status = check_push(shard, header);
    if (status != PSD_OK) {
        return status;
    }
    *to_p = is_new(shard, rank_of(shard, link), rank, header)
                ? slot_memory(shard, header->block, rank)
                : NULL;
    return PSD_OK;
}

/* Where an answer in place goes; see reduce.h for GATHER. */
static char *answer_place(const struct shard *shard,
                          const struct frame_header *header, char *span)
{
    const struct model_block *block = &shard->model->blocks[header->block];

    if ((header->flags & FRAME_FLAG_INPLACE) == 0 || span == NULL) {
        return NULL;
    }
    if (shard->model->tensors[block->tensor].kind == PSD_KIND_GATHER) {
        return span - reduce_gather_size(shard->ranks, block->size);
    }
    return span;
}

/* One push, into the slot of its rank. Nothing is added here: the order of
 * arrival must not reach the result. */
static psd_status on_push(struct shard *shard, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload)
{
    uint32_t rank = link->identity.rank;
    struct shard_block *block;
    struct shard_slot *slot;
    bool thrown;
    psd_status status = check_push(shard, header);

    if (status != PSD_OK) {
        return status;
    }
    block = &shard->blocks[shard->local[header->block] - 1];
    if (header->epoch != shard->epoch ||
        header->incarnation != shard->rank[rank].incarnation) {
        log_debug("shard: a push of epoch %" PRIu32 " is refused",
                  header->epoch);
        return PSD_OK;
    }
    /* What came before its time was thrown away, see on_place. */
    thrown = !link->mapped && payload == NULL && header->length > 0;
    if (thrown ||
        !block->policy->accept(&block->tally, rank, header->step)) {
        if (header->step + 1 == tally_step(&block->tally, rank)) {
            answer_queue(shard, rank, header->block); /* it was lost */
            pump_rank(shard, rank);
        }
        return PSD_OK;
    }
    shard->rank[rank].joined_sent = true; /* it is past any join */
    slot = &block->slots[rank];
    *slot = (struct shard_slot){
        .data = link->mapped ? (char *)(uintptr_t)payload
                             : slot_memory(shard, header->block, rank),
        .weight = header->weight,
        .length = header->length,
        .flags = header->flags,
        .op = header->op,
    };
    if (link->mapped) {
        slot->answer = answer_place(shard, header, slot->data);
    }
    settle(shard, header->block);
    pump_all(shard);
    return PSD_OK;
}

/* ---- joining ----------------------------------------------------------- */

static void everyone_back(struct shard *shard)
{
    for (uint32_t r = 0; r < shard->ranks; r++) {
        if (shard->rank[r].joined <= shard->generation) {
            return;
        }
    }
    shard->generation++;
    for (uint32_t r = 0; r < shard->ranks; r++) {
        rankset_add(&shard->live, r);
        pump_rank(shard, r);
    }
}

static psd_status on_join(struct shard *shard, struct psd_link *link,
                          const struct frame_header *header)
{
    uint32_t rank = link->identity.rank;
    struct shard_rank *from = &shard->rank[rank];

    if (header->epoch != shard->epoch) {
        return PSD_OK; /* refused, as a push would be */
    }
    if (header->step > shard->generation) {
        log_error("shard: worker %" PRIu32 " joins out of turn", rank);
        return PSD_EPROTO;
    }
    if (header->step + 1 >= from->joined) {
        from->joined = (uint32_t)header->step + 1;
        from->joined_sent = false;
    }
    if (from->joined > shard->generation) {
        rankset_remove(&shard->live, rank);
    }
    for (uint32_t b = 0; b < shard->local_count; b++) {
        if (shard->local[b] != 0) {
            answer_queue(shard, rank, b);
            settle(shard, b);
        }
    }
    pump_rank(shard, rank);
    everyone_back(shard);
    pump_all(shard);
    return PSD_OK;
}

/* ---- links ------------------------------------------------------------- */

static psd_status on_deliver(void *user, struct psd_link *link,
                             const struct frame_header *header,
                             const void *payload)
{
    struct shard *shard = user;
    psd_status status;

    mem_path_enter();
    switch (header->type) {
    case FRAME_PUSH:
        status = on_push(shard, link, header, payload);
        break;
    case FRAME_JOIN:
        status = on_join(shard, link, header);
        break;
    default:
        log_error("shard: a worker sent a %s frame",
                  frame_type_name(header->type));
        status = PSD_EPROTO;
    }
    mem_path_leave();
    return status;
}

static void on_ready(void *user, struct psd_link *link)
{
    pump_rank(user, link->identity.rank);
}

static void rank_unlink(struct shard_rank *rank, uint32_t block_count)
{
    rank->past_sent += rank->link->sent_bytes;
    rank->past_received += rank->link->received_bytes;
    link_close(rank->link);
    rank->link = NULL;
    rank->sched.count = 0;
    if (block_count > 0) {
        memset(rank->queued, 0, block_count);
    }
}

static void on_down(void *user, struct psd_link *link, psd_status why)
{
    struct shard *shard = user;
    struct shard_rank *rank = rank_of(shard, link);
    uint32_t number = link->identity.rank;

    if (rank->link != link) {
        return;
    }
    log_info("shard: link of worker %" PRIu32 " is down (%s)", number,
             psd_status_text(why));
    rank_unlink(rank, shard->block_count);
    if (why == PSD_EPROTO && shard->wrong != NULL) {
        shard->wrong(shard->user, number);
    }
}

static void on_up(void *user, struct psd_link *link)
{
    (void)user;
    (void)link;
}

const struct link_events shard_link_events = {
    .place = on_place,
    .deliver = on_deliver,
    .ready = on_ready,
    .up = on_up,
    .down = on_down,
};

enum auth_verdict shard_accept(struct shard *shard, struct psd_link *link)
{
    struct shard_rank *rank;

    if (link->identity.rank >= shard->ranks ||
        link->identity.shard != shard->index) {
        return AUTH_REFUSED_SHARD;
    }
    rank = rank_of(shard, link);
    if (link->identity.incarnation < rank->incarnation) {
        return AUTH_REFUSED_SHARD;
    }
    if (rank->link != NULL) {
        rank_unlink(rank, shard->block_count);
    }
    rank->link = link;
    rank->incarnation = link->identity.incarnation;
    link->events = &shard_link_events;
    link->user = shard;
    link->turn = link_turn(shard->index, link->identity.rank, shard->ranks);
    return AUTH_WELCOME;
}

bool shard_busy(const struct shard *shard)
{
    for (uint32_t r = 0; r < shard->ranks; r++) {
        if (shard->rank[r].link != NULL &&
            (shard->rank[r].sched.count > 0 ||
             link_pending(shard->rank[r].link) > 0)) {
            return true;
        }
    }
    return false;
}

void shard_traffic(const struct shard *shard, uint64_t *sent_p,
                   uint64_t *received_p)
{
    for (uint32_t r = 0; r < shard->ranks; r++) {
        const struct psd_link *link = shard->rank[r].link;

        *sent_p += shard->rank[r].past_sent;
        *received_p += shard->rank[r].past_received;
        if (link != NULL && !link->mapped) {
            *sent_p += link->sent_bytes;
            *received_p += link->received_bytes;
        }
    }
}

bool shard_complete(const struct shard *shard)
{
    for (uint32_t r = 0; r < shard->ranks; r++) {
        if (shard->rank[r].link == NULL) {
            return false;
        }
    }
    return true;
}
