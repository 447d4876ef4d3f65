"""The module `tensorflow` that a TensorFlow 1 script sees.

It is a module of its own, put into sys.modules in the place of the real one
after that has been imported: its own names first, then compat.v1's, then the
real module's. Libraries that hold the real module (Keras, the estimators) do
not notice. The same is done for the modules below it that need old names.
"""
import importlib
import sys
import types
import warnings

from poseidon.tf1 import missing

OLDEST = (2, 15)
_KEPT = ("__doc__", "__file__", "__loader__", "__package__", "__path__",
         "__spec__", "__version__", "__git_version__",
         "__compiler_version__", "__cxx11_abi_flag__",
         "__monolithic_build__")

real = None  # the module that was replaced


class Module(types.ModuleType):
    """Its own names, then those of `bases` in their order. `later` are
    functions that make a value when it is asked for the first time."""

    def __init__(self, name, bases=(), own=None, later=None):
        super().__init__(name)
        self.__dict__["_bases"] = tuple(bases)
        self.__dict__["_later"] = dict(later or {})
        self.__dict__.update(own or {})

    def __getattr__(self, name):
        if name in self._later:
            value = self._later[name]()
            self.__dict__[name] = value
            return value
        if name == "__all__":
            raise AttributeError(name)
        for base in self._bases:
            try:
                return getattr(base, name)
            except AttributeError:
                continue
        raise AttributeError(missing.sentence(self.__name__, name,
                                              dir(self)))

    def __dir__(self):
        names = {name for name in self.__dict__ if name[0] != "_"}
        names.update(self._later)
        for base in self._bases:
            names.update(name for name in dir(base) if name[0] != "_")
        return sorted(names)


class Lazy:
    """A base that is imported when it is asked for a name."""

    def __init__(self, *names):
        self._names = names

    def __getattr__(self, name):
        for module in self._names:
            try:
                return getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                continue
        raise AttributeError(name)

    def __dir__(self):
        names = set()
        for module in self._names:
            try:
                names.update(dir(importlib.import_module(module)))
            except ImportError:
                continue
        return sorted(names)


def apply(module):
    """Called with the real tensorflow, right after its import."""
    global real
    if isinstance(module, Module) or real is not None:
        return
    _check(module)
    real = module
    _switch_v2_off(module)
    from poseidon.tf1 import config, flags
    config.patch()
    flags.ease_argparse()
    _keep_from_keras(module)
    top = _build(module, module.compat.v1)
    for name in _KEPT:
        if name in module.__dict__:
            top.__dict__[name] = module.__dict__[name]
    sys.modules["tensorflow"] = top


def _check(module):
    version = getattr(module, "__version__", "0")
    numbers = tuple(int(word) for word in version.split(".")[:2]
                    if word.isdigit())
    if numbers < OLDEST:
        raise ImportError("poseidon: TensorFlow %s is too old: 2.15 or newer "
                          "is needed (PSD_TF=2 leaves the script alone)"
                          % version)


def _switch_v2_off(module):
    """Without the warnings that are meant for who ports a script."""
    from tensorflow.python.util import deprecation
    if hasattr(deprecation, "_PRINT_DEPRECATION_WARNINGS"):
        deprecation._PRINT_DEPRECATION_WARNINGS = False
    for text in (r"`tf\.(layers|nn\.rnn_cell)\.",
                 r"`layer\.(apply|add_variable)`"):
        warnings.filterwarnings("ignore", text, UserWarning)
    logger = module.get_logger()
    logger.propagate = False  # absl would write every line a second time
    level = logger.level
    logger.setLevel("ERROR")
    try:
        module.compat.v1.disable_v2_behavior()
    finally:
        logger.setLevel(level)


def _keep_from_keras(module):
    """Keras 3 imports tensorflow a second time, when it is used."""
    lazy = sys.modules.get("keras.src.utils.module_utils")
    lazy = getattr(lazy, "tensorflow", None)
    if lazy is not None and getattr(lazy, "module", module) is None:
        lazy.module = module


def _complete(v1):
    """Names that had two places, of which one has lost them."""
    from tensorflow.python.framework import graph_util
    for name in ("convert_variables_to_constants", "extract_sub_graph",
                 "remove_training_nodes", "must_run_on_cpu"):
        if not hasattr(graph_util, name):
            setattr(graph_util, name, getattr(v1.graph_util, name))


def _build(module, v1):
    from poseidon.tf1 import config, flags, names, order
    _complete(v1)
    table = names.table(v1)
    for place, values in order.table(v1).items():
        table.setdefault(place, {}).update(values)
    defined = flags.definers(v1)
    flag_module = Module("tensorflow.flags", [v1.flags], defined)
    below = {
        "flags": flag_module,
        "app": Module("tensorflow.app", [v1.app], {
            "flags": flag_module,
            "run": flags.runner(v1, defined["FLAGS"])}),
        "layers": Module("tensorflow.layers", [v1.layers, Lazy(
            "tensorflow.python.keras.legacy_tf_layers.core",
            "tensorflow.python.keras.legacy_tf_layers.convolutional",
            "tensorflow.python.keras.legacy_tf_layers.pooling",
            "poseidon.tf1.contrib.tf_layers")]),
    }
    cells = Module("tensorflow.nn.rnn_cell", [v1.nn.rnn_cell, Lazy(
        "tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl")])
    table.setdefault("nn", {})["rnn_cell"] = cells
    table["nn"]["seq2seq"] = Module("tensorflow.nn.seq2seq", [Lazy(
        "poseidon.tf1.contrib.legacy_seq2seq")])
    for place in ("nn", "train", "image", "summary"):
        below[place] = Module("tensorflow." + place, [getattr(v1, place)],
                              table.get(place))
    for name, value in below.items():
        sys.modules["tensorflow." + name] = value
    own = dict(table.get("", {}), **below)
    own["ConfigProto"] = config.factory(v1.ConfigProto)
    own["compat"] = module.compat
    own["python"] = sys.modules["tensorflow.python"]
    own["core"] = sys.modules.get("tensorflow.core")
    return Module("tensorflow", [v1, module], own, {
        "estimator": lambda: _estimator(v1),
        "contrib": _imported("tensorflow.contrib"),
        "examples": _imported("tensorflow.examples"),
        "models": _imported("tensorflow.models")})


def _imported(name):
    return lambda: importlib.import_module(name)


def _estimator(v1):
    """Only where TensorFlow has it; there it takes our configuration."""
    from poseidon.tf1 import config
    try:
        module = v1.estimator
        dir(module)
        config.patch_estimator()
        return module
    except (AttributeError, ImportError):
        raise AttributeError(
            missing.sentence("tensorflow", "estimator")) from None
