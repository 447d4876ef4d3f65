"""Side effects happen once: saving, loading, folders, downloads, writers and
bars, with real torch and several real workers.

    PYTHON tests/torch/effects_test.py --build DIR [PATTERN...]
"""
import contextlib
import glob
import http.server
import importlib.util
import io
import os
import signal
import sys
import tarfile
import threading
import zipfile

from common import (Skip, check, contains, main, run_alone, run_script, start,
                    test, PYTHON)

HEAD = '''
import io, os, sys, time, torch
rank = int(os.environ["PSD_RANK"])
'''


def job(text, workers=3, code=0, files=None, args=()):
    return run_script(HEAD + text, workers=workers, code=code, files=files,
                      args=args)


def said(done, workers=3):
    """The last line of every worker's output."""
    return [text.strip().split('\n')[-1] for text in done.outs(workers)]


def all_say(done, line, workers=3):
    lines = said(done, workers)
    check(lines == [line] * workers, 'expected %r from all, not %r'
          % (line, lines))


def nothing_half(folder):
    left = glob.glob(os.path.join(folder, '**', '.psd-*'), recursive=True)
    check(not left, 'left behind: %r' % left)


# ---- save and load --------------------------------------------------------

@test
def the_first_worker_saves_and_the_others_do_not():
    done = job('''
torch.save({"rank": rank, "w": torch.ones(5)}, "model.pt")
torch.save(f="named.pt", obj=torch.full((3,), float(rank)))
buffer = io.BytesIO()
torch.save(rank, buffer)
buffer.seek(0)
with open("own-%d.pt" % rank, "wb") as file:
    torch.save(rank, file)
print(torch.load("model.pt")["rank"], torch.load("named.pt").sum().item(),
      torch.load(buffer) - rank, torch.load("own-%d.pt" % rank) - rank)
''')
    all_say(done, '0 0.0 0 0')
    folder = done.folder
    os.makedirs(folder + '/alone')
    run_alone('import torch; torch.save({"rank": 0, "w": torch.ones(5)}, '
              '"alone/model.pt")', cwd=folder)
    with open(folder + '/model.pt', 'rb') as ours, \
            open(folder + '/alone/model.pt', 'rb') as plain:
        check(ours.read() == plain.read(), 'not the bytes of plain torch.save')
    check(os.stat(folder + '/model.pt').st_mode ==
          os.stat(folder + '/alone/model.pt').st_mode, 'another mode')
    nothing_half(folder)


@test
def loading_waits_for_a_slow_first_worker():
    done = job('''
for turn in range(3):
    if rank == 0:
        time.sleep(0.7)
    torch.save(turn, "turn.pt")
    assert torch.load("turn.pt") == turn, turn
module = torch.jit.script(torch.nn.Linear(2, 2))
if rank == 0:
    time.sleep(0.7)
module.save("script.pt")
torch.jit.load("script.pt")
torch.jit.save(module, "script.pt")
program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
if rank == 0:
    time.sleep(0.7)
torch.export.save(program, "program.pt2")
torch.export.load("program.pt2")
print("fine")
''')
    # A worker may be a turn behind, never ahead of what is there.
    all_say(done, 'fine')
    nothing_half(done.folder)


@test
def nobody_waits_for_a_file_that_the_first_worker_does_not_save():
    done = job('''
from poseidon.torch import save   # as if an exchange came


def attempt(name):
    if rank:
        torch.save(1, name)
    try:
        torch.load(name)
        return "loaded"
    except FileNotFoundError:
        return "missing"


found = []
if rank == 0:
    time.sleep(0.5)
found.append(attempt("a.pt"))    # it loads, too
if rank == 0:
    time.sleep(0.5)
    save.passing()               # it waits for the others
    time.sleep(2)
else:
    found.append(attempt("b.pt"))
    save.passing()
    found.append(attempt("c.pt"))  # it has ended
print(" ".join(sorted(set(found))))
''')
    all_say(done, 'missing')


