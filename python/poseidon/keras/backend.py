"""After `import keras`: on which framework does it run?

On TensorFlow its classes are hooked here, once all of both is there: either
may import the other in the middle of its own import. PyTorch is there when
Keras is.
"""
import importlib

from poseidon import _boot, _job

_early = []    # modules that were there before TensorFlow was


def apply(module):
    """Called once, right after keras or tf_keras was imported."""
    name = name_of(module)
    if name == "tensorflow":
        _early.append(module)
        catch_up()
    elif name == "torch":
        importlib.import_module("poseidon.torch.keras").found(module)
    elif _job.job().size > 1 and _boot.is_worker():
        _job.say("Keras runs on %s here, which Poseidon does not distribute: "
                 "every worker trains alone; with KERAS_BACKEND=tensorflow "
                 "or torch they train together"
                 % {"jax": "JAX"}.get(name, name))


def catch_up():
    """Hook what is there, if TensorFlow is."""
    from poseidon.tensorflow import _patch, aside, keras
    while _early and _patch.applied() and not _patch.is_aside():
        module = _early.pop(0)
        keras.found(module)
        aside.watch_keras(module)


def name_of(module):
    """Keras 2 has one backend only."""
    if not is_3(module):
        return "tensorflow"
    return module.backend.backend()


def is_3(module):
    return not str(getattr(module, "__version__", "2")).startswith("2")
