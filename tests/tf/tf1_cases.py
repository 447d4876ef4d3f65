"""Scripts for tf1_test.py, each in the style of its time."""

# The manual's script with its three flags: Python 2 and TensorFlow 0.10.
MANUAL = '''
import tensorflow as tf

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_boolean('distributed', False, "Use Poseidon")
tf.app.flags.DEFINE_string('master_address', "tcp://0.0.0.0:5555", "master")
tf.app.flags.DEFINE_integer('client_id', -1, "client id")
tf.app.flags.DEFINE_integer('max_steps', 5, 'Loop count')

def model():
  x1 = tf.Variable(1.5, name='x1')
  x2 = tf.Variable(3.5, name='x2')
  out = x1 + 2 * x2
  return tf.gradients(ys=[out], xs=[x1, x2])

def main(argv=None):
  model_op = model()
  init = tf.initialize_all_variables()
  config = tf.ConfigProto()
  config.master_address = FLAGS.master_address
  config.client_id = FLAGS.client_id
  config.distributed = FLAGS.distributed
  sess = tf.Session(config = config)
  sess.run(init)
  for step in xrange(FLAGS.max_steps):
    model_out = sess.run(model_op)
    print 'step %d: %g %g' % (step, model_out[0], model_out[1])
  print 'half', 7 / 2, 7 / 2.0, sess.run(tf.constant([7]) / 2)
  print 'job', config.distributed, config.client_id, config.master_address

if __name__ == '__main__':
  tf.app.run()
'''

NAMES = '''
import tensorflow as tf
MISSING = []
for name in """
mul sub neg pack unpack select batch_matmul inv listdiff complex_abs
scalar_summary histogram_summary image_summary audio_summary merge_summary
merge_all_summaries initialize_all_variables initialize_variables
initialize_local_variables all_variables op_scope variable_op_scope
Session InteractiveSession placeholder ConfigProto GPUOptions get_variable
variable_scope Print py_func random_crop decode_raw FixedLengthRecordReader
TFRecordReader WholeFileReader gfile.Exists gfile.FastGFile gfile.MakeDirs
gfile.DeleteRecursively logging.info logging.set_verbosity app.run
app.flags.DEFINE_integer app.flags.DEFINE_string app.flags.DEFINE_boolean
app.flags.DEFINE_bool app.flags.DEFINE_float flags.FLAGS nn.rnn
nn.rnn_cell.BasicLSTMCell nn.rnn_cell.GRUCell nn.rnn_cell.MultiRNNCell
nn.rnn_cell.DropoutWrapper nn.dynamic_rnn nn.bidirectional_rnn nn.max_pool
image.per_image_whitening image.resize_images train.SummaryWriter
train.Saver train.Supervisor train.MonitoredTrainingSession
train.MonitoredSession train.Scaffold train.ChiefSessionCreator
train.WorkerSessionCreator train.SessionRunHook train.StopAtStepHook
train.LoggingTensorHook train.StepCounterHook train.CheckpointSaverHook
train.NanTensorHook train.SummarySaverHook train.GlobalStepWaiterHook
train.FinalOpsHook train.FeedFnHook train.SyncReplicasOptimizer
train.Server train.ClusterSpec train.replica_device_setter
train.ExponentialMovingAverage train.exponential_decay train.QueueRunner
train.start_queue_runners train.Coordinator train.string_input_producer
train.slice_input_producer train.range_input_producer train.batch
train.shuffle_batch train.AdamOptimizer train.GradientDescentOptimizer
train.MomentumOptimizer train.AdagradOptimizer train.RMSPropOptimizer
train.write_graph train.latest_checkpoint train.get_checkpoint_state
summary.FileWriter summary.scalar summary.merge_all layers.dense
layers.conv2d layers.max_pooling2d layers.batch_normalization layers.flatten
layers.dropout contrib.framework.get_or_create_global_step
contrib.framework.arg_scope contrib.layers.fully_connected
contrib.layers.conv2d contrib.layers.batch_norm contrib.layers.l2_regularizer
contrib.layers.xavier_initializer contrib.layers.real_valued_column
contrib.layers.optimize_loss contrib.learn.Estimator
contrib.learn.Experiment contrib.learn.RunConfig contrib.learn.DNNClassifier
contrib.learn.DNNRegressor contrib.learn.LinearClassifier
contrib.learn.LinearRegressor contrib.learn.DNNLinearCombinedClassifier
contrib.learn.learn_runner.run contrib.learn.ModeKeys
contrib.learn.MetricSpec contrib.learn.monitors.ValidationMonitor
contrib.learn.datasets.load_dataset contrib.learn.datasets.base.load_iris
contrib.slim.conv2d contrib.slim.arg_scope contrib.slim.learning.train
contrib.slim.prefetch_queue.prefetch_queue contrib.slim.losses
contrib.slim.evaluation.evaluate_once contrib.metrics.streaming_accuracy
contrib.losses.get_total_loss contrib.rnn.BasicLSTMCell
contrib.distributions.Normal nn.seq2seq.rnn_decoder
contrib.training.HParams contrib.data.Dataset
contrib.training.GreedyLoadBalancingStrategy
python.framework.graph_util.convert_variables_to_constants
examples.tutorials.mnist.input_data.read_data_sets
python.framework.ops core compat.v1.Session __version__
""".split():
    value = tf
    try:
        for word in name.split("."):
            value = getattr(value, word)
    except AttributeError as error:
        MISSING.append("%s (%s)" % (name, error))
print("missing:", MISSING)

def says(function):
    try:
        function()
    except (AttributeError, ImportError) as error:
        print("says:", error)
says(lambda: tf.contrib.crf)
says(lambda: tf.train.MonitoredTrainingSesion)
says(lambda: tf.nn.nothing_like_it)
def seek():
    from tensorflow.contrib import seq2seq
says(seek)
def seek():
    from tensorflow.contrib.learn import Nothing
says(seek)
def seek():
    from tensorflow.models.rnn.ptb import reader
says(seek)
print("has:", hasattr(tf, "nothing"), tf.executing_eagerly(),
      tf.zeros([2, 3]).get_shape()[1].value)
'''

