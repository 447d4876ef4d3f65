"""tf.app and tf.flags as they were, on absl's flags; argparse while modules
are imported.

Until 1.4 the flags were parsed when the first one was read, whatever argparse
did not know was left over, and no flag of a library stood in the way. That is
kept: flags that are defined after the first was read are parsed with the
next; a script may define a flag that absl has (log_dir, v); `--flag False`
and an empty default for a number are taken.

A module that calls parse_args while it is imported cannot know the options
that the main script will add: there, what it does not know is left over, and
--help is left to the main script.
"""
import argparse
import sys

# The three flags of Poseidon's manual: in a job, their defaults are the
# job's. Outside of one the script's own stand.
JOB_FLAGS = ("distributed", "master_address", "client_id")

_WORDS = {"true", "false", "t", "f", "yes", "no", "y", "n", "1", "0"}


def job_default(name, default):
    from poseidon import _job
    job = _job.job()
    if not job.inside or name not in JOB_FLAGS:
        return default
    return {"distributed": True, "client_id": job.rank,
            "master_address": "unix://" + job.agent}[name]


class Flags:
    """tf.app.flags.FLAGS: reads parse the command line when they have to."""

    def __init__(self, absl_flags):
        self.__dict__["_absl"] = absl_flags
        self.__dict__["_values"] = absl_flags.FLAGS
        self.__dict__["_own"] = {}     # names that the script defined
        self.__dict__["_stale"] = True

    def _parse_flags(self, args=None):
        """What older scripts call by hand."""
        argv = sys.argv if args is None else [sys.argv[0], *args]
        self.__dict__["_stale"] = False
        return self._values(joined(argv, self._values), known_only=True)[1:]

    def __getattr__(self, name):
        if name == "__flags":
            self._refresh()
            return {one: getattr(self._values, one) for one in self._own}
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if hasattr(type(self._values), name):  # a method of absl's
            return getattr(self._values, name)
        self._refresh()
        try:
            return getattr(self._values, name)
        except AttributeError:
            raise AttributeError(
                "no flag is named %r: define it before it is read, with "
                "tf.app.flags.DEFINE_..." % name) from None

    def __setattr__(self, name, value):
        self._refresh()
        if name not in self._values:
            self.__dict__[name] = value
            return
        setattr(self._values, name, value)

    def __delattr__(self, name):
        delattr(self._values, name)
        self._own.pop(name, None)

    def __call__(self, argv, known_only=False):
        self.__dict__["_stale"] = False
        return self._values(argv, known_only=known_only)

    def __contains__(self, name):
        return name in self._values

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __getitem__(self, name):
        return self._values[name]

    def __dir__(self):
        return dir(self._values)

    def _refresh(self):
        if self._stale or not self._values.is_parsed():
            self._parse_flags()


def joined(argv, values):
    """`--flag False` as one word, where `flag` is a boolean one."""
    words, at = list(argv[:1]), 1
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return words + list(argv[at:])
        name = word.lstrip("-")
        if (word.startswith("-") and name in values
                and getattr(values[name], "boolean", False)
                and at + 1 < len(argv)
                and argv[at + 1].lower() in _WORDS):
            word, at = "%s=%s" % (word, argv[at + 1]), at + 1
        words.append(word)
        at += 1
    return words


def definers(v1):
    """The functions DEFINE_* for tf.flags, by name, and FLAGS."""
    from absl import flags as absl_flags
    own = Flags(absl_flags)

    def definer(kind, function):
        def define(name=None, default_value=None, docstring=None, *args,
                   **words):
            name = words.pop("flag_name", name)
            default = words.pop("default", default_value)
            text = words.pop("help", docstring)
            default = job_default(name, _default(kind, default))
            if name in absl_flags.FLAGS and (
                    _is_library(absl_flags.FLAGS, name)
                    or own._own.get(name) == (kind, default)):
                words["allow_override"] = True
            own.__dict__["_own"][name] = (kind, default)
            own.__dict__["_stale"] = True
            words.setdefault("flag_values", absl_flags.FLAGS)
            return function(name, default, text or "", *args, **words)
        define.__name__ = "DEFINE_" + kind
        define.__doc__ = function.__doc__
        return define

    table = {"FLAGS": own}
    for name in dir(absl_flags):
        if name.startswith("DEFINE_") and name not in (
                "DEFINE_alias", "DEFINE_flag", "DEFINE"):
            table[name] = definer(name[len("DEFINE_"):],
                                  getattr(absl_flags, name))
    return table


def _default(kind, value):
    """What argparse took as a default of a number."""
    if kind in ("integer", "float") and value == "":
        return None
    if kind == "integer" and isinstance(value, float) and value == int(value):
        return int(value)
    return value


def _is_library(values, name):
    """Was this flag defined by absl or TensorFlow, not by the script?"""
    module = values.find_module_defining_flag(name, "")
    return (module or "").split(".")[0] in ("absl", "tensorflow", "keras")


def runner(v1, flags):
    """tf.app.run."""
    def run(main=None, argv=None):
        words = sys.argv if argv is None else argv
        main = main or sys.modules["__main__"].main
        flags.__dict__["_stale"] = False
        v1.app.run(main=main, argv=joined(words, flags._values))
    return run


def ease_argparse():
    """See the text on top. Parsing by the main script stays strict."""
    strict = argparse.ArgumentParser.parse_args
    if getattr(strict, "_psd", False):
        return

    def parse_args(self, args=None, namespace=None):
        if args is None and _is_importing(sys._getframe(1)):
            words = [word for word in sys.argv[1:]
                     if word not in ("-h", "--help")]
            return self.parse_known_args(words, namespace)[0]
        return strict(self, args, namespace)

    parse_args._psd = True
    argparse.ArgumentParser.parse_args = parse_args


def _is_importing(frame):
    """Is the nearest module that is being run another than the script?"""
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return frame.f_globals.get("__name__") != "__main__"
        frame = frame.f_back
    return False
