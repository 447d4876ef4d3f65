#!/usr/bin/env python3
"""Is the cluster of cluster.py one? Prints TAP; root only, else skipped."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import Cluster, ClusterError, members, started, write

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "cluster")
COUNT = 4
PREFIX = "psdtest%d" % os.getpid()
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def machine():
    """What a cluster must not change."""
    def output(*words):
        return subprocess.run(words, capture_output=True, text=True,
                              check=True).stdout
    return (output("ip", "-o", "link"), output("ip", "route"),
            output("ip", "netns", "list"), open("/proc/mounts").read(),
            os.path.exists("/etc/netns"), os.uname().nodename,
            [x for x in os.listdir(tempfile.gettempdir())
             if x.startswith(PREFIX + ".")])


def seen(c, node, *words, **more):
    done = c.run(node, list(words), timeout=60, **more)
    assert done.returncode == 0, "%s: %s" % (words, done.stderr)
    return done.stdout.strip()


@test
def every_host_reaches_every_other_by_plain_ssh(c):
    """From each to each at once, by name and by both kinds of address."""
    runs = []
    for a in c.nodes:
        for b in c.nodes:
            for to in ([b], ["-6", b], [c.address(b)], ["-p", "2222", b],
                       ["ubuntu@" + b]):
                runs.append((b, c.popen(
                    a, ["ssh", "-oBatchMode=yes", *to, "hostname"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    text=True)))
            while len(runs) > 20:
                b0, one = runs.pop(0)
                assert one.communicate(timeout=60)[0].strip() == b0
    for b, one in runs:
        assert one.communicate(timeout=60)[0].strip() == b


@test
def a_host_is_a_host_of_its_own(c):
    assert seen(c, "node1", "hostname") == "node1"
    assert seen(c, "node1", "sh", "-c", "echo ~; pwd", cwd="/usr") == (
        c.home() + "\n/usr")
    seen(c, "node1", "sh", "-c", "touch ~/mine /dev/shm/mine /run/mine")
    for path in (c.home() + "/mine", "/dev/shm/mine", "/run/mine"):
        assert c.run("node0", ["test", "-e", path]).returncode == 1
        assert not os.path.exists(path)
    assert seen(c, "node1", "ls", "/sys/class/net") == "eth0\nlo"
    fail = c.run("node0", ["ssh", "nowhere", "true"], timeout=10)
    assert fail.returncode == 255 and "not known" in fail.stderr, fail


@test
def a_changed_host_key_is_refused(c):
    """Nothing in the cluster weakens ssh."""
    path = c.path("node0", "root", ".ssh", "known_hosts")
    text = open(path, encoding="utf-8").read()
    swap = {"node1,": "node2,", "node2,": "node1,"}
    write(path, re.sub("^node[12],", lambda x: swap[x.group()], text,
                       flags=re.M))
    done = c.run("node0", ["ssh", "node1", "true"])
    write(path, text)
    assert done.returncode == 255, done
    assert "IDENTIFICATION HAS CHANGED" in done.stderr, done.stderr
    seen(c, "node0", "ssh", "node1", "true")


@test
def ps_names_the_host_of_each_process(c):
    before = {(x["pid"], x["started"]) for x in c.ps()}
    child = c.popen("node2", ["sh", "-c", "setsid sleep 98765 & exit"])
    child.wait()
    limit, what = time.monotonic() + 10, None
    while what != [("node2", "sleep 98765")]:  # it has to get that far
        assert time.monotonic() < limit, what
        new = [x for x in c.ps() if (x["pid"], x["started"]) not in before]
        what = [(x["node"], x["command"]) for x in new]
    os.kill(new[0]["pid"], signal.SIGKILL)


@test
def a_cut_host_is_silent_until_it_joins(c):
    words = [sys.executable, "-c", "import socket, sys; "
             "socket.create_connection((sys.argv[1], 22), 1).close()",
             c.address("node3")]
    for cable in (False, True):
        c.cut("node3", cable)
        assert c.run("node0", words).returncode == 1
        state = seen(c, "node3", "cat", "/sys/class/net/eth0/carrier")
        assert state == ("0" if cable else "1"), state
        c.join("node3")
        limit = time.monotonic() + 20
        while c.run("node0", words).returncode != 0:
            assert time.monotonic() < limit


@test
def the_wire_is_one_gigabit_and_the_counters_agree(c):
    for _ in range(5):  # less only where the machine had no time for it
        begin = c.counters("node0")["sent"], c.counters("node1")["received"]
        rate = c.bandwidth("node0", "node1")
        if rate > 0.117e9:
            break
    sent = c.counters("node0")["sent"] - begin[0]
    got = c.counters("node1")["received"] - begin[1]
    assert 0.115e9 < rate < 0.1205e9, rate
    assert rate < sent < 3 * rate and abs(got / sent - 1) < 0.05, (sent, got)
    assert 0.08e9 < c.bandwidth("node1", "node2", version=6) < 0.1205e9


@test
def sshd_stops_and_starts(c):
    c.stop_sshd("node1")
    done = c.run("node0", ["ssh", "node1", "true"])
    assert done.returncode == 255 and "refused" in done.stderr, done
    c.start_sshd(["node1"])
    seen(c, "node0", "ssh", "node1", "true")


@test
def two_clusters_do_not_touch_each_other(c):
    with Cluster(2, prefix=PREFIX) as other:
        assert other.folder != c.folder
        assert seen(other, "node0", "ssh", "node1", "echo", "$HOME") == (
            other.home())
        folder = other.folder
    assert not members(folder) and not os.path.exists(folder)
    seen(c, "node0", "ssh", "node1", "true")


@test
def the_command_line_does_the_same(c):
    def tool(*words):
        return subprocess.run([TOOL, *words], capture_output=True, text=True,
                              env=env, check=False, timeout=60)
    env = dict(os.environ)
    assert tool("ps").returncode == 1
    env["PSD_CLUSTER"] = tool("up", "2", "--prefix", PREFIX).stdout.strip()
    try:
        assert tool("exec", "node0", "--", "ssh", "node1", "hostname"
                    ).stdout == "node1\n"
        assert tool("exec", "node9", "--", "true").returncode == 1
        assert tool("exec", "node0", "--", "sh", "-c", "exit 7"
                    ).returncode == 7
        assert tool("clean", "--prefix", PREFIX).stdout == ""
        assert "sshd" in tool("ps").stdout
    finally:
        assert tool("down").returncode == 0
    assert not os.path.exists(env["PSD_CLUSTER"])
    assert "no cluster in" in tool("ps").stderr
    assert c.holder("node0")


OWNER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from cluster import Cluster
with Cluster(2, prefix=sys.argv[3]) as c:
    c.popen("node0", ["setsid", "sh", "-c",
                      "trap '' TERM; sleep 98765 & wait"])
    print(c.folder, flush=True)
    if sys.argv[2] == "raise":
        raise KeyError("on purpose")
    time.sleep(60)
"""


