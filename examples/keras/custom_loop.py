"""The same task with a loop of one's own: GradientTape in a tf.function,
gradients clipped by hand.

    python custom_loop.py [--data FOLDER] [--eager]
"""
import argparse

import keras
import tensorflow as tf

import digits


def make_model(shape):
    return keras.Sequential([
        keras.Input(shape),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="folder with MNIST")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()

    keras.utils.set_random_seed(args.seed)
    (images, labels), test = digits.load(args.data)
    train = tf.data.Dataset.from_tensor_slices((images, labels))
    train = train.shuffle(len(images)).batch(args.batch).prefetch(2)
    test = tf.data.Dataset.from_tensor_slices(test).batch(200)
    model = make_model(images.shape[1:])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    if not args.eager:
        step = tf.function(step, reduce_retracing=True)
    for epoch in range(args.epochs):
        for x, y in train:
            step(x, y)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        loss = keras.metrics.Mean()
        for x, y in test:
            guess = model(x, training=False)
            accuracy.update_state(y, guess)
            loss.update_state(loss_of(y, guess), sample_weight=len(y))
        print("epoch %d: test loss %.5f, test accuracy %.4f" % (
            epoch + 1, float(loss.result()), float(accuracy.result())))


if __name__ == "__main__":
    main()
