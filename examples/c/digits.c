/*
 * digits.c: a network learns to read handwritten digits, alone or in company.
 *
 *     build/examples/digits                          alone
 *     build/bin/psd_run -n 4 build/examples/digits   four workers
 *
 * Nothing below asks which of the two it is. Every step takes the same global
 * batch; each worker computes the gradient of its slice of it, and the mean
 * over all workers, weighted by the rows of each slice, is the gradient of the
 * whole batch. The same number of workers gives the same bits every time;
 * another number adds in another order, so that the parameters differ by
 * rounding: by less than 1e-5 after the 60 epochs, and the accuracy by less
 * than 1 %. (tanh is smooth; ReLU's kink would turn a rounding now and then
 * into another path.) Poseidon is at [1] to [8]; the rest is plain C.
 */
#define _GNU_SOURCE
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "poseidon.h"

enum { IMAGES = 1797, TRAIN = 1437, PIXELS = 64, CLASSES = 10 };
enum { LAYERS = 3, WIDEST = 128, BATCH = 128 };
static const int width[LAYERS + 1] = { PIXELS, 128, 64, CLASSES };
static const float rate = 0.05F, momentum = 0.9F;

/* A layer's weights (in x out) and then its biases (out) are one tensor. */
static struct layer {
    int in, out;
    size_t count;
    float param[(WIDEST + 1) * WIDEST], velocity[(WIDEST + 1) * WIDEST];
    float result[IMAGES * WIDEST]; /* rows x out: what the next layer sees */
    float *grad;
    psd_tensor tensor;
    psd_ticket ticket;
} layers[LAYERS];

static struct psd_session *session;
static float image[IMAGES][PIXELS], input[IMAGES * PIXELS];
static int digit[IMAGES], label[IMAGES];
static int order[IMAGES]; /* the first TRAIN are learnt, the rest are tested */

/* One worker that cannot go on ends the job for all, with a reason. */
static void stop(const char *what, const char *why)
{
    fprintf(stderr, "digits: %s: %s\n", what, why);
    if (session != NULL) {
        psd_abort(session, 1, why);
    }
    exit(1);
}

static void check(psd_status status, const char *what)
{
    if (status != PSD_OK) {
        stop(what, psd_error(session));
    }
}

/* The same numbers for every worker, so that all shuffle alike. */
static uint32_t dice(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33);
}

static void shuffle(int count, uint64_t *seed)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(dice(seed) % (uint32_t)(i + 1));
        int kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
}

static void load(const char *path)
{
    FILE *file = fopen(path, "r");

    for (int i = 0; file != NULL && i < IMAGES; i++) {
        for (int p = 0; p < PIXELS; p++) {
            if (fscanf(file, "%f,", &image[i][p]) != 1) {
                stop(path, "this is not digits.csv");
            }
            image[i][p] /= 16;
        }
        if (fscanf(file, "%d", &digit[i]) != 1 || digit[i] < 0 ||
            digit[i] >= CLASSES) {
            stop(path, "this is not digits.csv");
        }
        order[i] = i;
    }
    if (file == NULL || fclose(file) != 0) {
        stop(path, "cannot be read; --data says where digits.csv is");
    }
}

static void build(void)
{
    static const char *const name[LAYERS] = { "first", "second", "third" };
    uint64_t seed = psd_rank(session); /* they differ: see the broadcast */

    for (int l = 0; l < LAYERS; l++) {
        struct layer *layer = &layers[l];
        struct psd_spec spec = { .name = name[l], .dtype = PSD_FLOAT32 };
        float scale = sqrtf(3.0F / (float)width[l]);

        layer->in = width[l];
        layer->out = width[l + 1];
        layer->count = (size_t)((layer->in + 1) * layer->out);
        for (int i = 0; i < layer->in * layer->out; i++) {
            layer->param[i] = scale * ((float)dice(&seed) * 0x1p-30F - 1);
        }
        /* [2] Gradients in the shared arena are averaged where they lie. */
        layer->grad = psd_alloc(session, layer->count * sizeof(float));
        if (layer->grad == NULL) {
            stop("alloc", "out of memory");
        }
        /* [3] The next step needs the front layers first. */
        spec.count = layer->count;
        spec.priority = LAYERS - l;
        check(psd_register(session, &spec, 1, &layer->tensor), "register");
        /* [4] All start from the parameters of worker 0. */
        check(psd_broadcast(session, layer->tensor, layer->param, 0),
              "broadcast");
    }
}

