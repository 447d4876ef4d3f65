#!/usr/bin/env python3
"""Training with TensorFlow, side by side: scripts under psd_run, and
TensorFlow's own parameter servers.

    bench/tf_peers.py --build DIR --python PYTHON [--rounds 3] [--out FILE]
        [--only one,hosts,large,alone,import] [--steps N]

The network is that of the deep-MNIST tutorial (tf_model.py). In every round
each contender trains once, the order rotates from round to round; what counts
is the ratio within a round, and then the median. Every worker is pinned to a
core of its own with taskset; TensorFlow's ps may use both of these cores.

one      two workers on this machine, batch 50 each
hosts    two workers on hosts at 1 Gbit/s (network namespaces, root only);
         TensorFlow's ps is on a third host, our servers are beside the workers
large    batch 1000: two workers with a core each against one with one core
alone    one worker under psd_run against plain python, user and system time
import   what `import tensorflow` takes under psd_run

Writes TF.md beside this file. A run of some parts replaces their sections and
leaves the others as they are.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from rounds import (HERE, LIMIT, ROOT, THREADS, cell, cpu_of, environment,
                    free_port, processor, sections_of, shown, turned,
                    version_of, write_sections)

sys.path.insert(0, os.path.join(ROOT, "tests"))
import cluster as cluster_tools  # noqa: E402

WORKERS, PORT, LARGE = 2, "29500", 1000
NONE, SYNC, ASYNC = "no communication", "psd_run, sync", "psd_run, async"
TF_SYNC, TF_ASYNC = "TensorFlow ps, sync", "TensorFlow ps, async"
ONE = "one worker, one core"
CONTENDERS = {"none": NONE, "sync": SYNC, "async": ASYNC, "tf-sync": TF_SYNC,
              "tf-async": TF_ASYNC}
# A worker of psd_run takes the core of its rank; a ps is no worker.
PIN = ('if [ "$PSD_ROLE" = worker ]; then exec taskset -c "$(echo '
       '$BENCH_CORES | cut -d, -f$((PSD_RANK + 1)))" "$@"; fi; exec "$@"')
ROLES = ["--job_name={job_name}", "--task_index={task_index}",
         "--ps_hosts={ps_hosts}", "--worker_hosts={worker_hosts}"]
IMPORT = ("import time; begin = time.perf_counter(); import tensorflow; "
          "print('took', time.perf_counter() - begin)")


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.cores = sorted(os.sched_getaffinity(0))[:WORKERS]
        self.psd_run = os.path.join(options.build, "bin", "psd_run")

    def script(self, name, batch, steps=None, warm=None):
        options = self.options
        return [options.python, os.path.join(HERE, name),
                str(steps or options.steps),
                str(options.warm if warm is None else warm), str(batch)]

    def variables(self, count=WORKERS):
        """A new place to meet, and what all processes are told."""
        folder = tempfile.mkdtemp(prefix="meet.", dir=self.folder)
        return {"BENCH_MEET": "%s:%d" % (folder, count),
                "BENCH_CORES": ",".join(map(str, self.cores)),
                "TF_CPP_MIN_LOG_LEVEL": "2", "no_proxy": "*"}

    def pinned(self, words, core):
        return ["taskset", "-c", str(self.cores[core])] + words

    def under(self, name, batch, place):
        """The command line of psd_run; `place` says where the workers are."""
        words = [self.psd_run, "-q", "--tee", "all", *place]
        if name == ASYNC:
            return words + ["--", "sh", "-c", PIN, "pin"] + self.script(
                "tf_ps.py", batch) + ROLES
        if batch != LARGE:
            words += ["--batch", "per-worker"]
        return words + ["--", "sh", "-c", PIN, "pin"] + self.script(
            "tf_plain.py", batch)

    def native(self, name, ps, workers):
        """[(command, is a ps)]: TensorFlow's own processes."""
        words = self.script("tf_ps.py", self.options.batch) + [
            "--native", "--ps_hosts=" + ps,
            "--worker_hosts=" + ",".join(workers)]
        if name == TF_SYNC:
            words.append("--sync")
        role = "--job_name=%s", "--task_index=%d"
        return [(words + [role[0] % "ps", role[1] % 0], True)] + [
            (self.pinned(words + [role[0] % "worker", role[1] % index],
                         index), False) for index in range(len(workers))]

    # ---- one contender, once -------------------------------------------

    def popen(self, words, env):
        return subprocess.Popen(
            words, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=environment(**env))

    def figures(self, row):
        """Adds what psd_run counted in its last job."""
        logs = max(glob.glob(self.folder + "/poseidon_log_*"),
                   key=os.path.getmtime)
        with open(logs + "/report.json", encoding="utf-8") as file:
            figures = json.load(file)["figures"]
        shutil.rmtree(logs)
        each = row["workers"] * row["steps"]
        row["exchanged"] = figures["exchanged_bytes"] / each
        row["wire"] = figures["wire_bytes"] / each
        return row

    def commands(self, name, batch):
        """Of this machine: [(command, is a ps)]."""
        if name in (TF_SYNC, TF_ASYNC):
            ps, *workers = ("127.0.0.1:" + free_port()
                            for _ in range(WORKERS + 1))
            return self.native(name, ps, workers)
        if name in (SYNC, ASYNC):
            place = ["-n", str(WORKERS)]
            return [(self.under(name, batch, place), False)]
        count = 1 if name == ONE else WORKERS
        return [(self.pinned(self.script("tf_plain.py", batch), core), False)
                for core in range(count)]

    def run(self, name, batch):
        env = self.variables(1 if name == ONE else WORKERS)
        row = gather(name, [(self.popen(words, env), is_ps) for words, is_ps
                            in self.commands(name, batch)])
        return self.figures(row) if name in (SYNC, ASYNC) else row

    def commands_on(self, cluster, name, variables):
        """On hosts: [(host, command, is a ps)]."""
        first, *others = cluster.nodes
        if name in (TF_SYNC, TF_ASYNC):
            commands = self.native(name, "%s:%s" % (first, PORT), [
                "%s:%s" % (node, PORT) for node in others])
            return [(node, *x) for node, x in zip(cluster.nodes, commands)]
        if name in (SYNC, ASYNC):
            place = ["-c", self.folder + "/cluster.json"]
            for variable in variables:
                place += ["-x", variable]
            return [(first, self.under(name, self.options.batch, place),
                     False)]
        script = self.script("tf_plain.py", self.options.batch)
        return [(node, self.pinned(script, core), False)
                for core, node in enumerate(others)]

    def run_on(self, cluster, name):
        env = dict(THREADS, **self.variables())
        row = gather(name, [
            (cluster.popen(node, words, cwd=self.folder, env=env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True), is_ps)
            for node, words, is_ps in self.commands_on(cluster, name, env)])
        return self.figures(row) if name in (SYNC, ASYNC) else row


