"""tf.contrib.learn.Estimator on MonitoredTrainingSession: no other part of
TensorFlow's estimators is used, so it runs where they are gone.
"""
import os
import tempfile

import numpy
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib import model_fn as models
from poseidon.tf1.contrib import run_config
from poseidon.tf1.contrib.model_fn import MetricSpec, ModeKeys


class BaseEstimator:
    """What every estimator has; a class below gives _ops."""

    def __init__(self, model_dir=None, config=None):
        self._config = config or run_config.RunConfig()
        self._model_dir = (model_dir or getattr(self._config, "model_dir",
                                                None) or tempfile.mkdtemp())
        self._params = None
        self._labels = None     # their kinds, when it has been trained

    @property
    def model_dir(self):
        return self._model_dir

    @property
    def config(self):
        return self._config

    @property
    def params(self):
        return self._params

    def fit(self, x=None, y=None, input_fn=None, steps=None, batch_size=None,
            monitors=None, max_steps=None):
        """Train; the folder's newest checkpoint is where it begins."""
        if steps is not None and max_steps is not None:
            raise ValueError("give steps or max_steps, not both")
        from poseidon.tf1.contrib.monitors import hooks_of
        source = _source(x, y, input_fn, batch_size, shuffle=True)
        with self._graph():
            step = tf.train.get_or_create_global_step()
            features, labels = source.tensors()
            self._labels = _kinds(labels)
            ops = self._ops(features, labels, ModeKeys.TRAIN)
            hooks = [*source.hooks(), *ops.training_hooks,
                     *ops.training_chief_hooks,
                     *hooks_of(monitors, self)]
            hooks.append(tf.train.NanTensorHook(ops.loss))
            hooks.append(tf.train.LoggingTensorHook(
                {"loss": ops.loss, "step": step}, every_n_iter=100))
            if steps is not None or max_steps is not None:
                hooks.append(tf.train.StopAtStepHook(
                    num_steps=steps, last_step=max_steps))
            if not tf.get_collection(tf.GraphKeys.SUMMARIES, "loss"):
                tf.summary.scalar("loss", ops.loss)
            self._train(ops, hooks, max_steps)
        return self

    def _train(self, ops, hooks, max_steps):
        if max_steps is not None and _step_in(self._model_dir) >= max_steps:
            return  # it was trained that far before
        config = self._config
        scaffold = ops.scaffold or tf.train.Scaffold(saver=tf.train.Saver(
            max_to_keep=config.keep_checkpoint_max, sharded=False,
            keep_checkpoint_every_n_hours=getattr(
                config, "keep_checkpoint_every_n_hours", 10000)))
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=self._model_dir, hooks=hooks,
                scaffold=scaffold,
                save_checkpoint_secs=config.save_checkpoints_secs,
                save_checkpoint_steps=config.save_checkpoints_steps,
                save_summaries_steps=config.save_summary_steps,
                config=_session_config(config)) as session:
            while not session.should_stop():
                session.run([ops.train_op, ops.loss])

    partial_fit = fit

    def evaluate(self, x=None, y=None, input_fn=None, feed_fn=None,
                 batch_size=None, steps=None, metrics=None, name=None,
                 checkpoint_path=None, hooks=None, log_progress=True):
        """The metrics of a checkpoint, by name."""
        path = checkpoint_path or tf.train.latest_checkpoint(self._model_dir)
        if path is None:
            raise ValueError("%s has no checkpoint to evaluate: train first"
                             % self._model_dir)
        source = _source(x, y, input_fn, batch_size, shuffle=False, epochs=1)
        with self._graph():
            step = tf.train.get_or_create_global_step()
            features, labels = source.tensors()
            ops = self._ops(features, labels, ModeKeys.EVAL)
            pairs = dict(ops.eval_metric_ops)
            pairs.setdefault("loss", tf.metrics.mean(ops.loss))
            pairs.update(_metrics(metrics, features, labels,
                                  ops.predictions))
            values = {key: pair[0] for key, pair in pairs.items()}
            values["global_step"] = step
            update = tf.group(*[pair[1] for pair in pairs.values()])
            creator = tf.train.ChiefSessionCreator(
                checkpoint_filename_with_path=path,
                config=_session_config(self._config))
            final = tf.train.FinalOpsHook(values)
            with tf.train.MonitoredSession(
                    creator, hooks=[*source.hooks(), *(hooks or ()),
                                    final]) as session:
                done = 0
                while not session.should_stop() and (
                        steps is None or done < steps):
                    try:
                        session.run(update)
                    except tf.errors.OutOfRangeError:
                        break
                    done += 1
            results = final.final_ops_values
            self._write(results, name)
        return results

    def _write(self, results, name):
        """The metrics as an event file, where TensorBoard looks for them."""
        if not results:
            return
        folder = os.path.join(self._model_dir,
                              "eval_%s" % name if name else "eval")
        summary = tf.Summary()
        for key, value in sorted(results.items()):
            if key != "global_step" and numpy.ndim(value) == 0:
                summary.value.add(tag=key, simple_value=float(value))
        writer = tf.summary.FileWriterCache.get(folder)
        writer.add_summary(summary, int(results["global_step"]))
        writer.flush()
        tf.logging.info("%s: %s", folder, ", ".join(
            "%s = %s" % one for one in sorted(results.items())))

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None,
                as_iterable=True, iterate_batches=False):
        path = tf.train.latest_checkpoint(self._model_dir)
        if path is None:
            raise ValueError("%s has no checkpoint to predict with: train "
                             "first" % self._model_dir)
        rows = self._rows(x, input_fn, batch_size, outputs, path,
                          iterate_batches)
        if as_iterable:
            return rows
        found = list(rows)
        if found and isinstance(found[0], dict):
            return {key: numpy.array([one[key] for one in found])
                    for key in found[0]}
        return numpy.array(found)

    def _rows(self, x, input_fn, batch_size, outputs, path, whole):
        source = _source(x, None, input_fn, batch_size, shuffle=False,
                         epochs=1)
        with self._graph():
            features, labels = source.tensors()
            if labels is None and self._labels is not None:
                labels = tf.nest.map_structure(    # never fed
                    lambda kind: tf.placeholder(kind.dtype, kind.shape),
                    self._labels)
            ops = self._ops(features, labels, ModeKeys.INFER)
            values = ops.predictions
            if outputs and isinstance(values, dict):
                values = {key: values[key] for key in outputs
                          if key in values}
            creator = tf.train.ChiefSessionCreator(
                checkpoint_filename_with_path=path,
                config=_session_config(self._config))
            with tf.train.MonitoredSession(
                    creator, hooks=source.hooks()) as session:
                while not session.should_stop():
                    try:
                        batch = session.run(values)
                    except tf.errors.OutOfRangeError:
                        break
                    yield from [batch] if whole else _each(batch)
                    if not source.is_finite:
                        break

    def get_variable_names(self):
        return [name for name, _ in tf.train.list_variables(self._model_dir)]

    def get_variable_value(self, name):
        return tf.train.load_variable(self._model_dir, name)

    def get_params(self, deep=True):
        return dict(self._params or {})

    def _graph(self):
        return _Graph(getattr(self._config, "tf_random_seed", None))

    def _ops(self, features, labels, mode):
        raise NotImplementedError


