"""The first forward with gradients after an optimizer was made: where all
workers take rank 0's values.

A hook before every module's forward waits for it and removes itself. Inside
a compiled function hooks are traced, not run: there it says nothing (and is
as simple as a traced function must be), and the beginning of the compilation
counts instead.
"""
import torch

is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling",
                       lambda: False)  # torch < 2.3 has none
_transforms = getattr(getattr(getattr(torch, "_C", None), "_functorch", None),
                      "peek_interpreter_stack", lambda: None)
_hook = None
_function = None


def expect(function):
    """Call function() at the next forward with gradients."""
    global _hook, _function
    _function = function
    if _hook is None:
        _hook = torch.nn.modules.module.register_module_forward_pre_hook(
            _before)


def forget():
    """Nobody waits any more."""
    global _hook, _function
    if _hook is not None:
        _hook.remove()
    _hook = _function = None


def arrive(*unused):
    """A module is called, or a function that calls some is compiled."""
    function = _function
    if function is not None and torch.is_grad_enabled():
        forget()
        function()


def first(real):
    """For the call of a compiled module, which warns of hooks like ours."""
    def call(self, *args, **kwargs):
        if _function is not None and not is_compiling():
            arrive()
        return real(self, *args, **kwargs)
    return call


def _before(module, args):
    # Inside grad and vmap of torch.func a module has other values.
    if not is_compiling() and _transforms() is None:
        arrive()
