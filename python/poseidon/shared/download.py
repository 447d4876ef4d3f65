"""A download happens once per host: one worker fetches, under a lock named
after the target, the others wait and then find the file.

Each worker counts its calls. Its n-th call for a target and an address is
done when any worker of this host has done that one and the file is still the
same; otherwise the original is called, so that an error is everybody's own.
Files appear in one piece: a script that looks first whether the file is there
never finds half of it.
"""
import email.parser
import os
import threading

from poseidon import _boot
from poseidon.shared import host
from poseidon.shared.patches import Patches

_patches = Patches()
_lock = threading.Lock()
_calls = {}  # (target, what): how often this worker has called


def install(torch):
    """Called once, right after `import torch`."""
    if not host.start():
        return
    install_urllib()
    _patches.wrap(torch.hub, "download_url_to_file", _to_file)
    _patches.wrap(torch.hub, "_get_cache_or_reload", _repository(torch.hub))
    _boot.after_import("torchvision.datasets.utils", _install_vision)


def install_urllib():
    """What every framework's scripts fetch with."""
    _boot.after_import("urllib.request", _install_urllib)


def uninstall():
    _patches.restore()


def _install_urllib(module):
    if host.is_active():
        _patches.wrap(module, "urlretrieve", _urlretrieve)


def _install_vision(module):
    """The data sets' modules take these by name, after this."""
    if not host.is_active():
        return
    for name in ("download_url", "download_file_from_google_drive"):
        _patches.wrap(module, name, _fetcher(module))
    _patches.wrap(module, "extract_archive", _extractor)
    _patches.wrap(module, "download_and_extract_archive", _archive)


def _identity(path):
    """Which file is it? Another one, or one written anew, has another."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return [about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns]


def once(target, what, fetch, again, is_file=True):
    """fetch() -> (result, note), or again(note) when the n-th call of this
    kind was done on this host. The outermost of nested calls decides."""
    if host.is_inside():
        return fetch()[0]
    with _lock:
        number = _calls[target, what] = _calls.get((target, what), 0) + 1
    with host.locked(host.file_name("fetch", target),
                     "another worker of this host fetches %s; waiting for "
                      "it" % target) as record:
        done = record.load()
        entry = done.get(what, {"number": 0})
        if entry["number"] >= number and _is_there(target, entry, is_file):
            return again(entry["note"])
        with host.inside():
            result, note = fetch()
        done[what] = {"number": max(number, entry["number"]), "note": note,
                      "identity": _identity(target) if is_file else None}
        record.store(done)
        return result


def _is_there(target, entry, is_file):
    if not is_file:
        return os.path.exists(target)
    found = _identity(target)
    return found == entry["identity"] or (found is None and
                                          entry.get("consumed", False))


def _consume(target, path):
    """An archive was unpacked: it goes, and no worker needs it again. Both at
    once, or a worker that comes in between would fetch it anew."""
    with host.locked(host.file_name("fetch", target)) as record:
        done = record.load()
        for entry in done.values():
            entry["consumed"] = True
        record.store(done)
        os.remove(path)


def _is_special(target):
    return os.path.exists(target) and not os.path.isfile(target)


def _urlretrieve(original):
    def urlretrieve(url, filename=None, reporthook=None, data=None):
        target = host.plain_path(filename) if host.is_active() else None
        if target is None or data is not None or _is_special(target):
            return original(url, filename, reporthook, data)

        def fetch():
            with host.in_one_piece(target) as part:
                headers = original(url, part, reporthook)[1]
            return (filename, headers), str(headers)

        def again(note):
            from http.client import HTTPMessage  # urllib has imported it
            parser = email.parser.Parser(_class=HTTPMessage)
            return filename, parser.parsestr(note)

        return once(target, "urlretrieve %s" % getattr(url, "full_url", url),
                     fetch, again)

    return urlretrieve


def _to_file(original):
    """torch.hub's own: it makes the file appear in one piece by itself."""

    def download_url_to_file(url, dst, *args, **kwargs):
        target = None
        if host.is_active():
            target = host.plain_path(os.path.expanduser(dst))
        if target is None or _is_special(target):
            return original(url, dst, *args, **kwargs)
        return once(target, "hub %s" % url,
                     lambda: (original(url, dst, *args, **kwargs), None),
                     lambda note: None)

    return download_url_to_file


