/* settings.c: the rows; see settings.h. */
#include "member/settings.h"

#include "base/banned.h"
#include "wire/wire.h"

#define FIELD(name) offsetof(struct psd_settings, name)

const struct option_row psd_settings_rows[] = {
    { .name = "transport", .kind = OPTION_CHOICE, .offset = FIELD(transport),
      .initial = "auto", .choices = "auto|shm|tcp", .job = true,
      .help = "how members of one host reach each other; auto is shm" },
    { .name = "digest", .kind = OPTION_CHOICE, .offset = FIELD(digest),
      .initial = "rotate", .choices = "step|rotate|off", .job = true,
      .help = "prove that replicas are equal: all bits each step, 1/32 of "
              "them in turn, or never" },
    { .name = "block-size", .kind = OPTION_SIZE, .offset = FIELD(block_size),
      .initial = "auto", .value_name = "BYTES|auto",
      .low = WIRE_BLOCK_SIZE_MIN, .high = WIRE_BLOCK_SIZE_MAX, .job = true,
      .help = "cut tensors into blocks of this size; auto: as the script "
              "asks, else 256K" },
    { .name = "threads", .kind = OPTION_UINT, .offset = FIELD(threads),
      .initial = "auto", .value_name = "N|auto", .low = 1,
      .high = SETTINGS_THREADS_MAX, .job = true,
      .help = "I/O threads of each server; auto: as the script asks, else "
              "1" },
    { .name = "checksum", .kind = OPTION_FLAG, .offset = FIELD(checksum),
      .job = true, .help = "checksums on data frames too" },
    { .name = "trace", .kind = OPTION_FLAG, .offset = FIELD(trace),
      .job = true,
      .help = "every worker writes what it exchanged when in its first 200 "
              "steps to trace.w<rank>.json in the log folder, for Perfetto "
              "or chrome://tracing" },
    { .name = "ports", .kind = OPTION_TEXT, .offset = FIELD(ports),
      .initial = "0", .value_name = "N[-M]", .job = true,
      .help = "ports for tcp links; 0 takes any that is free" },
    /* How a script that knows no job is trained by many: for the adapters. */
    { .name = "batch", .kind = OPTION_CHOICE, .offset = FIELD(batch),
      .initial = "split", .choices = "split|per-worker|split-random",
      .job = true,
      .help = "split: the workers share each batch of the script, as on one "
              "machine; per-worker: each has a whole one of its own; "
              "split-random: split, and batches of hand-drawn indices too" },
    { .name = "accum", .kind = OPTION_TEXT, .offset = FIELD(accum),
      .initial = "auto", .value_name = "N|auto", .job = true,
      .help = "exchange gradients once in N backward passes; auto: as often "
              "as the script calls its optimizer" },
    { .name = "nan", .kind = OPTION_CHOICE, .offset = FIELD(nan),
      .initial = "allow", .choices = "allow|skip|stop", .job = true,
      .help = "a gradient that is not finite: let it pass with one warning, "
              "skip the step on all workers, or end the job" },
    { .name = "shard-eval", .kind = OPTION_FLAG, .offset = FIELD(shard_eval),
      .job = true,
      .help = "share batches of evaluation among the workers, too; default: "
              "each evaluates on all data" },
    { .name = "tf-native", .kind = OPTION_FLAG, .offset = FIELD(tf_native),
      .job = true,
      .help = "only start a script that distributes itself: TensorFlow's own "
              "servers do the work, for comparison" },
    { .name = "seed", .kind = OPTION_UINT, .offset = FIELD(seed),
      .low = 0, .high = UINT32_MAX, .job = true,
      .help = "with which random numbers begin, on all workers; default: one "
              "that is drawn, see poseidon_run.log" },
    { .name = NULL },
};

bool settings_ports(const char *text, uint16_t *first_p, uint16_t *last_p)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10);
    unsigned long last = first;

    if (end == text || text[0] == '-' || text[0] == '+') {
        return false;
    }
    if (*end == '-') {
        const char *second = end + 1;

        last = strtoul(second, &end, 10);
        if (end == second || first == 0) {
            return false;
        }
    }
    if (*end != '\0' || first > last || last > UINT16_MAX) {
        return false;
    }
    *first_p = (uint16_t)first;
    *last_p = (uint16_t)last;
    return true;
}

static bool is_accum(const char *text)
{
    char *end;
    unsigned long accum = strtoul(text, &end, 10);

    return strcmp(text, "auto") == 0 ||
           (text[0] >= '0' && text[0] <= '9' && *end == '\0' && accum >= 1 &&
            accum <= SETTINGS_ACCUM_MAX);
}

psd_status settings_check(const struct psd_settings *settings, char *error,
                          size_t error_size)
{
    uint16_t first;
    uint16_t last;

    if (!settings_ports(settings->ports, &first, &last)) {
        snprintf(error, error_size,
                 "--ports is '%s', it must be a port such as 7000, a range "
                 "such as 7000-7100, or 0 for any",
                 settings->ports);
        return PSD_EINVAL;
    }
    if (!is_accum(settings->accum)) {
        snprintf(error, error_size,
                 "--accum is '%s', it must be auto or a number from 1 to %d",
                 settings->accum, SETTINGS_ACCUM_MAX);
        return PSD_EINVAL;
    }
    return PSD_OK;
}