class Estimator(BaseEstimator):
    def __init__(self, model_fn=None, model_dir=None, config=None,
                 params=None, feature_engineering_fn=None):
        super().__init__(model_dir, config)
        if model_fn is None:
            raise ValueError("Estimator needs a model_fn")
        self._model_fn = model_fn
        self._params = params or {}
        self._engineer = feature_engineering_fn

    def _ops(self, features, labels, mode):
        if self._engineer is not None:
            features, labels = self._engineer(features, labels)
        return models.call(self._model_fn, features, labels, mode,
                           self._params, self._config, self._model_dir)


def _kinds(labels):
    """Type and shape of each, for model functions that make a loss also when
    they predict."""
    if labels is None:
        return None
    return tf.nest.map_structure(
        lambda one: tf.TensorSpec(one.shape, one.dtype), labels)


class _Graph:
    """with _Graph(seed): a graph of its own."""

    def __init__(self, seed):
        self._graph = tf.Graph()
        self._seed = seed

    def __enter__(self):
        self._context = self._graph.as_default()
        self._context.__enter__()
        if self._seed is not None:
            tf.set_random_seed(self._seed)
        return self._graph

    def __exit__(self, *error):
        return self._context.__exit__(*error)


def _session_config(config):
    from poseidon.tf1.config import unwrap
    return unwrap(getattr(config, "session_config", None)
                  or getattr(config, "tf_config", None))


