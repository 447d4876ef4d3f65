"""DNNClassifier, DNNRegressor, LinearClassifier, LinearRegressor and the two
combined ones of tf.contrib.learn."""
import math

import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib import columns as feature_columns_
from poseidon.tf1.contrib import estimator, layers
from poseidon.tf1.contrib.model_fn import ModeKeys, ModelFnOps


class PredictionKey:
    CLASSES, PROBABILITIES, LOGITS = "classes", "probabilities", "logits"
    LOGISTIC, SCORES, GENERIC = "logistic", "scores", "output"


class _Canned(estimator.BaseEstimator):
    """A network over `dnn` columns plus a line over `linear` ones; a head
    turns what they give into predictions and a loss."""

    _is_classifier = False

    def __init__(self, model_dir, config, n_classes=1, weight=None,
                 dnn=(), hidden_units=(), activation_fn=tf.nn.relu,
                 dropout=None, dnn_optimizer=None, linear=(),
                 linear_optimizer=None, gradient_clip_norm=None,
                 label_dimension=1, engineer=None):
        super().__init__(model_dir, config)
        if not dnn and not linear:
            raise ValueError("%s needs feature columns"
                             % type(self).__name__)
        if dnn and not hidden_units:
            raise ValueError("%s: hidden_units is empty"
                             % type(self).__name__)
        if self._is_classifier and (not isinstance(n_classes, int)
                                    or n_classes < 2):
            raise ValueError("n_classes is %r, it must be 2 or more"
                             % (n_classes,))
        self._n_classes, self._weight = n_classes, weight
        self._dnn = feature_columns_.dense(dnn or ())
        self._linear = list(linear or ())
        self._hidden, self._activation = list(hidden_units or ()), \
            activation_fn
        self._dropout, self._clip = dropout, gradient_clip_norm
        self._dnn_optimizer = dnn_optimizer
        self._linear_optimizer = linear_optimizer
        self._label_dimension = label_dimension
        self._engineer = engineer

    # ---- the model

    def _ops(self, features, labels, mode):
        if self._engineer is not None:
            features, labels = self._engineer(features, labels)
        if not isinstance(features, dict):
            features = {"": features}
        else:
            features = dict(features)
        units = self._n_classes if self._n_classes > 2 else \
            self._label_dimension
        logits = 0.0
        if self._dnn:
            logits += self._network(features, units, mode)
        if self._linear:
            with tf.variable_scope("linear"):
                logits += tf.feature_column.linear_model(
                    features, self._linear, units=units)
        predictions = self._predictions(logits)
        if mode == ModeKeys.INFER:
            return ModelFnOps(mode, predictions)
        weights = 1.0
        if self._weight:
            weights = tf.cast(tf.reshape(features[self._weight], [-1, 1]),
                              tf.float32)
        if isinstance(labels, dict) and len(labels) == 1:
            labels = next(iter(labels.values()))
        loss = self._loss(logits, labels, weights)
        if mode == ModeKeys.EVAL:
            return ModelFnOps(mode, predictions, loss, None,
                              self._eval_metrics(predictions, labels,
                                                 weights))
        return ModelFnOps(mode, predictions, loss, self._train_op(loss))

    def _network(self, features, units, mode):
        with tf.variable_scope("dnn"):
            with tf.variable_scope("input_from_feature_columns"):
                net = tf.feature_column.input_layer(features, self._dnn)
            for at, count in enumerate(self._hidden):
                net = layers.fully_connected(
                    net, count, activation_fn=self._activation,
                    scope="hiddenlayer_%d" % at)
                if self._dropout is not None and mode == ModeKeys.TRAIN:
                    net = layers.dropout(net, keep_prob=1.0 - self._dropout)
                tf.summary.scalar("hiddenlayer_%d_fraction_of_zero_values"
                                  % at, tf.nn.zero_fraction(net))
            return layers.fully_connected(net, units, activation_fn=None,
                                          scope="logits")

    def _predictions(self, logits):
        if not self._is_classifier:
            flat = tf.squeeze(logits, [1]) if self._label_dimension == 1 \
                else logits
            return {PredictionKey.SCORES: flat}
        if self._n_classes == 2:
            logistic = tf.sigmoid(logits)
            both = tf.concat([1.0 - logistic, logistic], 1)
            return {PredictionKey.LOGITS: logits,
                    PredictionKey.LOGISTIC: logistic,
                    PredictionKey.PROBABILITIES: both,
                    PredictionKey.CLASSES: tf.argmax(both, 1)}
        return {PredictionKey.LOGITS: logits,
                PredictionKey.PROBABILITIES: tf.nn.softmax(logits),
                PredictionKey.CLASSES: tf.argmax(logits, 1)}

    def _loss(self, logits, labels, weights):
        if not self._is_classifier:
            wanted = tf.cast(tf.reshape(labels, tf.shape(logits)),
                             tf.float32)
            return tf.losses.compute_weighted_loss(
                tf.square(logits - wanted), weights)
        if self._n_classes == 2:
            wanted = tf.cast(tf.reshape(labels, [-1, 1]), tf.float32)
            return tf.losses.compute_weighted_loss(
                tf.nn.sigmoid_cross_entropy_with_logits(
                    labels=wanted, logits=logits), weights)
        wanted = tf.cast(tf.reshape(labels, [-1]), tf.int64)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=wanted, logits=logits)
        return tf.losses.compute_weighted_loss(tf.expand_dims(each, 1),
                                               weights)

    def _eval_metrics(self, predictions, labels, weights):
        if not self._is_classifier:
            return {}
        flat = tf.reshape(weights, [-1]) if self._weight else None
        wanted = tf.cast(tf.reshape(labels, [-1]), tf.int64)
        found = {"accuracy": tf.metrics.accuracy(
            wanted, predictions[PredictionKey.CLASSES], flat)}
        if self._n_classes == 2:
            found["auc"] = tf.metrics.auc(wanted, tf.reshape(
                predictions[PredictionKey.LOGISTIC], [-1]), flat)
        return found

    def _train_op(self, loss):
        """Each half has an optimizer of its own; the step counts once."""
        ops = []
        linear_rate = min(0.2, 1.0 / math.sqrt(max(1, len(self._linear))))
        for scope, optimizer, start in (
                ("dnn", self._dnn_optimizer,
                 lambda: tf.train.AdagradOptimizer(0.05)),
                ("linear", self._linear_optimizer,
                 lambda: tf.train.FtrlOptimizer(linear_rate))):
            mine = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES,
                                     scope + "/")
            if not mine:
                continue
            chosen = start() if optimizer is None else \
                layers._optimizer(optimizer, 0.05 if isinstance(
                    optimizer, (str, type)) else None)
            pairs = chosen.compute_gradients(loss, mine)
            if self._clip is not None:
                clipped, _ = tf.clip_by_global_norm(
                    [g for g, _ in pairs], self._clip)
                pairs = list(zip(clipped, [v for _, v in pairs]))
            ops.append(chosen.apply_gradients(pairs))
        with tf.control_dependencies(ops):
            return tf.assign_add(tf.train.get_or_create_global_step(),
                                 1).op

    # ---- predictions under their own names

    def _only(self, key, x, input_fn, batch_size, as_iterable):
        rows = self.predict(x, input_fn, batch_size, [key])
        rows = (one[key] for one in rows)
        return rows if as_iterable else list(rows)

    def predict_scores(self, x=None, input_fn=None, batch_size=None,
                       as_iterable=True):
        return self._only(PredictionKey.SCORES, x, input_fn, batch_size,
                          as_iterable)

    @property
    def weights_(self):
        return {name: self.get_variable_value(name) for name in
                self.get_variable_names() if "weights" in name}

    @property
    def bias_(self):
        return {name: self.get_variable_value(name) for name in
                self.get_variable_names() if "bias" in name}