def gather(name, processes):
    """One row out of what the processes printed. A ps of TensorFlow never
    ends by itself."""
    lines = []
    try:
        for process, is_ps in processes:
            if is_ps:
                continue
            out, err = process.communicate(timeout=LIMIT)
            if process.returncode != 0:
                sys.exit("tf_peers.py: %s failed (%d):\n%s%s" % (
                    name, process.returncode, out, err))
            lines += [json.loads(x[x.index("{"):])
                      for x in out.splitlines() if '{"wall_ms"' in x]
    finally:
        for process, _ in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    if not lines:
        sys.exit("tf_peers.py: %s measured nothing:\n%s%s" % (name, out, err))
    return {"rate": statistics.mean(1e3 / x["wall_ms"] for x in lines),
            "cpu_ms": statistics.mean(x["cpu_ms"] for x in lines),
            "workers": len(lines), "steps": lines[0]["steps"],
            "bytes": lines[0]["bytes"],
            "equal": len({x["sum"] for x in lines}) == 1}


# ---- measuring ------------------------------------------------------------

def measure(bench, what, names, run):
    """rows[name]: one row per round."""
    rows = {}
    for turn in range(bench.options.rounds):
        for name in turned(names, turn):
            row = run(name)
            rows.setdefault(name, []).append(row)
            print("round %d  %-6s %-22s %8.2f steps/s per worker %8.1f ms CPU"
                  "%s" % (turn + 1, what, name, row["rate"], row["cpu_ms"],
                          doubt(name, row)), flush=True)
    return rows


def doubt(name, row):
    """A job that did not exchange its gradients proves nothing."""
    if row.get("exchanged", row["bytes"]) < 0.9 * row["bytes"]:
        return "  NOT EXCHANGED"
    return "  REPLICAS DIFFER" if name == SYNC and not row["equal"] else ""


def chosen(bench, names):
    return [x for x in names if x == ONE or x in bench.options.contenders]


