"""A cluster on one machine: N hosts, each with a real sshd. Root only.

    with Cluster(4, rate="1gbit") as c:
        c.run("node0", ["ssh", "node3", "hostname"])

tests/cluster is the same from the command line. A host is a process (`sleep`)
that holds a network, a mount, a UTS and an IPC namespace. Its eth0 is a veth
pair whose other end is a port of a bridge, which has a namespace of its own.
Namespaces have no name: when the last process of a cluster is gone, its
interfaces, routes and mounts are gone with it. Nothing of the machine's own
network is touched.

Inside a host these differ from the machine: the host name; /etc/hosts,
passwd, shadow and nsswitch.conf; /run, /dev/shm and /var/log, which are empty;
/sys. The home folder of root and of a second user, ubuntu, is
FOLDER/host/USER, the same path but other content on every host. It holds a
key, known_hosts and authorized_keys where ssh looks for them, hence plain
`ssh node2` works with no option, no configuration file and nobody's real
~/.ssh. Everything else (/tmp, this repository) is shared, as on a cluster with
one file system. sshd listens on ports 22 and 2222.

What belongs to a cluster is every process that has FOLDER/host as a mount
point, whatever its parents, session or group.
"""
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from cluster_files import ClusterError, call, read, write, write_files

SSHD = "/usr/sbin/sshd"
TOOLS = {"ip": "iproute2", "tc": "iproute2", "bridge": "iproute2",
         "unshare": "util-linux", "nsenter": "util-linux",
         "ssh": "openssh-client", "ssh-keygen": "openssh-client",
         SSHD: "openssh-server"}
NODES_MAX = 200
START_MAX = 20.0  # seconds for a host to come up, on a busy machine

# $1 is the host, $2 the state folder. What a host has for itself, then a
# process that does nothing but keep it there.
HOLD = r"""
mount --bind "$2/$1" "$2/host"
if [ "$1" != bridge ]; then
    hostname "$1"
    mount --bind "$2/$1/hosts" /etc/hosts
    for file in passwd shadow nsswitch.conf; do
        [ ! -e "/etc/$file" ] || mount --bind "$2/$file" "/etc/$file"
    done
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -m 755 /run/sshd
    mount -t tmpfs -o mode=755 tmpfs /var/log
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t sysfs sysfs "$2/$1/sys"
    [ ! -d /sys/fs/cgroup ] ||
        mount --rbind /sys/fs/cgroup "$2/$1/sys/fs/cgroup"
    mount --move "$2/$1/sys" /sys
    cc=/proc/sys/net/ipv4/tcp_congestion_control
    echo cubic 2>/dev/null >$cc || echo reno >$cc
fi
echo ready
exec sleep infinity >/dev/null 2>&1
"""

# One TCP stream: the sink says its port, then bytes and seconds of what came
# after a short start; the source sends until it is closed.
SINK = """
import socket, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.create_server((sys.argv[1], 0), family=family)
print(s.getsockname()[1], flush=True)
c, _ = s.accept()
block, size = bytearray(1 << 20), 0
first = time.perf_counter() + 0.3
while time.perf_counter() < first:
    c.recv_into(block)
begin = now = time.perf_counter()
while now - begin < float(sys.argv[2]):
    size += c.recv_into(block)
    now = time.perf_counter()
print(size, now - begin, flush=True)
"""
SOURCE = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
block = bytes(1 << 20)
try:
    while True:
        s.sendall(block)
except OSError:
    pass
"""


def started(pid):
    """When a process began, in ticks; None when it is gone or a zombie."""
    fields = read("/proc/%d/stat" % pid).rpartition(")")[2].split()
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def net_of(pid):
    try:
        return os.stat("/proc/%d/ns/net" % pid).st_ino
    except OSError:
        return None


def processes():
    return sorted(int(x) for x in os.listdir("/proc") if x.isdigit())


def members(folder):
    """Every process of the cluster in `folder`. Where that was removed, the
    files of it that are mounted elsewhere tell."""
    mark = re.compile(r" %s/(host(//deleted)?|\S+//deleted) "
                      % re.escape(folder))
    return [x for x in processes() if started(x) is not None and
            mark.search(read("/proc/%d/mountinfo" % x))]


def rate_bytes(rate):
    """Bytes per second of what tc calls a rate: 1gbit, 100mbit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(k|m|g)bit", rate)
    if match is None:
        raise ClusterError("rate %r is not one; write 1gbit or 100mbit" % rate)
    return float(match.group(1)) * 1000 ** " kmg".index(match.group(2)) / 8


