"""What is known of one graph: its raw gradients, the groups that exchange
them, and the plans of the runs that it has seen. Lies on the graph itself."""
from poseidon.tensorflow import gradients

_NAME = "_psd_book"


class Site:
    """A group in a graph: the operations by which it is exchanged and the
    ones by which it is applied."""

    def __init__(self, group):
        self.group = group
        self.name = None if group is None else group.name.encode()
        self.raws = []
        self.enabled = None     # placeholder, True by default
        self.waited = None      # the operation PsdWait
        self.between = None     # what the next group's turn takes
        self.applying = set()   # numbers of operations that apply it
        self.loss = None        # the tensor whose gradient this is
        self.told = []          # numbers of this worker's rows
        self.answers = []       # ... of all workers
        self.kind = "mean"      # of the loss, over the rows of a batch
        self.source = None      # a source.Source: rows are cut in the graph
        self.towers = []        # more of them, where they are dealt
        self.variables = []
        self.steps = 0
        self.updates = []       # of statistics: operations that change them
        self.targets = []       # ... and those that set them to the mean


class Book:
    def __init__(self, graph):
        self.graph = graph
        self.record = gradients.Record()
        self.sites = []
        self.plans = {}
        self.version = -1       # of the graph, when all was in place
        self.depth = 0          # inside apply_gradients
        self.sources = {}       # number of an operation: source.Source
        self.imported = set()   # numbers of operations that train, not ours
        self.same = {}          # names of groups: why they are not cut, and
                                # whether all workers feed the same


def of(graph):
    book = getattr(graph, _NAME, None)
    if book is None:
        book = Book(graph)
        setattr(graph, _NAME, book)
    return book


def known(graph):
    """None: nothing was exchanged or recorded in this graph."""
    return getattr(graph, _NAME, None)
