"""Groups that are made by their members alone: `new_group(..., use_local_synchronization=True)`.

torch refuses them for the name "mpi". For other backends it names such a group after the number of
groups that the process is in, which differs from member to member, who then never meet, and comes
again when a group has ended. Here the name counts the groups of these very ranks that their members
have made so. The names used here are private to torch.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any

from ._regroup import OURS, _backends_of, naming

_made: Any = weakref.WeakKeyDictionary()  # of each default group: how many of which ranks


def install(c10d: Any) -> None:
    """Puts the function below in torch's place, where torch has what it needs."""
    original = getattr(c10d, "_new_group_with_tag", None)
    names = getattr(c10d, "_process_group_name", None)
    if original is None or names is None:
        return
    signature = inspect.signature(original)
    if not {"ranks", "backend", "use_local_synchronization"} <= set(signature.parameters):
        return

    @functools.wraps(original)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        values = call.arguments
        default = c10d._get_default_group()
        config = c10d.Backend(values.get("backend") or c10d._world.pg_map[default][0])
        ours = set(_backends_of(str(config))) & set(OURS)
        if not values.get("use_local_synchronization") or not ours:
            return original(*args, **kwargs)
        ranks = values.get("ranks")
        members = list(range(default.size())) if ranks is None else list(ranks)
        if default.rank() not in members:
            return None  # as torch has it
        if values.get("sort_ranks", True):
            members.sort()
        naming.name = _next_name(default, members)
        if config == "mpi":  # the same by another word, which torch does not refuse
            capable = c10d.Backend.backend_capability["mpi"]
            values["backend"] = ",".join(f"{device}:mpi" for device in capable)
        try:
            group = original(*call.args, **call.kwargs)
        finally:
            naming.name = None
        if config == "mpi" and group in c10d._world.pg_map:
            c10d._world.pg_map[group] = (config, c10d._world.pg_map[group][1])
            c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(config))
        return group

    @functools.wraps(names)
    def name_of(*args: Any, **kwargs: Any) -> Any:
        return getattr(naming, "name", None) or names(*args, **kwargs)

    c10d._new_group_with_tag = new_group
    c10d._process_group_name = name_of


def _next_name(default: Any, members: list[int]) -> str:
    counts = _made.setdefault(default, {})
    counts[tuple(members)] = counts.get(tuple(members), 0) + 1
    return f"{counts[tuple(members)]} made by ranks {', '.join(map(str, members))}"
