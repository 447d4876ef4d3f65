"""Training in sessions, for graph_test.py: each case is a script in small.

    python graph_cases.py [--float64] [--steps N] [CASE...]

Prints one line of JSON for each: the losses that training runs fetched, the
losses of the whole batch after every tenth step, and a digest of all
variables in the end.
"""
import hashlib
import json
import os
import sys
import tempfile
import threading

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_v2_behavior()
CASES = {}
STEPS = 50
FLOAT = np.float32


def case(function):
    CASES[function.__name__] = function
    return function


def batches(rows, *shape, classes=10, seed=7):
    """The same on every worker."""
    random = np.random.RandomState(seed)
    centre = random.randn(classes, *shape)
    while True:
        label = random.randint(classes, size=rows)
        noise = random.randn(rows, *shape)
        yield (centre[label] + 0.5 * noise).astype(FLOAT), label


def config():
    return v1.ConfigProto(intra_op_parallelism_threads=1,
                          inter_op_parallelism_threads=2)


def digest(session):
    total = hashlib.sha256()
    for value in session.run(v1.global_variables()):
        total.update(np.ascontiguousarray(value).tobytes())
    return total.hexdigest()


def weights(name, shape, scale=0.1, **words):
    return v1.get_variable(name, shape, FLOAT,
                           v1.truncated_normal_initializer(stddev=scale),
                           **words)


def dense(x, size, name, **words):
    w = weights(name + '/w', [x.shape.as_list()[1], size], **words)
    b = v1.get_variable(name + '/b', [size], FLOAT,
                        v1.zeros_initializer(), **words)
    return tf.matmul(x, w) + b


def entropy(logits, label):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=label, logits=logits)


def train(step, loss, feed, data, evaluated=None, steps=None, target=''):
    """The usual loop: a run of step and loss, now and then an evaluation."""
    seen, whole = [], []
    with v1.Session(target, config=config()) as session:
        session.run(v1.global_variables_initializer())
        session.graph.finalize()    # nothing of ours may be added from here
        for number in range(steps or STEPS):
            values = feed(*next(data))
            seen.append(float(session.run([step, loss], values)[1]))
            if number % 10 == 9:
                whole.append(float(session.run(
                    loss if evaluated is None else evaluated, values)))
        return seen, whole, digest(session)


def inputs(*shape):
    x = v1.placeholder(FLOAT, [None, *shape], 'x')
    y = v1.placeholder(tf.int64, [None], 'y')
    return x, y, lambda a, b: {x: a, y: b}


def mlp(optimizer, resource, rows=32):
    x, y, feed = inputs(20)
    hidden = tf.nn.relu(dense(x, 32, 'one', use_resource=resource))
    loss = tf.reduce_mean(entropy(dense(hidden, 10, 'two',
                                        use_resource=resource), y))
    return train(optimizer.minimize(loss), loss, feed, batches(rows, 20))


@case
def mlp_ref():
    return mlp(v1.train.AdamOptimizer(0.01), False)


@case
def local_server():
    """A cluster of one is a script of one machine."""
    x, y, feed = inputs(20)
    server = v1.train.Server.create_local_server()
    loss = tf.reduce_mean(entropy(dense(x, 10, 'only'), y))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return train(step, loss, feed, batches(32, 20), target=server.target)


@case
def mlp_resource():
    return mlp(v1.train.MomentumOptimizer(0.05, 0.9), True, rows=33)


@case
def conv():
    """Deep MNIST: two convolutions, dropout switched off by a feed."""
    x, y, _ = inputs(12 * 12)
    keep = v1.placeholder(FLOAT, name='keep')
    image = tf.reshape(x, [-1, 12, 12, 1])
    for number, (size, channels) in enumerate(((1, 8), (8, 16))):
        kernel = weights('conv%d' % number, [5, 5, size, channels])
        bias = v1.get_variable('bias%d' % number, [channels], FLOAT,
                               v1.constant_initializer(0.1))
        image = tf.nn.relu(tf.nn.conv2d(image, kernel, [1, 1, 1, 1],
                                        'SAME') + bias)
        image = tf.nn.max_pool2d(image, 2, 2, 'SAME')
    flat = tf.reshape(image, [-1, 3 * 3 * 16])
    hidden = tf.nn.relu(dense(flat, 64, 'full'))
    hidden = v1.nn.dropout(hidden, keep_prob=keep)
    loss = tf.reduce_mean(entropy(dense(hidden, 10, 'out'), y))
    step = v1.train.AdamOptimizer(1e-3).minimize(loss)
    return train(step, loss, lambda a, b: {x: a, y: b, keep: 1.0},
                 batches(20, 12 * 12))


