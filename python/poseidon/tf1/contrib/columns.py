"""The feature columns of tf.contrib.layers, on tf.feature_column."""
import tensorflow.compat.v1 as tf

__all__ = [
    "real_valued_column", "sparse_column_with_keys",
    "sparse_column_with_hash_bucket", "sparse_column_with_integerized_feature",
    "sparse_column_with_vocabulary_file", "bucketized_column",
    "crossed_column", "embedding_column", "one_hot_column",
    "weighted_sparse_column", "input_from_feature_columns",
    "weighted_sum_from_feature_columns", "create_feature_spec_for_parsing",
    "parse_feature_columns_from_examples", "infer_real_valued_columns",
]
_columns = tf.feature_column


def real_valued_column(column_name, dimension=1, default_value=None,
                       dtype=tf.float32, normalizer=None):
    if dimension is None:
        dimension = 1
    return _columns.numeric_column(
        column_name, shape=(dimension,), default_value=default_value,
        dtype=dtype, normalizer_fn=normalizer)


def sparse_column_with_keys(column_name, keys, default_value=-1,
                            combiner="sum", dtype=tf.string):
    return _columns.categorical_column_with_vocabulary_list(
        column_name, keys, dtype=dtype, default_value=default_value)


def sparse_column_with_hash_bucket(column_name, hash_bucket_size,
                                   combiner="sum", dtype=tf.string,
                                   hash_keys=None):
    return _columns.categorical_column_with_hash_bucket(
        column_name, hash_bucket_size, dtype)


def sparse_column_with_integerized_feature(column_name, bucket_size,
                                           combiner="sum", dtype=tf.int64):
    return _columns.categorical_column_with_identity(column_name,
                                                     bucket_size)


def sparse_column_with_vocabulary_file(column_name, vocabulary_file,
                                       num_oov_buckets=0, vocab_size=None,
                                       default_value=-1, combiner="sum",
                                       dtype=tf.string):
    return _columns.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets,
        None if num_oov_buckets else default_value, dtype)


def bucketized_column(source_column, boundaries):
    return _columns.bucketized_column(source_column, list(boundaries))


def crossed_column(columns, hash_bucket_size, combiner="sum",
                   ckpt_to_load_from=None, tensor_name_in_ckpt=None,
                   hash_key=None):
    keys = [getattr(one, "key", one) if not hasattr(one, "boundaries")
            else one for one in columns]
    return _columns.crossed_column(keys, int(hash_bucket_size), hash_key)


def embedding_column(sparse_id_column, dimension, combiner="mean",
                     initializer=None, **_):
    return _columns.embedding_column(sparse_id_column, dimension, combiner,
                                     initializer)


def one_hot_column(sparse_id_column):
    return _columns.indicator_column(sparse_id_column)


def weighted_sparse_column(sparse_id_column, weight_column_name,
                           dtype=tf.float32):
    return _columns.weighted_categorical_column(
        sparse_id_column, weight_column_name, dtype)


def dense(columns):
    """What a network can read: categories become indicators."""
    from tensorflow.python.feature_column import feature_column_v2 as v2
    return [one_hot_column(one) if isinstance(one, v2.CategoricalColumn)
            and not isinstance(one, v2.DenseColumn) else one
            for one in columns]


def input_from_feature_columns(columns_to_tensors, feature_columns,
                               weight_collections=None, trainable=True,
                               scope=None):
    with tf.variable_scope(scope, "input_from_feature_columns"):
        return _columns.input_layer(columns_to_tensors,
                                    dense(feature_columns),
                                    weight_collections, trainable)


def weighted_sum_from_feature_columns(columns_to_tensors, feature_columns,
                                      num_outputs, weight_collections=None,
                                      trainable=True, scope=None):
    """The sum, the variables of each column, the bias."""
    cols = {}
    with tf.variable_scope(scope, "weighted_sum_from_feature_columns"):
        total = _columns.linear_model(
            columns_to_tensors, feature_columns, units=num_outputs,
            weight_collections=weight_collections, trainable=trainable,
            cols_to_vars=cols)
    return total, cols, cols.pop("bias", [None])[0]


def create_feature_spec_for_parsing(feature_columns):
    return _columns.make_parse_example_spec(list(feature_columns))


def parse_feature_columns_from_examples(serialized, feature_columns,
                                        name=None, example_names=None):
    return tf.parse_example(serialized, create_feature_spec_for_parsing(
        feature_columns), name, example_names)


def infer_real_valued_columns(features):
    """One column for every number in the features."""
    if not isinstance(features, dict):
        features = {"": features}
    found = []
    for name in sorted(features):
        shape = features[name].get_shape().as_list()
        found.append(real_valued_column(
            name, shape[1] if len(shape) > 1 else 1,
            dtype=features[name].dtype.base_dtype))
    return found
