"""Gradients that are not finite: named, with worker and step, and what --nan
makes of them."""
import ctypes

from poseidon import _job, _lib
from poseidon.tensorflow import core, groups

EXIT_CODE = 65    # of a job that --nan stop has ended
OFTEN = 10        # steps that are told of with --nan skip


class Watch:
    def __init__(self):
        self.scaled = False   # a loss scale looks for such gradients itself
        self.said = 0
        self.key, self.rank = ctypes.c_char_p(), ctypes.c_uint32()
        self.refs = ctypes.byref(self.key), ctypes.byref(self.rank)

    def look(self, names, step):
        """A step has ended: of these groups, if one had such a gradient."""
        for name in names:
            if core.plug().psd_tf_bad(name, *self.refs):
                self._say(self._sentence(step))

    def failed(self, names, step):
        """A step has raised: if a NaN was the reason, the job ends with
        it."""
        if _job.job().nan != "stop":
            return
        for name in names:
            if core.plug().psd_tf_bad(name, *self.refs):
                text = self._sentence(step) + " (--nan stop)"
                _lib.abort(EXIT_CODE, text)
                raise _lib.Error(-9, "poseidon: " + text)

    def _sentence(self, step):
        rank = self.rank.value
        return "the gradient of %s %s is not finite in step %d" % (
            groups.title(self.key.value.decode()),
            "on worker %d" % rank if rank < _job.job().size
            else "summed over all workers", step)

    def _say(self, text):
        self.said += 1
        if _job.job().nan == "skip" and self.said <= OFTEN:
            _job.say(text + ": its gradients are zeros on all workers"
                     + (" (said no more)" if self.said == OFTEN else ""))
        elif _job.job().nan == "allow" and self.said == 1 and (
                not self.scaled):
            _job.say(text + "; training goes on (--nan skip drops such "
                     "steps, --nan stop ends the job)")