@case
def tutorial():
    """CIFAR-10 in the tutorial's manner: decay of weights, a moving average,
    histograms of gradients, a learning rate that falls."""
    x, y, feed = inputs(8, 8, 3)
    kernel = weights('conv', [3, 3, 3, 8])
    net = tf.nn.relu(tf.nn.conv2d(x, kernel, [1, 2, 2, 1], 'SAME'))
    if FLOAT is np.float32:   # there is no other
        net = tf.nn.lrn(net, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
    flat = tf.reshape(net, [-1, 4 * 4 * 8])
    w = weights('local', [4 * 4 * 8, 24])
    v1.add_to_collection('losses', 0.004 * tf.nn.l2_loss(w))
    logits = dense(tf.nn.relu(tf.matmul(flat, w)), 10, 'softmax')
    mean = tf.reduce_mean(entropy(logits, y))
    v1.add_to_collection('losses', mean)
    loss = tf.add_n(v1.get_collection('losses'))
    count = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.1, count, 20, 0.5, staircase=True)
    losses = tf.train.ExponentialMovingAverage(0.9, name='avg')
    with tf.control_dependencies([losses.apply([mean, loss])]):
        optimizer = v1.train.GradientDescentOptimizer(rate)
        grads = optimizer.compute_gradients(loss)
    applied = optimizer.apply_gradients(grads, global_step=count)
    for grad, variable in grads:   # after they are applied
        if grad is not None:
            v1.summary.histogram(variable.op.name + '/gradients', grad)
    averages = tf.train.ExponentialMovingAverage(0.99, count)
    with tf.control_dependencies([applied]):
        step = averages.apply(v1.trainable_variables())
    summaries = v1.summary.merge_all()
    data, seen, whole = batches(16, 8, 8, 3), [], []
    rank = int(os.environ.get('PSD_RANK', '0'))
    with v1.Session(config=config()) as session:
        session.run(v1.global_variables_initializer())
        for number in range(STEPS):
            values = feed(*next(data))
            _, one, two = session.run([step, loss, mean], values)
            seen.extend([float(one), float(two)])
            if number % 10 == 9:
                whole.append(float(session.run(loss, values)))
                if rank == 0:   # alone: nobody waits for it
                    session.run(summaries, values)
        local = [v.op.name for v in v1.global_variables()
                 if v.op.name.endswith('/avg')]
        # Moving averages of a loss are of this worker's rows.
        total = hashlib.sha256()
        for variable in v1.global_variables():
            if variable.op.name not in local:
                total.update(session.run(variable).tobytes())
        return seen, whole, total.hexdigest()


@case
def embedding():
    """Rows of a table, some of them twice: IndexedSlices stay sparse."""
    word = v1.placeholder(tf.int32, [None, 3])
    y = v1.placeholder(tf.int64, [None])
    table = weights('table', [50, 8])
    flat = tf.reshape(tf.nn.embedding_lookup(table, word), [-1, 24])
    loss = tf.reduce_mean(entropy(dense(flat, 10, 'out'), y))
    optimizer = v1.train.AdagradOptimizer(0.1)
    grads = optimizer.compute_gradients(loss)
    assert any(isinstance(g, tf.IndexedSlices) for g, _ in grads)
    step = optimizer.apply_gradients(grads)
    random = np.random.RandomState(3)

    def data():
        while True:
            yield (random.randint(50, size=(16, 3)),
                   random.randint(10, size=16))
    return train(step, loss, lambda a, b: {word: a, y: b}, data())


