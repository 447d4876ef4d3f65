"""tf.contrib.learn.datasets and its base: small sets, csv files."""
import collections
import csv
import os
import random

import numpy

from poseidon.shared import host

Dataset = collections.namedtuple("Dataset", ["data", "target"])
Datasets = collections.namedtuple("Datasets",
                                  ["train", "validation", "test"])

_IRIS = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "data", "iris.csv")


def load_iris(data_path=None):
    """150 flowers, four measures each, three kinds."""
    kinds, data, target = {}, [], []
    with open(data_path or _IRIS, newline="") as file:
        for row in list(csv.reader(file))[1:]:
            if row:
                data.append([float(one) for one in row[:4]])
                target.append(kinds.setdefault(row[4], len(kinds)))
    return Dataset(numpy.array(data, numpy.float32),
                   numpy.array(target, numpy.int64))


def load_dataset(name, size="small", test_with_fake_data=False):
    if name == "iris":
        return load_iris()
    if name == "mnist":
        from poseidon.tf1.contrib import input_data
        return input_data.read_data_sets("MNIST-data")
    raise ValueError("tf.contrib.learn.datasets.load_dataset(%r): only iris "
                     "and mnist are there" % name)


def _columns(rows, target_dtype, features_dtype, target_column):
    data, target = [], []
    for row in rows:
        if row:
            target.append(row.pop(target_column))
            data.append(row)
    return Dataset(numpy.array(data).astype(features_dtype),
                   numpy.array(target).astype(target_dtype))


def load_csv_with_header(filename, target_dtype, features_dtype,
                         target_column=-1):
    """The first line has the counts of rows and columns."""
    with open(filename, newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return _columns(rows, target_dtype, features_dtype, target_column)


def load_csv_without_header(filename, target_dtype, features_dtype,
                            target_column=-1):
    with open(filename, newline="") as file:
        return _columns(csv.reader(file), target_dtype, features_dtype,
                        target_column)


load_csv = load_csv_with_header


def shrink_csv(filename, ratio):
    """One line in `ratio` of a file, beside it."""
    name = filename.replace(".", "_small.")
    with open(filename) as source, open(name, "w") as sink:
        for at, line in enumerate(source):
            if at % ratio == 0:
                sink.write(line)


def maybe_download(filename, work_directory, source_url):
    """The path of the file in the folder; fetched when it is not there, by
    one worker of a host."""
    os.makedirs(work_directory, exist_ok=True)
    path = os.path.join(work_directory, filename)
    with host.one_at_a_time(os.path.realpath(path)):
        if not os.path.exists(path):
            _fetch(source_url, path)
            print("Successfully downloaded", filename, os.path.getsize(path),
                  "bytes.")
    return path


def _fetch(url, path):
    """The file appears when it is complete."""
    import shutil
    import tempfile
    import urllib.request
    folder = os.path.dirname(path)
    handle, part = tempfile.mkstemp(dir=folder or os.curdir)
    try:
        with urllib.request.urlopen(url, timeout=60) as source, \
                os.fdopen(handle, "wb") as sink:
            shutil.copyfileobj(source, sink)
        os.replace(part, path)
    except OSError as error:
        os.unlink(part)
        raise OSError("%s is not there and %s could not be fetched (%s): "
                      "put the file into %s"
                      % (path, url, error, folder)) from None


def retry(initial_delay, max_delay, factor=2.0, jitter=0.25,
          is_retriable=None):
    """Decorator: try again with growing pauses."""
    import functools
    import time

    def decorator(function):
        @functools.wraps(function)
        def again(*args, **words):
            delay = initial_delay
            while True:
                try:
                    return function(*args, **words)
                except Exception as error:
                    if (is_retriable and not is_retriable(error)) or \
                            delay > max_delay:
                        raise
                time.sleep(delay * random.uniform(1 - jitter, 1 + jitter))
                delay *= factor
        return again
    return decorator


def __getattr__(name):
    if name == "mnist":
        from poseidon.tf1.contrib import input_data
        return input_data
    if name == "base":
        import sys
        return sys.modules[__name__]
    raise AttributeError(name)
