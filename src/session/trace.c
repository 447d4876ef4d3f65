/*
 * trace.c: see trace.h. Spans are kept as they end, in one array; text is made
 * of them only when the session closes. Each tensor gets a row of its own in
 * the viewer, below the threads, so that exchanges that overlap are seen side
 * by side with what the program computes meanwhile.
 */
#define _GNU_SOURCE
#include "session/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define PATH_SIZE   4096
#define ROW_FIRST   0x1000000u /* of tensors: above every thread's number */
#define THREADS_MAX 64         /* that get a name */

struct span {
    uint64_t begin_ns;
    uint64_t end_ns; /* 0: a mark that has not ended */
    uint32_t thread;
    uint32_t what; /* a tensor; MARK: a name */
    uint32_t step;
    uint32_t kind;
};

struct trace {
    pthread_mutex_t lock;
    char path[PATH_SIZE];
    uint32_t rank;
    bool over; /* all that is wanted is there */
    uint64_t dropped;
    uint32_t span_count;
    struct span *spans;
    uint32_t open_count;
    uint32_t open[TRACE_OPEN_MAX]; /* spans, the innermost last */
    uint32_t name_count;
    char names[TRACE_NAMES_MAX][TRACE_NAME_MAX];
};

uint64_t trace_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

psd_status trace_open(struct trace **trace_p, const char *folder, uint32_t rank,
                      char *error, size_t error_size)
{
    struct trace *trace;

    if (access(folder, W_OK | X_OK) != 0) {
        snprintf(error, error_size,
                 "PSD_TRACE is set, but no trace can be written to %s: %s; "
                 "PSD_LOG_DIR names the folder",
                 folder, strerror(errno));
        return PSD_EENV;
    }
    trace = mem_zalloc(sizeof(*trace));
    if (trace == NULL) {
        return PSD_ENOMEM;
    }
    trace->spans = mem_map(TRACE_SPANS_MAX * sizeof(*trace->spans));
    if (trace->spans == NULL) {
        mem_free(trace);
        return PSD_ENOMEM;
    }
    pthread_mutex_init(&trace->lock, NULL);
    trace->rank = rank;
    snprintf(trace->path, sizeof(trace->path), "%s/trace.w%" PRIu32 ".json",
             folder, rank);
    *trace_p = trace;
    return PSD_OK;
}

/* ---- recording --------------------------------------------------------- */