@case
def clipped():
    """tf.gradients, a global norm over dense and sparse ones, applied."""
    word = v1.placeholder(tf.int32, [None])
    x, y, _ = inputs(12)
    table = weights('table', [30, 12], 1.0)
    hidden = x + tf.nn.embedding_lookup(table, word)
    hidden = tf.tanh(dense(hidden, 24, 'one'))
    loss = tf.reduce_mean(entropy(dense(hidden, 10, 'two'), y))
    variables = v1.trainable_variables()
    grads, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.1)
    step = v1.train.GradientDescentOptimizer(1.0).apply_gradients(
        zip(grads, variables))
    random = np.random.RandomState(4)
    step = tf.group(step, norm)
    return train(step, loss, lambda a, b: {
        x: a, y: b, word: random.randint(30, size=len(b))}, batches(16, 12))


@case
def summed():
    """The loss of the first tutorials: a sum over the batch."""
    x, _, _ = inputs(20)
    y = v1.placeholder(FLOAT, [None, 10])
    guess = tf.nn.softmax(dense(x, 10, 'out'))
    loss = -tf.reduce_sum(y * tf.math.log(guess + 1e-6))
    step = v1.train.GradientDescentOptimizer(0.002).minimize(loss)
    one = np.eye(10, dtype=FLOAT)
    return train(step, loss, lambda a, b: {x: a, y: one[b]}, batches(24, 20))


@case
def two_optimizers():
    """Two parts of a model with an optimizer each, in one run, and at times
    only the second."""
    x, y, feed = inputs(20)
    with v1.variable_scope('body'):
        hidden = tf.nn.relu(dense(x, 24, 'one', use_resource=True))
    with v1.variable_scope('head'):   # read before the other one changes it
        loss = tf.reduce_mean(entropy(
            dense(hidden, 10, 'two', use_resource=True), y))
    body = v1.train.AdamOptimizer(0.01).minimize(
        loss, var_list=v1.trainable_variables('body'))
    head = v1.train.GradientDescentOptimizer(0.1).minimize(
        loss, var_list=v1.trainable_variables('head'))
    data, seen, whole = batches(16, 20), [], []
    with v1.Session(config=v1.ConfigProto(
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=1)) as session:
        session.run(v1.global_variables_initializer())
        for number in range(STEPS):
            values = feed(*next(data))
            steps = [[body, head], [head], [body]][number % 3]
            seen.append(float(session.run([steps, loss], values)[1]))
            if number % 10 == 9:
                whole.append(float(session.run(loss, values)))
        return seen, whole, digest(session)


@case
def gan():
    """Two losses, two optimizers, runs in turn."""
    real = v1.placeholder(FLOAT, [None, 8])
    noise = v1.placeholder(FLOAT, [None, 4])

    def judge(x):
        with v1.variable_scope('judge', reuse=v1.AUTO_REUSE):
            return dense(tf.tanh(dense(x, 16, 'one')), 1, 'two')

    with v1.variable_scope('maker'):
        made = dense(tf.tanh(dense(noise, 16, 'one')), 8, 'two')
    good, bad = judge(real), judge(made)
    entropies = tf.nn.sigmoid_cross_entropy_with_logits
    judged = tf.reduce_mean(
        entropies(labels=tf.ones_like(good), logits=good)
        + entropies(labels=tf.zeros_like(bad), logits=bad))
    fooled = tf.reduce_mean(entropies(labels=tf.ones_like(bad), logits=bad))
    one = v1.train.AdamOptimizer(0.01).minimize(
        judged, var_list=v1.trainable_variables('judge'))
    two = v1.train.AdamOptimizer(0.01).minimize(
        fooled, var_list=v1.trainable_variables('maker'))
    random, seen, whole = np.random.RandomState(5), [], []
    with v1.Session(config=config()) as session:
        session.run(v1.global_variables_initializer())
        for number in range(STEPS):
            values = {real: random.randn(12, 8), noise: random.randn(12, 4)}
            seen.append(float(session.run([one, judged], values)[1]))
            seen.append(float(session.run(
                [two, fooled], {noise: values[noise]})[1]))
            if number % 10 == 9:
                whole.append(float(session.run(judged, values)))
        return seen, whole, digest(session)


