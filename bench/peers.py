#!/usr/bin/env python3
"""Measure allreduce side by side: Poseidon, OpenMPI and Gloo, on this host.

In every round each contender runs once for each number of workers, with the
same sizes, loop and timing rule; the order rotates from round to round. What
counts is the ratio of two contenders within one round, and then the median of
these ratios, so that a machine that is busy for a while disturbs both alike.

Writes RESULTS.md (tables, machine, commands), allreduce.svg (plot) and, with
--raw, every line as JSON. Called by run.sh, which builds what this needs.
"""
import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys

import plot

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
OURS = ("shm arena", "shm private", "tcp")
PEERS = ("OpenMPI shm", "OpenMPI tcp", "Gloo")


def parse_size(text):
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1].upper())
    return int(text[:-1]) << unit if unit else int(text)


def show_size(size):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return "%d %s" % (size >> shift, unit)
    return "%d B" % size


class Contenders:
    """The command line of each contender, and how to run it."""

    def __init__(self, options):
        self.options = options
        self.psd = os.path.join(options.build, "bin", "psd")
        self.mpi = os.path.join(options.build, "mpi_allreduce")

    def psd_words(self, name, workers, sizes, *more):
        words = [self.psd, "bench", "allreduce", "--json",
                 "--bytes", ",".join(map(str, sizes)),
                 "--workers", str(workers),
                 "--seconds", str(self.options.seconds),
                 "--transport", "tcp" if name == "tcp" else "auto",
                 "--memory", "private" if "private" in name else "arena",
                 "--digest", self.options.digest]
        return words + list(more)

    def mpi_words(self, name, workers, sizes):
        words = ["mpirun", "--oversubscribe", "-n", str(workers)]
        if os.geteuid() == 0:
            words.append("--allow-run-as-root")
        if name.endswith("tcp"):
            words += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                      "--mca", "btl_tcp_if_include", "lo"]
        return words + [self.mpi, ",".join(map(str, sizes)),
                        str(self.options.seconds)]

    def gloo_words(self, rank, workers, port, sizes):
        return [self.options.python,
                os.path.join(HERE, "gloo_allreduce.py"), str(rank),
                str(workers), str(port), ",".join(map(str, sizes)),
                str(self.options.seconds)]

    def run(self, name, workers, sizes, *more):
        env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        if name != "Gloo":
            words = (self.psd_words(name, workers, sizes, *more)
                     if name in OURS else self.mpi_words(name, workers, sizes))
            return lines_of(name, [subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=env, text=True)])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return lines_of(name, [subprocess.Popen(
            self.gloo_words(rank, workers, port, sizes),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
            text=True) for rank in range(workers)])


def lines_of(name, processes):
    lines = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=600)
            if process.returncode != 0:
                sys.exit("%s failed (%d):\n%s%s" % (name, process.returncode,
                                                    out, err))
            lines += [json.loads(x) for x in out.splitlines()
                      if x.startswith("{")]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    bad = [x for x in lines if not x["identical"]]
    if bad:
        sys.exit("%s: wrong result: %s" % (name, bad[0]))
    return lines


def measure(options, contenders):
    """rows[(name, workers, bytes)] = one line per round."""
    rows = {}
    for turn in range(options.rounds):
        for workers in options.workers:
            names = options.names
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                for line in contenders.run(name, workers, options.sizes):
                    key = (name, workers, line["bytes"])
                    rows.setdefault(key, []).append(line)
                    print("round %d  P=%d  %-12s %9s  %10.4f ms  %8.3f s/GB"
                          % (turn + 1, workers, name,
                             show_size(line["bytes"]), line["ms"],
                             line["cpu_s_per_GB"]), flush=True)
    return rows


def measure_small(options, contenders):
    """10,000 tensors of 4 KiB against one of their total size."""
    found = []
    for name in ("shm arena", "tcp"):
        pairs = []
        for _ in range(options.rounds):
            many = contenders.run(name, 2, [4096], "--tensors", "10000")[0]
            one = contenders.run(name, 2, [40960000])[0]
            pairs.append((many["ms"], one["ms"]))
            print("small tensors  %-10s %10.3f ms against %10.3f ms"
                  % ((name,) + pairs[-1]), flush=True)
        found.append((name, pairs))
    return found


def spread(values):
    return "%s [%s .. %s]" % tuple(
        "%.3g" % x for x in (statistics.median(values), min(values),
                             max(values)))


def column(rows, name, workers, size, field):
    return [x[field] for x in rows.get((name, workers, size), [])]


def time_table(rows, options, field):
    out = ["| workers | size | " + " | ".join(options.names) + " |",
           "| ---: | ---: |" + " ---: |" * len(options.names)]
    for workers in options.workers:
        for size in options.sizes:
            cells = [spread(column(rows, name, workers, size, field))
                     for name in options.names]
            out.append("| %d | %s | %s |" % (workers, show_size(size),
                                             " | ".join(cells)))
    return out


def ratio(rows, ours, peers, workers, size, field):
    """Per round: the best of the peers over ours, so more is better."""
    sets = [column(rows, p, workers, size, field) for p in peers]
    mine = column(rows, ours, workers, size, field)
    values = [min(x[:-1]) / x[-1] for x in zip(*sets, mine)]
    return spread(values) if values else "-"


