"""Names of TensorFlow 0.x and early 1.x that compat.v1 does not have.

table(v1) gives them by place: "" is tf itself, "nn" tf.nn, and so on. Each is
made of what is there now; where an argument had another name or place, a
function of its own says so.
"""


def table(tf):
    return {
        "": dict(_same(tf), **_summaries(tf), **_batch(tf), **_other(tf)),
        "nn": _nn(tf),
        "train": _train(tf),
        "image": _image(tf),
    }


def _same(tf):
    """Only the name has changed."""
    pairs = {
        "mul": "multiply", "sub": "subtract", "neg": "negative",
        "pack": "stack", "unpack": "unstack", "inv": "reciprocal",
        "complex_abs": "abs", "listdiff": "setdiff1d",
        "initialize_variables": "variables_initializer",
        "initialize_local_variables": "local_variables_initializer",
    }
    found = {}
    for old, new in pairs.items():
        value = getattr(tf, new, None)
        if value is not None and not hasattr(tf, old):
            found[old] = value
    return found


def _summaries(tf):
    """Summaries of 0.x: the tag is taken as it is, without the scope's
    name, and may be a list of one tag a value."""
    key = tf.GraphKeys.SUMMARIES

    def kept(value, collections):
        for name in [key] if collections is None else collections:
            tf.add_to_collection(name, value)
        return value

    def scalar_summary(tags, values, collections=None, name=None):
        return kept(tf.raw_ops.ScalarSummary(
            tags=tags, values=values, name=name or "ScalarSummary"),
            collections)

    def histogram_summary(tag, values, collections=None, name=None):
        return kept(tf.raw_ops.HistogramSummary(
            tag=tag, values=values, name=name or "HistogramSummary"),
            collections)

    def image_summary(tag, tensor, max_images=3, collections=None,
                      name=None):
        return kept(tf.raw_ops.ImageSummary(
            tag=tag, tensor=tensor, max_images=max_images,
            bad_color=tf.make_tensor_proto([255, 0, 0, 255], tf.uint8),
            name=name or "ImageSummary"), collections)

    def audio_summary(tag, tensor, sample_rate, max_outputs=3,
                      collections=None, name=None):
        return kept(tf.raw_ops.AudioSummaryV2(
            tag=tag, tensor=tensor, sample_rate=float(sample_rate),
            max_outputs=max_outputs, name=name or "AudioSummary"),
            collections)

    def merge_summary(inputs, collections=None, name=None):
        return kept(tf.raw_ops.MergeSummary(
            inputs=inputs, name=name or "MergeSummary"), collections or [])

    def merge_all_summaries(key=key):
        found = tf.get_collection(key)
        return merge_summary(found) if found else None

    return {one.__name__: one for one in (
        scalar_summary, histogram_summary, image_summary, audio_summary,
        merge_summary, merge_all_summaries)}


def _batch(tf):
    """batch_X of 0.x: X takes batches today."""
    def batch_matmul(x, y, adj_x=False, adj_y=False, name=None):
        return tf.matmul(x, y, adjoint_a=adj_x, adjoint_b=adj_y, name=name)

    found = {"batch_matmul": batch_matmul}
    pairs = {
        "batch_cholesky": "cholesky", "batch_fft": "fft",
        "batch_fft2d": "fft2d", "batch_fft3d": "fft3d",
        "batch_ifft": "ifft", "batch_ifft2d": "ifft2d",
        "batch_ifft3d": "ifft3d", "batch_matrix_band_part":
        "matrix_band_part", "batch_matrix_determinant":
        "matrix_determinant", "batch_matrix_diag": "matrix_diag",
        "batch_matrix_diag_part": "matrix_diag_part",
        "batch_matrix_inverse": "matrix_inverse",
        "batch_matrix_set_diag": "matrix_set_diag",
        "batch_matrix_solve": "matrix_solve",
        "batch_matrix_solve_ls": "matrix_solve_ls",
        "batch_matrix_transpose": "matrix_transpose",
        "batch_matrix_triangular_solve": "matrix_triangular_solve",
        "batch_self_adjoint_eig": "self_adjoint_eig", "batch_svd": "svd",
        "batch_cholesky_solve": "cholesky_solve",
    }
    for old, new in pairs.items():
        if hasattr(tf, new):
            found[old] = getattr(tf, new)
    return found


def _other(tf):
    def select(condition, t=None, e=None, name=None, **words):
        t = words.pop("x", t)
        e = words.pop("y", e)
        return tf.where(condition, t, e, name=name)

    def op_scope(values, name, default_name=None):
        return tf.name_scope(name, default_name, values)

    def variable_op_scope(values, name_or_scope, default_name=None,
                          **words):
        return tf.variable_scope(name_or_scope, default_name, values,
                                 **words)

    return {"select": select, "op_scope": op_scope,
            "variable_op_scope": variable_op_scope}


def _nn(tf):
    def static(name):
        def rnn(cell, inputs, *args, **words):
            return getattr(tf.nn, name)(cell, inputs, *args, **words)
        return rnn

    return {"rnn": static("static_rnn"),
            "state_saving_rnn": static("static_state_saving_rnn"),
            "bidirectional_rnn": static("static_bidirectional_rnn")}


def _train(tf):
    def SummaryWriter(logdir, graph=None, max_queue=10, flush_secs=120,
                      graph_def=None):
        """Here and in 0.7 the second argument may be a GraphDef."""
        if isinstance(graph, tf.GraphDef):
            graph, graph_def = None, graph
        return tf.summary.FileWriter(logdir, graph, max_queue, flush_secs,
                                     graph_def)

    def SyncReplicasOptimizerV2(*args, **words):
        return tf.train.SyncReplicasOptimizer(*args, **words)

    return {"SummaryWriter": SummaryWriter,
            "SyncReplicasOptimizerV2": SyncReplicasOptimizerV2,
            "SummaryWriterCache": tf.summary.FileWriterCache}


def _image(tf):
    def resize_images(images, size=None, *args, **words):
        """0.x gave height and width in two arguments."""
        if "new_height" in words:
            size = (words.pop("new_height"), words.pop("new_width"))
        elif size is not None and _is_number(size):
            if args:
                size, args = (size, args[0]), args[1:]
            else:
                size = (size, words.pop("new_width"))
        return tf.image.resize_images(images, size, *args, **words)

    return {"per_image_whitening": tf.image.per_image_standardization,
            "resize_images": resize_images}


def _is_number(value):
    if isinstance(value, int):
        return True
    shape = getattr(value, "shape", None)
    return getattr(shape, "ndims", None) == 0 or shape == ()