class _Classes:
    _is_classifier = True

    def predict_classes(self, x=None, input_fn=None, batch_size=None,
                        as_iterable=True):
        return self._only(PredictionKey.CLASSES, x, input_fn, batch_size,
                          as_iterable)

    def predict_proba(self, x=None, input_fn=None, batch_size=None,
                      as_iterable=True):
        return self._only(PredictionKey.PROBABILITIES, x, input_fn,
                          batch_size, as_iterable)


class DNNRegressor(_Canned):
    def __init__(self, hidden_units, feature_columns, model_dir=None,
                 weight_column_name=None, optimizer=None,
                 activation_fn=tf.nn.relu, dropout=None,
                 gradient_clip_norm=None, enable_centered_bias=False,
                 config=None, feature_engineering_fn=None,
                 label_dimension=1, **_):
        super().__init__(model_dir, config, 1, weight_column_name,
                         feature_columns, hidden_units, activation_fn,
                         dropout, optimizer,
                         gradient_clip_norm=gradient_clip_norm,
                         label_dimension=label_dimension,
                         engineer=feature_engineering_fn)


class DNNClassifier(_Classes, _Canned):
    def __init__(self, hidden_units, feature_columns, model_dir=None,
                 n_classes=2, weight_column_name=None, optimizer=None,
                 activation_fn=tf.nn.relu, dropout=None,
                 gradient_clip_norm=None, enable_centered_bias=False,
                 config=None, feature_engineering_fn=None, **_):
        super().__init__(model_dir, config, n_classes, weight_column_name,
                         feature_columns, hidden_units, activation_fn,
                         dropout, optimizer,
                         gradient_clip_norm=gradient_clip_norm,
                         engineer=feature_engineering_fn)