def measure_pairs(bench, words, rounds, figure, unit):
    """[[plain, psd_run]]: alternating."""
    found = []
    for turn in range(rounds):
        pair = [0.0, 0.0]
        for index in turned([0, 1], turn):
            pair[index] = figure(words[index])
        found.append(pair)
        print("round %d  plain %.3f %s, psd_run -n 1 %.3f %s" % (
            turn + 1, pair[0], unit, pair[1], unit), flush=True)
    return found


def import_time(bench, words):
    done = subprocess.run(words, cwd=bench.folder, env=environment(
        TF_CPP_MIN_LOG_LEVEL="2"), capture_output=True, text=True,
        timeout=LIMIT, check=False)
    if done.returncode != 0 or "took" not in done.stdout:
        sys.exit("tf_peers.py: %s: %s" % (words, done.stderr))
    return float(done.stdout.split("took")[1].split()[0])


def command_time(bench, words):
    begin = time.perf_counter()
    import_time(bench, words)
    return time.perf_counter() - begin


# ---- writing ----------------------------------------------------------------

def ratio(rows, above, below):
    if above not in rows or below not in rows:
        return "-"
    return cell([a["rate"] / b["rate"]
                 for a, b in zip(rows[above], rows[below])], "%.2f")


def rate_table(rows, below, label):
    """One line per contender; ratios are those within a round."""
    lines = ["| | workers | steps/s per worker | %s | CPU ms per step and "
             "worker |" % " | ".join("/ " + x for x in label),
             "| --- | ---: | ---: |" + " ---: |" * (len(label) + 1)]
    for name, found in rows.items():
        lines.append("| %s | %d | %s | %s | %s |" % (
            name, found[0]["workers"], cell([x["rate"] for x in found],
                                            "%.2f"),
            " | ".join(ratio(rows, name, x) for x in below),
            cell([x["cpu_ms"] for x in found])))
    return lines


def proof(rows):
    """That there was an exchange, and equal replicas."""
    lines = []
    for name in (SYNC, ASYNC):
        for row in rows.get(name, ())[-1:]:
            lines.append(
                "%s: %.0f bytes exchanged per worker and step, of them %.0f "
                "over sockets; the parameters are %d bytes." % (
                    name, row["exchanged"], row["wire"], row["bytes"]))
    bad = sum(not x["equal"] for x in rows.get(SYNC, ()))
    if SYNC in rows:
        lines.append("The replicas of %s %s." % (
            SYNC, "differed in %d rounds" % bad if bad else
            "were equal in every round"))
    return ["", *lines] if lines else []


def listed(bench, commands):
    cores = "    # cores %s" % ",".join(map(str, bench.cores))
    return ["", "Commands, with `PIN='%s'`:" % PIN, ""] + [
        "    %s%s" % (shown(["$PIN" if x == PIN else x for x in words]),
                      "" if "taskset" in words or is_ps else cores)
        for words, is_ps in commands]


def write_one(bench):
    rows = measure(bench, "one", chosen(bench, [NONE, SYNC, ASYNC, TF_SYNC,
                                                TF_ASYNC]),
                   lambda name: bench.run(name, bench.options.batch))
    commands = [x for name in rows
                for x in bench.commands(name, bench.options.batch)]
    return ["Two workers on this machine, each pinned to a core, batch %d "
            "each: steps per second and worker, median [least .. most] over "
            "%d rounds; ratios within a round."
            % (bench.options.batch, bench.options.rounds), ""] + \
        rate_table(rows, [NONE, TF_SYNC, TF_ASYNC],
                   ["no communication", "TensorFlow sync",
                    "TensorFlow async"]) + proof(rows) + \
        listed(bench, commands)


def write_hosts(bench):
    why = cluster_tools.Cluster.missing(rate=bench.options.rate)
    if why is not None:
        print("tf_peers.py: hosts left out: " + why)
        return None
    with cluster_tools.Cluster(WORKERS + 1,
                               rate=bench.options.rate) as cluster:
        others = cluster.nodes[1:]
        with open(bench.folder + "/cluster.json", "w",
                  encoding="utf-8") as file:
            json.dump({"worker_nodes": others, "server_nodes": others}, file)
        rows = measure(bench, "hosts", chosen(
            bench, [NONE, SYNC, TF_SYNC, ASYNC, TF_ASYNC]),
            lambda name: bench.run_on(cluster, name))
        commands = [x[1:] for name in rows
                    for x in bench.commands_on(cluster, name, {})]
    return ["Hosts in network namespaces, %s each way, all on the cores of "
            "this machine. TensorFlow: one ps and two workers on three hosts; "
            "psd_run: two workers on two hosts, which are the servers, too. "
            "Batch %d each, every worker pinned to a core." % (
                bench.options.rate, bench.options.batch), ""] + \
        rate_table(rows, [NONE, TF_SYNC, TF_ASYNC],
                   ["no communication", "TensorFlow sync",
                    "TensorFlow async"]) + proof(rows) + \
        listed(bench, commands)