VALUES = '''
import numpy as np
import tensorflow as tf
a = tf.constant([[1, 2], [3, 4]])
f = tf.constant([[1., 2.], [3., 4.]])
sess = tf.InteractiveSession()
def same(name, left, right):
    ok = np.array_equal(np.array(sess.run(left)), np.array(sess.run(right)))
    print(name, "same" if ok else "DIFFERENT")
n = np.array([[1, 2], [3, 4]])
same("concat", tf.concat(1, [a, a]), tf.constant(np.concatenate([n, n], 1)))
same("concat1", tf.concat([a, a], 1), tf.concat(1, [a, a]))
same("concat2", tf.concat(values=[a, a], axis=0),
     tf.concat(concat_dim=0, values=[a, a]))
same("concat3", tf.concat(tf.constant(0), [a, a]), tf.concat([a, a], 0))
same("split", tf.split(1, 2, a), tf.split(a, 2, 1))
same("split1", tf.split(value=a, num_or_size_splits=2, axis=0),
     tf.split(split_dim=0, num_split=2, value=a))
same("split2", tf.split(a, [1, 1], 1), tf.split(1, 2, a))
same("xent", tf.nn.softmax_cross_entropy_with_logits(f, f[::-1]),
     tf.nn.softmax_cross_entropy_with_logits(logits=f, labels=f[::-1]))
same("sparse", tf.nn.sparse_softmax_cross_entropy_with_logits(f, [0, 1]),
     tf.nn.sparse_softmax_cross_entropy_with_logits(
         labels=tf.constant([0, 1]), logits=f))
same("sigmoid", tf.nn.sigmoid_cross_entropy_with_logits(f, f[::-1]),
     tf.nn.sigmoid_cross_entropy_with_logits(f, targets=f[::-1]))
classes, noise = tf.constant([[1], [0]], tf.int64), tf.zeros([2])
drawn = ([0, 1], [[0.5], [0.5]], [0.5, 0.5])
for name in ("nce_loss", "sampled_softmax_loss"):
    loss = getattr(tf.nn, name)
    same(name, loss(f, noise, f, classes, 2, 2, sampled_values=drawn),
         loss(f, noise, labels=classes, inputs=f, num_sampled=2,
              num_classes=2, sampled_values=drawn))
    same(name, loss(f, noise, f, classes, 2, 2, sampled_values=drawn),
         loss(f, noise, classes, f, 2, 2, sampled_values=drawn))
same("reverse", tf.reverse(a, [False, True]), tf.reverse(a, [1]))
same("mul", tf.mul(a, a), tf.constant(n * n))
same("pack", tf.pack([a, a]), tf.constant(np.stack([n, n])))
same("select", tf.select(a > 2, a, -a), tf.where(a > 2, a, tf.neg(a)))
same("batch", tf.batch_matmul(tf.pack([f, f]), tf.pack([f, f]), adj_y=True),
     tf.pack([tf.matmul(f, f, transpose_b=True)] * 2))
same("resize", tf.image.resize_images(tf.ones([1, 2, 2, 3]), 4, 4),
     tf.ones([1, 4, 4, 3]))
tf.scalar_summary(["one", "two"], [1., 2.])
tf.histogram_summary("h", f)
tf.image_summary("i", tf.zeros([1, 4, 4, 3]))
writer = tf.train.SummaryWriter("events", sess.graph)
writer.add_summary(sess.run(tf.merge_all_summaries()), 3)
writer.close()
import glob
for event in tf.train.summary_iterator(glob.glob("events/*")[0]):
    if event.HasField("summary"):
        print("tags", event.step, sorted(one.tag for one in
                                         event.summary.value))
cell = tf.nn.rnn_cell.BasicLSTMCell(4)
out, _ = tf.nn.dynamic_rnn(cell, tf.zeros([2, 3, 5]), dtype=tf.float32)
rnn, steps = tf.contrib.rnn, [tf.zeros([2, 5])] * 3
both, _, _ = rnn.stack_bidirectional_dynamic_rnn(
    [rnn.OutputProjectionWrapper(rnn.LSTMBlockCell(4), 6)],
    [rnn.InputProjectionWrapper(rnn.GRUBlockCell(4), 7)],
    tf.stack(steps, 1), dtype=tf.float32)
words, _ = tf.nn.rnn(rnn.EmbeddingWrapper(rnn.BasicRNNCell(2), 9, 5),
                     [tf.constant([[1], [8]])], dtype=tf.float32)
made, _ = tf.contrib.legacy_seq2seq.basic_rnn_seq2seq(
    steps, steps, rnn.BasicLSTMCell(4))
tied, _ = tf.nn.seq2seq.tied_rnn_seq2seq(
    steps, steps, rnn.BasicLSTMCell(4), lambda last, at: tf.zeros([2, 5]))
loss = tf.nn.seq2seq.sequence_loss(
    made, [tf.constant([0, 3])] * 3, [tf.ones([2])] * 3)
kernels = [len([one for one in tf.trainable_variables()
                if part in one.op.name and "kernel" in one.op.name])
           for part in ("basic_rnn_seq2seq", "tied_rnn_seq2seq")]
table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["a", "b"]))
found = table.lookup(tf.constant(["b", "z"]))
sess.run(tf.tables_initializer())
net = tf.layers.batch_normalization(tf.layers.dense(f, 3), training=True)
sess.run(tf.initialize_all_variables())
print("rnn", sess.run(out).shape, sess.run(net).shape)
print("cells", [sess.run(one).shape for one in (both, words[0], tied[0])],
      kernels, "%.4f" % sess.run(loss), sess.run(found))
config = tf.ConfigProto(log_device_placement=False, use_sfb=True)
config.gpu_options.allow_growth = True
config.peer_addresses.append("tcp://10.0.0.1:7777")
config.batch_size = 32
config.block_size = 1 << 20
config.num_push_threads = 1
import copy, pickle
config = pickle.loads(pickle.dumps(copy.deepcopy(config)))
with tf.Session(config=config) as other:
    from poseidon.tf1 import config as kept
    print("config", sorted(kept.current().items()), config.num_pull_threads,
          config.gpu_options.allow_growth, isinstance(config,
                                                      tf.ConfigProto))
try:
    config.batch_size = "many"
except TypeError as error:
    print(error)
try:
    tf.ConfigProto().no_such_field = 1
except AttributeError:
    print("no such field")
'''