def _step_in(folder):
    path = tf.train.latest_checkpoint(folder)
    if path is None:
        return -1
    reader = tf.train.load_checkpoint(path)
    name = tf.GraphKeys.GLOBAL_STEP
    return int(reader.get_tensor(name)) if reader.has_tensor(name) else -1


def _metrics(metrics, features, labels, predictions):
    """Metrics of the script: MetricSpec by name, or functions by name or by
    (name, key of the prediction)."""
    found = {}
    for key, metric in (metrics or {}).items():
        name = key
        if not isinstance(metric, MetricSpec):
            chosen = None
            if isinstance(key, tuple):
                name, chosen = key
            metric = MetricSpec(metric, chosen)
        value = metric.create_metric_ops(features, labels, predictions)
        found[name] = value if isinstance(value, tuple) \
            else tf.metrics.mean(value)
    return found


def _each(batch):
    if not isinstance(batch, dict):
        yield from batch
        return
    count = min(len(value) for value in batch.values())
    for at in range(count):
        yield {key: value[at] for key, value in batch.items()}


def _source(x, y, input_fn, batch_size, shuffle, epochs=None):
    if input_fn is not None:
        if x is not None or y is not None:
            raise ValueError("give input_fn or x and y, not both")
        return _Function(input_fn)
    if x is None:
        raise ValueError("give input_fn, or x and y")
    return _Arrays(x, y, batch_size, shuffle, epochs)


class _Function:
    """Features and labels from the script's function."""

    is_finite = False

    def __init__(self, function):
        self._function = function
        self._begin = None

    def tensors(self):
        result = self._function()
        if hasattr(result, "make_initializable_iterator"):
            iterator = result.make_initializable_iterator()
        elif hasattr(result, "element_spec"):
            iterator = tf.data.make_initializable_iterator(result)
        else:
            iterator = None
        if iterator is not None:
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS,
                                 iterator.initializer)
            result = iterator.get_next()
            self.is_finite = True
        self.is_finite = self.is_finite or bool(
            tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
        if isinstance(result, tuple) and len(result) == 2:
            return result
        return result, None

    def hooks(self):
        return []


class _Arrays(tf.train.SessionRunHook):
    """Features and labels from numpy arrays, fed batch by batch."""

    is_finite = True

    def __init__(self, x, y, batch_size, shuffle, epochs):
        self._x = {name: numpy.asarray(value) for name, value in x.items()} \
            if isinstance(x, dict) else numpy.asarray(x)
        first = next(iter(self._x.values())) if isinstance(self._x, dict) \
            else self._x
        self._count = len(first)
        self._y = None if y is None else numpy.asarray(y)
        if self._y is not None and len(self._y) != self._count:
            raise ValueError("x has %d rows and y %d"
                             % (self._count, len(self._y)))
        self._size = batch_size or self._count
        self._shuffle, self._epochs = shuffle, epochs
        self._order = []

    def tensors(self):
        def place(value):
            dtype = numpy.float32 if value.dtype == numpy.float64 \
                else value.dtype
            return tf.placeholder(tf.as_dtype(dtype),
                                  [None, *value.shape[1:]])
        self._places = {name: place(value) for name, value in
                        self._x.items()} if isinstance(self._x, dict) \
            else place(self._x)
        self._label = None if self._y is None else place(self._y)
        self._order, self._left = [], self._epochs
        return self._places, self._label

    def hooks(self):
        return [self]

    def before_run(self, context):
        rows = self._take()
        if isinstance(self._x, dict):
            feed = {self._places[name]: value[rows]
                    for name, value in self._x.items()}
        else:
            feed = {self._places: self._x[rows]}
        if self._label is not None:
            feed[self._label] = self._y[rows]
        return tf.train.SessionRunArgs(None, feed)

    def _take(self):
        if not len(self._order):
            if self._left is not None:
                if not self._left:
                    raise tf.errors.OutOfRangeError(None, None, "end of data")
                self._left -= 1
            self._order = numpy.arange(self._count)
            if self._shuffle:
                numpy.random.shuffle(self._order)
        rows, self._order = (self._order[:self._size],
                             self._order[self._size:])
        return rows