def write_large(bench):
    rows = measure(bench, "large", chosen(bench, [ONE, SYNC]),
                   lambda name: bench.run(name, LARGE))
    commands = [x for name in rows for x in bench.commands(name, LARGE)]
    return ["Batch %d, the same mathematics: one worker with one core, and "
            "two that share the batch (`split`), with a core each. A step is "
            "one whole batch." % LARGE, ""] + \
        rate_table(rows, [ONE], [ONE]) + proof(rows) + \
        listed(bench, commands)


def pair_lines(rounds, words, form, more):
    return ["| plain python | psd_run -n 1 | more, in the same round |",
            "| ---: | ---: | ---: |", "| %s | %s | %s |" % (
                cell([x[0] for x in rounds], form),
                cell([x[1] for x in rounds], form),
                cell([more(*x) for x in rounds],
                     "%+.2f %%" if more is percent else "%+.3f")), ""] + \
        ["    " + shown(x) for x in words]


def percent(plain, ours):
    return 100 * (ours / plain - 1)


def pair_words(bench, plain):
    return plain, [bench.psd_run, "-q", "-n", "1", "--"] + plain


def write_alone(bench):
    words = pair_words(bench, bench.script(
        "tf_plain.py", bench.options.batch, bench.options.alone_steps, 0))
    rounds = measure_pairs(bench, words, bench.options.alone_rounds,
                           lambda x: cpu_of(x, bench.folder), "s of CPU")
    return ["Seconds of user and system time of the whole command, launcher "
            "included (%d alternating rounds)." % len(rounds), ""] + \
        pair_lines(rounds, words, "%.2f", percent)


def write_import(bench):
    words = pair_words(bench, [bench.options.python, "-c", IMPORT])
    lines = []
    for title, figure in (("the import itself", import_time),
                          ("the whole command, launcher included",
                           command_time)):
        rounds = measure_pairs(bench, words, bench.options.alone_rounds,
                               lambda x, f=figure: f(bench, x), "s")
        lines += ["Seconds of wall time, %s (%d alternating rounds)." % (
            title, len(rounds)), ""] + pair_lines(
                rounds, words, "%.3f", lambda a, b: b - a) + [""]
    return lines[:-1]


PARTS = {"one": ("One host", write_one),
         "hosts": ("Hosts at 1 Gbit/s", write_hosts),
         "large": ("Batch 1000", write_large),
         "alone": ("One worker alone", write_alone),
         "import": ("Import", write_import)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--python", default=sys.executable,
                        help="the Python that has TensorFlow")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone-rounds", type=int, default=10)
    parser.add_argument("--alone-steps", type=int, default=300)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm", type=int, default=10)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--out", default=os.path.join(HERE, "TF.md"))
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    for field, known in (("only", PARTS), ("contenders", CONTENDERS)):
        values = getattr(options, field).split(",")
        setattr(options, field, values)
        if not set(values) <= set(known):
            parser.error("--%s takes %s" % (field, ",".join(known)))
    options.contenders = [CONTENDERS[x] for x in options.contenders]
    if len(os.sched_getaffinity(0)) < WORKERS:
        parser.error("%d cores are needed, one for each worker" % WORKERS)
    return options


def main():
    options = parse()
    sections = sections_of(options.out)
    with tempfile.TemporaryDirectory(prefix="psd_tf.") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options, folder)
        for part in options.only:
            title, writer = PARTS[part]
            lines = writer(bench)
            if lines is not None:
                sections[title] = lines
    write_sections(options.out, [
        "# Training with TensorFlow, side by side", "",
        "Written by `make bench` (bench/tf_peers.py; it has options for "
        "partial runs). The convolutional network of the deep-MNIST tutorial: "
        "3.27 million parameters, Adam.", "%s; TensorFlow %s." % (
            processor(), version_of(options.python, "tensorflow"))],
        [x[0] for x in PARTS.values()], sections)


if __name__ == "__main__":
    main()
