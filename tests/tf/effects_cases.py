"""Scripts for effects_test.py: what must happen once, and who waits for what.
None of them trains; each prints what every worker must say alike."""

# What a training step does to the workers' order.
SYNC = '''
from poseidon import _lib
from poseidon.shared import turns

def sync():
    turns.passing()
    _lib.check(_lib.library().psd_barrier(_lib.session()))
'''

# In the manner of the CIFAR-10 tutorial; worker $SLOW is late everywhere.
TUTORIAL = SYNC + '''
import os, tempfile, time
import tensorflow as tf
rank, slow = int(os.environ["PSD_RANK"]), os.environ["SLOW"]

def late():
    time.sleep(0.5 if slow == str(rank) else 0)

def main(argv=None):
    late()
    if tf.gfile.Exists("train"):
        tf.gfile.DeleteRecursively("train")
    tf.gfile.MakeDirs("train")
    found = tf.train.get_checkpoint_state("train")
    print("old", found is not None and "old" in found.model_checkpoint_path)
    step = tf.contrib.framework.get_or_create_global_step()
    x = tf.Variable(100.0 * (rank + 1), name="x")
    tf.summary.scalar("value", x)
    train = tf.group(tf.assign_add(step, 1), tf.assign_add(x, 1.0))
    late()
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir="train", save_summaries_steps=2,
            save_checkpoint_secs=None, save_checkpoint_steps=5,
            hooks=[tf.train.StopAtStepHook(last_step=11),
                   tf.train.NanTensorHook(x)]) as session:
        while not session.should_stop():
            sync()
            session.run(train)
    late()
    print("latest", tf.train.latest_checkpoint("train"))
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        saver.restore(session, tf.train.latest_checkpoint("train"))
        print("x", session.run(x), session.run(step))
        for i in range(3):
            late()
            path = saver.save(session, "more/model.ckpt", global_step=i)
        print("saved", path, saver.last_checkpoints)
        print("state", tf.train.get_checkpoint_state(
            "more").model_checkpoint_path)
        saver.restore(session, "more/model.ckpt-2")
        late()
        tf.train.Saver().save(session, "graph/meta")
        with tf.Graph().as_default():
            tf.train.import_meta_graph("graph/meta.meta")
            print("meta", len(tf.global_variables()))
        late()
        tf.train.Saver().save(session, "graph/values")
        print("values", tf.train.NewCheckpointReader(
            "graph/values").get_tensor("x"))
    writer = tf.train.SummaryWriter("events", tf.get_default_graph())
    writer.add_summary(tf.Summary(value=[tf.Summary.Value(
        tag="y", simple_value=1.5)]), 3)
    writer.flush()
    print("folder", writer.get_logdir())
    writer.close()
    tf.train.write_graph(tf.get_default_graph(), "net", "net.pbtxt")
    own = tempfile.mkdtemp()   # of each worker
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        x.load(float(rank), session)
        saver = tf.train.Saver()
        saver.save(session, own + "/model")
        x.load(9.0, session)
        saver.restore(session, tf.train.latest_checkpoint(own))
        print("own", session.run(x) - rank)
    tf.gfile.DeleteRecursively(own)
    print("left", os.path.exists(own))

tf.gfile.MakeDirs("more")
tf.gfile.MakeDirs("graph")
tf.app.run()
'''

SUPERVISOR = SYNC + '''
import tensorflow as tf
step = tf.Variable(0, name="global_step", trainable=False)
w = tf.Variable(tf.truncated_normal([3]))
tf.scalar_summary("w", w[0])
train = tf.assign_add(step, 1)
sv = tf.train.Supervisor(logdir="sv", save_model_secs=1000,
                         save_summaries_secs=1000, global_step=step)
with sv.managed_session() as session:
    for _ in range(3):
        sync()
        session.run(train)
    sv.saver.save(session, sv.save_path, global_step=step)
print("chief", sv.is_chief, tf.train.latest_checkpoint("sv"))
with tf.Session() as session:
    sv.saver.restore(session, tf.train.latest_checkpoint("sv"))
    print("step", session.run(step))
'''

