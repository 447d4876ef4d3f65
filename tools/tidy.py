#!/usr/bin/env python3
"""Enforce what a script can: tools/tidy.py [--self-test].

Prints file:line: message for every finding and ends with 1 if there is one;
"warning" lines do not count. The rules are the tables below; why they are what
they are is in ARCHITECTURE.md.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

LINE_MAX, FUNCTION_MAX, FILE_SOFT, FILE_MAX = 80, 70, 600, 700

# Which room may include from which: a room, or one header of it. Every room
# may include base and poseidon.h; tests and bin may include everything.
PATH = {"wire", "transport", "model", "reduce", "codec", "optim", "policy",
        "memory"}
EDGES = {
    "base": set(),
    "wire": set(),
    "codec": set(),
    "optim": set(),
    "memory": set(),
    "policy": {"wire/wire.h"},
    "transport": {"wire"},
    "model": {"wire", "optim"},
    "reduce": {"model", "optim", "transport/shm.h"},
    "member": {"wire", "transport"},
    "worker": PATH,
    "server": PATH | {"member"},
    "session": PATH | {"member", "worker", "server"},
    "step": {"session/session.h", "model/model.h", "reduce/sum.h"},
    "master": {"wire", "model", "launch/launch_message.h",
               "launch/stall_message.h"},
    "config": {"wire", "member/settings.h", "launch/launch_message.h"},
    "screen": {"transport", "launch/launch_message.h"},
    "report": {"screen", "launch/launch_message.h", "launch/stall_message.h",
               "launch/exit_code.h", "launch/supervise.h"},
    "launch": {"wire", "transport", "master", "member/settings.h", "config",
               "screen", "report"},
    "check": {"wire", "transport", "config", "launch", "member/settings.h"},
    "tf": {"reduce/half.h"},
}

# Calls that are made nowhere, and those that only some places make.
BANNED = ("strcpy strcat strncpy sprintf vsprintf strtok atoi atol gets "
          "alloca system popen tmpnam mktemp").split()
HEAP = "malloc calloc realloc".split()
HEAP_ALLOWED = ("src/base/mem.c", "examples/", "bench/", "tests/")

# Put together here so that this file is not its own finding.
PRIVATE_PATH = re.compile(r"/(?:ho" r"me|ro" r"ot)/[\w.]")
NOT_TEXT = (".csv", ".svg", ".png", ".bin", ".gz")


class Tidy:
    def __init__(self):
        self.findings = []

    def find(self, path, line, message):
        self.findings.append("%s:%d: %s" % (path, line, message))


def blank(text, note):
    """C without comments and strings, same lines; note(line) for each //."""
    out, i, line = [], 0, 1
    pattern = re.compile(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
        re.S)
    for match in pattern.finditer(text):
        before = text[i:match.start()]
        line += before.count("\n")
        out.append(before)
        found = match.group()
        if found.startswith("//"):
            note(line)
        out.append(re.sub(r"[^\n]", " ", found))
        line += found.count("\n")
        i = match.end()
    return "".join(out) + text[i:]


def check_lines(tidy, path, text):
    c_file = path.endswith((".c", ".h"))
    for number, line in enumerate(text.split("\n"), 1):
        if c_file and len(line) > LINE_MAX:
            tidy.find(path, number, "line of %d columns" % len(line))
        if c_file and "\t" in line:
            tidy.find(path, number, "tab")
        if line != line.rstrip():
            tidy.find(path, number, "white space at the end of the line")
        if PRIVATE_PATH.search(line):
            tidy.find(path, number, "path of somebody's own machine")
    if text and not text.endswith("\n"):
        tidy.find(path, text.count("\n") + 1, "no newline at the end")


def check_length(tidy, path, text):
    lines = text.count("\n")
    if lines > FILE_MAX:
        tidy.find(path, lines, "file of %d lines" % lines)
    elif lines > FILE_SOFT:
        print("%s:%d: warning: file of %d lines" % (path, lines, lines))
    start = None
    for number, line in enumerate(text.split("\n"), 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start - 1 > FUNCTION_MAX:
                tidy.find(path, start, "function of %d lines"
                          % (number - start - 1))
            start = None


def check_calls(tidy, path, code):
    banned = list(BANNED)
    if not path.startswith(HEAP_ALLOWED):
        banned += HEAP
    pattern = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(banned))
    for number, line in enumerate(code.split("\n"), 1):
        match = pattern.search(line)
        if match and not line.lstrip().startswith("#"):
            tidy.find(path, number, "banned call %s" % match.group(1))