class Cluster:
    """Hosts node0 ... and what to do with them. `folder` is the state."""

    def __init__(self, count, rate=None, delay=None, prefix="psd"):
        if not 1 <= count <= NODES_MAX:
            raise ClusterError("%d hosts: from 1 to %d can be made"
                               % (count, NODES_MAX))
        if not re.fullmatch(r"[a-z][a-z0-9]*", prefix):
            raise ClusterError("prefix %r: letters and digits" % prefix)
        if rate is not None:
            rate_bytes(rate)
        self.rate, self.delay, self.prefix = rate, delay, prefix
        self.nodes = ["node%d" % i for i in range(count)]
        self.net = secrets.randbelow(254) + 1
        self.folder = None
        self.users = {"root": 0, "ubuntu": None}
        self.holders = {}   # name -> [pid, when it began]
        self.owner = None   # [pid, when it began]; None: until `down`
        self.children = []
        self.handlers = {}

    # What is there.

    @staticmethod
    def missing(rate=None, delay=None):
        """Why no cluster can be made here, as a sentence; None if it can."""
        if os.geteuid() != 0:
            return "only root can make network namespaces"
        lost = sorted({TOOLS[x] for x in TOOLS if shutil.which(x) is None})
        if lost:
            return "not in PATH: %s; run tools/setup.sh test" % (
                ", ".join(lost))
        words = ("mount -t tmpfs tmpfs /run && mount -t sysfs sysfs /run && "
                 "ip link set lo up && "
                 "ip link add br0 type bridge && "
                 "ip link add v0 type veth peer name v1")
        if rate is not None:
            words += (" && tc qdisc add dev v0 root tbf rate 1gbit burst 32k "
                      "limit 1m")
        if delay is not None:
            words += " && tc qdisc add dev v1 root netem delay 1ms"
        try:
            call(["unshare", "--mount", "--uts", "--ipc", "--net", "sh", "-ec",
                  words])
        except ClusterError as error:
            return "this system does not allow it: %s" % (
                str(error).rpartition(" failed: ")[2])
        return None

    def index(self, node):
        if node not in self.nodes:
            raise ClusterError("no host %s; there are %s to %s" % (
                node, self.nodes[0], self.nodes[-1]))
        return self.nodes.index(node)

    def address(self, node, version=4):
        number = self.index(node) + 1
        return ("10.77.%d.%d" % (self.net, number) if version == 4 else
                "fd77:0:0:%x::%x" % (self.net, number))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def home(self, user="root"):
        """The home folder, as processes of a host see it."""
        return self.path("host", user)

    def holder(self, name):
        pid, begin = self.holders.get(name, (0, None))
        if begin is None or started(pid) != begin:
            raise ClusterError("%s of %s is gone; `tests/cluster clean` "
                               "removes the rest" % (name, self.folder))
        return pid

    # Doing something on a host.

    def words(self, name, words, cwd=None, spaces="mount,uts,ipc,net"):
        """The command line that runs `words` on a host."""
        enter = ["--" + x for x in spaces.split(",")]
        if "mount" in spaces:
            enter.append("--wdns=" + (cwd or os.getcwd()))
        return ["nsenter", "--target", str(self.holder(name)), *enter,
                "--", *words]

    def environment(self, node, more=None):
        """This process's, less what leads to the machine's own session."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("SSH_", "XDG_", "DBUS_", "TMUX"))}
        env.update(HOME=self.home(), USER="root", LOGNAME="root",
                   HOSTNAME=node, PSD_CLUSTER=self.folder)
        env.update(more or {})
        return env

    def popen(self, node, words, cwd=None, env=None, **more):
        """As subprocess.Popen; the process itself is on the host."""
        self.index(node)
        return subprocess.Popen(self.words(node, words, cwd),
                                env=self.environment(node, env), **more)

    def run(self, node, words, cwd=None, env=None, **more):
        """As subprocess.run with text; output is captured by default."""
        self.index(node)
        more.setdefault("text", True)
        more.setdefault("check", False)
        if not {"stdout", "stderr", "capture_output"} & set(more):
            more["capture_output"] = True
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.words(node, words, cwd),
                              env=self.environment(node, env), **more)

    def on_bridge(self, words, text=None):
        return call(self.words("bridge", words, spaces="net"), text)

    def cut(self, node, cable=False):
        """Lose every packet from and to the host, or take out its cable.

        Without a cable the host's eth0 has no carrier; a cut elsewhere goes
        unseen on both sides.
        """
        self.index(node)
        if cable:
            self.on_bridge(["ip", "link", "set", node, "down"])
        else:
            self.on_bridge(["bridge", "link", "set", "dev", node, "state",
                            "0"])

    def join(self, node):
        """Undo cut, either kind."""
        self.index(node)
        self.on_bridge(["ip", "link", "set", node, "up"])
        end = time.monotonic() + START_MAX
        while True:
            try:  # the bridge hears a moment later that the port is up
                self.on_bridge(["bridge", "link", "set", "dev", node,
                                "state", "3"])
                return
            except ClusterError as error:
                if "Network is down" not in str(error) or (
                        time.monotonic() > end):
                    raise
            time.sleep(0.01)

    def counters(self, node):
        """Bytes that the host's eth0 has sent and received, with headers."""
        pid = self.holder(self.nodes[self.index(node)])
        for line in read("/proc/%d/net/dev" % pid).splitlines():
            name, _, values = line.partition(":")
            if name.strip() == "eth0":
                values = [int(x) for x in values.split()]
                return {"sent": values[8], "received": values[0]}
        raise ClusterError("%s has no eth0" % node)

    def ps(self):
        """The processes of all hosts, but for what keeps the cluster up."""
        names = {net_of(self.holder(x)): x for x in self.holders}
        own = {x[0] for x in self.holders.values()}
        table = []
        for pid in members(self.folder):
            words = read("/proc/%d/cmdline" % pid).split("\0")
            begin, name = started(pid), names.get(net_of(pid), "?")
            if begin is not None and pid not in own:
                table.append({"pid": pid, "started": begin, "node": name,
                              "command": " ".join(words).strip()})
        return table

    def bandwidth(self, source, sink, seconds=1.0, version=4):
        """Payload of one TCP stream between two hosts, bytes per second."""
        with self.popen(sink, [sys.executable, "-c", SINK,
                               self.address(sink, version), str(seconds)],
                        stdout=subprocess.PIPE, text=True) as end:
            port = end.stdout.readline().strip()
            with self.popen(source, [sys.executable, "-c", SOURCE,
                                     self.address(sink, version), port]):
                size, taken = end.stdout.readline().split()
        return int(size) / float(taken)

    # Up.

    def up(self, keep=False):
        """Make it; `keep`: it outlives this process, until `down`."""
        why = Cluster.missing(self.rate, self.delay)
        if why is not None:
            raise ClusterError(why)
        self.folder = os.path.realpath(
            tempfile.mkdtemp(prefix=self.prefix + "."))
        os.chmod(self.folder, 0o755)
        try:
            self.owner = [os.getpid(), started(os.getpid())]
            self.save()
            if not keep:
                self.watch()
            mask = os.umask(0o022)  # sshd is strict about homes
            try:
                write_files(self)
            finally:
                os.umask(mask)
            self.hold()
            self.save()
            self.connect()
            self.start_sshd()
            if keep:
                self.owner = None
                self.save()
        except BaseException:
            self.down()
            raise
        return self

    def save(self):
        state = {k: getattr(self, k) for k in (
            "nodes", "rate", "delay", "prefix", "net", "users",
            "holders", "owner")}
        write(self.path("state.new"), json.dumps(state, indent=1))
        os.rename(self.path("state.new"), self.path("cluster.state"))

    @staticmethod
    def load(folder):
        """The cluster in a state folder that `up` has printed."""
        text = read(os.path.join(folder, "cluster.state"))
        if not text:
            raise ClusterError("no cluster in %s; `tests/cluster up` prints "
                               "the folder of a new one" % folder)
        state = json.loads(text)
        self = Cluster(len(state["nodes"]))
        self.__dict__.update(state)
        self.folder = os.path.realpath(folder)
        return self

    def watch(self):
        """A process that does `down` when this one dies without it."""
        self.children.append(subprocess.Popen(
            [os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "cluster"), "watch", "--state", self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd="/", start_new_session=True))

    def hold(self):
        """Start the processes that are the hosts, and the bridge's."""
        log = open(self.path("hold.log"), "w", encoding="utf-8")
        starting = {}
        with log:
            for name in ["bridge"] + self.nodes:
                starting[name] = subprocess.Popen(
                    ["unshare", "--mount", "--uts", "--ipc", "--net", "sh",
                     "-ec", HOLD, "hold", name, self.folder], cwd="/",
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=log, start_new_session=True)
                self.children.append(starting[name])
        for name, child in starting.items():
            with child.stdout as stream:
                if stream.read() != b"ready\n":
                    raise ClusterError("%s did not start: %s" % (
                        name, read(self.path("hold.log")).strip()))
            self.holders[name] = [child.pid, started(child.pid)]

    def shape(self, device):
        """Lines for `tc -batch`: one direction of a port at that rate.

        A host hands its interface packets of 64 KiB, as it does where the
        interface cuts them; smaller ones would cost this machine, which plays
        all hosts and all ports, more than the hosts' own work. The bucket
        holds one of them and makes up for a timer that is a quarter of a
        millisecond late: a port that was idle is half a millisecond ahead of a
        real one. 1 MiB may wait at a port, as in a switch.
        """
        lines = []
        if self.delay is not None:
            lines.append("qdisc add dev %s root handle 1: netem delay %gms "
                         "limit 100000" % (device, self.delay))
        if self.rate is not None:
            lines.append("qdisc add dev %s %s tbf rate %s burst %d limit %d" % (
                device, "parent 1:" if lines else "root", self.rate,
                1.05 * self.packet() + rate_bytes(self.rate) / 4000, 1 << 20))
        return lines

    def packet(self):
        """The largest packet that a host hands to its interface at once."""
        if self.rate is None:
            return 65536
        return int(min(65536, max(4096, rate_bytes(self.rate) / 1900)))

    def connect(self):
        """Cables, addresses, shaping."""
        lines = ["link add br0 type bridge mcast_snooping 0",
                 "link set br0 up"]
        for node in self.nodes:
            lines += ["link add %s type veth peer name eth0 netns %d" % (
                node, self.holder(node)),
                "link set %s gso_max_size %d master br0 up" % (
                    node, self.packet())]
        self.on_bridge(["ip", "-batch", "-"], "\n".join(lines) + "\n")
        ipv6 = os.path.exists("/proc/sys/net/ipv6")
        for node in self.nodes:
            lines = ["link set lo up", "address add %s/24 dev eth0" %
                     self.address(node)]
            if ipv6:
                lines.append("address add %s/64 dev eth0 nodad" %
                             self.address(node, 6))
            lines.append("link set eth0 gso_max_size %d up" % self.packet())
            call(self.words(node, ["ip", "-batch", "-"], spaces="net"),
                 "\n".join(lines) + "\n")
        if self.rate is None and self.delay is None:
            return
        for node in self.nodes:
            call(self.words(node, ["tc", "-batch", "-"], spaces="net"),
                 "\n".join(self.shape("eth0")) + "\n")
        self.on_bridge(["tc", "-batch", "-"], "".join(
            x + "\n" for node in self.nodes for x in self.shape(node)))

    def start_sshd(self, nodes=None):
        """Start sshd on hosts that have none, and wait until it listens."""
        nodes = nodes or self.nodes
        for node in nodes:
            call(self.words(node, [
                SSHD, "-f", self.path(node, "sshd_config"), "-E",
                self.path(node, "sshd.log")], "/"))
        limit = time.monotonic() + START_MAX
        for node in nodes:
            while not read(self.path(node, "sshd.pid")).strip():
                if time.monotonic() > limit:
                    raise ClusterError("sshd of %s does not start: %s" % (
                        node, read(self.path(node, "sshd.log")).strip()))
                time.sleep(0.005)

    def stop_sshd(self, node):
        """Its connections live on; new ones are refused."""
        pid = int(read(self.path(node, "sshd.pid")) or 0)
        if pid in members(self.folder):
            os.kill(pid, signal.SIGTERM)
        limit = time.monotonic() + START_MAX
        while started(pid) is not None and time.monotonic() < limit:
            time.sleep(0.005)

    # Down.

    def down(self):
        """Remove everything. No signal ends this half-way."""
        hold = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, hold)
        try:
            remove(self.folder)
            for child in self.children:
                if child.pid != os.getpid():
                    child.kill()
                    child.wait()
            self.children = []
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                self.handlers[number] = signal.signal(number, leave)
        try:
            return self.up()
        except BaseException:
            self.restore()
            raise

    def __exit__(self, *_):
        self.down()
        self.restore()

    def restore(self):
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.handlers = {}


def leave(number, _):
    sys.exit(128 + number)


def remove(folder):
    """End every process of the cluster in `folder`, then the folder."""
    limit = time.monotonic() + START_MAX
    while True:
        left = members(folder)
        if not left:
            break
        if time.monotonic() > limit:
            raise ClusterError("processes of %s do not end: %s" % (
                folder, " ".join(map(str, left))))
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)