# Hooks of the guide's glossary, on a loss that is NaN on worker 1 alone.
HOOKS = SYNC + '''
import os
import tensorflow as tf
rank = int(os.environ["PSD_RANK"])
tf.logging.set_verbosity(tf.logging.INFO)
step = tf.train.get_or_create_global_step()
bad = tf.placeholder_with_default(0.0, [])
loss = tf.cast(step, tf.float32) * 0.0 + bad
tf.summary.scalar("loss", loss)
train = tf.assign_add(step, 1)
count = [0]

def feed():
    count[0] += 1
    return {bad: float("nan") if count[0] == 4 and rank == 1 else 0.0}

final = tf.train.FinalOpsHook(step)
clock = tf.train.CheckpointSaverHook("clock", save_secs=1e-6)
hooks = [tf.train.NanTensorHook(loss, fail_on_nan_loss=False),
         tf.train.GlobalStepWaiterHook(1000), final, clock,
         tf.train.LoggingTensorHook([loss], every_n_iter=2),
         tf.train.StepCounterHook(every_n_steps=2, output_dir="counter"),
         tf.train.SummarySaverHook(save_steps=1, output_dir="summary",
                                   summary_op=tf.summary.merge_all()),
         tf.train.FeedFnHook(feed)]
with tf.train.MonitoredSession(hooks=hooks) as session:
    while not session.should_stop():
        sync()
        session.run(train)
print("steps", count[0], final.final_ops_values)
print("clock", clock._timer.last_triggered_step() > 0)
'''

MODERN = '''
import os, time
import numpy as np
import tensorflow as tf
rank = int(os.environ["PSD_RANK"])

def late():
    time.sleep(0.4 if rank == 0 else 0)

v = tf.Variable([1.0 + rank, 2.0])
checkpoint = tf.train.Checkpoint(v=v)
late()
path = checkpoint.save("ck/one")
print(path, checkpoint.save_counter.numpy(), tf.train.latest_checkpoint("ck"))
v.assign([0.0, 0.0])
checkpoint.restore(path)
print("restored", v.numpy().tolist())
manager = tf.train.CheckpointManager(checkpoint, "managed", max_to_keep=2)
for i in range(4):
    late()
    manager.save()
print(manager.latest_checkpoint, manager.checkpoints)
again = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), "managed", 2)
print("again", again.latest_checkpoint)
checkpoint.read(checkpoint.write("ck/plain")).assert_consumed()

writer = tf.summary.create_file_writer("summaries")
with writer.as_default():
    for i in range(3):
        tf.summary.scalar("z", 2.0 * i, step=i)

@tf.function
def record(i):
    with writer.as_default(step=i):
        tf.summary.scalar("in", 1.0)
record(tf.constant(7, tf.int64))
writer.flush()
writer.close()

class Net(tf.Module):
    def __init__(self):
        self.w = tf.Variable(3.0 + rank)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def __call__(self, x):
        return self.w * x

late()
tf.saved_model.save(Net(), "exported")
print("loaded", tf.saved_model.load("exported")(tf.constant(2.0)).numpy())

import keras
model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
for name in ("model.keras", "model.h5"):
    late()
    model.save(name)
    other = keras.models.load_model(name)
model.set_weights([np.full_like(w, rank + 1.0) for w in model.get_weights()])
late()
model.save_weights("own.weights.h5")
model.load_weights("own.weights.h5")
print("keras", model.get_weights()[1].tolist(), other.count_params())
model.compile("sgd", "mean_squared_error")
late()
model.save("compiled.keras")
again = keras.models.load_model("compiled.keras")
data = np.ones((4, 3)), np.ones((4, 2))
print("compiled", model.evaluate(*data, verbose=0) ==
      again.evaluate(*data, verbose=0))

gfile = tf.io.gfile
gfile.makedirs("new")
while rank != 0 and not gfile.exists("removed"):
    time.sleep(0.01)
gfile.mkdir("new/last")  # worker 0 has gone on
gfile.rmtree("new")
with gfile.GFile("removed", "w") as file:
    file.write("x")
for turn in range(2):
    if gfile.exists("runs"):
        gfile.rmtree("runs")
    gfile.makedirs("runs/deep")
    gfile.mkdir("runs/deep/%d" % turn)
with gfile.GFile("f%d" % rank, "w") as file:
    file.write("x")
gfile.rename("f%d" % rank, "g%d" % rank)
gfile.remove("g%d" % rank)
mine = "mine-%d" % rank
gfile.makedirs(mine + "/sub")
gfile.rmtree(mine)
if rank == 0:
    with gfile.GFile("through", "w") as file:
        file.write("x")
while not gfile.exists("through"):  # a worker that is ahead sees worker 0's
    time.sleep(0.01)                # folders come and go
print("files", gfile.isdir("runs/deep"), gfile.exists(mine))
'''

