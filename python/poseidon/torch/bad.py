"""--nan: what becomes of a pass with a gradient that is not finite. All
workers know the same, so all do the same."""
import ctypes

from poseidon import _job, _lib

EXIT_CODE = 65  # of a job that --nan stop has ended


class Watch:
    def __init__(self, table):
        self.table = table
        self.policy = _job.job().nan
        self.scaled = False   # a GradScaler expects them and skips steps
        self.said = 0
        self.slot, self.rank = ctypes.c_uint32(), ctypes.c_uint32()
        self.refs = ctypes.byref(self.slot), ctypes.byref(self.rank)

    def look(self, number):
        """After pass `number` of optimizer steps. True: drop its
        gradients."""
        if not _lib.library().psd_step_bad(self.table.step, *self.refs):
            return False
        if self.policy == "allow" and (self.scaled or self.said):
            return False
        rank = self.rank.value
        text = "the gradient of %s %s is not finite in step %d" % (
            self.table.title(self.table.slots[self.slot.value]),
            "on worker %d" % rank if rank < _job.job().size
            else "summed over all workers", number)
        if self.policy == "stop":
            text += " (--nan stop)"
            _lib.abort(EXIT_CODE, text)
            raise _lib.Error(-9, "poseidon: " + text)
        self.said += 1
        if self.policy == "skip":
            if self.said <= 10:
                _job.say(text + ": its gradients are dropped on all workers"
                         + (" (said no more)" if self.said == 10 else ""))
            return True
        _job.say(text + "; training goes on (--nan skip drops such steps, "
                 "--nan stop ends the job)")
        return False
