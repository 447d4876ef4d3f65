"""Finds the modules that TensorFlow has dropped, under their old names.

A package of tf.contrib is one module here, whatever files it had: the path
tensorflow.contrib.learn.python.learn.estimators.dnn gives a view of
tf.contrib.learn with all its names. Only names of files that were there are
found, so that a wrong one is an ImportError as ever.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

from poseidon.tf1 import missing
from poseidon.tf1.overlay import Module

CONTRIB = "tensorflow.contrib"
_OURS = "poseidon.tf1.contrib."

# Package of tf.contrib: (our module, the files and folders it had).
PACKAGES = {
    "framework": ("framework", "python framework ops variables arg_scope "
                  "checkpoint_ops tensor_util experimental checkpoint_utils"),
    "layers": ("layers", "python layers ops initializers regularizers "
               "optimizers feature_column feature_column_ops embedding_ops "
               "summaries encoders utils initializers_lib"),
    "learn": ("learn", "python learn estimators experiment dnn linear "
              "dnn_linear_combined run_config learn_runner runner estimator "
              "model_fn metric_spec monitors monitored_session datasets base "
              "mnist test_data head constants prediction_key metric_key "
              "trainable evaluable session_run_hook learn_io utils "
              "input_fn_utils preprocessing text iris basic_session_run_hooks "
              "graph_actions"),
    "slim": ("slim", "python slim learning evaluation queues data "
             "prefetch_queue dataset model_analyzer"),
    "metrics": ("metrics", "python ops metric_ops metrics"),
    "losses": ("losses", "python losses loss_ops"),
    "rnn": ("rnn", "python ops rnn rnn_cell core_rnn core_rnn_cell "
            "core_rnn_cell_impl rnn_cell_impl"),
    "legacy_seq2seq": ("legacy_seq2seq", "python ops seq2seq"),
    "distributions": ("distributions", "python ops"),
    "training": ("training", "python training training hparam"),
    "data": ("data", "python ops dataset_ops"),
    "util": ("util", "loader"),
    "lookup": ("lookup", "lookup_ops"),
    "deprecated": ("deprecated", "python"),
    "summary": ("summary", "summary_ops"),
    "testing": ("testing", "python framework test_util"),
}
_BELOW = {  # paths whose module is another than the package's
    "learn.test_data": "test_data",
    "learn.datasets": "datasets",
    "learn.base": "datasets",
    "learn.mnist": "input_data",
    "learn.learn_runner": "learn_runner",
    "learn.monitors": "monitors",
    "learn.preprocessing": "text",
    "learn.text": "text",
    "slim.learning": "slim_learning",
    "slim.evaluation": "slim_learning",
    "slim.queues": "slim_learning",
    "slim.prefetch_queue": "slim",
}
ALIASES = {  # whole modules under another name
    "tensorflow.examples": None,
    "tensorflow.examples.tutorials": None,
    "tensorflow.examples.tutorials.mnist": None,
    "tensorflow.examples.tutorials.mnist.input_data":
        "poseidon.tf1.contrib.input_data",
    "tensorflow.examples.tutorials.mnist.mnist":
        "poseidon.tf1.models.mnist",
    "learn_runner": "poseidon.tf1.contrib.learn_runner",
}
# tensorflow.models.PATH.NAME is NAME.py beside the script, else ours.
_MODELS = {"cifar10", "cifar10_input", "mnist"}
_FOLDERS = {"image", "rnn", "embedding", "official", "tutorials", "research",
            "ptb", "translate", "alexnet", "imagenet", "cifar10", "mnist"}


class _Loader(importlib.abc.Loader):
    def __init__(self, make):
        self.make = make

    def create_module(self, spec):
        return self.make(spec.name)

    def exec_module(self, module):
        pass


class Finder:
    def find_spec(self, name, path=None, target=None):
        make = self.maker(name)
        if make is None:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(make),
                                              is_package=True)

    def maker(self, name):
        if name in ALIASES:
            if name == "learn_runner" and _is_beside(name):
                return None
            return _alias(ALIASES[name])
        if name == CONTRIB:
            return _contrib
        if name.startswith(CONTRIB + "."):
            return _package(name)
        if name == "tensorflow.models" or name.startswith(
                "tensorflow.models."):
            return _model(name)
        return None


def install():
    if not any(isinstance(one, Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def _alias(target):
    """A module under another name; None: a folder, with what is below it."""
    def make(name):
        if target is not None:
            return Module(name, [importlib.import_module(target)])
        head = name + "."
        return Module(name, later={
            one[len(head):]: _importer(one) for one in ALIASES
            if one.startswith(head) and "." not in one[len(head):]})
    return make


def _contrib(name):
    later = {package: _importer("%s.%s" % (CONTRIB, package))
             for package in PACKAGES}
    return Module(name, later=later)


def _package(name):
    words = name[len(CONTRIB) + 1:].split(".")
    package, rest = words[0], words[1:]
    if package not in PACKAGES:
        raise ModuleNotFoundError(
            missing.sentence(CONTRIB, package, PACKAGES))
    ours, files = PACKAGES[package]
    files = files.split()
    for at, word in enumerate(rest):
        if word not in files:
            raise ModuleNotFoundError(missing.sentence(
                ".".join([CONTRIB, *words[:at + 1]]), word,
                dir(importlib.import_module(_OURS + ours))))
    ours = _BELOW.get("%s.%s" % (package, words[-1])) if rest else ours
    return _view(ours or PACKAGES[package][0], files)


def _view(ours, files):
    """Names first; a file's name gives the view that stands for it."""
    def make(name):
        base = importlib.import_module(_OURS + ours)
        later = {word: _importer("%s.%s" % (name, word)) for word in files
                 if not hasattr(base, word)}
        return Module(name, [base], later=later)
    return make


def _model(name):
    """tensorflow.models.image.cifar10 was a folder, and below it a file of
    the same name."""
    words = name.split(".")[2:]
    if not words or (words[-1] in _FOLDERS and words[-1] not in words[:-1]):
        return _alias(None)
    return _beside(words[-1])


def _beside(leaf):
    """The script's own file of that name, else ours."""
    if _is_beside(leaf):
        return lambda name: Module(name, [importlib.import_module(leaf)])
    if leaf in _MODELS:
        return _alias("poseidon.tf1.models." + leaf)
    raise ModuleNotFoundError(
        "tensorflow.models: no %s.py is beside the script: it is a file of "
        "the TensorFlow models repository, put it there" % leaf)


def _is_beside(name):
    return any(os.path.isfile(os.path.join(folder or ".", name + ".py"))
               for folder in sys.path)


def _importer(name):
    return lambda: importlib.import_module(name)
