"""tf.contrib.learn.Experiment: train and evaluate by turns, on estimators of
tf.contrib.learn or of tf.estimator."""
import time

from poseidon.tf1.contrib.training import checkpoints_iterator


class Experiment:
    def __init__(self, estimator, train_input_fn, eval_input_fn,
                 eval_metrics=None, train_steps=None, eval_steps=100,
                 train_monitors=None, eval_hooks=None,
                 local_eval_frequency=None, eval_delay_secs=120,
                 continuous_eval_throttle_secs=60, min_eval_frequency=1,
                 delay_workers_by_global_step=False, export_strategies=None,
                 train_steps_per_iteration=None, **_):
        if not hasattr(estimator, "evaluate"):
            raise ValueError("estimator must be an Estimator, not %s"
                             % type(estimator).__name__)
        self._estimator = estimator
        self._train_input_fn = train_input_fn
        self._eval_input_fn = eval_input_fn
        self._eval_metrics = eval_metrics
        self._train_steps = train_steps
        self._eval_steps = eval_steps
        self._monitors = list(train_monitors or [])
        self._eval_hooks = eval_hooks
        self._every = local_eval_frequency
        self._eval_delay = eval_delay_secs
        self._throttle = continuous_eval_throttle_secs
        self._min_eval_frequency = min_eval_frequency
        if export_strategies:
            raise ValueError("Experiment: export_strategies is not emulated; "
                             "export with tf.saved_model after training")

    @property
    def estimator(self):
        return self._estimator

    @property
    def train_steps(self):
        return self._train_steps

    @property
    def eval_metrics(self):
        return self._eval_metrics

    @property
    def eval_steps(self):
        return self._eval_steps

    def extend_train_hooks(self, additional_hooks):
        self._monitors.extend(additional_hooks)

    def reset_export_strategies(self, new_export_strategies=None):
        return None

    def train(self, delay_secs=None):
        if delay_secs:
            time.sleep(delay_secs)
        return self._fit(self._train_steps)

    def _fit(self, max_steps):
        if hasattr(self._estimator, "fit"):
            return self._estimator.fit(input_fn=self._train_input_fn,
                                       max_steps=max_steps,
                                       monitors=self._monitors)
        return self._estimator.train(input_fn=self._train_input_fn,
                                     max_steps=max_steps,
                                     hooks=self._monitors)

    def _evaluate(self, name=None, steps=None, path=None):
        words = dict(input_fn=self._eval_input_fn, steps=steps, name=name,
                     hooks=self._eval_hooks, checkpoint_path=path)
        if hasattr(self._estimator, "fit"):
            words["metrics"] = self._eval_metrics
        elif self._eval_metrics is not None:
            raise ValueError("eval_metrics: an estimator of tf.estimator "
                             "has its metrics in its EstimatorSpec")
        return self._estimator.evaluate(**words)

    def evaluate(self, delay_secs=None, name=None):
        if delay_secs:
            time.sleep(delay_secs)
        return self._evaluate(name, self._eval_steps)

    def local_run(self):
        return self.train_and_evaluate()

    def train_and_evaluate(self):
        """Train to the end, evaluating every local_eval_frequency steps if
        that was asked for; the last evaluation is the result."""
        if self._every:
            done, result = 0, None
            while self._train_steps is None or done < self._train_steps:
                done += self._every
                if self._train_steps is not None:
                    done = min(done, self._train_steps)
                self._fit(done)
                result = self._evaluate(steps=self._eval_steps)
            return result, []
        self._fit(self._train_steps)
        return self._evaluate(steps=self._eval_steps), []

    def continuous_eval(self, delay_secs=None, throttle_delay_secs=None,
                        evaluate_checkpoint_only_once=True,
                        continuous_eval_predicate_fn=None, name="continuous"):
        """Evaluate every new checkpoint until train_steps is reached."""
        time.sleep(self._eval_delay if delay_secs is None else delay_secs)
        throttle = self._throttle if throttle_delay_secs is None \
            else throttle_delay_secs
        result = None
        for path in checkpoints_iterator(self._estimator.model_dir,
                                         throttle):
            result = self._evaluate(name, self._eval_steps, path)
            if continuous_eval_predicate_fn is not None and not \
                    continuous_eval_predicate_fn(result):
                break
            if self._train_steps is not None and result.get(
                    "global_step", 0) >= self._train_steps:
                break
        return result

    def continuous_train_and_eval(self, continuous_eval_predicate_fn=None):
        return self.train_and_evaluate()

    def test(self):
        """One step of each."""
        self._fit(1)
        return self._evaluate("one_pass", 1), []

    def run_std_server(self):
        """The task of a parameter server: nothing is held in it."""
        from poseidon import _job
        from poseidon.tensorflow import role
        if role.is_ps():
            role.wait()
            return
        _job.say("this process is a parameter server of TF_CONFIG: it has "
                 "nothing to do here")

