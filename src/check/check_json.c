/*
 * check_json.c: what psd check has found, for a program; see check.h. One
 * object; what is unknown is null. docs/check.md tells its members.
 */
#include "check/check.h"

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"

/* NULL inside is no memory: then the whole is NULL too. */

static json_t *text_of(const char *text)
{
    return text == NULL || text[0] == '\0' ? json_null() : json_string(text);
}

static json_t *number_of(uint64_t number)
{
    return json_integer(number > INT64_MAX ? INT64_MAX
                                           : (json_int_t)number);
}

static json_t *real_of(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

/* ---- hosts -------------------------------------------------------------- */

static json_t *gpus_of(const struct probe_facts *facts)
{
    json_t *names = json_array();

    for (uint32_t i = 0; i < facts->gpu_count; i++) {
        json_array_append_new(names, json_string(facts->gpu_names[i]));
    }
    return names;
}

static json_t *packages_of(const struct probe_facts *facts)
{
    json_t *packages = json_object();

    for (uint32_t i = 0; i < facts->package_count; i++) {
        json_object_set_new(packages, facts->packages[i].name,
                            json_string(facts->packages[i].version));
    }
    return packages;
}

static json_t *facts_of(const struct probe_facts *facts)
{
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:I, s:o, s:o, s:o, "
        "s:o, s:o, s:o}",
        "cores", (json_int_t)facts->cores,
        "memory_bytes", number_of(facts->memory),
        "memory_free_bytes", number_of(facts->memory_free),
        "logs", text_of(facts->logs),
        "disk_bytes", number_of(facts->disk),
        "disk_free_bytes", number_of(facts->disk_free),
        "disk_writable", (int)facts->disk_writable,
        "files", number_of(facts->files),
        "files_max", number_of(facts->files_max),
        "gpus", (json_int_t)facts->gpus,
        "gpu_names", gpus_of(facts),
        "python", text_of(facts->python),
        "python_version", text_of(facts->python_version),
        "packages", packages_of(facts),
        "address", text_of(facts->address),
        "url", text_of(facts->url));
}

static json_t *host_of(const struct check_result *result,
                       const struct check_host *host)
{
    static const char *const keys[] = { "known", "unknown", "changed" };
    bool key_seen = host->reached || host->key != CHECK_KEY_KNOWN;
    char name[CLUSTER_NAME_MAX * 2 + 16];

    cluster_host_text(host->where, name, sizeof(name));
    return json_pack(
        "{s:s, s:s, s:b, s:I, s:I, s:b, s:o, s:o, s:b, s:o, s:o, s:o, s:o}",
        "host", name, "name", host->where->name,
        "local", (int)host->where->local,
        "workers", (json_int_t)host->workers,
        "servers", (json_int_t)host->servers,
        "ssh", (int)host->reached,
        "host_key", key_seen && !host->where->local &&
                            result->plan->way.rsh == NULL
                        ? json_string(keys[host->key])
                        : json_null(),
        "psd", text_of(host->version),
        "psd_matches", (int)(strcmp(host->version, psd_version()) == 0),
        "reason", text_of(host->reason),
        "clock_offset_s", real_of(host->has_clock, host->clock_s),
        "clock_error_s", real_of(host->has_clock, host->clock_error_s),
        "facts", host->facts == NULL ? json_null() : facts_of(host->facts));
}

static json_t *hosts_of(const struct check_result *result)
{
    json_t *hosts = json_array();

    for (uint32_t i = 0; i < result->count; i++) {
        if (json_array_append_new(hosts, host_of(result, &result->hosts[i])) !=
            0) {
            json_decref(hosts);
            return NULL;
        }
    }
    return hosts;
}

/* ---- pairs and problems ------------------------------------------------- */

static json_t *pairs_of(const struct check_result *result)
{
    json_t *pairs = json_array();

    for (uint32_t i = 0; i < result->count; i++) {
        for (uint32_t k = 0; k < result->count; k++) {
            const struct check_pair *pair = check_pair(result, i, k);
            json_t *one;

            if (i == k) {
                continue;
            }
            one = json_pack(
                "{s:I, s:I, s:o, s:o, s:o, s:o}", "from", (json_int_t)i, "to",
                (json_int_t)k, "reached",
                pair->contact == CHECK_UNTRIED
                    ? json_null()
                    : json_boolean(pair->contact == CHECK_REACHED),
                "round_trip_s", real_of(pair->measured, pair->trip_s),
                "bytes_per_s", real_of(pair->rate > 0, pair->rate), "reason",
                text_of(pair->reason));
            if (json_array_append_new(pairs, one) != 0) {
                json_decref(pairs);
                return NULL;
            }
        }
    }
    return pairs;
}

/* What stands in backquotes is to be typed. */
static json_t *commands_of(const char *text)
{
    json_t *commands = json_array();
    const char *end;

    while ((text = strchr(text, '`')) != NULL &&
           (end = strchr(text + 1, '`')) != NULL) {
        json_array_append_new(commands, json_stringn(text + 1,
                                                     (size_t)(end - text) -
                                                         1));
        text = end + 1;
    }
    return commands;
}

static json_t *problems_of(const struct check_result *result)
{
    json_t *problems = json_array();

    for (uint32_t i = 0; i < result->problem_count; i++) {
        const struct check_problem *problem = &result->problems[i];
        json_t *one = json_pack(
            "{s:s, s:I, s:s, s:o}", "level",
            problem->warning ? "warning" : "problem", "host",
            (json_int_t)problem->host, "text", problem->text, "commands",
            commands_of(problem->text));

        if (json_array_append_new(problems, one) != 0) {
            json_decref(problems);
            return NULL;
        }
    }
    return problems;
}

psd_status check_print_json(const struct check_result *result, FILE *file)
{
    json_t *root = json_pack(
        "{s:s, s:b, s:f, s:o, s:o, s:o}", "version", psd_version(), "well",
        (int)check_is_well(result), "seconds", result->seconds, "hosts",
        hosts_of(result), "pairs", pairs_of(result), "problems",
        problems_of(result));
    bool written = root != NULL &&
                   json_dumpf(root, file, JSON_INDENT(1)) == 0 &&
                   fputc('\n', file) == '\n';

    json_decref(root);
    if (!written) {
        log_error("check: the result cannot be written");
        return PSD_ENOMEM;
    }
    return PSD_OK;
}
