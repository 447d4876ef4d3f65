#!/usr/bin/env python3
"""Who joins a job, and who does not: the launched process, none of its
children, whatever way Python is started.

    PYTHON boot_test.py --build DIR [PATTERN...]

Most tests run a copy of the installed tree whose adapter only writes down
what happens to it (PROBE), many with a package `torch` of a few lines
(FAKE): what is tested is the way in, python/boot and poseidon/_boot.py.
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

from common import (PYTHON, TorchJob, build, check, contains, environment,
                    keep, main, run, run_script, test)

# The adapter: one line in the worker's file for everything that is called.
PROBE = """
import os
import sys
from poseidon import _boot


def note(text):
    folder = os.path.dirname(os.environ["TMPDIR"])
    path = os.path.join(folder, "probe." + os.environ["PSD_RANK"])
    with open(path, "a") as file:
        file.write("%s %d\\n" % (text, os.getpid()))


def apply(torch):
    note("applied")
    original = torch.optim.Optimizer.__init__

    def init(self, *args, **kwargs):
        note("joined" if _boot.is_worker() else "refused")
        original(self, *args, **kwargs)

    def restore():
        torch.optim.Optimizer.__init__ = original

    torch.optim.Optimizer.__init__ = init
    _boot.on_fork(restore)
    from poseidon.torch import aside
    aside.install(torch)


def stand_aside(reason):
    note(reason.replace(" ", "_"))
