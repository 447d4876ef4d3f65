"""What to use instead of a name that is not there."""
import difflib

ESTIMATOR = ("TensorFlow has dropped it with 2.16: use TensorFlow 2.15 "
             "(pip install tensorflow-cpu==2.15.1 tensorflow-estimator"
             "==2.15.0)")
KERAS2 = ("not with Keras 3: use TensorFlow 2.15, or tf_keras with "
          "TF_USE_LEGACY_KERAS=1")

HINTS = {
    "tf.estimator": ESTIMATOR,
    "tf.nn.seq2seq": "write the decoder with tf.nn.dynamic_rnn or "
                     "tf.while_loop",
    "tf.contrib.legacy_seq2seq": "write the decoder with tf.nn.dynamic_rnn "
                                 "or tf.while_loop",
    "tf.nn.sampled_softmax": "tf.nn.sampled_softmax_loss",
    "tf.contrib.seq2seq": "tensorflow_addons.seq2seq",
    "tf.contrib.crf": "tensorflow_addons.text.crf",
    "tf.contrib.tpu": "nothing: TPUs are not supported here",
    "tf.contrib.distribute": "tf.distribute",
    "tf.contrib.eager": "eager execution is off in a TensorFlow 1 script: "
                        "PSD_TF=2 switches it on",
    "tf.contrib.lite": "tf.lite",
    "tf.contrib.image": "tf.image, tf.raw_ops.ImageProjectiveTransformV3",
    "tf.contrib.keras": "tf.keras",
    "tf.contrib.opt": "tf.train.*Optimizer",
    "tf.contrib.tensorboard": "tensorboard.plugins",
    "tf.contrib.tensor_forest": "tensorflow_decision_forests",
    "tf.contrib.quantize": "tensorflow_model_optimization",
    "tf.contrib.cudnn_rnn": "tf.keras.layers.LSTM, GRU",
    "tf.contrib.gan": "tensorflow_gan",
    "tf.contrib.factorization": "scikit-learn",
    "tf.contrib.graph_editor": "tf.graph_util, tf.import_graph_def",
    "tf.contrib.distributions": "tensorflow_probability",
    "tf.contrib.bayesflow": "tensorflow_probability",
    "tf.contrib.ffmpeg": "tensorflow_io",
    "tf.contrib.skflow": "tf.contrib.learn",
    "tf.contrib.slim.nets": "slim/nets of the TensorFlow models repository, "
                            "beside the script",
    "tf.contrib.layers.legacy_fully_connected":
        "tf.contrib.layers.fully_connected",
    "tf.contrib.learn.DynamicRnnEstimator": "tf.nn.dynamic_rnn in a "
                                            "tf.contrib.learn.Estimator",
    "tf.contrib.learn.TensorFlowEstimator": "tf.contrib.learn.Estimator",
    "tf.models": "the file beside the script",
}


def short(module):
    """The name under which a script knows a module."""
    head, _, rest = module.partition(".")
    head = "tf" if head == "tensorflow" else head
    return head + ("." + rest if rest else "")


def hint(name):
    """The hint for tf.a.b.c: its own or that of the nearest parent."""
    while "." in name:
        if name in HINTS:
            return HINTS[name]
        name = name.rpartition(".")[0]
    return None


def sentence(module, name, known=()):
    """Why tf.MODULE.NAME is not there and what to do."""
    full = "%s.%s" % (short(module), name)
    use = hint(full)
    if use:
        return "%s is not there; use instead: %s" % (full, use)
    near = difflib.get_close_matches(name, list(known), 3, 0.75)
    if near:
        return "%s is not there; near it: %s" % (
            full, ", ".join("%s.%s" % (short(module), one) for one in near))
    return ("%s is not there: neither this TensorFlow's compat.v1 nor "
            "poseidon.tf1 has it (docs/tensorflow1.md lists what is "
            "emulated)" % full)