static uint32_t this_thread(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* Under lock. */
static bool append(struct trace *trace, const struct span *span)
{
    if (trace->over) {
        return false;
    }
    if (trace->span_count == TRACE_SPANS_MAX) {
        trace->dropped++;
        return false;
    }
    trace->spans[trace->span_count++] = *span;
    return true;
}

void trace_span(struct trace *trace, enum trace_kind kind, uint32_t tensor,
                uint64_t step, uint64_t began)
{
    struct span span = {
        .begin_ns = began,
        .end_ns = trace_clock(),
        .thread = kind == TRACE_EXCHANGE ? ROW_FIRST + tensor : this_thread(),
        .what = tensor,
        .step = (uint32_t)step,
        .kind = kind,
    };

    pthread_mutex_lock(&trace->lock);
    trace->over |= step >= TRACE_STEPS;
    (void)append(trace, &span);
    pthread_mutex_unlock(&trace->lock);
}

/* Under lock. */
static uint32_t name_index(struct trace *trace, const char *name)
{
    char text[TRACE_NAME_MAX];

    snprintf(text, sizeof(text), "%s", name);
    for (uint32_t i = 0; i < trace->name_count; i++) {
        if (strcmp(trace->names[i], text) == 0) {
            return i;
        }
    }
    if (trace->name_count == TRACE_NAMES_MAX) {
        return TRACE_NAMES_MAX;
    }
    memcpy(trace->names[trace->name_count], text, sizeof(text));
    return trace->name_count++;
}

static void mark_begin(struct trace *trace, const struct span *span)
{
    if (trace->open_count == TRACE_OPEN_MAX) {
        trace->dropped++;
    } else if (append(trace, span)) {
        trace->open[trace->open_count++] = trace->span_count - 1;
    }
}

/* The one that began last, and all that began inside. */
static void mark_end(struct trace *trace, const struct span *span)
{
    uint32_t from = trace->open_count;
    uint32_t kept;

    for (uint32_t i = 0; i < trace->open_count; i++) {
        const struct span *open = &trace->spans[trace->open[i]];

        if (open->thread == span->thread && open->what == span->what) {
            from = i;
        }
    }
    kept = from;
    for (uint32_t i = from; i < trace->open_count; i++) {
        struct span *open = &trace->spans[trace->open[i]];

        if (open->thread == span->thread) {
            open->end_ns = span->begin_ns;
        } else {
            trace->open[kept++] = trace->open[i];
        }
    }
    trace->open_count = kept;
}

void trace_mark(struct trace *trace, const char *name, bool begin)
{
    struct span span = {
        .begin_ns = trace_clock(),
        .thread = this_thread(),
        .kind = TRACE_MARK,
    };

    pthread_mutex_lock(&trace->lock);
    span.what = name_index(trace, name);
    if (begin) {
        mark_begin(trace, &span);
    } else {
        mark_end(trace, &span);
    }
    pthread_mutex_unlock(&trace->lock);
}

/* ---- writing ----------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at `text`; 0: it is none. */
static unsigned utf8_size(const unsigned char *text)
{
    unsigned size = text[0] < 0x80   ? 1
                    : text[0] < 0xc2 ? 0
                    : text[0] < 0xe0 ? 2
                    : text[0] < 0xf0 ? 3
                    : text[0] < 0xf5 ? 4
                                     : 0;

    for (unsigned i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((text[0] == 0xe0 && text[1] < 0xa0) ||
        (text[0] == 0xed && text[1] >= 0xa0) ||
        (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] >= 0x90)) {
        return 0; /* too long, a surrogate, too large */
    }
    return size;
}

/* The inside of a JSON string. */
static void put_text(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        unsigned size = utf8_size(at);

        if (*at == '"' || *at == '\\') {
            fprintf(file, "\\%c", *at);
        } else if (*at < 0x20) {
            fprintf(file, "\\u%04x", *at);
        } else if (size == 0) {
            fputc('?', file);
        } else {
            fwrite(at, 1, size, file);
        }
        at += size == 0 ? 1 : size;
    }
}

static const char *tensor_name(const struct model *model, uint32_t tensor)
{
    return tensor < model->tensor_count ? model->tensors[tensor].name : "?";
}

static void put_span_name(FILE *file, const struct trace *trace,
                          const struct model *model, const struct span *span)
{
    switch ((enum trace_kind)span->kind) {
    case TRACE_EXCHANGE:
        put_text(file, tensor_name(model, span->what));
        return;
    case TRACE_PUSH:
    case TRACE_WAIT:
        fputs(span->kind == TRACE_PUSH ? "push " : "wait ", file);
        put_text(file, tensor_name(model, span->what));
        return;
    case TRACE_WAIT_ALL:
        fputs("wait for all", file);
        return;
    case TRACE_MARK:
        put_text(file, span->what < trace->name_count ? trace->names[span->what]
                                                      : "other");
        return;
    }
}

