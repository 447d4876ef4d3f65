"""What a training run has brought: progress for the launcher, parameters for
the digest, gradients that are not finite."""
import ctypes
import math
import os

import numpy

from poseidon import _job, _lib
from poseidon.tensorflow import core, groups

EXIT_CODE = 65    # of a job that --nan stop has ended
RHYTHM = 32       # --digest rotate: steps from one variable to the next


class After:
    def __init__(self):
        self.steps = 0
        self.runs = 0
        self.digest = os.environ.get("PSD_DIGEST") or "rotate"
        self.turn = 0
        self.said = 0
        self.key, self.rank = ctypes.c_char_p(), ctypes.c_uint32()
        self.refs = ctypes.byref(self.key), ctypes.byref(self.rank)

    def step(self, session, plan, results, rows):
        """A training run has ended well. Of several optimizers the one that
        is ahead counts."""
        for site in plan.sites:
            site.steps += 1
        self.runs += 1
        self.steps = max(self.steps, max(site.steps for site in plan.sites))
        loss = math.nan
        if plan.loss >= 0:
            loss = float(results[plan.loss])
        _lib.library().psd_metrics(_lib.session(), self.steps, loss, rows)
        if _job.job().size > 1:
            self._look(plan)
            if self.digest == "step" or (
                    self.digest == "rotate" and self.runs % RHYTHM == 0):
                self._audit(session, plan)

    def _audit(self, session, plan):
        """Hand in all trained variables, or in turn one of them."""
        variables = list({variable.op._id: variable for site in plan.sites
                          for variable in site.variables}.values())
        if self.digest == "rotate":
            self.turn += 1
            variables = [variables[self.turn % len(variables)]]
        values = session.run(variables)
        core.audit([(variable.op.name, numpy.ascontiguousarray(value))
                    for variable, value in zip(variables, values)])

    def _look(self, plan):
        """Name the first gradient that is not finite."""
        for name in plan.names:
            if core.plug().psd_tf_bad(name, *self.refs):
                self._say(self._sentence())

    def _sentence(self):
        rank = self.rank.value
        return "the gradient of %s %s is not finite in step %d" % (
            groups.title(self.key.value.decode()),
            "on worker %d" % rank if rank < _job.job().size
            else "summed over all workers", self.steps)

    def _say(self, text):
        self.said += 1
        if _job.job().nan == "skip" and self.said <= 10:
            _job.say(text + ": its gradients are zeros on all workers"
                     + (" (said no more)" if self.said == 10 else ""))
        elif _job.job().nan == "allow" and self.said == 1:
            _job.say(text + "; training goes on (--nan skip drops such "
                     "steps, --nan stop ends the job)")

    def failed(self, plan):
        """A training run has raised: if a NaN was the reason, the job ends
        with it."""
        if _job.job().nan != "stop":
            return
        for name in plan.names:
            if core.plug().psd_tf_bad(name, *self.refs):
                self.steps += 1
                text = self._sentence() + " (--nan stop)"
                _lib.abort(EXIT_CODE, text)
                raise _lib.Error(-9, "poseidon: " + text)
