"""tf.ConfigProto with the fields of Poseidon's own TensorFlow.

The script sets them on a proxy; the session gets the message behind it. They
stay where an adapter can read them: fields(config) of one configuration,
current() of the session that was opened last.
"""

FIELDS = {
    "master_address": "", "client_id": -1, "distributed": False,
    "num_push_threads": 4, "num_pull_threads": 8, "block_size": 0,
    "use_sfb": False, "peer_addresses": None, "batch_size": 0,
}
_INSIDE = ("_message", "_fields")

_current = {}
_listeners = []


def fields(config):
    """The Poseidon fields that the script has set on `config`, by name."""
    return dict(config._fields) if isinstance(config, Proxy) else {}


def current():
    """The same of the session that was opened last."""
    return dict(_current)


def on_session(function):
    """Call function(fields) before each session opens."""
    _listeners.append(function)


def unwrap(config):
    """The message that TensorFlow understands."""
    return config._message if isinstance(config, Proxy) else config


class Proxy:
    """Looks like the message; made by ConfigProto()."""

    def __init__(self, message, values):
        object.__setattr__(self, "_message", message)
        object.__setattr__(self, "_fields", values)

    def __getattr__(self, name):
        if name in FIELDS:
            if name == "peer_addresses":
                return self._fields.setdefault(name, [])
            return self._fields.get(name, FIELDS[name])
        if name in _INSIDE:
            raise AttributeError(name)
        return getattr(self._message, name)

    def __setattr__(self, name, value):
        if name == "peer_addresses":
            raise AttributeError("peer_addresses is a list: use "
                                 "config.peer_addresses.append(address)")
        if name in FIELDS:
            self._fields[name] = _checked(name, value)
        else:
            setattr(self._message, name, value)

    def HasField(self, name):
        if name in FIELDS:
            return name in self._fields
        return self._message.HasField(name)

    def ClearField(self, name):
        if name in FIELDS:
            self._fields.pop(name, None)
        else:
            self._message.ClearField(name)

    def CopyFrom(self, other):
        self._message.CopyFrom(unwrap(other))
        object.__setattr__(self, "_fields", fields(other))

    def MergeFrom(self, other):
        self._message.MergeFrom(unwrap(other))
        self._fields.update(fields(other))

    def __eq__(self, other):
        return (self._message == unwrap(other)
                and self._fields == fields(other))

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return repr(self._message) + "".join(
            "%s: %r\n" % item for item in sorted(self._fields.items()))

    __str__ = __repr__

    def __deepcopy__(self, memo):
        copy = type(self._message)()
        copy.CopyFrom(self._message)
        return Proxy(copy, dict(self._fields))

    def __reduce__(self):
        return _rebuilt, (self._message.SerializeToString(), self._fields)


def _rebuilt(data, values):
    from tensorflow.core.protobuf import config_pb2
    return Proxy(config_pb2.ConfigProto.FromString(data), values)


def _checked(name, value):
    """As a message checks its fields: by type."""
    default = FIELDS[name]
    kind = type(default)
    if kind is bool and isinstance(value, (bool, int)):
        return bool(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is str and isinstance(value, (str, bytes)):
        return value.decode() if isinstance(value, bytes) else value
    raise TypeError("ConfigProto.%s is %r, it must be of type %s"
                    % (name, value, kind.__name__))


def factory(message_class):
    """The class tf.ConfigProto: makes proxies, and knows both kinds."""
    class Meta(type):
        def __call__(cls, *args, **words):
            values = {}
            for name in list(words):
                if name == "peer_addresses":
                    values[name] = list(words.pop(name))
                elif name in FIELDS:
                    values[name] = _checked(name, words.pop(name))
            return Proxy(message_class(*args, **words), values)

        def __instancecheck__(cls, value):
            return isinstance(value, (Proxy, message_class))

        def __getattr__(cls, name):
            return getattr(message_class, name)

    return Meta("ConfigProto", (), {"__doc__": message_class.__doc__})


def opened(config):
    """A session opens with `config`: remember and tell its fields."""
    values = fields(config)
    if not values:
        return
    _current.clear()
    _current.update(values)
    later = [name for name in ("use_sfb", "peer_addresses")
             if values.get(name)]
    if later:
        from poseidon import _job
        _job.warn_once("config", "ConfigProto.%s: accepted, no effect yet"
                       % " and ".join(later))
    for function in _listeners:
        function(dict(values))


def patch():
    """Sessions and servers take the proxy."""
    from tensorflow.python.client import session
    from tensorflow.python.training import server_lib

    def wrapped(real, tell):
        def __init__(self, *args, **words):
            for value in (*args, *words.values()):
                if tell and isinstance(value, Proxy):
                    opened(value)
            real(self, *map(unwrap, args),
                 **{name: unwrap(value) for name, value in words.items()})
        __init__._psd = True
        __init__.__wrapped__ = real
        return __init__

    for owner, tell in ((session.BaseSession, True),
                        (server_lib.Server, False)):
        if not getattr(owner.__init__, "_psd", False):
            owner.__init__ = wrapped(owner.__init__, tell)


def patch_estimator():
    """RunConfig of tf.estimator checks the type of its configuration, and
    its estimators that of theirs."""
    try:
        from tensorflow_estimator.python.estimator import (
            estimator, run_config)
    except ImportError:
        return
    owner = run_config.RunConfig
    if getattr(owner.__init__, "_psd", False):
        return

    def wrapped(real):
        def method(self, *args, **words):
            return real(self, *map(unwrap, args),
                        **{name: unwrap(value)
                           for name, value in words.items()})
        method._psd = True
        return method

    owner.__init__ = wrapped(owner.__init__)
    owner.replace = wrapped(owner.replace)
    name = "maybe_overwrite_model_dir_and_session_config"
    real = getattr(estimator, name, None)
    if real is not None:
        setattr(estimator, name, lambda config, model_dir: real(
            config.for_estimator(owner) if hasattr(config, "for_estimator")
            else config, model_dir))
