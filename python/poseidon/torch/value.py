"""The value of a loss after backward(): that of the whole batch, as on one
machine, and the same on all workers.

Scripts decide by it: they stop early, lower the rate, choose the best epoch,
search a step length. It travels with the gradients, weighted as they are, and
is written where the script's tensor has its number. Left alone: what others
may still compute with (retain_graph, a view), what lies on a device, several
roots, and passes that are not exchanged by themselves (--accum).
"""


class Value:
    def __init__(self, torch, table):
        self.torch = torch
        self.cell = torch.zeros(1, dtype=torch.float64)
        self.slot = table.add_value("loss", self.cell)
        self.root = None     # of the pass at hand

    def look(self, roots, args, kwargs):
        """A pass begins; the arguments of autograd.backward after its
        first."""
        self.root = None
        keep = any(args[1:3]) or kwargs.get("retain_graph") or (
            kwargs.get("create_graph"))
        if len(roots) == 1 and not keep and self._is_plain(roots[0]):
            self.root = roots[0]

    def _is_plain(self, root):
        return (root.grad_fn is not None and root.is_cpu
                and root.layout is self.torch.strided
                and root.is_floating_point() and root.numel() == 1
                and root._base is None)

    def push(self, push, factor):
        """Hand it over. factor: of a sum, what its mean is multiplied with to
        be the sum."""
        if self.root is not None and self.slot.id is not None:
            self.cell.fill_(self.root.item() * factor)
            push(self.slot, self.cell.data_ptr())

    def settle(self):
        """The answer is there."""
        root, self.root = self.root, None
        if root is not None and self.slot.id is not None:
            root.data.copy_(self.cell.reshape(root.shape))
