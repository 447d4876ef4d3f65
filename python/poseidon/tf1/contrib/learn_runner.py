"""tf.contrib.learn.python.learn.learn_runner, also by the plain name
learn_runner: makes an Experiment and runs the part that this process has."""
import inspect

from poseidon.tf1.contrib import run_config as configs
from poseidon.tf1.contrib.experiment import Experiment


def run(experiment_fn, output_dir=None, schedule=None, run_config=None,
        hparams=None):
    if output_dir is not None and run_config is not None:
        raise ValueError("give output_dir or run_config, not both")
    if output_dir is None and run_config is None:
        raise ValueError("give output_dir: the folder of checkpoints and "
                         "event files")
    if not callable(experiment_fn):
        raise TypeError("experiment_fn must be a function")
    names = inspect.signature(experiment_fn).parameters
    if run_config is not None:
        # The second may have any name.
        more = (hparams,) if hparams is not None or len(names) > 1 else ()
        experiment = experiment_fn(run_config, *more)
    else:
        experiment = experiment_fn(output_dir)
    if not isinstance(experiment, Experiment):
        raise TypeError("experiment_fn gave %s, not an Experiment"
                        % type(experiment).__name__)
    name = schedule or _schedule(configs.ClusterConfig())
    task = getattr(experiment, name, None)
    if name.startswith("_") or not callable(task):
        raise ValueError("schedule is %r; an Experiment has %s" % (
            name, ", ".join(one for one in dir(experiment)
                            if one[0] != "_" and callable(
                                getattr(type(experiment), one, None)))))
    return task()


def _schedule(config):
    """What TF_CONFIG makes of this process."""
    kind = config.task_type
    if kind is None or not config.cluster_spec.jobs:
        return "train_and_evaluate"
    from poseidon import _job
    if _job.job().size > 1:
        _job.say("TF_CONFIG names a cluster: its workers are those of this "
                 "job, the master evaluates")
    else:
        _job.warn_once("TF_CONFIG", "TF_CONFIG names a cluster: this process "
                       "(%s %d) trains on this machine alone"
                       % (kind, config.task_id))
    table = {"master": "train_and_evaluate", "chief": "train_and_evaluate",
             "worker": "train", "ps": "run_std_server",
             "evaluator": "continuous_eval"}
    if kind not in table:
        raise ValueError("TF_CONFIG: task type %r is not one of %s"
                         % (kind, ", ".join(sorted(table))))
    return table[kind]


def tune(experiment_fn, tuner):
    """Ask the tuner for trials as long as it has one."""
    while tuner.next_trial():
        tuner.run_experiment(experiment_fn)
