"""Makes torch's shrink_group and split_group right for backends "mpi" and "pomona".

torch calls the backend, and then makes the new ProcessGroup as if its backend were gloo or NCCL.
DistributedDataParallel crashes on such a group. It numbers a group's remaining ranks wrongly where
these are not the first ones, it opens one more connection to a store that may have died with its
rank, and it splits groups of accelerators only. All names used here are private to torch, so what
is missing there (of shrinking before 2.13) stays as torch has it.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import socket
import sys
import threading
import weakref
from datetime import timedelta
from types import ModuleType
from typing import Any

OURS = ("mpi", "pomona")

naming = threading.local()  # .name: of the group that this thread makes now; _members.py tells torch
_splits: Any = weakref.WeakKeyDictionary()  # of each group so far: names come again


def install(dist: Any, c10d: Any) -> None:
    """Puts the functions below in torch's place, where torch has what they need."""
    if hasattr(c10d, "_create_shrunk_process_group") and hasattr(c10d, "shrink_group"):
        _wrap_create_shrunk(c10d)
        _wrap_shrink(dist, c10d)
    if hasattr(c10d, "split_group") and hasattr(c10d, "_register_process_group"):
        _wrap_split(dist, c10d)


def _devices_of(c10d: Any, config: str, backend: str) -> list[str]:
    """The kinds of devices that `config` ("mpi", "cpu:mpi,cuda:nccl") gives to `backend`."""
    devices: dict[str, str] = c10d.BackendConfig(c10d.Backend(config)).get_device_backend_map()
    return [device for device, name in devices.items() if name == backend]


def _wrap_create_shrunk(c10d: Any) -> None:
    original = c10d._create_shrunk_process_group

    @functools.wraps(original)
    def create(backend: Any, ranks: list[int], metadata: dict[str, Any], is_default: bool) -> Any:
        import torch

        name = backend.name()
        if name not in OURS:
            return original(backend, ranks, metadata, is_default)
        if metadata.pop("store_is_gone", False):
            metadata["store"] = _new_store(torch, c10d, backend)
        group = original(backend, ranks, metadata, is_default)
        kind = c10d.Backend.backend_type_map[name]
        for device in _devices_of(c10d, str(metadata["backend_name"]), name):
            group._register_backend(torch.device(device), kind, backend)
        group._set_default_backend(kind)
        return group

    c10d._create_shrunk_process_group = create


