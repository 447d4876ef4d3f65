/*
 * check_judge.c: from facts and figures to sentences; see check.h. Every
 * sentence says what is wrong and what to do. A fault that several pairs have
 * because of one host is that host's. Pure.
 */
#define _GNU_SOURCE
#include "check/check_judge.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/mem.h"

#define CLOCK_FAR_S  0.5
#define DISK_FEW     (UINT64_C(1) << 30)
#define MEMORY_FEW   (UINT64_C(512) << 20)
#define PROBLEMS_MAX 4096

/* ---- sentences ---------------------------------------------------------- */

void judge_add(struct judge *judge, bool warning, uint32_t host,
               const char *format, ...)
{
    struct check_result *result = judge->result;
    void *problems = result->problems;
    char text[8192];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (judge->status != PSD_OK || result->problem_count >= PROBLEMS_MAX) {
        return;
    }
    judge->status =
        mem_grow(&problems, result->problem_count,
                 (size_t)result->problem_count + 1, sizeof(*result->problems));
    if (judge->status != PSD_OK) {
        return;
    }
    result->problems = problems;
    result->problems[result->problem_count] = (struct check_problem){
        .warning = warning,
        .host = host,
        .text = mem_strdup(text),
    };
    if (result->problems[result->problem_count].text == NULL) {
        judge->status = PSD_ENOMEM;
        return;
    }
    result->problem_count++;
}

const char *judge_there(const struct check_host *host, char *text, size_t size,
                        const char *format, ...)
{
    char target[JUDGE_TARGET_MAX] = "";
    int used = 0;
    va_list args;

    if (!host->where->local) {
        ssh_target(host->where, target, sizeof(target));
        used = snprintf(text, size, "ssh %s ", target);
    }
    va_start(args, format);
    vsnprintf(text + used, size - (size_t)used, format, args);
    va_end(args);
    return text;
}

const char *judge_plain(const char *text, const char *instead)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789/._+-:%@~";

    return text[0] != '\0' && text[0] != '-' &&
                   strspn(text, plain) == strlen(text)
               ? text
               : instead;
}

/* ---- one host ----------------------------------------------------------- */

static void judge_python(struct judge *judge, uint32_t index)
{
    const struct check_host *host = &judge->result->hosts[index];
    const struct probe_facts *facts = host->facts;
    const char *virtualenv = judge->result->plan->cluster->virtualenv;
    char command[JUDGE_COMMAND_MAX];

    if (facts->python[0] != '\0') {
        return;
    }
    if (virtualenv != NULL && !facts->has_virtualenv) {
        judge_add(
            judge, false, index,
            "there is no virtualenv %.1024s; make it with `%s`, or correct "
            "\"virtualenv\" in the cluster file",
            virtualenv,
            judge_there(host, command, sizeof(command),
                        "python3 -m venv %.400s",
                        judge_plain(virtualenv, "FOLDER")));
    } else if (virtualenv != NULL) {
        judge_add(judge, false, index, "%s", facts->python_reason);
    } else {
        judge_add(judge, true, index,
                  "python3 cannot be run (%s); if your program needs it: `%s`",
                  facts->python_reason,
                  judge_there(host, command, sizeof(command),
                              "sudo apt-get install python3"));
    }
}

static void judge_disk(struct judge *judge, uint32_t index)
{
    const struct check_host *host = &judge->result->hosts[index];
    const struct probe_facts *facts = host->facts;
    char command[JUDGE_COMMAND_MAX];

    if (facts->disk > 0 && !facts->disk_writable) {
        judge_add(
            judge, false, index,
            "logs cannot be written to %.1024s; name another folder with -o, "
            "or allow it: `%s`",
            facts->logs,
            judge_there(host, command, sizeof(command), "ls -ld %.400s",
                        judge_plain(facts->logs, "FOLDER")));
    }
    if (facts->disk > 0 && facts->disk_free < DISK_FEW) {
        judge_add(judge, facts->disk_free >= FACT_DISK_LEAST, index,
                  "the disk of %.1024s is %s: %" PRIu64
                  " MB are left; make room "
                  "(`%s`), or name another folder with -o",
                  facts->logs,
                  facts->disk_free < FACT_DISK_LEAST ? "full" : "nearly full",
                  facts->disk_free / 1000000,
                  judge_there(host, command, sizeof(command), "df -h %.400s",
                              judge_plain(facts->logs, "FOLDER")));
    }
}