"""
FAKE = {
    'site/torch/__init__.py': '__version__ = "2.13.0"\n'
                              'from torch import nn, optim\n',
    'site/torch/nn.py': '',
    'site/torch/optim.py': 'class Optimizer:\n'
                           '    def __init__(self, params=()):\n'
                           '        pass\n',
}
TRAIN = 'import torch\ntorch.optim.Optimizer()\nprint("trained")\n'
TREE = tempfile.mkdtemp(prefix='psd-boot-')
atexit.register(shutil.rmtree, TREE, True)


def make_tree():
    """The programs and python/, with the probe for an adapter."""
    os.mkdir(os.path.join(TREE, 'bin'))
    for name in ('bin/psd', 'bin/psd_run', 'libposeidon.so.0'):
        shutil.copy(os.path.join(build, name), os.path.join(TREE, name))
    shutil.copytree(os.path.join(build, 'python'),
                    os.path.join(TREE, 'python'),
                    ignore=shutil.ignore_patterns('__pycache__'))
    folder = os.path.join(TREE, 'python', 'poseidon', 'torch')
    for name in os.listdir(folder):
        if name != 'aside.py':
            os.remove(os.path.join(folder, name))
    for name, text in (('__init__.py', ''), ('_patch.py', PROBE)):
        with open(os.path.join(folder, name), 'w') as file:
            file.write(text)


class ProbeJob(TorchJob):
    """A job of the copy; `fake` has the torch of a few lines in front."""

    program = os.path.join(TREE, 'bin', 'psd_run')

    def notes(self, rank):
        try:
            with open(os.path.join(self.folder, 'probe.%d' % rank)) as file:
                return [line.split() for line in file]
        except FileNotFoundError:
            return []

    def count(self, word, rank=0):
        return sum(note[0] == word for note in self.notes(rank))


def probe(command, files=None, env=None, workers=2, code=0, fake=True):
    """Run a text for the shell; PY in it is this Python."""
    if not os.path.exists(os.path.join(TREE, 'bin')):
        make_tree()
    env = dict(env or {}, PY=PYTHON)
    if fake:
        env['PYTHONPATH'] = 'site'
    job = keep(ProbeJob('-n', str(workers), command,
                        files=dict(FAKE if fake else {}, **(files or {})),
                        env=environment(env))).wait()
    check(code is None or job.code == code, 'exit code %d\n%s%s' % (
        job.code, job.out, job.err))
    return job


def joins_once(command, **rest):
    """Each worker joins once, by a process that has claimed it."""
    job = probe(command, **rest)
    for rank in range(2):
        check(job.count('joined', rank) == 1, '%s: worker %d: %r\n%s%s' % (
            command, rank, job.notes(rank), job.out, job.err))
        check(job.count('refused', rank) == 0, repr(job.notes(rank)))
    return job


# ---- ways to start a script ----------------------------------------------

@test
def every_way_to_start_a_script_joins():
    files = {
        'x.py': TRAIN,
        'inner.py': 'def go():\n    import torch\n'
                    '    torch.optim.Optimizer()\ngo()\n',
        'first.py': 'from torch import nn\nfrom torch.optim import Optimizer\n'
                    'Optimizer()\n',
        'launcher.py': 'import subprocess, sys\nsys.exit(subprocess.call('
                       '[sys.executable, "x.py"]))\n',
        'train.sh': '#!/bin/sh\nexec "$PY" x.py "$@"\n',
    }
    for command in ('$PY x.py', '$PY -u -B x.py', '$PY -m x',
                    '$PY -m cProfile -o /dev/null x.py',
                    '$PY -c "import torch.optim; torch.optim.Optimizer()"',
                    '$PY inner.py', '$PY first.py', '$PY launcher.py',
                    'sh train.sh', '$PY -c "print(1)" && $PY x.py',
                    '$PY < x.py'):
        joins_once(command, files=files)


@test
def a_helper_that_imports_torch_first_does_not_join():
    job = joins_once('$PY -c "import torch; print(torch.__version__)" && '
                     '$PY x.py', files={'x.py': TRAIN})
    check(job.count('applied') == 2, repr(job.notes(0)))
    joins_once('$PY x.py', files={'x.py': (
        'import subprocess, sys\n'
        'subprocess.check_call([sys.executable, "-c", "import torch"])\n'
        + TRAIN)})


@test
def a_script_that_execs_itself_joins():
    joins_once('$PY x.py', files={'x.py': (
        'import os, sys\nimport torch\n'
        'if len(sys.argv) == 1:\n'
        '    os.execv(sys.executable, [sys.executable, "x.py", "again"])\n'
        + TRAIN)})


# ---- children -------------------------------------------------------------

@test
def subprocesses_stand_aside():
    job = joins_once('$PY x.py', files={'x.py': TRAIN + (
        'import subprocess, sys\n'
        'for words in (["-c", open("y.py").read()], ["y.py"], ["-m", "y"]):\n'
        '    subprocess.check_call([sys.executable, *words])\n'),
        'y.py': TRAIN})
    check(job.count('applied') == 1, repr(job.notes(0)))
    check(job.out.count('trained') == 4, job.out)


@test
def a_forked_child_stands_aside():
    before = ('import os, sys\n'
              'if os.fork() == 0:\n'
              '    import torch\n    torch.optim.Optimizer()\n'
              '    sys.stdout.flush()\n    os._exit(0)\n'
              'os.wait()\n')
    for text in (before + TRAIN, 'import torch\n' + before + TRAIN,
                 TRAIN + before):
        job = joins_once('$PY x.py', files={'x.py': text})
        check(job.count('applied') == 1, repr(job.notes(0)))


@test
def children_of_multiprocessing_stand_aside():
    text = ('import multiprocessing, sys\n'
            '%s'
            'def work():\n    import torch\n    torch.optim.Optimizer()\n'
            'if __name__ == "__main__":\n'
            '    %s\n'
            '    context = multiprocessing.get_context(sys.argv[1])\n'
            '    child = context.Process(target=work)\n'
            '    child.start(); child.join()\n'
            '    assert child.exitcode == 0, child.exitcode\n'
            '    import torch\n    torch.optim.Optimizer()\n')
    for way in ('fork', 'spawn', 'forkserver'):
        for top in ('', 'import torch\n'):
            for first in ('pass', 'import torch'):
                job = joins_once('$PY x.py ' + way,
                                 files={'x.py': text % (top, first)})
                check(job.count('applied') == 1, '%s %r %r: %r' % (
                    way, top, first, job.notes(0)))


@test
def workers_of_a_data_loader_stand_aside():
    text = ('import sys, torch\n'
            'from torch.utils.data import DataLoader\n'
            'class Data(torch.utils.data.Dataset):\n'
            '    def __len__(self):\n        return 8\n'
            '    def __getitem__(self, i):\n'
            '        model = torch.nn.Linear(1, 1)\n'
            '        torch.optim.SGD(model.parameters(), 0.1)\n'
            '        return torch.tensor(float(i))\n'
            'if __name__ == "__main__":\n'
            '    model = torch.nn.Linear(1, 1)\n'
            '    torch.optim.SGD(model.parameters(), 0.1)\n'
            '    for way in ("fork", "spawn"):\n'
            '        loader = DataLoader(Data(), 2, num_workers=2,\n'
            '                            multiprocessing_context=way)\n'
            '        print(way, sum(batch.sum().item() for batch in loader))\n')
    job = joins_once('$PY x.py', files={'x.py': text}, fake=False)
    contains(job.out, 'fork 28.0', 'spawn 28.0')
    check(job.count('applied') == 1, repr(job.notes(0)))


@test
def a_job_inside_a_job_claims_its_own_workers():
    job = probe('$PY x.py', files={
        'y.py': TRAIN, 'x.py': TRAIN + (
            'import os, subprocess, sys\n'
            'if os.environ["PSD_RANK"] == "0":\n'
            '    os.environ["PSD_RANK"] = "7"\n'
            '    subprocess.check_call([%r, "-q", "-n", "1", "--",\n'
            '                           sys.executable, "y.py"])\n')
        % ProbeJob.program})
    check(job.count('joined') == 2, repr(job.notes(0)))


# ---- switched off ---------------------------------------------------------

@test
def it_is_off_when_the_user_says_so():
    for env in ({'PSD_DISABLE': '1'}, {'PSD_DISABLE': 'yes'}):
        job = probe('$PY x.py', files={'x.py': TRAIN}, env=env)
        check(not job.notes(0) and not job.notes(1), repr(job.notes(0)))
        check('no worker joined' not in job.err, job.err)
    joins_once('$PY x.py', files={'x.py': TRAIN}, env={'PSD_DISABLE': '0'})


@test
def options_of_python_that_switch_it_off_are_told():
    text = 'import sys\nsys.path.insert(0, "site")\n' + TRAIN
    for flag in 'ISE':
        job = probe('$PY -u%s x.py' % flag, files={'x.py': text})
        check(not job.notes(0), repr(job.notes(0)))
    # $PY hides the name; a path of its own does not.
    for flag in 'ISE':
        job = probe('%s -u%s x.py' % (PYTHON, flag), files={'x.py': text})
        contains(job.err, 'no worker joined the job: python -%s switches '
                 'Poseidon off; the program ran alone in each of 2 processes'
                 % flag)
        contains(job.run_log(), 'python -%s switches Poseidon off' % flag)
    job = probe('PYTHONPATH=site %s x.py' % PYTHON, files={'x.py': TRAIN})
    contains(job.err, 'the program ran alone in each of 2 processes',
             'PYTHONPATH')
    job = probe('echo python-free', files={})
    check('no worker joined' not in job.err, job.err)


# ---- what the site and the script see ------------------------------------

@test
def the_sitecustomize_of_the_site_runs():
    report = ('import sys, sitecustomize\n'
              'print("module", getattr(sitecustomize, "MINE", None))\n')
    good = 'import sys\nMINE = 7\nprint("site runs", __name__)\n'
    for name in ('site/sitecustomize.py', 'site/sitecustomize/__init__.py'):
        job = joins_once('$PY x.py', files={name: good,
                                            'x.py': report + TRAIN})
        check(job.out.startswith('site runs sitecustomize\nmodule 7\n'),
              job.out)
    for bad, word in (('1 / 0', 'ZeroDivisionError'),
                      ('import no_such_module', 'no_such_module')):
        job = joins_once('$PY x.py', files={'site/sitecustomize.py': bad,
                                            'x.py': TRAIN})
        contains(job.err, 'Error in sitecustomize', word)
        contains(job.out, 'trained')
    job = joins_once('$PY x.py', files={'x.py': report + TRAIN})
    contains(job.out, 'module None\n')


@test
def nothing_is_imported_that_the_script_does_not_import():
    text = 'import sys\nprint(sorted(sys.modules))\n'
    job = probe('$PY x.py', files={'x.py': text})
    alone = subprocess.run([PYTHON, '-c', text], stdout=subprocess.PIPE,
                           text=True, check=True).stdout
    # pylint: disable=eval-used
    more = set(eval(job.out)) - set(eval(alone))
    check(more <= {'sitecustomize', 'poseidon', 'poseidon._boot'},
          repr(sorted(more)))


@test
def a_watched_module_looks_as_always():
    text = ('import importlib.util, inspect, sys\n'
            'spec = importlib.util.find_spec("torch")\n'
            'assert "torch" not in sys.modules\n'
            'import torch\n'
            'assert type(torch.__loader__).__name__ == "SourceFileLoader"\n'
            'assert "exec_module" not in vars(torch.__loader__)\n'
            'assert torch.__spec__.loader is torch.__loader__\n'
            'assert "__version__" in inspect.getsource(torch)\n'
            'importlib.reload(torch)\n')
    job = joins_once('$PY x.py', files={'x.py': text + TRAIN})
    check(job.count('applied') == 1, repr(job.notes(0)))


@test
def an_import_that_fails_is_the_scripts_own_matter():
    text = ('try:\n    import torch\nexcept ImportError as error:\n'
            '    print("no torch:", error)\n')
    broken = {'site/torch/__init__.py': 'import no_such_thing\n'}
    job = probe('$PY x.py', files=dict(broken, **{'x.py': text}))
    contains(job.out, "no torch: No module named 'no_such_thing'")
    check(not job.notes(0), repr(job.notes(0)))
    mended = ('import os, sys\n' + text +
              'open("torch_%s.py" % os.environ["PSD_RANK"], "w").close()\n'
              'sys.path.insert(0, "later")\n'
              'sys.path_importer_cache.clear()\n')
    job = joins_once('$PY x.py', files=dict(broken, **{
        'x.py': mended + TRAIN,
        'later/torch/__init__.py': FAKE['site/torch/__init__.py'],
        'later/torch/nn.py': '',
        'later/torch/optim.py': FAKE['site/torch/optim.py']}))
    check(job.count('applied') == 1, repr(job.notes(0)))


# ---- scripts that distribute themselves ----------------------------------

GROUP = """
import os, sys
import torch
import torch.distributed as dist
if sys.argv[1] == "late":
    from torch.distributed import init_process_group
