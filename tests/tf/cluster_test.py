#!/usr/bin/env python3
"""Scripts that distribute themselves in TensorFlow's own way:

    PYTHON tests/tf/cluster_test.py --build DIR [PATTERN...]

PYTHON has TensorFlow (`tools/setup.sh tf --python`, or tf215). The scripts are
in cluster_cases.py and in examples/tf1. On three hosts it runs as root, where
namespaces can be made.
"""
import glob
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import (  # noqa: E402
    Job, Skip, check, contains, keep, run_all, test)
import cluster_job  # noqa: E402
from tf1_data import write_mnist  # noqa: E402

LIMIT = 200.0
CASES = os.path.join(HERE, 'cluster_cases.py')
EXAMPLES = os.path.join(ROOT, 'examples', 'tf1')
ENVIRONMENT = {'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3',
               'TF_NUM_INTRAOP_THREADS': '1', 'PYTHONDONTWRITEBYTECODE': '1',
               'TF_ENABLE_ONEDNN_OPTS': '0'}
ROLES = ('--ps_hosts={ps_hosts} --worker_hosts={worker_hosts} '
         '--job_name={job_name} --task_index={task_index}')
WORKER = re.compile(r'worker (\d+): (\d+) of (\d+) steps(.*)')


def line(script, *words):
    return ' '.join([sys.executable, script, ROLES, *words])


def start(workers, command, *options, code=0):
    job = keep(Job('-n', str(workers), *options, command, env=ENVIRONMENT))
    job.wait(LIMIT)
    return checked(job, code)


def checked(job, code=0):
    check(job.code == code, 'exit code %d, not %d\n%s%s' % (
        job.code, code, job.out, job.err[-3000:]))
    return job


def told(job, workers):
    """What the workers of an example say at their end: [(steps of its own,
    the global step, the rest)]."""
    found = []
    for rank in range(workers):
        text = job.log('worker_%d.out' % rank)
        match = WORKER.search(text)
        check(match and int(match.group(1)) == rank, text)
        found.append((int(match.group(2)), int(match.group(3)),
                      match.group(4)))
    return found


def cases(job, workers):
    """{case: what each worker said of it}"""
    found = {}
    for rank in range(workers):
        for one in job.log('worker_%d.out' % rank).splitlines():
            if one.startswith('{'):
                row = json.loads(one)
                found.setdefault(row['case'], []).append(row)
    return found


def check_ps(job, count):
    """Every ps has ended by itself, with 0."""
    with open(os.path.join(job.logs(), 'report.json')) as file:
        ends = [(one['end'], one['code'])
                for one in json.load(file)['processes']
                if one['role'] == 'server']
    check(ends == [('done', 0)] * count, 'ends of the ps: %r' % ends)


def check_asynchronous(ends, steps):
    """Steps of all together; each worker may be in the last one."""
    total = sum(mine for mine, _, _ in ends)
    check(steps <= total < steps + len(ends) + 1,
          '%d steps of all, not %d' % (total, steps))
    check(all(mine > 0 for mine, _, _ in ends), 'one did nothing: %r' % ends)
    # A step may have been read before the last update of every worker.
    check(max(now for _, now, _ in ends) >= steps - len(ends), repr(ends))


@test
def asynchronous_workers_count_their_steps_together():
    job = start(2, line(EXAMPLES + '/async_training.py', '--steps=600',
                        '--log_dir=out'), '-s', '2')
    ends = told(job, 2)
    check_asynchronous(ends, 600)
    for _, _, rest in ends:
        slope, height = re.search(r'line ([-+.\d]+) x ([-+.\d]+)',
                                  rest).groups()
        check(abs(float(slope) - 3) < 0.05, rest)
        check(abs(float(height) + 2) < 0.05, rest)
    contains(job.err, 'asynchronous (hogwild)')
    contains(job.log('server_0.log'), 'ps 0: done')
    check_ps(job, 2)
    saved = [int(re.search(r'ckpt-(\d+)', name).group(1)) for name in
             glob.glob(job.folder + '/out/model.ckpt-*.index')]
    check(max(saved) >= 600, 'checkpoints: %r' % saved)


@test
def synchronous_workers_take_the_same_steps():
    job = start(2, line(EXAMPLES + '/sync_training.py', '--steps=60'),
                '--digest', 'step')
    ends = told(job, 2)
    check([end[:2] for end in ends] == [(60, 60)] * 2, repr(ends))
    weights = [end[2].partition('weights')[2] for end in ends]
    check(weights[0] == weights[1], repr(weights))
    contains(job.err, 'global batch 32 = 2 x 16 (per-worker)',
             ' 0 differences')
    check_ps(job, 1)


@test
def a_supervisor_of_any_worker_gets_its_session():
    job = start(2, line(EXAMPLES + '/supervised_training.py', '--steps=300',
                        '--log_dir=out', '--sync'))
    ends = told(job, 2)
    check([end[:2] for end in ends] == [(300, 300)] * 2, repr(ends))
    for _, _, rest in ends:
        check(float(rest.rpartition(' ')[2]) > 0.85, rest)
    check(os.path.exists(job.folder + '/out/checkpoint'), 'checkpoint')


