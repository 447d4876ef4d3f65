"""Gradients: pushed one by one as they are accumulated, finished in place in
p.grad when backward() returns.

A pass is one torch.autograd.backward of the outermost level. At its entry the
gradients that parameters hold already are set aside, so that only the new
part travels; at its end the answers are added to them, in the same tensors.
Hooks on the parameters push; the end of the pass waits. Backward passes that
autograd runs inside another one (reentrant checkpoints) belong to it.

A gradient is pushed inside its hook only if nobody else can see its memory:
the answer is written there while backward still runs. What is shared with
the graph, has hooks of the script on it or comes in parts waits for the end.
"""
import ctypes
import os
import threading
import weakref

from poseidon import _job, _lib
from poseidon.shared import lines
from poseidon.torch import (accum, arena, bad, cuda, data, loss, meter,
                            modules, save, slots, sparse, start, stats,
                            value)

# What workers tell each other with each pass.
LOADED = 1   # somebody has loaded a state: start again from rank 0's
BROKEN = 2   # backward has raised an exception
WHOLE = 4    # it has not
COPIED = 8   # as LOADED, of a module that no optimizer trains

ALONE = 2    # uses of a gradient's memory inside its own hook


class Exchange:
    def __init__(self, torch):
        self.torch = torch
        self.job = _job.job()
        self.lib = _lib.library()
        self.on = True           # False: uninstalled, or a forked child
        self.traced = os.environ.get("PSD_TRACE", "0") != "0"
        self.open = False        # a pass is under way
        self.eager = False       # hooks may push
        self.local = False       # the pass is not exchanged
        self.deep = False        # autograd has run backward inside backward
        self.broken = False      # a pass was given up and is not finished
        self.stepping = False    # an optimizer is inside its step
        self.quiet = 0           # depth of no_sync()
        self.lock = threading.Lock()
        self.step = _lib.step()
        self.table = slots.Table(torch, self.step, self._make_hook)
        self.stage = cuda.Stage(torch, self._push)
        self.statistics = stats.Statistics(self.table, self.stage)
        self.value = value.Value(torch, self.table)
        self.window = accum.Window(self.job.accum)
        self.watch = bad.Watch(self.table)
        self.meter = meter.Meter(torch, self.table)
        self.quick = []          # slots pushed from p.grad by their hook
        self.pushed = []         # slots whose gradient was handed over else
        self.kept = []           # parts of sparse gradients in flight
        self.late = {}           # slots that wait for the end of the pass
        self.done = set()        # slots exchanged by a step inside the pass
        self.held = []           # slots whose old gradient was set aside
        self.rooms = []          # slots that got room for an answer
        self.pending = {}        # slots with gradients of this worker only
        self.owing = False       # there was a pass that was not exchanged
        self.passes = 0
        self.copies = 0          # passes after a COPIED
        self.stepped = weakref.WeakKeyDictionary()  # optimizer: passes then
        self.flag = 0
        self.flags = ctypes.c_uint64()
        self.weight, self.op = 1.0, _lib.MEAN
        self.total = self.batch = None
        self.lost = None         # gradients in flight of a broken pass
        self.task = torch._C._current_graph_task_id
        # Where it cannot be asked for, gradients are sent from copies.
        self.uses = getattr(torch._C, "_storage_Use_Count",
                            lambda pointer: ALONE + 1)

    # ---- the hook of a parameter

    def _make_hook(self, slot):
        push, step, uses = self.lib.psd_step_push, self.step, self.uses
        strided = self.torch.strided
        plain = not slot.dtype.is_complex

        def hook(parameter):
            if not self.on:
                return
            grad = parameter.grad
            if (self.eager and grad is not None and plain
                    and slot.sent is None
                    and grad.layout is strided and grad.is_cpu
                    and grad.is_contiguous() and parameter.is_contiguous()
                    and grad.dtype is slot.dtype
                    and len(parameter._post_accumulate_grad_hooks) == 1
                    and uses(grad.untyped_storage()._cdata) <= ALONE):
                slot.sent = grad
                self.quick.append(slot)
                status = push(step, slot.id, grad.data_ptr())
                if status < 0:
                    _lib.check(status)
            else:
                self._later(slot, parameter, grad)

        hook._torchdynamo_disable = True
        return hook

    def _later(self, slot, parameter, grad):
        """What the hook does not push at once."""
        if not self.open or self.local:
            self.pending[slot] = None
            self.owing = True
            return
        if grad is None or slot in self.done:
            return
        if slot.sent is not None:
            raise _lib.Error(-2, "poseidon: %s got a second gradient in one "
                             "backward pass, when the first was on its way"
                             % self.table.title(slot))
        if not grad.is_cpu and not grad.is_cuda:
            raise _lib.Error(-10, "poseidon: %s lies on %s; gradients on the "
                             "host and on CUDA devices can be exchanged"
                             % (self.table.title(slot), grad.device))
        if grad.is_cuda and self.eager and (
                grad.layout is self.torch.strided
                and len(parameter._post_accumulate_grad_hooks) == 1):
            slot.sent = grad
            self.pushed.append(slot)
            self.stage.out(slot, grad, parameter)
            return
        self.late[slot] = None

    def _push(self, slot, address):
        _lib.check(self.lib.psd_step_push(self.step, slot.id, address))

    # ---- a pass

    def backward(self, real, tensors, args, kwargs):
        if not self.on or not self.table.count:
            return real(tensors, *args, **kwargs)
        if self.open and self.task() != -1:
            self.deep, self.eager = True, False
            return real(tensors, *args, **kwargs)
        with self.lock:
            return self._pass(real, tensors, args, kwargs)

    def _pass(self, real, tensors, args, kwargs):
        roots = tensors if isinstance(tensors, (list, tuple)) and (
            not hasattr(tensors, "output_nr")) else (tensors,)
        roots = [root for root in roots
                 if isinstance(root, self.torch.Tensor)]
        create = args[2] if len(args) > 2 else kwargs.get("create_graph")
        data.backward_seen()
        self.passes += 1
        if self.broken:
            self._heal()
        if self.table.unstarted:
            self.start()
        mine = self._weigh(roots)
        self._enter(roots, create)
        self.value.look([] if self.local else roots, args, kwargs)
        arena.on()
        self._mark(1)
        try:
            real(tensors, *args, **kwargs)
        except BaseException:
            self._break()
            raise
        finally:
            self._mark(0)
            arena.off()
        if self.local:
            self.open = self.local = False
            self.done.clear()
        else:
            self._finish(create)
        self.meter.note(roots, mine)

    def _mark(self, begin):
        """For --trace: pushes that lie inside this span were hidden."""
        if self.traced:
            self.lib.psd_mark(_lib.session(), b"backward", begin)

    def _weigh(self, roots):
        """Weight and kind of the pass; samples of this worker."""
        known = data.samples()
        mine, self.total = (1, None) if known is None else known
        if self.job.batch == "per-worker":
            self.total = None
        kind, self.weight = loss.look(roots, *(known or (None, None)))
        self.op = _lib.SUM if kind == "sum" else _lib.MEAN
        self.window.weigh(mine, self.weight)
        batch, self.batch = self.batch, data.current()
        if known is None or (batch is not None and batch is self.batch):
            return 0  # not known, or counted with the pass before
        return mine

    def _enter(self, roots, create):
        """Look at every parameter: hooks, and gradients that are there."""
        table, held, dead = self.table, [], False
        for slot in table.live:
            parameter = slot.ref()
            if parameter is None:
                dead = True
                continue
            if parameter.dtype is not slot.dtype or (
                    parameter.numel() != slot.count):
                slot = table.changed(slot, parameter)
            if not parameter.requires_grad:
                continue
            hooks = parameter._post_accumulate_grad_hooks
            if hooks is None or slot.hook not in hooks:
                table.arm(slot, parameter)
            grad = parameter.grad
            if grad is not None and slot not in self.pending and (
                    getattr(grad, "_psd_zero", None) != grad._version):
                held.append((slot, parameter, grad))
        if dead:
            table.drop_dead()
        if table.waiting:
            table.announce()
        self._decide(roots, held, create)
        if not self.local or self.quiet:
            for slot, parameter, grad in held:
                slot.old = grad
                parameter.grad = None
                self.held.append(slot)
        self.open, self.eager = True, not self.local and not self.deep
        if not self.local:
            _lib.check(self.lib.psd_step_begin(self.step, self.weight,
                                               self.op))

    def _decide(self, roots, held, create):
        """Shall this pass be exchanged?"""
        if self.stepping or self.table.count > 1:
            self.window.give_up()
        if self.quiet:
            self.local = self.owing = True
            return
        if self.owing and self.window.differs(self.total, self.op):
            weight, op = self.weight, self.op
            old = list(self.pending)
            self.flush()
            self.weight, self.op = weight, op
            for slot in old:
                parameter = slot.ref()
                if parameter is not None and parameter.grad is not None:
                    held.append((slot, parameter, parameter.grad))
        clean = not held and not self.owing
        self.local = self.window.begin(
            clean, self.total, self.weight, self.op, roots) and (
                not self.stepping and not create)  # looked at at once
        if self.local:
            self.owing = True
        elif self.owing:
            self._collect()

    def _collect(self):
        """What passes have left goes with this exchange."""
        if self.window.share is not None:
            self.weight = self.window.weight
        self.late, self.pending, self.owing = self.pending, {}, False

    def _finish(self, create=False):
        """All gradients of this worker exist: send the rest, wait."""
        self.eager = False
        with self.torch.no_grad():
            for slot in self.late:
                if slot.sent is None:
                    self._send(slot)
            self.late = {}
            averaged = self.statistics.push(self.lib, self.step)
            self.value.push(self._push, self._factor())
            self.stage.drain()
            flags = self._await(self.flag | self.window.vote() | WHOLE)
            self.flag = 0
            self.open = False
            self.window.close()
            self.window.count(flags)
            if flags & BROKEN:
                raise _lib.Error(-5, "poseidon: backward has raised an "
                                 "exception on another worker, which went "
                                 "on; the workers cannot")
            drop = self.watch.look(self.meter.steps + 1)
            self._settle(create, drop)
            self.statistics.settle(averaged, self.lib, self.step)
            self.value.settle()
            self.stage.returns()
            self.kept = []
        if flags & LOADED or flags & COPIED and self._is_due():
            self.start()

    def _factor(self):
        """From the mean of the workers' losses to their sum."""
        if self.op != _lib.SUM or not self.weight:
            return 1.0
        known = data.samples()
        return known[1] / self.weight if known else self.job.size

    def _is_due(self):
        """Start again after a COPIED? A target network takes a mean of equal
        values in every step: later ones count at powers of two only."""
        self.copies += 1
        return self.copies & (self.copies - 1) == 0

    def trains(self, owner):
        """Has it a parameter that an optimizer changes? So has whatever is
        no module."""
        if not isinstance(owner, self.torch.nn.Module):
            return True
        found = map(self.table.of, owner.parameters())
        return any(slot is not None and slot.kind == _lib.GRADIENT
                   for slot in found)

    def _send(self, slot):
        """Push what waited, from the parameter's own memory or, if that is
        shared or laid out otherwise, from a copy."""
        parameter, torch = slot.ref(), self.torch
        grad = None if parameter is None else parameter.grad
        if grad is None:
            return
        self.pushed.append(slot)
        if grad.layout is not torch.strided:
            slot.sent = grad
            self.kept.append(sparse.push(self.step, slot, grad))
            return
        if grad.is_cuda:
            slot.sent = grad
            self.stage.out(slot, grad, parameter)
            return
        slot.sent = grad
        if not self._is_own(grad, parameter):
            slot.sent = torch.empty_like(parameter)
            slot.sent.copy_(grad.detach())
        self._push(slot, slot.sent.data_ptr())

    def _is_own(self, grad, parameter):
        if grad.dtype is not parameter.dtype or grad.is_conj() or (
                grad.is_neg()
                or self.uses(grad.untyped_storage()._cdata) >= ALONE):
            return False
        if grad.is_contiguous() and parameter.is_contiguous():
            return True
        like = self.torch.empty_like(parameter).stride()
        return grad.stride() == like == parameter.stride()

    def _await(self, flag):
        """Finish the pass on the C side; the flags of all workers."""
        lib, step, ids = self.lib, self.step, self.table.ids
        save.passing()
        while True:
            for at in range(lib.psd_step_missing(step, ids)):
                self._give_room(self.table.slots[ids[at]])
            status = lib.psd_step_finish(step, flag, self.flags)
            if status == _lib.OK:
                return self.flags.value
            self._check_end(status)

    def _check_end(self, status):
        """Raise what a status means, with a word on scripts that part."""
        try:
            _lib.check(status)
        except _lib.Error as error:
            if "closed its session" not in str(error):
                raise
            raise _lib.Error(
                status, "%s. Its script is over, this one's goes on: loops "
                "must end at the same step on all workers, so not by what "
                "each has for itself (a random number, an episode, a loss "
                "read before backward())" % error) from None

    def _give_room(self, slot):
        """Memory for an answer to which this worker gives nothing."""
        owner = slot.ref()
        if owner is not None and owner.is_cuda:
            room = self.stage.room(slot, owner)
        elif owner is None:
            room = slot.room = self._scratch(slot)
        elif slot.kind == _lib.BUFFER:
            room = owner
        else:
            if slot.room is None:
                arena.on()
                slot.room = self.torch.empty_like(owner)
                arena.off()
            room = slot.room
        self.rooms.append(slot)
        _lib.check(self.lib.psd_step_room(self.step, slot.id,
                                          room.data_ptr()))

    def _scratch(self, slot):
        return self.torch.empty(slot.count, dtype=slot.dtype)

    # ---- answers

    def _settle(self, create, drop):
        """Each answer becomes p.grad, or is added to what was there."""
        outcome, step = self.lib.psd_step_outcome, self.step
        strided = self.torch.strided
        for slot in self.quick:
            slot.sent = None
            if slot.old is not None and not drop:
                self._add(slot, slot.ref(), create)
        for slot in self.pushed:
            parameter, grad, slot.sent = slot.ref(), slot.sent, None
            if parameter is None or drop:
                continue
            if grad.layout is not strided:
                parameter.grad = sparse.result(step, slot, grad)
            elif grad.is_cuda:
                self.stage.back(slot, grad)
            elif parameter.grad is not grad and parameter.grad is not None:
                parameter.grad.copy_(grad)  # it was sent from a copy
            if slot.old is not None:
                self._add(slot, parameter, create)
        for slot in self.rooms:
            parameter = slot.ref()
            if parameter is not None and not drop:
                self._settle_room(slot, parameter, outcome(step, slot.id),
                                  create)
        self._settle_rest(create, drop)
        self._restore(drop)

    def _settle_rest(self, create, drop):
        """Others may have had sparse gradients where this worker had none."""
        live = self.table.live
        if drop or len(live) <= len(self.quick) + len(self.pushed):
            return
        given = set(self.quick).union(self.pushed, self.rooms, self.done)
        for slot in live:
            parameter = slot.ref()
            if slot not in given and parameter is not None and (
                    parameter.requires_grad and slot.id is not None
                    and self.lib.psd_step_outcome(self.step, slot.id)
                    == _lib.SPARSE):
                parameter.grad = sparse.result(self.step, slot, None)
                if slot.old is not None:
                    self._add(slot, parameter, create)

    def _settle_room(self, slot, parameter, what, create):
        if what == _lib.NOBODY:
            return
        if slot.kind == _lib.BUFFER:
            if parameter.is_cuda:
                self.stage.back(slot, parameter)
            return
        if what == _lib.SPARSE:
            grad = sparse.result(self.step, slot, None)
        elif parameter.is_cuda:
            grad = self.torch.empty_like(parameter)
            self.stage.back(slot, grad)
        else:
            grad, slot.room = slot.room, None
        if parameter.grad is not None:   # zeroed by zero_grad
            parameter.grad.copy_(grad)
        else:
            parameter.grad = grad
        if slot.old is not None:
            self._add(slot, parameter, create)

    def _add(self, slot, parameter, create):
        """The sum of old and new, in the old tensor."""
        old, new, slot.old = slot.old, parameter.grad, None
        if new is None:
            parameter.grad = old
        elif create or old.requires_grad:
            with self.torch.enable_grad():
                parameter.grad = old + new
        elif old.layout is not new.layout and old.is_sparse:
            parameter.grad = new + old
        else:
            old.add_(new)
            parameter.grad = old

    def _restore(self, drop):
        """Gradients that this pass did not touch, or may not."""
        if drop:
            for slot in self.quick + self.pushed + self.rooms:
                parameter = slot.ref()
                if parameter is not None and slot.kind != _lib.BUFFER:
                    parameter.grad = None
        for slot in self.held:
            parameter = slot.ref()
            if slot.old is not None and parameter is not None:
                parameter.grad = slot.old
            slot.old = None
        self.quick, self.pushed, self.rooms, self.held = [], [], [], []
        self.done.clear()

    # ---- what goes wrong

    def _break(self):
        """Backward has raised: gradients are as they were before it."""
        self.eager = self.open = False
        self.done.clear()
        if self.local:  # as torch leaves it: what was accumulated stays
            self.local = False
            return
        self.broken = True
        self.stage.forget()
        sent = self.quick + self.pushed
        for slot in sent + list(self.late):
            parameter = slot.ref()
            if parameter is not None:
                parameter.grad = None
        self.lost = [slot.sent for slot in sent] + self.kept  # in flight
        self.kept = []
        for slot in sent:
            slot.sent = None
        self.late = {}
        self._restore(False)

    def _heal(self):
        """The script goes on after an exception in backward. If all workers
        had one, nothing is lost; if not, they are no longer alike."""
        flags = self._await(BROKEN)
        self.broken, self.lost, self.rooms = False, None, []
        if flags & WHOLE:
            raise _lib.Error(-5, "poseidon: backward has raised an exception "
                             "on this worker and not on others; training "
                             "cannot go on after it")

    # ---- outside of backward

    def start(self):
        """All workers take the values of rank 0. Collective."""
        if self.broken:
            self._heal()
        save.passing()
        start.collect()
        start.run(self.torch, self.table, self.statistics, modules.values())

    def flush(self):
        """Exchange what is this worker's only. Collective."""
        if not self.owing:
            return
        if self.window.share is not None:
            self.op = self.window.share[1]
        self._collect()
        self.open = True
        _lib.check(self.lib.psd_step_begin(self.step, self.weight, self.op))
        self._finish()

    def before_step(self, optimizer):
        """An optimizer is about to step."""
        if optimizer not in self.table.optimizers:
            self._adopt(optimizer)
        self.stepping = True
        if self.open:
            self.window.give_up()
            self._step_inside(optimizer)
        elif self.owing:
            with self.lock:
                self.flush()
        elif self.stepped.get(optimizer) == self.passes:
            with self.lock:
                self._by_hand(optimizer)
        self.stepped[optimizer] = self.passes

    def _by_hand(self, optimizer):
        """No backward() since its last step: the gradients came by other
        ways (autograd.grad, torch.func), or are those of that step still,
        which their mean leaves as they are."""
        found = [slot for slot in map(self.table.of, (
            parameter for group in optimizer.param_groups
            for parameter in group["params"] if parameter.grad is not None))
            if slot is not None]
        if not found:
            return
        lines.once("gradients that no backward() has made: the mean of all "
                   "workers is taken when the optimizer steps")
        data.backward_seen()
        if self.table.unstarted:
            self.start()
        known = data.samples()
        self.weight, self.op = float(known[0]) if known else 1.0, _lib.MEAN
        self.table.announce()
        self.pending.update(dict.fromkeys(found))
        self.owing = True
        self.flush()

    def zeroed(self, parameters, to_none):
        """zero_grad was called: what is left are zeros, known as such."""
        if to_none and not self.pending and not self.held:
            return
        for parameter in parameters:
            slot = self.table.of(parameter)
            if slot is not None:
                slot.old = None
                self.pending.pop(slot, None)
            grad = parameter.grad
            if grad is not None and not grad.is_sparse:
                grad._psd_zero = grad._version

    def after_step(self, optimizer):
        self.stepping = False
        self.meter.stepped(optimizer)

    def _adopt(self, optimizer):
        """A copied or unpickled optimizer: it was not made, but is there."""
        known = {id(slot.ref()) for slot in self.table.live}
        self.table.add_optimizer(optimizer)
        self.table.announce()
        for slot in self.table.live:
            parameter = slot.ref()
            if parameter is not None and id(parameter) not in known and (
                    parameter.grad is not None):
                self.pending[slot] = None
                self.owing = True
                self.flag |= LOADED

    def _step_inside(self, optimizer):
        """An optimizer steps inside backward: its gradients are exchanged
        one by one, now."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                slot = self.table.of(parameter)
                if slot is None or parameter.grad is None or (
                        slot in self.done):
                    continue
                if slot.sent is not None:
                    raise _lib.Error(
                        -2, "poseidon: an optimizer steps inside backward "
                        "when the gradient of %s is on its way; call step() "
                        "in a hook of the parameter, or after backward()"
                        % self.table.title(slot))
                self.late.pop(slot, None)
                self.pending.pop(slot, None)
                self.done.add(slot)
                self._exchange_now(slot, parameter)

    def _exchange_now(self, slot, parameter):
        grad = parameter.grad
        if grad.layout is not self.torch.strided:
            raise _lib.Error(-10, "poseidon: %s has a sparse gradient; its "
                             "optimizer cannot step inside backward"
                             % self.table.title(slot))
        with self.torch.no_grad():
            value = grad
            if not grad.is_cpu or not self._is_own_now(grad, parameter):
                value = self.torch.empty_like(parameter, device="cpu")
                value.copy_(grad)
            save.passing()
            _lib.check(self.lib.psd_step_now(
                self.step, slot.id, value.data_ptr(), self.weight, self.op))
            if value is not grad:
                grad.copy_(value)
            if slot.old is not None:
                self._add(slot, parameter, False)

    def _is_own_now(self, grad, parameter):
        return (grad.is_contiguous() and parameter.is_contiguous()
                and self.uses(grad.untyped_storage()._cdata) <= ALONE)
