"""Strings that a shell, or ssh, would love to misread.

Each tries to make a file, the canary. It must not appear on any host: where a
string is refused nothing is started, and where it is taken it arrives as it
is. ssh is watched by one of our own, first in PATH, that notes its words and
passes them on.
"""
import os
import shlex
import shutil

from cluster_job import (ALL, Changed, Mounted, NODES, cluster, run,
                         write_json)
from common import PSD, PSD_RUN, check, test
from cluster_work import look, same

CANARY = 'canary'
NASTY = ['$(touch canary)', '`touch canary`', '; touch canary;',
         '& touch canary &', '| touch canary', '\n touch canary\n',
         "' ; touch canary ; '", '" ; touch canary ; "', '\\$(touch canary)',
         "'$(touch canary)'", '${IFS}touch${IFS}canary', '> canary',
         '-oProxyCommand=touch canary', '-F canary', '--', '-', ' blank ',
         "it's", 'a"b', 'tab\there', 'back\\slash', '*', '~', '#', '!!',
         '%h%s%n', '{rank', 'gr\u00fc\u00df', '=(x)', '^x^touch canary']


def check_no_canary(*more):
    """Nowhere: homes, working folders, the cluster's own."""
    for root in (cluster().folder, *more):
        for path, folders, files in os.walk(root):
            check(CANARY not in folders + files, 'a shell has run: ' + path)


def recording():
    """A PATH whose ssh notes how it is called; and the notes' folder."""
    c = cluster()
    folder, notes = c.path('fake'), c.path('ssh-calls')
    os.makedirs(folder, exist_ok=True)
    with open(folder + '/ssh', 'w') as file:
        file.write('#!/bin/sh\nprintf "%%s\\0" "$@" >%s/$$\nexec %s "$@"\n' %
                   (notes, shutil.which('ssh')))
    os.chmod(folder + '/ssh', 0o755)
    shutil.rmtree(notes, ignore_errors=True)
    os.mkdir(notes)
    return {'PATH': folder + ':' + os.environ['PATH']}, notes


def calls(notes):
    """The words of each call of ssh so far."""
    found = []
    for name in os.listdir(notes):
        with open(os.path.join(notes, name)) as file:
            found.append(file.read().split('\0')[:-1])
    return found


def check_call(words):
    """Nothing but what we always say, then --, the host and one command."""
    at = words.index('--')
    options, rest = words[:at], words[at + 1:]
    same('flags', options[:3], ['-T', '-a', '-x'])
    del options[:3]
    pairs = list(zip(options[::2], options[1::2], strict=True))
    for name, value in pairs:
        check(name in ('-o', '-i', '-p', '-l'), 'ssh got %s' % name)
        if name == '-o':
            check(value in ('BatchMode=yes', 'ConnectTimeout=7'),
                  'ssh got -o %s' % value)
        check(not value.startswith('-'), 'ssh got %s %s' % (name, value))
    check(('-o', 'BatchMode=yes') in pairs, 'ssh may ask for a password')
    check(len(rest) == 2 and not rest[0].startswith('-'), repr(rest))


@test
def ssh_gets_no_option_that_weakens_it():
    env, notes = recording()
    look(env=env, config={
        'worker_nodes': ['node0', 'node1:2222', 'root@node2'],
        'server_nodes': ['node0'], 'master_node': 'node1'})
    found = calls(notes)
    check(len(found) == 3, repr(found))
    for words in found:
        check_call(words)
        check('-i' not in words, 'a key that nobody asked for')
    same('hosts', sorted(x[x.index('--') + 1] for x in found),
         ['node1', 'node1', 'node2'])
    # A secret would be seen in /proc by everybody.
    for words in found:
        check(not any(len(x) > 2000 for x in words), 'so much?')
    run('--dry-run', '--', 'true', config=ALL, env=env)
    same('calls', len(calls(notes)), 3)


def call(*words, env=None, node='node0', cwd=None):
    """psd_run that is expected to refuse; cheaper than a Job."""
    c = cluster()
    return c.run(node, [PSD_RUN, *words], cwd=cwd or c.path('scratch'),
                 env=dict({'TMPDIR': c.path('host', 't')}, **(env or {})))


def scratch():
    path = cluster().path('scratch')
    os.makedirs(path, exist_ok=True)
    return path


@test
def hostile_values_of_the_cluster_file_are_refused_before_ssh():
    env, notes = recording()
    path = scratch() + '/cluster.json'
    good = {'worker_nodes': ['node1'], 'server_nodes': ['node1']}
    for text in NASTY:
        rows = [dict(good, worker_nodes=[text]),
                dict(good, worker_nodes=[text + '@node1']),
                dict(good, server_nodes=[{'host': 'node1', 'user': text}])]
        if set(text) - set('-'):  # these may end a name of any length
            rows += [dict(good, username='x' + text),
                     dict(good, master_node='node1' + text),
                     dict(good, interface=text),
                     dict(good, ports=text),
                     dict(good, worker_nodes=[{'host': 'node1',
                                               'gpus': 'x,' + text + 'y'}])]
        for row in rows:
            write_json(path, row)
            done = call('-c', path, '--', 'true', env=env)
            same('exit code for %r' % row, done.returncode, 78)
            check(text in ('-', '--') or path in done.stderr, done.stderr)
    same('calls', calls(notes), [])
    check_no_canary()


