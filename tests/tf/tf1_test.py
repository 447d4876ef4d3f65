#!/usr/bin/env python3
"""TensorFlow 1 style scripts on a stock TensorFlow 2:

    PYTHON tests/tf/tf1_test.py --build DIR [PATTERN...]

PYTHON has TensorFlow (`tools/setup.sh tf215 --python`, or tf for the newest).
The scripts are in tf1_cases.py and in examples/tf1; importing TensorFlow
takes seconds, so each makes many claims.
"""
import ast
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
sys.path.insert(0, os.path.join(ROOT, 'python'))
from common import (  # noqa: E402
    Job, Skip, check, contains, keep, run_all, test)
import tf1_cases as cases  # noqa: E402
from tf1_data import write_cifar, write_mnist  # noqa: E402
from poseidon.tf1 import detect, python2  # noqa: E402

LIMIT = 240.0
EXAMPLES = os.path.join(ROOT, 'examples', 'tf1')
ENVIRONMENT = {'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3',
               'TF_NUM_INTRAOP_THREADS': '1', 'PYTHONDONTWRITEBYTECODE': '1'}


def has_estimator():
    from importlib.util import find_spec
    return find_spec('tensorflow_estimator') is not None


def alone(script, *args, code=0, env=None, cwd=None):
    """python -m poseidon.tf1 SCRIPT ARGS..., a path; stdout and stderr."""
    environ = dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python'),
                   **ENVIRONMENT)
    for name in ('PSD_TF', 'PSD_AGENT', 'TF_CONFIG'):
        environ.pop(name, None)
    environ.update(env or {})
    done = subprocess.run(
        [sys.executable, '-m', 'poseidon.tf1', script, *args], cwd=cwd,
        env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=LIMIT, text=True, check=False)
    check(code is None or done.returncode == code,
          '%s: exit code %d\n%s%s' % (script, done.returncode, done.stdout,
                                      done.stderr[-3000:]))
    return done.stdout, done.stderr


