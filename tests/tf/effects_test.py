#!/usr/bin/env python3
"""Seeds and side effects of TensorFlow scripts, with real jobs of several
workers: what is written once, who waits for what, which numbers are equal.

    PYTHON tests/tf/effects_test.py --build DIR [PATTERN...]

PYTHON has TensorFlow. The scripts are in effects_cases.py; importing
TensorFlow takes seconds, so each makes many claims.
"""
import contextlib
import glob
import http.server
import io
import os
import sys
import tarfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import (  # noqa: E402
    Job, Skip, check, contains, keep, run_all, test)
import effects_cases as cases  # noqa: E402

LIMIT = 240.0
ENVIRONMENT = {'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3',
               'TF_NUM_INTRAOP_THREADS': '1', 'PYTHONDONTWRITEBYTECODE': '1'}


def has(name):
    from importlib.util import find_spec
    return find_spec(name) is not None


def run(text, *args, workers=2, options=(), env=None, files=None, code=0):
    """psd_run -n WORKERS python train.py ARGS..."""
    job = keep(Job('-n', str(workers), *options, '--', sys.executable,
                   'train.py', *args,
                   files=dict(files or {}, **{'train.py': text}),
                   env=dict(ENVIRONMENT, **(env or {}))))
    job.wait(LIMIT)
    check(job.code == code, 'exit code %d, not %d\n%s%s' % (
        job.code, code, job.out, job.err))
    return job


def alike(job, *lines, workers=2):
    """Every worker has said this and only this."""
    wanted = ''.join(line + '\n' for line in lines)
    for rank in range(workers):
        found = job.log('worker_%d.out' % rank)
        check(found == wanted, 'worker %d said\n%s\nand not\n%s\n%s' % (
            rank, found, wanted, job.log('worker_%d.err' % rank)[-2000:]))


def listing(job, folder):
    return sorted(os.listdir(os.path.join(job.folder, folder)))


def event_files(job, folder):
    return glob.glob(os.path.join(job.folder, folder, '*tfevents*'))


def scalars(job, folder, tag):
    """(step, value) of all that TensorBoard's own reader finds."""
    if not has('tensorboard'):
        raise Skip('tensorboard is not installed')
    from tensorboard.backend.event_processing import event_accumulator
    reader = event_accumulator.EventAccumulator(
        os.path.join(job.folder, folder),
        size_guidance={event_accumulator.TENSORS: 0,
                       event_accumulator.SCALARS: 0})
    reader.Reload()
    if tag in reader.Tags()['scalars']:
        return [(one.step, one.value) for one in reader.Scalars(tag)]
    from tensorboard.util import tensor_util
    return [(one.step, float(tensor_util.make_ndarray(one.tensor_proto)))
            for one in reader.Tensors(tag)]


# ---- checkpoints, event files, folders ------------------------------------

def tutorial(slow):
    job = run(cases.TUTORIAL, env={'SLOW': slow}, files={
        'train/checkpoint': 'model_checkpoint_path: "old"\n',
        'train/old.index': '', 'train/old.data-00000-of-00001': ''})
    alike(job, 'old False', 'latest train/model.ckpt-11', 'x 111.0 11',
          "saved more/model.ckpt-2 ['more/model.ckpt-1', "
          "'more/model.ckpt-2']", 'state more/model.ckpt-2',
          'meta 2', 'values 111.0', 'folder events', 'own 0.0',
          'left False')
    check('old.index' not in listing(job, 'train'), 'the old one is there')
    check([name for name in listing(job, 'more') if 'index' in name] ==
          ['model.ckpt-1.index', 'model.ckpt-2.index'],
          str(listing(job, 'more')))
    check(len(event_files(job, 'train')) == 1, str(listing(job, 'train')))
    check(len(event_files(job, 'events')) == 1, str(listing(job, 'events')))
    check(listing(job, 'net') == ['net.pbtxt'], 'the graph')
    return job


@test
def the_tutorials_folder_is_cleared_and_written_once():
    tutorial('1')


@test
def tensorboard_reads_each_step_once():
    job = tutorial('0')
    found = scalars(job, 'train', 'value')
    check([step for step, _ in found] == sorted({step for step, _ in found})
          and len(found) >= 5, 'steps %r' % found)
    check(scalars(job, 'events', 'y') == [(3, 1.5)], 'y')


@test
def a_supervisor_is_a_chief_everywhere_and_writes_once():
    job = run(cases.SUPERVISOR)
    alike(job, 'chief True sv/model.ckpt-3', 'step 3')
    check(len(event_files(job, 'sv')) == 1, str(listing(job, 'sv')))


