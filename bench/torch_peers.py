#!/usr/bin/env python3
"""Training with torch, side by side: a plain script under psd_run and DDP.

    bench/torch_peers.py --build DIR --python PYTHON [--rounds 5]
        [--models mlp,vgg,cifar,transformer] [--only one,hosts,alone,start]
        [--workers 2,4] [--steps N]

In every round each contender trains once, the order rotates from round to
round; what counts is the ratio within a round, and then the median. Contenders
on one host (part `one`): processes that do not communicate, the same with a
tuned malloc, psd_run with the plain script as it is, and the script rewritten
for DDP over Gloo. On four hosts at 1 Gbit/s (`hosts`; network namespaces, root
only): psd_run over ssh and DDP. `alone`: psd_run -n 1 against plain python.
`start`: four workers that import torch and make an optimizer.

Writes TORCH.md beside this file. A run of some parts replaces their sections
and leaves the others as they are.
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

# name: (what it is, measured steps). torch_models.py has the rest, and is not
# imported here because it needs torch.
MODELS = {
    "mlp": ("MLP 784-4096-4096-10, batch 32", 30),
    "vgg": ("VGG head 25088-4096-4096-1000, batch 32", 10),
    "cifar": ("CIFAR-quick conv net, batch 100", 40),
    "transformer": ("transformer 4 x 128, batch 8 x 64", 80),
}
NONE, TUNED, OURS, DDP, DDP_HUGE = (
    "no communication", "no communication, tuned malloc", "psd_run", "DDP",
    "DDP, huge pages")
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # as psd_run sets it
MALLOC = dict(HUGE, MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="4000000000",
              MALLOC_TOP_PAD_="268435456")
WARM, HOSTS, PORT = 6, 4, "29500"
PARTS = ("one", "hosts", "alone", "start")
JOINS = ("import torch; torch.optim.SGD([torch.nn.Parameter(torch.zeros(8))],"
         " 0.1)")


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.psd_run = os.path.join(options.build, "bin", "psd_run")

    def script(self, name, model):
        steps = self.options.steps or MODELS[model][1]
        return [self.options.python, os.path.join(HERE, name), model,
                str(steps), str(WARM)]

    def meet(self, count):
        folder = tempfile.mkdtemp(prefix="meet.", dir=self.folder)
        return "%s:%d" % (folder, count)

    def figures(self):
        """What psd_run counted in its last job."""
        logs = max(glob.glob(self.folder + "/poseidon_log_*"),
                   key=os.path.getmtime)
        with open(logs + "/report.json", encoding="utf-8") as file:
            figures = json.load(file)["figures"]
        shutil.rmtree(logs)
        return figures

    def gather(self, name, processes):
        """One row out of what the processes printed."""
        lines = []
        try:
            for process in processes:
                out, err = process.communicate(timeout=LIMIT)
                found = [json.loads(x[x.index("{"):])
                         for x in out.splitlines() if '{"wall_ms"' in x]
                if process.returncode != 0:
                    what = "torch_peers.py: %s failed (%d):\n%s%s" % (
                        name, process.returncode, out, err)
                    if name == OURS or not found:
                        sys.exit(what)
                    # Gloo aborts at its end, rarely.
                    print(what, file=sys.stderr)
                lines += found
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        return {"wall_ms": max(x["wall_ms"] for x in lines),
                "cpu_ms": statistics.mean(x["cpu_ms"] for x in lines),
                "faults": statistics.mean(x["faults"] for x in lines),
                "steps": lines[0]["steps"], "bytes": lines[0]["bytes"],
                "workers": len(lines),
                "equal": len({x["sum"] for x in lines}) == 1}

    def popen(self, words, **more):
        """In a session of its own, as psd_run starts workers: the scheduler
        shares the machine among sessions."""
        return subprocess.Popen(
            words, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=environment(**more))

    def command(self, name, model, workers):
        """What is started, once or for each rank; and its variables."""
        if name == OURS:
            return [self.psd_run, "-q", "--tee", "all", "-n", str(workers),
                    "--"] + self.script("torch_plain.py", model), {}
        if name == DDP:
            return self.script("torch_ddp.py", model), {
                "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1",
                "WORLD_SIZE": str(workers)}
        return (self.script("torch_plain.py", model),
                MALLOC if name == TUNED else {})

    def run(self, name, model, workers):
        words, more = self.command(name, model, workers)
        more = dict(more, BENCH_MEET=self.meet(workers))
        if name == DDP:
            more["MASTER_PORT"] = free_port()
        count = 1 if name == OURS else workers
        row = self.gather(name, [
            self.popen(words, **dict(more, RANK=str(rank))
                       if name == DDP else more) for rank in range(count)])
        if name == OURS:
            row["figures"] = self.figures()
        return row

    # ---- four hosts ----------------------------------------------------

    def run_on(self, cluster, name, model):
        more = dict(THREADS, BENCH_MEET=self.meet(HOSTS))
        pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, text=True)
        if name == OURS:
            words = [self.psd_run, "-q", "--tee", "all", "-c",
                     self.folder + "/cluster.json"]
            for variable in more:
                words += ["-x", variable]
            words.append("--")
            row = self.gather(name, [cluster.popen(
                "node0", words + self.script("torch_plain.py", model),
                cwd=self.folder, env=more, **pipes)])
            row["figures"] = self.figures()
            return row
        script, ranks = self.script("torch_plain.py", model), {}
        if name in (DDP, DDP_HUGE):
            script = self.script("torch_ddp.py", model)
            ranks = {"GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": "node0",
                     "MASTER_PORT": PORT, "WORLD_SIZE": str(HOSTS)}
        if name == DDP_HUGE:
            ranks.update(HUGE)
        return self.gather(name, [cluster.popen(
            node, script, cwd=self.folder,
            env=dict(more, RANK=str(rank), **ranks), **pipes)
            for rank, node in enumerate(cluster.nodes)])


# ---- measuring ------------------------------------------------------------

def note(turn, what, name, row):
    print("round %d  %-24s %-32s %8.1f ms wall %8.1f ms CPU%s" % (
        turn + 1, what, name, row["wall_ms"], row["cpu_ms"],
        "" if row["equal"] or name in (NONE, TUNED) else
        "  REPLICAS DIFFER"), flush=True)


def measure_one(bench):
    """rows[(model, workers, name)]: one row per round."""
    rows = {}
    for turn in range(bench.options.rounds):
        for model in bench.options.models:
            for workers in [1] + bench.options.workers:
                names = [NONE] if workers == 1 else [NONE, TUNED, OURS, DDP]
                for name in turned(names, turn):
                    row = bench.run(name, model, workers)
                    rows.setdefault((model, workers, name), []).append(row)
                    note(turn, "%s P=%d" % (model, workers), name, row)
    return rows


def measure_hosts(bench):
    rows = {}
    with cluster_tools.Cluster(HOSTS, rate=bench.options.rate) as cluster:
        with open(bench.folder + "/cluster.json", "w",
                  encoding="utf-8") as file:
            json.dump({"worker_nodes": cluster.nodes,
                       "server_nodes": cluster.nodes}, file)
        for turn in range(bench.options.rounds):
            for model in bench.options.models:
                for name in turned([NONE, OURS, DDP, DDP_HUGE], turn):
                    row = bench.run_on(cluster, name, model)
                    rows.setdefault((model, HOSTS, name), []).append(row)
                    note(turn, model + " on hosts", name, row)
    return rows


def alone_words(bench):
    plain = [bench.options.python, os.path.join(HERE, "torch_plain.py"),
             bench.options.models[-1], str(bench.options.alone_steps), "0"]
    return plain, [bench.psd_run, "-q", "-n", "1", "--"] + plain


def measure_alone(bench):
    plain, ours = alone_words(bench)
    rounds = []
    for turn in range(bench.options.alone_rounds):
        both = [(plain, 0), (ours, 1)]
        times = [0.0, 0.0]
        for words, index in turned(both, turn):
            times[index] = cpu_of(words, bench.folder)
        rounds.append(times)
        print("round %d  alone: plain %.2f s, psd_run -n 1 %.2f s" % (
            turn + 1, *times), flush=True)
    return rounds


def start_words(bench, script):
    python = bench.options.python
    torchrun = os.path.join(os.path.dirname(python), "torchrun")
    return {
        "4 x python at once": [[python, "-c", script]] * 4,
        "psd_run -n 4": [[bench.psd_run, "-q", "-n", "4", "--", python, "-c",
                          script]],
        "torchrun, 4 processes": [[torchrun, "--standalone", "--no-python",
                                   "--nproc-per-node", "4", python, "-c",
                                   script]],
    }


def measure_start(bench):
    rows = {}
    for turn in range(bench.options.start_rounds):
        for name, commands in turned(list(start_words(bench, JOINS).items()),
                                     turn):
            begin = time.perf_counter()
            children = [bench.popen(x) for x in commands]
            for child in children:
                out, err = child.communicate(timeout=LIMIT)
                if child.returncode != 0:
                    sys.exit("torch_peers.py: %s: %s%s" % (name, out, err))
            rows.setdefault(name, []).append(time.perf_counter() - begin)
            print("round %d  start: %-24s %.2f s" % (turn + 1, name,
                                                     rows[name][-1]),
                  flush=True)
    return rows


# ---- writing ----------------------------------------------------------------

def column(rows, model, workers, name, field):
    return [x[field] for x in rows[(model, workers, name)]]


def ratios(rows, model, workers, above, below, field="wall_ms"):
    return [a / b for a, b in zip(column(rows, model, workers, above, field),
                                  column(rows, model, workers, below, field))]


def excess(rows, model, workers):
    """What we and DDP cost beyond no communication, ms."""
    base = column(rows, model, workers, NONE, "wall_ms")
    ours = column(rows, model, workers, OURS, "wall_ms")
    peer = column(rows, model, workers, DDP, "wall_ms")
    return (statistics.median(x - n for x, n in zip(ours, base)),
            statistics.median(x - n for x, n in zip(peer, base)))


def time_table(rows, names, field, single):
    lines = ["| model | workers | " + ("one process alone | " if single else
                                       "") + " | ".join(names) + " |",
             "| --- | ---: |" + " ---: |" * (len(names) + single)]
    for model, workers, name in rows:
        if name != names[0] or (single and workers == 1):
            continue
        first = [cell(column(rows, model, 1, NONE, field))] if single else []
        lines.append("| %s | %d | %s |" % (
            MODELS[model][0], workers, " | ".join(
                first + [cell(column(rows, model, workers, x, field))
                         for x in names])))
    return lines


def ratio_table(rows, pairs):
    lines = ["| model | workers | " + " | ".join(
        "%s / %s" % x for x in pairs) + " | CPU: %s / %s" % pairs[-1] +
        " | ms beyond no communication: psd_run, DDP |",
        "| --- | ---: |" + " ---: |" * (len(pairs) + 2)]
    for model, workers, name in rows:
        if name != OURS:
            continue
        cells = [cell(ratios(rows, model, workers, *x), "%.2f")
                 for x in pairs]
        cells.append(cell(ratios(rows, model, workers, *pairs[-1],
                                 field="cpu_ms"), "%.2f"))
        cells.append("%.1f, %.1f" % excess(rows, model, workers))
        lines.append("| %s | %d | %s |" % (MODELS[model][0], workers,
                                           " | ".join(cells)))
    return lines


def payload_table(rows):
    """By our counters, against what has to move."""
    lines = ["| model | workers | exchanged per worker and step, bytes | "
             "parameters, bytes | ratio | over sockets, per worker and step | "
             "formula | ratio |",
             "| --- | ---: |" + " ---: |" * 6]
    for (model, workers, name), found in rows.items():
        if name != OURS:
            continue
        row = found[-1]
        size, figures = row["bytes"], row["figures"]
        # Less what the same start of all workers took: one sends, all get.
        start = 2 * size * (workers - 1) * (workers + 1) / workers ** 2
        moved = (figures["exchanged_bytes"] / workers - size) / row["steps"]
        wire = max(figures["wire_bytes"] / workers - start, 0) / row["steps"]
        formula = (0 if wire == 0 else
                   2 * size * (2 * workers - 2) / workers)
        lines.append("| %s | %d | %.0f | %d | %.3f | %.0f | %.0f | %s |" % (
            MODELS[model][0], workers, moved, size, moved / size, wire,
            formula,
            "%.3f" % (wire / formula) if formula else "-"))
    return lines


def commands_one(bench, rows):
    model, workers, _ = list(rows)[-1]
    lines = ["", "Commands, for one model:", ""]
    for name in (NONE, TUNED, OURS, DDP):
        words, more = bench.command(name, model, workers)
        many = "" if name == OURS else "    # %d at once" % workers
        lines.append("    " + "".join("%s=%s " % x for x in dict(
            more, OMP_NUM_THREADS="1").items()) + shown(words) + many)
    return lines


def write_one(bench):
    rows = measure_one(bench)
    names = [NONE, TUNED, OURS, DDP]
    return ["Milliseconds of wall time per step (of the slowest worker; median"
            " [least .. most] over %d rounds). Every process has a batch of "
            "its own and one thread." % bench.options.rounds, ""] + \
        time_table(rows, names, "wall_ms", 1) + \
        ["", "Ratios within a round. The gain over plain torch without "
         "communication comes from memory: gradients lie where those of the "
         "step before lay and the rest in huge pages, so the kernel has no "
         "pages to clear. The column of the tuned malloc shows that share.", ""] + \
        ratio_table(rows, [(OURS, NONE), (OURS, TUNED), (DDP, OURS)]) + \
        ["", "Milliseconds of CPU time per step and worker.", ""] + \
        time_table(rows, names, "cpu_ms", 1) + \
        ["", "Page faults per step and worker.", ""] + \
        time_table(rows, names, "faults", 1) + \
        ["", "Payload, by psd_run's report.json.", ""] + \
        payload_table(rows) + commands_one(bench, rows)


def write_hosts(bench):
    why = cluster_tools.Cluster.missing(rate=bench.options.rate)
    if why is not None:
        print("torch_peers.py: hosts left out: " + why)
        return None
    rows = measure_hosts(bench)
    names = [NONE, OURS, DDP, DDP_HUGE]
    return ["%d hosts in network namespaces, %s each way, all on the cores of "
            "this machine. Milliseconds of wall time per step." % (
                HOSTS, bench.options.rate), ""] + \
        time_table(rows, names, "wall_ms", 0) + \
        ["", "psd_run lets its workers have their memory in huge pages; the "
         "last column of times has DDP with the same setting.", ""] + \
        ratio_table(rows, [(OURS, NONE), (OURS, DDP_HUGE), (OURS, DDP)]) + \
        ["", "Milliseconds of CPU time per step and worker.", ""] + \
        time_table(rows, names, "cpu_ms", 0) + \
        ["", "Payload, by psd_run's report.json. Formula: what a worker sends "
         "and receives as worker and as server, 2 (P1 + P2 - 2) / P2 for each "
         "byte.", ""] + payload_table(rows) + \
        ["", "Commands, for one model:", "",
         "    psd_run -q -c cluster.json -- " + shown(bench.script(
             "torch_plain.py", bench.options.models[0])),
         "    GLOO_SOCKET_IFNAME=eth0 MASTER_ADDR=node0 RANK=r WORLD_SIZE=%d "
         % HOSTS + shown(bench.script("torch_ddp.py",
                                      bench.options.models[0]))]


def write_alone(bench):
    rounds = measure_alone(bench)
    plain, ours = alone_words(bench)
    return ["Seconds of user and system time of the whole command, launcher "
            "included (%d alternating rounds)." % len(rounds), "",
            "| plain python | psd_run -n 1 | more, in the same round |",
            "| ---: | ---: | ---: |",
            "| %s | %s | %s |" % (
                cell([x[0] for x in rounds], "%.2f"),
                cell([x[1] for x in rounds], "%.2f"),
                cell([100 * (x[1] / x[0] - 1) for x in rounds],
                     "%+.2f %%")), "",
            "    " + shown(plain), "    " + shown(ours)]


def write_start(bench):
    rows = measure_start(bench)
    base = rows["4 x python at once"]
    lines = ["Seconds from the command to its end. The program imports torch "
             "and makes an optimizer; under psd_run it has joined the job "
             "then.", "", "| what | s | more than plain |",
             "| --- | ---: | ---: |"]
    for name in start_words(bench, JOINS):
        lines.append("| %s | %s | %+.2f |" % (
            name, cell(rows[name], "%.2f"), statistics.median(
                x - b for x, b in zip(rows[name], base))))
    return lines + ["", "    python -c '%s'" % JOINS]


TITLES = {"one": "One host", "hosts": "Four hosts at 1 Gbit/s",
          "alone": "One worker alone", "start": "Start"}


def machine(options):
    return "%s; torch %s, one thread per process." % (
        processor(), version_of(options.python, "torch"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--python", default=sys.executable,
                        help="the Python that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone-rounds", type=int, default=10)
    parser.add_argument("--alone-steps", type=int, default=300)
    parser.add_argument("--start-rounds", type=int, default=7)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--steps", type=int,
                        help="measured steps, instead of each model's own")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--out", default=os.path.join(HERE, "TORCH.md"))
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    for field, known in (("models", MODELS), ("only", PARTS)):
        values = getattr(options, field).split(",")
        setattr(options, field, values)
        if not set(values) <= set(known):
            parser.error("--%s takes %s" % (field, ",".join(known)))
    options.workers = [int(x) for x in options.workers.split(",")]
    return options


def main():
    options = parse()
    writers = {"one": write_one, "hosts": write_hosts, "alone": write_alone,
               "start": write_start}
    sections = sections_of(options.out)
    with tempfile.TemporaryDirectory(prefix="psd_torch.") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options, folder)
        for part in options.only:
            lines = writers[part](bench)
            if lines is not None:
                sections[TITLES[part]] = lines
    write_sections(options.out, [
        "# Training with torch, side by side", "",
        "Written by `make bench` (bench/torch_peers.py; it has options "
        "for partial runs).", machine(options)], TITLES.values(), sections)


if __name__ == "__main__":
    main()