def text_alone(text, *args, files=None, **words):
    """The same with a script that is given as its text."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in dict(files or {}, **{'train.py': text}).items():
            with open(os.path.join(folder, name), 'w') as file:
                file.write(content)
        return alone(os.path.join(folder, 'train.py'), *args, cwd=folder,
                     **words)


def in_job(text, *args, options=(), env=None, files=None):
    """psd_run -n 1 python train.py ARGS..."""
    job = keep(Job('-n', '1', *options, '--', sys.executable, 'train.py',
                   *args, files=dict(files or {}, **{'train.py': text}),
                   env=dict(ENVIRONMENT, **(env or {}))))
    job.wait(LIMIT)
    check(job.code == 0, 'exit code %d\n%s%s' % (job.code, job.out, job.err))
    return job.log('worker_0.out'), job.log('worker_0.err')


@test
def the_source_tells_which_tensorflow_it_is_for():
    def kind(text, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in dict(files, train=text).items():
                with open(os.path.join(folder, name + '.py'), 'w') as file:
                    file.write(content)
            return detect.is_tf1(os.path.join(folder, 'train.py'))

    for name in ('MANUAL', 'NAMES', 'VALUES', 'CONTRIB', 'FLAGS',
                 'ESTIMATOR'):
        check(kind(getattr(cases, name)), '%s is for TensorFlow 1' % name)
    check(not kind(cases.MODERN), 'a comment is no use')
    check(not kind('import tensorflow.compat.v1 as tf\ntf.Session()\n'),
          'compat.v1 is TensorFlow 2')
    check(not kind('import torch\n'), 'torch')
    check(not kind('import tensorflow as tf\nprint("tf.Session()")\n'),
          'a text is no use')
    check(kind('import net\n', net='import tensorflow as t\nt.Session()\n'),
          'a module beside the script')
    check(kind('import learn_runner\nlearn_runner.run(1, 2)\n'),
          'learn_runner')
    check(kind('from tensorflow.contrib import slim\n'
               'import tensorflow.compat.v1 as tf\n'), 'contrib')
    for name in sorted(os.listdir(EXAMPLES)):
        if name.endswith('.py'):
            check(detect.is_tf1(os.path.join(EXAMPLES, name)), name)


@test
def only_python_2_is_translated():
    def kind(text):
        return python2._diagnosed(text.encode(), 'x.py')[0] is not None

    for text in ('print "a"\n', 'for i in xrange(3): pass\n',
                 'try:\n  pass\nexcept OSError, e:\n  pass\n',
                 'd = {}\nfor k, v in d.iteritems(): pass\n',
                 'import cPickle\n', 'print 1,\nx = 0777\n'):
        check(kind(text), text)
    for text in ('print("a")\n', 'from six.moves import xrange\nxrange(3)\n',
                 'import six\nsix.iteritems({})\n', 'x = (\n',
                 'try:\n  xrange\nexcept NameError:\n  xrange = range\n',
                 'try:\n  import cPickle\nexcept ImportError:\n  pass\n',
                 'def f(file): return file\n'):
        check(not kind(text), text)
    scope = {}
    exec(python2.compiled(b'a = 7 / 2\nb = 7\nb /= 2\nc = 7. / 2\n'
                          b'd = 0777\n', 'divide.py'), scope)
    check((scope['a'], scope['b'], scope['c']) == (3, 3, 3.5), str(scope))
    scope = {}
    exec(python2.compiled(b'from __future__ import division\na = 7 / 2\n'
                          b'd = 0777\n', 'divide2.py'), scope)
    check(scope['a'] == 3.5, 'the source asks for it')


@test
def the_manuals_script_runs_alone():
    out, err = text_alone(cases.MANUAL, '--max_steps', '2', '--unknown', '3')
    contains(out, 'step 1: 1 2', 'half 3 3.5 [3]',
             'job False -1 tcp://0.0.0.0:5555')
    contains(err, 'train.py is written for Python 2', 'lib2to3')
    check('step 2' not in out, 'max_steps')


@test
def the_manuals_script_runs_in_a_job_with_its_values():
    out, err = in_job(cases.MANUAL, '--max_steps', '1')
    contains(out, 'step 0: 1 2', 'job True 0 unix://')
    contains(err, 'is written for Python 2')


@test
def names_are_there_and_missing_ones_say_what_to_use():
    out, _ = text_alone(cases.NAMES)
    contains(out, 'missing: []', 'has: False False 3',
             'says: tf.contrib.crf is not there; use instead: '
             'tensorflow_addons',
             'near it: tf.train.MonitoredTrainingSession',
             'says: tf.nn.nothing_like_it is not there: neither',
             'says: tf.contrib.seq2seq is not there; use instead',
             'says: tf.contrib.learn.Nothing is not there',
             'no reader.py is beside the script')


@test
def values_and_orders_are_those_of_their_time():
    out, err = text_alone(cases.VALUES)
    check('DIFFERENT' not in out, out)
    check(out.count(' same\n') == 20, out)
    contains(out, "tags 3 ['h', 'i/image/0', 'one', 'two']",
             'rnn (2, 3, 4) (2, 3)',
             'cells [(2, 3, 10), (2, 2), (2, 4)] [2, 1] 1.3863 [ 1 -1]',
             "config [('batch_size', 32), ('block_size', 1048576), "
             "('num_push_threads', 1), ('peer_addresses', "
             "['tcp://10.0.0.1:7777']), ('use_sfb', True)] 8 True True",
             "ConfigProto.batch_size is 'many', it must be of type int",
             'no such field')
    contains(err, 'use_sfb and peer_addresses: accepted, no effect yet')


@test
def flags_and_options_parse_as_they_did():
    args = ('--max_steps=7', '--size', '3', '--quick', 'False',
            '--early=yes', '--log_dir', 'there')
    out, err = text_alone(cases.FLAGS, *args, code=2,
                          files={'part.py': cases.PART})
    contains(out, 'flags there None False yes', "('early', 'yes')",
             "('quick', False)", 'args 7 3', 'set other')
    contains(err, 'unrecognized arguments: --quick')


@test
def contrib_trains():
    out, _ = text_alone(cases.CONTRIB)
    contains(out, 'iris (150, 4) [50 50 50]', 'dnn True 80 7', 'both 3',
             "own ['acc', 'global_step', 'loss'] (3, 3)", 'slim (2, 320)',
             "['Conv/weights', 'Conv/biases']", 'train True True',
             'once [ True]', 'hparams 0.5 [3, 4] True', 'config None',
             'buckets True (2, 6) True',
             'says experiment_fn gave HParams, not an Experiment')


@test
def the_estimators_of_tensorflow_take_the_configuration():
    if not has_estimator():
        raise Skip('this TensorFlow has no estimators')
    out, _ = text_alone(cases.ESTIMATOR)
    contains(out, 'estimator 2')


@test
def without_estimators_a_sentence_tells():
    if has_estimator():
        raise Skip('this TensorFlow has estimators')
    _, err = text_alone(cases.ESTIMATOR, code=1)
    contains(err, 'tf.estimator is not there; use instead', '2.15')


@test
def a_job_sees_the_kind_and_leaves_tensorflow_2_alone():
    out, _ = in_job(cases.MODERN)
    contains(out, 'eager True 4.0 False module')
    out, _ = in_job(  # only a module beside the script speaks of it
        'import net\nprint(net.hidden())\n', files={'net.py': cases.NET})
    contains(out, 'False True')
    out, _ = in_job('import tensorflow as tf\nprint(tf.executing_eagerly(), '
                    'hasattr(tf, "Session"))\n', env={'PSD_TF': '1'})
    contains(out, 'False True')


@test
def a_wrong_choice_and_a_missing_script_are_told():
    _, err = alone('nothing.py', code=2)
    contains(err, 'nothing.py: no such script')
    done = subprocess.run(
        [sys.executable, '-c', 'from poseidon.tf1 import detect; '
         'detect.wanted(None)'], stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, PSD_TF='3',
                 PYTHONPATH=os.path.join(ROOT, 'python')), check=False)
    check(done.returncode == 1, 'PSD_TF=3')
    contains(done.stderr, "PSD_TF is '3', it must be 1, 2 or auto")


@test
def example_plain():
    out, _ = alone(os.path.join(EXAMPLES, 'plain.py'), '--steps', '61')
    contains(out, 'step 60: loss 0.0000', 'a + b = [')


@test
def example_mnist_deep():
    with tempfile.TemporaryDirectory() as folder:
        write_mnist(folder)
        out, _ = alone(os.path.join(EXAMPLES, 'mnist_deep.py'),
                       '--data_dir', folder, '--log_dir', folder + '/log',
                       '--steps', '41', '--validation', '100')
        contains(out, 'step 40, training accuracy', 'test accuracy')
        right = float(out.rpartition('test accuracy')[2])
        check(right > 0.2, 'it learns: %g' % right)
        names = os.listdir(folder + '/log')
        check('model.ckpt-41.index' in names and any(
            one.startswith('events.') for one in names), str(names))


@test
def example_cifar10():
    with tempfile.TemporaryDirectory() as folder:
        write_cifar(folder)
        common = ('--data_dir', folder, '--batch_size', '16')
        out, _ = alone(os.path.join(EXAMPLES, 'cifar10_train.py'), *common,
                       '--train_dir', folder + '/train', '--max_steps', '6',
                       '--log_frequency', '5')
        contains(out, 'step 0, loss = 4.', 'step 5, loss = ')
        out, _ = alone(os.path.join(EXAMPLES, 'cifar10_eval.py'), *common,
                       '--checkpoint_dir', folder + '/train', '--eval_dir',
                       folder + '/eval', '--run_once', '--num_examples',
                       '32')
        contains(out, 'precision @ 1 = 0.')


@test
def example_iris_experiment_goes_on_where_it_stopped():
    with tempfile.TemporaryDirectory() as folder:
        env = {'OUTPUT_DIR': folder, 'EXPERIMENT_ID': 'one', 'JOB_NAME': 'x'}
        path = os.path.join(EXAMPLES, 'iris_experiment.py')
        out, _ = alone(path, env=dict(env, STEPS='10'))
        contains(out, 'step 10: loss')
        out, err = alone(path, env=dict(
            env, STEPS='20', TF_CONFIG='{"cluster": {"master": ["a:1"], '
            '"ps": ["a:2"]}, "task": {"type": "master", "index": 0}}'))
        contains(out, 'step 20: loss')
        contains(err, 'TF_CONFIG names a cluster')
        names = os.listdir(os.path.join(folder, 'one'))
        check('model.ckpt-20.index' in names and 'eval' in names,
              str(names))


@test
def every_file_is_python_3_8():
    for base, _, names in os.walk(os.path.join(ROOT, 'python', 'poseidon',
                                               'tf1')):
        for name in names:
            if name.endswith('.py'):
                with open(os.path.join(base, name)) as file:
                    ast.parse(file.read(), name, feature_version=(3, 8))


if __name__ == '__main__':
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)
