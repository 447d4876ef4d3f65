/* stall.c: see stall.h. */
#include "master/stall.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "master/master_state.h"

#define PAUSE_NS (CLOCK_NS_PER_S + CLOCK_NS_PER_S / 2) /* between two looks */
#define ANSWER_NS (2 * CLOCK_NS_PER_S)  /* who takes longer is silent */
#define SILENCE_NS (3 * CLOCK_NS_PER_S) /* metrics come every second */

psd_status stall_init(struct stall *stall, uint32_t workers, uint32_t servers)
{
    *stall = (struct stall){ .count = workers + servers };
    stall->seats = mem_zalloc_array(stall->count, sizeof(*stall->seats));
    return stall->seats == NULL ? PSD_ENOMEM : PSD_OK;
}

void stall_fini(struct stall *stall)
{
    mem_free(stall->seats);
    stall->seats = NULL;
}

/* ---- how long is long --------------------------------------------------- */

void stall_heard(struct stall *stall, uint32_t member, uint64_t now_ns)
{
    stall->seats[member].heard_ns = now_ns;
}

void stall_step(struct stall *stall, uint32_t rank, uint64_t step,
                uint64_t now_ns)
{
    struct stall_seat *seat = &stall->seats[rank];

    if (step > seat->step && seat->step_ns != 0) {
        stall->steps_ns[stall->step_count++ % STALL_STEPS] =
            (now_ns - seat->step_ns) / (step - seat->step);
    }
    if (step != seat->step || seat->step_ns == 0) {
        seat->step = step;
        seat->step_ns = now_ns;
    }
}

static uint64_t median_step(const struct stall *stall)
{
    uint32_t count =
        stall->step_count < STALL_STEPS ? stall->step_count : STALL_STEPS;
    uint64_t sorted[STALL_STEPS];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;

        for (; at > 0 && sorted[at - 1] > stall->steps_ns[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = stall->steps_ns[i];
    }
    return count == 0 ? 0 : sorted[count / 2];
}

uint64_t stall_limit(const struct stall *stall)
{
    uint64_t least = MASTER_STALL_S * CLOCK_NS_PER_S;
    uint64_t steps;

    if (stall->after_ns != 0) {
        return stall->after_ns;
    }
    steps = MASTER_STALL_STEPS * median_step(stall);
    return steps > least ? steps : least;
}

void master_stall_after(struct master *master, uint64_t after_ns)
{
    master->stall.after_ns = after_ns;
}

/* ---- telling ------------------------------------------------------------ */

static void send_report(struct master *master)
{
    struct pack pack;

    pack_init(&pack);
    launch_stall_pack(&pack, &master->stall.report);
    master_send_pack(master, NULL, FRAME_STALL, 0, &pack);
    pack_fini(&pack);
}

static void begin_report(struct master *master, enum launch_stall_kind kind,
                         uint64_t since_ns)
{
    struct stall *stall = &master->stall;

    stall->report = (struct launch_stall){ .kind = (uint8_t)kind };
    stall->since_ns = since_ns;
}

static void blame(struct master *master, uint32_t index,
                  enum launch_stall_how how)
{
    struct launch_stall *report = &master->stall.report;
    struct master_member member = master_member(master, index);

    if (report->count == LAUNCH_STALL_MAX) {
        report->more++;
        return;
    }
    report->stalled[report->count++] = (struct launch_stalled){
        .is_server = member.is_server,
        .rank = member.rank,
        .how = (uint8_t)how,
    };
}

static void end_report(struct master *master, uint64_t now)
{
    struct stall *stall = &master->stall;

    stall->report.waited_ms = (now - stall->since_ns) / CLOCK_NS_PER_MS;
    stall->told = true;
    stall->told_ns = now;
    stall->told_key = stall->here_key;
    send_report(master);
}

/* ---- psd_open and psd_register ------------------------------------------ */

static uint32_t workers_in(const struct master *master)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < master->workers; i++) {
        count += master->seats[i].entered;
    }
    return count;
}

