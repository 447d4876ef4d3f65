"""What is patched in torch so that gradients, starts and steps are seen.

  Optimizer.__init__, add_param_group     the parameters; the first one joins
  global hooks before and after steps     about to step, and stepped
  Optimizer.zero_grad, Module.zero_grad   which gradients are zeros
  Module/Optimizer.load_state_dict        another start is needed
  global hook before a module's forward   the first start; removes itself
  torch.autograd.backward                 a pass (passes.py)
  CheckpointFunction.forward              backward will run inside backward
  GradScaler.scale, unscale_, step, clip_grad_norm_, clip_grad_value_
                                          gradients are about to be looked at
  ReduceLROnPlateau.step                  all decide by the same number
A job of one: only the loss of backward() and the end of steps are noted.
"""
import contextlib
import functools
import importlib
import os
import sys

from poseidon import _boot, _job, _lib
from poseidon.shared.patches import Patches
from poseidon.torch import (arena, forward, meter, modules, passes, save,
                            seed)

_patches = Patches()
_handles = []     # hooks of torch
_state = None     # the passes.Exchange, once an optimizer was made
_torch = None
_bare = 0         # backward passes before that
BARE = 3          # as many are training without an optimizer


def install(torch):
    global _torch
    job = _job.job()
    if _patches or not job.inside:
        return
    _torch = torch
    os.register_at_fork(after_in_child=_off)
    if job.size == 1:
        _install_alone(torch)
        return
    modules.install(torch)
    optimizer = torch.optim.Optimizer
    _patches.wrap(optimizer, "__init__", _make)
    _patches.wrap(optimizer, "add_param_group", _add_group)
    _patches.wrap(optimizer, "zero_grad", _zero_optimizer)
    _patches.wrap(optimizer, "load_state_dict", _load)
    _patches.wrap(torch.nn.Module, "zero_grad", _zero_module)
    _patches.wrap(torch.nn.Module, "load_state_dict", _load)
    _patches.wrap(torch.autograd, "backward", _backward)
    _install_steps(torch, _before_step, _after_step)
    _install_readers(torch)
    _patches.wrap(torch.optim.lr_scheduler.ReduceLROnPlateau, "step",
                  _deciding)
    _boot.after_import("torch._dynamo", _meet_dynamo)


def uninstall():
    """Leave torch as it was."""
    global _state
    _off()
    if _state is not None:
        _state.table.disarm()
        _state.stage.release()
    _state = None
    forward.forget()
    arena.uninstall()
    _patches.restore()
    while _handles:
        _handles.pop().remove()
    modules.uninstall()


def join():
    """Open the session and be ready for passes. Collective."""
    global _state
    if _state is None and _job.job().size > 1 and _boot.is_worker():
        save.passing()
        _lib.session()
        _state = passes.Exchange(_torch)
        arena.install(_lib.session())
    return _state


@contextlib.contextmanager
def no_sync():
    """Backward passes in here are not exchanged; their sum is, with the next
    pass or optimizer step outside."""
    state = _state
    if state is None:
        yield
        return
    state.quiet += 1
    try:
        yield
    finally:
        state.quiet -= 1


def _off():
    if _state is not None:
        _state.on = False
    forward.forget()


def active():
    """The passes.Exchange; None: there is nothing to exchange (yet)."""
    return _state if _state is not None and _state.on else None


# ---- optimizers

def meet(optimizer):
    """An optimizer that is none of torch's, but has param_groups and state
    like one. Collective."""
    if join() is not None:
        seed.fork()
    _register(optimizer)


def loaded(owner=None):
    """Values came from elsewhere, into a module or an optimizer: another
    start is needed."""
    state = active()
    if state is not None and not state.table.unstarted:
        state.flag |= passes.LOADED if state.trains(owner) else passes.COPIED


def _make(real):
    def __init__(self, *args, **kwargs):
        if join() is not None:
            seed.fork()
        real(self, *args, **kwargs)
        _register(self)
    return __init__


def _add_group(real):
    def add_param_group(self, *args, **kwargs):
        real(self, *args, **kwargs)
        state = active()
        if state is not None and self in state.table.optimizers:
            _register(self)
    return add_param_group


def _register(optimizer):
    state = active()
    if state is not None:
        state.table.add_optimizer(optimizer)
        state.stepped.setdefault(optimizer, state.passes)
        if state.table.unstarted:
            forward.expect(_start)


def _start():
    state = active()
    if state is not None and state.table.unstarted:
        state.start()


def _zero_optimizer(real):
    def zero_grad(self, set_to_none=True):
        real(self, set_to_none)
        state = active()
        if state is not None:
            state.zeroed((p for group in self.param_groups
                          for p in group["params"]), set_to_none)
    return zero_grad