@test
def hooks_act_alike():
    job = run(cases.HOOKS)
    out = [job.log('worker_%d.out' % rank) for rank in (0, 1)]
    for text in out:
        contains(text, 'steps 4 4\n')
    contains(job.log('worker_0.err'), 'nobody waits for step 1000',
             'Model diverged')
    contains(job.log('worker_1.err'), 'Model diverged')
    contains(out[0], 'clock True')
    for folder in ('summary', 'counter', 'clock'):
        check(len(event_files(job, folder)) == 1, folder)
    check([step for step, _ in scalars(job, 'summary', 'loss')] ==
          [1, 2, 3, 4], 'summaries')


@test
def tensorflow_2_and_keras_save_once_and_load_the_same():
    job = run(cases.MODERN)
    alike(job, 'ck/one-1 1 ck/one-1', 'restored [1.0, 2.0]',
          "managed/ckpt-5 ['managed/ckpt-4', 'managed/ckpt-5']",
          'again managed/ckpt-5', 'loaded 6.0', 'keras [1.0, 1.0] 8',
          'compiled True', 'files True False')
    check([name for name in listing(job, 'managed') if 'index' in name] ==
          ['ckpt-4.index', 'ckpt-5.index'], str(listing(job, 'managed')))
    check(len(event_files(job, 'summaries')) == 1, 'summaries')
    check('1' in listing(job, 'runs/deep'), 'the folder that was made last')
    check(scalars(job, 'summaries', 'z') == [(0, 0.0), (1, 2.0), (2, 4.0)],
          'z')
    check(scalars(job, 'summaries', 'in') == [(7, 1.0)], 'in')


@test
def a_worker_of_another_host_takes_the_values_of_worker_0():
    job = run(cases.ABROAD)
    alike(job, 'ck/model-3', 'ck/model-3 ck/model-3')
    contains(job.log('worker_1.err'), 'is on the host of worker 0 alone')
    check(listing(job, 'elsewhere/ck') == [], 'it has written')


@test
def training_writes_once_and_goes_on_where_it_stopped():
    text = ('import runpy\nimport tensorflow as tf\n'
            'for turn in range(2):\n'
            '    tf.reset_default_graph()\n'
            '    runpy.run_path("one.py")\n')
    job = run(text, files={'one.py': cases.TRAINING}, env={'PSD_TF': '1'},
              options=('--digest', 'step'))
    out = job.log('worker_0.out')
    contains(out, 'trained train/after.ckpt-11', 'trained train/after.ckpt-22')
    check(out == job.log('worker_1.out'), 'the workers differ:\n%s%s' % (
        out, job.log('worker_1.out')))
    steps = [step for step, _ in scalars(job, 'train', 'loss')]
    check(steps == [*range(1, 11), *range(12, 22)], 'steps %r' % steps)
    check(len(event_files(job, 'train')) == 1, str(listing(job, 'train')))


def estimator(kind):
    job = run(cases.ESTIMATOR, kind)
    alike(job, 'result 25.0 12', 'value 6.0', 'model/model.ckpt-12')
    names = listing(job, 'model')
    check('model.ckpt-5.index' in names and len(event_files(
        job, 'model')) == 1, str(names))
    check(len(event_files(job, 'model/eval')) == 1, 'eval')
    check(scalars(job, 'model/eval', 'loss')[-1] == (12, 25.0), 'loss')
    return job


@test
def an_estimator_writes_once_and_evaluates():
    if not has('tensorflow_estimator'):
        raise Skip('this TensorFlow has no estimators')
    names = listing(estimator('estimator'), 'export')
    check(len(names) == 1 and names[0].isdigit(), str(names))


@test
def contribs_estimator_does_so_too():
    estimator('contrib')


# ---- seeds ----------------------------------------------------------------

def seeds(*args, options=()):
    job = run(cases.SEEDS, *args, options=options)
    found = {}
    for rank in range(2):
        for line in job.log('worker_%d.out' % rank).splitlines():
            kind, name, value = line.split(': ')
            found.setdefault((kind, name), []).append(value)
    for (kind, name), values in found.items():
        check(len(values) == 2 and len(set(values)) == (
            1 if kind == 'common' else 2), '%s, %s: %r' % (kind, name,
                                                           values))
    return found


@test
def streams_are_common_but_for_a_workers_own_rows():
    first = seeds(options=('--seed', '5'))
    check(len(first) == 18, str(sorted(first)))
    second = seeds('forked', options=('--seed', '6', '--batch',
                                      'per-worker'))
    check(first['common', 'random'] != second['common', 'random'] and
          first['common', 'eager'] != second['common', 'eager'],
          'not of --seed')
    for name in ('set', 'own', 'own in graph'):
        check(first['common', name] == second['common', name],
              'the seeds of the script: ' + name)


@test
def a_job_of_one_is_untouched():
    alike(run(cases.ALONE, workers=1), str([False] * 7) + ' None', workers=1)


