"""Trainings for keras_test.py: run plainly and in jobs, they print the same.

    KERAS_BACKEND=torch PYTHON keras_cases.py CASE...

Each prints `CASE NAME {json}`: numbers of a plain run and of a job are the
same within rounding, "weights" (a checksum) is the same on every worker.
"""
import json
import os
import signal
import sys
import zlib

import numpy as np
import keras
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from keras_claims import CASES, case, checksum  # noqa: E402

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(203, 12)).astype('float32')
Y = X[:, :3].argmax(1)
WEIGHTS = RNG.uniform(0.2, 2.0, 203).astype('float32')
IMAGES = RNG.normal(size=(128, 8, 8, 1)).astype('float32')
LABELS = RNG.integers(0, 3, 128)
CROSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def square(array):
    return float(np.square(array.astype('float64')).sum())


def norm(model):
    return [square(weight) for weight in model.get_weights()]


def numbers(history):
    return {name: [float(value) for value in values]
            for name, values in history.history.items()}


def result(model, **words):
    return dict(words, norm=norm(model), weights=checksum(model))


def mlp(optimizer=None, loss=CROSS, metrics=('accuracy',)):
    """Its layers are built by what trains it."""
    model = keras.Sequential([layers.Dense(16, activation='relu'),
                              layers.Dense(3)])
    model.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9),
                  loss=loss, metrics=list(metrics))
    return model


class Steps(keras.callbacks.Callback):
    """After each step the loss of all data, which every worker has."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        with torch.no_grad():
            self.losses.append(float(torch.nn.functional.cross_entropy(
                self.model(self.x).double(), self.y.long())))


def followed(model, x, y, **words):
    steps = Steps(x, y)
    history = model.fit(x, y, callbacks=[steps], **words)
    check(len(steps.losses) >= 50)
    return result(model, steps=steps.losses, **numbers(history))


def check(condition):
    if not condition:
        raise AssertionError


class Batches(keras.utils.PyDataset):
    """Shuffled by itself between the epochs."""

    def __init__(self, size, **words):
        super().__init__(**words)
        self.size, self.order = size, np.arange(len(X))

    def __len__(self):
        return -(-len(X) // self.size)

    def __getitem__(self, at):
        rows = self.order[at * self.size:(at + 1) * self.size]
        return {'a': X[rows, :6], 'b': X[rows, 6:]}, Y[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


def two_inputs():
    a, b = keras.Input((6,), name='a'), keras.Input((6,), name='b')
    hidden = layers.Dense(8, activation='tanh')(layers.concatenate([a, b]))
    model = keras.Model([a, b], layers.Dense(3)(hidden))
    model.compile(keras.optimizers.SGD(0.1), loss=CROSS,
                  metrics=['accuracy'])
    return model


@case
def sequence():
    """The first: it shuffles by the stream that has made the weights, and in
    a job seeds set after the first training are not all the same as alone."""
    model = two_inputs()
    history = model.fit(Batches(40), epochs=3, verbose=0, shuffle=True,
                        class_weight={0: 1.0, 1: 0.5, 2: 2.0})
    return result(model, **numbers(history))


@case
def arrays():
    """Six batches of 30 rows and one of 23, shuffled."""
    return followed(mlp(), X, Y, batch_size=30, epochs=8, verbose=1,
                    sample_weight=WEIGHTS, validation_data=(X[:50], Y[:50]),
                    validation_batch_size=20)


@case
def images():
    model = keras.Sequential([
        layers.Conv2D(4, 3, activation='relu'), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.05), loss=CROSS)
    return followed(model, IMAGES, LABELS, batch_size=32, epochs=13,
                    shuffle='batch', verbose=0)


class Linear(layers.Layer):
    """Keras' own multiplies doubles as floats."""

    def __init__(self, count):
        super().__init__(dtype='float64')
        self.count = count

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.count),
                                      initializer='glorot_uniform')
        self.bias = self.add_weight(shape=(self.count,), initializer='zeros')

    def call(self, inputs):
        return torch.tanh(inputs @ self.kernel.value + self.bias.value)


class Window(Linear):
    """A convolution of doubles."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(self.count, 1, 3, 3),
                                      initializer='glorot_uniform')

    def call(self, inputs):
        return torch.tanh(torch.conv2d(inputs.movedim(-1, 1),
                                       self.kernel.value)).flatten(1)


def mean_of_doubles(truth, output):
    return torch.nn.functional.cross_entropy(output, truth.long())


def doubles(parts, x, y, **words):
    keras.config.set_floatx('float64')
    try:
        model = keras.Sequential(parts)
        model.compile(keras.optimizers.SGD(0.1), loss=mean_of_doubles)
        return followed(model, x.astype('float64'), y, verbose=0, **words)
    finally:
        keras.config.set_floatx('float32')


@case
def arrays_double():
    return doubles([Linear(16), Linear(3)], X, Y, batch_size=30, epochs=8)


@case
def images_double():
    return doubles([Window(4), Linear(3)], IMAGES, LABELS, batch_size=32,
                   epochs=13)


@case
def loader():
    """A DataLoader of the script's, with a tail, and one to validate."""
    data = torch.utils.data.TensorDataset(torch.from_numpy(X),
                                          torch.from_numpy(Y))
    train = torch.utils.data.DataLoader(data, batch_size=33, shuffle=True)
    test = torch.utils.data.DataLoader(data, batch_size=50)
    model = mlp(keras.optimizers.Adam(0.01))
    history = model.fit(train, epochs=2, validation_data=test, verbose=0)
    return result(model, evaluated=model.evaluate(test, verbose=0),
                  again=model.evaluate(train, verbose=0),
                  **numbers(history))


