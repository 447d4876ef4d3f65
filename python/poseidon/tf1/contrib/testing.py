"""tf.contrib.testing."""
import glob
import os

import tensorflow.compat.v1 as tf


def latest_summaries(base_dir):
    """The records of the newest event file of a folder."""
    files = sorted(glob.glob(os.path.join(base_dir, "events.*")))
    if not files:
        return []
    return [one for one in tf.train.summary_iterator(files[-1])
            if one.HasField("summary")]


latest_events = latest_summaries
