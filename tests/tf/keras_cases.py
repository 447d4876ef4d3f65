"""Trainings for keras_test.py: run plainly and in jobs, they print the same.

    PYTHON keras_cases.py CASE...

Each prints `CASE NAME {json}`: numbers of a plain run and of a job are the
same within rounding, "weights" (a checksum) is the same on every worker.
"""
import contextlib
import gc
import json
import os
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import keras  # noqa: E402
from keras_claims import CASES, case, checksum  # noqa: E402

KERAS = int(keras.__version__.split('.')[0])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(201, 12)).astype('float32')
Y = X[:, :3].argmax(1)
IMAGES = RNG.normal(size=(64, 12, 12, 1)).astype('float32')
LABELS = RNG.integers(0, 4, 64)
WORDS = RNG.integers(0, 50, (60, 7))
KINDS = (WORDS.sum(1) % 2).astype('float32')
CROSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def norm(model):
    return [float(np.square(weight.astype('float64')).sum())
            for weight in model.get_weights()]


def numbers(history):
    return {name: [float(value) for value in values]
            for name, values in history.history.items()}


def mlp(optimizer=None, dtype='float32', metrics=('accuracy',), **words):
    model = keras.Sequential([
        keras.layers.Dense(16, activation='relu', dtype=dtype),
        keras.layers.Dense(3, dtype=dtype)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(1e-2), loss=loss,
                  metrics=list(metrics), **words)
    return model


def result(model, **numbers_):
    return dict(numbers_, norm=norm(model), weights=checksum(model))


@case
def fit_arrays():
    """50 steps and more; the last batch of an epoch is a single row."""
    model = mlp()
    history = model.fit(X, Y, batch_size=40, epochs=9, verbose=0,
                        validation_split=0.2)
    return result(model, **numbers(history))


@case
def fit_double():
    keras.backend.set_floatx('float64')
    try:
        model = mlp(keras.optimizers.SGD(0.1, momentum=0.9), 'float64')
        history = model.fit(X.astype('float64'), Y, batch_size=40, epochs=9,
                            verbose=0)
    finally:
        keras.backend.set_floatx('float32')
    return result(model, **numbers(history))


@case
def fit_conv():
    """A data set, shuffled and augmented alike; batches of 16."""
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    data = data.shuffle(64).batch(16).prefetch(2)
    model = keras.Sequential([
        keras.layers.Conv2D(4, 3, activation='relu'),
        keras.layers.MaxPooling2D(), keras.layers.Flatten(),
        keras.layers.Dense(4)])
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=0.5),
                  loss=CROSS, metrics=['accuracy'])
    history = model.fit(data, epochs=13, verbose=0,
                        validation_data=data.take(1))
    return result(model, loss=history.history['loss'],
                  accuracy=history.history['accuracy'])


@case
def fit_embedding():
    """IndexedSlices stay sparse; RMSprop of Keras 3 asks for their shape."""
    model = keras.Sequential([
        keras.layers.Embedding(50, 8), keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1)])
    model.compile(keras.optimizers.RMSprop(1e-2), loss=(
        keras.losses.BinaryCrossentropy(from_logits=True)))
    history = model.fit(WORDS, KINDS, batch_size=12, epochs=10, verbose=0)
    push = sys.modules.get('poseidon.tensorflow.keras_push')
    if push is not None and push.sources():
        assert any(part[1] for key in push._known for part in key)
    return result(model, loss=history.history['loss'])


def batches(count=50, size=20):
    data = tf.data.Dataset.from_tensor_slices((X, Y))
    return data.repeat().shuffle(100).batch(size).take(count)


def loop(step, data):
    return [float(step(x, y)) for x, y in data]


def trainer(model, optimizer):
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = CROSS(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 0.5)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss
    return step


def whole_loss(model):
    return float(CROSS(Y, model(X, training=False)))


