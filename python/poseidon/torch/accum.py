"""--accum: one exchange for several backward passes that add up before an
optimizer step.

A window opens with the first pass that finds no gradients (None, or zeroed by
zero_grad) and ends with the k-th pass, which exchanges the sum. What the
script sees until then is the sum of this worker. An optimizer that steps
earlier, clipping and unscaling exchange first what is left. A pass that finds
gradients of earlier exchanges, or another batch size than the window's, is
exchanged by itself, so that the result is always that of k exchanges.

auto: when WATCHED windows in a row had the same k > 1 passes with losses of
the same structure, and one optimizer is all there is, k is used from there.
"""
from poseidon import _job

WATCHED = 3    # windows that must be alike
PATIENCE = 12  # windows after which auto looks no more

OFF, WATCH, ON = "off", "watch", "on"


class Window:
    def __init__(self, accum):
        self.k = 1 if accum == "auto" else accum
        self.state = WATCH if accum == "auto" else ON if self.k > 1 else OFF
        self.passes = 0    # of the open window
        self.share = None  # what its passes have in common
        self.weight = 0.0
        self.lengths = []  # of closed windows
        self.shapes = set()
        self.closed = 0

    def begin(self, clean, total, weight, op, roots):
        """A pass begins. True: it shall not be exchanged by itself."""
        if self.state == OFF:
            return False
        if self.state == WATCH:
            self._watch(clean, total, op, roots)
            if self.state != ON or not clean:
                return False
        if clean:
            self.passes, self.share, self.weight = 0, (total, op), 0.0
        elif self.share is None:
            return False
        self.passes += 1
        self.weight = weight if total is not None else self.weight + weight
        return self.passes < self.k

    def differs(self, total, op):
        """Is a pass of this batch size none of the open window's?"""
        return self.share is not None and self.share != (total, op)

    def close(self):
        """All is exchanged; gradients that are found now are old ones."""
        self.share = None

    def give_up(self):
        """Several optimizers, closures, steps inside backward: no auto."""
        if self.state == WATCH:
            self.state = OFF

    def _watch(self, clean, total, op, roots):
        shape = (total, op) + structure(roots)
        if clean and self.shapes:
            alike = len(self.shapes) == 1
            self.lengths.append(self.passes if alike else 0)
            self.closed += 1
            self.passes = 0
            self.shapes = set()
        self.passes += 1
        self.shapes.add(shape)
        last = self.lengths[-WATCHED:]
        if last and last[-1] == 1 or self.closed > PATIENCE:
            self.state = OFF
        elif len(last) == WATCHED and len(set(last)) == 1 and last[0] > 1:
            self.state, self.k = ON, last[0]
            _job.say("%d backward passes before each step: their gradients "
                     "are exchanged once per step (--accum %d; --accum 1 "
                     "exchanges each)" % (self.k, self.k))


def structure(roots):
    """Names of the first nodes of the graph: what kind of loss this is."""
    names = []
    for root in roots:
        node = getattr(root, "grad_fn", None)
        for _ in range(4):
            if node is None:
                break
            names.append(type(node).__name__)
            node = node.next_functions[0][0] if node.next_functions else None
    return tuple(names)
