"""TensorFlow 1 style scripts on a stock TensorFlow 2.

    python -m poseidon.tf1 script.py [arguments]

`import tensorflow as tf` then gives the module of TensorFlow 0.10 ... 1.x:
compat.v1 with the behaviour of version 2 off, and over it the names that
TensorFlow has dropped since. The parts:

    detect.py    is a script of that kind?
    overlay.py   the module `tensorflow` that the script sees
    names.py     names of 0.x; order.py: orders of arguments of 0.x
    flags.py     tf.app, tf.flags, and argparse while modules are imported
    config.py    tf.ConfigProto with Poseidon's fields
    finder.py    modules that are gone: contrib, examples, models
    missing.py   what to use instead of a name that is not there
    python2.py   sources that are written for Python 2
    contrib/     the pieces of tf.contrib; models/: of tensorflow.models

Nothing of it imports TensorFlow before the script does.
"""


def install():
    """Let `import tensorflow` give the module of TensorFlow 1, from now on
    and in this process."""
    from poseidon import _boot
    from poseidon.tf1 import finder, overlay
    finder.install()
    _boot.after_import("tensorflow", overlay.apply)