static void put_span(FILE *file, const struct trace *trace,
                     const struct model *model, const struct span *span,
                     uint64_t now)
{
    static const char *const words[] = {"exchange", "push", "wait", "wait",
                                        "mark"};
    uint64_t end = span->end_ns == 0 ? now : span->end_ns;
    uint64_t length = end > span->begin_ns ? end - span->begin_ns : 0;

    fputs(",\n{\"name\":\"", file);
    put_span_name(file, trace, model, span);
    fprintf(file,
            "\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%" PRIu64
            ".%03u,\"dur\":%" PRIu64 ".%03u,\"pid\":%" PRIu32
            ",\"tid\":%" PRIu32,
            words[span->kind], span->begin_ns / 1000,
            (unsigned)(span->begin_ns % 1000), length / 1000,
            (unsigned)(length % 1000), trace->rank, span->thread);
    if (span->kind == TRACE_EXCHANGE && span->what < model->tensor_count) {
        fprintf(file, ",\"args\":{\"step\":%" PRIu32 ",\"bytes\":%" PRIu64 "}",
                span->step, model->tensors[span->what].size);
    }
    fputc('}', file);
}

/* How a row is called and where it stands: threads first, then the tensors in
 * the order of their registration. */
static void put_row(FILE *file, const struct trace *trace, uint32_t row,
                    uint32_t place, const char *before, const char *name)
{
    fprintf(file,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRIu32
            ",\"tid\":%" PRIu32 ",\"args\":{\"name\":\"%s",
            trace->rank, row, before);
    put_text(file, name);
    fprintf(
        file,
        "\"}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%" PRIu32
        ",\"tid\":%" PRIu32 ",\"args\":{\"sort_index\":%" PRIu32 "}}",
        trace->rank, row, place);
}

static void put_threads(FILE *file, const struct trace *trace)
{
    uint32_t seen[THREADS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < trace->span_count; i++) {
        uint32_t thread = trace->spans[i].thread;
        uint32_t k = 0;
        char number[32];

        while (k < count && seen[k] != thread) {
            k++;
        }
        if (k < count || thread >= ROW_FIRST || count == THREADS_MAX) {
            continue;
        }
        seen[count++] = thread;
        snprintf(number, sizeof(number), "%" PRIu32, thread);
        put_row(file, trace, thread, count,
                thread == (uint32_t)getpid() ? "main thread " : "thread ",
                number);
    }
}

static void put_tensors(FILE *file, const struct trace *trace,
                        const struct model *model)
{
    uint8_t *used = mem_zalloc((size_t)model->tensor_count + 1);

    for (uint32_t i = 0; i < trace->span_count && used != NULL; i++) {
        const struct span *span = &trace->spans[i];

        if (span->kind == TRACE_EXCHANGE && span->what < model->tensor_count &&
            !used[span->what]) {
            used[span->what] = 1;
            put_row(file, trace, span->thread, THREADS_MAX + 1 + span->what,
                    "exchange ", tensor_name(model, span->what));
        }
    }
    mem_free(used);
}

static void put_all(FILE *file, const struct trace *trace,
                    const struct model *model)
{
    const char *host = getenv("PSD_HOST");
    uint64_t now = trace_clock();

    fprintf(file,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped\":%" PRIu64
            "},\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\","
            "\"pid\":%" PRIu32 ",\"args\":{\"name\":\"worker %" PRIu32,
            trace->dropped, trace->rank, trace->rank);
    if (host != NULL) {
        fputs(" on ", file);
        put_text(file, host);
    }
    fputs("\"}}", file);
    put_threads(file, trace);
    put_tensors(file, trace, model);
    for (uint32_t i = 0; i < trace->span_count; i++) {
        put_span(file, trace, model, &trace->spans[i], now);
    }
    fputs("\n]}\n", file);
}

void trace_close(struct trace *trace, const struct model *model)
{
    FILE *file;

    if (trace == NULL) {
        return;
    }
    file = fopen(trace->path, "we");
    if (file != NULL) {
        put_all(file, trace, model);
    }
    if (file == NULL || (ferror(file) | fclose(file)) != 0) {
        log_error("trace: %s cannot be written: %m", trace->path);
    }
    pthread_mutex_destroy(&trace->lock);
    mem_unmap(trace->spans, TRACE_SPANS_MAX * sizeof(*trace->spans));
    mem_free(trace);
}
