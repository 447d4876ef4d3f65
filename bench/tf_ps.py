"""tf_plain.py for TensorFlow's parameter servers, asynchronous, or
synchronous with --sync. With --native, when TensorFlow's own runtime does the
work, the others come when the chief has its session: they would sleep for 30 s
otherwise.

    tf_ps.py STEPS WARM BATCH --job_name ps|worker --task_index N
        --ps_hosts HOST:PORT,... --worker_hosts HOST:PORT,... [--sync]
        [--native]
"""
import argparse
import os
import threading

import tensorflow.compat.v1 as tf
from tf_model import RATE, Clock, Network, meet, train


def parse():
    parser = argparse.ArgumentParser()
    for name in ("steps", "warm", "batch", "--task_index"):
        parser.add_argument(name, type=int)
    for name in ("--job_name", "--ps_hosts", "--worker_hosts"):
        parser.add_argument(name)
    for name in ("--sync", "--native"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


def train_native(session, network, fetches, options):
    """The same loop on TensorFlow's runtime. Synchronously a step is one of
    the global step: a worker whose gradient came late has to try again. Nor
    can a worker stop before the others have measured, because they would wait
    for its gradient: all go on until all have told, and end at once."""
    meet("begin")
    done, begin = 0, None
    while begin is None or done - begin < options.steps:
        now = session.run(fetches, network.feed)[1]
        done = int(now) if options.sync else done + 1
        if begin is None and done >= options.warm:
            begin, clock = done, Clock()
    clock.stop()
    clock.tell(done - begin, done, 0)
    threading.Thread(target=leave, daemon=True).start()
    try:
        while True:
            session.run(fetches, network.feed)
    except tf.errors.OpError:  # another was first to leave
        threading.Event().wait()


def leave():
    meet("told")
    os._exit(0)


def work(options, server, cluster, workers):
    place = tf.train.replica_device_setter(
        worker_device="/job:worker/task:%d" % options.task_index,
        cluster=cluster)
    is_chief = options.task_index == 0
    hooks = []
    with tf.device(place):
        global_step = tf.train.get_or_create_global_step()
        network = Network(options.batch)
        optimizer = tf.train.AdamOptimizer(RATE)
        if options.sync:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=workers,
                total_num_replicas=workers)
            hooks.append(optimizer.make_session_run_hook(is_chief))
        step = optimizer.minimize(network.loss, global_step=global_step)
    if options.native and not is_chief:
        meet("chief", 1, come=False)
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=is_chief, hooks=hooks) as session:
        if options.native and is_chief:
            meet("chief", 1)
        if options.native:
            train_native(session, network, [step, global_step], options)
        else:
            train(session, network, step, options.steps, options.warm)


def main():
    options = parse()
    tf.disable_v2_behavior()
    tf.set_random_seed(1)
    workers = options.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": options.ps_hosts.split(","),
                                    "worker": workers})
    server = tf.train.Server(cluster, job_name=options.job_name,
                             task_index=options.task_index)
    if options.job_name == "ps":
        server.join()
    else:
        work(options, server, cluster, len(workers))


main()
