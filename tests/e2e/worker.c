/*
 * worker.c: a worker for the end-to-end tests: `worker MODE`. Prints what the
 * library says when a call fails and returns 3 then.
 */
#include <poseidon.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT 1000
#define FAILED 3

static struct psd_session *session;
static psd_tensor tensor;
static float gradient[COUNT];

static void check(psd_status status, const char *call)
{
    if (status == PSD_OK) {
        return;
    }
    fprintf(stderr, "worker: %s: %s: %s\n", call, psd_status_name(status),
            psd_error(session));
    exit(FAILED);
}

static void setup(uint64_t count)
{
    struct psd_spec spec = { .name = "fc.weight", .dtype = PSD_FLOAT32 };

    check(psd_open(&session), "open");
    spec.count = count;
    check(psd_register(session, &spec, 1, &tensor), "register");
}

/* One step, and proof that the mean is right. */
static void step(uint64_t number)
{
    float want = 0;

    for (uint32_t i = 0; i < psd_size(session); i++) {
        want += (float)(i + number);
    }
    want /= (float)psd_size(session);
    for (int i = 0; i < COUNT; i++) {
        gradient[i] = (float)(psd_rank(session) + number);
    }
    check(psd_push_pull(session, tensor, gradient, 1.0, PSD_OP_MEAN, NULL),
          "push_pull");
    if (gradient[0] < want - 0.001f * want - 0.001f ||
        gradient[0] > want + 0.001f * want + 0.001f) {
        fprintf(stderr, "worker: step %llu gave %g, not %g\n",
                (unsigned long long)number, (double)gradient[0],
                (double)want);
        exit(4);
    }
    psd_audit(session, tensor, gradient, sizeof(gradient));
    psd_metrics(session, number, 1.0 / (double)(number + 1), 8);
}

static int train(const char *mode)
{
    (void)mode;
    setup(COUNT);
    for (uint64_t i = 0; i < 50; i++) {
        step(i);
    }
    psd_close(session);
    printf("trained\n");
    return 0;
}

/* Until the job ends, or for a second; says "ready" once it trains. With
 * "slow" worker 1 takes three times as long for a step. */
static int loop(const char *mode)
{
    uint64_t steps = strcmp(mode, "long") == 0 ? 1000 : UINT64_MAX;
    const char *rank = getenv("PSD_RANK");
    useconds_t pause = 1000;

    if (strcmp(mode, "stubborn") == 0) {
        signal(SIGTERM, SIG_IGN);
    }
    if (strcmp(mode, "slow") == 0) {
        pause = rank != NULL && strcmp(rank, "1") == 0 ? 60000 : 20000;
    }
    setup(COUNT);
    for (uint64_t i = 0; i < steps; i++) {
        step(i);
        if (i == 3) {
            printf("ready\n");
            fflush(stdout);
        }
        usleep(pause);
    }
    psd_close(session);
    printf("trained\n");
    return 0;
}

/* As `loop`, with descendants that try hard to stay. */
static int brood(const char *mode)
{
    if (fork() == 0) {
        setsid();
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        if (fork() == 0) {
            setsid();
            if (fork() != 0) {
                _exit(0);
            }
        }
        for (;;) {
            pause();
        }
    }
    return loop(mode);
}

static int diff_model(const char *mode)
{
    const char *rank = getenv("PSD_RANK");

    (void)mode;
    setup(rank != NULL && strcmp(rank, "1") == 0 ? 900 : COUNT);
    return 0;
}

static int diff_bits(const char *mode)
{
    (void)mode;
    setup(COUNT);
    for (uint64_t i = 0; i < UINT64_MAX; i++) {
        gradient[0] = psd_rank(session) == 1 && i >= 5 ? 1.5f : 1.0f;
        psd_audit(session, tensor, gradient, sizeof(gradient));
        check(psd_barrier(session), "barrier");
        usleep(20000);
    }
    return 0;
}

