"""tf.contrib.learn.monitors: what looks at training; all are hooks here."""
import tensorflow.compat.v1 as tf


class BaseMonitor(tf.train.SessionRunHook):
    """The methods of 0.x, called by those of a hook."""

    def __init__(self):
        self._estimator = None
        self._step = None

    def set_estimator(self, estimator):
        self._estimator = estimator

    def begin(self, max_steps=None):
        self._step = tf.train.get_global_step()

    def before_run(self, context):
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, context, values):
        if self.step_end(int(values.results), {}):
            context.request_stop()

    def step_end(self, step, output):
        return False


class EveryN(BaseMonitor):
    def __init__(self, every_n_steps=100, first_n_steps=1):
        super().__init__()
        self._every, self._first = every_n_steps, first_n_steps
        self._last = None

    def step_end(self, step, output):
        due = self._last is None or step >= self._last + self._every
        if step > self._first and not due:
            return False
        self._last = step
        return bool(self.every_n_step_end(step, output))

    def every_n_step_end(self, step, outputs):
        return False


class ValidationMonitor(EveryN):
    """Evaluates now and then, and may end the training."""

    def __init__(self, x=None, y=None, input_fn=None, batch_size=None,
                 eval_steps=None, every_n_steps=100, metrics=None,
                 hooks=None, early_stopping_rounds=None,
                 early_stopping_metric="loss",
                 early_stopping_metric_minimize=True, name=None, **_):
        super().__init__(every_n_steps, -1)
        self._words = dict(x=x, y=y, input_fn=input_fn,
                           batch_size=batch_size, steps=eval_steps,
                           metrics=metrics, hooks=hooks, name=name)
        self._rounds, self._metric = (early_stopping_rounds,
                                      early_stopping_metric)
        self._minimize = early_stopping_metric_minimize
        self._seen = None
        self.early_stopped = False
        self.best_step, self.best_value, self.best_metrics = None, None, None

    def every_n_step_end(self, step, outputs):
        path = tf.train.latest_checkpoint(self._estimator.model_dir)
        if path is None or path == self._seen:
            return False  # nothing new was saved
        self._seen = path
        found = self._estimator.evaluate(**self._words)
        value = found.get(self._metric)
        if self._rounds is None or value is None:
            return False
        if self.best_value is None or (value < self.best_value
                                       if self._minimize
                                       else value > self.best_value):
            self.best_step, self.best_value = step, value
            self.best_metrics = found
        self.early_stopped = step - self.best_step >= self._rounds
        return self.early_stopped


def PrintTensor(tensor_names, every_n=100, first_n=1):
    return tf.train.LoggingTensorHook(tensor_names, every_n_iter=every_n)


def CheckpointSaver(checkpoint_dir, save_secs=None, save_steps=None,
                    saver=None, checkpoint_basename="model.ckpt",
                    scaffold=None):
    return tf.train.CheckpointSaverHook(
        checkpoint_dir, save_secs, save_steps, saver, checkpoint_basename,
        scaffold)


def StepCounter(every_n_steps=100, output_dir=None, summary_writer=None):
    return tf.train.StepCounterHook(every_n_steps, output_dir=output_dir,
                                    summary_writer=summary_writer)


def SummarySaver(summary_op, save_steps=100, output_dir=None,
                 summary_writer=None, scaffold=None):
    return tf.train.SummarySaverHook(save_steps, None, output_dir,
                                     summary_writer, scaffold, summary_op)


def NanLoss(loss_tensor, every_n_steps=100, fail_on_nan_loss=True):
    return tf.train.NanTensorHook(loss_tensor, fail_on_nan_loss)


def StopAtStep(num_steps=None, last_step=None):
    return tf.train.StopAtStepHook(num_steps, last_step)


class RunHookAdapterForMonitors(tf.train.SessionRunHook):
    """Monitors are hooks already."""

    def __init__(self, monitors):
        raise TypeError("monitors are hooks here: give them as they are")


def hooks_of(monitors, estimator):
    found = []
    for one in monitors or ():
        if not isinstance(one, tf.train.SessionRunHook):
            raise TypeError("%r is neither a monitor nor a hook" % (one,))
        if hasattr(one, "set_estimator"):
            one.set_estimator(estimator)
        found.append(one)
    return found


def replace_monitors_with_hooks(monitors_or_hooks, estimator):
    return hooks_of(monitors_or_hooks, estimator)
