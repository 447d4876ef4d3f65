"""Worker scripts of graph_test.py, one of them per word:

    python graph_claims.py WORD...

Each says `good ...` for what it has found.
"""
import contextlib
import os
import sys
import time

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import tf_events  # noqa: E402

v1 = tf.compat.v1
RANK = int(os.environ.get('PSD_RANK', '0'))
DATA = np.random.RandomState(1)


def batch(rows=8):
    return DATA.randn(rows, 4).astype('f'), DATA.randn(rows, 1).astype('f')


def net(rows=None):
    x = v1.placeholder(tf.float32, [rows, 4], 'x')
    y = v1.placeholder(tf.float32, [rows, 1], 'y')
    w = v1.get_variable('w', [4, 1])
    b = v1.get_variable('b', [1], initializer=v1.zeros_initializer())
    out = tf.matmul(x, w) + b
    return x, y, out, tf.reduce_mean(tf.square(out - y))


def session(threads=2):
    made = v1.Session(config=v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=threads))
    made.run(v1.global_variables_initializer())
    return made


def good(text):
    print('good', text, flush=True)


def order():
    """Late layers leave while earlier ones still compute."""
    from poseidon.tensorflow import core
    seen = {}

    def slow(layer):
        def call(grad):
            seen[layer] = time.monotonic_ns()
            time.sleep(0.05)
            return grad

        @tf.custom_gradient
        def pass_on(x):
            def back(grad):
                late = tf.numpy_function(call, [grad], tf.float32)
                late.set_shape(grad.shape)
                return late
            return tf.identity(x), back
        return pass_on

    x = v1.placeholder(tf.float32, [None, 8])
    out = x
    for layer in range(4):
        out = slow(layer)(tf.matmul(out, v1.get_variable('w%d' % layer,
                                                         [8, 8])))
    loss = tf.reduce_mean(tf.square(out))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    run = session()
    for _ in range(3):
        run.run(step, {x: np.ones([4, 8])})
    events = tf_events.events(core.plug())[-7:]
    pushed = [name for what, name, *_ in events if what == tf_events.PUSHED]
    assert [name for name in pushed if 'loss' not in name] == [
        'opt0/3', 'opt0/2', 'opt0/1', 'opt0/0'], events
    when = {name: ns for what, name, ns in events if what == tf_events.PUSHED}
    assert when['opt0/3'] < seen[1] and when['opt0/2'] < seen[0], (
        events, seen)
    good('order')


def quiet():
    """What is not applied is not exchanged, whoever runs it."""
    from poseidon.tensorflow import book, core
    x, y, _, loss = net()
    unused = tf.gradients(loss, v1.trainable_variables())
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    grads = optimizer.compute_gradients(loss)
    names = len(v1.get_default_graph().get_operations())
    step = optimizer.apply_gradients(grads)
    assert len(v1.get_default_graph().get_operations()) > names
    later = tf.norm(grads[0][0])     # made when all is in place
    name = book.of(v1.get_default_graph()).sites[0].name
    run = session()
    a, b = batch()
    run.run(step, {x: a, y: b})      # the same start
    for number in range(1, 4):
        a, b = batch()
        if RANK == 0:
            run.run([unused, later] + [grad for grad, _ in grads],
                    {x: a, y: b})
        before = run.run(grads[0][0], {x: a, y: b})
        assert core.plug().psd_tf_steps(name) == number
        _, grad, norm = run.run([step, grads[0][0], later], {x: a, y: b})
        # The gradient of all rows, not of this worker's.
        assert np.allclose(grad, before, rtol=1e-5), (grad, before)
        assert np.allclose(norm, np.linalg.norm(before), rtol=1e-5)
    call = run.make_callable(run.graph.get_operation_by_name('x').outputs[0],
                             [x])
    assert call(a).shape == a.shape
    exported = run.graph_def
    assert not any(node.op.startswith('Psd') or 'poseidon' in node.name
                   or any('poseidon' in name for name in node.input)
                   for node in exported.node)
    good('quiet')


def whole():
    """Batches that are not cut."""
    x, y, out, loss = net()
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    run = session()
    a, b = batch()
    assert run.run([step, out], {x: a, y: b})[1].shape == (8, 1)
    good('rows fetched')
    with tf.Graph().as_default():
        x, y, _, loss = net(8)
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        run = session()
        run.run(step, {x: a, y: b})
        good('fixed')
    with tf.Graph().as_default():
        x, y, _, loss = net()
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        run = session()
        for _ in range(2):
            run.run(step, {x: a + RANK, y: b})
        good('different')


def dealt():
    """Batches of a fixed size from tf.data: each worker has its own, and the
    data end for all in the same step."""
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices(
            np.arange(40, dtype=np.float32)[:, None])
        x = v1.data.make_one_shot_iterator(
            data.batch(8, drop_remainder=True)).get_next()
        w = v1.get_variable('w', [1, 1],
                            initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.matmul(x, w))    # its gradient: the mean
        step = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
        run = session()
        firsts = []
        try:
            while True:
                firsts.append(run.run([step, x])[1][0, 0])
        except tf.errors.OutOfRangeError:
            pass
        assert firsts == [8 * RANK, 16 + 8 * RANK], firsts
        assert np.allclose(run.run(w), -7.5 - 23.5), run.run(w)
    good('dealt')


