"""The TensorFlow ops by hand, for the worker scripts of ops_test.py: opens
the session, loads the plug-in, registers keys."""
import ctypes
import os
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import tensorflow as tf  # noqa: E402

import tf_events  # noqa: E402

LIBRARY = os.environ['PSD_LIBRARY']
PLUGIN = os.environ['PSD_TEST_PLUGIN']
DENSE, SPARSE, VALUE = range(3)
MEAN, SUM = 1, 2

lib = ctypes.CDLL(LIBRARY)
ops = tf.load_op_library(PLUGIN)
plug = ctypes.CDLL(PLUGIN)
for _name in ('psd_tf_ready', 'psd_tf_error'):
    getattr(plug, _name).restype = ctypes.c_char_p
plug.psd_tf_steps.restype = ctypes.c_uint64
plug.psd_tf_step.argtypes = [ctypes.c_double, ctypes.c_int]
plug.psd_tf_spoil.argtypes = [ctypes.c_char_p, ctypes.c_uint64]


class Spec(ctypes.Structure):
    _fields_ = [('key', ctypes.c_char_p), ('dtype', ctypes.c_int32),
                ('kind', ctypes.c_int32), ('count', ctypes.c_uint64),
                ('rows', ctypes.c_uint64), ('priority', ctypes.c_int32),
                ('reserved', ctypes.c_int32)]


def good(status):
    if status != 0:
        raise RuntimeError('%d: %s' % (status, plug.psd_tf_error().decode()))


if plug.psd_tf_ready() is not None:
    sys.exit(plug.psd_tf_ready().decode())
session = ctypes.c_void_p()
if lib.psd_open(ctypes.byref(session)) != 0:
    sys.exit('psd_open failed')
good(plug.psd_tf_attach(session, ctypes.cast(lib.psd_open, ctypes.c_void_p)))
rank, size = lib.psd_rank(session), lib.psd_size(session)


def register(group, *keys):
    """keys: (name, dtype, count[, kind[, rows]])"""
    specs = (Spec * len(keys))()
    for spec, (name, dtype, count, *rest) in zip(specs, keys):
        spec.key, spec.count = name.encode(), count
        spec.dtype = tf.as_dtype(dtype).as_datatype_enum
        spec.kind = rest[0] if rest else DENSE
        spec.rows = rest[1] if len(rest) > 1 else 0
    good(plug.psd_tf_register(group.encode(), specs, len(keys)))


def events(last=4096):
    """[(what, name, ns)]"""
    return tf_events.events(plug, last)


def pushed(last):
    return [name for what, name, _ in events(last) if what == tf_events.PUSHED]


def step_weight():
    """What psd_tf_step says."""
    return tf.constant(-1.0, tf.float64)


def finish():
    lib.psd_close(session)
    plug.psd_tf_detach()