@case
def generator():
    """It draws its rows itself, and reads more than one fit needs."""
    def batches():
        while True:
            rows = np.random.permutation(len(X))[:np.random.randint(2, 31)]
            yield X[rows], Y[rows], WEIGHTS[rows]
    model = mlp()
    model.build((None, 12))
    numpy = model.fit(batches(), steps_per_epoch=6, epochs=2, verbose=0)
    again = model.fit(batches(), steps_per_epoch=3, verbose=0)
    return result(model, again=numbers(again)['loss'], **numbers(numpy))


@case
def threads():
    """Two threads read, shuffled; see sequence."""
    model = two_inputs()
    history = model.fit(Batches(40, workers=2), epochs=2, verbose=0,
                        shuffle=True, validation_data=Batches(50))
    return result(model, **numbers(history))


@case
def on_batch():
    model, found = mlp(), []
    for at in (0, 33, 60):
        found.append(model.train_on_batch(X[at:at + 33], Y[at:at + 33],
                                          WEIGHTS[at:at + 33]))
    found.append(sorted(model.train_on_batch(
        X[:7], Y[:7], return_dict=True).values()))
    return result(model, found=np.asarray(found).tolist(),
                  tested=model.test_on_batch(X, Y),
                  predicted=square(model.predict_on_batch(X)))


@case
def few_rows():
    """Fewer than workers; who has none leaves no trace in the metrics."""
    model = mlp()
    history = model.fit(X[:61], Y[:61], batch_size=3, epochs=2, verbose=0)
    return result(model, **numbers(history))


@case
def fixed_rows():
    """A stateful layer has a state for each row of its batch."""
    given = keras.Input(batch_shape=(8, 4, 3))
    state = layers.SimpleRNN(3, stateful=True)(given)
    model = keras.Model(given, layers.Dense(1)(state))
    model.compile('sgd', 'mse')
    x, y = X[:72].reshape(72, 4, 3), X[:72, 0]
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
    model.train_on_batch(x[:8], y[:8])
    return dict(finite=bool(np.isfinite(norm(model)).all()),
                weights=zlib.crc32(b''.join(
                    weight.numpy().tobytes()
                    for weight in model.trainable_weights)))


@case
def sums():
    model = mlp(keras.optimizers.SGD(0.002), metrics=(),
                loss=keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction='sum'))
    history = model.fit(X, Y, batch_size=37, epochs=2, verbose=0)
    told = [float(np.ravel(model.train_on_batch(X[:33], Y[:33]))[0])
            for _ in range(2)]
    return result(model, told=told, loss=history.history['loss'])


@case
def loop():
    """By hand, with an optimizer of Keras that nobody has built."""
    model = mlp()
    optimizer = keras.optimizers.Adam(0.01)
    data = torch.utils.data.TensorDataset(torch.from_numpy(X),
                                          torch.from_numpy(Y))
    for _ in range(2):
        for x, y in torch.utils.data.DataLoader(data, 30, shuffle=True):
            model.zero_grad()
            CROSS(y, model(x, training=True)).backward()
            variables = model.trainable_variables
            optimizer.apply([each.value.grad for each in variables],
                            variables)
    return result(model)


@case
def loop_torch():
    """The same with an optimizer of torch."""
    model = mlp()
    model.build((None, 12))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    data = torch.utils.data.TensorDataset(torch.from_numpy(X),
                                          torch.from_numpy(Y))
    for x, y in torch.utils.data.DataLoader(data, 30, shuffle=True):
        optimizer.zero_grad()
        CROSS(y, model(x, training=True)).backward()
        optimizer.step()
    return result(model)


class Own(keras.Model):
    """A train_step of the script's, with logs of its own."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in
                                  self.trainable_weights],
                                 self.trainable_weights)
        return {'mine': loss}


@case
def own_step():
    model = Own()
    model.compile(keras.optimizers.SGD(0.1, clipnorm=0.5), loss=CROSS)
    history = model.fit(X[:200], Y[:200], batch_size=40, epochs=2, verbose=0)
    return result(model, **numbers(history))


@case
def scaled():
    """A loss scale, and gradients that add up."""
    model = mlp(keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
        initial_scale=64.0))
    history = model.fit(X, Y, batch_size=40, epochs=2, verbose=0)
    return result(model, **numbers(history))


@case
def regularised():
    model = keras.Sequential([layers.Dense(
        8, kernel_regularizer=keras.regularizers.L2(0.01)), layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.1), loss=CROSS)
    history = model.fit(X, Y, batch_size=40, epochs=2, verbose=0)
    return result(model, predicted=square(model.predict(X, verbose=0)),
                  **numbers(history))


class Fall(keras.callbacks.Callback):
    """Worker 1 is killed in epoch 2, after a step with worker 0: that has
    written its backup."""
    epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 2 and os.environ.get('PSD_RANK') == '1' and (
                os.environ.get('FALL')):
            os.kill(os.getpid(), signal.SIGKILL)


@case
def resumed():
    """Four epochs, or what is left of them."""
    model = mlp()
    backup = keras.callbacks.BackupAndRestore(
        os.environ.get('BACKUP', 'backup'))
    history = model.fit(X, Y, batch_size=40, epochs=4, verbose=0,
                        shuffle=False, callbacks=[backup, Fall()])
    print('EPOCHS %r' % history.epoch)
    return result(model, last=history.history['loss'][-1])


def main():
    for name in sys.argv[1:] or CASES:
        keras.utils.set_random_seed(7)
        print('CASE %s %s' % (name, json.dumps(CASES[name]())), flush=True)


if __name__ == '__main__':
    main()
