/*
 * passes.c: every call of poseidon_step.h, with answers that each rank can
 * compute by itself. Run under psd_run in every way that a gradient can go;
 * exits with the line that was wrong.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"

#define PASSES     48
#define SLOTS      12
#define LATER      8 /* slots from this one on are announced in pass 20 */
#define LATER_PASS 20
#define BUFFER     6

struct psd_session *session;
struct psd_step *step;
uint32_t rank;
uint32_t size;

static const uint64_t counts[SLOTS] = {70001, 1,  1000, 7,    20000, 1025,
                                       64,    33, 9,    5000, 2,     600};
static float *data[SLOTS];

float value(uint32_t r, uint32_t pass, uint32_t slot, size_t i)
{
    uint32_t x =
        (uint32_t)i * 2654435761u + r * 40503u + pass * 977u + slot * 7919u;

    return (float)(int32_t)(x ^ (x >> 15)) * 0x1p-31f;
}

/* Rank r's samples in a pass; sometimes none, sometimes nobody has any. */
static double samples(uint32_t r, uint32_t pass)
{
    return pass % 11 == 10 ? 0.0 : (double)((r + pass) % 4);
}

static psd_op op_of(uint32_t pass)
{
    return pass % 5 == 4 ? PSD_OP_SUM : PSD_OP_MEAN;
}

/* Does rank r use the slot? */
static int uses(uint32_t r, uint32_t pass, uint32_t slot)
{
    switch (slot) {
    case 3: /* one rank only, another one each time */
        return r == pass % size;
    case 4: /* nobody for longer than the set remembers */
        return pass < 3 || pass > 30;
    case 5: /* never by anybody */
        return 0;
    case 7: /* now and then */
        return (r + pass) % 3 == 0;
    case 9: /* after it was announced, by the last rank only */
        return pass >= LATER_PASS && r == size - 1;
    default:
        return slot < LATER || pass >= LATER_PASS;
    }
}

static int used_by_any(uint32_t pass, uint32_t slot)
{
    int any = 0;

    for (uint32_t r = 0; r < size; r++) {
        /* A buffer of a worker without samples does not count. */
        any = any ||
              (uses(r, pass, slot) && (slot != BUFFER || samples(r, pass) > 0));
    }
    return any;
}

static float expected(uint32_t pass, uint32_t slot, size_t i)
{
    psd_op op = slot == BUFFER ? PSD_OP_MEAN : op_of(pass);
    double total = 0;
    float sum = 0;
    int first = 1;

    for (uint32_t r = 0; r < size; r++) {
        total += slot != BUFFER || uses(r, pass, slot) ? samples(r, pass) : 0;
    }
    for (uint32_t r = 0; r < size; r++) {
        float w = op == PSD_OP_SUM ? 1.0f : (float)(samples(r, pass) / total);

        if (samples(r, pass) > 0 && uses(r, pass, slot)) {
            float g = w * value(r, pass, slot, i);

            sum = first ? g : sum + g;
            first = 0;
        }
    }
    return sum;
}

/* ---- a pass ------------------------------------------------------------ */

struct part {
    uint32_t pass;
    uint32_t first;
    uint32_t slots;
};

static void *push_part(void *user)
{
    const struct part *part = user;

    for (uint32_t k = part->first; k < part->slots; k += 2) {
        uint32_t slot = part->slots - 1 - k;

        if (uses(rank, part->pass, slot)) {
            CHECK(psd_step_push(step, slot, data[slot]) == PSD_OK);
        }
    }
    return NULL;
}

static void finish(uint64_t flag, uint64_t *flags_p)
{
    uint32_t missing[SLOTS];
    psd_status status;
    unsigned rounds = 0;

    do {
        uint32_t count = psd_step_missing(step, missing);

        CHECK(count <= SLOTS && rounds++ < 3);
        if (count > 0 && rounds == 1) {
            CHECK(psd_step_finish(step, flag, flags_p) == PSD_AGAIN);
        }
        for (uint32_t i = 0; i < count; i++) {
            CHECK(psd_step_room(step, missing[i], data[missing[i]]) == PSD_OK);
        }
        status = psd_step_finish(step, flag, flags_p);
    } while (status == PSD_AGAIN);
    CHECK(status == PSD_OK);
}

