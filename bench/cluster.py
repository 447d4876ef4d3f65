#!/usr/bin/env python3
"""Allreduce over several hosts, side by side with Gloo.

    bench/cluster.py --build DIR --python PYTHON [--rounds 3] [--rate 1gbit]

Four hosts of tests/cluster (network namespaces, each behind a port of that
rate): in every round psd_run -c over ssh, then Gloo, one worker per host, the
same sizes, loop and clock. What counts is the ratio within a round, and then
the median. The interfaces' counters and our own are compared with the bytes
that the formula asks for: 2 N (P1 + P2 - 2) / P2 for each host. Writes
CLUSTER.md beside this file. Root only; where it cannot run it says why.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
from cluster import Cluster  # noqa: E402

HOSTS, PORT = 4, "29500"
SIZES = "65536,1048576,16777216,104857600"


def bandwidth(line):
    return 2e-6 * (HOSTS - 1) / HOSTS * line["bytes"] / line["ms"]


def run_psd(cluster, options, folder):
    words = [os.path.join(options.build, "bin", "psd_run"), "-q", "-c",
             os.path.join(folder, "cluster.json"), "--",
             os.path.join(options.build, "bin", "psd"), "bench", "allreduce",
             "--json", "--bytes", SIZES, "--seconds", str(options.seconds)]
    before = cluster.counters("node1")
    done = cluster.run("node0", words, cwd=folder)
    after = cluster.counters("node1")
    if done.returncode != 0:
        sys.exit("cluster.py: psd_run: " + done.stderr)
    report = max(glob.glob(folder + "/poseidon_log_*/report.json"),
                 key=os.path.getmtime)
    with open(report, encoding="utf-8") as file:
        figures = json.load(file)["figures"]
    moved = sum(after[x] - before[x] for x in ("sent", "received"))
    return [json.loads(x) for x in done.stdout.splitlines()], {
        "own": figures["wire_bytes"] / figures["exchanged_bytes"],
        "interface": moved / (figures["wire_bytes"] / HOSTS)}


def run_gloo(cluster, options):
    ranks = [cluster.popen(
        node, [options.python, os.path.join(HERE, "gloo_allreduce.py"),
               str(rank), str(HOSTS), "node0:" + PORT, SIZES,
               str(options.seconds)],
        env={"GLOO_SOCKET_IFNAME": "eth0"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for rank, node in enumerate(cluster.nodes)]
    outputs = [x.communicate()[0] for x in ranks]
    if any(x.returncode != 0 for x in ranks):
        sys.exit("cluster.py: a rank of Gloo failed")
    return [json.loads(x) for x in outputs[0].splitlines()]


def measure(options):
    rounds = []
    with tempfile.TemporaryDirectory(prefix="psd_cluster.") as folder, \
            Cluster(HOSTS, rate=options.rate) as cluster:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "cluster.json"), "w",
                  encoding="utf-8") as file:
            json.dump({"worker_nodes": cluster.nodes,
                       "server_nodes": cluster.nodes}, file)
        for number in range(options.rounds):
            ours, moved = run_psd(cluster, options, folder)
            gloo = run_gloo(cluster, options)
            rounds.append((ours, gloo, moved))
            for a, b in zip(ours, gloo):
                print("round %d  %9d bytes  psd %.4f GB/s  Gloo %.4f GB/s" % (
                    number + 1, a["bytes"], bandwidth(a), bandwidth(b)),
                    flush=True)
    return rounds


def cell(values, form="%.4f"):
    return (form + " [" + form + " .. " + form + "]") % (
        statistics.median(values), min(values), max(values))


def write(options, rounds):
    first = rounds[0][0][0]
    lines = ["# Allreduce over %d hosts at %s" % (HOSTS, options.rate), "",
             "Written by `make bench` (%d rounds, %g s per size and round). "
             "Every cell: median [least .. most]. Transport %s, memory %s, "
             "digest %s, one worker per host." % (
                 options.rounds, options.seconds, first["transport"],
                 first["memory"], first["digest"]), "",
             "| size | psd, bus GB/s | Gloo, bus GB/s | psd / Gloo in the "
             "same round | psd, CPU s/GB | Gloo, CPU s/GB |",
             "| ---: | ---: | ---: | ---: | ---: | ---: |"]
    for index, line in enumerate(rounds[0][0]):
        ours = [r[0][index] for r in rounds]
        gloo = [r[1][index] for r in rounds]
        lines.append("| %d | %s | %s | %s | %s | %s |" % (
            line["bytes"], cell([bandwidth(x) for x in ours]),
            cell([bandwidth(x) for x in gloo]),
            cell([b["ms"] / a["ms"] for a, b in zip(ours, gloo)], "%.3f"),
            cell([x["cpu_s_per_GB"] for x in ours], "%.2f"),
            cell([x["cpu_s_per_GB"] for x in gloo], "%.2f")))
    lines += ["", "The time of a run is the mean over the ranks. "
              "A port that was idle lets one packet of 64 KiB through at "
              "once (tests/cluster.py), which is most of what a host sends for "
              "65536 bytes: psd's bandwidth in that row is above the "
              "line's."]
    formula = 2 * (HOSTS + HOSTS - 2) / HOSTS
    lines += ["", "Payload that a worker sent and received over sockets, by its "
              "own counters, for each byte exchanged: %s; the formula, 2 (P1 + "
              "P2 - 2) / P2, says %g. What the interface of one host counted, "
              "headers and all, for each byte of that payload: %s." % (
                  cell([r[2]["own"] for r in rounds]), formula,
                  cell([r[2]["interface"] for r in rounds])),
              "", "## Commands", "",
              "    bench/cluster.py --build build --python PYTHON --rounds %d "
              "--rate %s" % (options.rounds, options.rate),
              "    psd_run -q -c cluster.json -- psd bench allreduce --json "
              "--bytes %s --seconds %g" % (SIZES, options.seconds),
              "    GLOO_SOCKET_IFNAME=eth0 python bench/gloo_allreduce.py RANK "
              "%d node0:%s %s %g" % (HOSTS, PORT, SIZES, options.seconds), ""]
    with open(os.path.join(HERE, "CLUSTER.md"), "w",
              encoding="utf-8") as file:
        file.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--python", required=True, help="one that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    why = Cluster.missing(rate=options.rate)
    if why is not None:
        print("bench/cluster.py: left out: " + why)
        return
    write(options, measure(options))


main()
