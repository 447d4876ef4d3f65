"""A small problem without anything distributed: two vectors whose sum shall
become 100, found by gradient descent.

    python -m poseidon.tf1 plain.py [--steps N]
"""
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("steps", 60, "Steps of gradient descent.")
flags.DEFINE_float("rate", 0.1, "Learning rate.")
FLAGS = flags.FLAGS


def main(_):
    a = tf.Variable(tf.zeros([2]), name="a")
    b = tf.Variable(tf.ones([2]), name="b")
    total = tf.add(a, b)
    loss = tf.reduce_mean(tf.square(total - tf.constant(100.0, shape=[2])))
    optimizer = tf.train.GradientDescentOptimizer(FLAGS.rate)
    pairs = optimizer.compute_gradients(loss)
    train = optimizer.apply_gradients(pairs)
    sess = tf.Session()
    sess.run(tf.initialize_all_variables())
    for step in range(FLAGS.steps):
        _, value = sess.run([train, loss])
        if step % 20 == 0:
            print("step %d: loss %.4f" % (step, value))
    print("a + b = %s" % sess.run(total))
    sess.close()


if __name__ == "__main__":
    tf.app.run()
