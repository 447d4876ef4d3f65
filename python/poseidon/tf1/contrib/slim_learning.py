"""slim.learning, slim.evaluation and slim.queues: loops around a session."""
import contextlib
import time

import tensorflow.compat.v1 as tf

from poseidon.tf1.config import unwrap
from poseidon.tf1.contrib.training import (  # noqa: F401
    add_gradients_summaries, checkpoints_iterator, clip_gradient_norms,
    create_train_op, wait_for_new_checkpoint)


def multiply_gradients(grads_and_vars, gradient_multipliers):
    return [(g * gradient_multipliers.get(
        v, gradient_multipliers.get(v.op.name, 1.0)), v)
        for g, v in grads_and_vars]


@contextlib.contextmanager
def QueueRunners(session):
    """with slim.queues.QueueRunners(session): their threads run."""
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    try:
        yield threads
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)


NestedQueueRunnerError = RuntimeError


def train_step(sess, train_op, global_step, train_step_kwargs):
    """One step: the loss, and whether that was the last one."""
    begin = time.time()
    loss, step = sess.run([train_op, global_step])
    every = train_step_kwargs.get("log_every_n_steps")
    if every and step % every == 0:
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step,
                        loss, time.time() - begin)
    last = train_step_kwargs.get("number_of_steps")
    return loss, last is not None and step >= last


def train(train_op, logdir, train_step_fn=train_step,
          train_step_kwargs=None, log_every_n_steps=1, graph=None,
          master="", is_chief=True, global_step=None, number_of_steps=None,
          init_op=None, init_feed_dict=None, local_init_op=None,
          init_fn=None, ready_op=None, summary_op=None,
          save_summaries_secs=600, startup_delay_steps=0, saver=None,
          save_interval_secs=600, sync_optimizer=None, session_config=None,
          session_wrapper=None, trace_every_n_steps=None, **_):
    """Train until the script's function or number_of_steps says stop."""
    graph = graph or tf.get_default_graph()
    with graph.as_default():
        step = global_step if global_step is not None else \
            tf.train.get_or_create_global_step()
        words = dict(train_step_kwargs or {})
        words.setdefault("log_every_n_steps", log_every_n_steps)
        words.setdefault("number_of_steps", number_of_steps)
        if summary_op is None:
            summary_op = tf.summary.merge_all()
        scaffold = tf.train.Scaffold(
            init_op=init_op, init_feed_dict=init_feed_dict,
            init_fn=None if init_fn is None else
            lambda _, session: init_fn(session),
            local_init_op=local_init_op, ready_op=ready_op, saver=saver,
            summary_op=summary_op)
        hooks = []
        if logdir and summary_op is not None and save_summaries_secs:
            hooks.append(tf.train.SummarySaverHook(
                save_secs=save_summaries_secs, output_dir=logdir,
                scaffold=scaffold))
        loss = None
        with tf.train.MonitoredTrainingSession(
                master, is_chief, logdir, scaffold, hooks,
                save_checkpoint_secs=save_interval_secs,
                save_summaries_steps=None, save_summaries_secs=None,
                config=unwrap(session_config)) as session:
            stop = False
            while not stop and not session.should_stop():
                loss, stop = train_step_fn(session, train_op, step, words)
    return loss


def evaluate_once(master, checkpoint_path, logdir, num_evals=1,
                  initial_op=None, initial_op_feed_dict=None, eval_op=None,
                  eval_op_feed_dict=None, final_op=None,
                  final_op_feed_dict=None, summary_op=None,
                  summary_op_feed_dict=None, variables_to_restore=None,
                  session_config=None, hooks=None, **_):
    """num_evals times eval_op, then final_op, of one checkpoint."""
    step = tf.train.get_or_create_global_step()  # the saver's, too
    saver = tf.train.Saver(variables_to_restore)
    creator = tf.train.ChiefSessionCreator(
        tf.train.Scaffold(saver=saver), master,
        checkpoint_filename_with_path=checkpoint_path,
        config=unwrap(session_config))
    if summary_op is None:
        summary_op = tf.summary.merge_all()
    result = None
    with tf.train.MonitoredSession(creator, hooks=hooks) as session:
        if initial_op is not None:
            session.run(initial_op, initial_op_feed_dict)
        for _ in range(num_evals):
            if eval_op is not None:
                session.run(eval_op, eval_op_feed_dict)
        if final_op is not None:
            result = session.run(final_op, final_op_feed_dict)
        if summary_op is not None and logdir:
            text, number = session.run([summary_op, step],
                                       summary_op_feed_dict)
            writer = tf.summary.FileWriterCache.get(logdir)
            writer.add_summary(text, int(number))
            writer.flush()
    return result


def evaluation_loop(master, checkpoint_dir, logdir, num_evals=1,
                    eval_interval_secs=60, max_number_of_evaluations=None,
                    timeout=None, **words):
    """evaluate_once for every new checkpoint."""
    result, done = None, 0
    for path in checkpoints_iterator(checkpoint_dir, eval_interval_secs,
                                     timeout):
        result = evaluate_once(master, path, logdir, num_evals, **words)
        done += 1
        if max_number_of_evaluations and done >= max_number_of_evaluations:
            break
    return result
