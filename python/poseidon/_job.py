"""The job this process is a worker of, as the launcher told it in PSD_*."""
import os
import sys


class Job:
    """Outside a job: rank 0 of 1, and every option has its default."""

    def __init__(self, environ):
        inside = bool(environ.get("PSD_AGENT"))

        def number(name, alone):
            text = environ.get(name, "") if inside else ""
            try:
                return int(text or alone)
            except ValueError:
                raise ValueError("poseidon: %s is %r, it must be a number"
                                 % (name, text)) from None

        def text(name, alone):
            return environ.get(name) or alone

        self.inside = inside
        self.agent = environ.get("PSD_AGENT", "")
        self.rank = number("PSD_RANK", 0)
        self.size = number("PSD_SIZE", 1)
        self.local_rank = number("PSD_LOCAL_RANK", 0)
        self.local_size = number("PSD_LOCAL_SIZE", 1)
        self.host = text("PSD_HOST", os.uname().nodename)
        self.batch = text("PSD_BATCH", "split")
        self.accum = text("PSD_ACCUM", "auto")
        if self.accum != "auto":
            self.accum = number("PSD_ACCUM", 1)
        self.nan = text("PSD_NAN", "allow")
        self.digest = text("PSD_DIGEST", "rotate")
        self.shard_eval = text("PSD_SHARD_EVAL", "0") != "0"
        self.seed = number("PSD_SEED", 0)


_job = None
_said = set()


def job():
    """The same object at every call."""
    global _job
    if _job is None:
        _job = Job(os.environ)
    return _job


def say(text):
    """One line of the job: rank 0 says it."""
    if job().rank == 0:
        _write("poseidon: %s\n" % text)


def warn_once(key, text):
    """One line of this rank, at most once per key."""
    if key in _said:
        return
    _said.add(key)
    rank = job().rank
    _write("%sposeidon: %s\n" % ("w%d: " % rank if rank else "", text))


def _write(line):
    """In one piece, so that lines of other threads do not get inside."""
    if sys.stderr is not None:
        sys.stderr.write(line)
        sys.stderr.flush()
