"""What this process is in the job: a worker, or a `ps` of a script that
distributes itself. A ps holds nothing here: the job's own servers do its
work. It waits, and ends when the launcher says that the workers are done.
"""
import os
import signal
import sys
import threading

from poseidon import _job

EXIT_CODE = 64   # EX_USAGE


def is_ps():
    return os.environ.get("PSD_ROLE") == "ps"


def is_here():
    """Is there a job that stands for the script's cluster?"""
    return _job.job().inside or is_ps()


def wait():
    """Until the workers are done: the agent then sends SIGTERM."""
    done = threading.Event()
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, lambda *_: done.set())
    while not done.wait(1.0):  # a handler runs only between two waits
        pass
    signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def refuse(text):
    """The script wants what is not emulated: end, with the sentence."""
    sys.stderr.write("poseidon: %s\n" % text)
    sys.stderr.flush()
    os._exit(EXIT_CODE)
