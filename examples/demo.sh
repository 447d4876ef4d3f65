#!/bin/sh
# The demo: one training program, alone and then with four workers, and proof
# that the model is the same. Usage: examples/demo.sh [BUILD_DIR]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
workers=4
scratch=$(mktemp -d "${TMPDIR:-/tmp}/psd_demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

say() {
    printf '\n== %s\n' "$*"
}

say "examples/c/digits.c, alone: $build/examples/digits"
"$build/examples/digits" --model "$scratch/alone" | tee "$scratch/alone.txt"

say "the same program, $workers workers: $build/bin/psd_run -n $workers" \
    "$build/examples/digits"
"$build/bin/psd_run" -n "$workers" -o "$scratch/logs" -- \
    "$build/examples/digits" --model "$scratch/together"

say "what came out"
python3 - "$scratch" "$workers" <<'END'
import array, glob, os, re, sys

scratch, workers = sys.argv[1], int(sys.argv[2])


def words(pattern, text):
    return re.findall(pattern, text)


def model(name):
    values = array.array("f")
    with open(os.path.join(scratch, name), "rb") as file:
        values.frombytes(file.read())
    return values


alone = open(os.path.join(scratch, "alone.txt")).read()
logs = ""
for path in glob.glob(scratch + "/logs/**/*", recursive=True):
    if os.path.isfile(path):
        logs += open(path, errors="replace").read()
steps = int(words(r"(\d+) steps in", logs)[0])
first, second = model("alone"), model("together")
apart = max(abs(a - b) for a, b in zip(first, second))
held = dict(words(r"worker (\d+) of \d+ holds model (\w+)", logs))
moved = 2 * workers * steps * 4 * len(second)

for label, text in (("alone", alone), ("%d workers" % workers, logs)):
    print("  %-12s test accuracy %s %%, %s samples/s" % (
        label, words(r"accuracy ([\d.]+)", text)[0],
        words(r"(\d+) samples/s", text)[0]))
print("  moved        %.0f MB: %d steps x %d parameters, pushed and answered"
      % (moved / 1e6, steps, len(second)))
for rank in sorted(held, key=int):
    print("  replica %s    %s" % (rank, held[rank]))
print("  alone and together differ by at most %.1e in a parameter" % apart)
good = (len(held) == workers and len(set(held.values())) == 1 and
        apart < 1e-5)
print("  " + ("all %d replicas are equal to the bit" % workers if good else
              "NOT EQUAL: this should not happen"))
sys.exit(0 if good else 1)
END

cat <<END

What to try next
  $build/bin/psd_run -n 3 $build/examples/digits          uneven slices
  $build/bin/psd_run -n 4 -s 2 $build/examples/digits     two servers
  $build/bin/psd_run -n 4 --transport tcp $build/examples/digits
  $build/bin/psd bench allreduce --workers 4           how fast is it?
  less examples/c/digits.c                              how it is done
END
