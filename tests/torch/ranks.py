"""Several workers one after another in one process, without a job: what the
adapter's parts do that send nothing can be seen without sending."""
import contextlib
import os
import sys

import torch

from common import ROOT

sys.path.insert(0, os.path.join(ROOT, 'python'))

# pylint: disable=wrong-import-position
from poseidon import _job                        # noqa: E402
from poseidon.torch import data, loss, seed      # noqa: E402

torch.set_num_threads(1)


@contextlib.contextmanager
def worker(rank, size, **options):
    """Be worker `rank` of `size`; yields the lines that it says."""
    environ = {'PSD_AGENT': 'none', 'PSD_RANK': str(rank),
               'PSD_SIZE': str(size), 'PSD_SEED': '11'}
    for name, value in options.items():
        environ['PSD_' + name.upper()] = str(value)
    before, write = _job._job, _job._write
    said = []
    _job._job, _job._write = _job.Job(environ), said.append
    _job._said.clear()
    loss.forget()
    seed.install(torch)
    data.install(torch)
    try:
        yield said
    finally:
        data.uninstall()
        seed.uninstall()
        _job._job, _job._write = before, write


def all_ranks(size, function, **options):
    """function() as each worker in turn: [(result, lines)]."""
    answers = []
    for rank in range(size):
        with worker(rank, size, **options) as said:
            answers.append((function(), said))
    return answers


def optimizer():
    """What the first Optimizer.__init__ does to the streams."""
    seed.fork()