/* Images order[first], order[first + 1], ... become `input` and `label`. */
static void collect(int first, int rows)
{
    for (int r = 0; r < rows; r++) {
        memcpy(input + r * PIXELS, image[order[first + r]], sizeof(image[0]));
        label[r] = digit[order[first + r]];
    }
}

static void forward(int rows)
{
    const float *from = input;

    for (int l = 0; l < LAYERS; l++) {
        struct layer *layer = &layers[l];
        const float *bias = layer->param + layer->in * layer->out;

        for (int r = 0; r < rows; r++) {
            memcpy(layer->result + r * layer->out, bias,
                   (size_t)layer->out * sizeof(float));
        }
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows,
                    layer->out, layer->in, 1, from, layer->in, layer->param,
                    layer->out, 1, layer->result, layer->out);
        for (int i = 0; l < LAYERS - 1 && i < rows * layer->out; i++) {
            layer->result[i] = tanhf(layer->result[i]);
        }
        from = layer->result;
    }
}

/* The scores become the derivative of the loss, the mean over `rows`. */
static double softmax(float *score, int rows)
{
    double loss = 0;

    for (int r = 0; r < rows; r++, score += CLASSES) {
        float top = score[0], sum = 0;

        for (int c = 1; c < CLASSES; c++) {
            top = fmaxf(top, score[c]);
        }
        for (int c = 0; c < CLASSES; c++) {
            score[c] = expf(score[c] - top);
            sum += score[c];
        }
        loss -= log(fmax((double)(score[label[r]] / sum), 1e-30)) / rows;
        for (int c = 0; c < CLASSES; c++) {
            score[c] = (score[c] / sum - (float)(c == label[r])) /
                       (float)rows;
        }
    }
    return loss;
}

/* On the way down each layer's `result` becomes the derivative by it. */
static void backward(int rows)
{
    static float from[BATCH * WIDEST];

    for (int l = LAYERS - 1; l >= 0; l--) {
        struct layer *layer = &layers[l];
        float *below = l > 0 ? layers[l - 1].result : input;
        float *bias = layer->grad + layer->in * layer->out;
        struct psd_push_args args = { .data = layer->grad, .weight = rows };

        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer->in,
                    layer->out, rows, 1, below, layer->in, layer->result,
                    layer->out, 0, layer->grad, layer->out);
        memset(bias, 0, (size_t)layer->out * sizeof(float));
        for (int i = 0; i < rows * layer->out; i++) {
            bias[i % layer->out] += layer->result[i];
        }
        /* [5] This gradient is complete: off it goes, while the layers below
         * are still being computed. A slice of no rows weighs nothing. */
        check(psd_push(session, layer->tensor, &args, &layer->ticket), "push");
        if (l > 0) {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows,
                        layer->in, layer->out, 1, layer->result, layer->out,
                        layer->param, layer->out, 0, from, layer->in);
        }
        for (int i = 0; l > 0 && i < rows * layer->in; i++) {
            below[i] = from[i] * (1 - below[i] * below[i]);
        }
    }
}

static void update(void)
{
    for (int l = 0; l < LAYERS; l++) {
        struct layer *layer = &layers[l];

        /* [6] From here on `grad` is the mean over all workers. */
        check(psd_wait(session, layer->ticket, NULL), "wait");
        for (size_t i = 0; i < layer->count; i++) {
            layer->velocity[i] =
                momentum * layer->velocity[i] + layer->grad[i];
            layer->param[i] -= rate * layer->velocity[i];
        }
        /* [7] The master can prove that all replicas are equal. */
        check(psd_audit(session, layer->tensor, layer->param,
                        layer->count * sizeof(float)), "audit");
    }
}

