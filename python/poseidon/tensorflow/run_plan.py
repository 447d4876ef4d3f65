"""What a run of a session will do, read from its fetches and feeds once and
kept: which groups it exchanges and applies, and what has to be fed to it.

A run that reaches the push of a group and applies nothing (a summary of
gradients, on one worker only) must not wait for the others: `enabled` is fed
False. A run that leaves out an optimizer feeds what the turn of the later
ones would take from it.
"""
import numpy

from poseidon import _job

_FALSE, _TRUE = numpy.array(False), numpy.array(True)
_RESTORES = frozenset(("RestoreV2", "RestoreSlice", "Restore"))
_SOURCES = ("QueueDequeue", "IteratorGetNext", "Unstage", "ReaderRead")


class Plan:
    def __init__(self):
        self.held = None        # keeps the objects that its key names alive
        self.sites = ()         # groups that are exchanged and applied
        self.names = ()         # ... their names
        self.extra = {}         # feeds to add
        self.targets = []       # operations to run as well
        self.fetches = None     # what to fetch instead; None: what is asked
        self.loss = -1          # where the loss is among the fetches
        self.rows = ()          # fed tensors that may have a row per example
        self.fixed = {}         # fed tensors with so many rows, always
        self.whole = None       # why the batch is not cut
        self.asks = False       # a value for each row is fetched
        self.sets = ()          # variables that are initialised
        self.restores = False
        self.foreign = False    # it trains what was imported
        self.batch = None       # rows that queues or iterators give
        self.inside = False     # ... which are cut or dealt in the graph
        self.dealt = False      # ... the latter
        self.said = False       # what becomes of the batch
        self.trial = None       # tensor: a part of a batch is tried first


def make(book, targets, fetches, feeds):
    plan = Plan()
    plan.held = (list(targets), list(fetches), list(feeds))
    given = {id(reference.deref()) for reference in feeds}
    stops = given.union(id(site.between) for site in book.sites)
    reached = reach(targets, fetches, stops)
    plan.sites = tuple(site for site in book.sites
                       if not site.applying.isdisjoint(reached))
    plan.names = tuple(site.name for site in plan.sites)
    plan.foreign = not book.imported.isdisjoint(reached)
    if _job.job().size == 1:
        _find_loss(plan, fetches)
        return plan
    if plan.sites:
        _give_answers(plan, book, fetches)
        _add_statistics(plan, book, reached)
        reached = reach(list(targets) + plan.targets,
                        plan.fetches or fetches, stops)
        _choose_rows(plan, feeds, fetches, reached)
    else:
        _find_changes(plan, book, reached)
    _switch(plan, book, reached)
    return plan


def reach(targets, fetches, stops):
    """{number: operation} of everything that runs."""
    reached = {}
    waiting = list(targets)
    waiting.extend(tensor.op for tensor in fetches if id(tensor) not in stops)
    while waiting:
        op = waiting.pop()
        if op._id in reached:
            continue
        reached[op._id] = op
        waiting.extend(tensor.op for tensor in op.inputs
                       if id(tensor) not in stops)
        waiting.extend(op.control_inputs)
    return reached


def _switch(plan, book, reached):
    for site in book.sites:
        if site.waited is None:
            continue
        here = site.waited._id in reached
        pushed = here or any(
            op._id in reached for op in _pushes(site.waited))
        if pushed and site not in plan.sites:
            plan.extra[site.enabled.ref()] = _FALSE
        if not here:
            plan.extra[site.between.ref()] = _TRUE
    for source in book.sources.values():
        if _feeds(source, plan):
            plan.extra[source.cut.ref()] = _TRUE
            plan.inside = True
            plan.dealt = plan.dealt or source.dealt
    if not any(site.waited is not None and site.waited._id in reached
               for site in book.sites):
        for site in book.sites:   # nobody takes a turn
            if site.between is not None:
                plan.extra.pop(site.between.ref(), None)


def _feeds(source, plan):
    return any(source is site.source or source in site.towers
               for site in plan.sites)


