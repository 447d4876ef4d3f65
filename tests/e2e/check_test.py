#!/usr/bin/env python3
"""End-to-end tests of psd check on a cluster of network namespaces.

    check_test.py BUILD_DIR [PATTERN]

Prints TAP; root only, else skipped. After each test no process is left on any
host. Every test leaves the cluster as it found it.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from cluster import Cluster, write  # pylint: disable=wrong-import-position

LIMIT = 60.0
GONE = 15.0  # everything has to be gone; a second when nothing else runs
SILENCE = 30.0
COUNT = 4
BAR = 10.0  # seconds for eight hosts

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
pattern = sys.argv[2] if len(sys.argv) > 2 else ""
PSD = os.path.join(build, "bin", "psd")
TESTS = []


class Failure(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def check(condition, text):
    if not condition:
        raise Failure(text)


def contains(text, *parts):
    for part in parts:
        check(part in text, "expected %r in:\n%s" % (part, text))


class Run:
    """psd check on node0, over the hosts of a cluster file."""

    def __init__(self, c, hosts, *words, keys=None, env=None):
        config = {"worker_nodes": hosts, "server_nodes": hosts}
        config.update(keys or {})
        with tempfile.TemporaryDirectory(prefix="psd-check-") as folder:
            path = os.path.join(folder, "cluster.json")
            write(path, json.dumps(config))
            began = time.monotonic()
            done = c.run("node0", [PSD, "check", "-c", path, *words],
                         cwd="/tmp", env=env, timeout=LIMIT)
        self.seconds = time.monotonic() - began
        self.code, self.out, self.err = (done.returncode, done.stdout,
                                         done.stderr)
        self.json = json.loads(self.out) if "--json" in words else None
        if self.json is not None:
            validate(self.json)

    def host(self, name):
        return next(x for x in self.json["hosts"] if x["name"] == name)

    def problems(self, level="problem"):
        names = [x["name"] for x in self.json["hosts"]]
        return [(names[x["host"]], x["text"], x["commands"])
                for x in self.json["problems"] if x["level"] == level]

    def only(self, name, *parts):
        """The only problem is of this host and has these words."""
        found = self.problems()
        check(self.code == 69, "exit code %d: %s" % (self.code, self.err))
        check(not self.json["well"], "it says that all is well")
        check(len(found) == 1, "one problem, not %r" % found)
        check(found[0][0] == name, "problem of %s: %r" % (name, found))
        contains(found[0][1], *parts)
        return found[0]


NUMBER, TEXT, FLAG = (int, float), str, bool
NONE = type(None)
HOST = {"host": TEXT, "name": TEXT, "local": FLAG, "workers": int,
        "servers": int, "ssh": FLAG, "host_key": (TEXT, NONE),
        "psd": (TEXT, NONE), "psd_matches": FLAG, "reason": (TEXT, NONE),
        "clock_offset_s": (*NUMBER, NONE), "clock_error_s": (*NUMBER, NONE),
        "facts": (dict, NONE)}
FACTS = {"cores": int, "memory_bytes": int, "memory_free_bytes": int,
         "logs": TEXT, "disk_bytes": int, "disk_free_bytes": int,
         "disk_writable": FLAG, "files": int, "files_max": int, "gpus": int,
         "gpu_names": list, "python": (TEXT, NONE),
         "python_version": (TEXT, NONE), "packages": dict,
         "address": (TEXT, NONE), "url": (TEXT, NONE)}
PAIR = {"from": int, "to": int, "reached": (FLAG, NONE),
        "round_trip_s": (*NUMBER, NONE), "bytes_per_s": (*NUMBER, NONE),
        "reason": (TEXT, NONE)}
PROBLEM = {"level": TEXT, "host": int, "text": TEXT, "commands": list}
ROOT = {"version": TEXT, "well": FLAG, "seconds": NUMBER, "hosts": list,
        "pairs": list, "problems": list}


def fits(value, shape, what):
    check(set(value) == set(shape), "members of %s: %r" % (what, value))
    for name, kind in shape.items():
        check(isinstance(value[name], kind),
              "%s of %s is %r" % (name, what, value[name]))


def validate(root):
    fits(root, ROOT, "the object")
    count = len(root["hosts"])
    for host in root["hosts"]:
        fits(host, HOST, "a host")
        if host["facts"] is not None:
            fits(host["facts"], FACTS, "facts")
            check(host["facts"]["memory_free_bytes"] > 0, "free memory")
    check(sorted((x["from"], x["to"]) for x in root["pairs"]) ==
          [(a, b) for a in range(count) for b in range(count) if a != b],
          "every pair, both ways")
    for pair in root["pairs"]:
        fits(pair, PAIR, "a pair")
    for problem in root["problems"]:
        fits(problem, PROBLEM, "a problem")
        check(problem["host"] < count, "host of a problem")


def pairs_well(run, but=()):
    for pair in run.json["pairs"]:
        if but and not {pair["from"], pair["to"]}.isdisjoint(but):
            check(pair["reached"] is None, "not tried: %r" % pair)
            continue
        check(pair["reached"] and 0 < pair["round_trip_s"] < 1 and
              pair["bytes_per_s"] > 1e6, "figures: %r" % pair)


def swap(c, path, old, new, count=0):
    """Change a file of node0; returns what puts it back."""
    path = c.path("node0", "root", path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    changed = re.sub(old, new, text, count=count, flags=re.M)
    check(changed != text, "nothing to change in %s" % path)
    write(path, changed)
    return lambda: write(path, text)


def strike(c, node, number, after):
    """In a while, a signal to the probe of a host."""
    def act():
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit:
            for one in c.ps():
                if (one["node"], one["command"]) == (node, PSD + " probe"):
                    time.sleep(after)
                    os.kill(one["pid"], number)
                    return
    thread = threading.Thread(target=act)
    thread.start()
    return thread


class Other:
    """Another file in the place of psd, on one host only."""

    def __init__(self, c, node, text, mode):
        self.c, self.node = c, node
        self.path = c.path("other-" + node)
        write(self.path, text, mode)

    def __enter__(self):
        self.c.run(self.node, ["mount", "--bind", self.path, PSD], check=True)

    def __exit__(self, *_):
        self.c.run(self.node, ["umount", PSD], check=True)


@test
def all_is_well(c):
    run = Run(c, c.nodes, "--json")
    check(run.code == 0, "exit code %d: %r %s" % (run.code, run.problems(),
                                                  run.err))
    check(run.json["well"] and not run.problems(), "a problem: %s" % run.out)
    pairs_well(run)
    for node in c.nodes:
        host = run.host(node)
        check(host["ssh"] and host["psd_matches"], "ssh: %r" % host)
        check(host["local"] == (node == "node0"), "local: %r" % host)
        check(host["host_key"] == (None if host["local"] else "known"),
              "host key: %r" % host)
        check(abs(host["clock_offset_s"]) <= host["clock_error_s"] + 0.01,
              "one machine has one clock: %r" % host)
        check(host["facts"]["address"] in (c.address(node),
                                           c.address(node, 6)),
              "address: %r" % host)
        check(host["facts"]["python_version"].startswith("3."),
              "python: %r" % host)


@test
def the_table_is_for_people(c):
    run = Run(c, c.nodes)
    check(run.code == 0, "exit code %d: %s%s" % (run.code, run.out, run.err))
    contains(run.out, "HOST ", "CLOCK", "node0  here", "node3  ok",
             "GB/s from each (row) to each (column)", "round trip in ms",
             "4 hosts, 0 problems")
    check("\033" not in run.out + run.err, "no terminal, no control codes")


@test
def an_unknown_name_is_said(c):
    run = Run(c, ["node0", "nowhere", "node2"], "--json")
    run.only("nowhere", "name is not known")
    check(run.host("nowhere")["ssh"] is False, "ssh")
    pairs_well(run, but=[1])


@test
def an_unknown_host_key_is_said(c):
    undo = swap(c, ".ssh/known_hosts", r"^node1,.*\n", "")
    try:
        run = Run(c, c.nodes, "--json")
    finally:
        undo()
    found = run.only("node1", "host key is not known yet")
    check("ssh node1 true" in found[2], "the command: %r" % (found,))
    check(run.host("node1")["host_key"] == "unknown", "key")
    pairs_well(run, but=[1])


@test
def a_changed_host_key_is_said(c):
    undo = swap(c, ".ssh/known_hosts", "^node[12],",
                lambda x: {"node1,": "nobody,",
                           "node2,": "node1,"}[x.group()])
    try:
        run = Run(c, ["node0", "node1", "node3"], "--json")
        table = Run(c, ["node0", "node1", "node3"])
    finally:
        undo()
    found = run.only("node1", "not the one that is known")
    check("ssh-keygen -R node1" in found[2], "the command: %r" % (found,))
    check(run.host("node1")["host_key"] == "changed", "key")
    contains(table.out, "node1  KEY CHANGED", "problem: host node1: ")


@test
def a_stopped_sshd_is_said(c):
    c.stop_sshd("node2")
    try:
        run = Run(c, c.nodes, "--json")
    finally:
        c.start_sshd(["node2"])
    run.only("node2", "no sshd listens there")
    pairs_well(run, but=[2])


@test
def a_silent_host_is_said_in_time(c):
    c.cut("node3")
    try:
        run = Run(c, c.nodes, "--json")
    finally:
        c.join("node3")
    run.only("node3")
    check(run.seconds < 15, "%.1f s" % run.seconds)
    pairs_well(run, but=[3])


@test
def another_version_is_said(c):
    with Other(c, "node1", "#!/bin/sh\necho poseidon $1 9 9.9.9\n"
                           "exec cat >/dev/null\n", 0o755):
        run = Run(c, c.nodes, "--json")
        table = Run(c, c.nodes)
    run.only("node1", "version 9.9.9 (protocol 9) there")
    host = run.host("node1")
    check(host["ssh"] and host["psd"] == "9.9.9" and not host["psd_matches"],
          "host: %r" % host)
    contains(table.out, "9.9.9 (OTHER)")
    pairs_well(run, but=[1])


@test
def an_old_or_missing_psd_is_said(c):
    with Other(c, "node1", "#!/bin/sh\necho \"psd: unknown command $1\" >&2\n"
                           "exit 64\n", 0o755):
        with Other(c, "node2", "", 0o644):
            run = Run(c, c.nodes, "--json")
    found = dict((x[0], x[1]) for x in run.problems())
    check(set(found) == {"node1", "node2"}, "problems: %r" % found)
    contains(found["node1"], "older version")
    contains(found["node2"], "psd is not installed there")
    check(run.host("node2")["ssh"], "ssh works")
    pairs_well(run, but=[1, 2])


@test
def psd_is_brought_along_when_asked(c):
    with Other(c, "node2", "", 0o644):
        run = Run(c, c.nodes, "--json", "--copy")
    check(run.code == 0, "exit code %d: %r %s" % (run.code, run.problems(),
                                                  run.err))
    pairs_well(run)


@test
def rubbish_for_a_probe_is_said(c):
    """Bytes that are no frame, and a probe that dies."""
    with Other(c, "node1", "#!/bin/sh\necho poseidon probe 1 %s\n"
                           "head -c 100000 /dev/urandom\ncat >/dev/null\n"
                           % version(), 0o755):
        with Other(c, "node2", "#!/bin/sh\necho poseidon probe 1 %s\n"
                               "echo died >&2\n" % version(), 0o755):
            run = Run(c, c.nodes, "--json")
    found = dict((x[0], x[1]) for x in run.problems())
    check(set(found) == {"node1", "node2"}, "problems: %r" % found)
    contains(found["node1"], "does not understand")
    contains(found["node2"], "connection ended", "died")
    pairs_well(run, but=[1, 2])


@test
def a_host_that_is_lost_on_the_way_is_said(c):
    for after in (0.0, 0.2, 0.5):
        thread = strike(c, "node2", signal.SIGKILL, after)
        run = Run(c, c.nodes, "--json")
        thread.join()
        run.only("node2", "connection ended")
        for pair in run.json["pairs"]:
            if 2 not in (pair["from"], pair["to"]):
                check(pair["bytes_per_s"], "the others go on: %r" % pair)


@test
def a_host_that_hangs_on_the_way_is_said(c):
    thread = strike(c, "node1", signal.SIGSTOP, 0.3)
    run = Run(c, c.nodes, "--json")
    thread.join()
    run.only("node1", "did not answer any more")
    check(run.seconds < 20, "%.1f s" % run.seconds)
    for one in c.ps():
        if one["command"] == PSD + " probe":
            os.kill(one["pid"], signal.SIGCONT)


@test
def a_missing_virtualenv_is_said(c):
    folder = c.path("venv")
    os.makedirs(os.path.join(folder, "bin"))
    os.symlink("/usr/bin/python3", os.path.join(folder, "bin", "python"))
    empty = c.path("empty")
    os.makedirs(empty)
    good = Run(c, c.nodes, "--json", keys={"virtualenv": folder})
    c.run("node2", ["mount", "--bind", empty, folder], check=True)
    try:
        run = Run(c, c.nodes, "--json", keys={"virtualenv": folder})
    finally:
        c.run("node2", ["umount", folder], check=True)
    check(good.code == 0, "exit code %d: %r" % (good.code, good.problems()))
    check(good.host("node1")["facts"]["python"] == folder + "/bin/python",
          "python: %r" % good.host("node1"))
    found = run.only("node2", "no virtualenv " + folder)
    check("ssh node2 python3 -m venv " + folder in found[2],
          "the command: %r" % (found,))
    pairs_well(run)


@test
def a_hanging_python_does_not_hang_the_check(c):
    folder = c.path("slow")
    os.makedirs(os.path.join(folder, "bin"))
    write(os.path.join(folder, "bin", "python"),
          "#!/bin/sh\nsleep 1000 & sleep 1000\n", 0o755)
    run = Run(c, ["node0", "node1"], "--json", keys={"virtualenv": folder})
    check(run.code == 69 and run.seconds < 15, "%d after %.1f s" % (
        run.code, run.seconds))
    contains(run.problems()[0][1], "did not answer in 5 s")


@test
def a_cut_link_between_two_hosts_is_said(c):
    """Frames from node1 to node2 go to a card that nobody has."""
    def link(verb):
        for version, name in ((4, "-4"), (6, "-6")):
            words = [c.address("node2", version), "dev", "eth0"]
            if verb == "replace":
                words[1:1] = ["lladdr", "02:00:00:00:00:99", "nud",
                              "permanent"]
            c.run("node1", ["ip", name, "neigh", verb, *words])
    link("replace")
    try:
        run = Run(c, c.nodes, "--json")
        table = Run(c, c.nodes)
    finally:
        link("delete")
    found = run.only("node1", "node2 at ", "no answer in 3.0 s")
    check(any("ping -c 3" in x for x in found[2]), "commands: %r" % (found,))
    cut = [(x["from"], x["to"]) for x in run.json["pairs"]
           if not x["reached"]]
    check(cut == [(1, 2), (2, 1)], "cut: %r" % cut)
    check(run.seconds < BAR, "%.1f s" % run.seconds)
    contains(table.out, "CUT")
    again = Run(c, c.nodes, "--json")
    check(again.code == 0, "mended: %r" % again.problems())


@test
def ports_and_interface_are_respected(c):
    taken = c.popen("node1", [sys.executable, "-c",
                              "import socket, time\n"
                              "s = [socket.create_server(('', 7000), family=f)"
                              " for f in (socket.AF_INET, socket.AF_INET6)]\n"
                              "print(flush=True)\ntime.sleep(1000)"],
                    stdout=subprocess.PIPE)
    try:
        taken.stdout.readline()
        run = Run(c, c.nodes, "--json", "--ports", "7000-7001",
                  keys={"interface": "eth0"})
        full = Run(c, c.nodes, "--json", "--ports", "7000")
    finally:
        taken.kill()
        taken.wait()
        taken.stdout.close()
    check(run.code == 0, "exit code %d: %r" % (run.code, run.problems()))
    for node in c.nodes:
        check(run.host(node)["facts"]["url"] == "tcp:%s:%d" % (
            c.address(node), 7001 if node == "node1" else 7000),
            "url: %r" % run.host(node))
    full.only("node1", "none of the ports 7000 is free")
    pairs_well(full, but=[1])
    run = Run(c, c.nodes, "--json", keys={"interface": "nope0"})
    check(run.code == 69 and len(run.problems()) == COUNT,
          "problems: %r" % run.problems())
    contains(run.problems()[0][1], "no interface nope0")


@test
def the_figures_are_those_of_the_link(c):
    """Shaped to 200 Mbit/s in both directions; the others are faster."""
    rate = 25e6
    c.on_bridge(["tc", "qdisc", "add", "dev", "node3", "root", "tbf", "rate",
                 "200mbit", "burst", "32k", "limit", "1m"])
    c.run("node3", ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
                    "rate", "200mbit", "burst", "32k", "limit", "1m"],
          check=True)
    try:
        for _ in range(5):  # a busy machine shows less, never more
            wrong = wrong_figures(Run(c, c.nodes, "--json"), rate)
            if not wrong:
                break
    finally:
        c.on_bridge(["tc", "qdisc", "del", "dev", "node3", "root"])
        c.run("node3", ["tc", "qdisc", "del", "dev", "eth0", "root"])
    check(not wrong, "five times, the last: %r" % wrong)


def wrong_figures(run, rate):
    """What a look at hosts shows too little of, node3 being the slow one."""
    check(run.code == 0, "exit code %d: %r" % (run.code, run.problems()))
    wrong = []
    for pair in run.json["pairs"]:
        slow = 3 in (pair["from"], pair["to"])
        check(not slow or pair["bytes_per_s"] < 1.1 * rate, "rate: %r" % pair)
        if pair["bytes_per_s"] < (0.8 if slow else 1.5) * rate:
            wrong.append(pair)
    slow = [x[0] for x in run.problems("warning") if "slow" in x[1]]
    return wrong + ([] if slow == ["node3"] else [("slow", slow)])


@test
def no_door_is_open_while_it_measures(c):
    """A stranger at the port of a probe gets nothing and stops nothing."""
    stranger = c.popen("node1", [sys.executable, "-c", """
