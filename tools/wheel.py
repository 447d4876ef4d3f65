#!/usr/bin/env python3
"""Pack a wheel: tools/wheel.py BUILD_DIR [--out FOLDER]; prints its path.

The wheel is the tree that `make install` makes, with the prefix of the Python
environment as its prefix: pip puts bin/ beside python, and the libraries and
the Python package below lib/, where psd_run looks for them from where it lies
itself. So there is one layout, and `psd_run --copy` works from an environment
as from any other tree. A .pth file lets the environment's own Python find the
package, too (`python -m poseidon.tf1`); there is one copy of it.

Nothing but Python's own library is needed, and no network. The same tree
gives the same bytes.
"""
import argparse
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ("bin/psd", "bin/psd_run")
LIBRARIES = ("lib/libposeidon.so.0", "lib/libposeidon_tf.so")
PACKAGE = "lib/poseidon"
# From lib/pythonX.Y/site-packages.
FINDS_PACKAGE = "../../poseidon/python\n"
# A file of its own in every folder that is ours: pip removes such folders,
# but would leave an empty one that holds only others.
READ_ME = """\
This folder belongs to the package poseidon, which pip installed. psd_run puts
python/boot and python in front of PYTHONPATH of the workers that it starts.
"""
# zip knows no time before this.
EARLIEST = 315532800


class Error(Exception):
    pass


def version():
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
        return re.search(r"^  version: '([^']+)'", file.read(), re.M).group(1)


def tag():
    """For any Python 3. The platform is the one it was built on and nothing
    wider: the libraries of the system are not in the wheel."""
    return "py3-none-%s_%s" % (platform.system().lower(), platform.machine())


def install(build, tree):
    done = subprocess.run(
        ["meson", "install", "-C", build, "--no-rebuild", "--quiet"],
        env=dict(os.environ, DESTDIR=tree), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Error("meson install failed:\n" + done.stdout)
    for path in PROGRAMS + LIBRARIES + (PACKAGE,):
        if not os.path.exists(os.path.join(tree, path)):
            raise Error("%s has no %s: is it built with --prefix=/ "
                        "(`make`)?" % (build, path))


def needs(tree):
    """Newest symbol version of glibc, and the libraries of the system."""
    done = subprocess.run(
        ["readelf", "--wide", "-d", "-V"] +
        [os.path.join(tree, x) for x in PROGRAMS + LIBRARIES],
        stdout=subprocess.PIPE, text=True, check=False)
    libraries = set(re.findall(r"NEEDED.*\[(.+)\]", done.stdout))
    versions = re.findall(r"GLIBC_([\d.]+)", done.stdout)
    if done.returncode != 0 or not versions:
        raise Error("readelf cannot read what was built")
    return (max(versions, key=lambda x: [int(y) for y in x.split(".")]),
            sorted(libraries - {os.path.basename(x) for x in LIBRARIES}))


def metadata(tree):
    glibc, libraries = needs(tree)
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    return ("Metadata-Version: 2.1\nName: poseidon\nVersion: %s\n"
            "Summary: Training scripts of one machine, unmodified, on many\n"
            "License: Apache-2.0\nRequires-Python: >=3.8\n"
            "Requires-External: glibc (>=%s)\n%s"
            "Description-Content-Type: text/markdown\n\n%s" % (
                version(), glibc, "".join(
                    "Requires-External: %s\n" % x for x in libraries
                    if not x.startswith(("libc.", "libm.", "ld-"))), text))


def package_files(tree):
    """Paths below the tree, of the Python package."""
    for base, folders, names in os.walk(os.path.join(tree, PACKAGE)):
        folders[:] = sorted(x for x in folders if x != "__pycache__")
        for name in sorted(names):
            yield os.path.relpath(os.path.join(base, name), tree)


def contents(tree):
    """(path in the wheel, bytes, is a program)."""
    stem = "poseidon-" + version()
    info = stem + ".dist-info/"

    def of(path, inside):
        with open(os.path.join(tree, path), "rb") as file:
            return (stem + ".data/" + inside, file.read(), path in PROGRAMS)

    for path in PROGRAMS:
        yield of(path, "scripts/" + os.path.basename(path))
    for path in [*LIBRARIES, *package_files(tree)]:
        yield of(path, "data/" + path)
    yield (stem + ".data/data/%s/README" % PACKAGE, READ_ME.encode(), False)
    yield ("poseidon.pth", FINDS_PACKAGE.encode(), False)
    for name in ("LICENSE", "NOTICE"):
        with open(os.path.join(ROOT, name), "rb") as file:
            yield (info + name, file.read(), False)
    yield (info + "METADATA", metadata(tree).encode(), False)
    yield (info + "WHEEL", ("Wheel-Version: 1.0\nGenerator: poseidon\n"
                            "Root-Is-Purelib: true\nTag: %s\n"
                            % tag()).encode(), False)


def record_line(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "%s,sha256=%s,%d\n" % (path, digest.rstrip(b"=").decode(),
                                  len(data))


def write(path, tree):
    moment = time.gmtime(max(EARLIEST, int(
        os.environ.get("SOURCE_DATE_EPOCH", EARLIEST))))[:6]
    record, name = "", "poseidon-%s.dist-info/RECORD" % version()
    part = "%s.%d" % (path, os.getpid())

    def add(archive, inside, data, program):
        entry = zipfile.ZipInfo(inside, moment)
        entry.external_attr = (0o100755 if program else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)

    try:
        with zipfile.ZipFile(part, "w") as archive:
            for inside, data, program in contents(tree):
                add(archive, inside, data, program)
                record += record_line(inside, data)
            add(archive, name, (record + name + ",,\n").encode(), False)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="what `make` built")
    parser.add_argument("--out", help="folder of the wheel (BUILD_DIR)")
    options = parser.parse_args()
    out = os.path.abspath(options.out or options.build)
    path = os.path.join(out, "poseidon-%s-%s.whl" % (version(), tag()))
    try:
        os.makedirs(out, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="psd_wheel.") as tree:
            install(os.path.abspath(options.build), tree)
            write(path, tree)
    except (Error, OSError) as error:
        sys.exit("wheel: %s" % error)
    print(path)


if __name__ == "__main__":
    main()
