/* slurm.c: see slurm.h. */
#define _GNU_SOURCE
#include "config/slurm.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/word.h"

#define NODES_NAME   "SLURM_JOB_NODELIST"
#define TASKS_NAME   "SLURM_TASKS_PER_NODE"
#define EACH_NAME    "SLURM_NTASKS_PER_NODE"
#define DIGITS_MAX   9
#define BRACKETS_MAX 8 /* of one name */

struct reader {
    const char *nodes;
    const char *tasks; /* NULL: as many as `each` */
    uint32_t each;
    struct cluster *cluster;
    char name[CLUSTER_NAME_MAX]; /* grows while brackets are expanded */
    unsigned brackets;
    uint32_t count; /* nodes so far */
    const char *tasks_at;
    uint32_t tasks_each; /* of this node and `tasks_left` more */
    uint32_t tasks_left;
    char *error;
    size_t error_size;
};

static psd_status complain(struct reader *reader, const char *variable,
                           const char *text, const char *sentence)
{
    char shown[WORD_SHOW_MAX];

    snprintf(reader->error, reader->error_size, "%s is '%s': %s", variable,
             word_show(text, strlen(text), shown, sizeof(shown)), sentence);
    return PSD_EINVAL;
}

static psd_status bad_nodes(struct reader *reader, const char *sentence)
{
    return complain(reader, NODES_NAME, reader->nodes, sentence);
}

static psd_status bad_tasks(struct reader *reader, const char *sentence)
{
    return complain(reader, TASKS_NAME, reader->tasks, sentence);
}

static psd_status no_memory(struct reader *reader)
{
    snprintf(reader->error, reader->error_size, "out of memory");
    return PSD_ENOMEM;
}

/* Digits at `*at_p`, in [low, 999999999]; how many there are, or 0. */
static size_t take_number(const char **at_p, const char *end, uint32_t low,
                          uint32_t *number_p)
{
    const char *at = *at_p;
    uint32_t number = 0;
    size_t digits;

    while (at < end && *at >= '0' && *at <= '9' && at - *at_p < DIGITS_MAX) {
        number = number * 10 + (uint32_t)(*at++ - '0');
    }
    digits = (size_t)(at - *at_p);
    if (digits == 0 || number < low || (at < end && *at >= '0' &&
                                        *at <= '9')) {
        return 0;
    }
    *at_p = at;
    *number_p = number;
    return digits;
}

/* ---- tasks -------------------------------------------------------------- */

/* "2(x3),1": how many workers the next node has. */
static psd_status next_tasks(struct reader *reader, uint32_t *tasks_p)
{
    const char *at = reader->tasks_at;
    const char *end;
    uint32_t times = 1;

    if (reader->tasks == NULL) {
        *tasks_p = reader->each;
        return PSD_OK;
    }
    if (reader->tasks_left > 0) {
        reader->tasks_left--;
        *tasks_p = reader->tasks_each;
        return PSD_OK;
    }
    end = at + strlen(at);
    if (at == end) {
        return bad_tasks(reader, at == reader->tasks
                                     ? "it is empty"
                                     : "it has fewer nodes than "
                                       NODES_NAME);
    }
    if (take_number(&at, end, 1, &reader->tasks_each) == 0 ||
        reader->tasks_each > WIRE_RANKS_MAX) {
        return bad_tasks(reader, "it must be as in 2(x3),1");
    }
    if (strncmp(at, "(x", 2) == 0) {
        at += 2;
        if (take_number(&at, end, 1, &times) == 0 || *at != ')') {
            return bad_tasks(reader, "it must be as in 2(x3),1");
        }
        at++;
    }
    if (*at == ',' && at[1] != '\0') {
        at++;
    } else if (*at != '\0') {
        return bad_tasks(reader, "it must be as in 2(x3),1");
    }
    reader->tasks_at = at;
    reader->tasks_left = times - 1;
    *tasks_p = reader->tasks_each;
    return PSD_OK;
}

/* ---- nodes -------------------------------------------------------------- */

static psd_status add_node(struct reader *reader)
{
    char error[256];
    uint32_t tasks;
    uint32_t host;
    psd_status status;

    if (cluster_check_name(reader->name, error, sizeof(error)) != PSD_OK) {
        return bad_nodes(reader, error);
    }
    if (++reader->count > CLUSTER_HOSTS_MAX) {
        return bad_nodes(reader, "these are more nodes than the 1024 of a job");
    }
    status = next_tasks(reader, &tasks);
    if (status != PSD_OK) {
        return status;
    }
    if (tasks > WIRE_RANKS_MAX - reader->cluster->workers) {
        return reader->tasks == NULL
                   ? bad_nodes(reader, "more workers than the 1024 of a job")
                   : bad_tasks(reader, "more workers than the 1024 of a job");
    }
    status = cluster_add_host(reader->cluster, reader->name, NULL, 0, &host);
    for (uint32_t i = 0; i < tasks && status == PSD_OK; i++) {
        status = cluster_add_worker(reader->cluster, host, NULL);
    }
    return status == PSD_OK ? PSD_OK : no_memory(reader);
}

static psd_status expand(struct reader *reader, size_t used, const char *at,
                         const char *end);