def _zero_module(real):
    def zero_grad(self, set_to_none=True):
        real(self, set_to_none)
        state = active()
        if state is not None:
            state.zeroed(self.parameters(), set_to_none)
    return zero_grad


def _load(real):
    def load_state_dict(self, *args, **kwargs):
        result = real(self, *args, **kwargs)
        loaded(self)
        return result
    return load_state_dict


def _before_step(optimizer, args, kwargs):
    state = active()
    if state is not None:
        state.before_step(optimizer)


def _after_step(optimizer, args, kwargs):
    state = active()
    if state is not None:
        state.after_step(optimizer)


def _deciding(real):
    """A scheduler that goes by a number: all workers must see the same."""
    def step(self, metrics, *args, **kwargs):
        state = active()
        if state is not None and state.passes:
            metrics = _agreed(metrics)
        return real(self, metrics, *args, **kwargs)
    return step


def _agreed(number):
    """The number itself where all have the same, else their mean."""
    from poseidon.torch import allreduce
    both = _torch.tensor([number, -number], dtype=_torch.float64)
    most, least = allreduce(both.clone(), "max").tolist()
    return number if most == -least else allreduce(both)[0].item()


def _install_steps(torch, before, after):
    source = sys.modules[torch.optim.Optimizer.__module__]
    if before is not None:
        _handles.append(source.register_optimizer_step_pre_hook(before))
    _handles.append(source.register_optimizer_step_post_hook(after))


# ---- forward and backward

def _backward(real):
    def backward(tensors, *args, **kwargs):
        state = _state
        if state is None:
            _note_bare()
            return real(tensors, *args, **kwargs)
        return state.backward(real, tensors, args, kwargs)
    return backward


def _note_bare():
    """A backward pass before there is an optimizer. Many: there is none."""
    global _bare
    _bare += 1
    if _bare == BARE and _boot.is_worker():
        _job.say("%d backward passes and no optimizer: only parameters of a "
                 "torch.optim.Optimizer are trained together; every worker "
                 "runs the whole training by itself" % BARE)


# ---- who looks at gradients between backward and step

def _install_readers(torch):
    scaler = _scaler(torch)
    for name in ("unscale_", "step"):
        _patches.wrap(scaler, name, _reading)
    _patches.wrap(scaler, "scale", _scaling)
    clip = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        reading = functools.wraps(getattr(clip, name))(
            _reading(getattr(clip, name)))
        for owner in (clip, torch.nn.utils):
            _patches.put(owner, name, reading)
    nested = importlib.import_module(
        "torch.utils.checkpoint").CheckpointFunction
    _patches.put(nested, "forward", staticmethod(_nesting(nested.forward)))


def _scaler(torch):
    amp = getattr(torch.amp, "GradScaler", None)
    return amp if amp is not None else torch.cuda.amp.GradScaler  # torch < 2.3


def _reading(real):
    def reader(*args, **kwargs):
        state = active()
        if state is not None and state.owing and not state.open:
            with state.lock:
                state.flush()
        return real(*args, **kwargs)
    return reader


def _scaling(real):
    def scale(self, *args, **kwargs):
        state = active()
        if state is not None and self.is_enabled():
            state.watch.scaled = True
        return real(self, *args, **kwargs)
    return scale


def _nesting(real):
    @functools.wraps(real)
    def forward(*args, **kwargs):
        state = active()
        if state is not None:
            state.deep = True
        return real(*args, **kwargs)
    return forward


def _meet_dynamo(dynamo):
    """Our frames are not compiled, but for the one hook that is traced; a
    compilation counts as a first forward."""
    rules = getattr(dynamo, "trace_rules", None) or (
        getattr(dynamo, "skipfiles", None))
    if hasattr(rules, "add"):
        for name, module in list(sys.modules.items()):
            if name.startswith("poseidon.") and module is not forward and (
                    not hasattr(module, "__path__")):
                rules.add(name)
    compiled = getattr(getattr(dynamo, "eval_frame", None),
                       "OptimizedModule", None)
    if compiled is not None and "__call__" in vars(compiled):
        _patches.wrap(compiled, "__call__", forward.first)
    callback = getattr(dynamo, "callback", None)
    if hasattr(callback, "on_compile_start"):
        callback.on_compile_start(forward.arrive)


# ---- a job of one

def _install_alone(torch):
    alone = meter.Meter(torch)

    def noting(real):
        def backward(tensors, *args, **kwargs):
            real(tensors, *args, **kwargs)
            if _torch is not None:
                alone.note((tensors,), 0)
        return backward

    def after(optimizer, args, kwargs):
        if _torch is not None and _boot.is_worker():
            alone.stepped(optimizer)

    _patches.wrap(torch.autograd, "backward", noting)
    _install_steps(torch, None, after)
