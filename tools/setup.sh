#!/bin/sh
# Install what is missing, by name, with apt; silent when all is there.
#
#     tools/setup.sh build            what `make` needs
#     tools/setup.sh test             what `make test` needs besides
#     tools/setup.sh lint             what `make lint` needs besides
#     tools/setup.sh torch            a Python that has torch, for the tests
#     tools/setup.sh torch --python   ... and print it
#     tools/setup.sh tf --python      the same with the newest TensorFlow
#     tools/setup.sh tf215 --python   ... with 2.15, which has Keras 2; ends
#                                     with 3 where Python is newer than 3.11
#     tools/setup.sh bench            what `make bench` needs besides
#     tools/setup.sh bench --python   ... and print the same Python
#
# Without root, without sudo or without apt it says what to install and ends
# with 1. Debian 12 and Ubuntu 24.04 have every package under these names.
set -eu
cd "$(dirname "$0")/.."

# Each row: package, then how to see that its content is there already,
# whoever put it there: cmd = a command, pc = a pkg-config module, py = what
# python3 imports, file.
rows() {
    case $1 in
    build)
        echo "gcc cmd gcc"
        echo "libc6-dev file /usr/include/stdio.h"
        echo "meson cmd meson"
        echo "ninja-build cmd ninja"
        echo "pkg-config cmd pkg-config"
        echo "python3 cmd python3"
        echo "libssl-dev pc libcrypto"
        echo "scdoc cmd scdoc"
        echo "libjansson-dev pc jansson"
        echo "libopenblas-dev pc openblas"
        ;;
    test)
        echo "g++ cmd g++"
        echo "clang cmd clang"
        echo "libcmocka-dev pc cmocka"
        echo "iproute2 cmd ip"
        echo "openssh-client cmd ssh"
        echo "openssh-server file /usr/sbin/sshd"
        echo "tmux cmd tmux"
        echo "procps cmd ps"
        echo "python3-jsonschema py jsonschema"
        ;;
    runtime) # clang's sanitizers and libFuzzer, by the version of clang
        major=$(clang -dumpversion | cut -d. -f1)
        folder=$(clang -print-resource-dir)
        if ! find "$folder/" -name 'libclang_rt.tsan*.a' 2>/dev/null |
            grep -q .; then
            echo "libclang-rt-$major-dev missing"
        fi
        ;;
    lint)
        echo "clang-tidy cmd clang-tidy"
        ;;
    bench)
        echo "openmpi-bin cmd mpirun"
        echo "libopenmpi-dev cmd mpicc"
        ;;
    torch)
        echo "python3-venv venv"
        ;;
    esac
}

missing() {
    rows "$1" | while read -r package kind what; do
        case $kind in
        cmd) command -v "$what" >/dev/null 2>&1 ;;
        pc) pkg-config --exists "$what" 2>/dev/null ;;
        py) # apt fills the system's own, which need not be the first
            python3 -c "import $what" 2>/dev/null ||
                /usr/bin/python3 -c "import $what" 2>/dev/null
            ;;
        file) test -e "$what" ;;
        venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        *) false ;;
        esac || echo "$package"
    done
}

give_up() {
    echo "setup: missing: $*" >&2
    echo "setup: install with: apt-get install $*" >&2
    exit 1
}

# Become root by the gentlest way there is; empty when we are.
find_root() {
    if [ "$(id -u)" -eq 0 ]; then
        echo ""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo "sudo -n"
    elif command -v sudo >/dev/null 2>&1 && [ -t 0 ] && [ -t 2 ]; then
        echo "sudo"
    else
        return 1
    fi
}

install_group() {
    list=$(missing "$1" | tr '\n' ' ')
    list=${list% }
    if [ -z "$list" ]; then
        return 0
    fi
    # The words of $list and $root are meant to be split.
    # shellcheck disable=SC2086
    if ! command -v apt-get >/dev/null 2>&1 || ! root=$(find_root); then
        give_up $list
    fi
    echo "setup: installing $list" >&2
    if [ -z "${updated:-}" ]; then
        # shellcheck disable=SC2086
        $root env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 ||
            echo "setup: apt-get update failed; trying all the same" >&2
        updated=yes
    fi
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
        --no-install-recommends install $list >&2 </dev/null || give_up $list
    list=$(missing "$1" | tr '\n' ' ')
    if [ -n "$list" ]; then
        # shellcheck disable=SC2086
        give_up $list
    fi
}

# A virtual environment, outside the tree, named after what is in it; tests
# and benchmarks share it. One that was interrupted is made again.
#     environment LIST WHAT [--python]
environment() {
    list=$1
    name=$(sha256sum "$list" | cut -c1-12)
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/poseidon/$name
    if [ ! -e "$folder/complete" ]; then
        mkdir -p "${folder%/*}"
        exec 9>"$folder.lock"
        if command -v flock >/dev/null 2>&1; then
            flock 9
        fi
    fi
    if [ ! -e "$folder/complete" ]; then
        echo "setup: installing $2 into $folder" >&2
        python3 -m venv --clear "$folder" >&2
        "$folder/bin/python" -m pip install -q --disable-pip-version-check \
            -r "$list" >&2 || {
            echo "setup: pip could not install $list" >&2
            exit 1
        }
        touch "$folder/complete"
    fi
    if [ "${3:-}" = --python ]; then
        echo "$folder/bin/python"
    fi
}

# The last TensorFlow with Keras 2 has no wheel for a newer Python.
old_tensorflow() {
    if ! python3 -c 'import sys; sys.exit(sys.version_info > (3, 12))'; then
        echo "setup: TensorFlow 2.15 needs Python 3.11 or older" >&2
        exit 3
    fi
    environment tests/tf/requirements-2.15.txt "TensorFlow 2.15" "$@"
}

case ${1:-} in
build)
    install_group build
    ;;
test)
    install_group build
    install_group test
    install_group runtime
    ;;
lint)
    install_group build
    install_group lint
    ;;
torch)
    install_group torch
    environment tests/torch/requirements.txt torch "${2:-}"
    ;;
tf)
    install_group torch
    environment tests/tf/requirements.txt TensorFlow "${2:-}"
    ;;
tf215)
    install_group torch
    old_tensorflow "${2:-}"
    ;;
bench)
    install_group build
    install_group bench
    install_group torch
    environment tests/torch/requirements.txt torch "${2:-}"
    ;;
*)
    echo "usage: tools/setup.sh build|test|lint|torch|tf|tf215|bench" \
        "[--python]" >&2
    exit 2
    ;;
esac
