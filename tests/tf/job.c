/*
 * job.c: workers of a job that use the TensorFlow ops on the stand-in runtime;
 * job_standin.py runs it under psd_run: tf_job PLUGIN SCENE. Prints what it
 * got; ends with 3 when an op failed, and what it said.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

#define BIG 300000

static uint32_t rank;
static uint32_t size;

static const struct psd_tf_spec first[] = {
    { .key = "a", .dtype = TF_FLOAT, .count = 4 },
    { .key = "b", .dtype = TF_FLOAT, .count = BIG },
    { .key = "e",
      .dtype = TF_HALF,
      .kind = PSD_TF_SPARSE,
      .count = 2,
      .rows = 3 },
};
static const struct psd_tf_spec second[] = {
    { .key = "c", .dtype = TF_FLOAT, .count = 4 },
};
static const char *const ab[] = { "a", "b" };
static const char *const c[] = { "c" };

static void must(bool good, const char *what)
{
    if (!good) {
        printf("failed: %s: %s %s\n", what, rig_said, rig.error());
        fflush(stdout);
        _exit(3);
    }
}

static TF_Tensor *push(const char *key, int64_t run, float value, int64_t count)
{
    TF_Tensor *out =
        rig_push(&(struct rig_push){ .key = key, .run = run, .weight = -1 },
                 rig_same(value, count));

    must(out != NULL, key);
    return out;
}

/* One whole step of the first group: value + rank from each worker. */
static void step(int64_t run, float value)
{
    TF_Tensor *outs[2];

    /* The ranks push in different orders. */
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t k = (i + rank) % 2;

        outs[k] = push(ab[k], run, value + (float)rank, k == 0 ? 4 : BIG);
    }
    must(rig_wait("opt0", ab, 2, outs, false), "wait");
    printf("step %g", (double)((float *)TF_TensorData(outs[1]))[BIG - 1]);
    TF_DeleteTensor(outs[1]);
    printf(" %g\n", (double)rig_first(outs[0]));
}

static void step_second(int64_t run)
{
    TF_Tensor *out = push("c", run, (float)rank, 4);

    must(rig_wait("opt1", c, 1, &out, false), "wait");
    printf("second %g\n", (double)rig_first(out));
}

/* ---- scenes ------------------------------------------------------------ */

static void scene_mean(void)
{
    for (int64_t run = 1; run <= 5; run++) {
        step(run, (float)run);
    }
    rig.step(rank == 0 ? 3 : 1, PSD_OP_MEAN);
    step(6, 0);
    rig.step(1, PSD_OP_SUM);
    step(7, 0);
}

static void scene_broadcast(void)
{
    TF_Tensor *outs[2] = { rig_same((float)rank + 5, 4),
                           rig_same((float)rank + 7, BIG) };

    must(rig_broadcast(ab, 2, outs), "broadcast");
    printf("broadcast %g %g\n", (double)rig_first(outs[0]),
           (double)rig_first(outs[1]));
}

/* Rank r has 4 r + 1 rows, of the index 10 r and value 1; weights 1, 3, ... */
static void scene_sparse(void)
{
    static const char *const keys[] = { "e" };

    for (int64_t run = 1; run <= 2; run++) {
        int64_t rows = run == 1 ? (int64_t)rank * 4 + 1 : 0;
        const int64_t dims[] = { rows, 2 };
        uint16_t ones[64];
        int64_t at[32];
        TF_Tensor *token, *values, *indices;

        for (int i = 0; i < 64; i++) {
            ones[i] = 0x3c00; /* 1.0 */
            at[i / 2] = (int64_t)rank * 10;
        }
        token = rig_push_sparse(
            &(struct rig_push){ .key = "e",
                                .run = run,
                                .op = "mean",
                                .weight = (double)rank * 2 + 1 },
            standin_reshape(standin_tensor(TF_HALF, rows * 2, 2, ones), 2,
                            dims),
            standin_tensor(TF_INT64, rows, 8, at));
        must(token != NULL && rig_wait("opt0", keys, 1, &token, false) &&
                 rig_take("e", token, standin_tensor(TF_INT64, rows, 8, at),
                          false, &values, &indices),
             "sparse");
        printf("rows");
        for (int64_t i = 0; i < TF_Dim(values, 0); i++) {
            printf(" %lld:%04x",
                   (long long)((int64_t *)TF_TensorData(indices))[i],
                   ((uint16_t *)TF_TensorData(values))[2 * i + 1]);
        }
        printf("\n");
        TF_DeleteTensor(values);
        TF_DeleteTensor(indices);
    }
}

