#!/bin/sh
# The demo with PyTorch: an ordinary script, alone and then with four workers,
# without a changed line, and proof that it learns the same model.
# Usage: examples/torch/demo.sh [BUILD_DIR]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build}
workers=4
script=examples/torch/mnist.py
python=$(tools/setup.sh torch --python)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/psd_demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
export OMP_NUM_THREADS=1

say() {
    printf '\n== %s\n' "$*"
}

say "alone: python $script"
"$python" "$script" --save "$scratch/alone.pt" | tee "$scratch/alone.txt"

say "$workers workers: psd_run -n $workers \"python $script\""
"$build/bin/psd_run" -n "$workers" -o "$scratch/logs" -- \
    "$python" "$script" --save "$scratch/together.pt"

say "what came out"
"$python" - "$scratch" "$workers" <<'END'
import glob, os, re, sys
import torch

scratch, workers = sys.argv[1], int(sys.argv[2])


def epochs(path):
    """(loss, accuracy) of each epoch."""
    with open(path) as file:
        return [(float(loss), float(right)) for loss, right in re.findall(
            r"test loss ([\d.]+), accuracy ([\d.]+)", file.read())]


alone = epochs(os.path.join(scratch, "alone.txt"))
ranks = [epochs(path) for path in sorted(glob.glob(
    scratch + "/logs/**/worker_*.out", recursive=True))]
first, second = (torch.load(os.path.join(scratch, name + ".pt"))
                 for name in ("alone", "together"))
print("  %-12s test loss %.6f, accuracy %.2f %%" % ("alone", *alone[-1]))
for rank, values in enumerate(ranks):
    print("  %-12s test loss %.6f, accuracy %.2f %%"
          % ("worker %d" % rank, *values[-1]))
apart = max((first[name] - second[name]).abs().max().item() for name in first)
loss = max(abs(a[0] - b[0]) / a[0] for a, b in zip(alone, ranks[0]))
print("  alone and together differ by at most %.1e in a parameter and by %.1e "
      "of the test loss in any epoch" % (apart, loss))
good = (len(ranks) == workers and all(r == ranks[0] for r in ranks)
        and len(ranks[0]) == len(alone) and loss < 1e-4 and apart < 1e-4)
print("  " + ("the same training, on %d workers" % workers if good else
              "NOT THE SAME: this should not happen"))
sys.exit(0 if good else 1)
END

cat <<END

What to try next
  $build/bin/psd_run -n 4 --batch per-worker "$python $script"
  $build/bin/psd_run -n 2 "$python examples/torch/char_transformer.py"
  less examples/torch/README.md         the two batch modes
  less docs/pytorch.md                  what is done to a script, and why
END
