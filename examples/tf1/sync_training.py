"""Synchronous training by TensorFlow's own means: SyncReplicasOptimizer takes
the mean of the gradients of all workers in every step.

    psd_run -n 2 "python sync_training.py --ps_hosts={ps_hosts} \
        --worker_hosts={worker_hosts} --job_name={job_name} \
        --task_index={task_index}"

Looks for the weights of a sum of eight numbers.
"""
import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "Addresses, with commas between.")
flags.DEFINE_string("worker_hosts", "", "Addresses, with commas between.")
flags.DEFINE_string("job_name", "worker", "ps or worker.")
flags.DEFINE_integer("task_index", 0, "Which of its job this one is.")
flags.DEFINE_integer("steps", 200, "Steps, each of all workers.")
flags.DEFINE_string("log_dir", "", "Where checkpoints go.")
FLAGS = flags.FLAGS

WANTED = np.arange(1, 9, dtype=np.float32).reshape(8, 1)


def main(_):
    workers = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": workers})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name,
                             task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    with tf.device(tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index,
            cluster=cluster)):
        x = tf.placeholder(tf.float32, [None, 8])
        y = tf.placeholder(tf.float32, [None, 1])
        weights = tf.Variable(tf.truncated_normal([8, 1]), name="weights")
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.05),
            replicas_to_aggregate=len(workers),
            total_num_replicas=len(workers))
        train = optimizer.minimize(loss, global_step=step)
    hooks = [optimizer.make_session_run_hook(is_chief),
             tf.train.StopAtStepHook(last_step=FLAGS.steps)]
    random = np.random.RandomState(10 + FLAGS.task_index)
    mine = 0
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=is_chief,
            checkpoint_dir=FLAGS.log_dir or None, hooks=hooks) as sess:
        while not sess.should_stop():
            a = random.normal(size=[16, 8]).astype(np.float32)
            _, value, now, found = sess.run(
                [train, loss, step, weights], {x: a, y: a.dot(WANTED)})
            mine += 1
    print("worker %d: %d of %d steps, loss %.6f, weights %s" % (
        FLAGS.task_index, mine, now, value,
        " ".join("%.4f" % one for one in found.ravel())))


if __name__ == "__main__":
    tf.app.run()
