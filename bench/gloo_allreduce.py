"""The loop of `psd bench allreduce`, with torch.distributed over Gloo.

Usage: gloo_allreduce.py RANK WORKERS PORT BYTES,BYTES,... SECONDS

The same rules as mpi_allreduce.c: new data and a barrier before each run,
outside the clock; warm-up decides the number of runs, the clock is rank 0's,
one JSON object per size and line, a sum in place (no division), one thread.
"""
import json
import sys
import time

import torch
import torch.distributed as dist

WARM_UP = 5


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
    spent = torch.tensor([cpu], dtype=torch.float64)
    dist.all_reduce(spent)
    identical = check(data, rank, workers) and identical
    if rank == 0:
        taken.sort()
        print(json.dumps({
            "bench": "allreduce", "bytes": size, "workers": workers,
            "runs": runs, "ms": round(1e3 * total / runs, 6),
            "ms_median": round(1e3 * taken[runs // 2], 6),
            "ms_p99": round(1e3 * taken[int(0.99 * runs)], 6),
            "cpu_s_per_GB": round(spent.item() / (1e-9 * size * runs), 4),
            "identical": identical}), flush=True)


def main():
    rank, workers = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method="tcp://127.0.0.1:" + sys.argv[3], rank=rank,
        world_size=workers)
    for size in sys.argv[4].split(","):
        measure(int(size), float(sys.argv[5]), rank, workers)
    dist.destroy_process_group()


main()
