#!/usr/bin/env python3
"""How long a launcher takes: bench/start.py --build DIR --python PYTHON

An empty program (empty.c) joins, meets once and leaves. On this machine four
of them under psd_run, mpirun (its own empty program) and torchrun, which
starts ours without a job: launching alone. On eight hosts of network
namespaces psd_run over ssh beside eight bare `ssh host true` started
together. All in the same rounds, in turn; what counts is the median. Writes
START.md beside this file. The hosts need root; without it they are left out,
and the file says why.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
from cluster import Cluster  # noqa: E402

HOSTS = 8


def timed(words, cwd):
    start = time.perf_counter()
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit("start.py: %s: %s" % (" ".join(words), done.stdout))
    return time.perf_counter() - start


def build(options, folder):
    include = os.path.join(os.path.dirname(HERE), "include")
    ours, mpi = folder + "/empty", folder + "/mpi_empty"
    source = os.path.join(HERE, "empty.c")
    subprocess.run(["cc", "-O2", "-I", include, source, "-o", ours,
                    "-L", options.build, "-lposeidon",
                    "-Wl,-rpath," + options.build], check=True)
    subprocess.run(["mpicc", "-O2", "-DMPI", source, "-o", mpi], check=True)
    return ours, mpi


def contenders(options, ours, mpi):
    psd_run = os.path.join(options.build, "bin", "psd_run")
    torchrun = os.path.join(os.path.dirname(options.python), "torchrun")
    return {
        "alone": [ours],
        "psd_run -n 4": [psd_run, "-q", "-n", "4", "--", ours],
        "mpirun -n 4": ["mpirun", "--allow-run-as-root", "--oversubscribe",
                        "-n", "4", mpi],
        "torchrun, 4 processes": [
            torchrun, "--standalone", "--no-python", "--nproc-per-node", "4",
            ours],
    }


def bare_ssh(cluster, nodes):
    start = time.perf_counter()
    children = [cluster.popen("node0", ["ssh", node, "true"])
                for node in nodes]
    codes = [child.wait() for child in children]
    if any(codes):
        sys.exit("start.py: ssh: exit codes %s" % codes)
    return time.perf_counter() - start


def measure(options, folder):
    ours, mpi = build(options, folder)
    rows = {name: [] for name in contenders(options, ours, mpi)}
    why = Cluster.missing()
    for _ in range(options.rounds):
        for name, words in contenders(options, ours, mpi).items():
            rows[name].append(timed(words, folder))
    if why is None:
        rows["%d x ssh host true, together" % HOSTS] = bare = []
        rows["psd_run on %d hosts over ssh" % HOSTS] = wide = []
        with Cluster(HOSTS + 1) as cluster:
            nodes = ["node%d" % (i + 1) for i in range(HOSTS)]
            path = os.path.join(folder, "cluster.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"worker_nodes": nodes, "server_nodes": nodes}, file)
            words = [os.path.join(options.build, "bin", "psd_run"), "-q",
                     "-c", path, "--", ours]
            for _ in range(options.rounds):
                bare.append(bare_ssh(cluster, nodes))
                start = time.perf_counter()
                done = cluster.run("node0", words, cwd=folder)
                wide.append(time.perf_counter() - start)
                if done.returncode != 0:
                    sys.exit("start.py: " + done.stderr)
    return rows, why, contenders(options, "empty", "mpi_empty")


def write(options, rows, why, commands):
    lines = ["# Starting a job", "",
             "Written by `make bench` (%d rounds; every cell: median [least .. "
             "most], seconds of wall time)." % options.rounds, "",
             "| what | s |", "| --- | ---: |"]
    for name, times in rows.items():
        lines.append("| %s | %.3f [%.3f .. %.3f] |" % (
            name, statistics.median(times), min(times), max(times)))
    over = statistics.median(rows["psd_run -n 4"]) - statistics.median(
        rows["alone"])
    lines += ["", "psd_run -n 4 beyond the program itself: %.3f s." % over]
    names = list(rows)
    if why is None:
        ratio = statistics.median(
            b / a for a, b in zip(rows[names[-2]], rows[names[-1]]))
        lines += ["psd_run on %d hosts against bare ssh, in the same round: "
                  "%.2f." % (HOSTS, ratio)]
    else:
        lines += ["Hosts were left out: " + why]
    lines += ["", "torchrun starts the program without a job: it joins nothing "
              "and meets nobody.", "", "## Commands", ""]
    lines += ["    " + " ".join(os.path.basename(x) if os.sep in x else x
                                for x in words)
              for words in commands.values()]
    lines += ["    psd_run -q -c cluster.json -- empty    "
              "# %d hosts of tests/cluster" % HOSTS, ""]
    with open(os.path.join(HERE, "START.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    print("\n".join(lines[4:-8]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", required=True, help="one that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="psd_start.") as folder:
        os.chmod(folder, 0o755)
        rows, why, commands = measure(options, folder)
    write(options, rows, why, commands)


main()