/* Does any worker wait there? A number that names the occasion; 0: no. */
static uint64_t here_key(const struct master *master)
{
    if (master->epoch == 0) { /* servers always enter */
        return workers_in(master) > 0 ? 1 : 0;
    }
    if (master->batch.count == 0) {
        return 0;
    }
    return (uint64_t)(batch_first(&master->batch)->number + 1) << 2 |
           (master->placing > 0 ? 3 : 2);
}

static void report_here(struct master *master, uint64_t now)
{
    struct stall *stall = &master->stall;
    bool entering = master->epoch == 0;
    bool placing = !entering && master->placing > 0;
    uint32_t first = placing ? master->workers : 0;
    uint32_t end = entering || placing ? master_member_count(master)
                                       : master->workers;

    begin_report(master,
                 entering  ? LAUNCH_STALL_ENTER
                 : placing ? LAUNCH_STALL_PLACE
                           : LAUNCH_STALL_REGISTER,
                 stall->here_ns);
    for (uint32_t i = first; i < end; i++) {
        const struct master_seat *seat = &master->seats[i];
        bool opens = i >= master->workers && master_all_entered(master);
        bool here = entering  ? seat->entered &&
                                   (!opens || seat->url_count > 0)
                    : placing ? seat->placed
                              : master->batch.sides[i].in;

        if (!here) {
            blame(master, i, LAUNCH_STALL_MISSING);
        }
    }
    stall->report.waiters = entering  ? workers_in(master)
                            : placing ? master->workers
                                      : master->batch.count;
    end_report(master, now);
}

/* ---- questions ---------------------------------------------------------- */

static bool is_in(const struct master_seat *seat)
{
    return seat->entered && !seat->left && !seat->lost;
}

static void ask(struct master *master, uint32_t trigger,
                const struct message_who *who, uint64_t now)
{
    struct stall *stall = &master->stall;
    struct pack pack;

    stall->asking = true;
    stall->question++;
    stall->asked_ns = now;
    stall->trigger = trigger;
    stall->who = *who;
    pack_init(&pack);
    message_who_pack(&pack, who);
    for (uint32_t i = 0; i < stall->count; i++) {
        struct master_member member = master_member(master, i);

        stall->seats[i].asked = is_in(member.seat);
        stall->seats[i].answered = false;
        if (stall->seats[i].asked) {
            master_send_pack(master, &member, FRAME_WHO, stall->question,
                             &pack);
        }
    }
    pack_fini(&pack);
}

static bool is_silent(const struct master *master, uint32_t index)
{
    const struct stall_seat *seat = &master->stall.seats[index];

    return seat->asked && !seat->answered && is_in(&master->seats[index]);
}

/* Workers of which all of this is true are to blame; how many? */
static uint32_t blame_all(struct master *master, enum standing_part part,
                          bool waiting, enum launch_stall_how how)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < master->workers; i++) {
        const struct stall_seat *seat = &master->stall.seats[i];

        if (seat->answered && seat->standing.part == part &&
            (seat->standing.waiting != 0) == waiting) {
            blame(master, i, how);
            count++;
        }
    }
    return count;
}

/* Everybody has done its part and waits: whose shard should have answered? */
static void blame_shard(struct master *master, uint32_t shard)
{
    if (shard == STANDING_NO_SHARD) {
        return;
    }
    if (master->servers > 0) {
        if (shard / master->threads < master->servers) {
            blame(master, master->workers + shard / master->threads,
                  LAUNCH_STALL_SUSPECT);
        }
    } else if (shard < master->workers) {
        blame(master, shard, LAUNCH_STALL_SUSPECT);
    }
}

/* Those who do not answer, and those who have not done their part though
 * nobody keeps them from it; only if there are none, others. */
