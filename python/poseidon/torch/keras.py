"""Keras 3 on PyTorch: where its classes are hooked.

Its trainer calls backward() and hands p.grad to its own optimizer, so that
the passes of passes.py serve it, once they know the parameters:
  BaseOptimizer.build       the first one joins and forks the streams; what
                            was drawn before (first weights) is equal
  apply of the outermost    about to step, and stepped
  TorchEpochIterator        what its loaders are read for
  PyDataset, generators     draw from the common stream
  Trainer                   fit.py in poseidon/keras; a step tells the kind of
                            its loss, and what it does to the metrics on rows
                            that count for nothing is taken back
"""
import random
import threading
import weakref

from poseidon import _boot, _job
from poseidon.keras import callbacks, draws, fit, ground, metrics, saving
from poseidon.shared import everywhere, host, lines
from poseidon.torch import data, exchange, loss, phase, seed

PREFIX = "keras.src."
ADAPTERS = PREFIX + "trainers.data_adapters."

_patches = everywhere.Patches()
_sources = weakref.WeakKeyDictionary()   # optimizer: its Source
_inside = threading.local()              # of an optimizer's apply
_torch = None


def install(torch):
    global _torch
    _torch = torch


def uninstall():
    global _torch
    _torch = None
    callbacks.uninstall()
    fit.uninstall()
    _patches.restore()


def found(module):
    """Keras was imported; see backend.py."""
    if _torch is None:
        return
    from poseidon.torch import keras_ground
    ground.use(keras_ground)
    callbacks.install(PREFIX, 3)
    _boot.on_fork(uninstall)
    if _job.job().size == 1:
        return
    trainer = callbacks.load(PREFIX + "backend.torch.trainer")
    fit.install(trainer.TorchTrainer, 3)
    _patches.wrap(trainer.TorchTrainer, "make_train_function", _make_train)
    _patches.wrap(trainer.TorchTrainer, "_symbolic_build", _look)
    _hook_optimizers()
    _hook_data(trainer.TorchEpochIterator)
    draws.install(_patches, callbacks.load(PREFIX + "random.seed_generator"),
                  lambda: not seed.is_common())
    if host.is_active():
        with everywhere.gathered():
            saving.replace(_patches,
                           callbacks.load(PREFIX + "saving.saving_api"))


# ---- optimizers

class Source:
    """An optimizer of Keras as one of torch: its parameters and its state."""

    def __init__(self, optimizer):
        self.optimizer = weakref.ref(optimizer)

    @property
    def param_groups(self):
        optimizer = self.optimizer()
        return [] if optimizer is None else [{"params": [
            variable._value for variable in optimizer._trainable_variables]}]

    @property
    def state(self):
        """Before the first step it is the same on all workers."""
        optimizer, groups = self.optimizer(), self.param_groups
        if not groups or not groups[0]["params"] or (
                not int(optimizer._iterations._value)):
            return {}
        return {groups[0]["params"][0]: {
            "%d" % at: variable._value
            for at, variable in enumerate(optimizer.variables)}}


def _hook_optimizers():
    base = callbacks.load(PREFIX + "optimizers.base_optimizer").BaseOptimizer
    scale = callbacks.load(
        PREFIX + "optimizers.loss_scale_optimizer").LossScaleOptimizer
    _patches.wrap(base, "build", _build)
    for owner in (base, scale):
        _patches.wrap(owner, "apply", _apply)


def _source(optimizer):
    if optimizer not in _sources:
        _sources[optimizer] = Source(optimizer)
    return _sources[optimizer]


def _build(real):
    """Of a loss scale optimizer and the one inside it only the latter is
    met."""
    def build(self, variables):
        real(self, variables)
        if not hasattr(self, "inner_optimizer") and not _is_applying():
            exchange.meet(_source(self))
    return build


def _is_applying():
    return getattr(_inside, "apply", False)


def _apply(real):
    def apply(self, grads, trainable_variables=None):
        if _is_applying() or not _is_ready(self):
            return real(self, grads, trainable_variables)
        _inside.apply = True
        try:
            _build_late(self, trainable_variables)
            state, source = exchange.active(), _source(_innermost(self))
            grads = _finished(state, source, list(grads), (
                self._trainable_variables if trainable_variables is None
                else list(trainable_variables)))
            if source.optimizer() is not self:
                state.watch.scaled = True
            state.meter.loss /= float(self.scale_loss(_torch.ones(())))
            real(self, grads, trainable_variables)
            state.after_step(source)
        finally:
            _inside.apply = False
        return None
    return apply


def _is_ready(optimizer):
    """Is there an exchange? One that is first built by apply() comes here
    before it has met it."""
    if not optimizer.built and exchange.join() is not None:
        seed.fork()
    return exchange.active() is not None


