/* run_settings.c: the rows; see run_settings.h. */
#define _GNU_SOURCE
#include "config/run_settings.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "wire/wire.h"

static_assert(offsetof(struct run_settings, job) == 0, "rows are shared");

#define FIELD(field) offsetof(struct run_settings, field)

static const struct option_row own_rows[] = {
    { .name = "cluster-config",
      .letter = 'c',
      .kind = OPTION_TEXT,
      .offset = FIELD(cluster_config),
      .value_name = "FILE",
      .help = "the hosts, as JSON: worker_nodes, server_nodes and more, see "
              "psd-cluster(5)" },
    { .name = "hostfile",
      .kind = OPTION_TEXT,
      .offset = FIELD(hostfile),
      .value_name = "FILE",
      .help = "the hosts, one line each: `host slots=4`" },
    { .name = "workers",
      .letter = 'n',
      .kind = OPTION_UINT,
      .offset = FIELD(workers),
      .initial = "1",
      .low = 1,
      .high = WIRE_RANKS_MAX,
      .help = "workers on this machine, without a file" },
    { .name = "servers",
      .letter = 's',
      .kind = OPTION_UINT,
      .offset = FIELD(servers),
      .initial = "0",
      .low = 0,
      .high = WIRE_SHARDS_MAX,
      .help = "parameter servers on this machine as processes of their own; "
              "0: the workers play the role" },
    { .name = "out",
      .letter = 'o',
      .kind = OPTION_TEXT,
      .offset = FIELD(out),
      .initial = ".",
      .value_name = "DIR",
      .config = true,
      .help = "where the folder poseidon_log_<time> is made, on every host" },
    { .name = "name",
      .kind = OPTION_TEXT,
      .offset = FIELD(name),
      .config = true,
      .help = "of the job: JOB_NAME and EXPERIMENT_ID in its environment, and "
              "its folder below --out, the same again when it is resumed; "
              "default: poseidon_log_<time>" },
    { .name = "export",
      .letter = 'x',
      .kind = OPTION_LIST,
      .offset = FIELD(export),
      .value_name = "NAME[=VALUE]",
      .config = true,
      .help = "pass this variable to every worker; can be given again" },
    { .name = "tf-config",
      .kind = OPTION_FLAG,
      .offset = FIELD(tf_config),
      .config = true,
      .help = "set TF_CONFIG with -n too (with -c and --hostfile it always "
              "is)" },
    { .name = "rsh",
      .kind = OPTION_TEXT,
      .offset = FIELD(rsh),
      .value_name = "CMD",
      .variable = true,
      .config = true,
      .help = "reach hosts by CMD HOST COMMAND... instead of ssh" },
    { .name = "copy",
      .kind = OPTION_FLAG,
      .offset = FIELD(copy),
      .config = true,
      .help = "bring psd to hosts that do not have this version" },
    { .name = "tee",
      .kind = OPTION_CHOICE,
      .offset = FIELD(tee),
      .initial = "0",
      .choices = "0|all|none",
      .config = true,
      .help = "show the output of worker 0, of all with a prefix, or of "
              "nobody; the log folder has it in any case" },
    { .name = "steps",
      .kind = OPTION_UINT,
      .offset = FIELD(steps),
      .config = true,
      .help = "steps of the whole training, for the time left; default: "
              "--steps, --max_steps, --num_steps or --train_steps of the "
              "command" },
    { .name = "quiet",
      .letter = 'q',
      .kind = OPTION_FLAG,
      .offset = FIELD(quiet),
      .help = "say nothing but errors and the report at the end" },
    { .name = "verbose",
      .letter = 'v',
      .kind = OPTION_FLAG,
      .offset = FIELD(verbose),
      .help = "say also who runs where and how each ended" },
    { .name = "tensorboard",
      .kind = OPTION_FLAG,
      .offset = FIELD(tensorboard),
      .config = true,
      .help = "start TensorBoard on the output folder, if it is installed" },
    { .name = "grace",
      .kind = OPTION_DOUBLE,
      .offset = FIELD(grace),
      .initial = "10",
      .low = 0,
      .high = 3600,
      .value_name = "SECONDS",
      .config = true,
      .help = "from SIGTERM to SIGKILL after Ctrl-C; after a failure the "
              "others have as long, but at most 3 s, to end by themselves" },
    { .name = "dead-after",
      .kind = OPTION_DOUBLE,
      .offset = FIELD(dead_after),
      .initial = "3",
      .low = 0.05,
      .high = 3600,
      .value_name = "SECONDS",
      .config = true,
      .help = "a host of which nothing is heard so long is lost; its agent "
              "ends everything there after ten times as long" },
    { .name = "stall-after",
      .kind = OPTION_DOUBLE,
      .offset = FIELD(stall_after),
      .initial = "0",
      .low = 0,
      .high = 1e6,
      .value_name = "SECONDS",
      .config = true,
      .help = "a worker for which others wait so long is stalled, and told "
              "with its stack; 0: 60 s, or ten times the median step when "
              "that is more" },
    { .name = "on-stall",
      .kind = OPTION_CHOICE,
      .offset = FIELD(on_stall),
      .initial = "warn",
      .choices = "warn|stop",
      .config = true,
      .help = "after a stall was told: go on waiting, or end the job with "
              "exit code 75" },
    { .name = "detach",
      .kind = OPTION_FLAG,
      .offset = FIELD(detach),
      .help = "go to the background once the job runs; `psd attach` shows it, "
              "its output is in console.log in the log folder" },
    { .name = "dry-run",
      .kind = OPTION_FLAG,
      .offset = FIELD(dry_run),
      .help = "show what would be started where, and start nothing" },
    { .name = "print-config",
      .kind = OPTION_FLAG,
      .offset = FIELD(print_config),
      .help = "show every value and where it came from, and start nothing" },
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = FIELD(help),
      .help = "this text" },
    { .name = "version",
      .kind = OPTION_FLAG,
      .offset = FIELD(version),
      .help = "the version" },
};

/* Our own options and those of every job, in one table. */
const struct option_row *run_settings_rows(void)
{
    static struct option_row rows[RUN_SETTINGS_MAX];
    size_t own = sizeof(own_rows) / sizeof(own_rows[0]);

    memcpy(rows, own_rows, sizeof(own_rows));
    for (size_t i = 0; psd_settings_rows[i].name != NULL; i++) {
        PSD_ASSERT(own + i + 1 < RUN_SETTINGS_MAX);
        rows[own + i] = psd_settings_rows[i];
    }
    return rows;
}