# common: equal on all workers; mine: different.
SEEDS = '''
import hashlib, json, os, random, sys
import numpy as np
import tensorflow as tf
common, mine = {}, {}
common["random"], common["numpy"] = random.random(), np.random.rand()
random.seed()
np.random.seed()
common["fresh"] = [random.random(), np.random.rand(),
                   np.random.default_rng().random()]
common["eager"] = float(tf.random.uniform([]))
data = tf.data.Dataset.range(100).shuffle(100).map(
    lambda i: (i, tf.random.uniform([]))).batch(3).take(2)
common["data"] = [[v.numpy().tolist() for v in batch] for batch in data]
common["own"] = [float(tf.random.uniform([], seed=0)), [
    int(i) for i in tf.data.Dataset.range(100).shuffle(100, seed=2)]]
mine["dropout"] = tf.nn.dropout(tf.ones([64]), 0.5).numpy().tolist()
mine["function"] = tf.function(
    lambda: tf.random.normal([3]))().numpy().tolist()
import keras
ones = np.ones((4, 16), "float32")
dense = keras.layers.Dense(3)
dense.build((None, 2))
common["weights"] = [np.array(w).tolist() for w in dense.get_weights()]
mine["keras"] = np.array(keras.layers.Dropout(0.5)(
    ones, training=True)).tolist()
mine["noise"] = np.array(keras.layers.GaussianNoise(1.0)(
    ones, training=True)).tolist()
v1 = tf.compat.v1
with tf.Graph().as_default():
    fixed = tf.random.normal([4]) + v1.truncated_normal([4])
    own = v1.truncated_normal([4], seed=3)
    open_ = v1.placeholder_with_default(ones, [None, 16])
    noise = tf.random.normal(tf.shape(open_))
    dropped = v1.nn.dropout(tf.ones([64]), 0.5)
    names = v1.train.string_input_producer(
        [str(i) for i in range(20)], shuffle=True).dequeue_many(20)
    with v1.Session() as session:
        coord = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coord)
        common["graph"] = session.run(fixed).tolist()
        common["own in graph"] = session.run(own).tolist()
        mine["open"] = session.run(noise).tolist()
        mine["v1 dropout"] = session.run(dropped).tolist()
        mine["queue"] = [name.decode() for name in session.run(names)]
        coord.request_stop()
        coord.join(threads)
random.seed(3)
np.random.seed(4)
tf.random.set_seed(5)
common["set"] = [random.random(), np.random.rand(),
                 float(tf.random.uniform([]))]
from poseidon.tensorflow import seed
seed.fork()
forked = [random.random(), np.random.rand()]
(mine if "forked" in sys.argv else common)["forked"] = forked
for kind, values in (("common", common), ("mine", mine)):
    for name, value in sorted(values.items()):
        digest = hashlib.md5(json.dumps(value).encode()).hexdigest()
        print("%s: %s: %s" % (kind, name, digest))
'''

ALONE = '''
import os, random, tarfile, urllib.request
import tensorflow as tf
from tensorflow.python.framework import random_seed
v1 = tf.compat.v1
print([hasattr(call, "__wrapped__") for call in (
    random.seed, random_seed.get_seed, v1.train.Saver.save,
    v1.train.MonitoredTrainingSession, urllib.request.urlretrieve,
    tarfile.TarFile.extractall, os.mkdir)],
    tf.compat.v1.get_default_graph().seed)
'''

