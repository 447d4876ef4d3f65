"""The first thing a Python worker runs: lets Poseidon wait for the frameworks
that the script imports, then runs the site's own sitecustomize.

psd_run puts this folder on PYTHONPATH of every worker. Everything here must
be cheap and run with any Python: each interpreter below a worker loads it.
"""
import os
import sys


def _is_wanted():
    get = os.environ.get
    role = get("PSD_ROLE")  # a ps is no member of the job, but waits for it
    return (sys.version_info >= (3, 8)
            and (role == "ps" or role == "worker" and bool(get("PSD_AGENT")))
            and get("PSD_DISABLE", "") in ("", "0"))


def _chain(folder):
    """Run the sitecustomize that Python would have found without us. It takes
    our place in sys.modules; its errors are told by site, as always."""
    us = sys.modules.pop(__name__)
    at = sys.path.index(folder) if folder in sys.path else None
    if at is not None:
        del sys.path[at]
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", None) != __name__:
            raise
        sys.modules[__name__] = us
    finally:
        if at is not None:
            sys.path.insert(at, folder)


if _is_wanted():
    from poseidon import _boot
    _boot.start()
_chain(os.path.dirname(__file__))