def ratio_table(rows, options):
    heads = (("shm arena", ("OpenMPI shm", "Gloo"), "ms"),
             ("shm private", ("OpenMPI shm", "Gloo"), "ms"),
             ("tcp", ("Gloo",), "ms"), ("tcp", ("OpenMPI tcp",), "ms"),
             ("shm arena", ("Gloo",), "cpu_s_per_GB"),
             ("tcp", ("Gloo",), "cpu_s_per_GB"))
    out = ["| workers | size | " + " | ".join(
        "%s%s against %s" % ("CPU: " if f != "ms" else "", o,
                             "the faster of " + " and ".join(p)
                             if len(p) > 1 else p[0])
        for o, p, f in heads) + " |",
        "| ---: | ---: |" + " ---: |" * len(heads)]
    for workers in options.workers:
        for size in options.sizes:
            out.append("| %d | %s | %s |" % (
                workers, show_size(size), " | ".join(
                    ratio(rows, o, p, workers, size, f)
                    for o, p, f in heads)))
    return out


def output_of(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True,
                              check=False).stdout.strip()
    except OSError:
        return ""


def machine(options):
    cpu, memory = platform.machine(), ""
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    for line in open("/proc/meminfo", encoding="utf-8"):
        if line.startswith("MemTotal"):
            memory = "%.0f GiB" % (int(line.split()[1]) / 2**20)
    release = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ["%d cores of %s, %s, %s, Linux %s." % (
        len(os.sched_getaffinity(0)), cpu, memory, release,
        platform.release()), "Peers: %s; torch %s (Gloo)." % (
        (output_of("mpirun", "--version").splitlines() or ["no OpenMPI"])[0],
        output_of(options.python, "-c", "import torch;"
                  "print(torch.__version__)"))]


def shown(words):
    """A command line without this machine's paths."""
    return "    " + " ".join(
        os.path.relpath(x, ROOT) if x.startswith(ROOT)
        else os.path.basename(x) if x.startswith("/") else x for x in words)


def report(rows, small, options, contenders):
    text = ["# Allreduce on one host, side by side", "",
            "Written by `make bench` (%d rounds, %g s per size and round). "
            "Every cell: median [least .. most] over the rounds."
            % (options.rounds, options.seconds), ""]
    text += machine(options)
    text += ["", "![time over size](allreduce.svg)", "",
             "## Milliseconds per allreduce (mean of the loop)", ""]
    text += time_table(rows, options, "ms")
    text += ["", "Poseidon computes the weighted mean and checks replicas "
             "(`--digest %s`); the peers compute a plain sum in private "
             "memory." % options.digest, "",
             "## Times faster than the peer in the same round", ""]
    text += ratio_table(rows, options)
    text += ["", "## CPU seconds per GB reduced, all processes", ""]
    text += time_table(rows, options, "cpu_s_per_GB")
    if small:
        text += ["", "## 10,000 tensors of 4 KiB, 2 workers", "",
                 "| | all of them, ms | one tensor of 40.96 MB, ms | ratio |",
                 "| --- | ---: | ---: | ---: |"]
        for name, pairs in small:
            text.append("| %s | %s | %s | %s |" % (
                name, spread([m for m, _ in pairs]),
                spread([o for _, o in pairs]),
                spread([m / o for m, o in pairs])))
    text += ["", "## Commands", ""]
    workers, sizes = options.workers[0], options.sizes
    for name in options.names:
        if name in OURS:
            text.append(shown(contenders.psd_words(name, workers, sizes)))
        elif name == "Gloo":
            text.append(shown(contenders.gloo_words(0, workers, 29500,
                                                    sizes)))
        else:
            text.append(shown(contenders.mpi_words(name, workers, sizes)))
    return "\n".join(text) + "\n"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--bytes", default="64K,1M,16M,100M")
    parser.add_argument("--digest", default="rotate")
    parser.add_argument("--names", default=",".join(OURS + PEERS),
                        help="contenders, separated by commas")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--python", default=sys.executable,
                        help="the Python that has torch")
    parser.add_argument("--out", default=HERE, help="folder to write to")
    parser.add_argument("--raw", help="file for every line, as JSON")
    options = parser.parse_args()
    options.workers = [int(x) for x in options.workers.split(",")]
    options.sizes = [parse_size(x) for x in options.bytes.split(",")]
    options.names = options.names.split(",")
    unknown = set(options.names) - set(OURS + PEERS)
    if unknown:
        parser.error("no contender named %s" % ", ".join(unknown))
    return options


def main():
    options = parse()
    contenders = Contenders(options)
    rows = measure(options, contenders)
    small = (measure_small(options, contenders)
             if set(options.names) & set(OURS) else [])
    text = report(rows, small, options, contenders)
    with open(os.path.join(options.out, "RESULTS.md"), "w",
              encoding="utf-8") as file:
        file.write(text)
    with open(os.path.join(options.out, "allreduce.svg"), "w",
              encoding="utf-8") as file:
        file.write(plot.draw(rows, options.names, options.workers,
                             options.sizes, show_size))
    if options.raw:
        with open(options.raw, "w", encoding="utf-8") as file:
            for (name, _, _), lines in rows.items():
                for line in lines:
                    file.write(json.dumps(dict(line, name=name)) + "\n")
    print(text)


if __name__ == "__main__":
    main()