else:
    init_process_group = dist.init_process_group
init_process_group("gloo", init_method="file://" + os.path.abspath("meet"),
                   rank=int(os.environ["PSD_RANK"]), world_size=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2)).sum().backward()
total = torch.ones(1)
dist.all_reduce(total)
print("group", total.item(), dist.init_process_group.__module__)
dist.barrier()
del model  # before the group it speaks through
dist.destroy_process_group()
"""


@test
def a_script_with_its_own_process_group_is_left_alone():
    for way in ('late', 'attribute'):
        job = probe('$PY x.py ' + way, files={'x.py': GROUP}, fake=False)
        contains(job.out, 'group 2.0')
        for rank in range(2):
            check(job.count('the_script_calls_torch.distributed.'
                            'init_process_group', rank) == 1,
                  repr(job.notes(rank)))


@test
def a_script_with_horovod_is_left_alone():
    files = {'site/horovod/__init__.py': '',
             'site/horovod/torch/__init__.py': 'import torch\n'}
    for first in ('import horovod.torch as hvd\nimport torch\n',
                  'import torch\nimport horovod.torch as hvd\n'):
        job = probe('$PY x.py', files=dict(files, **{'x.py': first}))
        check(job.count('the_script_uses_Horovod') == 1, repr(job.notes(0)))
    job = probe('$PY x.py', files=dict(files, **{
        'x.py': 'import horovod\n' + TRAIN}))
    check(job.count('the_script_uses_Horovod') == 0, repr(job.notes(0)))


@test
def workers_of_another_launcher_are_left_alone():
    for more, word in (({'ACCELERATE_MIXED_PRECISION': 'no'}, 'accelerate'),
                       ({'TORCHELASTIC_RUN_ID': '1'}, 'torchrun')):
        job = probe('$PY x.py', files={'x.py': 'import torch\n'},
                    env=dict(more, RANK='1', WORLD_SIZE='4'))
        check(job.count('the_script_was_started_by_' + word) == 1,
              repr(job.notes(0)))
    # The usual case: the launcher imports torch itself.
    start = ('import os, subprocess, sys\nimport torch\n'
             'for rank in "01":\n'
             '    os.environ.update(RANK=rank, WORLD_SIZE="2",\n'
             '                      TORCHELASTIC_RUN_ID="1")\n'
             '    subprocess.check_call([sys.executable, "x.py"])\n')
    text = TRAIN + ('import subprocess, sys\n'
                    'subprocess.check_call([sys.executable, "-c", "pass"])\n')
    job = probe('$PY start.py', files={'start.py': start, 'x.py': text})
    check((job.err + job.rank_err(1)).count('started by torchrun: ') == 1,
          job.err)
    check(job.count('joined') == 0, repr(job.notes(0)))
    job = probe('$PY x.py', files={'x.py': 'import torch\n'},
                env={'RANK': '1', 'WORLD_SIZE': '4'})
    check([note[0] for note in job.notes(0)] == ['applied'],
          repr(job.notes(0)))


# ---- with the adapter itself ----------------------------------------------

STEPS = """
import torch
torch.manual_seed(1)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
print("trained", model.weight.sum().item())
"""
OLD = {'old/torch/__init__.py': '__version__ = "1.13.1+cu117"\n'
                                'from torch import optim\n',
       'old/torch/optim.py': FAKE['site/torch/optim.py']}
# Worker 1 has another torch in front.
OTHER = ('if [ $PSD_RANK = 1 ]; then export PYTHONPATH=$PYTHONPATH:old; fi; '
         'exec ' + PYTHON + ' train.py')


@test
def the_adapter_joins_and_leaves_in_good_order():
    job = run_script(STEPS)
    check('no worker joined' not in job.err, job.err)
    contains(job.err, '2 workers done')
    outs = job.outs(2)
    check(outs[0] == outs[1] and 'trained' in outs[0], repr(outs))


@test
def every_kind_of_child_leaves_the_job_alone():
    text = """