@test
def hostile_lines_of_a_hostfile_and_of_slurm_are_refused_before_ssh():
    env, notes = recording()
    path = scratch() + '/hostfile'
    for text in NASTY:
        if text in ('#', ' blank '):
            continue  # a comment; a host with blanks around it
        with open(path, 'w') as file:
            file.write(text + '\n')
        done = call('--hostfile', path, '--', 'true', env=env)
        same('exit code for %r' % text, done.returncode, 78)
        done = call('--', 'true', env=dict(env, SLURM_JOB_ID='1',
                                           SLURM_JOB_NODELIST=text))
        same('exit code for Slurm and %r' % text, done.returncode, 78)
    same('calls', calls(notes), [])
    check_no_canary()


@test
def hostile_options_are_refused_or_taken_as_they_are():
    env, notes = recording()
    folder = scratch()
    path = write_json(folder + '/cluster.json', ALL)
    for words, code in (
            (['--name', '-oProxyCommand=touch canary'], 64),
            (['--name', '../canary'], 64),
            (['--name', '.canary'], 64),
            (['--name', 'a\ntouch canary'], 64),
            (['-x', 'A$(touch canary)=1'], 64),
            (['-x', ';touch canary'], 64),
            (['--ports', '$(touch canary)'], 64),
            (['--rsh', '$(touch canary)'], 69),
            (['--rsh', 'no-such-rsh ; touch canary'], 69)):
        done = call('-c', path, *words, '--', 'true', env=env)
        check(done.returncode == code, '%r: %d %s' % (
            words, done.returncode, done.stderr))
    key = folder + '/${HOME}.pem'  # ssh would expand it
    shutil.copy(cluster().path('client_key'), key)
    write_json(path, dict(ALL, pem_file=key))
    done = call('-c', path, '--', 'true', env=env)
    check(done.returncode == 78 and 'pem_file' in done.stderr, done.stderr)
    same('calls', calls(notes), [])
    check_no_canary()


def install(folder):
    """psd and psd_run once more, in a folder of that name; psd_run."""
    os.makedirs(folder + '/bin', exist_ok=True)
    for path in (PSD, PSD_RUN):
        shutil.copy(path, folder + '/bin')
    return folder + '/bin/psd_run'


@test
def hostile_paths_reach_every_host_as_they_are():
    """One string is everything at once: the folders of psd, of the job, of
    its logs, the virtualenv, the names of job, cluster file and key, a value
    and an argument."""
    c = cluster()
    env, notes = recording()
    for number, text in enumerate((
            '$(touch canary)', "' ; touch canary ; '`touch canary`",
            '" ; touch canary ; "&&touch canary&',
            '-oProxyCommand=touch canary',
            '\\ \'"*~#!! %s%n {rank gr\u00fc\u00df',
            'line\n touch canary\n')):
        plain = '\n' not in text
        top = '%s/%d' % (scratch(), number)
        work = '%s/%s' % (top, text)
        out = '%s/out %s' % (top, text)
        program = install('%s/psd %s' % (top, text))
        venv = 'v ' + text if plain else 'v'
        os.makedirs(work)
        key = '%s/%s.pem' % (work, text if plain else 'key')
        shutil.copy(c.path('client_key'), key)
        for node in NODES:
            os.makedirs(c.path(node, 'root', venv, 'bin'), exist_ok=True)
        path = write_json('%s/%s.json' % (work, text), dict(
            ALL, pem_file=os.path.basename(key), username='root',
            virtualenv='~/' + venv))
        name = 'n' + text if plain else 'n'
        _, seen = look('-c', path, '-o', out, '--name', name, '-x',
                       'VALUE=' + text, words=[text, '-' + text], config=None,
                       cwd=work, env=env, program=program)
        for one in seen:
            for what, got, want in (
                    ('argv', one['argv'], [text, '-' + text]),
                    ('VALUE', one['env']['VALUE'], text),
                    ('JOB_NAME', one['env']['JOB_NAME'], name),
                    ('VIRTUAL_ENV', one['env']['VIRTUAL_ENV'],
                     '%s/%s' % (c.home(), venv)),
                    ('cwd', one['cwd'], work)):
                same(what, got, want)
        same('logs', sorted(os.listdir('%s/%s' % (out, name))), sorted(
            ['report.json'] + ['worker_%d.%s' % (x, y) for x in range(3)
                               for y in ('out', 'err')]))
        check_no_canary(work)
    found = calls(notes)
    same('calls', len(found), 12)
    for words in found:
        check_call(words)


@test
def a_copied_psd_meets_no_hostile_home():
    """--copy writes below the home folder there, whatever its name."""
    c = cluster()
    env, notes = recording()
    cache = c.home() + "/c $(touch canary) ' ` touch canary` \" x"
    empty = c.path('empty')
    os.makedirs(empty, exist_ok=True)
    with Changed(c.path('node2', 'root', '.bashrc'),
                 'export XDG_CACHE_HOME=%s\n' % shlex.quote(cache), 0o644):
        with Mounted('node2', empty, os.path.dirname(PSD)):
            run('--copy', '--', 'true', config=ALL, env=env).ends_with(0)
    copies = os.listdir(cache.replace(c.path('host'), c.path('node2')) +
                        '/poseidon')
    check(len(copies) == 1, repr(copies))
    for words in calls(notes):
        check_call(words)
    check_no_canary()