# ---- downloads ------------------------------------------------------------

@contextlib.contextmanager
def serving(table):
    """Serves names in two slow halves, and counts."""
    counts = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            counts[self.path] = counts.get(self.path, 0) + 1
            data = table[self.path.split('?')[0].lstrip('/')]
            self.send_response(200)
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            self.wfile.write(data[:len(data) // 2])
            self.wfile.flush()
            threading.Event().wait(0.3)
            self.wfile.write(data[len(data) // 2:])

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield 'http://127.0.0.1:%d/' % server.server_address[1], counts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@test
def files_are_fetched_and_unpacked_once_per_host():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w:gz') as archive:
        for name in ('set/a', 'set/deep/b'):
            about = tarfile.TarInfo(name)
            about.size = 90000
            archive.addfile(about, io.BytesIO(os.urandom(90000)))
    with serving({'set.tgz': packed.getvalue(),
                  'plain.bin': b'z' * 5000}) as (url, counts):
        job = run(cases.DOWNLOADS, url, workers=3)
        for rank in range(3):
            last = job.log('worker_%d.out' % rank).splitlines()[-1]
            check(last == '[90000, 90000, 5000, 5000]', last)
        check(counts == {'/set.tgz': 1, '/plain.bin': 1, '/set.tgz?two': 1,
                         '/plain.bin?tf1': 1}, str(counts))
        left = glob.glob(job.folder + '/**/.psd-*', recursive=True)
        check(not left, 'left behind: %r' % left)


# ---- fields of ConfigProto, bad input -------------------------------------

@test
def the_manuals_fields_are_taken():
    threads = min(2, len(os.sched_getaffinity(0)))
    job = run(cases.FIELDS)
    alike(job, 'sum 8000', 'job True 65536 auto 32', 'client 0')
    contains(job.log('worker_0.err'), 'blocks of 65536 bytes',
             'use_sfb and peer_addresses: accepted',
             *(['the workers add up without any'] if threads > 1 else []))
    for way in ('shm', 'tcp'):
        job = run(cases.FIELDS, options=('-s', '2', '--transport', way))
        alike(job, 'sum 8000', 'job True 65536 %d 32' % threads, 'client 0')
        contains(job.log('worker_0.err'), '%d I/O thread' % threads)
        for server in range(2):
            contains(job.log('server_%d.log' % server),
                     'I/O threads %d, blocks of 65536 bytes' % threads)


@test
def what_psd_run_was_told_stays_as_it_is():
    job = run(cases.FIELDS, options=('-s', '1', '--threads', '3',
                                     '--block-size', '8K'))
    alike(job, 'sum 8000', 'job True 8192 3 32', 'client 0')
    contains(job.log('server_0.log'), 'I/O threads 3, blocks of 8192 bytes')
    contains(job.log('worker_0.err'),
             'the job has 3: use psd_run --threads',
             'the job has 8192: use psd_run --block-size 65536')


@test
def a_checkpoint_that_does_not_fit_ends_the_job_with_a_sentence():
    job = run('import runpy, sys\nrunpy.run_path("fit.py")\n'
              'import tensorflow as tf\ntf.reset_default_graph()\n'
              'runpy.run_path("unfit.py")\n', code=1, env={'PSD_TF': '1'},
              files={'fit.py': cases.FIT, 'unfit.py': cases.UNFIT})
    contains(job.log('worker_0.err') + job.log('worker_1.err'),
             'does not fit this graph', 'brand_new')


@test
def a_script_that_fails_on_import_on_one_worker_ends_the_job():
    job = run('import os\nimport tensorflow as tf\n'
              'if os.environ["PSD_RANK"] == "1":\n'
              '    import nothing_like_this\n'
              'from poseidon.tensorflow import core\ncore.start(tf)\n',
              code=1)
    contains(job.err, "No module named 'nothing_like_this'")


@test
def different_tensorflows_are_named():
    job = run(cases.VERSION, code=69)
    import importlib.metadata
    for name in ('tensorflow', 'tensorflow-cpu'):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(name)
    contains(job.err, 'has TensorFlow 2.99.0, worker 0 has ' + version)


@test
def an_old_tensorflow_is_refused():
    job = run('import tensorflow\n', code=69, files={
        'tensorflow/__init__.py': '__version__ = "2.14.1"\n'})
    contains(job.err, 'TensorFlow 2.14.1 is too old, 2.15 or newer')


@test
def a_missing_tensorflow_is_told():
    job = run('import tensorflow\n', code=1, files={
        'tensorflow.py': 'raise ModuleNotFoundError("No module named '
        '\'tensorflow\'", name="tensorflow")\n'})
    contains(job.err, 'has no tensorflow: install it there',
             'exit code 1: Python exception ModuleNotFoundError')


if __name__ == '__main__':
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)
