"""Who joins the job, and when: after `import torch`, in the process that was
launched and in no other.

start() puts a finder in front of sys.meta_path. It imports nothing and finds
nothing by itself: it only waits until the script imports one of FRAMEWORKS,
and runs the adapter's apply(module) right after. The first process that does
so claims the worker: PSD_BOOT="pid:starttime" in its environment. Its
children inherit the claim of another process and stand aside: data-loader
workers, compilers, helpers by `python -c`. A script that exec's itself is the
same process and claims again. The session opens later, when is_worker() is
asked by the adapter.
"""
import os
import sys

FRAMEWORKS = {"torch": "poseidon.torch._patch",
              "tensorflow": "poseidon.tensorflow._patch",
              "keras": "poseidon.keras.backend",
              "tf_keras": "poseidon.keras.backend"}

CLAIM = "PSD_BOOT"
SAID = "PSD_BOOT_SAID"

_waiting = {}     # name of a module: functions to call with it
_at_fork = []     # functions to call in a forked child
_claimed = None   # pid of this process, once it has claimed the worker
_finder = None


def start():
    """Wait for the frameworks, unless an ancestor has claimed the worker.
    A TensorFlow 1 script sees its TensorFlow in every process."""
    token = os.environ.get(CLAIM)
    if _finder is not None:
        return
    _offer_tf1()
    if os.environ.get("PSD_TF_NATIVE", "0") != "0":
        return
    if token and token != _me():
        _explain()
        return
    is_ps = os.environ.get("PSD_ROLE") == "ps"
    if is_ps:
        from poseidon.tensorflow import role
        role.announce()
    for name, adapter in FRAMEWORKS.items():
        if name == "tensorflow" or not is_ps:
            after_import(name, _joiner(adapter))
    _explain_missing()
    os.register_at_fork(after_in_child=_forked)


def _offer_tf1():
    """A script for TensorFlow 1 is known by its source. Where that speaks of
    TensorFlow, it is read now: one of Python 2 cannot even be compiled, it
    is begun again by the module that translates it, in this same process.
    Else it is read when one of its modules imports tensorflow."""
    after_import("tensorflow", _decide_late)
    if not os.environ.get("PSD_TF") and not _speaks_of_it(sys.argv[:1]):
        return
    from poseidon.tf1 import detect
    path = detect.script()
    if not detect.wanted(path):
        _waiting.pop("tensorflow", None)
        return
    from poseidon import tf1
    tf1.install()
    if path is None or sys.argv[0] == "-m":
        return
    from poseidon.tf1 import python2
    if python2.is_python2(path):
        os.execv(sys.executable, [*_interpreter(), "-m", "poseidon.tf1",
                                  *sys.argv])
    python2.install(os.path.dirname(os.path.abspath(path)))


def _speaks_of_it(words):
    """Without importing anything. What is no file may be a module."""
    if not words or words[0] in ("", "-", "-c"):
        return False
    try:
        with open(words[0], "rb") as file:
            text = file.read(1 << 20)
    except OSError:
        return words[0] == "-m" or os.path.isdir(words[0])
    return b"tensorflow" in text or b"learn_runner" in text


def _decide_late(module):
    from poseidon.tf1 import detect, overlay
    if overlay.real is None and detect.wanted(detect.script()):
        from poseidon.tf1 import finder
        finder.install()
        overlay.apply(module)


def _interpreter():
    """This Python and the options it was started with."""
    words = getattr(sys, "orig_argv", None)  # from 3.10 on
    if words:
        return [sys.executable, *words[1:len(words) - len(sys.argv)]]
    import subprocess
    return [sys.executable, *subprocess._args_from_interpreter_flags()]


def after_import(name, function):
    """Call function(module) when module `name` was imported: now, if it is
    there already, else right after the import that the script makes."""
    global _finder
    module = sys.modules.get(name)
    if module is not None:
        function(module)
        return
    _waiting.setdefault(name, []).append(function)
    if _finder is None:
        _finder = _Finder()
        sys.meta_path.insert(0, _finder)


def on_fork(function):
    """Call function() in a forked child, where nothing is watched any more:
    what was patched has to be switched off there, without a word."""
    _at_fork.append(function)


def is_worker():
    """Is this the process that has claimed the worker?"""
    return _claimed == os.getpid() and not _is_spawned()


def launcher():
    """The name of another launcher that started this process as one of
    several; None: there is none. RANK alone proves nothing: a batch system
    may have set it for all."""
    environ = os.environ
    if environ.get("WORLD_SIZE", "1") == "1" or "RANK" not in environ:
        return None
    if "TORCHELASTIC_RUN_ID" in environ:
        return "torchrun"
    if any(name.startswith("ACCELERATE_") for name in environ):
        return "accelerate"
    return None


def _explain():
    """Such a launcher has imported torch before the script could: what it
    starts says why it does not join, once."""
    name = launcher()
    if name and SAID not in os.environ:
        os.environ[SAID] = "1"
        if os.environ["RANK"] == "0":
            from poseidon import _job
            _job.say("the script was started by %s: it distributes itself, "
                     "Poseidon stands aside" % name)


def _explain_missing():
    """A framework that this Python does not have is told in one sentence,
    before the traceback, as a host may have several Pythons."""
    show = sys.excepthook

    def tell(kind, error, trace):
        name = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and name in FRAMEWORKS:
            from poseidon import _job
            _job.warn_once(name, "%s on %s has no %s: install it there, or "
                           "start the script with the Python that has it"
                           % (sys.executable, _job.job().host, name))
        show(kind, error, trace)

    sys.excepthook = tell


def _joiner(adapter):
    def join(module):
        if claim():
            __import__(adapter)
            sys.modules[adapter].apply(module)
    return join


def claim():
    """Make this process the worker; False: it cannot be."""
    global _claimed
    token, me = os.environ.get(CLAIM), _me()
    if (token and token != me) or _is_spawned():
        return False
    os.environ[CLAIM] = me
    _claimed = os.getpid()
    return True


def _me():
    """Pid and start time: they outlive an exec and are never used twice."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return "%d:%s" % (os.getpid(), fields[19].decode())


def _is_spawned():
    """Was this process made by multiprocessing? While a spawned one is still
    being prepared, it imports the script but has no parent yet."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and (
        process.parent_process() is not None
        or getattr(process.current_process(), "_inheriting", False))


def _forked():
    global _claimed
    _claimed = None
    _waiting.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for function in _at_fork:
        function()


class _Finder:
    """Lets the others find; the loader of a module that somebody waits for
    then tells us when it has run."""

    def __init__(self):
        self.searching = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting or name in self.searching:
            return None
        self.searching.add(name)  # another finder may ask all of us again
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec = find(name, path, target)
                if spec is not None:
                    _watch(spec)
                    return spec
        finally:
            self.searching.discard(name)
        return None


def _watch(spec):
    """The loader stays the one that was found, only its exec_module is
    another until it has run: who looks at the module sees nothing of us."""
    loader, name = spec.loader, spec.name
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module):
        if module.__name__ != name:  # the loader is shared
            return execute(module)
        loader.__dict__.pop("exec_module", None)
        execute(module)
        for function in _waiting.pop(name, ()):
            function(module)

    loader.exec_module = exec_module
