"""--accum: one exchange for several backward passes that add up before an
optimizer step.

A window opens with a pass that finds no gradients (None, or zeroed by
zero_grad) and ends with the k-th pass, which exchanges the sum. What the
script sees until then is the sum of this worker. An optimizer that steps
earlier, clipping and unscaling exchange first what is left. A pass that finds
gradients of earlier exchanges, or another batch size than the window's, is
exchanged by itself, so that the result is always that of k exchanges.

Whether a pass is exchanged must not depend on what only this worker sees.
auto therefore votes with the flags of each pass: when WATCHED windows in a
row had the same k > 1 passes, with losses of the same kind and one optimizer
being all there is, on every worker, k is used from there.
"""
from poseidon import _job

WATCHED = 3    # windows that must be alike
PATIENCE = 12  # windows after which auto looks no more
MOST = 40      # passes of a window that auto finds

# Votes; what workers tell each other with each pass.
NEVER = 1 << 8
NOT_YET = 1 << 9
FIRST = 10     # bit of k is FIRST + k

OFF, WATCH, ON = "off", "watch", "on"


class Window:
    def __init__(self, accum):
        self.auto = accum == "auto"
        self.k = 1 if self.auto else accum
        self.state = WATCH if self.auto else ON if self.k > 1 else OFF
        self.share = None  # what the passes of the open window have in common
        self.passes = 0    # of it
        self.early = 0     # windows in a row that ended too early
        self.weight = 0.0
        self.ratio = None  # weight of a row, and whether it changes
        self.varies = False
        self.lengths = []  # auto: passes of the windows that were watched
        self.seen = 0      # passes since the last clean one
        self.shapes = set()

    def begin(self, clean, total, weight, op, roots):
        """A pass begins. True: it shall not be exchanged by itself."""
        if self.state == WATCH:
            self._watch(clean, (total, op, structure(roots)))
        if self.state != ON:
            return False
        if self.share is None:
            if not clean:
                return False
            self.passes, self.weight, self.share = 0, 0.0, (total, op)
        self.passes += 1
        self.weight += weight
        return self.passes < self.k

    def differs(self, total, op):
        """Is a pass of this batch size none of the open window's?"""
        return self.share is not None and self.share != (total, op)

    def close(self):
        """All is exchanged; gradients that are found now are old ones."""
        if self.share is not None:
            self.early = 0 if self.passes == self.k else self.early + 1
            if self.early == WATCHED:
                self.give_up()
        self.share = None

    def give_up(self):
        """Several optimizers, closures, steps inside backward, windows of
        other lengths: no auto. All workers see these alike."""
        if not self.auto:
            return
        if self.state == ON:
            _job.say("steps no longer have %d passes that count the same: "
                     "each is exchanged from here" % self.k)
        self.state = OFF

    def weigh(self, mine, weight):
        """A pass of `mine` rows has this weight. Where rows do not all count
        the same (targets that are ignored), sums are not exact: no auto."""
        if mine:
            if self.ratio is None:
                self.ratio = weight / mine
            self.varies = self.varies or self.ratio != weight / mine

    def vote(self):
        """This worker's flags."""
        if not self.auto:
            return 0
        if self.state == OFF or self.varies:
            return NEVER
        if self.state == ON:
            return 0
        k = self._found()
        return 1 << (FIRST + k) if k else NOT_YET

    def count(self, flags):
        """What all workers say."""
        if flags & NEVER and self.state != OFF:
            self.give_up()
        if self.state != WATCH:
            return
        ks = [k for k in range(2, MOST + 1) if flags >> (FIRST + k) & 1]
        if not flags & NOT_YET and len(ks) == 1:
            self.state, self.k = ON, ks[0]
            _job.say("%d backward passes before each step: their gradients "
                     "are exchanged once per step (--accum %d; --accum 1 "
                     "exchanges each)" % (self.k, self.k))

    def _watch(self, clean, shape):
        if clean and self.seen:
            self.lengths.append(self.seen if len(self.shapes) == 1 else 0)
            self.seen, self.shapes = 0, set()
        self.seen += 1
        self.shapes.add(shape)
        if self.lengths[-1:] == [1] or len(self.lengths) > PATIENCE:
            self.state = OFF

    def _found(self):
        last = self.lengths[-WATCHED:]
        alike = len(last) == WATCHED and len(set(last)) == 1
        return last[0] if alike and 1 < last[0] <= MOST else 0


def structure(roots):
    """What kind of loss this is: the names of the first nodes."""
    names = []
    for root in roots:
        node = root.grad_fn
        if node is not None:
            names.append(type(node).__name__)
            names += [type(other[0]).__name__
                      for other in node.next_functions[:1]]
    return tuple(names)
