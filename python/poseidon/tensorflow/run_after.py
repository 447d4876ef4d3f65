"""What a training run has brought: progress for the launcher, parameters for
the digest, gradients that are not finite."""
import math

import numpy

from poseidon import _job, _lib
from poseidon.tensorflow import bad, core

RHYTHM = 32       # --digest rotate: steps from one variable to the next


class After:
    def __init__(self):
        self.steps = 0
        self.runs = 0
        self.digest = _job.job().digest
        self.turn = 0
        self.watch = bad.Watch()

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
            self.watch.look(plan.names, self.steps)
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

    def failed(self, plan):
        """A training run has raised."""
        self.watch.failed(plan.names, self.steps + 1)