static void blame_stuck(struct master *master)
{
    struct stall *stall = &master->stall;

    for (uint32_t i = 0; i < stall->count; i++) {
        if (is_silent(master, i)) {
            blame(master, i, LAUNCH_STALL_SAYS_NOTHING);
        }
    }
    if (stall->who.what == STANDING_NONE) {
        return;
    }
    (void)blame_all(master, STANDING_MISSING, false, LAUNCH_STALL_MISSING);
    if (stall->report.count == 0 &&
        blame_all(master, STANDING_MISSING, true, LAUNCH_STALL_WAITS) == 0 &&
        blame_all(master, STANDING_GIVEN, false, LAUNCH_STALL_IDLE) == 0) {
        blame_shard(master, stall->seats[stall->trigger].stuck.shard);
    }
}

static bool waits_for(const struct stall_seat *seat,
                      const struct message_who *who)
{
    return seat->stuck.what == who->what && seat->stuck.step == who->step &&
           seat->stuck.tensor == who->tensor;
}

static void report_stuck(struct master *master, uint64_t now)
{
    struct stall *stall = &master->stall;
    const struct stall_seat *trigger = &stall->seats[stall->trigger];
    uint64_t since = trigger->since_ns;

    if (stall->who.what == STANDING_NONE) {
        begin_report(master, LAUNCH_STALL_SILENT, trigger->heard_ns);
    } else if (stall->who.what == STANDING_JOIN) {
        begin_report(master, LAUNCH_STALL_JOIN, since);
    } else {
        begin_report(master, LAUNCH_STALL_TENSOR, since);
        stall->report.step = stall->who.step;
        stall->report.tensors = trigger->stuck.tensors;
        if (stall->who.tensor < master->model.tensor_count) {
            snprintf(stall->report.tensor, sizeof(stall->report.tensor), "%s",
                     master->model.tensors[stall->who.tensor].name);
        }
    }
    for (uint32_t i = 0; i < master->workers; i++) {
        stall->report.waiters += stall->seats[i].stuck.what != STANDING_NONE &&
                                 is_in(&master->seats[i]);
    }
    blame_stuck(master);
    end_report(master, now);
}

/* All have answered, or had their time. */
static void decide(struct master *master, uint64_t now)
{
    struct stall *stall = &master->stall;
    struct stall_seat *trigger = &stall->seats[stall->trigger];

    stall->asking = false;
    if (stall->who.what == STANDING_NONE) {
        if (is_silent(master, stall->trigger)) {
            report_stuck(master, now);
        }
        return;
    }
    if (!waits_for(trigger, &stall->who) ||
        !is_in(&master->seats[stall->trigger])) {
        return; /* it has moved on, and said so */
    }
    if (trigger->answered && (trigger->standing.part == STANDING_PAST ||
                              trigger->standing.waiting == 0)) {
        trigger->stuck.what = STANDING_NONE; /* and is about to say so */
        return;
    }
    report_stuck(master, now);
}

static bool all_answered(const struct master *master)
{
    for (uint32_t i = 0; i < master->stall.count; i++) {
        if (is_silent(master, i)) {
            return false;
        }
    }
    return true;
}

void stall_who(struct master *master, const struct master_member *from,
               const struct frame_header *header, const void *payload)
{
    struct stall *stall = &master->stall;
    struct stall_seat *seat = &stall->seats[from->seat - master->seats];
    struct message_standing standing;

    if (message_standing_unpack(&standing, payload, header->size) != PSD_OK) {
        master_end_protocol(master, from, "a standing that cannot be read");
        return;
    }
    if (master->over || !stall->asking || header->block != stall->question ||
        !seat->asked) {
        return; /* late */
    }
    seat->standing = standing;
    seat->answered = true;
    if (all_answered(master)) {
        decide(master, clock_ns());
    }
}

/* ---- who waits ---------------------------------------------------------- */

void stall_stuck(struct master *master, const struct master_member *from,
                 const struct frame_header *header, const void *payload)
{
    struct stall_seat *seat = &master->stall.seats[from->seat - master->seats];
    uint64_t now = clock_ns();

    if (from->is_server ||
        message_stuck_unpack(&seat->stuck, payload, header->size) != PSD_OK) {
        seat->stuck.what = STANDING_NONE;
        master_end_protocol(master, from, "a wait that cannot be read");
        return;
    }
    seat->since_ns =
        now - (seat->stuck.waited_ns < now ? seat->stuck.waited_ns : now);
}

