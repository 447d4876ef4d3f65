"""An Experiment: a small network on Iris, trained and evaluated by
learn_runner.

    JOB_NAME=try python -m poseidon.tf1 iris_experiment.py

The folder is OUTPUT_DIR (default /data/tensorflow-output) and below it the
name EXPERIMENT_ID, else JOB_NAME; the same name again goes on from its newest
checkpoint.
"""
import os

import learn_runner
from tensorflow.contrib.layers.python.layers import feature_column
from tensorflow.contrib.learn.python.learn import experiment
from tensorflow.contrib.learn.python.learn import RunConfig
from tensorflow.contrib.learn.python.learn.estimators import dnn
from tensorflow.contrib.learn.python.learn.estimators import test_data

STEPS = int(os.environ.get("STEPS", "1000"))


def make_experiment(output_dir):
    columns = [feature_column.real_valued_column("feature", dimension=4)]
    return experiment.Experiment(
        estimator=dnn.DNNRegressor(
            feature_columns=columns, hidden_units=[8, 4],
            model_dir=output_dir, config=RunConfig()),
        train_input_fn=test_data.iris_input_logistic_fn,
        eval_input_fn=test_data.iris_input_logistic_fn,
        train_steps=STEPS, eval_steps=1)


def main():
    name = os.environ.get("EXPERIMENT_ID") or os.environ["JOB_NAME"]
    folder = os.environ.get("OUTPUT_DIR", "/data/tensorflow-output")
    result = learn_runner.run(experiment_fn=make_experiment,
                              output_dir=os.path.join(folder, name))
    if isinstance(result, tuple):  # the master evaluates, a worker trains
        print("step %d: loss %.4f" % (result[0]["global_step"],
                                      result[0]["loss"]))


if __name__ == "__main__":
    main()
