"""Sessions of a script that distributes itself run in its own process: the
target of a server is dropped, devices lose the job and task in their names,
and who would wait for the chief to initialise the variables does so itself;
the values of worker 0 come with the first step.
"""
import re

from poseidon.shared.patches import Patches
from poseidon.tensorflow import role

_PLACE = re.compile(r"/(job|replica|task):[^/]*")

_patches = Patches()


def install(tf):
    from tensorflow.python.client import session
    from tensorflow.python.framework import ops
    from tensorflow.python.training import session_manager, supervisor
    _patches.wrap(session.BaseSession, "__init__", _local_target)
    _patches.wrap(ops.Graph, "device", _local_device)
    _patches.wrap(session_manager.SessionManager, "wait_for_session",
                  _no_wait(tf, session))
    # A supervisor of a worker insists on variables that have a device.
    _patches.put(supervisor.Supervisor, "_verify_setup", lambda self: None)


def uninstall():
    _patches.restore()


def _local_target(real):
    def __init__(self, target="", graph=None, config=None):
        if role.is_ps():
            # Only a worker has something to run. A script that comes here
            # takes its role from TF_CONFIG, and an estimator trains for it.
            self._session = None   # its __del__ looks
            role.wait()
            raise SystemExit(0)
        real(self, "" if _is_remote(target) else target, graph, config)
    return __init__


def _is_remote(target):
    text = target.decode() if isinstance(target, bytes) else target
    return isinstance(text, str) and text.startswith("grpc://")


def strip(device):
    """`/job:ps/task:0/cpu:0` is `/cpu:0` here."""
    if device is None or isinstance(device, str):
        return device and _PLACE.sub("", device)
    if hasattr(device, "to_string"):
        return _PLACE.sub("", device.to_string())
    return device


def _local_device(real):
    def device(self, device_name_or_function):
        given = device_name_or_function
        # A class whose objects merge devices is TensorFlow's own business.
        if callable(given) and not hasattr(given, "shortcut_string_merge"):
            def inner(op):
                return strip(given(op))
            return real(self, inner)
        return real(self, strip(given))
    return device


def initialise(session, graph, tf):
    """What the chief would have done for this session, too."""
    keys = tf.compat.v1.GraphKeys
    variables = (graph.get_collection(keys.GLOBAL_VARIABLES)
                 + graph.get_collection(keys.LOCAL_VARIABLES))
    session.run([variable.initializer for variable in variables])


def _no_wait(tf, sessions):
    def wrap(_real):
        def wait_for_session(self, master, config=None, **_):
            session = sessions.Session(master, graph=self._graph,
                                       config=config)
            initialise(session, self._graph, tf)
            good, why = self._try_run_local_init_op(session)
            if good:
                good, why = self._model_ready(session)
            if not good:
                raise RuntimeError(
                    "poseidon: the variables of this worker are initialised "
                    "and its model is still not ready: %s" % why)
            return session
        return wait_for_session
    return wrap