/* Every worker leaves step 2, each after other pushes, of two groups. */
static void scene_left_by_all(void)
{
    int32_t at[8] = { 0 };
    const int64_t dims[] = { 8, 2 };
    uint16_t zero[16] = { 0 };

    step(1, 1);
    step_second(1);
    TF_DeleteTensor(push("a", 2, 100, 4));
    TF_DeleteTensor(push("c", 2, 100, 4));
    if (rank == 0) {
        TF_DeleteTensor(push("b", 2, 100, BIG));
        TF_DeleteTensor(rig_push_sparse(
            &(struct rig_push){ .key = "e", .run = 2 },
            standin_reshape(standin_tensor(TF_HALF, 16, 2, zero), 2, dims),
            standin_tensor(TF_INT32, 8, 4, at)));
    }
    /* The next run begins with one group here and with the other there. */
    if (rank == 0) {
        step(3, 3);
        step_second(3);
    } else {
        TF_Tensor *out = push("c", 3, (float)rank, 4);

        step(3, 3);
        must(rig_wait("opt1", c, 1, &out, false), "wait");
        printf("second %g\n", (double)rig_first(out));
    }
    step(4, 4);
}

/* Rank 1 leaves step 1 and goes on, the others finish it. */
static void scene_left_by_one(void)
{
    step(1, 1);
    if (rank == 1) {
        TF_DeleteTensor(push("a", 2, 2, 4));
        step(3, 3);
    }
    step(2, 2);
    step(3, 3);
}

static void scene_left_and_settled(void)
{
    step(1, 1);
    TF_DeleteTensor(push("a", 2, 2, 4));
    must(rig.settle() == PSD_OK, "settle");
    must(rig.settle() == PSD_OK, "settle again");
    step(3, 3);
}

static void scene_left_and_ended(void)
{
    step(1, 1);
    if (rank == 1) {
        TF_DeleteTensor(push("a", 2, 2, 4));
        exit(0); /* no psd_close */
    }
    step(2, 2);
}

/* The run of some workers fails behind the wait. */
static void scene_spoiled(bool all)
{
    uint64_t steps = rig.steps("opt0");

    step(1, 1);
    rig.spoil("opt0", steps + 1); /* that run had finished none */
    step(2, 2);
    if (all || rank == 1) {
        rig.spoil("opt0", steps + 1);
    }
    step(3, 3);
    step(4, 4);
}

static void scene_spoiled_by_all(void)
{
    scene_spoiled(true);
}

static void scene_spoiled_by_one(void)
{
    scene_spoiled(false);
}

/* Rank 1 has a NaN: the wait fails everywhere, and the step is over. */
static void scene_nan(void)
{
    TF_Tensor *out;

    rig.stop_at_nan(1);
    step(1, 1);
    out = push("a", 2, rank == 1 ? NAN : 2, 4);
    must(!rig_wait("opt0", ab, 1, &out, false), "wait");
    printf("%s\n", rig_said);
    step(3, 3);
}

/* A tensor that is smaller on one worker is refused there, before anything is
 * sent; the job ends with it. */
static void scene_different(void)
{
    TF_Tensor *out = rig_push(&(struct rig_push){ .key = "a", .run = 1 },
                              rig_same(1, rank == 1 ? 3 : 4));

    must(out != NULL, "push");
    must(rig_wait("opt0", ab, 1, &out, false), "wait");
    TF_DeleteTensor(out);
}

static const struct {
    const char *name;
    void (*call)(void);
} scenes[] = {
    { "mean", scene_mean },
    { "broadcast", scene_broadcast },
    { "sparse", scene_sparse },
    { "left-by-all", scene_left_by_all },
    { "left-by-one", scene_left_by_one },
    { "left-and-settled", scene_left_and_settled },
    { "left-and-ended", scene_left_and_ended },
    { "spoiled-by-all", scene_spoiled_by_all },
    { "spoiled-by-one", scene_spoiled_by_one },
    { "nan", scene_nan },
    { "different", scene_different },
};

int main(int argc, char **argv)
{
    struct psd_session *session;
    long before;

    standin_no_memory(false); /* so that the linker keeps the library */
    if (argc != 3 || !rig_load(argv[1], &rig)) {
        return 2;
    }
    before = standin_live();
    session = rig_open();
    if (session == NULL) {
        return 2;
    }
    rank = psd_rank(session);
    size = psd_size(session);
    must(rig.add("opt0", first, 3) == PSD_OK, "register");
    must(rig.add("opt1", second, 1) == PSD_OK, "register");
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        if (strcmp(scenes[i].name, argv[2]) == 0) {
            scenes[i].call();
            rig_close(session);
            printf("left over: %ld of %u workers\n", standin_live() - before,
                   size);
            return 0;
        }
    }
    return 2;
}
