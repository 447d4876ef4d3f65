"""Is a script written for TensorFlow 1? Read from its source; nothing is
imported and nothing is run.

PSD_TF=1 or 2 decides; else names that only TensorFlow 1 has, in the script
or in the modules beside it that it imports. A source that speaks of compat.v1
knows TensorFlow 2 and is left alone, unless it uses tf.contrib all the same.
"""
import io
import os
import re
import sys
import tokenize

FILES_MAX = 40  # modules beside the script that are read
SIZE_MAX = 1 << 20

_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.M)
_ALIAS = re.compile(r"^[ \t]*import[ \t]+tensorflow"
                    r"(?:[ \t]+as[ \t]+(\w+))?[ \t]*(?:#.*)?$", re.M)
_AWARE = re.compile(r"compat\s*\.\s*v1|compat\s+import\s+v1"
                    r"|disable_v2_behavior|disable_eager_execution")
_MODULES = re.compile(
    r"(?:from|import)\s+(?:tensorflow\.(?:contrib|examples\.tutorials|models)"
    r"\b|learn_runner\b)"
    r"|from\s+tensorflow\s+import\s+(?:contrib|flags|app|gfile)\b")
_NAMES = (
    "Session InteractiveSession placeholder placeholder_with_default app"
    " contrib flags gfile ConfigProto GPUOptions get_variable variable_scope"
    " get_variable_scope variable_op_scope op_scope get_collection"
    " add_to_collection get_default_graph get_default_session GraphKeys"
    " initialize_all_variables global_variables_initializer"
    " local_variables_initializer trainable_variables global_variables"
    " all_variables reset_default_graph set_random_seed random_uniform"
    " random_normal truncated_normal log mul sub neg pack unpack select"
    " batch_matmul scalar_summary histogram_summary image_summary"
    " merge_summary merge_all_summaries to_float to_int32 to_int64 layers"
    " FixedLengthRecordReader TFRecordReader WholeFileReader TextLineReader"
    " decode_raw decode_csv python_io logging assign assign_add"
    " random_crop truncated_normal_initializer constant_initializer"
    " train.MonitoredTrainingSession train.MonitoredSession"
    " train.SingularMonitoredSession train.Supervisor train.Saver"
    " train.SummaryWriter train.Server train.GradientDescentOptimizer"
    " train.MomentumOptimizer train.AdamOptimizer train.AdagradOptimizer"
    " train.AdadeltaOptimizer train.RMSPropOptimizer train.FtrlOptimizer"
    " train.SyncReplicasOptimizer train.exponential_decay"
    " train.start_queue_runners train.string_input_producer train.batch"
    " train.shuffle_batch train.replica_device_setter train.QueueRunner"
    " train.SessionRunHook train.get_or_create_global_step"
    " train.create_global_step train.global_step train.write_graph"
    " summary.FileWriter summary.merge_all summary.merge"
    " nn.dynamic_rnn nn.rnn_cell nn.static_rnn nn.max_pool"
    " nn.softmax_cross_entropy_with_logits_v2"
    " image.per_image_whitening image.resize_images").split()
# Names that TensorFlow 2 has as well: they prove nothing.
_BOTH = {"nn.max_pool", "summary.merge", "decode_raw"}


def wanted(path):
    """Shall the script at `path` (None: not known) see TensorFlow 1?"""
    choice = os.environ.get("PSD_TF", "")
    if choice in ("1", "2"):
        return choice == "1"
    if choice not in ("", "auto"):
        raise SystemExit("poseidon: PSD_TF is %r, it must be 1, 2 or auto"
                         % choice)
    return path is not None and is_tf1(path)


def script(argv=None):
    """The file that this Python was started with; None: it is none."""
    argv = sys.argv if argv is None else argv
    name = argv[0] if argv else ""
    if name == "-m":
        words = getattr(sys, "orig_argv", [])
        at = words.index("-m") + 1 if "-m" in words else len(words)
        name = words[at].replace(".", os.sep) if at < len(words) else ""
        name = os.path.join(name, "__main__.py") if os.path.isdir(name) \
            else name + ".py"
    elif os.path.isdir(name):
        name = os.path.join(name, "__main__.py")
    return name if os.path.isfile(name) else None


def is_tf1(path):
    """Read the script, then what it imports from its own folder."""
    folder = os.path.dirname(os.path.abspath(path))
    queue, seen, found = [path], set(), False
    while queue and len(seen) < FILES_MAX:
        name = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        text = _read(name)
        if "tensorflow" in text or "learn_runner" in text:
            if _finds(_MODULES, text):
                return True  # no TensorFlow 2 has them
            if _finds(_AWARE, text):
                return False
            found = found or _has_names(text)
        queue.extend(_local(text, folder))
    return found


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read(SIZE_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def _local(text, folder):
    """The files in the script's folder that `text` imports."""
    for match in _IMPORT.finditer(text):
        path = os.path.join(folder, *match.group(1).split("."))
        for name in (path + ".py", os.path.join(path, "__init__.py")):
            if os.path.isfile(name):
                yield name


def _finds(pattern, text):
    """In the text and, if so, outside comments and texts? The first look is
    the cheap one."""
    return bool(pattern.search(text) and pattern.search(_bare(text)))


def _has_names(text):
    aliases = {match.group(1) or "tensorflow"
               for match in _ALIAS.finditer(text)} or {"tf"}
    names = sorted((set(_NAMES) - _BOTH), key=len, reverse=True)
    pattern = re.compile(r"\b(?:%s)\.(?:%s)\b" % (
        "|".join(map(re.escape, sorted(aliases))),
        "|".join(map(re.escape, names))))
    return _finds(pattern, text)


def _bare(text):
    """The source without comments and texts. What tokenize cannot read is
    taken as it is."""
    out, last = [], (1, 0)
    try:
        for kind, word, start, end, _ in tokenize.generate_tokens(
                io.StringIO(text).readline):
            if kind == tokenize.COMMENT:
                continue
            out.append("\n" if start[0] != last[0] else
                       " " * (start[1] - last[1]))
            out.append('""' if kind == tokenize.STRING else word)
            last = end
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return text
    return "".join(out)