def _pushes(waited):
    return [tensor.op for tensor in waited.inputs
            if tensor.op.type.startswith("PsdPush")]


def _add_statistics(plan, book, reached):
    """A run that trains and changes all statistics of a group exchanges
    them."""
    for site in book.sites:
        if site.updates and all(number in reached
                                for number in site.updates):
            plan.targets.extend(site.targets)
            plan.sites += (site,)
            plan.names += (site.name,)


# ---- fetches

def _give_answers(plan, book, fetches):
    """Who asks for a raw gradient, or for the loss, gets that of all
    workers; who asks for a batch that is dealt, this worker's."""
    done = {}
    for source in book.sources.values():
        if source.dealt and _feeds(source, plan):
            done.update(zip(map(id, source.op.outputs), source.parts))
    for site in plan.sites:
        for raw in site.raws:
            done.update(raw.done)
        done.update(zip(map(id, site.told), site.answers))
    if any(id(tensor) in done for tensor in fetches):
        plan.fetches = [done.get(id(tensor), tensor) for tensor in fetches]
    _find_loss(plan, fetches)


def _find_loss(plan, fetches):
    losses = {id(site.loss) for site in plan.sites}
    for index, tensor in enumerate(fetches):
        if id(tensor) in losses:
            plan.loss = index


# ---- rows

def _choose_rows(plan, feeds, fetches, reached):
    """Which feeds have a row per example, and what speaks against taking
    this worker's part of them."""
    rows = []
    for reference in feeds:
        tensor = reference.deref()
        shape = tensor.shape
        if shape.rank is None or (shape.rank > 0 and shape[0] is None) or (
                shape.rank and getattr(shape[0], "value", shape[0]) is None):
            rows.append(reference)
        elif shape.rank:
            plan.fixed[reference] = shape.as_list()[0]
    plan.rows = tuple(rows)
    names = {reference.deref().op.name for reference in feeds}
    if any(name.endswith("/indices") and name[:-8] + "/values" in names
           and name[:-8] + "/shape" in names for name in names):
        plan.whole = "a sparse tensor is fed"
    elif any(site.kind == "mixed" for site in plan.sites):
        plan.whole = "the loss adds a sum over the batch to other terms"
    plan.asks = bool(rows) and _asks_for_rows(plan, fetches)
    plan.batch = _source(reached)
    for site in plan.sites:
        if site.loss is not None and plan.trial is None and (
                plan.batch is None):   # a trial would take data away
            plan.trial = site.loss


def _asks_for_rows(plan, fetches):
    """Is something fetched that has a row for each example? The script
    would see fewer than it has fed."""
    wanted = plan.fetches or fetches
    for tensor in wanted:
        shape = tensor.shape
        if tensor.op.type.startswith(("Psd", "Variable", "ReadVariable")):
            continue
        if shape.rank and shape.as_list()[0] is None and (
                _comes_from(tensor, {id(reference.deref())
                                     for reference in plan.rows})):
            return True
    return False


def _comes_from(tensor, fed):
    waiting, seen = [tensor], set()
    while waiting:
        value = waiting.pop()
        if id(value) in fed:
            return True
        if value.op._id not in seen:
            seen.add(value.op._id)
            waiting.extend(value.op.inputs)
    return False


def _source(reached):
    """Rows of a batch that comes from a queue or an iterator; 0: not known;
    None: there is no such thing."""
    found = None
    for op in reached.values():
        if op.type.startswith(_SOURCES):
            found = found or 0
            for tensor in op.outputs:
                if tensor.shape.rank and tensor.shape.as_list()[0]:
                    found = tensor.shape.as_list()[0]
    return found


# ---- initialisation

def _find_changes(plan, book, reached):
    """Does this run set variables anew?"""
    plan.restores = any(op.type in _RESTORES for op in reached.values())
    from tensorflow.python.framework import ops
    found = []
    for variable in book.graph.get_collection(
            ops.GraphKeys.GLOBAL_VARIABLES):
        initializer = getattr(variable, "initializer", None)
        if initializer is not None and initializer._id in reached:
            found.append(variable)
    plan.sets = tuple(found)