@test
def training_goes_on_where_workers_choose_differently():
    done = job('''
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
found = []
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    if rank and step == 1:       # the best, says this worker alone
        torch.save(model.state_dict(), "best.pt")
        try:
            torch.load("best.pt")
        except FileNotFoundError:
            found.append("missing")
    if step == 2:
        torch.save(model.state_dict(), "last.pt")
        model.load_state_dict(torch.load("last.pt"))
print("fine" if rank == 0 else " ".join(found))
''')
    check(said(done) == ['fine', 'missing', 'missing'], repr(said(done)))


@test
def a_save_that_is_killed_leaves_the_old_file():
    done = job('''
import signal
torch.save("old", "model.pt")
assert torch.load("model.pt") == "old"


class Bomb:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)


torch.save([torch.ones(100000), Bomb()], "model.pt")
time.sleep(60)
''', code=None)
    check(done.code == 128 + signal.SIGKILL, 'exit code %d' % done.code)
    out = run_alone('import torch; print(torch.load("model.pt"))',
                    cwd=done.folder)
    check(out.strip() == 'old', out)


@test
def a_save_that_fails_raises_where_it_was_tried():
    done = job('''
try:
    torch.save(lambda: 0, "model.pt")
    print("nothing")
except Exception as error:
    print(type(error).__name__)
try:
    torch.save(1, "missing/folder/model.pt")
    print("nothing")
except RuntimeError as error:
    print("Parent directory" in str(error))
''')
    lines = [text.split()[-2:] for text in done.outs(3)]
    check(lines[0][1] == 'True' and 'rror' in lines[0][0], repr(lines))
    check(lines[1:] == [['nothing'] * 2] * 2, repr(lines))
    nothing_half(done.folder)


@test
def another_host_is_told_what_to_do():
    done = job('''
from poseidon.shared import turns
turns.ABROAD = 0.3
if rank == 2:
    os.environ["PSD_MASTER"] = "192.0.2.1:1"
    os.chdir("/")
torch.save(rank, "model-%s.pt" % os.environ["PSD_E2E_MARK"])
try:
    print(torch.load("model-%s.pt" % os.environ["PSD_E2E_MARK"]))
except FileNotFoundError as error:
    print(error)
''')
    lines = said(done)
    check(lines[:2] == ['0', '0'], repr(lines))
    contains(lines[2], 'a folder that all hosts share')


# ---- files ----------------------------------------------------------------

@test
def saved_files_are_renamed_copied_and_removed_once():
    done = job('''
import pathlib, shutil
for epoch in range(3):
    torch.save(epoch, "part.tmp")
    os.replace("part.tmp", "last.pt")
    shutil.copyfile("last.pt", "best.pt")
    torch.save(epoch, "epoch%d.pt" % epoch)
    if epoch:
        pathlib.Path("epoch%d.pt" % (epoch - 1)).unlink()
    assert torch.load("last.pt") >= epoch
    assert torch.load("best.pt") >= epoch
torch.save(9, "moved.pt")
os.makedirs("keep", exist_ok=True)
where = shutil.move("moved.pt", "keep")
assert where == "keep/moved.pt", where
assert torch.load(where) == 9
own = "own-%d" % rank
open(own, "w").close()
os.rename(own, own + "-b")
os.remove(own + "-b")
print("fine")
''')
    all_say(done, 'fine')
    names = sorted(name for name in os.listdir(done.folder)
                   if name.endswith(('.pt', '.tmp')))
    check(names == ['best.pt', 'epoch2.pt', 'last.pt'], repr(names))


