#!/usr/bin/env python3
"""The TensorFlow ops on a real TensorFlow, two workers under psd_run:

    PYTHON tests/tf/ops_test.py --build DIR [PATTERN...]

PYTHON has TensorFlow (`tools/setup.sh tf --python`, or tf215). Importing it
takes seconds, so one job makes many claims.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import (  # noqa: E402
    Job, build, check, contains, keep, run_all, test)

LIMIT = 180.0  # of one job
PLUGIN = os.path.join(build, 'libposeidon_tf.so')


def script(text, code=0, workers=2, options=()):
    """Run a worker script; its first lines are those of every script."""
    head = ('import numpy as np\nimport psd_ops as P\n'
            'from psd_ops import tf, ops, rank, size\n')
    job = keep(Job('-n', str(workers), *options, '--', sys.executable,
                   'train.py', files={'train.py': head + text},
                   env={'PYTHONPATH': HERE, 'PSD_TEST_PLUGIN': PLUGIN,
                        'OMP_NUM_THREADS': '1', 'PSD_DISABLE': '1',
                        'TF_CPP_MIN_LOG_LEVEL': '3'}))
    job.wait(LIMIT)
    check(code is None or job.code == code, 'exit code %d, not %s\n%s%s'
          % (job.code, code, job.out, job.err))
    return job


VALUES = '''
import ctypes
import shutil
P.register('opt0', ('a', 'float32', 6), ('b', 'float64', 3),
           ('c', 'float16', 4), ('d', 'bfloat16', 4),
           ('e', 'float32', 2, P.SPARSE, 3), ('s', 'float32', 1))
P.register('values', ('w', 'float32', 6, P.VALUE), ('n', 'int64', 1, P.VALUE),
           ('f', 'bool', 3, P.VALUE))
KEYS = ['a', 'b', 'c', 'd', 'e', 's']
ON = tf.constant(True)


def exchange(a, values, indices, on, weight, mode, op='step'):
    push = dict(enabled=on, weight=weight, mode=mode, op=op)
    b = tf.cast(tf.reshape(a, [-1])[:3], tf.float64) * 3
    c = tf.cast(tf.reshape(a, [-1])[:4], tf.float16)
    d = tf.cast(tf.reshape(a, [-1])[:4], tf.bfloat16)
    # The same tensor twice: it must not be written in place.
    outs = [ops.psd_push(a, key='a', **push),
            ops.psd_push(b, key='b', **push),
            ops.psd_push(c, key='c', **push),
            ops.psd_push(d, key='d', **push),
            ops.psd_push_sparse(values, indices, key='e', **push),
            ops.psd_push(tf.reduce_sum(a) * 1.0, key='s', **push)]
    outs, finite = ops.psd_wait(outs, on, True, group='opt0', keys=KEYS)
    all_values, all_indices = ops.psd_take_sparse(outs[4], indices, on,
                                                  key='e')
    return list(outs[:4]) + [all_values, all_indices, outs[5], finite, a]


def inputs():
    a = np.full([2, 3], rank + 1, np.float32)
    rows = 5 * rank + 1
    return (a, np.full([rows, 2], rank + 1, np.float32),
            np.arange(rows, dtype=np.int64) + 100 * rank)


def judge(name, out, share):
    mean = share * 1 + (1 - share) * 2
    a, b, c, d, values, indices, total, finite, same = [np.asarray(x)
                                                      for x in out]
    assert a.shape == (2, 3) and (a == mean).all(), (name, a)
    assert (b == 3 * mean).all() and b.dtype == np.float64, (name, b)
    assert (c == mean).all() and c.dtype == np.float16, (name, c)
    assert (d.astype(np.float32) == mean).all(), (name, d)
    assert total == 6 * mean, (name, total)
    assert list(indices) == [0] + list(range(100, 106)), (name, indices)
    assert values.shape == (7, 2), (name, values)
    assert (values[0] == 1 * share).all(), (name, values)
    assert (values[1:] == 2 * (1 - share)).all(), (name, values)
    assert (same == rank + 1).all(), (name, same)
    assert finite, name
    print('good', name, flush=True)


minus = P.step_weight()
for i in range(2):
    judge('eager', exchange(*map(tf.constant, inputs()), ON, minus, 'eager'),
          0.5)


@tf.function
def function(a, values, indices, weight):
    return exchange(a * 1.0, values * 1.0, indices, ON, weight, 'graph')


for i in range(3):
    judge('function', function(*map(tf.constant, inputs()), minus), 0.5)
one = tf.constant(1.0, tf.float64)
three = tf.constant(3.0, tf.float64)
judge('weight as a tensor', function(*map(tf.constant, inputs()),
                                     [three, one][rank]), 0.75)
P.good(P.plug.psd_tf_step(1.0 if rank == 0 else 3.0, P.MEAN))
judge('weight before the run', function(*map(tf.constant, inputs()), minus),
      0.25)
P.good(P.plug.psd_tf_step(1.0, P.MEAN))

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    on = tf.compat.v1.placeholder_with_default(False, [])
    feeds = [tf.compat.v1.placeholder(tf.float32, [2, 3]),
             tf.compat.v1.placeholder(tf.float32, [None, 2]),
             tf.compat.v1.placeholder(tf.int64, [None])]
    outs = exchange(feeds[0] * 1.0, feeds[1], feeds[2], on,
                    P.step_weight(), 'graph')
    fed = dict(zip(feeds, inputs()))
    before = P.plug.psd_tf_steps(b'opt0')
    if rank == 0:  # alone: nothing is exchanged
        out = session.run(outs, fed)
        assert (out[0] == 1).all() and out[4].shape == (1, 2), out
    assert P.plug.psd_tf_steps(b'opt0') == before
    for i in range(3):
        judge('session', session.run(outs, {**fed, on: True}), 0.5)
    # What every worker has is what rank 0 has.
    w = tf.compat.v1.get_variable('w', initializer=tf.ones([6]) * (rank + 7))
    n = tf.compat.v1.get_variable('n', initializer=tf.constant(
        rank + 40, tf.int64))
    f = tf.constant([True, rank == 0, False])
    sent = ops.psd_broadcast([w, n, f], keys=['w', 'n', 'f'])
    assign = [w.assign(sent[0]), n.assign(sent[1])]
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(assign)
    assert (session.run(w) == 7).all() and session.run(n) == 40
    assert session.run(sent[2]).tolist() == [True, True, False]
    print('good broadcast', flush=True)

copy = 'copy%d.so' % rank
shutil.copy(P.PLUGIN, copy)
assert not hasattr(tf.load_op_library('./' + copy), 'psd_push')
copy = ctypes.CDLL('./' + copy)
copy.psd_tf_ready.restype = ctypes.c_char_p
print('good', copy.psd_tf_ready().decode(), flush=True)
judge('eager', exchange(*map(tf.constant, inputs()), ON, minus, 'eager'), 0.5)
P.finish()
'''


@test
def values_are_right_in_eager_functions_and_sessions():
    job = script(VALUES)
    for rank in range(2):
        out = job.log('worker_%d.out' % rank)
        for name in ('eager', 'function', 'weight as a tensor',
                     'weight before the run', 'session', 'broadcast',
                     'a second copy of the TensorFlow ops'):
            contains(out, 'good ' + name)


ORDER = '''
import time
P.register('opt0', *[('g%d' % k, 'float32', 4) for k in range(4)])
ON, W = tf.constant(True), P.step_weight()
seen = {}


def layer(k):
    """The backward of layer k: slow, and says when it began."""
    def call(x):
        seen[k] = time.monotonic_ns()
        time.sleep(0.05)
        return x + np.float32(1)
    return call


def backward(x, reverse):
    grads = [None] * 4
    outs = [None] * 4
    on, weight = tf.constant(True), P.step_weight()
    for k in reversed(range(4)):
        x = tf.ensure_shape(tf.numpy_function(layer(k), [x], tf.float32), [4])
        grads[k] = x
        if reverse:
            outs[k] = ops.psd_push(x * 1.0, on, weight, key='g%d' % k)
    if not reverse:
        outs = [ops.psd_push(grads[k] * 1.0, on, weight, key='g%d' % k)
                for k in range(4)]
    outs, _ = ops.psd_wait(outs, on, on, group='opt0',
                           keys=['g%d' % k for k in range(4)])
    return outs


def judge(name, outs):
    for k in range(4):
        assert (np.asarray(outs[k]) == 4 - k).all(), (name, outs)
    events = P.events(6)
    order = [n for what, n, _ in events if what == 1]
    assert order == ['g3', 'g2', 'g1', 'g0'], (name, order)
    when = {n: ns for what, n, ns in events if what == 1}
    # The last layer's gradient has left before the first one's exists.
    assert when['g3'] < seen[1] and when['g2'] < seen[0], (name, when, seen)
    print('good', name, flush=True)


@tf.function
def function(x):
    return backward(x, True)


for i in range(2):
    judge('function', function(tf.zeros([4])))
with tf.Graph().as_default():
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=2)
    with tf.compat.v1.Session(config=config) as session:
        outs = backward(tf.zeros([4]), False)
        for i in range(2):
            judge('session', session.run(outs))
'''


TWO = '''
import threading
P.register('opt2', ('a', 'float32', 4))
P.register('opt3', ('b', 'float32', 4))


v1 = tf.compat.v1
with tf.Graph().as_default():
    config = v1.ConfigProto(inter_op_parallelism_threads=1)
    with v1.Session(config=config) as session:
        # On each rank another gradient comes late, by an op that holds no
        # thread: without the chain rank 0 would wait for b, rank 1 for a.
        queue = tf.queue.FIFOQueue(1, [tf.float32], shapes=[[4]])
        put = queue.enqueue(tf.ones([4]))
        on, weight = tf.constant(True), P.step_weight()
        x, y = queue.dequeue(), tf.ones([4])
        if rank == 1:
            x, y = y, x

        def run(*args):
            own = v1.RunOptions(inter_op_thread_pool=-1)  # not the pool's
            late = threading.Timer(0.02, session.run, [put],
                                   dict(options=own))
            late.start()
            out = session.run(*args)
            late.join()
            return out

        a = ops.psd_push(x * 1.0, on, weight, key='a')
        b = ops.psd_push(y * 2.0, on, weight, key='b')
        (a,), finite = ops.psd_wait([a], on, on, group='opt2', keys=['a'])
        between = tf.identity(finite)
        (b,), _ = ops.psd_wait([b], on, between, group='opt3', keys=['b'])
        for i in range(20):
            out = run([a, b])
            assert out[0][0] == 1 and out[1][0] == 2, out
        print('good both', flush=True)
        for i in range(3):
            if rank == 1:
                session.run(put)
            assert session.run(b, {between: True})[0] == 2
        assert P.plug.psd_tf_steps(b'opt2') == 20
        assert P.plug.psd_tf_steps(b'opt3') == 23
        assert P.pushed(9) == ['b', 'b', 'b'], P.events(9)
        print('good one', flush=True)
P.finish()
'''


@test
def late_layers_leave_first_and_two_optimizers_share_a_thread():
    job = script(ORDER + TWO)
    contains(job.log('worker_1.out'), 'good function', 'good session',
             'good both', 'good one')


FAILING = '''
P.register('opt0', ('a', 'float32', 4), ('b', 'float32', 4))
ON, W = tf.constant(True), P.step_weight()
v1 = tf.compat.v1

with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.float32)
    bad = v1.placeholder_with_default(False, [])
    queue = tf.queue.FIFOQueue(10, [tf.float32], shapes=[[4]])
    put = queue.enqueue(tf.ones([4]) * (rank + 1))
    on, weight = tf.constant(True), P.step_weight()
    a = ops.psd_push(x * 1.0, on, weight, key='a')
    with tf.control_dependencies([a, v1.Assert(tf.logical_not(bad), [x])]):
        g = queue.dequeue() * 1.0
    b = ops.psd_push(g, on, weight, key='b')
    (a, b), _ = ops.psd_wait([a, b], on, on, group='opt0', keys=['a', 'b'])
    ones = np.full([4], rank + 1, np.float32)

    def step():
        session.run(put)
        out = session.run([a, b], {x: ones})
        assert (out[0] == 1.5).all() and (out[1] == 1.5).all(), out

    step()
    try:
        session.run([a, b], {x: ones[:3]})
        assert False
    except tf.errors.InvalidArgumentError as error:
        assert 'poseidon: key a comes with 12 bytes' in str(error), error
    step()
    print('good refused', flush=True)
    # The queue is empty: a has left, b never comes, the run times out.
    for i in range(2):
        try:
            session.run([a, b], {x: ones * 100},
                        options=v1.RunOptions(timeout_in_ms=300))
            assert False
        except tf.errors.DeadlineExceededError:
            pass
        step()
    assert P.plug.psd_tf_steps(b'opt0') == 4
    print('good cancelled', flush=True)
    try:
        session.run([a, b], {x: ones * 100, bad: True})
        assert False
    except tf.errors.InvalidArgumentError as error:
        assert 'assertion failed' in str(error), error
    step()
    print('good failed', flush=True)
    step()
    if rank == 1:
        try:
            session.run([a, b], {x: ones * 100, bad: True})
        except tf.errors.InvalidArgumentError:
            print('caught', flush=True)
    try:
        step()
        step()
    except tf.errors.OpError as error:
        print(type(error).__name__, error.message, flush=True)
        raise
'''


@test
def a_run_that_fails_everywhere_leaves_nothing_and_on_one_ends_the_job():
    job = script(FAILING, code=None)
    check(job.code != 0, 'the job ended well')
    contains(job.err, 'the run of worker 1 ended in the middle of step 6')
    for rank in range(2):
        contains(job.log('worker_%d.out' % rank), 'good refused',
                 'good cancelled', 'good failed', 'InternalError', 'poseidon: ', 'the run of worker 1')


LOST = '''
import os
P.register('opt0', ('a', 'float32', 4))
ON, W = tf.constant(True), P.step_weight()


@tf.function(autograph=False)
def step(x):
    out = ops.psd_push(x * 1.0, ON, W, key='a')
    (out,), _ = ops.psd_wait([out], ON, ON, group='opt0', keys=['a'])
    return out


step(tf.ones([4]))
if rank == 1:
    os._exit(7)
try:
    step(tf.ones([4]))
except tf.errors.InternalError as error:
    print('good', error.message, flush=True)
    raise
'''


ARENA = '''
COUNT = 1 << 18
P.register('large', ('g', 'float32', COUNT))


def in_arena(tensor):
    address = np.asarray(tensor).ctypes.data
    with open('/proc/self/maps') as maps:
        for line in maps:
            low, high = (int(x, 16) for x in line.split()[0].split('-'))
            if low <= address < high:
                return 'memfd:psd-arena' in line
    return False


@tf.function
def step(x):
    push = ops.psd_push(x * 2.0, True, P.step_weight(), key='g')
    return ops.psd_wait([push], True, True, group='large', keys=['g'])[0][0]


small = tf.fill([16], 1.0)
assert not in_arena(small)
for i in range(3):
    x = tf.fill([COUNT], float(rank + i))
    assert in_arena(x)
    out = step(x)
    assert in_arena(out)
    assert (np.asarray(out) == (size - 1) + 2 * i).all()
    assert (np.asarray(x) == rank + i).all()
kept = out
P.finish()
assert (np.asarray(kept) == size + 3).all()
print('fine')
'''


@test
def large_tensors_lie_where_other_workers_reach_them():
    job = script(ARENA)
    for rank in (0, 1):
        contains(job.log('worker_%d.out' % rank), 'fine')


@test
def a_lost_worker_is_an_error_of_tensorflow():
    job = script(LOST, code=7)
    contains(job.log('worker_0.out'), 'good', 'poseidon: ')


def main():
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