@test
def nothing_is_left_however_the_owner_ends(c):
    for how in ("raise", signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
                signal.SIGKILL):
        with subprocess.Popen([sys.executable, "-c", OWNER, HERE, str(how),
                               PREFIX], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL) as owner:
            folder = owner.stdout.readline().strip()
            assert len(folder) > 1
            if how != "raise":
                owner.send_signal(how)
            code = owner.wait(timeout=30)
        limit = time.monotonic() + 10
        while members(folder) or os.path.exists(folder):
            assert how == signal.SIGKILL, (how, members(folder))
            assert time.monotonic() < limit, (how, members(folder))
            time.sleep(0.05)
        assert code != 0, how


@test
def clean_removes_what_dead_runs_left(c):
    """Also when its folder is gone; never what is or may be in use."""
    odd = Cluster(1, prefix=PREFIX).up(keep=True)
    other = Cluster(2, prefix=PREFIX).up(keep=True)
    lost = Cluster(1, prefix=PREFIX).up(keep=True)
    live = Cluster(1, prefix=PREFIX).up(keep=True)
    try:
        shutil.rmtree(lost.folder)
        assert len(members(lost.folder)) > 1, members(lost.folder)
        os.remove(odd.path("cluster.state"))
        other.owner = [os.getpid(), 1]  # a process that is no more
        other.save()
        subprocess.run([TOOL, "clean", "--prefix", PREFIX], check=True,
                       capture_output=True)
        assert not members(other.folder) and not os.path.exists(other.folder)
        assert not members(lost.folder)
        assert live.holder("node0") and odd.holder("node0")
    finally:
        odd.down()
        lost.down()
        other.down()
        live.down()
    assert c.holder("node0")


@test
def wrong_words_are_sentences(c):
    for wrong in (lambda: Cluster(0), lambda: Cluster(1, rate="fast"),
                  lambda: Cluster(1, prefix="../x"), lambda: c.run("x", ["y"]),
                  lambda: Cluster.load("/nowhere")):
        try:
            wrong()
        except ClusterError as error:
            assert len(str(error)) > 10
        else:
            raise AssertionError("not refused")


def attempt(number, function, c):
    try:
        function(c)
    except Exception as error:  # pylint: disable=broad-except
        print("not ok %d - %s\n# %s: %s" % (
            number, function.__name__, type(error).__name__,
            str(error).replace("\n", "\n# ")), flush=True)
        return False
    print("ok %d - %s" % (number, function.__name__), flush=True)
    return True


def main():
    why = Cluster.missing(rate="1gbit")
    if why is not None:
        print("1..1\nok 1 - cluster # SKIP " + why)
        return 0
    before = machine()
    begin = time.monotonic()
    print("1..%d" % (len(TESTS) + 1))
    with Cluster(COUNT, rate="1gbit", prefix=PREFIX) as c:
        print("# up in %.2f s" % (time.monotonic() - begin), flush=True)
        good = [attempt(i, x, c) for i, x in enumerate(TESTS, 1)]
        begin = time.monotonic()
    print("# down in %.2f s" % (time.monotonic() - begin))

    def the_machine_is_as_it_was(_):
        assert machine() == before, "%s\n%s" % (before, machine())
        assert not members(c.folder) and started(os.getpid())
    good.append(attempt(len(TESTS) + 1, the_machine_is_as_it_was, None))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