def check_edges(tidy, path, text):
    parts = path.split("/")
    if parts[0] != "src" or len(parts) < 3 or path.endswith("_test.c"):
        return
    room = parts[1]
    if room not in EDGES:
        tidy.find(path, 1, "room %s is not in the table of tidy.py" % room)
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'#include "(\w+)/([\w/]+\.h)"', line)
        if match is None:
            continue
        target = match.group(1)
        if target in (room, "base") or target in EDGES[room]:
            continue
        if target + "/" + match.group(2) not in EDGES[room]:
            tidy.find(path, number, "%s/ may not include %s/" % (room,
                                                                 target))


def check_c(tidy, path, text):
    code = blank(text, lambda line: tidy.find(path, line, "// comment"))
    check_length(tidy, path, text)
    check_calls(tidy, path, code)
    check_edges(tidy, path, text)


def check_tree(tidy, files):
    """Dead files, and two files of one name."""
    built = "\n".join(t for p, t in files.items()
                      if p.endswith("meson.build") or p == "bench/run.sh")
    included = "\n".join(t for p, t in files.items()
                         if p.endswith((".c", ".h")))
    stems = {}
    for path in sorted(files):
        name = os.path.basename(path)
        if path.endswith(".c") and path.startswith(("src/", "bin/", "tests/",
                                                    "examples/", "bench/")):
            if not re.search(r"(?<![\w])%s" % re.escape(name), built):
                tidy.find(path, 1, "in no meson.build")
        if path.endswith(".h") and path != "include/poseidon.h":
            if not re.search(r'#include "(?:[\w/]*/)?%s"' % re.escape(name),
                             included):
                tidy.find(path, 1, "included by nothing")
        if path.endswith((".c", ".h")) and path.startswith("src/"):
            stem = os.path.splitext(path)[0]
            first = stems.setdefault(os.path.basename(stem), stem)
            if first != stem:
                tidy.find(path, 1, "has the name of %s" % first)


def check_all(files):
    tidy = Tidy()
    for path, text in sorted(files.items()):
        check_lines(tidy, path, text)
        if path.endswith((".c", ".h")):
            check_c(tidy, path, text)
    check_tree(tidy, files)
    return tidy.findings


def read_tree():
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
        capture_output=True, check=True).stdout.decode().split("\0")
    files = {}
    for name in names:
        path = os.path.join(ROOT, name)
        if (not name or name.endswith(NOT_TEXT) or "/corpus/" in name or
                not os.path.isfile(path)):
            continue
        with open(path, "rb") as file:
            data = file.read()
        if b"\0" not in data:
            files[name] = data.decode("utf-8", "replace")
    return files


def self_test():
    """Each snippet breaks one rule and must be the only finding."""
    build = {"src/meson.build": "files('a.c', 'b.c')\n"}
    body = "int f(void)\n{\n%s}\n"
    bad = [
        ("src/base/a.c", "int x; // no\n", "// comment"),
        ("src/base/a.c", "int x;" + " " * 80 + "int y;\n", "columns"),
        ("src/base/a.c", "int\tx;\n", "tab"),
        ("src/base/a.c", "int x; \n", "white space"),
        ("src/base/a.c", "int x;", "no newline"),
        ("src/base/a.c", body % ("    f();\n" * 71), "function of 71"),
        ("src/base/a.c", "int x;\n" * 701, "file of 701"),
        ("src/base/a.c", body % "    strcpy(a, b);\n", "call strcpy"),
        ("src/base/a.c", body % "    x = malloc(1);\n", "call malloc"),
        ("src/base/a.c", '#include "wire/wire.h"\n', "base/ may not"),
        ("src/worker/a.c", '#include "server/shard.h"\n', "worker/ may not"),
        ("src/codec/a.c", '#include "transport/shm.h"\n', "codec/ may not"),
        ("src/attic/a.c", "int x;\n", "room attic"),
        ("src/base/dead.c", "int x;\n", "in no meson.build"),
        ("src/base/dead.h", "int x;\n", "included by nothing"),
        ("README.md", "see /ho" "me/me/x\n", "own machine"),
    ]
    good = {"src/base/a.c": 'char *s = "// strcpy(a)"; /* malloc() */\n' +
                            body % ("    f();\n" * 70),
            "src/reduce/b.c": '#include "transport/shm.h"\n'}
    failed = ["clean code: " + x for x in check_all(dict(build, **good))]
    for path, text, message in bad:
        findings = check_all(dict(build, **{path: text}))
        if len(findings) != 1 or message not in findings[0]:
            failed.append("%r: %s" % (message, findings))
    for line in failed:
        print("tidy: self-test: " + line)
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    findings = check_all(read_tree())
    for line in findings:
        print(line)
    return 1 if any(": warning: " not in x for x in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
