"""tensorflow.examples.tutorials.mnist.input_data: the four files of MNIST,
read from a folder; they are fetched only when they are not there."""
import gzip
import os

import numpy
import tensorflow.compat.v1 as tf

from poseidon.tensorflow import seed as streams
from poseidon.tf1.contrib.datasets import Datasets, maybe_download

SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
DEFAULT_SOURCE_URL = SOURCE_URL
TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"


def _opened(source):
    """An open file or a path; packed or not."""
    file = source if hasattr(source, "read") else open(source, "rb")
    head = file.read(2)
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if head == b"\x1f\x8b" else file


def _read_idx(source, magic, dimensions):
    name = getattr(source, "name", source)
    with _opened(source) as file:
        head = file.read(4 * (dimensions + 1))
        numbers = numpy.frombuffer(head, ">u4")
        if len(numbers) != dimensions + 1 or numbers[0] != magic:
            raise ValueError("%s is no file of MNIST: it begins with %r, "
                             "not %d" % (name, head[:4], magic))
        data = numpy.frombuffer(file.read(), numpy.uint8)
    sizes = [int(one) for one in numbers[1:]]
    if data.size != int(numpy.prod(sizes)):
        raise ValueError("%s is cut off: %d bytes of data, %d were announced"
                         % (name, data.size, int(numpy.prod(sizes))))
    return data.reshape(sizes)


def extract_images(f):
    """[index, y, x, depth], 0..255."""
    return _read_idx(f, 2051, 3)[..., numpy.newaxis]


def extract_labels(f, one_hot=False, num_classes=10):
    labels = _read_idx(f, 2049, 1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense, num_classes):
    return numpy.eye(num_classes)[numpy.asarray(labels_dense, int)]


class DataSet:
    """Images in 0..1 and their labels, in batches."""

    def __init__(self, images, labels, fake_data=False, one_hot=False,
                 dtype=tf.float32, reshape=True, seed=None):
        graph_seed, op_seed = tf.get_seed(seed)
        seed = streams.own(graph_seed if seed is None else op_seed)
        self._random = numpy.random if seed is None \
            else numpy.random.RandomState(seed % (1 << 32))
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError("dtype is %r, it must be uint8 or float32"
                            % dtype)
        if fake_data:
            self._num_examples = 10000
            self.one_hot = one_hot
        else:
            if len(images) != len(labels):
                raise ValueError("%d images and %d labels"
                                 % (len(images), len(labels)))
            self._num_examples = len(images)
            if reshape:
                if images.shape[3] != 1:
                    raise ValueError("the images have %d channels, not 1"
                                     % images.shape[3])
                images = images.reshape(len(images), -1)
            if dtype == tf.float32:
                images = images.astype(numpy.float32) * numpy.float32(
                    1.0 / 255.0)
        self._fake = fake_data
        self._images, self._labels = images, labels
        self._epochs_completed = 0
        self._index_in_epoch = 0

    @property
    def images(self):
        return self._images

    @property
    def labels(self):
        return self._labels

    @property
    def num_examples(self):
        return self._num_examples

    @property
    def epochs_completed(self):
        return self._epochs_completed

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """The next images and labels; the order changes every epoch."""
        if fake_data or self._fake:
            image = [1.0] * 784
            label = [1] + [0] * 9 if getattr(self, "one_hot", False) else 0
            return [image] * batch_size, [label] * batch_size
        if batch_size > self._num_examples:
            raise ValueError("a batch of %d of %d examples"
                             % (batch_size, self._num_examples))
        start = self._index_in_epoch
        if start == 0 and self._epochs_completed == 0 and shuffle:
            self._mix()
        if start + batch_size <= self._num_examples:
            self._index_in_epoch = start + batch_size
            return (self._images[start:start + batch_size],
                    self._labels[start:start + batch_size])
        self._epochs_completed += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._mix()
        more = batch_size - len(rest[0])
        self._index_in_epoch = more
        return (numpy.concatenate([rest[0], self._images[:more]]),
                numpy.concatenate([rest[1], self._labels[:more]]))

    def _mix(self):
        order = numpy.arange(self._num_examples)
        self._random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


def _found(name, folder, url):
    """The file, packed or not; fetched at last."""
    for one in (name, name[:-len(".gz")]):
        path = os.path.join(folder, one)
        if os.path.exists(path):
            return path
    return maybe_download(name, folder, url + name)


def read_data_sets(train_dir, fake_data=False, one_hot=False,
                   dtype=tf.float32, reshape=True, validation_size=5000,
                   seed=None, source_url=SOURCE_URL):
    words = dict(dtype=dtype, reshape=reshape, seed=seed)
    if fake_data:
        return Datasets(*[DataSet([], [], fake_data=True, one_hot=one_hot,
                                  **words) for _ in range(3)])
    url = source_url or SOURCE_URL
    url += "" if url.endswith("/") else "/"
    paths = [_found(name, train_dir, url) for name in
             (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)]
    for path in paths:
        print("Extracting", path)
    images, labels = extract_images(paths[0]), extract_labels(paths[1],
                                                              one_hot)
    if not 0 <= validation_size <= len(images):
        raise ValueError("validation_size is %d, it must be between 0 and "
                         "%d" % (validation_size, len(images)))
    cut = validation_size
    return Datasets(
        DataSet(images[cut:], labels[cut:], **words),
        DataSet(images[:cut], labels[:cut], **words),
        DataSet(extract_images(paths[2]), extract_labels(paths[3], one_hot),
                **words))


def load_mnist(train_dir="MNIST-data"):
    return read_data_sets(train_dir)