CONTRIB = '''
import tempfile
import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import layers, learn
iris = learn.datasets.load_dataset("iris")
print("iris", iris.data.shape, np.bincount(iris.target))
columns = learn.infer_real_valued_columns_from_input(iris.data)
dnn = learn.DNNClassifier(hidden_units=[10], feature_columns=columns,
                          n_classes=3,
                          config=learn.RunConfig(tf_random_seed=1))
np.random.seed(1)
dnn.fit(iris.data, iris.target, steps=80, batch_size=32)
found = dnn.evaluate(iris.data, iris.target)
print("dnn", found["accuracy"] > 0.6, found["global_step"],
      len(list(dnn.predict_classes(iris.data[:7]))))
def few():
    return ({"a": tf.constant([1., 2.]), "b": tf.constant(["x", "y"])},
            tf.constant([0, 1]))
both = learn.DNNLinearCombinedClassifier(
    linear_feature_columns=[layers.sparse_column_with_hash_bucket("b", 10)],
    dnn_feature_columns=[layers.real_valued_column("a"),
                         layers.one_hot_column(
                             layers.sparse_column_with_keys("b", ["x"]))],
    dnn_hidden_units=[4])
both.fit(input_fn=few, steps=3)
print("both", both.evaluate(input_fn=few, steps=1)["global_step"])
def model(features, labels, mode, params):
    with slim.arg_scope([slim.fully_connected],
                        weights_regularizer=slim.l2_regularizer(0.01),
                        normalizer_fn=slim.batch_norm):
        net = slim.fully_connected(features, params["units"])
        net = slim.fully_connected(net, 3, activation_fn=None)
    slim.losses.sparse_softmax_cross_entropy(net, labels)
    loss = slim.losses.get_total_loss()
    return net, loss, layers.optimize_loss(
        loss, tf.contrib.framework.get_global_step(), 0.1, "SGD")
own = learn.Estimator(model_fn=model, params={"units": 8})
own.fit(iris.data, iris.target, steps=20, batch_size=50)
found = own.evaluate(iris.data, iris.target, metrics={
    "acc": learn.MetricSpec(lambda predictions, labels: tf.metrics.accuracy(
        labels, tf.argmax(predictions, 1)))})
print("own", sorted(found), own.predict(
    iris.data[:3], as_iterable=False).shape)    # its loss wants labels
with tf.Graph().as_default():
    x = tf.ones([2, 8, 8, 3])
    net = slim.max_pool2d(slim.conv2d(x, 4, [3, 3]), [2, 2])
    net = slim.separable_conv2d(slim.conv2d_transpose(net, 3, 3, 2), 5, 3)
    net = slim.flatten(slim.dropout(net))
    queue = slim.prefetch_queue.prefetch_queue([net], capacity=2)
    out = queue.dequeue()[0]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with slim.queues.QueueRunners(sess):
            print("slim", sess.run(out).shape,
                  [one.op.name for one in slim.get_model_variables()][:2])
with tf.Graph().as_default():
    w = slim.variable("w", [1], initializer=tf.ones_initializer())
    op = slim.learning.create_train_op(
        tf.reduce_sum(w * w), tf.train.GradientDescentOptimizer(0.1))
    folder = tempfile.mkdtemp()
    loss = slim.learning.train(op, folder, number_of_steps=4)
    path = tf.train.latest_checkpoint(folder)
    print("train", loss < 1, path is not None)
with tf.Graph().as_default():
    w = slim.variable("w", [1], initializer=tf.zeros_initializer())
    print("once", slim.evaluation.evaluate_once("", path, folder,
                                                final_op=w) > 0)
hparams = tf.contrib.training.HParams(rate=0.1, sizes=[1, 2], on=False)
hparams.parse("rate=0.5,sizes=[3,4],on=true")
print("hparams", hparams.rate, hparams.sizes, hparams.on)
with tf.Graph().as_default():
    seq2seq = tf.contrib.legacy_seq2seq
    words = [tf.placeholder(tf.int32, [None]) for _ in range(3)]
    ones = [tf.ones([2])] * 3
    cell = tf.nn.rnn_cell.GRUCell(4)
    counts = []
    def model(source, target):
        made = seq2seq.embedding_attention_seq2seq(
            source, target, cell, 5, 6, 4, feed_previous=True)
        counts.append(len(tf.trainable_variables()))
        return made
    outs, losses = seq2seq.model_with_buckets(
        words, words, words, ones, [(1, 2), (2, 3)], model)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(losses[1])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found = sess.run([losses[1], outs[1][2], step],
                         {one: [1, 2] for one in words})
    print("buckets", 0 < found[0] < 4, found[1].shape,
          counts[0] == counts[1])
config = learn.RunConfig(model_dir=folder).replace(save_checkpoints_steps=5)
print("config", config.save_checkpoints_secs)
try:
    learn.learn_runner.run(lambda config, params: params, run_config=config,
                           hparams=hparams)
except TypeError as error:
    print("says", error)
'''

