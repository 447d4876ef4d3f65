"""tf.contrib.data is tf.data."""
import tensorflow.compat.v1 as tf

Dataset = tf.data.Dataset
Iterator = tf.data.Iterator
TFRecordDataset = tf.data.TFRecordDataset
TextLineDataset = tf.data.TextLineDataset
FixedLengthRecordDataset = tf.data.FixedLengthRecordDataset
AUTOTUNE = tf.data.experimental.AUTOTUNE
shuffle_and_repeat = tf.data.experimental.shuffle_and_repeat
map_and_batch = tf.data.experimental.map_and_batch
parallel_interleave = tf.data.experimental.parallel_interleave
prefetch_to_device = tf.data.experimental.prefetch_to_device
ignore_errors = tf.data.experimental.ignore_errors
group_by_window = tf.data.experimental.group_by_window
bucket_by_sequence_length = tf.data.experimental.bucket_by_sequence_length
unbatch = tf.data.experimental.unbatch


def batch_and_drop_remainder(batch_size):
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)
