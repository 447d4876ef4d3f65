"""A script that distributes itself is left alone: what is watched for.

DDP, FSDP, DeepSpeed and the multi-process mode of Accelerate all make a
process group; Horovod is imported; launchers of others leave their marks in
the environment. The first that is seen has _patch.stand_aside called, once.
"""
import functools
import sys

from poseidon import _boot

_calls = []    # (module, the function that was there)
_done = False


def install(torch):
    """The last part to be installed: it may take all others off again."""
    launcher = _boot.launcher()
    if launcher:
        _leave("the script was started by " + launcher)
        return
    _watch_groups(torch)
    _boot.after_import("horovod.torch",
                       lambda module: _leave("the script uses Horovod"))


def uninstall():
    """Nothing is watched any more."""
    global _done
    _done = True
    while _calls:
        module, function = _calls.pop()
        module.init_process_group = function


def _watch_groups(torch):
    """Everywhere torch has bound the function, it is replaced."""
    distributed = getattr(torch, "distributed", None)
    original = getattr(distributed, "init_process_group", None)
    if original is None:  # torch was built without it
        return

    @functools.wraps(original)
    def init_process_group(*args, **kwargs):
        _leave("the script calls torch.distributed.init_process_group")
        return original(*args, **kwargs)

    for name, module in list(sys.modules.items()):
        if (name.startswith("torch.distributed") and
                getattr(module, "init_process_group", None) is original):
            _calls.append((module, original))
            module.init_process_group = init_process_group


def _leave(reason):
    if _done or not _boot.is_worker():
        return
    uninstall()
    from poseidon.torch import _patch
    _patch.stand_aside(reason)
