"""Downloads happen once per host: urlretrieve and archives as everywhere
(poseidon/shared), and keras.utils.get_file, with which Keras' data sets come.
While one worker of a host is in get_file for a file, the others wait; then
they find it."""
import os

from poseidon import _boot
from poseidon.shared import archive, download, everywhere, host

MODULES = ("keras.src.utils.data_utils", "keras.src.utils.file_utils",
           "tf_keras.src.utils.data_utils",
           "tensorflow.python.keras.utils.data_utils")

_patches = everywhere.Patches()


def install(tf):
    if not host.start():
        return
    download.install_urllib()
    archive.install()
    for name in MODULES:
        _boot.after_import(name, _install_get_file)


def uninstall():
    _patches.restore()
    archive.uninstall()
    download.uninstall()


def _install_get_file(module):
    """Keras has taken urlretrieve by name, maybe before it was replaced."""
    if not host.is_active():
        return
    import urllib.request
    functions = [(module, "get_file", _locked)]
    taken = getattr(module, "urlretrieve", None)
    if taken is not None and taken is getattr(
            urllib.request.urlretrieve, "__wrapped__", None):
        _patches.put(module, "urlretrieve", urllib.request.urlretrieve)
    _patches.replace(functions)


def _locked(original):
    def get_file(fname=None, origin=None, *args, **kwargs):
        if not host.is_active() or host.is_inside():
            return original(fname, origin, *args, **kwargs)
        name = os.fspath(fname) if fname else str(origin)
        with host.locked(host.file_name("get_file", name), "another worker of "
                         "this host fetches %s; waiting for it" % name):
            return original(fname, origin, *args, **kwargs)

    return get_file
