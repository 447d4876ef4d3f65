"""The files of a cluster's hosts: users, names, keys. See cluster.py."""
import os
import subprocess

SSHD_CONFIG = """\
Port 22
Port 2222
HostKey %(folder)s/host_key
PidFile %(folder)s/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 200
LoginGraceTime 30
Subsystem sftp internal-sftp
"""


class ClusterError(Exception):
    """A sentence: what failed, where, what to do."""


def call(words, text=None):
    """Run a tool of this machine; its output, or its own complaint."""
    done = subprocess.run(words, input=text or "", text=True, check=False,
                          capture_output=True)
    if done.returncode != 0:
        raise ClusterError("%s failed: %s" % (
            " ".join(words), (done.stderr + done.stdout).strip()))
    return done.stdout


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def read(path):
    """The file's text; empty when it is gone, as those of /proc may be."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write_files(cluster):
    """All files of all hosts; one key pair that opens every host."""
    lines = [x for x in read("/etc/passwd").splitlines()
             if x.split(":")[0] not in cluster.users]
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    taken = {x.split(":")[2] for x in lines}
    cluster.users["ubuntu"] = next(x for x in range(1000, 60000)
                                   if str(x) not in taken)
    for user, number in cluster.users.items():
        lines.append("%s:x:%d:%d:%s:%s:%s" % (
            user, number, number, user, cluster.home(user), shell))
    write(cluster.path("passwd"), "\n".join(lines) + "\n")
    write(cluster.path("shadow"), "".join(
        "%s:*:19000:0:99999:7:::\n" % x for x in cluster.users), 0o600)
    write(cluster.path("nsswitch.conf"), "".join(
        x + ": files\n" for x in ("passwd", "group", "shadow", "hosts",
                                  "services", "protocols")))
    hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
    for node in cluster.nodes:
        hosts += "%s %s\n%s %s\n" % (cluster.address(node), node,
                                     cluster.address(node, 6), node)
    os.mkdir(cluster.path("host"))
    os.mkdir(cluster.path("bridge"))
    make_key(cluster.path("client_key"), "client")
    known = ""
    for node in cluster.nodes:
        os.makedirs(cluster.path(node, "sys"))
        write(cluster.path(node, "hosts"), hosts)
        write(cluster.path(node, "sshd_config"),
              SSHD_CONFIG % {"folder": cluster.path(node)})
        make_key(cluster.path(node, "host_key"), node)
        kind, key = read(cluster.path(node, "host_key.pub")).split()[:2]
        names = [node, cluster.address(node), cluster.address(node, 6)]
        names += ["[%s]:2222" % x for x in names]
        known += "%s %s %s\n" % (",".join(names), kind, key)
    for node in cluster.nodes:
        for user, number in cluster.users.items():
            write_home(cluster, cluster.path(node, user), number, known)


def make_key(path, comment):
    call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment,
          "-f", path])


def write_home(cluster, home, number, known):
    folder = os.path.join(home, ".ssh")
    os.makedirs(folder, mode=0o700)
    for name, text, mode in (
            ("id_ed25519", read(cluster.path("client_key")), 0o600),
            ("id_ed25519.pub", read(cluster.path("client_key.pub")), 0o644),
            ("authorized_keys", read(cluster.path("client_key.pub")), 0o600),
            ("known_hosts", known, 0o644)):
        write(os.path.join(folder, name), text, mode)
        os.chown(os.path.join(folder, name), number, number)
    os.chown(folder, number, number)
    os.chown(home, number, number)
