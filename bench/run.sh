#!/bin/sh
# Build the peers' loops and measure everything side by side; the arguments go
# to peers.py (--rounds 5, --seconds 1, --workers 2,4, ...; --help lists all).
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
python=$(tools/setup.sh bench --python)
mkdir -p "$build"
mpicc -O3 -Wall -Wextra -Werror bench/mpi_allreduce.c -o "$build/mpi_allreduce"
exec python3 bench/peers.py --build "$PWD/$build" --python "$python" "$@"