import multiprocessing, os, subprocess, sys
import torch
def child():
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    print("child", flush=True)
if __name__ == "__main__":
    exec(open("steps.py").read())
    for way in ("fork", "spawn"):
        process = multiprocessing.get_context(way).Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode
    subprocess.check_call([sys.executable, "steps.py"])
    exec(open("steps.py").read())
"""
    job = run_script(text, files={'steps.py': STEPS})
    for rank in range(2):
        out = job.rank_out(rank)
        check(out.count('child') == 2 and out.count('trained') == 3, out)
    check('no worker joined' not in job.err, job.err)


@test
def torch_too_old_on_one_worker_is_the_reason():
    job = run(OTHER, files={'train.py': STEPS, **OLD}, code=69)
    contains(job.err, 'reason: worker 1', 'torch 1.13.1+cu117 is too old',
             '2.1 or newer')


@test
def torch_missing_on_one_worker_is_the_reason():
    hide = ('import os, sys\n'
            'if os.environ["PSD_RANK"] == "1":\n'
            '    sys.path = [entry for entry in sys.path\n'
            '                if "site-packages" not in entry]\n')
    job = run_script(hide + STEPS, code=1)
    contains(job.err, 'reason: worker 1', "No module named 'torch'")


def run_group(text, tries=3):
    """To the end, which a thread of Gloo rarely misses: torch aborts then."""
    job = run_script(text, args=['attribute'], code=None)
    if tries > 1 and job.code == 134 and \
            'terminate called without an active exception' in job.err:
        return run_group(text, tries - 1)
    check(job.code == 0, 'exit code %d\n%s%s' % (job.code, job.out, job.err))
    return job


@test
def a_ddp_script_runs_as_it_is():
    late = GROUP.replace('init_process_group("gloo"', 'optimizer = torch.optim'
                         '.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)\n'
                         'init_process_group("gloo"')
    for text in (GROUP, late):
        job = run_group(text)
        contains(job.out, 'group 2.0')
        check(job.err.count('poseidon: ') >= 1, job.err)
        lines = [line for line in (job.err + job.rank_err(1)).split('\n')
                 if 'torch.distributed.init_process_group' in line]
        check(len(lines) == 1 and 'aside' in lines[0], repr(lines))


@test
def the_agent_can_ask_for_the_stack():
    job = run_script('import os\nimport torch\ndef asked():\n'
                     '    os.kill(os.getpid(),'
                     ' int(os.environ["PSD_STACK_SIGNAL"]))\nasked()\n')
    contains(job.err, 'line 4 in asked')


if __name__ == '__main__':
    sys.exit(main())