@contextlib.contextmanager
def uncollected():
    """What is in a circle lives on."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@case
def loop_eager():
    model = mlp()
    step = trainer(model, keras.optimizers.SGD(0.2, momentum=0.9))
    with uncollected():
        loop(step, batches(20))
        living = sum(isinstance(each, tf.data.Iterator)
                     for each in gc.get_objects())
    seen = sum(len(y) for _, y in batches(3))  # an evaluation
    return result(model, loss=whole_loss(model), seen=seen, living=living)


@case
def loop_function():
    model = mlp()
    data, step = batches(25), tf.function(trainer(
        model, keras.optimizers.Adam(1e-2)))
    for _ in range(2):
        loop(step, data)
    return result(model, loss=whole_loss(model))


@case
def loop_by_hand():
    """No optimizer; and gradients that go from one function to another."""
    weight = tf.Variable(tf.random.normal([12, 3]))
    momentum = tf.Variable(tf.zeros([12, 3]))

    @tf.function
    def gradient(x, y):
        with tf.GradientTape() as tape:
            loss = CROSS(y, x @ weight)
        return loss, tape.gradient(loss, weight)

    for x, y in batches():
        _, grad = gradient(x, y)
        momentum.assign(0.9 * momentum + grad)
        weight.assign_sub(0.1 * momentum)
    return dict(weight=weight.numpy().ravel().tolist(),
                weights=zlib.crc32(weight.numpy().tobytes()))


@case
def loop_inside():
    """The loop over the batches is in a function, too; the loss is a sum."""
    model, optimizer = mlp(), keras.optimizers.Adam(1e-2)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(20)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            rows = tf.nn.sparse_softmax_cross_entropy_with_logits(
                y, model(x, training=True))
            loss = tf.reduce_sum(rows) / 20
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    @tf.function
    def seen(trains):
        rows = 0
        for x, y in data:
            if trains:
                step(x, y)
            rows += tf.shape(x)[0]
        return rows

    model.build((None, 12))
    rows = [int(seen(True)) * int(os.environ.get('PSD_SIZE', 1))
            for _ in range(3)]
    for x, y in data:
        step(x, y)
    step(X, Y)
    return result(model, loss=whole_loss(model), whole=int(seen(False)),
                  parts=[abs(count - 201) < 20 for count in rows])


@case
def loop_vector():
    """Nothing takes the mean of the rows, so a gradient is their sum."""
    weight = tf.Variable(tf.zeros([12, 3]))
    for x, y in batches(8):
        with tf.GradientTape() as tape:
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
                y, x @ weight)
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
    return dict(weight=weight.numpy().ravel().tolist(),
                weights=zlib.crc32(weight.numpy().tobytes()))


@case
def loop_gan():
    """Two optimizers in one function, a gradient penalty in one of them."""
    maker = keras.Sequential([keras.layers.Dense(8, activation='relu'),
                              keras.layers.Dense(12)])
    judge = keras.Sequential([keras.layers.Dense(8, activation='tanh'),
                              keras.layers.Dense(1)])
    first, second = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-2)

    @tf.function
    def step(x):
        noise = x[:, :4] * 0.5
        with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
            fake = maker(noise, training=True)
            with tf.GradientTape() as inner:
                mixed = 0.5 * (x + fake)
                inner.watch(mixed)
                value = judge(mixed, training=True)
            slope = inner.gradient(value, mixed)
            penalty = tf.reduce_mean(tf.square(tf.norm(slope, axis=1) - 1))
            d_loss = (tf.reduce_mean(judge(fake)) - tf.reduce_mean(judge(x))
                      + 10 * penalty)
            g_loss = -tf.reduce_mean(judge(fake))
        first.apply_gradients(zip(
            g_tape.gradient(g_loss, maker.trainable_variables),
            maker.trainable_variables))
        second.apply_gradients(zip(
            d_tape.gradient(d_loss, judge.trainable_variables),
            judge.trainable_variables))

    for x, _ in batches(20):
        step(x)
    return dict(norm=norm(maker) + norm(judge),
                weights=[checksum(maker), checksum(judge)])


@case
def dropped():
    """Models one after another, which die earlier on one worker than on the
    others."""
    with uncollected():
        for _ in range(3):
            model = mlp()
            model.fit(X, Y, epochs=1, batch_size=40, verbose=0)
            if os.environ.get('PSD_RANK') == '1':
                gc.collect()
    return result(model)


@case
def loss_scale():
    """Overflows at first: all workers skip the same steps."""
    kind = (keras.optimizers if KERAS == 3
            else keras.mixed_precision).LossScaleOptimizer
    optimizer = kind(keras.optimizers.SGD(1e-3), initial_scale=2.0 ** 127,
                     dynamic_growth_steps=5)
    model = mlp(optimizer)
    history = model.fit(X[:200] * 30, Y[:200], batch_size=40, epochs=4,
                        verbose=0)
    scale = np.asarray(optimizer.dynamic_scale if KERAS == 3
                       else optimizer.loss_scale)
    # How often it overflows depends on the largest of the parts.
    assert 100 < np.log2(scale) < 127, scale
    assert history.history['loss'][-1] < history.history['loss'][0]
    return dict(weights=[checksum(model), float(scale)])


@case
def mixed_precision():
    keras.mixed_precision.set_global_policy('mixed_bfloat16')
    try:
        model = mlp(dtype=None)
        history = model.fit(X[:200], Y[:200], batch_size=40, epochs=3,
                            verbose=0)
    finally:
        keras.mixed_precision.set_global_policy('float32')
    return dict(rough=history.history['loss'], weights=checksum(model))


@case
def on_batch():
    model = mlp()
    losses = []
    for at in range(0, 201, 40):
        losses.append(float(model.train_on_batch(
            X[at:at + 40], Y[at:at + 40])[0]))
    last = model.train_on_batch(X[:40], Y[:40], return_dict=True)
    return result(model, losses=losses,
                  last=[float(last[name]) for name in sorted(last)])


@case
def fixed_rows():
    """A stateful layer has a state for each row of its batch."""
    given = keras.Input(batch_shape=(8, 4, 3))
    state = keras.layers.SimpleRNN(3, stateful=True)(given)
    model = keras.Model(given, keras.layers.Dense(1)(state))
    model.compile('sgd', 'mse')
    x, y = X[:64].reshape(64, 4, 3), X[:64, 0]
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
    model.train_on_batch(x[:8], y[:8])
    return dict(finite=bool(np.isfinite(norm(model)).all()),
                weights=zlib.crc32(b''.join(
                    np.ascontiguousarray(weight).tobytes()
                    for weight in model.trainable_weights)))


@case
def on_batch_sum():
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile(keras.optimizers.SGD(1e-2),
                  keras.losses.SparseCategoricalCrossentropy(
                      from_logits=True, reduction='sum'))
    told = [float(np.ravel(model.train_on_batch(
        X[at:at + 33], Y[at:at + 33]))[0]) for at in range(0, 199, 33)]
    return result(model, loss=whole_loss(model), told=told)


@case
def generators():
    def endless():
        at = 0
        while True:
            yield X[at:at + 20], Y[at:at + 20]
            at = (at + 20) % 180

    class Rows((keras.utils.PyDataset if KERAS == 3
                else keras.utils.Sequence)):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return X[index * 40:index * 40 + 40], Y[index * 40:index * 40 + 40]

    model = mlp()
    one = model.fit(endless(), steps_per_epoch=7, epochs=2, verbose=0)
    two = model.fit(Rows(), epochs=2, verbose=0, shuffle=False)
    return result(model, one=one.history['loss'], two=two.history['loss'])


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rates = []

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(np.asarray(self.model.optimizer.learning_rate)))


@case
def decisions():
    """Callbacks decide alike; only worker 0 writes."""
    model = mlp(keras.optimizers.SGD(0.5))
    model.build((None, 12))
    recorder, name = Recorder(), 'best.weights.h5'
    history = model.fit(
        X[:160], Y[:160], batch_size=40, epochs=12, verbose=1,
        validation_data=(X[160:], Y[160:]), callbacks=[
            keras.callbacks.ReduceLROnPlateau(patience=1, min_delta=0.05),
            keras.callbacks.EarlyStopping(patience=4, min_delta=0.05,
                                          restore_best_weights=True),
            keras.callbacks.CSVLogger('log.csv'),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.ModelCheckpoint(name, save_best_only=True,
                                            save_weights_only=True),
            keras.callbacks.BackupAndRestore('backup'), recorder])
    model.save_weights(name)
    before = checksum(model)
    other = mlp()
    other.build((None, 12))
    other.load_weights(name)
    assert checksum(other) == before
    other.fit(X, Y, batch_size=40, verbose=0)
    with open('log.csv') as file:
        lines = len(file.readlines())
    assert lines == 1 + len(history.history['loss']), lines
    return result(other, epochs=len(history.history['loss']),
                  rates=recorder.rates, val_loss=history.history['val_loss'])


@case
def several_steps():
    """steps_per_execution, run_eagerly, gradients that add up."""
    words = dict(epochs=2, batch_size=20, verbose=0)
    one = mlp(steps_per_execution=4)
    losses = one.fit(X[:160], Y[:160], **words).history['loss']
    two = mlp(run_eagerly=True)
    losses += two.fit(X[:60], Y[:60], **words).history['loss']
    if KERAS == 3:
        three = mlp(keras.optimizers.SGD(0.1, gradient_accumulation_steps=4,
                                         global_clipnorm=0.1))
        losses += three.fit(X[:160], Y[:160], **words).history['loss']
    return result(two, losses=losses, first=norm(one))


@case
def own_step():
    """A train_step of the script's, and a loss of which the graph shows that
    it is a sum."""
    class Mine(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3)
            self.seen = keras.metrics.Mean(name='seen')

        def call(self, x):
            return self.dense(x)

        @property
        def metrics(self):
            return [self.seen]

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = CROSS(y, self(x, training=True))
            grads = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(
                zip(grads, self.trainable_variables))
            self.seen.update_state(loss, sample_weight=tf.shape(x)[0])
            return {'seen': self.seen.result(), 'last': loss}

    model = Mine()
    model.compile(keras.optimizers.SGD(0.1))
    one = model.fit(X, Y, batch_size=40, epochs=3, verbose=0)
    shown = keras.Sequential([keras.layers.Dense(12)])
    shown.compile(keras.optimizers.SGD(1e-3), loss=(
        lambda x, y: tf.reduce_sum(tf.square(x - y))))
    two = shown.fit(X, X, batch_size=37, epochs=2, verbose=0)
    told = float(np.ravel(shown.train_on_batch(X[:33], X[:33]))[0])
    return result(shown, seen=one.history['seen'], own=norm(model),
                  loss=two.history['loss'], told=told)


@case
def fit_sums():
    """Losses that are sums over the batch, of a model with two outputs."""
    given = keras.Input(shape=X.shape[1:])
    model = keras.Model(given, [keras.layers.Dense(3, name='one')(given),
                                keras.layers.Dense(3, name='two')(given)])
    model.compile(keras.optimizers.SGD(0.002), loss=[
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction='sum') for _ in range(2)])
    history = model.fit(X, [Y, 2 - Y], batch_size=37, epochs=3, verbose=0,
                        validation_data=(X[:50], [Y[:50], Y[:50]]))
    return result(model, **numbers(history))


@case
def statistics():
    """BatchNorm's: of the worker's rows in a step, then of all workers."""
    model = keras.Sequential([keras.layers.Dense(8),
                              keras.layers.BatchNormalization(),
                              keras.layers.Dense(3)])
    model.compile('sgd', loss=CROSS)
    model.fit(X[:160], Y[:160], batch_size=40, epochs=2, verbose=0)
    one = checksum(model)
    step = tf.function(trainer(model, keras.optimizers.SGD(0.1)))
    for x, y in batches(5):
        step(x, y)
    return dict(weights=[one, checksum(model)])


def main():
    tf.config.experimental.enable_op_determinism()
    for name in sys.argv[1:] or CASES:
        keras.utils.set_random_seed(7)
        found = CASES[name]()
        print('CASE', name, json.dumps(found), flush=True)


if __name__ == '__main__':
    main()