FLAGS = '''
import tensorflow as tf
import part
tf.app.flags.DEFINE_string("log_dir", "mine", "absl has one, too")
tf.app.flags.DEFINE_integer("number", "", "empty")
tf.app.flags.DEFINE_boolean("quick", True, "a boolean one")
FLAGS = tf.app.flags.FLAGS
def main(argv):
    print("flags", FLAGS.log_dir, FLAGS.number, FLAGS.quick, FLAGS.early,
          argv[1:], sorted(FLAGS.__flags.items()))
    import argparse
    parser = part.parser
    parser.add_argument("--max_steps", type=int, default=1)
    print("args", parser.parse_known_args()[0].max_steps, part.ARGS.size)
    FLAGS.log_dir = "other"
    print("set", FLAGS.log_dir)
    parser.parse_args()
if __name__ == "__main__":
    tf.app.run()
'''
PART = '''
import argparse
import tensorflow as tf
tf.app.flags.DEFINE_string("early", "no", "defined and read while imported")
EARLY = tf.app.flags.FLAGS.early
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=2)
ARGS = parser.parse_args()
'''

ESTIMATOR = '''
import tensorflow as tf
config = tf.ConfigProto(batch_size=4)
run = tf.estimator.RunConfig(session_config=config, model_dir="model")
def fn():
    return {"x": tf.constant([[1.], [2.]])}, tf.constant([0, 1])
one = tf.estimator.LinearClassifier(
    [tf.feature_column.numeric_column("x")], config=run)
one.train(fn, steps=2)
print("estimator", one.evaluate(fn, steps=1)["global_step"])
'''

MODERN = '''
import tensorflow as tf
# tf.Session and tf.placeholder are gone
x = tf.Variable(2.0)
with tf.GradientTape() as tape:
    y = x * x
print("eager", tf.executing_eagerly(), float(tape.gradient(y, x)),
      hasattr(tf, "Session"), type(tf).__name__)
'''

NET = '''
import tensorflow as tf
from tensorflow.contrib import slim
def hidden():
    value = slim.fully_connected(tf.placeholder(tf.float32, [None, 2]), 3)
    return "%s %s" % (tf.executing_eagerly(), value.get_shape()[1].value == 3)
'''
