"""What the benchmarks of training share: rounds whose order rotates, medians,
and a Markdown file of which a run of some parts replaces their sections."""
import os
import resource
import shlex
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LIMIT = 900
THREADS = {x + "_NUM_THREADS": "1" for x in ("OMP", "MKL", "OPENBLAS",
                                             "NUMEXPR")}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def environment(**more):
    return dict(os.environ, **dict(THREADS, **more))


def turned(names, turn):
    return names[turn % len(names):] + names[:turn % len(names)]


def cpu_of(words, folder, **more):
    """User and system time of a command and all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=folder, env=environment(**more),
                          capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit("%s: %s: %s" % (os.path.basename(sys.argv[0]), words,
                                 done.stderr))
    return (after.ru_utime - before.ru_utime +
            after.ru_stime - before.ru_stime)


def cell(values, form="%.1f"):
    return (form + " [" + form + " .. " + form + "]") % (
        statistics.median(values), min(values), max(values))


def shown(words):
    """A command line as others would type it."""
    def word(text):
        if text.startswith(ROOT + os.sep):
            return os.path.relpath(text, ROOT)
        if text.startswith("/"):
            return os.path.basename(text)
        return shlex.quote(text) if " " in text else text

    return " ".join(map(word, words))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [x.split(":", 1)[1].strip() for x in file
                 if x.startswith("model name")]
    return "%d cores of %s" % (len(os.sched_getaffinity(0)),
                               names[0] if names else "?")


def version_of(python, module):
    return subprocess.run(
        [python, "-c", "import %s as m; print(m.__version__)" % module],
        capture_output=True, text=True, check=False).stdout.strip()


def sections_of(path):
    """The sections of the file as it is, by title."""
    found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for part in file.read().split("\n## ")[1:]:
                title, text = part.split("\n", 1)
                found[title] = text.strip("\n").split("\n")
    return found


def write_sections(path, head, titles, sections):
    text = list(head)
    for title in titles:
        if title in sections:
            text += ["", "## " + title, ""] + sections[title]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