static void check_slot(uint32_t pass, uint32_t slot)
{
    int any = used_by_any(pass, slot);

    CHECK(psd_step_outcome(step, slot) ==
          (any ? PSD_STEP_DENSE : PSD_STEP_NOBODY));
    for (size_t i = 0; i < counts[slot]; i++) {
        float right =
            any ? expected(pass, slot, i) : value(rank, pass, slot, i);

        CHECK(memcmp(&data[slot][i], &right, sizeof(right)) == 0);
    }
}

static void one_pass(uint32_t pass, uint32_t slots)
{
    struct part part[2] = {{pass, 0, slots}, {pass, 1, slots}};
    uint64_t flags = 0;
    pthread_t thread;

    for (uint32_t s = 0; s < SLOTS; s++) {
        for (size_t i = 0; i < counts[s]; i++) {
            data[s][i] = value(rank, pass, s, i);
        }
    }
    CHECK(psd_step_begin(step, samples(rank, pass), op_of(pass)) == PSD_OK);
    CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == PSD_EINVAL);
    if (pass % 2 == 0) {
        CHECK(pthread_create(&thread, NULL, push_part, &part[0]) == 0);
        push_part(&part[1]);
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        push_part(&part[0]);
        push_part(&part[1]);
    }
    CHECK(psd_step_push(step, 0, data[0]) == PSD_EINVAL);
    finish(UINT64_C(1) << (rank + pass % 8), &flags);
    CHECK(flags == ((UINT64_C(1) << size) - 1) << pass % 8);
    for (uint32_t s = 0; s < slots; s++) {
        check_slot(pass, s);
    }
}

static void announce(uint32_t from, uint32_t to)
{
    struct psd_slot slots[SLOTS];
    char names[SLOTS][16];
    uint32_t first = UINT32_MAX;

    for (uint32_t s = from; s < to; s++) {
        snprintf(names[s], sizeof(names[s]), "layer%u", s == 2 ? 1 : s);
        slots[s] = (struct psd_slot){
            .name = names[s],
            .dtype = PSD_FLOAT32,
            .kind = s == BUFFER ? PSD_SLOT_BUFFER : PSD_SLOT_GRADIENT,
            .count = counts[s],
        };
    }
    CHECK(psd_step_add(step, slots + from, to - from, &first) == PSD_OK);
    CHECK(first == from);
}

static void dense(int started)
{
    for (uint32_t s = 0; s < SLOTS; s++) {
        size_t bytes = counts[s] * sizeof(float);

        data[s] = s % 2 == 0 ? psd_alloc(session, bytes) : malloc(bytes);
        CHECK(data[s] != NULL);
    }
    announce(0, LATER);
    if (started) {
        CHECK(psd_step_start(step, NULL, NULL, 0) == PSD_OK);
    }
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        if (pass == LATER_PASS) {
            announce(LATER, SLOTS);
        }
        one_pass(pass, pass >= LATER_PASS ? SLOTS : LATER);
    }
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (s % 2 == 0) {
            psd_free(session, data[s]);
        } else {
            free(data[s]);
        }
    }
}

/* ---- the same start ---------------------------------------------------- */

/* Values of the slots' own type, and of others, large and small. */
static void start(void)
{
    static const uint64_t bytes[SLOTS] = {
        70001 * 4, 8, 4000, 7, 200001, 1, 256, 132, 36, 0, 8, 2400};
    void *values[SLOTS];
    uint64_t sizes[SLOTS];
    unsigned char right = 0;

    announce(0, SLOTS);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t s = 0; s < SLOTS; s++) {
            unsigned char *bits = malloc(bytes[s] + 1);

            CHECK(bits != NULL);
            for (size_t i = 0; i < bytes[s]; i++) {
                bits[i] = (unsigned char)(i * 31 + s + rank * 77 + round);
            }
            values[s] = s == 3 ? NULL : bits;
            sizes[s] = bytes[s];
            if (s == 3) {
                free(bits);
            }
        }
        CHECK(psd_step_start(step, values, sizes, SLOTS) == PSD_OK);
        for (uint32_t s = 0; s < SLOTS; s++) {
            for (size_t i = 0; values[s] != NULL && i < bytes[s]; i++) {
                right = (unsigned char)(i * 31 + s + round);
                CHECK(((unsigned char *)values[s])[i] == right);
            }
            free(values[s]);
        }
    }
}