def _repository(hub):
    """torch.hub.load, list and help get their code through this one."""

    def make(original):
        def get_cache_or_reload(github, force_reload, *args, **kwargs):
            if not host.is_active():
                return original(github, force_reload, *args, **kwargs)
            folder = hub.get_dir()  # its archives are called main.zip there
            os.makedirs(folder, exist_ok=True)
            return once(
                os.path.realpath(folder), "repository %s" % github,
                lambda: (original(github, force_reload, *args, **kwargs),
                         None),
                lambda note: original(github, False, *args, **kwargs), False)
        return get_cache_or_reload

    return make


def _fetcher(module):
    """download_url(url, root, filename, md5, ...) and the one like it. With a
    good file there, the original only says so."""

    def make(original):
        def fetch(url, root, filename=None, md5=None, *args, **kwargs):
            folder = os.path.expanduser(root)
            name = filename or os.path.basename(url)
            target = None
            if host.is_active():
                target = host.plain_path(os.path.join(folder, name))
            if target is None or _is_special(target):
                return original(url, root, filename, md5, *args, **kwargs)

            def run():
                if module.check_integrity(target, md5):
                    return original(url, root, filename, md5, *args,
                                    **kwargs), None
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with host.in_one_piece(target) as part:
                    result = original(url, os.path.dirname(part),
                                      os.path.basename(part), md5, *args,
                                      **kwargs)
                return result, None

            return once(target, "vision %s" % url, run, lambda note: None)
        return fetch

    return make


def _extractor(original):
    """extract_archive(from_path, to_path, remove_finished): into a folder
    beside, and from there, piece by piece, to where it belongs."""

    def extract_archive(from_path, to_path=None, remove_finished=False):
        source = host.plain_path(from_path) if host.is_active() else None
        if source is None:
            return original(from_path, to_path, remove_finished)
        folder = (os.path.dirname(os.fspath(from_path)) if to_path is None
                  else os.fspath(to_path))
        kind = type(from_path)

        def run():
            found = _unpack(original, source, folder or os.curdir)
            if remove_finished:
                _consume(source, from_path)
            return kind(os.path.join(folder, found) if found else folder), \
                found

        return once(os.path.realpath(folder or os.curdir),
                     "extract %s" % source, run,
                     lambda found: kind(os.path.join(folder, found)
                                        if found else folder), False)

    return extract_archive


def _unpack(original, source, folder):
    """The name of the single file that came out, or "" for a folder's."""
    os.makedirs(folder, exist_ok=True)
    with host.scratch(folder) as beside:
        result = os.fspath(original(source, beside, False) or beside)
        settle(beside, folder)
    return os.path.relpath(result, beside) if result != beside else ""


def settle(beside, folder):
    """Move what is in `beside` to `folder`; a folder that is there already
    takes what is new, and a file that is there is replaced."""
    for name in os.listdir(beside):
        source, target = (os.path.join(beside, name),
                          os.path.join(folder, name))
        if (os.path.isdir(source) and not os.path.islink(source)
                and os.path.isdir(target)):
            settle(source, target)
        else:
            host.replace(source, target)


def _archive(original):
    """download_and_extract_archive(url, download_root, extract_root, filename,
    md5, remove_finished): both parts are one."""

    def both(url, download_root, extract_root=None, filename=None, md5=None,
             remove_finished=False):
        def run():
            return original(url, download_root, extract_root, filename, md5,
                            remove_finished), None

        if not host.is_active():
            return run()[0]
        folder = os.path.expanduser(extract_root or download_root)
        os.makedirs(folder, exist_ok=True)
        return once(os.path.realpath(folder), "archive %s %s"
                     % (url, filename), run, lambda note: None, False)

    return both
