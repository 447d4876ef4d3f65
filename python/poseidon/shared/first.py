"""What every adapter does first in a worker."""
import faulthandler
import os
import sys

EXIT_CODE = 69       # EX_UNAVAILABLE


def check_version(name, version, oldest):
    """End the process where the framework is too old: (major, minor)."""
    words = version.replace("+", "-").split("-")[0].split(".")
    found = tuple(int("".join(c for c in word if c.isdigit()) or 0)
                  for word in words[:2])
    if found < oldest:
        sys.stderr.write("poseidon: %s %s is too old, %d.%d or newer is "
                         "needed\n" % ((name, version) + oldest))
        sys.stderr.flush()
        os._exit(EXIT_CODE)


def show_stacks():
    """The launcher asks for Python's stacks by a signal."""
    number = os.environ.get("PSD_STACK_SIGNAL", "")
    if number.isdigit() and sys.stderr is not None:
        try:
            faulthandler.register(int(number), all_threads=True)
        except (AttributeError, ValueError, RuntimeError, OSError):
            pass  # stderr is no file: nothing to write to
