"""Functions whose arguments have changed places between 0.x and 1.x.

Each takes both orders: the types of the arguments tell which one it is, and
where they do not, the names.
"""


def table(tf):
    return {"": _top(tf), "nn": dict(_losses(tf), **_sampled(tf))}


def _top(tf):
    def concat(values=None, axis=None, name="concat", concat_dim=None):
        """0.x: concat(concat_dim, values)."""
        axis = concat_dim if axis is None else axis
        if _is_axis(values) and not _is_axis(axis):
            values, axis = axis, values
        return tf.concat(values, 0 if axis is None else axis, name)

    def split(value=None, num_or_size_splits=None, axis=None, num=None,
              name="split", split_dim=None, num_split=None):
        """0.x: split(split_dim, num_split, value)."""
        if _is_axis(value) and axis is not None and not _is_axis(axis):
            value, axis = axis, value
        axis = split_dim if axis is None else axis
        if num_or_size_splits is None:
            num_or_size_splits = num_split
        return tf.split(value, num_or_size_splits,
                        0 if axis is None else axis, num, name)

    def reverse(tensor, axis=None, name=None, dims=None):
        """0.x: one truth value a dimension."""
        axis = dims if axis is None else axis
        if _is_list(axis) and len(axis) and all(
                isinstance(one, bool) for one in axis):
            axis = [at for at, one in enumerate(axis) if one]
        return tf.reverse(tensor, axis, name)

    return {"concat": concat, "split": split, "reverse": reverse}


def _losses(tf):
    """0.x: (logits, labels) by place; 1.x allows names only."""
    def loss(name, other=None):
        function = getattr(tf.nn, name)

        def cross_entropy(*args, **words):
            if other and other in words:
                words["labels"] = words.pop(other)
            if args and args[0] is None:  # the _sentinel of 1.x
                args = args[1:]
                places = ("labels", "logits", "dim", "name")
            else:
                places = ("logits", "labels", "name")
            for place, value in zip(places, args):
                if value is not None:
                    words.setdefault(place, value)
            return function(**words)
        cross_entropy.__name__ = name
        cross_entropy.__doc__ = function.__doc__
        return cross_entropy

    return {
        "softmax_cross_entropy_with_logits":
            loss("softmax_cross_entropy_with_logits"),
        "sparse_softmax_cross_entropy_with_logits":
            loss("sparse_softmax_cross_entropy_with_logits"),
        "sigmoid_cross_entropy_with_logits":
            loss("sigmoid_cross_entropy_with_logits", "targets"),
    }


def _sampled(tf):
    """0.x: (weights, biases, inputs, labels, ...)."""
    def loss(name):
        function = getattr(tf.nn, name)

        def sampled(weights, biases, *args, **words):
            if len(args) > 1 and _is_whole(args[1]):
                args = (args[1], args[0]) + args[2:]
            return function(weights, biases, *args, **words)
        sampled.__name__ = name
        sampled.__doc__ = function.__doc__
        return sampled

    return {"nce_loss": loss("nce_loss"),
            "sampled_softmax_loss": loss("sampled_softmax_loss")}


def _is_list(value):
    return isinstance(value, (list, tuple))


def _is_axis(value):
    """A number, or a tensor that holds one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    if _is_list(value) or value is None:
        return False
    shape = getattr(value, "shape", None)
    return _is_whole(value) and (shape == () or
                                 getattr(shape, "ndims", None) == 0)


def _is_whole(value):
    """An array or a tensor of integers."""
    dtype = getattr(value, "dtype", None)
    return bool(getattr(dtype, "is_integer", getattr(dtype, "kind", "")
                        in ("i", "u")))
