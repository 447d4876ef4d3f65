/* settings.c: the rows; see settings.h. */
#include "session/settings.h"

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
      .initial = "0", .low = 0, .high = 64 << 20, .job = true,
      .help = "cut tensors into blocks of this size; 0 chooses" },
    { .name = "threads", .kind = OPTION_UINT, .offset = FIELD(threads),
      .initial = "1", .low = 1, .high = 64, .job = true,
      .help = "I/O threads of each server" },
    { .name = "checksum", .kind = OPTION_FLAG, .offset = FIELD(checksum),
      .job = true, .help = "checksums on data frames too" },
    { .name = NULL },
};
