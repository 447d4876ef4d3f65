/*
 * trace.h: what a worker does when, for the eye: each exchange from push to
 * answer, each call that pushes or waits, and the marks of an adapter, written
 * as Chrome trace events when the session closes (docs/trace.md). Memory is
 * bounded: the first TRACE_STEPS steps, or TRACE_SPANS_MAX spans. A session
 * without --trace has no trace, and none of this is called.
 *
 * Any thread; trace_open and trace_close for the session's own.
 */
#ifndef PSD_SESSION_TRACE_H
#define PSD_SESSION_TRACE_H

#include <stdbool.h>

#include "model/model.h"

#define TRACE_STEPS     200
#define TRACE_SPANS_MAX (1u << 17)
#define TRACE_NAMES_MAX 256 /* of marks; further ones are "other" */
#define TRACE_NAME_MAX  64  /* with the end; the rest of a name is cut */
#define TRACE_OPEN_MAX  64  /* marks begun and not ended, of all threads */

enum trace_kind {
    TRACE_EXCHANGE, /* of a tensor, from push to answer */
    TRACE_PUSH,     /* a call, in the thread that made it */
    TRACE_WAIT,
    TRACE_WAIT_ALL,
    TRACE_MARK,
};

struct trace;

/* Records for worker `rank`; `folder` is where the file will be. PSD_EENV with
 * a sentence when nothing can be written there. */
psd_status trace_open(struct trace **trace_p, const char *folder, uint32_t rank,
                      char *error, size_t error_size);

/* Write the file and free the trace; NULL is allowed. A file that cannot be
 * written is a line of the log. */
void trace_close(struct trace *trace, const struct model *model);

/* Now, in ns since 1970: workers of one host share this clock. */
uint64_t trace_clock(void);

/* A span that began at `began` and ends now. `step` of the tensor; from
 * TRACE_STEPS on nothing more is recorded. */
void trace_span(struct trace *trace, enum trace_kind kind, uint32_t tensor,
                uint64_t step, uint64_t began);

/* A span of the caller's thread begins, or ends. Spans of a thread nest: an
 * end also ends what began inside and was not ended; an end of what did not
 * begin has no effect. Borrows `name`. */
void trace_mark(struct trace *trace, const char *name, bool begin);

#endif
