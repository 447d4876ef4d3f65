/*
 * check_table.c: what psd check has found, for a person; see check.h. First
 * the hosts, then the pairs, last what is wrong, so that it is what the eye
 * falls on. Plain text of any width; nothing is coloured.
 */
#define _GNU_SOURCE
#include "check/check.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"

#define CELL_MAX  160
#define LIST_MAX  20 /* pairs of a list; --json has all */
#define NAME_WIDE 24

/* ---- cells of a host ---------------------------------------------------- */

struct cell {
    char text[CELL_MAX];
};

static void put_bytes(struct cell *cell, uint64_t bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1000.0;
        unit++;
    }
    snprintf(cell->text, sizeof(cell->text),
             unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
}

static void cell_host(const struct check_host *host, struct cell *cell)
{
    cluster_host_text(host->where, cell->text, sizeof(cell->text));
}

static void cell_ssh(const struct check_host *host, struct cell *cell)
{
    const char *text = host->where->local                ? "here"
                       : host->reached                   ? "ok"
                       : host->key == CHECK_KEY_CHANGED  ? "KEY CHANGED"
                       : host->key == CHECK_KEY_UNKNOWN  ? "KEY UNKNOWN"
                                                         : "FAILED";

    snprintf(cell->text, sizeof(cell->text), "%s", text);
}

static void cell_psd(const struct check_host *host, struct cell *cell)
{
    bool other = strcmp(host->version, psd_version()) != 0;

    if (host->version[0] == '\0') {
        snprintf(cell->text, sizeof(cell->text), "%s",
                 host->reached ? "MISSING" : "?");
    } else {
        snprintf(cell->text, sizeof(cell->text), "%s%s", host->version,
                 other ? " (OTHER)" : "");
    }
}

static void cell_python(const struct check_host *host, struct cell *cell)
{
    snprintf(cell->text, sizeof(cell->text), "%s",
             host->facts->python[0] == '\0' ? "MISSING"
                                            : host->facts->python_version);
}

static void cell_cores(const struct check_host *host, struct cell *cell)
{
    snprintf(cell->text, sizeof(cell->text), "%" PRIu32, host->facts->cores);
}

static void cell_gpus(const struct check_host *host, struct cell *cell)
{
    const struct probe_facts *facts = host->facts;
    bool same = facts->gpu_count > 0;

    for (uint32_t i = 1; i < facts->gpu_count; i++) {
        same = same && strcmp(facts->gpu_names[i], facts->gpu_names[0]) == 0;
    }
    if (facts->gpus == 0) {
        snprintf(cell->text, sizeof(cell->text), "-");
    } else {
        snprintf(cell->text, sizeof(cell->text), "%" PRIu32 "%s%s",
                 facts->gpus, same ? " x " : "",
                 same ? facts->gpu_names[0] : "");
    }
}

static void cell_memory(const struct check_host *host, struct cell *cell)
{
    put_bytes(cell, host->facts->memory_free);
}

static void cell_disk(const struct check_host *host, struct cell *cell)
{
    put_bytes(cell, host->facts->disk_free);
}

static void cell_files(const struct check_host *host, struct cell *cell)
{
    if (host->facts->files_max > INT64_MAX) {
        snprintf(cell->text, sizeof(cell->text), "no limit");
    } else {
        snprintf(cell->text, sizeof(cell->text), "%" PRIu64,
                 host->facts->files_max);
    }
}

static void cell_clock(const struct check_host *host, struct cell *cell)
{
    double off = host->clock_s < 0 ? -host->clock_s : host->clock_s;

    if (!host->has_clock) {
        snprintf(cell->text, sizeof(cell->text), "?");
    } else if (off < 1.0) {
        snprintf(cell->text, sizeof(cell->text), "%+.1f ms (%.1f)",
                 host->clock_s * 1e3, host->clock_error_s * 1e3);
    } else {
        snprintf(cell->text, sizeof(cell->text), "%+.1f s", host->clock_s);
    }
}

static void cell_address(const struct check_host *host, struct cell *cell)
{
    const char *address = host->facts->address;

    snprintf(cell->text, sizeof(cell->text), "%.100s",
             address[0] == '\0' ? "NONE" : address);
}

