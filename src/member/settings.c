/* settings.c: the rows; see settings.h. */
#include "member/settings.h"

#include "base/banned.h"

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
      .initial = "256K", .low = 4096, .high = 64 << 20, .job = true,
      .help = "cut tensors into blocks of this size" },
    { .name = "threads", .kind = OPTION_UINT, .offset = FIELD(threads),
      .initial = "1", .low = 1, .high = 64, .job = true,
      .help = "I/O threads of each server" },
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
    return PSD_OK;
}