static void judge_limits(struct judge *judge, uint32_t index)
{
    const struct check_host *host = &judge->result->hosts[index];
    const struct probe_facts *facts = host->facts;
    uint64_t files = fact_files_needed(host->workers, host->servers);
    char command[JUDGE_COMMAND_MAX];

    if (facts->files_max > 0 && facts->files_max < files) {
        judge_add(judge, false, index,
                  "%" PRIu32 " workers and %" PRIu32 " servers need %" PRIu64
                  " open files, %" PRIu64 " are allowed; raise nofile in "
                  "/etc/security/limits.conf (`%s` shows it)",
                  host->workers, host->servers, files, facts->files_max,
                  judge_there(host, command, sizeof(command), "ulimit -Hn"));
    }
    if (facts->memory > 0 && facts->memory_free < MEMORY_FEW) {
        judge_add(
            judge, true, index,
            "only %" PRIu64 " MB of memory are free; `%s` shows who has it",
            facts->memory_free / 1000000,
            judge_there(host, command, sizeof(command), "ps aux --sort -rss"));
    }
}

static void judge_clock(struct judge *judge, uint32_t index)
{
    const struct check_host *host = &judge->result->hosts[index];
    double off = host->clock_s < 0 ? -host->clock_s : host->clock_s;
    char command[JUDGE_COMMAND_MAX];

    if (host->has_clock && off - host->clock_error_s > CLOCK_FAR_S) {
        judge_add(
            judge, true, index,
            "its clock is %.1f s %s, so that times in its logs are wrong; "
            "`%s` sets it",
            off, host->clock_s < 0 ? "behind" : "ahead",
            judge_there(host, command, sizeof(command),
                        "sudo timedatectl set-ntp true"));
    }
}

static void judge_host(struct judge *judge, uint32_t index)
{
    const struct check_host *host = &judge->result->hosts[index];

    if (host->reason[0] != '\0') {
        judge_add(judge, false, index, "%s", host->reason);
    }
    if (host->facts == NULL) {
        return;
    }
    judge_python(judge, index);
    judge_disk(judge, index);
    judge_limits(judge, index);
    judge_clock(judge, index);
    if (host->facts->address_reason[0] != '\0') {
        judge_add(judge, false, index, "%s", host->facts->address_reason);
    }
}

/* ---- the same everywhere? ----------------------------------------------- */

static const char *version_of(const struct check_host *host, const char *name)
{
    for (uint32_t i = 0; host->facts != NULL && i < host->facts->package_count;
         i++) {
        if (strcmp(host->facts->packages[i].name, name) == 0) {
            return host->facts->packages[i].version;
        }
    }
    return NULL;
}

/* Does this host count? Where workers run, Python matters. */
static bool has_python(const struct check_host *host)
{
    return host->facts != NULL && host->facts->python[0] != '\0' &&
           (host->workers > 0 || host->servers == 0);
}

/* The version that most have; the first of several. NULL: nobody has it. */
static const char *usual(const struct check_result *result, const char *name,
                         uint32_t *who_p)
{
    const char *best = NULL;
    uint32_t most = 0;

    for (uint32_t i = 0; i < result->count; i++) {
        const char *mine = version_of(&result->hosts[i], name);
        uint32_t same = 0;

        for (uint32_t k = 0; k < result->count && mine != NULL; k++) {
            const char *other = version_of(&result->hosts[k], name);

            same += has_python(&result->hosts[k]) && other != NULL &&
                    strcmp(other, mine) == 0;
        }
        if (has_python(&result->hosts[i]) && mine != NULL && same > most) {
            most = same;
            best = mine;
            *who_p = i;
        }
    }
    return best;
}

