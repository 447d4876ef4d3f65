"""The lines that a job says about its batches, each once."""
from poseidon import _job
from poseidon.shared import rows

_said = set()


def once(text):
    if text not in _said:
        _said.add(text)
        _job.say(text)


def batch(mine):
    """`global batch 128 = 4 x 32 (split)`, and why if not as asked for."""
    if mine.mode == "per-worker" and _job.job().batch != "per-worker":
        once("this DataLoader gives items one by one (batch_size=None), "
             "which cannot be cut: it runs per-worker")
    once(rows.line(mine))


def empty(mine):
    """Some workers have no row of a batch."""
    if 0 in mine.sizes and "empty" not in _said:
        _said.add("empty")
        _job.say("a batch of %d rows for %d workers: %d of them take part "
                 "with weight 0" % (mine.total, len(mine.sizes),
                                    mine.sizes.count(0)))


def forget():
    _said.clear()
