"""Workers with different TensorFlows would not compute the same: the job ends
with a sentence that names both."""
import numpy

from poseidon import _job, _lib
from poseidon.shared import alike

ROOM = 64       # bytes of a version's name
EXIT_CODE = 69  # EX_UNAVAILABLE


def compare(version):
    """Every worker's version against that of rank 0. Collective."""
    job = _job.job()
    if job.size == 1:
        return
    mine = version.encode()[:ROOM]
    word = numpy.zeros(ROOM, numpy.uint8)
    word[:len(mine)] = list(mine)
    alike.make([("tensorflow version", word)])
    first = word.tobytes().rstrip(b"\0").decode(errors="replace")
    if first == version:
        return
    text = ("worker %d on %s has TensorFlow %s, worker 0 has %s: install the "
            "same version on all hosts" % (job.rank, job.host, version, first))
    _lib.abort(EXIT_CODE, text)
    raise _lib.Error(-1, "poseidon: " + text)
