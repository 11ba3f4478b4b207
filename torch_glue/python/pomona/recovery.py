"""Going on with fewer ranks after some have died, in the same processes.

    mpirun --on-death continue -n 4 python train.py

    try:
        train_one_step()
    except dist.DistBackendError:
        dist.shrink_group(pomona.failed_ranks())      # by all who live
        network = DistributedDataParallel(model)      # which takes the new rank 0's parameters
"""

from __future__ import annotations

import importlib
from typing import Any

from . import _backends, _regroup


def failed_ranks(group: Any = None) -> list[int]:
    """The ranks of `group` (None: of the default group) that have died.

    All that live must call it, and get the same list, which may be empty. What is under way in the
    group ends with an error at all of them, so that they do call it; the group is of no use
    afterwards but for torch.distributed.shrink_group. Raises DistBackendError where one that lives
    does not call it within the group's timeout, TypeError for a group of another backend.
    """
    c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")
    chosen = c10d._get_default_group() if group is None else group
    device = _regroup.any_device(c10d, str(c10d._world.pg_map[chosen][0]))
    backend = chosen._get_backend(device)
    backend = getattr(backend, "wrapped_pg", backend)  # of torch's debug mode
    if not hasattr(backend, "failed_ranks"):
        raise TypeError(f"pomona.failed_ranks: the group's backend is {backend.name()}, not mpi or pomona")
    _backends.glue()
    ranks: list[int] = backend.failed_ranks()
    return ranks
