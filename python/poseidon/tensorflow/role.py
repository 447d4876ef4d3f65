"""What this process is in the job: a worker, or a `ps` of a script that
distributes itself. A ps holds nothing here: the job's own servers do its
work. It waits, and ends when the launcher says that the workers are done.
"""
import os
import sys

from poseidon import _job

EXIT_CODE = 64   # EX_USAGE


def is_ps():
    return os.environ.get("PSD_ROLE") == "ps"


def is_here():
    """Is there a job that stands for the script's cluster?"""
    return _job.job().inside or is_ps()


def wait():
    """Until the workers are done: opening a FIFO blocks until the agent opens
    its other end (src/launch/ps.h)."""
    path = os.path.join(os.path.dirname(os.environ["PSD_PS"]),
                        "ps.%d" % os.getpid())
    if not os.path.exists(path):
        os.mkfifo(path, 0o600)
    os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def refuse(text):
    """The script wants what is not emulated: end, with the sentence."""
    sys.stderr.write("poseidon: %s\n" % text)
    sys.stderr.flush()
    os._exit(EXIT_CODE)
