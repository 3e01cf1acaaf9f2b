"""The generator that draws: NumPy's, or one that is seeded by torch's; in workers of a DataLoader, one for each."""

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from coviews.errors import CoviewsError

if TYPE_CHECKING:
    import torch

AnyGenerator: TypeAlias = "np.random.Generator | torch.Generator"


def numpy_generator(generator: AnyGenerator) -> np.random.Generator:
    """The NumPy generator to draw from; a torch generator moves on by one number, which seeds a new one.

    A worker process of a DataLoader has its own copy of every generator that the data set holds. There, a new
    generator is seeded by a number of this one and by torch's seed for that worker in that epoch: without it, all
    workers would make the same views, in every epoch.
    """
    torch: Any = sys.modules.get("torch.utils.data") and sys.modules["torch"]
    if torch is not None and isinstance(generator, torch.Generator):
        seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
        return np.random.default_rng(int(seed))
    if not isinstance(generator, np.random.Generator):
        raise CoviewsError(
            f"the generator must be np.random.default_rng(seed) or a torch.Generator, not {type(generator).__name__}"
        )
    worker = torch.utils.data.get_worker_info() if torch is not None else None
    if worker is None:
        return generator
    return np.random.default_rng([worker.seed, int(generator.integers(2**63))])