@test
def folders_are_made_once_and_old_ones_are_an_error():
    done = job('''
import pathlib, shutil, tempfile
os.makedirs("runs/one")          # without exist_ok
pathlib.Path("two").mkdir()
os.mkdir("three")
for turn in range(3):
    shutil.rmtree("runs/one")
    os.makedirs("runs/one")
errors = 0
for name in ("t", "two"):        # older than the job; made by this line twice
    try:
        os.makedirs(name)
        if name == "two":
            os.makedirs(name)
    except FileExistsError:
        errors += 1
with tempfile.TemporaryDirectory() as own:
    assert os.listdir(own) == []
    open(os.path.join(own, "x"), "w").close()
assert not os.path.exists(own)
mine = "mine-%d" % rank
os.makedirs(mine + "/sub")
shutil.rmtree(mine)
assert not os.path.exists(mine)
print(errors)
''')
    all_say(done, '2')
    check(os.path.isdir(done.folder + '/runs/one'), 'runs/one is gone')


@test
def a_worker_that_is_behind_makes_and_removes_in_a_folder_that_is_gone():
    done = job('''
import shutil
def meet(name):
    open(name, "w").close()
def until(name):
    while not os.path.exists(name):
        time.sleep(0.01)
os.makedirs("new/part")
if rank == 0:
    until("ready")
else:
    meet("ready")
    until("removed")
os.mkdir("new/part/last")        # worker 0 has gone on and removed "new"
shutil.rmtree("new")
if rank == 0:
    meet("removed")
    until("made")
else:
    os.makedirs("own")
    meet("made")
    until("seen")
if rank == 0:
    assert os.path.exists("own")
    meet("seen")
    until("gone")
shutil.rmtree("own")             # worker 1 has just done it
meet("gone")
try:
    os.mkdir("never/there")
except FileNotFoundError:
    print("fine")
try:
    shutil.rmtree("never")
    assert rank != 0
except FileNotFoundError:
    assert rank == 0
''', workers=2)
    all_say(done, 'fine', workers=2)
    check(not os.path.exists(done.folder + '/new'), 'it was made again')


@test
def a_job_of_one_and_forked_children_are_left_alone():
    text = '''
import urllib.request
child = os.fork()
if child == 0:
    torch.save("child", "child-%d.pt" % rank)
    os._exit(0 if torch.load("child-%d.pt" % rank) == "child" else 1)
assert os.waitpid(child, 0)[1] == 0
print([hasattr(call, "__wrapped__") for call in (
    torch.save, torch.load, os.mkdir, urllib.request.urlretrieve,
    torch.hub.download_url_to_file)])
'''
    all_say(job(text), str([True] * 5))
    all_say(job(text, workers=1), str([False] * 5), 1)


@test
def nothing_is_left_when_the_agent_is_killed():
    done = start([PYTHON, 'train.py'], workers=3, files={'train.py': HEAD + '''
torch.save(1, "model.pt")
os.makedirs("made")
torch.load("model.pt")
assert len(os.listdir(os.path.dirname(os.environ["PSD_AGENT"]))) >= 3
print("ready", flush=True)
time.sleep(120)
'''}).ready(3)
    for role in ('agent', 'guard'):
        os.kill(done.role(role), signal.SIGSTOP)
    for pid in [done.role('agent'), done.role('guard')]:
        os.kill(pid, signal.SIGKILL)
    done.wait()
    check(done.code != 0, 'the job must fail')


# ---- downloads ------------------------------------------------------------

