"""Reads the binary files of CIFAR-10 with queues: whole images for an
evaluation, cut and distorted ones for training."""
import os

import tensorflow.compat.v1 as tf

from poseidon.tf1.names import table as _table

IMAGE_SIZE = 24
NUM_CLASSES = 10
NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN = 50000
NUM_EXAMPLES_PER_EPOCH_FOR_EVAL = 10000

_HEIGHT, _WIDTH, _DEPTH = 32, 32, 3
_QUEUE_SHARE = 0.4  # of an epoch that is in the queue before a batch leaves


class CIFAR10Record:
    """height, width, depth, key, label and uint8image of one image."""


def read_cifar10(filename_queue):
    """One label byte, then red, green, blue of all pixels, row by row."""
    record = CIFAR10Record()
    record.height, record.width, record.depth = _HEIGHT, _WIDTH, _DEPTH
    size = _HEIGHT * _WIDTH * _DEPTH
    reader = tf.FixedLengthRecordReader(record_bytes=1 + size)
    record.key, value = reader.read(filename_queue)
    data = tf.decode_raw(value, tf.uint8)
    record.label = tf.cast(tf.slice(data, [0], [1]), tf.int32)
    planes = tf.reshape(tf.slice(data, [1], [size]),
                        [_DEPTH, _HEIGHT, _WIDTH])
    record.uint8image = tf.transpose(planes, [1, 2, 0])
    return record


def _batches(image, label, least, batch_size, shuffle):
    words = dict(batch_size=batch_size, num_threads=4,
                 capacity=least + 3 * batch_size)
    if shuffle:
        images, labels = tf.train.shuffle_batch(
            [image, label], min_after_dequeue=least, **words)
    else:
        images, labels = tf.train.batch([image, label], **words)
    _table(tf)[""]["image_summary"]("images", images)
    return images, tf.reshape(labels, [batch_size])


def _record(names):
    for name in names:
        if not tf.gfile.Exists(name):
            raise ValueError("no such file: %s" % name)
    return read_cifar10(tf.train.string_input_producer(names))


def _least(count, names):
    """No more than the files have: the queue would never be full."""
    size = 1 + _HEIGHT * _WIDTH * _DEPTH
    there = sum(os.path.getsize(one) // size for one in names)
    return max(1, int(min(count, there) * _QUEUE_SHARE))


def distorted_inputs(data_dir, batch_size):
    names = [os.path.join(data_dir, "data_batch_%d.bin" % at)
             for at in range(1, 6)]
    record = _record(names)
    image = tf.cast(record.uint8image, tf.float32)
    image = tf.random_crop(image, [IMAGE_SIZE, IMAGE_SIZE, 3])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=63)
    image = tf.image.random_contrast(image, lower=0.2, upper=1.8)
    image = tf.image.per_image_standardization(image)
    image.set_shape([IMAGE_SIZE, IMAGE_SIZE, 3])
    least = _least(NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN, names)
    print("Filling queue with %d CIFAR images before starting to train."
          % least)
    return _batches(image, record.label, least, batch_size, shuffle=True)


def inputs(eval_data, data_dir, batch_size):
    if eval_data:
        names = [os.path.join(data_dir, "test_batch.bin")]
        count = NUM_EXAMPLES_PER_EPOCH_FOR_EVAL
    else:
        names = [os.path.join(data_dir, "data_batch_%d.bin" % at)
                 for at in range(1, 6)]
        count = NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN
    record = _record(names)
    image = tf.cast(record.uint8image, tf.float32)
    image = tf.image.resize_image_with_crop_or_pad(image, IMAGE_SIZE,
                                                   IMAGE_SIZE)
    image = tf.image.per_image_standardization(image)
    image.set_shape([IMAGE_SIZE, IMAGE_SIZE, 3])
    return _batches(image, record.label, _least(count, names), batch_size,
                    shuffle=False)