import socket, sys, time
end, got, met = time.monotonic() + 20, 0, 0
while time.monotonic() < end and met < 3:
    try:
        s = socket.create_connection((sys.argv[1], 7000), 0.2)
        s.settimeout(1)
        s.sendall(b"x" * 200)
        met += 1
        got += len(s.recv(1000))
    except OSError:
        time.sleep(0.01)
print(met, got)
""", c.address("node2")], stdout=subprocess.PIPE, text=True)
    run = Run(c, c.nodes, "--json", "--ports", "7000",
              keys={"interface": "eth0"})
    again = Run(c, c.nodes, "--json", "--ports", "7000",
                keys={"interface": "eth0"})
    out = stranger.communicate(timeout=LIMIT)[0].split()
    check(run.code == 0 and again.code == 0, "exit codes: %r %r" % (
        run.problems(), again.problems()))
    check(int(out[0]) > 0, "the stranger came in time: %r" % out)
    check(int(out[1]) == 0, "the stranger got an answer: %r" % out)


@test
def killed_or_interrupted_it_leaves_nothing(c):
    path = c.path("check.json")
    write(path, json.dumps({"worker_nodes": c.nodes, "server_nodes": c.nodes}))
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        before = {x["pid"] for x in c.ps()}
        child = c.popen("node0", [PSD, "check", "-c", path], cwd="/tmp",
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + LIMIT
        while sum(x["command"] == PSD + " probe"
                  for x in c.ps() if x["pid"] not in before) < COUNT:
            check(time.monotonic() < limit and child.poll() is None,
                  "no probes")
        os.kill(child.pid, number)
        code = child.wait(timeout=LIMIT)
        check(code == (-9 if number == signal.SIGKILL else 130),
              "exit code %d" % code)
        gone(c, before)


@test
def wrong_words_are_said(c):
    for words in (["--jsn"], ["extra"], ["--ports", "x"]):
        run = Run(c, c.nodes, *words)
        check(run.code == 64 and run.err, "%r: %d %s" % (words, run.code,
                                                         run.err))
    done = c.run("node0", [PSD, "check", "--help"])
    check(done.returncode == 0 and "--hostfile" in done.stdout, done.stdout)


@test
def eight_hosts_are_looked_at_in_time(_):
    with Cluster(8, prefix="psdcheck") as c:
        best = None
        for _ in range(3):
            run = Run(c, c.nodes, "--json")
            check(run.code == 0, "exit code %d: %r" % (run.code,
                                                       run.problems()))
            pairs_well(run)
            best = min(best or run.seconds, run.seconds)
        print("# 8 hosts: %.1f s at best" % best, flush=True)
        check(best < BAR, "%.1f s" % best)


SILENT = []


@test
def a_probe_ends_after_a_silence(_):
    """It was started before the other tests, and told nothing since."""
    child, began = SILENT
    child.wait(timeout=SILENCE + 30)
    child.stdin.close()
    child.stdout.close()
    check(child.returncode == 0 and time.monotonic() - began >= SILENCE,
          "exit code %d" % child.returncode)


def version():
    return subprocess.run([PSD, "--version"], capture_output=True, text=True,
                          check=True).stdout.split()[1]


def gone(c, before):
    limit = time.monotonic() + GONE
    while True:
        left = [x for x in c.ps() if x["pid"] not in before and
                "[listener]" not in x["command"]]  # sshd, started again
        if not left:
            return
        check(time.monotonic() < limit, "left: %r" % left)
        time.sleep(0.02)


def main():
    why = Cluster.missing(rate="1gbit")
    if why is not None:
        print("1..1\nok 1 - check # SKIP %s" % why)
        return 0
    chosen = [x for x in TESTS if pattern in x.__name__]
    failed = 0
    print("1..%d" % len(chosen), flush=True)
    SILENT.extend([subprocess.Popen([PSD, "probe"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE),
                   time.monotonic()])
    with Cluster(COUNT, prefix="psdcheck") as c:
        before = {x["pid"] for x in c.ps()}
        for number, function in enumerate(chosen, 1):
            name = function.__name__.replace("_", " ")
            began = time.monotonic()
            try:
                function(c)
                gone(c, before)
                print("ok %d - %s # %.1f s" % (
                    number, name, time.monotonic() - began), flush=True)
            except Exception as error:  # any failure is one of this test
                failed += 1
                print("not ok %d - %s" % (number, name), flush=True)
                text = "%s: %s" % (type(error).__name__, error)
                for line in text.split("\n"):
                    print("# " + line, flush=True)
    SILENT[0].kill()
    SILENT[0].wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