class LinearRegressor(_Canned):
    def __init__(self, feature_columns, model_dir=None,
                 weight_column_name=None, optimizer=None,
                 gradient_clip_norm=None, enable_centered_bias=False,
                 label_dimension=1, config=None, feature_engineering_fn=None,
                 **_):
        super().__init__(model_dir, config, 1, weight_column_name,
                         linear=feature_columns, linear_optimizer=optimizer,
                         gradient_clip_norm=gradient_clip_norm,
                         label_dimension=label_dimension,
                         engineer=feature_engineering_fn)


class LinearClassifier(_Classes, _Canned):
    def __init__(self, feature_columns, model_dir=None, n_classes=2,
                 weight_column_name=None, optimizer=None,
                 gradient_clip_norm=None, enable_centered_bias=False,
                 config=None, feature_engineering_fn=None, **_):
        super().__init__(model_dir, config, n_classes, weight_column_name,
                         linear=feature_columns, linear_optimizer=optimizer,
                         gradient_clip_norm=gradient_clip_norm,
                         engineer=feature_engineering_fn)


class DNNLinearCombinedRegressor(_Canned):
    def __init__(self, model_dir=None, weight_column_name=None,
                 linear_feature_columns=None, linear_optimizer=None,
                 dnn_feature_columns=None, dnn_optimizer=None,
                 dnn_hidden_units=None, dnn_activation_fn=tf.nn.relu,
                 dnn_dropout=None, gradient_clip_norm=None,
                 enable_centered_bias=False, label_dimension=1, config=None,
                 feature_engineering_fn=None, **_):
        super().__init__(model_dir, config, 1, weight_column_name,
                         dnn_feature_columns, dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, dnn_optimizer,
                         linear_feature_columns, linear_optimizer,
                         gradient_clip_norm, label_dimension,
                         feature_engineering_fn)


class DNNLinearCombinedClassifier(_Classes, _Canned):
    def __init__(self, model_dir=None, n_classes=2, weight_column_name=None,
                 linear_feature_columns=None, linear_optimizer=None,
                 dnn_feature_columns=None, dnn_optimizer=None,
                 dnn_hidden_units=None, dnn_activation_fn=tf.nn.relu,
                 dnn_dropout=None, gradient_clip_norm=None,
                 enable_centered_bias=False, config=None,
                 feature_engineering_fn=None, **_):
        super().__init__(model_dir, config, n_classes, weight_column_name,
                         dnn_feature_columns, dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, dnn_optimizer,
                         linear_feature_columns, linear_optimizer,
                         gradient_clip_norm,
                         engineer=feature_engineering_fn)