static bool same_version(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* " and 6 more (node2, node3, ...)": those behind `first` that have the same
 * version of it, or none, as well. */
static void name_others(const struct check_result *result, uint32_t first,
                        const char *name, char *text, size_t size)
{
    const char *version = version_of(&result->hosts[first], name);
    char list[512] = "";
    size_t used = 0;
    uint32_t count = 0;

    for (uint32_t i = first + 1; i < result->count; i++) {
        const struct check_host *host = &result->hosts[i];

        if (!has_python(host) ||
            !same_version(version_of(host, name), version)) {
            continue;
        }
        count++;
        if (used + strlen(host->where->name) + 8 < sizeof(list)) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                     used == 0 ? "" : ", ", host->where->name);
        }
    }
    text[0] = '\0';
    if (count > 0) {
        snprintf(text, size, " and %" PRIu32 " more (%s%s)", count, list,
                 used + CLUSTER_NAME_MAX > sizeof(list) ? ", ..." : "");
    }
}

/* One sentence for all hosts that differ in the same way. */
static void judge_package(struct judge *judge, const char *name)
{
    const struct check_result *result = judge->result;
    uint32_t who = 0;
    const char *version = usual(result, name, &who);

    for (uint32_t i = 0; i < result->count && version != NULL; i++) {
        const struct check_host *host = &result->hosts[i];
        const char *mine = version_of(host, name);
        char command[JUDGE_COMMAND_MAX];
        char others[1024];
        bool told = !has_python(host) || same_version(mine, version);

        for (uint32_t k = 0; k < i && !told; k++) {
            told = has_python(&result->hosts[k]) &&
                   same_version(version_of(&result->hosts[k], name), mine);
        }
        if (told) {
            continue;
        }
        name_others(result, i, name, others, sizeof(others));
        judge_add(judge, true, i,
                  "it%s %s %s%s%s%s, %s has %s; the same everywhere: `%s`",
                  others, others[0] == '\0' ? "has" : "have",
                  mine == NULL ? "no " : "", name, mine == NULL ? "" : " ",
                  mine == NULL ? "" : mine, result->hosts[who].where->name,
                  version,
                  judge_there(host, command, sizeof(command),
                              "%.300s -m pip install %s==%s",
                              judge_plain(host->facts->python, "python3"), name,
                              judge_plain(version, "VERSION")));
    }
}

static void judge_versions(struct judge *judge)
{
    static const char *const names[] = {"torch", "tensorflow", "keras",
                                        "numpy"};
    const struct check_result *result = judge->result;
    const struct check_host *first = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        judge_package(judge, names[i]);
    }
    for (uint32_t i = 0; i < result->count; i++) {
        const struct check_host *host = &result->hosts[i];
        size_t size;

        if (!has_python(host)) {
            continue;
        }
        first = first == NULL ? host : first;
        size = strcspn(first->facts->python_version, ".");
        size += 1 + strcspn(first->facts->python_version + size + 1, ".");
        if (strncmp(host->facts->python_version, first->facts->python_version,
                    size) != 0) {
            judge_add(
                judge, true, i,
                "it has Python %s, %s has %s; a \"virtualenv\" of the same "
                "version on every host avoids surprises",
                host->facts->python_version, first->where->name,
                first->facts->python_version);
        }
    }
}

/* ---- all of it ---------------------------------------------------------- */

/* Errors before warnings, each in the order in which they were found. */
static psd_status sort(struct check_result *result)
{
    size_t count = result->problem_count;
    struct check_problem *sorted = mem_zalloc_array(count + 1, sizeof(*sorted));
    size_t used = 0;

    if (sorted == NULL) {
        return PSD_ENOMEM;
    }
    for (int warning = 0; warning <= 1; warning++) {
        for (size_t i = 0; i < count; i++) {
            if (result->problems[i].warning == (warning == 1)) {
                sorted[used++] = result->problems[i];
            }
        }
    }
    mem_free(result->problems);
    result->problems = sorted;
    return PSD_OK;
}

psd_status check_judge(struct check_result *result)
{
    struct judge judge = {.result = result};

    for (uint32_t i = 0; i < result->count; i++) {
        judge_host(&judge, i);
    }
    judge_pairs(&judge);
    judge_versions(&judge);
    return judge.status == PSD_OK ? sort(result) : judge.status;
}

bool check_is_well(const struct check_result *result)
{
    for (uint32_t i = 0; i < result->problem_count; i++) {
        if (!result->problems[i].warning) {
            return false;
        }
    }
    return true;
}
