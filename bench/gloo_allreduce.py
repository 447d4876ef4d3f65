"""The loop of `psd bench allreduce`, with torch.distributed over Gloo.

Usage: gloo_allreduce.py RANK WORKERS [HOST:]PORT BYTES,BYTES,... SECONDS
       gloo_allreduce.py --cluster WORKERS RATE BYTES,... SECONDS [ROUNDS]

The second form makes a cluster of that many hosts (tests/cluster.py; root
only; RATE as 1gbit), runs the first once a round, one rank per host, and adds
the bus bandwidth, 2 (P - 1) / P x bytes / second; the last lines are medians.

The same rules as mpi_allreduce.c: new data and a barrier before each run,
outside the clock; warm-up decides the number of runs, their time is the mean
over the ranks (median and 99th percentile are rank 0's), one JSON object per
size and line, a sum in place (no division), one thread.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

WARM_UP, PORT = 5, "29500"
HERE = os.path.dirname(os.path.abspath(__file__))


def check(data, rank, workers):
    index = torch.arange(data.numel(), dtype=torch.int64) % 1000
    data.copy_((index + rank).float())
    dist.all_reduce(data)
    sure = workers * (workers - 1) // 2 + workers * index
    good = torch.tensor([int(torch.equal(data, sure.float()))])
    dist.all_reduce(good, op=dist.ReduceOp.MIN)
    return bool(good.item())


def loop(data, runs, rank):
    """Returns seconds, processor seconds of this rank, and each run's."""
    taken, spent = [], 0.0
    for i in range(runs):
        data.fill_(rank + i % 1000)
        dist.barrier()
        cpu = time.process_time()
        begin = time.perf_counter()
        dist.all_reduce(data)
        taken.append(time.perf_counter() - begin)
        spent += time.process_time() - cpu
    return sum(taken), spent, taken


def measure(size, seconds, rank, workers):
    data = torch.zeros(size // 4, dtype=torch.float32)
    identical = check(data, rank, workers)
    warm = loop(data, WARM_UP, rank)[0] / WARM_UP
    runs = torch.tensor([int(seconds / warm)])
    dist.broadcast(runs, 0)
    runs = min(max(int(runs.item()), 5), 1000000)
    total, cpu, taken = loop(data, runs, rank)
    sums = torch.tensor([cpu, total], dtype=torch.float64)
    dist.all_reduce(sums)
    spent, total = sums[0].item(), sums[1].item() / workers
    identical = check(data, rank, workers) and identical
    if rank == 0:
        taken.sort()
        print(json.dumps({
            "bench": "allreduce", "bytes": size, "workers": workers,
            "runs": runs, "ms": round(1e3 * total / runs, 6),
            "ms_median": round(1e3 * taken[runs // 2], 6),
            "ms_p99": round(1e3 * taken[int(0.99 * runs)], 6),
            "cpu_s_per_GB": round(spent / (1e-9 * size * runs), 4),
            "identical": identical}), flush=True)


def over_cluster(cluster, sizes, seconds):
    """One round: rank i on host i; what rank 0 printed, with bandwidth."""
    count = len(cluster.nodes)
    ranks = [cluster.popen(
        node, [sys.executable, os.path.abspath(__file__), str(rank),
               str(count), "node0:" + PORT, sizes, seconds],
        env={"GLOO_SOCKET_IFNAME": "eth0"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True)
        for rank, node in enumerate(cluster.nodes)]
    outputs = [x.communicate()[0] for x in ranks]
    if any(x.returncode != 0 for x in ranks):
        sys.exit("gloo_allreduce: a rank failed; its words are above")
    lines = [json.loads(x) for x in outputs[0].splitlines()]
    for line in lines:
        line["bus_GB_per_s"] = round(
            2e-6 * (count - 1) / count * line["bytes"] / line["ms"], 5)
    return lines


def make_cluster(workers, rate, sizes, seconds, rounds="1"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
    from cluster import Cluster  # pylint: disable=import-outside-toplevel
    why = Cluster.missing(rate=rate)
    if why is not None:
        sys.exit("gloo_allreduce: no cluster: " + why)
    every = {}
    with Cluster(int(workers), rate=rate) as cluster:
        for _ in range(int(rounds)):
            for line in over_cluster(cluster, sizes, seconds):
                print(json.dumps(line), flush=True)
                every.setdefault(line["bytes"], []).append(line)
    for size, lines in every.items():
        print(json.dumps({"bytes": size, "rounds": len(lines), **{
            "median_" + name: round(statistics.median(
                x[name] for x in lines), 5)
            for name in ("ms", "bus_GB_per_s")}}), flush=True)


def main():
    if sys.argv[1] == "--cluster":
        make_cluster(*sys.argv[2:])
        return
    rank, workers = int(sys.argv[1]), int(sys.argv[2])
    where = sys.argv[3] if ":" in sys.argv[3] else "127.0.0.1:" + sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="tcp://" + where, rank=rank,
                            world_size=workers)
    for size in sys.argv[4].split(","):
        measure(int(size), float(sys.argv[5]), rank, workers)
    dist.destroy_process_group()


main()