def queues():
    """Batches from a queue, which ends earlier on one worker."""
    count = 40 if RANK == 0 else 24
    x, y = batch(40)
    one = v1.train.slice_input_producer(
        [tf.constant(x[:count]), tf.constant(y[:count])], num_epochs=1,
        shuffle=False)
    a, b = v1.train.batch(one, 8)
    w = v1.get_variable('w', [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(a, w) - b))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    steps = 0
    with v1.Session() as run:
        run.run([v1.global_variables_initializer(),
                 v1.local_variables_initializer()])
        coordinator = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(run, coordinator)
        try:
            while True:
                run.run(step)
                steps += 1
        except tf.errors.OutOfRangeError:
            coordinator.request_stop()
        coordinator.join(threads)
    assert steps == count // 8, steps
    good('queues')


def extra():
    """A variable that is there on one worker only."""
    x, y, _, loss = net()
    if RANK == 1:
        loss += tf.reduce_sum(v1.get_variable('z', [3]))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    a, b = batch()
    session().run(step, {x: a, y: b})


def nan():
    x, y, _, loss = net()
    count = v1.train.get_or_create_global_step()
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss, count)
    run = session()
    for number in range(4):
        a, b = batch()
        if number == 2:
            a[7, 0] = float('nan')     # a row of worker 1
        run.run(step, {x: a, y: b})
    assert np.isfinite(run.run(v1.trainable_variables()[0])).all()
    good('nan')


def failing():
    """A run that fails before anything has left is made again; one that
    fails on one worker after its step ends the job."""
    bad = v1.placeholder_with_default(False, [])
    x = v1.placeholder(tf.float32, [None, 4])
    y = v1.placeholder(tf.float32, [None, 1])
    with tf.control_dependencies([v1.Assert(tf.logical_not(bad), ['bad'])]):
        data = tf.identity(x)    # nothing can leave without it
    out = tf.matmul(data, v1.get_variable('w', [4, 1]))
    loss = tf.reduce_mean(tf.square(out - y))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    late = v1.placeholder_with_default(False, [])
    with tf.control_dependencies([step]):
        end = v1.Assert(tf.logical_not(late), ['late'])
    run = session()
    for number in range(4):
        a, b = batch()
        if number == 1 or (number == 2 and RANK == 1):
            try:
                run.run(step, {x: a, y: b, bad: True})
            except tf.errors.InvalidArgumentError:
                good('failed %d' % number)
        run.run(end, {x: a, y: b})
    good('before')
    try:
        run.run(end, {x: a, y: b, late: RANK == 1})
    except tf.errors.InvalidArgumentError:
        good('late')
    run.run(end, {x: a, y: b})


def keras():
    """Keras of TensorFlow 1, which runs in sessions of its own."""
    layers = v1.keras.layers
    x = DATA.randn(32, 4)
    model = v1.keras.Sequential([
        layers.Dense(8, activation='relu', input_shape=(4,)),
        layers.BatchNormalization(), layers.Dense(1)])
    model.compile(v1.keras.optimizers.Adam(0.01), 'mse')
    history = model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=0,
                        shuffle=False).history
    judge = v1.keras.Sequential([layers.Dense(1, input_shape=(4,))])
    judge.compile(v1.keras.optimizers.SGD(0.1), 'mse')
    for _ in range(2):
        judge.train_on_batch(x, x.sum(1))
        model.train_on_batch(x, x.sum(1))
    good('keras %r %r' % (history['loss'], [
        value.tolist() for value in model.get_weights()[:4]
        + judge.get_weights()]))


def foreign():
    """A graph that comes with its training operations."""
    loss = net()[3]
    v1.train.GradientDescentOptimizer(0.1).minimize(loss, name='step')
    made = v1.train.export_meta_graph()
    with tf.Graph().as_default():
        v1.train.import_meta_graph(made)
        run = session()
        a, b = batch()
        good('loss %d' % bool(run.run('Mean:0', {'x:0': a, 'y:0': b})))
        run.run('step', {'x:0': a, 'y:0': b})


def functions():
    """An optimizer of compat.v1 eagerly and in a tf.function."""
    w = tf.Variable(tf.zeros([3]))
    table = tf.Variable(tf.zeros([6, 2]))
    optimizer = v1.train.GradientDescentOptimizer(1.0)

    def step():
        rows = tf.constant([RANK, 5])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * (RANK + 1.0)) + tf.reduce_sum(
                tf.gather(table, rows))
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, table]),
                                      [w, table]))

    step()
    assert np.allclose(w.numpy(), -1.5), w
    tf.function(step)()
    assert np.allclose(w.numpy(), -3.0), w
    # Rows 0 and 1 by half, row 5 by both halves, twice.
    assert np.allclose(table.numpy()[:, 0], [-1, -1, 0, 0, 0, -2]), table
    good('functions')


if __name__ == '__main__':
    if sys.argv[1] != 'functions':
        v1.disable_v2_behavior()
    for word in sys.argv[1:]:
        with tf.Graph().as_default() if word != 'functions' else (
                contextlib.nullcontext()):
            globals()[word]()
