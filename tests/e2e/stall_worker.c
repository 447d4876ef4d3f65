/*
 * stall_worker.c: a worker for the tests of stalls: `stall_worker MODE
 * [SECONDS]`. Rank 1 keeps the others waiting for so long (for ever when not
 * given), in the way that the mode says; then all go on and end well.
 */
#include <poseidon.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000
#define LARGE (4u << 20) /* elements: private memory that its owner keeps */

static struct psd_session *session;
static psd_tensor tensors[2];
static float *values[2];
static unsigned pause_s = 100000;
static int is_one; /* this is rank 1 */

static void check(psd_status status, const char *call)
{
    if (status != PSD_OK) {
        fprintf(stderr, "stall_worker: %s: %s: %s\n", call,
                psd_status_name(status), psd_error(session));
        exit(3);
    }
}

static void hold(const char *mode, const char *here)
{
    if (is_one && strcmp(mode, here) == 0) {
        printf("held\n");
        fflush(stdout);
        sleep(pause_s);
    }
}

static void step(int which)
{
    check(psd_push_pull(session, tensors[which], values[which], 1.0,
                        PSD_OP_MEAN, NULL),
          "push_pull");
}

/* Everybody pushes; rank 1 does not come to wait for it. */
static void push_and_leave(const char *mode)
{
    struct psd_push_args args = { .data = values[1], .weight = 1.0,
                                  .op = PSD_OP_MEAN };
    psd_ticket ticket;

    check(psd_push(session, tensors[1], &args, &ticket), "push");
    hold(mode, "idle");
    check(psd_wait(session, ticket, NULL), "wait");
}

/* Each waits for what the other has not pushed. */
static void cross(void)
{
    step(is_one ? 1 : 0);
}

static void everybody_sleeps(void)
{
    for (int i = 0; i < 3; i++) {
        step(0);
        sleep(pause_s);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const char *rank = getenv("PSD_RANK");
    struct psd_spec specs[2] = {
        { .name = "fc.weight", .dtype = PSD_FLOAT32, .count = COUNT },
        { .name = "big", .dtype = PSD_FLOAT32, .count = LARGE },
    };

    is_one = rank != NULL && strcmp(rank, "1") == 0;
    if (argc > 2) {
        pause_s = (unsigned)strtoul(argv[2], NULL, 10);
    }
    values[0] = calloc(COUNT, sizeof(float));
    values[1] = calloc(LARGE, sizeof(float));
    hold(mode, "open");
    check(psd_open(&session), "open");
    hold(mode, "register");
    check(psd_register(session, specs, 2, tensors), "register");
    for (int i = 0; i < 10; i++) {
        step(0);
        psd_metrics(session, (uint64_t)i, 1.0, 8);
    }
    printf("ready\n");
    fflush(stdout);
    hold(mode, "push");
    if (strcmp(mode, "idle") == 0) {
        push_and_leave(mode);
    } else if (strcmp(mode, "cross") == 0) {
        cross();
    } else if (strcmp(mode, "all") == 0) {
        everybody_sleeps();
    }
    step(0);
    hold(mode, "barrier");
    check(psd_barrier(session), "barrier");
    hold(mode, "join");
    check(psd_join(session), "join");
    psd_close(session);
    printf("trained\n");
    return 0;
}