def _own_address() -> str:
    """Where others reach this host: in the network by which it reaches the first rank 0's. The
    host's name is known to the others in some networks only."""
    try:
        first = socket.getaddrinfo(os.environ["MASTER_ADDR"], 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(first[0], socket.SOCK_DGRAM) as asking:
            asking.connect(first[4])  # asks for the route, and sends nothing
            own = ipaddress.ip_address(asking.getsockname()[0])
    except (KeyError, OSError, ValueError):
        return socket.gethostname()
    return socket.gethostname() if own.is_loopback or own.is_link_local else str(own)


def _new_store(torch: Any, c10d: Any, backend: Any) -> Any:
    """A store that the new rank 0 serves: the ranks' own may have gone with the old rank 0."""
    if backend.size() == 1:
        return torch.distributed.HashStore()
    timeout: timedelta = backend.options._timeout
    places: Any = torch.zeros(256, dtype=torch.uint8)
    store = None
    if backend.rank() == 0:
        one_host = os.environ.get("LOCAL_WORLD_SIZE", "") == os.environ.get("WORLD_SIZE")
        host = "127.0.0.1" if one_host else _own_address()
        store = torch.distributed.TCPStore(
            host, 0, backend.size(), is_master=True, wait_for_workers=False, timeout=timeout
        )
        word = f"{host} {store.port}".encode()
        places[: len(word)] = torch.tensor(list(word), dtype=torch.uint8)
    options = torch._C._distributed_c10d.BroadcastOptions()
    options.rootRank = 0
    backend.broadcast([places], options).wait()
    if store is None:
        host, port = bytes(places.tolist()).rstrip(b"\0").decode().split()
        store = torch.distributed.TCPStore(
            host, int(port), backend.size(), is_master=False, wait_for_workers=False, timeout=timeout
        )
    return torch.distributed.PrefixStore("shrunk", store)


def _wrap_shrink(dist: Any, c10d: Any) -> None:
    original = c10d.shrink_group
    extract = c10d._extract_group_metadata

    @functools.wraps(original)
    def shrink_group(
        ranks_to_exclude: list[int], group: Any = None, shrink_flags: int = 0, pg_options: Any = None
    ) -> Any:
        old = c10d._get_default_group() if group is None else group
        if not set(_backends_of(str(c10d._world.pg_map[old][0]))) & set(OURS):
            return original(ranks_to_exclude, group, shrink_flags, pg_options)
        is_default = old == c10d._get_default_group()
        served = is_default and 0 in ranks_to_exclude
        numbers: list[int] = c10d.get_process_group_ranks(old)

        def extract_here(target: Any) -> dict[str, Any]:
            metadata: dict[str, Any] = extract(target)
            metadata["store_is_gone"] = served
            return metadata

        kept = [number for rank, number in enumerate(numbers) if rank not in ranks_to_exclude]
        # torch names it by the number of groups so far. From 2.14 on that counts this one, too, on
        # its members alone, so that groups of others made afterwards would never meet.
        naming.name = f"{c10d._get_process_group_name(old)}:shrunk:{'_'.join(map(str, kept))}"
        c10d._extract_group_metadata = extract_here
        try:
            new = original(ranks_to_exclude, group, shrink_flags, pg_options)
        finally:
            c10d._extract_group_metadata = extract
            naming.name = None
        # Of the default group the ranks are numbered anew; members of others keep their numbers.
        kept = list(range(len(kept))) if is_default else kept
        c10d._world.pg_group_ranks[new] = {number: rank for rank, number in enumerate(kept)}
        return new

    for module in (c10d, dist):
        module.shrink_group = shrink_group


def _backends_of(config: str) -> list[str]:
    return [part.split(":")[-1].strip().lower() for part in config.split(",")]


def _wrap_split(dist: Any, c10d: Any) -> None:
    original = c10d.split_group

    @functools.wraps(original)
    def split_group(
        parent_pg: Any = None,
        split_ranks: Any = None,
        timeout: timedelta | None = None,
        pg_options: Any = None,
        group_desc: str | None = None,
        **more: Any,
    ) -> Any:
        parent = parent_pg or c10d._get_default_group()
        known = parent in c10d._world.pg_map
        config = str(c10d._world.pg_map[parent][0]) if known else ""
        if not known or not split_ranks or set(_backends_of(config)) - set(OURS) or any(more.values()):
            return original(parent_pg, split_ranks, timeout, pg_options, group_desc, **more)
        return _split(c10d, parent, split_ranks, timeout, group_desc)

    mesh: Any = sys.modules.get("torch.distributed.device_mesh")
    modules: list[Any] = [c10d, dist, mesh]
    for module in modules:
        if hasattr(module, "split_group"):  # the mesh's module has its own reference to it
            module.split_group = split_group


def _split(
    c10d: Any, parent: Any, lists: list[list[int]], timeout: timedelta | None, description: str | None
) -> Any:
    """split_group, without torch's demand for a device that the default group is bound to.

    torch also makes the name, on which all members must agree, of the number of groups that a
    process is in, which differs: then they wait for each other for ever.

    `lists` count in `parent`. None on ranks that are in no list. Raises ValueError for a rank that
    is named twice or is none of the parent's, DistBackendError where one does not come in time.
    """
    named = [rank for each in lists for rank in each]
    if not all(lists) or len(named) != len(set(named)) or not set(named) <= set(range(parent.size())):
        raise ValueError(
            f"split_group: {lists} must be lists of ranks of a group of {parent.size()}, "
            "none of them empty and no rank named twice"
        )
    config, store = c10d._world.pg_map[parent]
    if timeout is None:
        timeout = parent._get_backend(any_device(c10d, str(config))).options._timeout
    c10d._check_valid_timeout(timeout)
    # Ranks may be in different numbers of groups, but all of the parent's split it equally often.
    whole = c10d._get_process_group_name(parent)
    _splits[parent] = _splits.get(parent, 0) + 1
    mine = next((sorted(each) for each in lists if parent.rank() in each), None)
    if mine is None:
        return None
    name = f"{whole}:split{_splits[parent]}:{'_'.join(map(str, mine))}"
    group = parent.split_group(mine, timeout=timeout, group_name=name, group_desc=description or "split")
    device = c10d._get_default_group().bound_device_id
    if device is not None:
        group.bound_device_id = device
    numbers = c10d.get_process_group_ranks(parent)
    register = getattr(c10d, "_register_pg_in_world", functools.partial(_register, c10d))
    register(
        group,
        backend_name=config,
        store=group.get_group_store(),
        group_name=name,
        backend_config=c10d._world.pg_backend_config[parent],
        rank_mapping={numbers[rank]: place for place, rank in enumerate(mine)},
    )
    return group


def _register(
    c10d: Any,
    group: Any,
    backend_name: str,
    store: Any,
    group_name: str,
    backend_config: str,
    rank_mapping: dict[int, int],
) -> None:
    """What torch has in a function from 2.13 on."""
    world, tag = c10d._world, f"ptd:{group_name}"
    world.pg_map[group] = (backend_name, store)
    world.pg_names[group] = group_name
    world.pg_backend_config[group] = backend_config
    world.pg_group_ranks[group] = rank_mapping
    c10d._register_process_group(group_name, group)
    world.tags_to_pg.setdefault(tag, []).append(group)
    world.pg_to_tag[group] = tag


def any_device(c10d: ModuleType, config: str) -> Any:
    import torch

    for backend in OURS:
        for device in _devices_of(c10d, config, backend):
            return torch.device(device)
    return torch.device("cpu")