@test
def digits_are_learned_and_a_second_job_goes_on():
    with tempfile.TemporaryDirectory() as folder:
        write_mnist(folder)
        log = folder + '/log'
        words = ('--data_dir=' + folder, '--log_dir=' + log,
                 '--validation=100')
        job = start(2, line(EXAMPLES + '/mnist_distributed.py', '--steps=40',
                            *words))
        check_asynchronous(told(job, 2), 40)
        check(glob.glob(log + '/events.*'), 'no event file')
        job = start(2, line(EXAMPLES + '/mnist_distributed.py', '--steps=60',
                            *words))
        ends = told(job, 2)
        total = sum(mine for mine, _, _ in ends)
        check(17 <= total <= 22, 'steps behind the checkpoint: %r' % ends)


@test
def scripts_of_every_style_run_as_they_are():
    names = ('waiting_by_hand', 'begins_with_the_chiefs_values',
             'two_optimizers_share_a_variable', 'a_factor_of_its_own',
             'tf_config',
             'one_ends_early')
    with tempfile.TemporaryDirectory() as folder:
        job = start(2, line(CASES, '--cases=' + ','.join(names),
                            '--folder=' + folder), '--tf-config')
    rows = cases(job, 2)
    hand = rows['by hand']
    total = sum(row['mine'] for row in hand)
    check(300 <= total <= 302, repr(hand))
    # One that took few steps may never have been near.
    check(min(row['error'] for row in hand) < 0.05, repr(hand))
    check(hand[0]['device'] in ('/device:CPU:0', '/cpu:0'), repr(hand))
    for row in rows['begin']:
        check(row['weights'] == [7.0] * 10 and row['other'] == [1.0],
              repr(row))
    check(all(row['weights'] == [7.0] * 10 for row in rows['again']),
          repr(rows['again']))
    check([row['value'] for row in rows['two']] == [440.0] * 2,
          repr(rows['two']))
    check([row['values'] for row in rows['factor']] == [[10.0, 10.0]] * 2,
          repr(rows['factor']))
    contains(job.err, ' 0 differences')
    for row, task in zip(rows['TF_CONFIG'], ('master', 'worker')):
        check(row['script'] == {'type': task, 'index': 0} and row['there'],
              repr(row))
        check(row['tensorflow'] == {} and row['workers'] in (None, 1),
              repr(row))
    early = rows['early']
    check(early[1]['mine'] == 5 and early[0]['mine'] >= 190, repr(early))


@test
def what_is_not_emulated_is_told():
    job = start(2, line(CASES, '--cases=join'), code=64)
    contains(job.err, 'in-graph replication', '--tf-native')
    roles = '--ps_hosts=a:1 --worker_hosts=b:1 --job_name=ps --task_index=0'
    job = start(2, ' '.join([sys.executable, CASES, roles]), code=64)
    contains(job.err, 'the script makes it a ps', '{job_name}')


@test
def an_experiment_goes_on_under_its_name():
    if not has_estimator():
        raise Skip('this TensorFlow has no estimators')
    with tempfile.TemporaryDirectory() as folder:
        for steps in ('10', '20'):
            job = start(2, 'OUTPUT_DIR=%s STEPS=%s %s %s' % (
                folder, steps, sys.executable,
                EXAMPLES + '/iris_experiment.py'), '--tf-config', '--name',
                'exp')
            contains(job.out, 'step %s: loss' % steps)
            contains(job.err, 'its workers are those of this job')
        names = os.listdir(folder + '/exp')
        check('model.ckpt-20.index' in names and 'eval' in names, str(names))


@test
def tensorflow_itself_does_the_work_where_it_is_asked_to():
    once()
    job = start(2, line(EXAMPLES + '/async_training.py', '--steps=1000'),
                '--tf-native')
    check_asynchronous(told(job, 2), 1000)
    check('hogwild' not in job.err, job.err)


@test
def roles_run_on_three_hosts():
    once()
    why = cluster_job.Cluster.missing()
    if why is not None:
        raise Skip(why)
    cluster_job.start_cluster()
    try:
        config = {'worker_nodes': ['node1', 'node2'],
                  'server_nodes': ['node0']}
        for script, steps in (('supervised_training.py', 400),
                              ('sync_training.py', 40)):
            job = cluster_job.Job(
                line(os.path.join(EXAMPLES, script), '--steps=%d' % steps),
                config=config, env=ENVIRONMENT)
            checked(job.wait(LIMIT))
            ends = told(job, 2)
            if script == 'sync_training.py':
                check([end[:2] for end in ends] == [(steps, steps)] * 2,
                      repr(ends))
            else:
                check_asynchronous(ends, steps)
            check_ps(job, 1)
    finally:
        cluster_job.stop_cluster()


def once():
    if not has_estimator():
        raise Skip('with one TensorFlow is enough: with 2.15')


def has_estimator():
    from importlib.util import find_spec
    return find_spec('tensorflow_estimator') is not None


if __name__ == '__main__':
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)
