"""Archives are unpacked once per host: TarFile.extractall and
ZipFile.extractall, into a folder beside, and from there to where they belong.
A script that looks first whether the folder is there never finds half of
it."""
import os

from poseidon import _boot
from poseidon.shared import download, host
from poseidon.shared.patches import Patches

_patches = Patches()


def install():
    """Called once by an adapter, when host.start() has said yes."""
    _boot.after_import("tarfile", _install_tar)
    _boot.after_import("zipfile", _install_zip)


def uninstall():
    _patches.restore()


def _install_tar(module):
    if host.is_active():
        _patches.wrap(module.TarFile, "extractall", _extractor("name"))


def _install_zip(module):
    if host.is_active():
        _patches.wrap(module.ZipFile, "extractall", _extractor("filename"))


def _extractor(attribute):
    """extractall(path=".", members=None, ...) of an archive that is a file;
    with chosen members it is left alone."""

    def make(original):
        def extractall(self, path=None, *args, **kwargs):
            folder = os.curdir if path is None or path == "" else path
            source = getattr(self, attribute, None)
            whole = not args and kwargs.get("members") is None
            if (not host.is_active() or host.is_inside() or not whole
                    or not isinstance(source, str)
                    or not os.path.isfile(source)):
                return original(self, folder, *args, **kwargs)

            def run():
                os.makedirs(folder, exist_ok=True)
                with host.scratch(folder) as beside:
                    original(self, beside, **kwargs)
                    download.settle(beside, os.fspath(folder))
                return None, None

            return download.once(os.path.realpath(folder), "extract %s"
                                 % os.path.realpath(source), run,
                                 lambda note: None, False)

        return extractall

    return make