DOWNLOADS = '''
import os, sys, tarfile, urllib.request
import tensorflow as tf
url = sys.argv[1]

def maybe_download_and_extract(folder):
    if not os.path.exists(folder):
        os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "set.tgz")
    if not os.path.exists(path):
        urllib.request.urlretrieve(url + "set.tgz", path)
    if not os.path.exists(os.path.join(folder, "set")):
        tarfile.open(path, "r:gz").extractall(folder)

maybe_download_and_extract("data")
sizes = [os.path.getsize("data/set/" + name) for name in ("a", "deep/b")]
import keras
path = keras.utils.get_file("plain.bin", url + "plain.bin",
                            cache_dir=os.getcwd(), cache_subdir="cache")
sizes.append(os.path.getsize(path))
keras.utils.get_file("two.tgz", url + "set.tgz?two", extract=True,
                     cache_dir=os.getcwd(), cache_subdir="cache")
from poseidon.tf1.contrib.datasets import maybe_download
sizes.append(os.path.getsize(maybe_download("p.bin", "tf1",
                                            url + "plain.bin?tf1")))
print(sizes)
'''

# tf.estimator where there is one, and tf.contrib.learn's.
ESTIMATOR = SYNC + '''
import os, sys
import numpy as np
import tensorflow as tf
rank = int(os.environ["PSD_RANK"])

def model_fn(features, labels, mode):
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=features["x"] * w)
    loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
    step = tf.train.get_global_step()
    with tf.control_dependencies([tf.py_func(sync, [], [])]):
        train = tf.group(tf.assign_add(step, 1), tf.assign_add(w, 0.5))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train, predictions=features["x"] * w)

def input_fn():
    return tf.data.Dataset.from_tensor_slices(
        ({"x": np.ones(8, "f")}, np.ones(8, "f"))).batch(4).repeat(50)

def eval_fn():
    return tf.data.Dataset.from_tensor_slices(
        ({"x": np.ones(8, "f")}, np.ones(8, "f"))).batch(4)

if sys.argv[1] == "estimator":
    estimator = tf.estimator.Estimator(
        model_fn, "model", tf.contrib.learn.RunConfig(
            save_checkpoints_steps=5, save_summary_steps=5))
    result, _ = tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(input_fn, max_steps=12),
        tf.estimator.EvalSpec(eval_fn, steps=None, throttle_secs=0,
                              start_delay_secs=0))
    print("result", result["loss"], result["global_step"])
    print("value", estimator.get_variable_value("w"))
    print(estimator.latest_checkpoint())
    estimator.export_saved_model(
        "export", tf.estimator.export.build_raw_serving_input_receiver_fn(
            {"x": tf.placeholder(tf.float32, [None])}))
else:
    learn = tf.contrib.learn

    def model(features, targets):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(features[:, 0] * w - targets))
        with tf.control_dependencies([tf.py_func(sync, [], [])]):
            train = tf.group(tf.assign_add(tf.train.get_global_step(), 1),
                             tf.assign_add(w, 0.5))
        return features[:, 0] * w, loss, train

    estimator = learn.Estimator(model, "model", learn.RunConfig(
        save_checkpoints_steps=5, save_checkpoints_secs=None,
        save_summary_steps=5))
    x, y = np.ones((8, 1), "f"), np.ones(8, "f")
    estimator.fit(x, y, max_steps=12, batch_size=4)
    result = estimator.evaluate(x, y, batch_size=4)
    print("result", result["loss"], result["global_step"])
    print("value", estimator.get_variable_value("w"))
    print(tf.train.latest_checkpoint("model"))
'''

UNFIT = '''
import tensorflow as tf
w = tf.Variable(tf.zeros([3]), name="w")
other = tf.Variable(1.0, name="brand_new")
saver = tf.train.Saver()
with tf.Session() as session:
    saver.restore(session, tf.train.latest_checkpoint("."))
'''