/* ---- one slot at once, digests ------------------------------------------ */

static void now(void)
{
    const void *values[3];
    uint64_t sizes[3];
    float a[9];
    float b[9];
    uint32_t missing[SLOTS];
    uint64_t flags = 1;
    struct psd_slot slots[3] = {
        {.name = "a", .dtype = PSD_FLOAT32, .count = 9},
        {.name = "b", .dtype = PSD_FLOAT32, .count = 9},
        {.name = "c", .dtype = PSD_FLOAT64, .count = 1},
    };
    uint32_t first;

    CHECK(psd_step_add(step, slots, 3, &first) == PSD_OK);
    CHECK(psd_step_now(step, 0, a, 1, PSD_OP_SUM) == PSD_EINVAL);
    CHECK(psd_step_start(step, NULL, NULL, 0) == PSD_OK);
    for (uint32_t pass = 0; pass < 4; pass++) {
        CHECK(psd_step_begin(step, 1, PSD_OP_SUM) == PSD_OK);
        for (uint32_t i = 0; i < 9; i++) {
            a[i] = (float)(rank + 1);
            b[i] = 2;
        }
        CHECK(psd_step_now(step, 0, a, 1, PSD_OP_SUM) == PSD_OK);
        CHECK(a[8] == (float)(size * (size + 1) / 2));
        CHECK(psd_step_push(step, 0, a) == PSD_EINVAL);
        CHECK(psd_step_push(step, 1, b) == PSD_OK);
        CHECK(psd_step_missing(step, missing) == 0);
        CHECK(psd_step_finish(step, 0, &flags) == PSD_OK && flags == 0);
        CHECK(psd_step_outcome(step, 0) == PSD_STEP_DENSE);
        CHECK(a[8] == (float)(size * (size + 1) / 2));
        CHECK(b[8] == (float)(2 * size));
        values[0] = a;
        values[1] = NULL;
        values[2] = b;
        sizes[0] = sizeof(a);
        sizes[1] = 0;
        sizes[2] = sizeof(b);
        CHECK(psd_step_audit(step, values, sizes, 3) == PSD_OK);
    }
    a[0] = (float)rank;
    CHECK(psd_step_now(step, 0, a, 1, PSD_OP_MEAN) == PSD_OK);
    CHECK(fabsf(a[0] - (float)(size - 1) / 2) < 1e-5f);
}

/* ---- not finite --------------------------------------------------------- */

static void bad(void)
{
    struct psd_slot slots[3] = {
        {.name = "a", .dtype = PSD_FLOAT32, .count = 9},
        {.name = "b", .dtype = PSD_FLOAT32, .count = 9},
        {.name = "d", .dtype = PSD_FLOAT32, .count = 9},
    };
    const char *nan = getenv("PSD_NAN");
    int looked_for = size > 1 || (nan != NULL && strcmp(nan, "allow") != 0);
    uint32_t worst = size - 1;
    uint32_t slot = 7;
    uint32_t who = 7;

    CHECK(psd_step_add(step, slots, 3, &slot) == PSD_OK);
    for (uint32_t pass = 0; pass < 4; pass++) {
        float x[3][9] = {{0}};
        int64_t rows[2] = {0, 1};

        if (rank == worst) {
            x[1][3] = pass == 1 ? NAN : 0;
            x[2][1] = pass == 1 || pass == 2 ? INFINITY : 0;
        }
        CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == PSD_OK);
        CHECK(psd_step_push(step, 0, x[0]) == PSD_OK);
        CHECK(psd_step_push(step, 1, x[1]) == PSD_OK);
        CHECK(psd_step_push_sparse(step, 2, rows, 2, 1, x[2], 3) == PSD_OK);
        CHECK(psd_step_finish(step, 0, NULL) == PSD_OK);
        if (!looked_for || pass % 3 == 0) {
            CHECK(psd_step_bad(step, &slot, &who) == 0);
        } else {
            CHECK(psd_step_bad(step, &slot, &who) == 1);
            CHECK(slot == pass && who == worst);
        }
    }
}

/* ---- mistakes ----------------------------------------------------------- */