@case
def own_optimizer():
    """A class of the script's with an apply_gradients of its own, which is
    given clipped gradients; a MonitoredSession runs it."""
    class Decayed(v1.train.Optimizer):
        def __init__(self):
            super().__init__(False, 'Decayed')

        def apply_gradients(self, grads_and_vars, global_step=None,
                            name=None):
            steps = [variable.assign_sub(0.1 * (grad + 0.01 * variable))
                     for grad, variable in grads_and_vars]
            return tf.group(*steps, global_step.assign_add(1), name=name)

    x, y, feed = inputs(20)
    loss = tf.reduce_mean(entropy(dense(x, 10, 'out'), y))
    variables = v1.trainable_variables()
    grads = [tf.clip_by_value(grad, -0.01, 0.01)
             for grad in tf.gradients(loss, variables)]
    count = v1.train.get_or_create_global_step()
    step = Decayed().apply_gradients(zip(grads, variables), count)
    data, seen, whole = batches(16, 20), [], []
    hooks = [v1.train.StopAtStepHook(STEPS), v1.train.NanTensorHook(loss)]
    with v1.train.MonitoredTrainingSession(
            hooks=hooks, config=config()) as session:
        while not session.should_stop():
            values = feed(*next(data))
            seen.append(float(session.run([step, loss], values)[1]))
            if len(seen) % 10 == 0 and len(seen) < STEPS:
                whole.append(float(session.run(loss, values)))
                last = session.run(variables, values)
    return seen, whole, hashlib.sha256(
        b''.join(value.tobytes() for value in last)).hexdigest()


@case
def iterator():
    """tf.data in the graph, epochs with a short last batch."""
    x, y = next(batches(70, 20, seed=9))
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(70, seed=5)
    rows = v1.data.make_initializable_iterator(data.batch(16))
    a, b = rows.get_next()
    logits = dense(a, 10, 'out')
    loss = tf.reduce_mean(entropy(logits, b))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    right = tf.reduce_mean(tf.cast(tf.equal(   # made after the optimizer
        tf.argmax(logits, 1), b), tf.float32))
    seen, whole = [], []
    with v1.Session(config=config()) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS // 10):
            session.run(rows.initializer)
            whole.append(float(session.run(loss)))
            while True:
                try:
                    seen.append(float(session.run([step, right, loss])[2]))
                except tf.errors.OutOfRangeError:
                    break
        return seen, whole, digest(session)


@case
def fixed_inside():
    """The feeds are open, a shape inside is not: the batch stays whole."""
    x, y, feed = inputs(20)
    flat = tf.reshape(tf.reshape(x, [16, 4, 5]), [16, 20])
    loss = tf.reduce_mean(entropy(dense(flat, 10, 'out'), y))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return train(step, loss, feed, batches(16, 20))


@case
def accumulated():
    """Gradients are added up in variables, every second time applied."""
    x, y, feed = inputs(20)
    loss = tf.reduce_mean(entropy(dense(x, 10, 'out'), y))
    optimizer = v1.train.AdamOptimizer(0.01)
    grads = optimizer.compute_gradients(loss)
    sums = [v1.get_variable('sum%d' % at, variable.shape, FLOAT,
                            v1.zeros_initializer(), trainable=False)
            for at, (_, variable) in enumerate(grads)]
    add = [total.assign_add(grad) for total, (grad, _) in zip(sums, grads)]
    zero = [total.assign(tf.zeros_like(total)) for total in sums]
    step = optimizer.apply_gradients(
        [(total / 2, variable) for total, (_, variable) in zip(sums, grads)])
    data, seen = batches(16, 20), []
    with v1.Session(config=config()) as session:
        session.run(v1.global_variables_initializer())
        for number in range(STEPS):
            seen.append(float(session.run([add, loss], feed(*next(data)))[1]))
            if number % 2:
                session.run(step)
                session.run(zero)
        return seen, seen[::10], digest(session)


@case
def restored():
    """A checkpoint is read in the middle; callables; gradients fetched."""
    x, y, feed = inputs(20)
    loss = tf.reduce_mean(entropy(dense(x, 10, 'out'), y))
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    grads = optimizer.compute_gradients(loss)
    step = optimizer.apply_gradients(grads)
    saver = v1.train.Saver()
    data, seen, whole = batches(16, 20), [], []
    with v1.Session(config=config()) as session, (
            tempfile.TemporaryDirectory()) as folder:
        session.run(v1.global_variables_initializer())
        run = session.make_callable([step, loss, grads[0][0]], [x, y])
        for number in range(STEPS):
            a, b = next(data)
            _, value, grad = run(a, b)
            seen.append(float(value))
            if number == STEPS // 3:
                saver.save(session, folder + '/model')
            if number == STEPS // 2:
                session.run(v1.global_variables_initializer())
                saver.restore(session, folder + '/model')
            if number % 10 == 9:
                whole.append(float(np.abs(grad).sum()))
        return seen, whole, digest(session)


