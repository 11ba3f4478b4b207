"""Ends torch's coalescing where an exception leaves its manager, for backends "mpi" and "pomona".

`torch.distributed._coalescing_manager` has no `finally`: after an exception the group's later
operations go to a list that nobody looks at, and seem to succeed. The names used here are private
to torch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from ._regroup import OURS, _backends_of


def install(dist: Any, c10d: Any) -> None:
    """Puts the manager below in torch's place, where torch has what it needs."""
    if not hasattr(c10d, "_coalescing_manager") or not hasattr(c10d._world, "pg_coalesce_state"):
        return
    original = c10d._coalescing_manager

    @functools.wraps(original)
    @contextlib.contextmanager
    def manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[Any]:
        chosen = group or c10d._get_default_group()
        entered = False
        try:
            with original(chosen, device, async_ops) as opened:
                entered = True
                yield opened
        except BaseException:
            # What has been started ends by itself; what torch has only listed was never called.
            if entered and set(_backends_of(str(c10d._world.pg_map[chosen][0]))) & set(OURS):
                c10d._world.pg_coalesce_state.pop(chosen, None)
                if device:
                    chosen._end_coalescing(device)
            raise

    for module in (c10d, dist):
        if hasattr(module, "_coalescing_manager"):
            module._coalescing_manager = manager
