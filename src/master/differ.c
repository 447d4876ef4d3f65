/* differ.c: see differ.h. Both batches are sorted by name, so that a model of
 * a hundred thousand tensors with one missing gives one line, not as many as
 * have moved up. */
#include "master/differ.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/mem.h"
#include "model/model.h"

#define SPEC_TEXT_MAX 512
#define LINE_MAX_SIZE 1400
#define MORE_ROOM     32 /* for "... and 1048576 more" */

void differ_init(struct differ *differ, char *text, size_t size)
{
    *differ = (struct differ){ .text = text, .size = size };
    text[0] = '\0';
}

static void add_line(struct differ *differ, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_line(struct differ *differ, const char *format, ...)
{
    char line[LINE_MAX_SIZE];
    va_list args;
    size_t size;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    size = strlen(line);
    if (differ->more > 0 || differ->lines >= DIFFER_LINES_MAX ||
        differ->used + size + 1 + MORE_ROOM >= differ->size) {
        differ->more++;
        return;
    }
    if (differ->used > 0) {
        differ->text[differ->used++] = '\n';
    }
    memcpy(differ->text + differ->used, line, size + 1);
    differ->used += size;
    differ->lines++;
}

uint32_t differ_finish(struct differ *differ)
{
    if (differ->more > 0) {
        snprintf(differ->text + differ->used, differ->size - differ->used,
                 "\n... and %" PRIu32 " more", differ->more);
    }
    return differ->lines + differ->more;
}

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = { "", " store", " gather", " shared" };

    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : " ?";
}

/* "fc.weight" float32 x 1000; what is unusual follows. */
static void spec_text(const struct message_spec *spec, char *text, size_t size)
{
    int used = snprintf(text, size, "\"%s\" %s x %" PRIu64 "%s", spec->name,
                        dtype_name((psd_dtype)spec->dtype), spec->count,
                        kind_name(spec->kind));

    if (spec->priority != 0 && used > 0 && (size_t)used < size) {
        used += snprintf(text + used, size - (size_t)used, " priority %" PRId32,
                         spec->priority);
    }
    if (spec->kind == PSD_KIND_STORE && used > 0 && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used,
                 " optim %s rate %g momentum %g", spec->optim, spec->rate,
                 spec->momentum);
    }
}

static int by_name(const void *a, const void *b)
{
    const struct message_spec *const *left = a;
    const struct message_spec *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

static const struct message_spec **sort(const struct message_table *table)
{
    const struct message_spec **sorted =
        mem_zalloc_array(table->count, sizeof(*sorted));

    if (sorted == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        sorted[i] = &table->specs[i];
    }
    qsort(sorted, table->count, sizeof(*sorted), by_name);
    return sorted;
}

/* The spec of the same name in the other batch; NULL. */
static const struct message_spec *find(const struct message_spec *const *sorted,
                                       uint32_t count,
                                       const struct message_spec *spec)
{
    const struct message_spec *const *found =
        bsearch(&spec, sorted, count, sizeof(*sorted), by_name);

    return found == NULL ? NULL : *found;
}

/* Names that only `has` registered. */
static void compare_names(struct differ *differ, const struct differ_side *has,
                          const struct differ_side *lacks,
                          const struct message_spec *const *sorted)
{
    for (uint32_t i = 0; i < has->table->count; i++) {
        const struct message_spec *spec = &has->table->specs[i];
        char text[SPEC_TEXT_MAX];

        if (find(sorted, lacks->table->count, spec) == NULL) {
            spec_text(spec, text, sizeof(text));
            add_line(differ,
                     "tensor %" PRIu32 ": worker %" PRIu32
                     " has %s, worker %" PRIu32 " has no such name",
                     i, has->rank, text, lacks->rank);
        }
    }
}

static void compare_specs(struct differ *differ, const struct differ_side *left,
                          const struct differ_side *right,
                          const struct message_spec *const *right_sorted)
{
    for (uint32_t i = 0; i < left->table->count; i++) {
        const struct message_spec *mine = &left->table->specs[i];
        const struct message_spec *theirs =
            find(right_sorted, right->table->count, mine);
        char left_text[SPEC_TEXT_MAX];
        char right_text[SPEC_TEXT_MAX];

        if (theirs != NULL && !spec_equal(mine, theirs)) {
            spec_text(mine, left_text, sizeof(left_text));
            spec_text(theirs, right_text, sizeof(right_text));
            add_line(differ,
                     "tensor %" PRIu32 ": worker %" PRIu32
                     " has %s, worker %" PRIu32 " has %s",
                     i, left->rank, left_text, right->rank, right_text);
        }
    }
}

/* The same tensors, told in another order. */
static void compare_order(struct differ *differ, const struct differ_side *left,
                          const struct differ_side *right)
{
    for (uint32_t i = 0; i < left->table->count && i < right->table->count;
         i++) {
        const char *mine = left->table->specs[i].name;
        const char *theirs = right->table->specs[i].name;

        if (strcmp(mine, theirs) != 0) {
            add_line(differ,
                     "tensor %" PRIu32 ": worker %" PRIu32
                     " has \"%s\", worker %" PRIu32
                     " has \"%s\": another order",
                     i, left->rank, mine, right->rank, theirs);
        }
    }
}

psd_status differ_compare(struct differ *differ, const struct differ_side *left,
                          const struct differ_side *right)
{
    const struct message_spec **left_sorted = sort(left->table);
    const struct message_spec **right_sorted = sort(right->table);
    uint32_t before = differ->lines + differ->more;
    psd_status status = PSD_ENOMEM;

    if (left_sorted != NULL && right_sorted != NULL) {
        compare_specs(differ, left, right, right_sorted);
        compare_names(differ, left, right, right_sorted);
        compare_names(differ, right, left, left_sorted);
        if (differ->lines + differ->more == before) {
            compare_order(differ, left, right);
        }
        status = PSD_OK;
    }
    mem_free(left_sorted);
    mem_free(right_sorted);
    return status;
}
