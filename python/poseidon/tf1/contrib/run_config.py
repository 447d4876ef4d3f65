"""tf.contrib.learn.RunConfig: how to run, and what TF_CONFIG says.

The cluster of TF_CONFIG is told to the script; TensorFlow's own runtime is
not started for it.
"""
import json
import os

import tensorflow.compat.v1 as tf


class TaskType:
    MASTER, PS, WORKER, CHIEF = "master", "ps", "worker", "chief"
    EVALUATOR = "evaluator"


class Environment:
    LOCAL, CLOUD, GOOGLE = "local", "cloud", "google"


def environment():
    """TF_CONFIG as a dictionary."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError("TF_CONFIG is no JSON: %s" % error) from None
    if not isinstance(value, dict):
        raise ValueError("TF_CONFIG must be a JSON object")
    return value


class ClusterConfig:
    def __init__(self, master=None, evaluation_master=None):
        config = environment()
        task = config.get("task", {})
        self._cluster = config.get("cluster", {})
        self._type = task.get("type")
        self._index = int(task.get("index", 0) or 0)
        self._environment = config.get("environment", Environment.LOCAL)
        self._master = master or ""
        self._evaluation_master = evaluation_master or ""

    @property
    def cluster_spec(self):
        return tf.train.ClusterSpec(self._cluster)

    @property
    def environment(self):
        return self._environment

    @property
    def task_type(self):
        return self._type

    @property
    def task_id(self):
        return self._index

    @property
    def master(self):
        """Where a session runs: here."""
        return self._master

    @property
    def evaluation_master(self):
        return self._evaluation_master

    @property
    def num_ps_replicas(self):
        return len(self._cluster.get(TaskType.PS, ()))

    @property
    def num_worker_replicas(self):
        return len(self._cluster.get(TaskType.WORKER, ())) or 1

    @property
    def is_chief(self):
        if self._type in (TaskType.MASTER, TaskType.CHIEF, None):
            return self._index == 0
        first = not any(self._cluster.get(one) for one in
                        (TaskType.MASTER, TaskType.CHIEF))
        return (self._type == TaskType.WORKER and self._index == 0
                and first)


class RunConfig(ClusterConfig):
    def __init__(self, master=None, num_cores=0, log_device_placement=False,
                 gpu_memory_fraction=1, tf_random_seed=None,
                 save_summary_steps=100, save_checkpoints_secs=600,
                 save_checkpoints_steps=None, keep_checkpoint_max=5,
                 keep_checkpoint_every_n_hours=10000, log_step_count_steps=100,
                 evaluation_master="", model_dir=None, session_config=None,
                 **_):
        super().__init__(master, evaluation_master)
        if save_checkpoints_steps is not None:
            save_checkpoints_secs = None
        if session_config is None:
            session_config = tf.ConfigProto(
                log_device_placement=log_device_placement,
                inter_op_parallelism_threads=num_cores,
                intra_op_parallelism_threads=num_cores,
                gpu_options=tf.GPUOptions(
                    per_process_gpu_memory_fraction=gpu_memory_fraction))
        self.tf_config = self.session_config = session_config
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_secs = save_checkpoints_secs
        self.save_checkpoints_steps = save_checkpoints_steps
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.model_dir = model_dir

    def replace(self, **words):
        import copy
        other = copy.copy(self)
        for name, value in words.items():
            if not hasattr(other, name):
                raise ValueError("RunConfig has no %r" % name)
            setattr(other, name, value)
        if words.get("save_checkpoints_steps") is not None:
            other.save_checkpoints_secs = None     # one of the two
        elif words.get("save_checkpoints_secs") is not None:
            other.save_checkpoints_steps = None
        return other

    def for_estimator(self, kind):
        """As one of tf.estimator's, which was its parent."""
        return kind(**{name: getattr(self, name) for name in (
            "model_dir", "tf_random_seed", "save_summary_steps",
            "save_checkpoints_secs", "save_checkpoints_steps",
            "session_config", "keep_checkpoint_max",
            "keep_checkpoint_every_n_hours", "log_step_count_steps")})

    def uid(self, whitelist=None):
        return repr(sorted((name, value) for name, value in
                           self.__dict__.items()
                           if isinstance(value, (int, float, str))))