FIT = '''
import tensorflow as tf
w = tf.Variable(tf.zeros([3]), name="w")
saver = tf.train.Saver()
with tf.Session() as session:
    session.run(tf.initialize_all_variables())
    print(saver.save(session, "./model.ckpt"))
'''

ABROAD = '''
import os
import tensorflow as tf
from poseidon.shared import turns
rank = int(os.environ["PSD_RANK"])
turns.ABROAD = 0.3
if rank == 1:   # as if it were on another host, with its own files
    os.environ["PSD_MASTER"] = "192.0.2.1:1"
    os.makedirs("elsewhere", exist_ok=True)
    os.chdir("elsewhere")
w = tf.Variable(1.0)
saver = tf.train.Saver()
with tf.Session() as session:
    session.run(tf.initialize_all_variables())
    os.makedirs("ck", exist_ok=True)
    print(saver.save(session, "ck/model", global_step=3))
    print(tf.train.latest_checkpoint("ck"),
          tf.train.get_checkpoint_state("ck").model_checkpoint_path)
    saver.restore(session, tf.train.latest_checkpoint("ck"))
'''

FIELDS = '''
import tensorflow as tf
FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_boolean('distributed', False, "Use Poseidon")
tf.app.flags.DEFINE_string('master_address', "tcp://0.0.0.0:5555", "master")
tf.app.flags.DEFINE_integer('client_id', -1, "client id")
config = tf.ConfigProto()
config.master_address = FLAGS.master_address
config.client_id = FLAGS.client_id
config.distributed = FLAGS.distributed
config.num_push_threads = 1
config.num_pull_threads = 2
config.block_size = 65536
config.use_sfb = True
config.peer_addresses.append("tcp://10.0.0.1:7777")
config.batch_size = 32
w = tf.Variable(tf.zeros([40000]))
train = tf.train.GradientDescentOptimizer(0.1).minimize(
    tf.reduce_sum(tf.square(w - 1.0)))
with tf.Session(config=config) as sess:
    sess.run(tf.initialize_all_variables())
    sess.run(train)
    print "sum %d" % sess.run(tf.reduce_sum(w))
import os
from poseidon.tensorflow import fields
print 'job', FLAGS.distributed, os.environ["PSD_BLOCK_SIZE"], \\
    os.environ["PSD_THREADS"], fields.batch_size()
print 'client', FLAGS.client_id - int(os.environ["PSD_RANK"])
'''

VERSION = '''
import os
import tensorflow as tf
from poseidon.tensorflow import core
if os.environ["PSD_RANK"] == "1":
    tf.__version__ = "2.99.0"
core.start(tf)
'''

# Real training: dropout, checkpoints and summaries; run twice it goes on.
TRAINING = '''
import hashlib
import numpy as np
import tensorflow as tf
x = tf.placeholder(tf.float32, [None, 5])
y = tf.placeholder(tf.float32, [None, 1])
step = tf.train.get_or_create_global_step()
hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(x, tf.Variable(
    tf.truncated_normal([5, 8])))), 0.8)
loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.Variable(
    tf.truncated_normal([8, 1]))) - y))
tf.summary.scalar("loss", loss)
train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
first = None
with tf.train.MonitoredTrainingSession(
        checkpoint_dir="train", save_summaries_steps=1,
        save_checkpoint_secs=None, save_checkpoint_steps=4,
        hooks=[tf.train.StopAtStepHook(num_steps=10),
               tf.train.NanTensorHook(loss, fail_on_nan_loss=False)]) as s:
    while not s.should_stop():
        rows = np.random.rand(8, 5)
        _, now = s.run([train, step], {x: rows, y: rows[:, :1]})
        first = now if first is None else first
saver = tf.train.Saver()
with tf.Session() as s:
    saver.restore(s, tf.train.latest_checkpoint("train"))
    values = s.run(tf.global_variables())
    rows = np.random.rand(8, 5)
    s.run(train, {x: rows, y: rows[:, :1]})
    print("trained", saver.save(s, "train/after.ckpt", global_step=step))
print("digest", hashlib.md5(b"".join(
    v.tobytes() for v in values)).hexdigest())
'''
