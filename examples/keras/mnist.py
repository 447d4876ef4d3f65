"""A convolutional network learns to read handwritten digits, with model.fit.

    python mnist.py                      the 8 x 8 digits beside this example
    python mnist.py --data FOLDER        MNIST: the four idx files, .gz or not

Plain Keras (2 or 3) for one process.
"""
import argparse

import keras
import tensorflow as tf  # noqa: F401  (the backend)

import digits


def make_model(shape):
    model = keras.Sequential([
        keras.Input(shape),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10)])
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="folder with MNIST")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", help="where the weights go, *.weights.h5")
    args = parser.parse_args()

    keras.utils.set_random_seed(args.seed)
    (images, labels), test = digits.load(args.data)
    model = make_model(images.shape[1:])
    callbacks = [keras.callbacks.EarlyStopping(patience=3)]
    if args.save:
        callbacks.append(keras.callbacks.ModelCheckpoint(
            args.save, save_weights_only=True, save_best_only=True))
    model.fit(images, labels, batch_size=args.batch, epochs=args.epochs,
              validation_data=test, callbacks=callbacks, verbose=2)
    loss, accuracy = model.evaluate(*test, verbose=0)
    print("test loss %.5f, test accuracy %.4f" % (loss, accuracy))


if __name__ == "__main__":
    main()
