#!/usr/bin/env python3
"""A training step on a CUDA device, beside DistributedDataParallel.

    bench/torch_cuda.py --build DIR [--rounds 3] [--models mlp,vgg]

Two workers share the one device of this machine: the gradients go through
host memory either way (Gloo for DDP: NCCL refuses two ranks on a device). In
every round: the plain script alone, the same script in two processes that do
not communicate, under psd_run -n 2, and rewritten for DDP. Prints a table;
run by the Python that has torch with CUDA.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SCRIPT = '''
import json, os, sys, time
import torch
from torch import nn, distributed
model, ddp = sys.argv[1], len(sys.argv) > 2
torch.manual_seed(0)
wide = {"mlp": (784, 10), "vgg": (25088, 1000)}[model]
net = nn.Sequential(nn.Linear(wide[0], 4096), nn.ReLU(),
                    nn.Linear(4096, 4096), nn.ReLU(),
                    nn.Linear(4096, wide[1])).cuda()
if ddp:
    distributed.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(1024, wide[0], device="cuda")
y = torch.randint(wide[1], (1024,), device="cuda")
times = []
for step in range(30):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
print(json.dumps(1e3 * sorted(times[10:])[10]), flush=True)
'''


def measure(build, model, folder):
    script = os.path.join(folder, "step.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    plain = [sys.executable, script, model]
    psd = [os.path.join(build, "bin", "psd_run"), "-q", "-n", "2", "-o",
           folder, "--", *plain]
    rows = {
        "alone": (plain, {}),
        "two, no communication": (psd, {"PSD_DISABLE": "1"}),
        "psd_run -n 2": (psd, {}),
        "DDP, Gloo": ([sys.executable, "-m", "torch.distributed.run",
                       "--nproc_per_node", "2", script, model, "ddp"], {})}
    result = {}
    for name, (words, env) in rows.items():
        done = subprocess.run(words, env=dict(os.environ, **env),
                              stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=300, check=False)
        lines = [x for x in done.stdout.splitlines() if x[:1].isdigit()]
        if done.returncode != 0 or not lines:
            sys.exit("torch_cuda.py: %s: %s%s" % (name, done.stdout,
                                                  done.stderr))
        result[name] = json.loads(lines[0])
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="mlp,vgg")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        print("bench/torch_cuda.py: left out: torch sees no CUDA device")
        return
    print("%s, torch %s; ms per step, median [least .. most] of %d rounds\n"
          % (torch.cuda.get_device_name(), torch.__version__,
             options.rounds))
    for model in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rounds = [measure(options.build, model, folder)
                      for _ in range(options.rounds)]
        for name in rounds[0]:
            values = [x[name] for x in rounds]
            print("| %s | %s | %.1f [%.1f .. %.1f] |" % (
                model, name, statistics.median(values), min(values),
                max(values)), flush=True)


main()
