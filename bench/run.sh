#!/bin/sh
# Build the peers' loops and measure everything side by side: allreduce on this
# machine (RESULTS.md; the arguments go to peers.py, --help lists them), how
# long a launcher takes (START.md; bench/empty.c is its program), allreduce
# over several hosts (CLUSTER.md), and training with torch (TORCH.md) and with
# TensorFlow (TF.md).
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
python=$(tools/setup.sh bench --python)
mkdir -p "$build"
mpicc -O3 -Wall -Wextra -Werror bench/mpi_allreduce.c -o "$build/mpi_allreduce"
python3 bench/peers.py --build "$PWD/$build" --python "$python" "$@"
python3 bench/start.py --build "$PWD/$build" --python "$python"
python3 bench/cluster.py --build "$PWD/$build" --python "$python"
python3 bench/torch_peers.py --build "$PWD/$build" --python "$python"
if tensorflow=$(tools/setup.sh tf215 --python); then
    python3 bench/tf_peers.py --build "$PWD/$build" --python "$tensorflow"
else
    echo "bench: TensorFlow left out" >&2
fi