/* "01-03" in a bracket: each of them, with as many digits as the first. */
static psd_status expand_range(struct reader *reader, size_t used,
                               const char **at_p, const char *close,
                               const char *end)
{
    uint32_t first;
    uint32_t last;
    size_t digits = take_number(at_p, close, 0, &first);

    last = first;
    if (digits == 0) {
        return bad_nodes(reader, "a bracket must be as in [01-03,07]");
    }
    if (*at_p < close && **at_p == '-') {
        (*at_p)++;
        if (take_number(at_p, close, first, &last) == 0) {
            return bad_nodes(reader, "a range must be as in [01-03]");
        }
    }
    for (uint32_t i = first; i <= last; i++) {
        size_t room = sizeof(reader->name) - used;
        int size = snprintf(reader->name + used, room, "%0*" PRIu32,
                            (int)digits, i);
        psd_status status;

        if ((size_t)size >= room) {
            return bad_nodes(reader, "a name is too long");
        }
        status = expand(reader, used + (size_t)size, close + 1, end);
        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}

static psd_status expand_bracket(struct reader *reader, size_t used,
                                 const char *at, const char *end)
{
    const char *close = memchr(at, ']', (size_t)(end - at));
    psd_status status = PSD_OK;

    if (close == NULL || reader->brackets >= BRACKETS_MAX) {
        return bad_nodes(reader, close == NULL ? "a bracket is not closed"
                                               : "too many brackets");
    }
    reader->brackets++;
    while (status == PSD_OK) {
        status = expand_range(reader, used, &at, close, end);
        if (status != PSD_OK || at == close) {
            break;
        }
        if (*at != ',') {
            status =
                bad_nodes(reader, "a bracket must be as in [01-03,07]");
        }
        at++;
    }
    reader->brackets--;
    return status;
}

/* The rest of one name behind the `used` characters that are settled. Every
 * call ends in an error or in at least one node, and nodes are bounded. */
static psd_status expand(struct reader *reader, size_t used, const char *at,
                         const char *end)
{
    while (at < end && *at != '[') {
        if (*at == ']') {
            return bad_nodes(reader, "a bracket is not opened");
        }
        if (used + 1 >= sizeof(reader->name)) {
            return bad_nodes(reader, "a name is too long");
        }
        reader->name[used++] = *at++;
    }
    if (at < end) {
        return expand_bracket(reader, used, at + 1, end);
    }
    reader->name[used] = '\0';
    return add_node(reader);
}

/* Where the name at `at` ends: a comma outside brackets. */
static const char *name_end(const char *at)
{
    bool inside = false;

    for (; *at != '\0' && (inside || *at != ','); at++) {
        inside = *at == '[' || (inside && *at != ']');
    }
    return at;
}

static psd_status read_nodes(struct reader *reader)
{
    const char *at = reader->nodes;

    while (true) {
        const char *end = name_end(at);
        psd_status status = expand(reader, 0, at, end);

        if (status != PSD_OK) {
            return status;
        }
        if (*end == '\0') {
            break;
        }
        at = end + 1;
    }
    if (reader->tasks != NULL &&
        (reader->tasks_left > 0 || *reader->tasks_at != '\0')) {
        return bad_tasks(reader, "it has more nodes than " NODES_NAME);
    }
    return PSD_OK;
}

/* "4": the same for every node. */
static psd_status read_each(struct reader *reader, const char *text)
{
    const char *at = text;

    if (take_number(&at, text + strlen(text), 1, &reader->each) == 0 ||
        *at != '\0') {
        return complain(reader, EACH_NAME, text, "it must be a number");
    }
    return PSD_OK;
}

psd_status slurm_parse(const char *nodes, const char *tasks, const char *each,
                       struct cluster *cluster, char *error, size_t error_size)
{
    struct cluster read;
    struct reader reader = { .nodes = nodes,
                             .tasks = tasks,
                             .tasks_at = tasks,
                             .each = 1,
                             .cluster = &read,
                             .error = error,
                             .error_size = error_size };
    psd_status status = cluster_init_local(&read, 0, 0);

    read.origin = mem_strdup("Slurm");
    if (read.origin == NULL) {
        status = no_memory(&reader);
    }
    if (status == PSD_OK && tasks == NULL && each != NULL) {
        status = read_each(&reader, each);
    }
    if (status == PSD_OK) {
        status = read_nodes(&reader);
    }
    if (status != PSD_OK) {
        cluster_fini(&read);
        return status;
    }
    *cluster = read;
    return PSD_OK;
}

bool slurm_is_here(void)
{
    const char *job = getenv("SLURM_JOB_ID");

    return job != NULL && job[0] != '\0';
}

psd_status slurm_read(struct cluster *cluster, char *error, size_t error_size)
{
    const char *nodes = getenv(NODES_NAME);

    if (nodes == NULL || nodes[0] == '\0') {
        snprintf(error, error_size,
                 NODES_NAME " is not set; is this an allocation of Slurm "
                            "(salloc, sbatch)?");
        return PSD_EINVAL;
    }
    return slurm_parse(nodes, getenv(TASKS_NAME), getenv(EACH_NAME), cluster,
                       error, error_size);
}