/* One epoch. The last batch is a smaller one, and slices may be uneven. */
static uint64_t train(uint64_t step, double *loss_p)
{
    int rank = (int)psd_rank(session), size = (int)psd_size(session);

    for (int start = 0; start < TRAIN; start += BATCH, step++) {
        int batch = TRAIN - start < BATCH ? TRAIN - start : BATCH;
        int first = start + batch * rank / size;
        int rows = start + batch * (rank + 1) / size - first;

        collect(first, rows);
        forward(rows);
        *loss_p = softmax(layers[LAYERS - 1].result, rows);
        backward(rows);
        update();
        /* [8] What psd_run shows while the job runs. */
        check(psd_metrics(session, step, rows > 0 ? *loss_p : (double)NAN,
                          (uint64_t)rows), "metrics");
    }
    return step;
}

static double accuracy(void)
{
    const float *score = layers[LAYERS - 1].result;
    int right = 0;

    collect(TRAIN, IMAGES - TRAIN);
    forward(IMAGES - TRAIN);
    for (int r = 0; r < IMAGES - TRAIN; r++, score += CLASSES) {
        int best = 0;

        for (int c = 1; c < CLASSES; c++) {
            best = score[c] > score[best] ? c : best;
        }
        right += best == label[r];
    }
    return 100.0 * right / (IMAGES - TRAIN);
}

/* FNV-1a of all parameters, which go to `path` on the way unless NULL. */
static uint64_t checksum(const char *path)
{
    FILE *file = path == NULL ? NULL : fopen(path, "wb");
    uint64_t hash = 14695981039346656037U;

    for (int l = 0; l < LAYERS; l++) {
        const unsigned char *byte = (const unsigned char *)layers[l].param;
        size_t size = layers[l].count * sizeof(float);

        for (size_t i = 0; i < size; i++) {
            hash = (hash ^ byte[i]) * 1099511628211U;
        }
        if (file != NULL && fwrite(byte, size, 1, file) != 1) {
            stop(path, "cannot be written");
        }
    }
    if (path != NULL && (file == NULL || fclose(file) != 0)) {
        stop(path, "cannot be written");
    }
    return hash;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    char data[4096] = "";
    const char *model = NULL;
    uint64_t seed = 1998, step = 0;
    double loss = 0, seconds;
    int epochs = 60, leader;

    /* The images lie beside the program unless --data says otherwise. */
    if (readlink("/proc/self/exe", data, sizeof(data) - 12) > 0) {
        memcpy(strrchr(data, '/') + 1, "digits.csv", 11);
    }
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--data") == 0) {
            snprintf(data, sizeof(data), "%s", argv[i + 1]);
        } else if (i + 1 < argc && strcmp(argv[i], "--model") == 0) {
            model = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--epochs") == 0) {
            epochs = (int)strtol(argv[i + 1], NULL, 10);
        } else {
            stop("usage", "digits [--data CSV] [--model FILE] [--epochs N]");
        }
    }
    openblas_set_num_threads(1);
    /* [1] A member of the job under psd_run, a job of one otherwise. */
    check(psd_open(&session), "open");
    leader = psd_rank(session) == 0;
    load(data);
    shuffle(IMAGES, &seed);
    build();
    seconds = now();
    for (int epoch = 0; epoch < epochs; epoch++) {
        shuffle(TRAIN, &seed);
        step = train(step, &loss);
    }
    seconds = now() - seconds;
    if (leader) {
        printf("digits: %llu steps in %.2f s, %.0f samples/s, loss %.4f\n",
               (unsigned long long)step, seconds, epochs * TRAIN / seconds,
               loss);
        printf("digits: test accuracy %.2f %%\n", accuracy());
    }
    /* Each worker says which bits it holds; psd_run keeps every output. */
    printf("digits: worker %u of %u holds model %016llx\n", psd_rank(session),
           psd_size(session),
           (unsigned long long)checksum(leader ? model : NULL));
    psd_close(session);
    return 0;
}
