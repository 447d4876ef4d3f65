"""tf.contrib.lookup."""
import tensorflow.compat.v1 as tf

HashTable = tf.lookup.StaticHashTable
MutableHashTable = tf.lookup.experimental.MutableHashTable
KeyValueTensorInitializer = tf.lookup.KeyValueTensorInitializer
TextFileInitializer = tf.lookup.TextFileInitializer
TextFileIndex = tf.lookup.TextFileIndex


def _table(keys, values, default, key_dtype, value_dtype):
    return tf.lookup.StaticHashTable(KeyValueTensorInitializer(
        keys, values, key_dtype, value_dtype), default)


def _numbers(mapping):
    """0, 1, ... for a list, an array or a tensor."""
    return tf.range(tf.size(mapping, out_type=tf.int64), dtype=tf.int64)


def index_table_from_tensor(mapping, num_oov_buckets=0, default_value=-1,
                            dtype=tf.string, name=None, **_):
    start = KeyValueTensorInitializer(mapping, _numbers(mapping), dtype,
                                      tf.int64)
    if num_oov_buckets:
        return tf.lookup.StaticVocabularyTable(start, num_oov_buckets)
    return tf.lookup.StaticHashTable(start, default_value)


def index_table_from_file(vocabulary_file=None, num_oov_buckets=0,
                          vocab_size=None, default_value=-1, **_):
    start = TextFileInitializer(
        vocabulary_file, tf.string, TextFileIndex.WHOLE_LINE, tf.int64,
        TextFileIndex.LINE_NUMBER, vocab_size)
    if num_oov_buckets:
        return tf.lookup.StaticVocabularyTable(start, num_oov_buckets)
    return tf.lookup.StaticHashTable(start, default_value)


def index_to_string_table_from_tensor(mapping, default_value="UNK",
                                      name=None):
    return _table(_numbers(mapping), mapping, default_value, tf.int64,
                  tf.string)


def index_to_string_table_from_file(vocabulary_file, vocab_size=None,
                                    default_value="UNK", name=None):
    return tf.lookup.StaticHashTable(TextFileInitializer(
        vocabulary_file, tf.int64, TextFileIndex.LINE_NUMBER, tf.string,
        TextFileIndex.WHOLE_LINE, vocab_size), default_value)