class Server:
    """Serves a table of names, in two slow halves, and counts."""

    def __init__(self, table):
        self.counts = {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.split('?')[0].lstrip('/')
                asked = self.path.lstrip('/')
                if self.command == 'GET':
                    outer.counts[asked] = outer.counts.get(asked, 0) + 1
                if name not in table:
                    self.send_error(404)
                    return
                data = table[name]
                self.send_response(200)
                self.send_header('Content-Length', str(len(data)))
                self.send_header('X-Kind', 'test')
                self.end_headers()
                if self.command == 'GET':
                    self.wfile.write(data[:len(data) // 2])
                    self.wfile.flush()
                    threading.Event().wait(0.3)
                    self.wfile.write(data[len(data) // 2:])

            do_HEAD = do_GET

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0),
                                                      Handler)
        self.url = 'http://127.0.0.1:%d/' % self.server.server_address[1]


@contextlib.contextmanager
def serving(**table):
    server = Server({name.replace('__', '.'): data
                     for name, data in table.items()})
    thread = threading.Thread(target=server.server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join()
        server.server.server_close()


@test
def a_file_is_fetched_once_per_host():
    with serving(a__bin=b'x' * 100000, b__bin=b'y' * 100000) as server:
        done = job('''
import urllib.request
from urllib.error import HTTPError
url = sys.argv[1]
name, headers = urllib.request.urlretrieve(url + "a.bin", "a.bin")
assert (name, headers["X-Kind"]) == ("a.bin", "test"), headers
assert os.path.getsize("a.bin") == 100000
if not os.path.exists("b.bin"):
    urllib.request.urlretrieve(url + "b.bin", "b.bin")
assert os.path.getsize("b.bin") == 100000
torch.hub.download_url_to_file(url + "b.bin", "c.bin", progress=False)
assert os.path.getsize("c.bin") == 100000
for turn in range(2):     # the same target anew: once more for all
    urllib.request.urlretrieve(url + "a.bin?%d" % turn, "d.bin")
try:
    urllib.request.urlretrieve(url + "no.bin", "no.bin")
except HTTPError as error:
    print(error.code, os.path.exists("no.bin"))
''', args=(server.url,))
        all_say(done, '404 False')
        counts = server.counts  # of d.bin slow workers may find the next
        check((counts['a.bin'], counts['b.bin'], counts['no.bin']) ==
              (1, 2, 3), repr(counts))
        nothing_half(done.folder)


@test
def hub_fetches_weights_and_code_once():
    weights = io.BytesIO()
    import torch
    torch.save({'w': torch.ones(4)}, weights)
    code = io.BytesIO()
    with zipfile.ZipFile(code, 'w') as archive:
        archive.writestr('repo-main/', '')
        archive.writestr('repo-main/hubconf.py', '''
import torch
def net():
    return torch.nn.Linear(3, 1)
''')
    with serving(w__pt=weights.getvalue(),
                 main__zip=code.getvalue()) as server:
        done = job('''
torch.hub.set_dir(os.path.abspath("hub"))
torch.hub._git_archive_link = lambda *a, **k: sys.argv[1] + "main.zip"
state = torch.hub.load_state_dict_from_url(sys.argv[1] + "w.pt",
                                           progress=False)
for reload in (False, True):
    net = torch.hub.load("owner/repo:main", "net", trust_repo=True,
                         force_reload=reload, skip_validation=True)
print(state["w"].sum().item(), type(net).__name__)
''', args=(server.url,))
        all_say(done, '4.0 Linear')
        check(server.counts == {'w.pt': 1, 'main.zip': 2},
              repr(server.counts))


# What torchvision.datasets.utils offers, as far as it matters here.
VISION = '''
import os, tarfile, urllib.request


def check_integrity(path, md5=None):
    return os.path.isfile(path)


def download_url(url, root, filename=None, md5=None, max_redirect_hops=3):
    path = os.path.join(root, filename or os.path.basename(url))
    os.makedirs(root, exist_ok=True)
    if not check_integrity(path, md5):
        with urllib.request.urlopen(url) as source, open(path, "wb") as out:
            for piece in iter(lambda: source.read(100), b""):
                out.write(piece)


def extract_archive(from_path, to_path=None, remove_finished=False):
    if to_path is None:
        to_path = os.path.dirname(from_path)
    with tarfile.open(from_path) as archive:
        archive.extractall(to_path)
    if remove_finished:
        os.remove(from_path)
    return to_path


def download_and_extract_archive(url, download_root, extract_root=None,
                                 filename=None, md5=None,
                                 remove_finished=False):
    filename = filename or os.path.basename(url)
    download_url(url, download_root, filename, md5)
    extract_archive(os.path.join(download_root, filename),
                    extract_root or download_root, remove_finished)
'''


@test
def data_sets_are_fetched_and_unpacked_once():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w:gz') as archive:
        for name in ('set/a', 'set/b', 'set/deep/c'):
            about = tarfile.TarInfo(name)
            about.size = 50000
            archive.addfile(about, io.BytesIO(os.urandom(50000)))
    with serving(set__tgz=packed.getvalue(),
                 plain__bin=b'z' * 5000) as server:
        done = job('''
from torchvision.datasets.utils import (
    download_url, download_and_extract_archive, extract_archive)
url = sys.argv[1]
if not os.path.isdir("data/set"):
    download_and_extract_archive(url + "set.tgz", "data",
                                 remove_finished=True)
sizes = [os.path.getsize("data/set/" + name) for name in ("a", "b", "deep/c")]
download_url(url + "plain.bin", "data")
sizes.append(os.path.getsize("data/plain.bin"))
download_url(url + "set.tgz", "other")
where = extract_archive("other/set.tgz", "out", remove_finished=True)
print(sizes, where, sorted(os.listdir("out")), sorted(os.listdir("other")))
''', args=(server.url,), files={'torchvision/__init__.py': '',
                                'torchvision/datasets/__init__.py': '',
                                'torchvision/datasets/utils.py': VISION})
        all_say(done, "[50000, 50000, 50000, 5000] out ['set'] []")
        check(server.counts == {'set.tgz': 2, 'plain.bin': 1},
              repr(server.counts))
        nothing_half(done.folder)


# ---- writers and bars -----------------------------------------------------

WRITER = '''
from %s import SummaryWriter
import %s as package


class Own(SummaryWriter):
    def both(self, value):
        self.add_scalar("x", value, 0)
        return self.get_logdir() if hasattr(self, "get_logdir") else 0


with SummaryWriter("logs") as writer:
    writer.add_scalar("loss", 1.0, 1)
    writer.add_histogram("h", torch.ones(10), 1)
    writer.add_text("t", "words")
    assert writer.log_dir == "logs" if hasattr(writer, "log_dir") else True
    writer.file_writer.flush()
writer = SummaryWriter(comment="-c")
writer.add_hparams({"lr": 0.1}, {"acc": 1})
folder = getattr(writer, "log_dir", None) or writer.logdir
writer.close()
own = Own("own")
own.both(3)
own.close()
assert isinstance(own, package.SummaryWriter)
print(folder)
'''


def needs(*names):
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Skip('%s is not installed' % name)


def writes_once(module):
    done = job(WRITER % (module, module))
    lines = said(done)
    check(len(set(lines)) == 1, 'folders differ: %r' % lines)
    check(lines[0].startswith('runs') and '-c' in lines[0], lines[0])
    found = glob.glob(done.folder + '/logs/*tfevents*')
    check(len(found) == 1, repr(found))
    check(len(os.listdir(done.folder + '/runs')) == 1, 'one run')


@test
def tensorboard_writes_on_the_first_worker_only():
    needs('tensorboard')
    writes_once('torch.utils.tensorboard')


@test
def tensorboardx_writes_on_the_first_worker_only():
    needs('tensorboardX')
    writes_once('tensorboardX')


@test
def bars_are_shown_by_the_first_worker_only():
    needs('tqdm')
    done = job('''
import tqdm, tqdm.auto
from tqdm import trange
count = 0
for i in tqdm.tqdm(range(3), desc="outer"):
    count += i
bar = tqdm.auto.tqdm(range(3), "auto")
for i in bar:
    bar.set_postfix(loss=i)
    count += i
for i in trange(3):
    count += i
with tqdm.tqdm(total=5, disable=False) as bar:
    bar.update(5)
    bar.set_description("done")
print(count)
''')
    all_say(done, '9')
    contains(done.rank_err(0), 'outer', 'auto')
    for rank in (1, 2):
        check('it/s' not in done.rank_err(rank) and 'outer' not in
              done.rank_err(rank), done.rank_err(rank))


if __name__ == '__main__':
    sys.exit(main())
