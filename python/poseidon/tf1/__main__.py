"""python -m poseidon.tf1 script.py [arguments]: run a TensorFlow 1 style
script under a stock TensorFlow 2, on this machine alone or as a worker.
"""
import os
import sys
import types

from poseidon import tf1
from poseidon.tf1 import detect, python2

USAGE = """usage: python -m poseidon.tf1 SCRIPT [ARGUMENT...]

Runs a script that was written for TensorFlow 0.10 ... 1.x under TensorFlow
2.15 or newer. PSD_TF=2 in the environment runs it without a change.
"""


def main(argv):
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if argv else 2
    path = detect.script(argv)
    if path is None:
        sys.stderr.write("poseidon: %s: no such script\n" % argv[0])
        return 2
    sys.argv[:] = argv
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    if os.environ.get("PSD_TF") != "2":
        tf1.install()
        python2.install(sys.path[0])
    run(path)
    return 0


def run(path):
    """As Python runs a script: in a module of the name __main__."""
    with open(path, "rb") as file:
        data = file.read()
    code = None
    if os.environ.get("PSD_TF") != "2":
        code = python2.compiled(data, path)
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    try:
        exec(code or compile(data, path, "exec", dont_inherit=True),
             module.__dict__)
    except ModuleNotFoundError as error:
        if error.name == "tensorflow":
            sys.stderr.write(
                "poseidon: %s has no TensorFlow: pip install "
                "tensorflow-cpu==2.15.1 tensorflow-estimator==2.15.0 "
                "\"numpy<2\" (Python 3.11 or older), or tensorflow-cpu\n"
                % sys.executable)
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
