"""Random numbers that Keras 3 draws for the rows of a worker (dropout, noise,
augmentation): those of worker 0 are the script's, another's are mixed with
its rank."""
import functools

from poseidon import _job
from poseidon.shared import streams


def install(patches, module, is_own):
    """`module`: keras.src.random.seed_generator. The state of a SeedGenerator
    stays equal, what it gives is mixed where is_own() says so."""
    rank = _job.job().rank
    if rank == 0:
        return
    number = streams.mixed(b"keras", rank) & 0x3fffffff

    def make(original):
        @functools.wraps(original)
        def next_seed(self, *args, **kwargs):
            seed = original(self, *args, **kwargs)
            if not is_own():
                return seed
            # Integers wrap around; the second word counts the draws.
            return seed + self.backend.convert_to_tensor(
                [number, 0], dtype=seed.dtype)
        return next_seed

    patches.wrap(module.SeedGenerator, "next", make)