@case
def recurrent():
    """A loop in the graph, its gradients clipped; trained in a thread.

    Gated, as optimizers have it: alone, TensorFlow may otherwise change a
    variable while gradients of others are still made from it."""
    x, y, feed = inputs(5, 4)
    w = weights('w', [4 + 12, 12], 0.3)

    def turn(at, state):
        both = tf.concat([x[:, at], state], 1)
        return at + 1, tf.tanh(tf.matmul(both, w))

    start = tf.zeros([tf.shape(x)[0], 12], FLOAT)
    _, state = tf.while_loop(lambda at, _: at < 5, turn, [0, start],
                             shape_invariants=[tf.TensorShape([]),
                                               tf.TensorShape([None, 12])])
    loss = tf.reduce_mean(entropy(dense(state, 10, 'out'), y))
    variables = v1.trainable_variables()
    grads = [tf.clip_by_norm(grad, 0.3)
             for grad in tf.gradients(loss, variables, gate_gradients=True)]
    step = v1.train.RMSPropOptimizer(0.01).apply_gradients(
        zip(grads, variables))
    found = []
    graph = v1.get_default_graph()

    def work():
        with graph.as_default():
            found.append(train(step, loss, feed, batches(16, 5, 4)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


@case
def towers():
    """Two parts of a batch, each with its own gradients, averaged."""
    x, y, feed = inputs(20)
    optimizer, grads = v1.train.GradientDescentOptimizer(0.1), []
    half = tf.shape(x)[0] // 2
    total = []
    for part in (slice(None, half), slice(half, None)):
        with v1.variable_scope('net', reuse=v1.AUTO_REUSE):
            loss = tf.reduce_mean(entropy(dense(x[part], 10, 'out'),
                                          y[part]))
        total.append(loss)
        grads.append(optimizer.compute_gradients(loss))
    mean = [(tf.reduce_mean(tf.stack([one[0], two[0]]), 0), one[1])
            for one, two in zip(*grads)]
    step = optimizer.apply_gradients(mean)
    # Numbers that are made of losses are of this worker's rows.
    _, whole, bits = train(step, tf.add_n(total) / 2, feed, batches(16, 20))
    return whole, whole, bits


@case
def statistics():
    """Moving means of inputs, as batch normalisation keeps them: gradients
    wait for them, all workers have the mean of all rows."""
    x, y, feed = inputs(20)
    with v1.variable_scope('norm'):
        mean = v1.get_variable('mean', [20], FLOAT, v1.zeros_initializer(),
                               trainable=False, use_resource=True)
        square = v1.get_variable('square', [20], FLOAT,
                                 v1.ones_initializer(), trainable=False,
                                 use_resource=False)
    for old, new in ((mean, tf.reduce_mean(x, 0)),
                     (square, tf.reduce_mean(x * x, 0))):
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS,
                             v1.assign_sub(old, 0.1 * (old - new)))
    loss = tf.reduce_mean(entropy(dense(x, 10, 'out'), y))
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    data, seen, whole = batches(17, 20), [], []
    with v1.Session(config=v1.ConfigProto(
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=1)) as session:
        session.run(v1.global_variables_initializer())
        for number in range(STEPS):
            values = feed(*next(data))
            seen.append(float(session.run([step, loss], values)[1]))
            if number % 10 == 9:
                whole.extend(map(float, session.run(mean)[:4]))
                whole.extend(map(float, session.run(square)[:4]))
        return seen, whole, digest(session)


def main(words):
    global FLOAT, STEPS
    if '--float64' in words:
        words.remove('--float64')
        FLOAT = np.float64
    if '--steps' in words:
        at = words.index('--steps')
        STEPS = int(words[at + 1])
        del words[at:at + 2]
    for name in words or CASES:
        with tf.Graph().as_default():
            v1.set_random_seed(11)
            np.random.seed(11)
            seen, whole, bits = CASES[name]()
        print(json.dumps({'case': name, 'seen': seen, 'whole': whole,
                          'bits': bits}), flush=True)


if __name__ == '__main__':
    main(sys.argv[1:])