static void refused(void)
{
    struct psd_slot slot = {.name = "x", .dtype = PSD_INT32, .count = 1};
    float x = 1;
    uint32_t first;
    uint64_t flags;

    CHECK(psd_step_add(step, &slot, 1, &first) == PSD_EINVAL);
    CHECK(strstr(psd_error(session), "slot x") != NULL);
    slot.dtype = PSD_FLOAT32;
    slot.name = "step/a";
    CHECK(psd_step_add(step, &slot, 1, &first) == PSD_EINVAL);
    slot.name = "";
    CHECK(psd_step_add(step, &slot, 1, &first) == PSD_EINVAL);
    slot.name = "x";
    slot.count = 0;
    CHECK(psd_step_add(step, &slot, 1, &first) == PSD_EINVAL);
    slot.count = 1;
    CHECK(psd_step_add(step, &slot, 1, &first) == PSD_OK && first == 0);
    CHECK(psd_step_push(step, 0, &x) == PSD_EINVAL);
    CHECK(psd_step_finish(step, 0, &flags) == PSD_EINVAL);
    CHECK(psd_step_begin(step, -1, PSD_OP_MEAN) == PSD_EINVAL);
    CHECK(psd_step_begin(step, 1, PSD_OP_MAX) == PSD_EINVAL);
    CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == PSD_OK);
    CHECK(psd_step_push(step, 1, &x) == PSD_EINVAL);
    CHECK(psd_step_push(step, 0, NULL) == PSD_EINVAL);
    CHECK(psd_step_room(step, 0, &x) == PSD_EINVAL);
    CHECK(psd_step_push(step, 0, &x) == PSD_OK);
    CHECK(psd_step_finish(step, 0, NULL) == PSD_OK);
    CHECK(x == 1 && psd_step_outcome(step, 0) == PSD_STEP_DENSE);
}

/* The models differ: told by the master, and every later call says so. */
static void differ(int late)
{
    struct psd_slot slot = {.name = "extra", .dtype = PSD_FLOAT32, .count = 4};
    float x[4] = {0};
    uint32_t first;
    psd_status status;

    announce(0, 2);
    if (late) {
        CHECK(psd_step_start(step, NULL, NULL, 0) == PSD_OK);
    }
    if (rank == size - 1) {
        CHECK(psd_step_add(step, &slot, 1, &first) == PSD_OK);
    }
    CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == PSD_OK);
    status = psd_step_finish(step, 0, NULL);
    CHECK(status < 0);
    CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == status);
    CHECK(psd_step_push(step, 0, x) == status);
    CHECK(psd_step_finish(step, 0, NULL) == status);
    CHECK(psd_error(session)[0] != '\0');
    exit(3);
}

/* The slots are the same, the values are not. */
static void differ_start(void)
{
    float x[16] = {0};
    void *values[2] = {x, x};
    uint64_t sizes[2] = {4, rank == 0 ? 8 : 12};

    announce(0, 2);
    CHECK(psd_step_start(step, values, sizes, 2) == PSD_EDIFFER);
    CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == PSD_EDIFFER);
    CHECK(strstr(psd_error(session), "layer1") != NULL);
    exit(3);
}

static void unstarted(void)
{
    dense(0);
}

static void started(void)
{
    dense(1);
}

static void differ_first(void)
{
    differ(0);
}

static void differ_late(void)
{
    differ(1);
}

/* What ends well comes first: without an argument all of it is run, each with
 * a step of its own. */
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"unstarted", unstarted},
    {"dense", started},
    {"start", start},
    {"now", now},
    {"sparse", sparse},
    {"bad", bad},
    {"refused", refused},
    {"differ", differ_first},
    {"differ-late", differ_late},
    {"differ-start", differ_start},
    {"mixed", mixed},
};
#define END_WELL 7

static void run_case(unsigned i)
{
    CHECK(psd_step_open(session, &step) == PSD_OK);
    cases[i].run();
    psd_step_close(step);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (psd_open(&session) != PSD_OK) {
        fprintf(stderr, "passes: %s\n", psd_error(NULL));
        return 99;
    }
    rank = psd_rank(session);
    size = psd_size(session);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(what, cases[i].name) == 0 ||
            (what[0] == '\0' && i < END_WELL)) {
            run_case(i);
        }
    }
    if (rank == 0) {
        printf("passes: all answers right\n");
    }
    psd_close(session);
    return 0;
}
