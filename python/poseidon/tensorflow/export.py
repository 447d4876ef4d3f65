"""Graphs that leave the process, and graphs that come in.

What a script writes of its graph (checkpoints' meta graphs, graph_def, frozen
models) is the graph that it has built: our operations are taken out again, so
that a TensorFlow without Poseidon reads it. A graph that is imported together
with its training operations was not built here, and nothing is exchanged in
it: a run that would train says so.
"""
from poseidon import _job, _lib
from poseidon.tensorflow import book

SCOPE = "poseidon/"


def install(patch):
    if _job.job().size == 1:
        return
    from tensorflow.python.framework import importer, ops
    patch(ops.Graph, "as_graph_def", _exporting)
    patch(importer, "import_graph_def", _importing)


def _exporting(real):
    def as_graph_def(self, *args, **words):
        definition = real(self, *args, **words)
        mine = book.known(self)
        if mine is not None and any(site.waited is not None
                                    for site in mine.sites):
            clean(mine, definition)
        return definition
    return as_graph_def


def clean(mine, definition):
    """Without our operations; who reads one of them reads what it stands
    for."""
    names = _names(mine)
    ours = []
    for place, node in enumerate(definition.node):
        if node.name.startswith(SCOPE):
            ours.append(place)
            continue
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = names[name]
    for place in reversed(ours):
        del definition.node[place]


def _names(mine):
    """{input that names one of ours: the one that it stands for}"""
    names = {}
    for site in mine.sites:
        for raw in site.raws:
            for tensor in raw.tensors():
                names[_input(raw.done[id(tensor)])] = _input(tensor)
    for source in mine.sources.values():
        for tensor, part in zip(source.op.outputs, source.parts):
            names[_input(part)] = _input(tensor)
    return names


def _input(tensor):
    """As a node names its inputs."""
    return tensor.name[:-2] if tensor.name.endswith(":0") else tensor.name


# ---- imports

def _importing(real):
    def import_graph_def(*args, **words):
        from tensorflow.python.framework import ops
        graph = ops.get_default_graph()
        last = graph.version
        result = real(*args, **words)
        if not hasattr(graph, "outer_graph"):
            _note(graph, last)
        return result
    return import_graph_def


def _note(graph, count):
    """Remember the operations that train."""
    for op in graph.get_operations()[count:]:
        kind = op.type.replace("Resource", "", 1).replace("Sparse", "", 1)
        if kind.startswith("Apply"):
            book.of(graph).imported.add(op._id)


def refuse():
    """A run would train what was imported."""
    text = ("this graph was imported with its training operations "
            "(import_meta_graph, import_graph_def), nothing is exchanged in "
            "it: let the script build its optimizer")
    _lib.abort(65, text)
    raise _lib.Error(-10, "poseidon: " + text)
