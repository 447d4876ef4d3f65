"""What stands for the cluster of TensorFlow in a script that distributes
itself: tf.train.Server, replica_device_setter and SyncReplicasOptimizer.

A server of a worker is nothing: sessions run here, and the job's servers hold
what is shared. A server of a ps waits for the end of the job.
"""
from poseidon import _job
from poseidon.shared import lines
from poseidon.tensorflow import role

_RUNNER = "poseidon_sync_replicas"


def make_server(tf, began):
    """The class that takes the place of tf.train.Server; began(tasks) is
    called when a worker makes one of a cluster of so many."""
    real = tf.compat.v1.train.Server

    class Server:
        def __init__(self, server_or_cluster_def, job_name=None,
                     task_index=None, protocol=None, config=None, start=True):
            del start
            self._def = _server_def(tf, server_or_cluster_def, job_name,
                                    task_index, protocol, config)
            self._is_ps = self._def.job_name == "ps"
            if self._is_ps and not role.is_ps():
                role.refuse(
                    "this process is worker %d of the job and the script "
                    "makes it a ps; let psd_run give the roles: "
                    "psd_run -n 2 \"python train.py --job_name={job_name} "
                    "--task_index={task_index} ...\"" % _job.job().rank)
            if not self._is_ps:
                began(sum(len(job.tasks) for job in self._def.cluster.job))

        @property
        def server_def(self):
            return self._def

        @property
        def target(self):
            return ""  # a session of this process

        def start(self):
            pass

        def join(self):
            if not role.is_ps() and _job.job().size > 1:
                role.refuse(
                    "this worker only serves others (in-graph replication), "
                    "which Poseidon does not emulate; psd_run --tf-native "
                    "runs such a script on TensorFlow's own runtime")
            role.wait()

        @staticmethod
        def create_local_server(config=None, start=True):
            return Server({"localhost": ["localhost:0"]}, job_name="localhost",
                          task_index=0, config=config, start=start)

    Server.__doc__ = real.__doc__
    return Server


def _server_def(tf, given, job_name, task_index, protocol, config):
    """As TensorFlow makes it, with what it takes for granted."""
    from tensorflow.core.protobuf import tensorflow_server_pb2
    made = tensorflow_server_pb2.ServerDef()
    if isinstance(given, tensorflow_server_pb2.ServerDef):
        made.CopyFrom(given)
    else:
        made.cluster.CopyFrom(
            tf.train.ClusterSpec(given).as_cluster_def())
    jobs = [job.name for job in made.cluster.job]
    made.job_name = job_name or made.job_name or (
        jobs[0] if len(jobs) == 1 else "")
    if not made.job_name:
        raise ValueError("Must specify an explicit job_name.")
    made.task_index = task_index if task_index is not None else made.task_index
    made.protocol = protocol or made.protocol or "grpc"
    if config is not None:
        made.default_session_config.CopyFrom(
            getattr(config, "_message", config))   # poseidon.tf1's is around
    return made


def replica_device_setter(ps_tasks=0, ps_device="/job:ps",
                          worker_device="/job:worker", merge_devices=True,
                          cluster=None, ps_ops=None, ps_strategy=None):
    """Variables lie here, and their shared value in the job's servers: ops
    stay where they are."""
    del ps_tasks, ps_device, worker_device, merge_devices, cluster, ps_ops
    del ps_strategy

    def stay(op):
        return op.device or ""

    return stay


def make_sync_replicas(tf, inside):
    """The class that takes the place of SyncReplicasOptimizer. inside() is a
    context in which the optimizer that it wraps is synchronous, too."""
    v1 = tf.compat.v1

    class SyncReplicasOptimizer(v1.train.Optimizer):
        """The mean over all workers of each step, as ever; no tokens and no
        queues are needed for it."""

        def __init__(self, opt, replicas_to_aggregate, total_num_replicas=None,
                     variable_averages=None, variables_to_average=None,
                     use_locking=False, name="sync_replicas",
                     replica_id=None):
            del replica_id   # before TensorFlow 1.0
            super().__init__(use_locking, name)
            self._opt = opt
            self._total = total_num_replicas or replicas_to_aggregate
            self._averages = variable_averages
            self._averaged = variables_to_average
            self._ready = False
            _tell_replicas(replicas_to_aggregate)

        def compute_gradients(self, *args, **words):
            with inside():
                return self._opt.compute_gradients(*args, **words)

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            if global_step is None:
                raise ValueError("Global step is required to check staleness")
            with inside():
                done = self._opt.apply_gradients(grads_and_vars, global_step,
                                                 name)
            if self._averages is not None:
                with v1.control_dependencies([done]):
                    done = self._averages.apply(self._averaged)
            self._make_tools()
            return done

        def _make_tools(self):
            self._runner = _idle_runner(v1, self._name)
            self.local_step_init_op = v1.no_op("local_step_init")
            self.chief_init_op = v1.no_op("chief_init")
            waits = v1.report_uninitialized_variables(v1.global_variables())
            getattr(waits, "mark_used", int)()  # a script need not use it
            self.ready_for_local_init_op = waits
            self._tokens = v1.no_op("init_tokens")
            self._ready = True

        def _check(self):
            if not self._ready:
                raise ValueError("apply_gradients should be called first")

        def get_chief_queue_runner(self):
            self._check()
            return self._runner

        def get_init_tokens_op(self, num_tokens=-1):
            del num_tokens
            self._check()
            return self._tokens

        def get_clean_up_op(self):   # before TensorFlow 1.0
            self._check()
            return self._tokens

        def make_session_run_hook(self, is_chief, num_tokens=-1):
            del is_chief, num_tokens
            return v1.train.SessionRunHook()

        def get_slot(self, *args, **words):
            return self._opt.get_slot(*args, **words)

        def get_slot_names(self, *args, **words):
            return self._opt.get_slot_names(*args, **words)

        def variables(self):
            return self._opt.variables()

        def __getattr__(self, name):  # what else the wrapped one has
            if name.startswith("__") or "_opt" not in self.__dict__:
                raise AttributeError(name)
            return getattr(self._opt, name)

    return SyncReplicasOptimizer


def _tell_replicas(count):
    size = _job.job().size
    if count != size:
        lines.once("SyncReplicasOptimizer aggregates %d replicas; here it is "
                   "all %d workers of the job, in every step" % (count, size))


def _idle_runner(v1, name):
    """Supervisors want to start it; it has no threads."""
    from tensorflow.python.training import queue_runner_impl

    class Idle(queue_runner_impl.QueueRunner):
        def create_threads(self, sess, coord=None, daemon=False, start=False):
            return []

    with v1.name_scope(_RUNNER):
        queue = v1.FIFOQueue(1, [v1.int64], shapes=[[]], name=name + "_tokens",
                             shared_name=None)
        return Idle(queue, [v1.no_op("idle")])