static void cell_packages(const struct check_host *host, struct cell *cell)
{
    const struct probe_facts *facts = host->facts;
    size_t used = 0;

    snprintf(cell->text, sizeof(cell->text), "-");
    for (uint32_t i = 0; i < facts->package_count; i++) {
        used += (size_t)snprintf(cell->text + used, sizeof(cell->text) - used,
                                 "%s%.20s %.16s", i == 0 ? "" : ", ",
                                 facts->packages[i].name,
                                 facts->packages[i].version);
        if (used >= sizeof(cell->text)) {
            return;
        }
    }
}

static const struct {
    const char *title;
    bool facts; /* needs them */
    void (*write)(const struct check_host *host, struct cell *cell);
} columns[] = {
    { "HOST", false, cell_host },     { "SSH", false, cell_ssh },
    { "PSD", false, cell_psd },       { "PYTHON", true, cell_python },
    { "CORES", true, cell_cores },    { "GPUS", true, cell_gpus },
    { "MEMORY", true, cell_memory },  { "DISK", true, cell_disk },
    { "FILES", true, cell_files },    { "CLOCK", true, cell_clock },
    { "ADDRESS", true, cell_address }, { "PACKAGES", true, cell_packages },
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void write_cell(const struct check_host *host, size_t column,
                       struct cell *cell)
{
    if (columns[column].facts && host->facts == NULL) {
        snprintf(cell->text, sizeof(cell->text), "?");
    } else {
        columns[column].write(host, cell);
    }
}

static void print_hosts(const struct check_result *result, FILE *file)
{
    int width[COLUMNS];
    struct cell cell;

    for (size_t c = 0; c < COLUMNS; c++) {
        width[c] = (int)strlen(columns[c].title);
        for (uint32_t i = 0; i < result->count; i++) {
            write_cell(&result->hosts[i], c, &cell);
            width[c] = (int)strlen(cell.text) > width[c]
                           ? (int)strlen(cell.text)
                           : width[c];
        }
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        fprintf(file, c + 1 < COLUMNS ? "%-*s  " : "%.*s\n",
                c + 1 < COLUMNS ? width[c] : CELL_MAX, columns[c].title);
    }
    for (uint32_t i = 0; i < result->count; i++) {
        for (size_t c = 0; c < COLUMNS; c++) {
            write_cell(&result->hosts[i], c, &cell);
            fprintf(file, c + 1 < COLUMNS ? "%-*s  " : "%.*s\n",
                    c + 1 < COLUMNS ? width[c] : CELL_MAX, cell.text);
        }
    }
}

/* ---- pairs -------------------------------------------------------------- */

static void put_rate(char *text, size_t size, const struct check_pair *pair)
{
    double rate = pair->rate / 1e9;

    if (pair->contact == CHECK_NOT_REACHED) {
        snprintf(text, size, "CUT");
    } else if (pair->rate <= 0) {
        snprintf(text, size, "?");
    } else {
        snprintf(text, size, rate < 0.01 ? "%.4f" : rate < 10 ? "%.3f" : "%.1f",
                 rate);
    }
}

static void put_trip(char *text, size_t size, const struct check_pair *pair)
{
    if (pair->contact == CHECK_NOT_REACHED) {
        snprintf(text, size, "CUT");
    } else if (!pair->measured) {
        snprintf(text, size, "?");
    } else {
        snprintf(text, size, pair->trip_s < 0.1 ? "%.3f" : "%.1f",
                 pair->trip_s * 1e3);
    }
}

static void print_matrix(const struct check_result *result, const char *title,
                         void (*put)(char *text, size_t size,
                                     const struct check_pair *pair),
                         FILE *file)
{
    char text[32];
    int width = 0;

    for (uint32_t i = 0; i < result->count; i++) {
        int size = (int)strlen(result->hosts[i].where->name);

        width = size > width ? size : width;
    }
    width = width > NAME_WIDE ? NAME_WIDE : width;
    fprintf(file, "\n%s\n%*s", title, width + 4, "");
    for (uint32_t to = 0; to < result->count; to++) {
        fprintf(file, " %7" PRIu32, to);
    }
    fprintf(file, "\n");
    for (uint32_t from = 0; from < result->count; from++) {
        fprintf(file, "%3" PRIu32 " %-*.*s", from, width, width,
                result->hosts[from].where->name);
        for (uint32_t to = 0; to < result->count; to++) {
            if (from == to) {
                snprintf(text, sizeof(text), ".");
            } else {
                put(text, sizeof(text), check_pair(result, from, to));
            }
            fprintf(file, " %7s", text);
        }
        fprintf(file, "\n");
    }
}

struct entry {
    uint32_t from;
    uint32_t to;
    double rate;
};

static int compare(const void *a, const void *b)
{
    double left = ((const struct entry *)a)->rate;
    double right = ((const struct entry *)b)->rate;

    return (left > right) - (left < right);
}

/* The slowest first; those that are cut off before. */
static void print_list(const struct check_result *result, FILE *file)
{
    size_t all = (size_t)result->count * result->count;
    struct entry *entries = mem_zalloc_array(all, sizeof(*entries));
    size_t count = 0;

    for (uint32_t i = 0; entries != NULL && i < result->count; i++) {
        for (uint32_t k = 0; k < result->count; k++) {
            const struct check_pair *pair = check_pair(result, i, k);

            if (i != k && pair->contact != CHECK_UNTRIED) {
                entries[count++] = (struct entry){ i, k, pair->rate };
            }
        }
    }
    if (count > 0) {
        qsort(entries, count, sizeof(*entries), compare);
        fprintf(file, "\nthe slowest pairs, in GB/s and ms of a round trip; "
                      "the median is %.3f GB/s\n",
                check_median_rate(result) / 1e9);
    }
    for (size_t i = 0; i < count && i < LIST_MAX; i++) {
        const struct entry *entry = &entries[i];
        const struct check_pair *pair =
            check_pair(result, entry->from, entry->to);
        char rate[32];
        char trip[32];

        put_rate(rate, sizeof(rate), pair);
        put_trip(trip, sizeof(trip), pair);
        fprintf(file, "%8s %8s  %s -> %s\n", rate, trip,
                result->hosts[entry->from].where->name,
                result->hosts[entry->to].where->name);
    }
    if (count > LIST_MAX) {
        fprintf(file, "and %zu more; --json has all\n", count - LIST_MAX);
    }
    mem_free(entries);
}

static uint32_t count_tried(const struct check_result *result)
{
    size_t all = (size_t)result->count * result->count;
    uint32_t tried = 0;

    for (size_t i = 0; i < all; i++) {
        tried += result->pairs[i].contact != CHECK_UNTRIED;
    }
    return tried;
}

/* ---- all of it ---------------------------------------------------------- */

static void print_problems(const struct check_result *result, FILE *file)
{
    uint32_t warnings = 0;

    fprintf(file, "\n");
    for (uint32_t i = 0; i < result->problem_count; i++) {
        const struct check_problem *problem = &result->problems[i];

        warnings += problem->warning;
        fprintf(file, "%s: host %s: %s\n",
                problem->warning ? "warning" : "problem",
                result->hosts[problem->host].where->name, problem->text);
    }
    fprintf(file, "%s%" PRIu32 " host%s, %" PRIu32 " problem%s, %" PRIu32
            " warning%s; %.1f s\n",
            result->problem_count == 0 ? "all is well: " : "", result->count,
            result->count == 1 ? "" : "s", result->problem_count - warnings,
            result->problem_count - warnings == 1 ? "" : "s", warnings,
            warnings == 1 ? "" : "s", result->seconds);
}

void check_print_table(const struct check_result *result, FILE *file)
{
    print_hosts(result, file);
    if (count_tried(result) > 0 && result->count <= CHECK_MATRIX_MAX) {
        print_matrix(result, "GB/s from each (row) to each (column)",
                     put_rate, file);
        print_matrix(result, "round trip in ms", put_trip, file);
    } else if (count_tried(result) > 0) {
        print_list(result, file);
    }
    print_problems(result, file);
}
