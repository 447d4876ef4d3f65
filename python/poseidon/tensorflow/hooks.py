"""Hooks and supervisors. Every worker is a chief: its session restores, its
hooks save and write, and saver.py and writer.py see to it that only worker 0
does. What is left:

- By the clock (every n seconds) only worker 0 acts, else the workers would
  save and evaluate at different steps. Every n steps all act, at the same.
- SummarySaverHook and the Supervisor's thread compute summaries on worker 0.
- NanTensorHook(fail_on_nan_loss=False): one NaN stops all, at the same step.
- StopAtStepHook(num_steps=...) ends at the same step also where a worker of
  another host did not find the checkpoint.
- GlobalStepWaiterHook does not wait: the workers step together.
LoggingTensorHook logs on every worker, each into its own log.
"""
import numpy

from poseidon import _job
from poseidon.shared import alike, host, turns
from poseidon.shared.patches import Patches
from poseidon.tensorflow import agree, core, hogwild

_patches = Patches()
_tf = None


def install(tf):
    global _tf
    if not host.start():
        return
    from tensorflow.python.training import (basic_session_run_hooks,
                                            supervisor)
    _tf, hooks = tf, basic_session_run_hooks
    _patches.wrap(hooks.NanTensorHook, "after_run", _nan)
    if _job.job().size > _job.job().local_size:
        _patches.wrap(hooks.StopAtStepHook, "after_create_session", _stop_at)
    _patches.wrap(hooks.GlobalStepWaiterHook, "before_run", _step_waiter)
    if _job.job().rank != 0:
        _patches.wrap(hooks.SecondOrStepTimer, "should_trigger_for_step",
                      _timer)
        _patches.wrap(hooks.SummarySaverHook, "before_run", _summary)
        _patches.wrap(supervisor.SVSummaryThread, "run_loop", _nothing)


def uninstall():
    _patches.restore()


def _steps_together():
    """False in a child, and where each worker trains on its own clock."""
    graph = _tf.compat.v1.get_default_graph()
    return host.is_active() and hogwild.known(graph) is None


def _timer(original):
    def should_trigger_for_step(self, step):
        if (host.is_active() and self._every_secs is not None
                and self._last_triggered_step is not None):
            return False
        return original(self, step)

    return should_trigger_for_step


def _summary(original):
    def before_run(self, run_context):
        if not host.is_active():
            return original(self, run_context)
        self._request_summary = False
        return _tf.compat.v1.train.SessionRunArgs(
            {"global_step": self._global_step_tensor})

    return before_run


def _nothing(original):
    def run_loop(self):
        return None if host.is_active() else original(self)

    return run_loop


def _step_waiter(original):
    def before_run(self, run_context):
        if not _steps_together():
            return original(self, run_context)
        if not self._worker_is_started and self._wait_until_step > 0:
            _job.say("GlobalStepWaiterHook: the workers step together, "
                     "nobody waits for step %d" % self._wait_until_step)
        self._worker_is_started = True
        return None

    return before_run


def _stop_at(original):
    def after_create_session(self, session, coord):
        counts = self._last_step is None
        original(self, session, coord)
        if counts and _steps_together():
            last = numpy.array([self._last_step], numpy.int64)
            core.start(_tf)
            alike.make([("StopAtStepHook", last)])
            self._last_step = int(last[0])

    return after_create_session


def _nan(original):
    def after_run(self, run_context, run_values):
        if self._fail_on_nan_loss or not _steps_together():
            return original(self, run_context, run_values)
        core.start(_tf)
        turns.passing()
        if agree.any_true(numpy.isnan(run_values.results)):
            _tf.compat.v1.logging.warning("Model diverged with loss = NaN.")
            run_context.request_stop()
        return None

    return after_run