/* The worker that has waited longest, beyond the limit; of a join only when
 * nobody waits for a tensor. */
static uint32_t longest(const struct master *master, uint64_t now)
{
    const struct stall *stall = &master->stall;
    uint64_t limit = stall_limit(stall);
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < master->workers; i++) {
        const struct stall_seat *seat = &stall->seats[i];

        if (seat->stuck.what == STANDING_NONE || !is_in(&master->seats[i]) ||
            now - seat->since_ns < limit) {
            continue;
        }
        if (found == UINT32_MAX ||
            seat->stuck.what < stall->seats[found].stuck.what ||
            (seat->stuck.what == stall->seats[found].stuck.what &&
             seat->since_ns < stall->seats[found].since_ns)) {
            found = i;
        }
    }
    return found;
}

static uint32_t most_silent(const struct master *master, uint64_t now)
{
    const struct stall *stall = &master->stall;
    uint64_t limit = stall_limit(stall);
    uint32_t found = UINT32_MAX;

    limit = limit > SILENCE_NS ? limit : SILENCE_NS;
    for (uint32_t i = 0; i < master->workers; i++) {
        if (is_in(&master->seats[i]) &&
            now - stall->seats[i].heard_ns >= limit &&
            (found == UINT32_MAX ||
             stall->seats[i].heard_ns < stall->seats[found].heard_ns)) {
            found = i;
        }
    }
    return found;
}

static void look_for_one(struct master *master, uint64_t now)
{
    struct stall *stall = &master->stall;
    uint32_t trigger = longest(master, now);
    struct message_who who = { .what = STANDING_NONE };

    if (stall->here_key != 0 && now - stall->here_ns >= stall_limit(stall)) {
        report_here(master, now);
        return;
    }
    if (trigger != UINT32_MAX) {
        who.what = stall->seats[trigger].stuck.what;
        who.tensor = stall->seats[trigger].stuck.tensor;
        who.step = stall->seats[trigger].stuck.step;
    } else {
        trigger = most_silent(master, now);
    }
    if (trigger != UINT32_MAX) {
        ask(master, trigger, &who, now);
    }
}

/* Is what psd_run was told over? */
static bool is_over(const struct master *master)
{
    const struct stall *stall = &master->stall;
    const struct stall_seat *trigger = &stall->seats[stall->trigger];

    switch (stall->report.kind) {
    case LAUNCH_STALL_ENTER:
    case LAUNCH_STALL_REGISTER:
    case LAUNCH_STALL_PLACE:
        return stall->here_key != stall->told_key;
    case LAUNCH_STALL_SILENT:
        return trigger->heard_ns > stall->told_ns;
    default:
        return !waits_for(trigger, &stall->who) ||
               !is_in(&master->seats[stall->trigger]);
    }
}

/* Note what has ended by `now`. */
static void look_back(struct master *master, uint64_t now)
{
    struct stall *stall = &master->stall;
    uint64_t key = here_key(master);

    if (key != stall->here_key) {
        stall->here_key = key;
        stall->here_ns = now;
    }
    if (!master->over && stall->told && is_over(master)) {
        stall->told = false;
        stall->report.kind = LAUNCH_STALL_OVER;
        stall->report.waited_ms = (now - stall->since_ns) / CLOCK_NS_PER_MS;
        send_report(master);
    }
}

void stall_last(struct master *master)
{
    look_back(master, clock_ns());
}

void master_tick(struct master *master)
{
    struct stall *stall = &master->stall;
    uint64_t now = clock_ns();
    bool paused = now - stall->tick_ns > PAUSE_NS;

    stall->tick_ns = now;
    look_back(master, now);
    if (master->over) {
        return;
    }
    if (paused) {
        stall->asked_ns = now; /* who could have answered meanwhile? */
    } else if (stall->asking) {
        if (now - stall->asked_ns >= ANSWER_NS) {
            decide(master, now);
        }
    } else if (!stall->told) {
        look_for_one(master, now);
    }
}
