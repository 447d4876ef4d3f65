#!/bin/sh
# The demo with TensorFlow: ordinary scripts, alone and then with two workers,
# without a changed line, and proof that they learn the same model. One is in
# TensorFlow 1 style, one uses Keras.
# Usage: [PYTHON=PATH] examples/demo_tf.sh [BUILD_DIR]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
workers=2
old=examples/tf1/digits.py
new=examples/keras/mnist.py
python=${PYTHON:-$(tools/setup.sh tf --python)}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/psd_demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3

say() {
    printf '\n== %s\n' "$*"
}

# train LABEL SCRIPT MODULE...: alone (with a module in front of the script
# where plain TensorFlow 2 cannot run it), then with workers.
train() {
    label=$1
    script=$2
    shift 2
    say "alone: python $* $script" | tr -s ' '
    PYTHONPATH=python "$python" "$@" "$script" >"$scratch/$label.txt" \
        2>"$scratch/$label.err" || {
        cat "$scratch/$label.txt" "$scratch/$label.err"
        exit 1
    }
    cat "$scratch/$label.txt"
    say "$workers workers: psd_run -n $workers \"python $script\""
    "$build/bin/psd_run" -n "$workers" -o "$scratch/$label" -- \
        "$python" "$script"
}

train "TensorFlow-1" "$old" -m poseidon.tf1
if [ -e "$new" ]; then
    train "Keras" "$new"
fi

say "what came out"
"$python" - "$scratch" "$workers" <<'END'
import glob, os, re, sys

scratch, workers = sys.argv[1], int(sys.argv[2])


def epochs(path):
    """(loss, accuracy) of each epoch."""
    with open(path, errors="replace") as file:
        return [(float(loss), float(right)) for loss, right in re.findall(
            r"test loss ([\d.]+), (?:test )?accuracy ([\d.]+)", file.read())]


def shared(label):
    """Did the workers share the script's batches?"""
    return any("= %d x " % workers in open(one, errors="replace").read()
               for one in glob.glob("%s/%s/**/worker_0.err" % (scratch, label),
                                    recursive=True))


good = True
for path in sorted(glob.glob(scratch + "/*.txt")):
    label = os.path.basename(path)[:-len(".txt")]
    alone = epochs(path)
    ranks = [epochs(one) for one in sorted(glob.glob(
        "%s/%s/**/worker_*.out" % (scratch, label), recursive=True))]
    if not alone or len(ranks) != workers or not all(ranks):
        sys.exit("  %s: a run told no test loss" % label)
    for name, values in [("alone", alone)] + [
            ("worker %d" % rank, x) for rank, x in enumerate(ranks)]:
        print("  %-14s %-9s test loss %.5f, accuracy %g"
              % (label, name, *values[-1]))
    apart = max(abs(a[0] - b[0]) / a[0] for a, b in zip(alone, ranks[0]))
    same = (len(alone) == len(ranks[0]) and apart < 1e-4
            and all(x == ranks[0] for x in ranks))
    verdict = ("NOT THE SAME" if not same else
               "the same training, on %d workers" % workers if shared(label)
               else "but EACH HAS TRAINED ALONE")
    print("  %-14s alone and together differ by %.1e of the test loss in any "
          "epoch: %s" % (label, apart, verdict))
    good = good and same and shared(label)
sys.exit(0 if good else 1)
END

cat <<END

What to try next
  $build/bin/psd_run -n 2 --batch per-worker "$python $old"
  $build/bin/psd_run -n 2 --trace "$python $old"      when gradients leave
  less docs/tensorflow.md               what is done to a script, and why
  less docs/tensorflow1.md              scripts for TensorFlow 1
END