def _build_late(optimizer, variables):
    """A loop that never called build(): its first gradients are those of this
    worker only, and are exchanged now, by before_step."""
    if not optimizer.built and variables is not None:
        optimizer.build(list(variables))
        optimizer.built = True


def _innermost(optimizer):
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer


def _finished(state, source, grads, variables):
    """The gradients, when all that was not exchanged yet is."""
    parameters = [variable._value for variable in variables]
    before = [parameter.grad for parameter in parameters]
    state.before_step(source)
    return [parameter.grad if grad is old else grad
            for grad, old, parameter in zip(grads, before, parameters)]


# ---- steps

def _make_train(real):
    def make_train_function(self, force=False):
        if self.jit_compile:
            lines.once("jit_compile is switched off: what is exchanged in a "
                       "step cannot be compiled with it")
            self.jit_compile = False
        step = self.train_function
        result = real(self, force)
        if self.train_function is not step:
            self.train_function = _step(weakref.ref(self),
                                        self.train_function)
        return result
    return make_train_function


def _step(reference, real):
    def train(batch):
        model = reference()
        kind = fit.loss_kind(model)
        with loss.telling(kind), metrics.counted(model, data.current(), kind):
            return real(batch)
    return train


# ---- data

def _hook_data(epochs):
    _patches.wrap(epochs, "__init__", _epochs)
    _patches.wrap(epochs, "reset", _reset)
    _patches.wrap(epochs, "__next__", _next)
    _patches.wrap(epochs, "_interrupted_warning", _warn)
    sequences = callbacks.load(ADAPTERS + "py_dataset_adapter")
    generators = callbacks.load(ADAPTERS + "generator_data_adapter")
    _patches.wrap(generators.GeneratorDataAdapter, "__init__", _in_common)
    for name in ("on_epoch_begin", "on_epoch_end"):
        _patches.wrap(sequences.PyDatasetAdapter, name, _in_common)
    _patches.wrap(sequences.OrderedEnqueuer, "start", _enqueue)
    _patches.put(sequences, "random", _Shuffler)


class _Shuffler:
    """random, where batches of a PyDataset are shuffled. The common stream is
    the main thread's: it draws for a thread that it starts."""
    state = None

    @classmethod
    def shuffle(cls, items):
        if threading.current_thread() is threading.main_thread():
            random.shuffle(items)
        else:
            stream = random.Random()
            stream.setstate(cls.state)
            stream.shuffle(items)


def _enqueue(real):
    def start(self):
        count = self.py_dataset.num_batches
        if self.shuffle and count is not None and not self.is_running():
            with seed.common("random"):
                _Shuffler.state = random.getstate()
                random.shuffle(list(range(count)))
        return real(self)
    return start


def _in_common(real):
    def call(*args, **kwargs):
        with seed.common():
            return real(*args, **kwargs)
    return call


def _look(real):
    """Keras takes a first batch to see its shape."""
    def _symbolic_build(self, iterator=None, data_batch=None):
        kind = getattr(iterator, "psd_kind", None)
        if iterator is not None:
            iterator.psd_kind = "open"
        try:
            return real(self, iterator, data_batch)
        finally:
            if iterator is not None:
                iterator.psd_kind = kind
    return _symbolic_build


def _epochs(real):
    """The data of one fit, evaluate or predict, or of fit's validation."""
    def __init__(self, *args, **kwargs):
        frame = fit.wanting()
        if frame is not None:
            self.psd_kind = "train" if frame.kind == "fit" else "eval"
        else:
            self.psd_kind = "eval" if fit.is_going_on() else None
        self.psd_whole = self.psd_kind == "train" and (
            fit.is_whole(frame.model))
        with phase.telling(self.psd_kind, self.psd_whole):
            real(self, *args, **kwargs)
        _shorten(self)
    return __init__


def _reset(real):
    def reset(self):
        real(self)
        _shorten(self)
    return reset


def _shorten(epochs):
    """Per worker there are fewer batches; len() of a DataLoader says so
    itself."""
    if epochs.psd_kind == "train" and epochs._num_batches and (
            epochs.psd_whole or _job.job().batch == "per-worker") and (
            not hasattr(epochs.data_adapter, "_dataloader")):
        epochs._num_batches = -(-epochs._num_batches // _job.job().size)


def _warn(real):
    """The part of an evaluation that is this worker's may well end early."""
    def _interrupted_warning(self):
        if self.psd_kind != "eval" or not _job.job().shard_eval:
            real(self)
    return _interrupted_warning


def _next(real):
    def __next__(self):
        with phase.telling(self.psd_kind, self.psd_whole):
            return real(self)
    return __next__
