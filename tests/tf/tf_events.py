"""What the plug-in wrote down: when pushes and waits were."""
import ctypes

PUSHED, WAITS, WAITED = 1, 2, 3   # enum psd_tf_what


class Event(ctypes.Structure):
    """struct psd_tf_event"""
    _fields_ = [('ns', ctypes.c_uint64), ('name', ctypes.c_char_p),
                ('what', ctypes.c_uint32), ('step', ctypes.c_uint32)]


def events(plug, last=4096):
    """[(what, name, ns)], oldest first."""
    found = (Event * last)()
    count = plug.psd_tf_events(found, last)
    return [(event.what, event.name.decode(), event.ns)
            for event in found[:count]]