static int abort_job(const char *mode)
{
    (void)mode;
    setup(COUNT);
    for (uint64_t i = 0;; i++) {
        step(i);
        if (psd_rank(session) == 1 && i == 10) {
            psd_abort(session, 9, "the data are gone");
            psd_close(session);
            return 1;
        }
    }
}

#define FDS 256 /* nobody opens more here */

/* The port of a TCP socket that listens, or does not; 0: it is none such. */
static unsigned port_of(int fd, int listens)
{
    struct sockaddr_in address = { .sin_family = AF_UNSPEC };
    socklen_t size = sizeof(address);
    int is = -1;
    socklen_t is_size = sizeof(is);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &is_size) != 0 ||
        is != listens ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        address.sin_family != AF_INET) {
        return 0;
    }
    return ntohs(address.sin_port);
}

/* On every link that this process has opened; those that it has accepted have
 * the port of its listener. */
static void send_garbage(void)
{
    char noise[64];
    unsigned listener = 0;

    memset(noise, 0xaa, sizeof(noise));
    for (int fd = 0; fd < FDS && listener == 0; fd++) {
        listener = port_of(fd, 1);
    }
    for (int fd = 0; fd < FDS; fd++) {
        unsigned port = port_of(fd, 0);

        if (port != 0 && port != listener &&
            send(fd, noise, sizeof(noise), MSG_NOSIGNAL) < 0) {
            perror("worker: send");
        }
    }
}

static int garbage(const char *mode)
{
    (void)mode;
    setup(COUNT);
    for (uint64_t i = 0; i < 1000; i++) {
        step(i);
        if (psd_rank(session) == 1 && i == 10) {
            send_garbage();
        }
    }
    return 0;
}

/* Rank 1 ends in its own way, the others go on. */
static int desert(const char *mode)
{
    const char *rank = getenv("PSD_RANK");
    int one = rank != NULL && strcmp(rank, "1") == 0;

    if (one && strcmp(mode, "no-join") == 0) {
        return 0;
    }
    setup(COUNT);
    for (uint64_t i = 0;; i++) {
        step(i);
        if (!one || i < 10) {
            continue;
        }
        if (strcmp(mode, "leave") == 0) {
            psd_close(session);
            return 0;
        }
        if (strcmp(mode, "crash") == 0) {
            fprintf(stderr, "about to crash\n");
            signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own idea */
            raise(SIGSEGV);
        }
        if (strcmp(mode, "exit-five") == 0) {
            fprintf(stderr, "no more memory\n");
            _exit(5);
        }
        _exit(0); /* exit-early */
    }
}

/* Every process claims to be rank 0. */
static int same_rank(const char *mode)
{
    psd_status status;

    (void)mode;
    setenv("PSD_RANK", "0", 1);
    status = psd_open(&session);
    fprintf(stderr, "open: %s: %s\n", psd_status_name(status),
            psd_error(NULL));
    return status == PSD_OK ? 0 : FAILED;
}

static int alone(const char *mode)
{
    (void)mode;
    check(psd_open(&session), "open");
    printf("alone: %u of %u\n", (unsigned)psd_rank(session),
           (unsigned)psd_size(session));
    psd_close(session);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*call)(const char *mode);
    } modes[] = {
        { "train", train },         { "loop", loop },
        { "long", loop },           { "slow", loop },
        { "stubborn", loop },       { "brood", brood },
        { "diff-model", diff_model }, { "diff-bits", diff_bits },
        { "abort", abort_job },     { "exit-early", desert },
        { "exit-five", desert },    { "crash", desert },
        { "leave", desert },        { "no-join", desert },
        { "same-rank", same_rank }, { "alone", alone },
        { "garbage", garbage },
    };

    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            return modes[i].call(argv[1]);
        }
    }
    fprintf(stderr, "worker: what shall I do?\n");
    return 2;
}
