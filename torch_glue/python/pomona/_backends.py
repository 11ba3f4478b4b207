"""Registers "pomona" and "mpi" with torch.distributed, on stock wheels of torch.

"pomona" is an ordinary registered backend. "mpi" is a name torch knows by itself: up to 2.13 it is
built into `_new_process_group_helper` and looks for a class ProcessGroupMPI, which stock wheels
lack, so we put ours there; from 2.14 it is a registered backend like others. Where torch was built
with MPI of its own, "mpi" is left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import inspect
import os
import re
import socket
import sys
import threading
import urllib.parse
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import FrameType, ModuleType
from typing import Any, NoReturn

from . import _coalescing, _exit, _futures, _members, _regroup, _settings

DEVICES = ["cpu", "cuda", "mps"]

_context = threading.local()  # arguments of the group being made, for ProcessGroupMPI.create
_state: dict[str, Any] = {"registered": False, "glue": None, "rank_by_mpi": False, "settled": False}
_lock = threading.Lock()


def glue() -> Any:
    """The C++ extension, loaded at first use: `import torch` must stay fast."""
    with _lock:
        if _state["glue"] is None:
            from . import _load

            _settings.for_the_glue()
            extension: Any = _load.load()
            extension.register_device_kernels()
            extension.register_view_kernels()
            _futures.install(importlib.import_module("torch._C"), extension)
            atexit.register(_python_ends)
            if not extension.exit_status_known():
                _exit.watch_exits()
            _state["glue"] = extension  # after all that may fail: else the next use would find a half
            _tell_of_another_mpi(extension.other_library())  # which may be told to be an error
        return _state["glue"]


def mpi_running() -> bool:
    return _state["glue"] is not None and bool(_state["glue"].mpi_running())


def rank() -> int:
    """In the default group, whose ranks may be told to init_process_group; else in MPI's world."""
    dist = _torch_distributed()
    return int(dist.get_rank() if dist.is_initialized() else _state["glue"].world_info()["rank"])


def _torch_distributed() -> Any:
    """Untyped: torch does not declare what it re-exports there, and c10d's names are private."""
    return importlib.import_module("torch.distributed")


def _dump_record(prefix: str) -> None:
    """At a timeout."""
    from . import _record

    path = _record.dump(_state["glue"], prefix, rank())
    print(f"pomona: an operation has timed out; what was called is in {path}", file=sys.stderr)


def _tell_of_another_mpi(library: str) -> None:
    if library:
        warnings.warn(
            f"this process has loaded another MPI, too: {library}. torch.distributed goes through "
            "Pomona all the same; what uses the other one (mpi4py?) is a world of its own, and the "
            "two must not be waited for crosswise",
            stacklevel=4,
        )


def register() -> None:
    dist = _torch_distributed()

    if _state["registered"] or not dist.is_available():
        return
    c10d = _torch_distributed().distributed_c10d

    _state["registered"] = True
    if "pomona" not in c10d.Backend.backend_list:
        creator = functools.partial(_create_registered, "pomona")
        c10d.Backend.register_backend("pomona", creator, extended_api=True, devices=DEVICES)
    _wrap_monitored_barrier(dist, c10d)
    _wrap_set_timeout(c10d)
    _wrap_sequence_number(c10d)
    _regroup.install(dist, c10d)
    _coalescing.install(dist, c10d)
    _members.install(c10d)
    if _has_own_mpi(c10d):
        return
    _install_mpi(dist, c10d)
    if "_backend_type" in inspect.signature(c10d.Backend.register_backend).parameters:
        _register_mpi(c10d)
    _wrap_helper(c10d)
    _wrap_rendezvous(c10d)
    # They are not: see _meet.
    warnings.filterwarnings("ignore", message="For MPI backend, world_size")


def _has_own_mpi(c10d: ModuleType) -> bool:
    return getattr(c10d, "_MPI_AVAILABLE", False) and hasattr(c10d, "ProcessGroupMPI")


def _register_mpi(c10d: Any) -> None:
    """torch 2.14 and later."""
    creator = functools.partial(_create_registered, "mpi")
    c10d.Backend.register_backend(
        "mpi",
        creator,
        extended_api=True,
        devices=DEVICES,
        _backend_type=c10d.ProcessGroup.BackendType.MPI,
    )


class ProcessGroupMPI:
    """Stands where torch looks for its own class of that name (up to 2.13)."""

    @staticmethod
    def create(ranks: list[int]) -> Any:
        group = _context.group
        return _create(
            "mpi",
            group["name"],
            group["rank"],
            group["size"],
            list(ranks),
            group["timeout"],
            group["store"],
        )


def _install_mpi(dist: Any, c10d: Any) -> None:
    """What torch up to 2.13 creates the backend by, and is_mpi_available() asks in every
    version."""
    for module in (c10d, dist):
        module.ProcessGroupMPI = ProcessGroupMPI
    c10d._MPI_AVAILABLE = True
    c10d.Backend.backend_capability["mpi"] = list(DEVICES)


def _wrap_helper(c10d: Any) -> None:
    """Gives backend "mpi" what others get: its rank and size, a store and the timeout.

    torch passes (-1, -1, Store()) for it, without which object collectives, mixed backends and
    timeouts fail.
    """
    original = c10d._new_process_group_helper
    signature = inspect.signature(original)
    wanted = ["group_size", "group_rank", "global_ranks_in_group", "backend", "store", "group_name"]
    if list(signature.parameters)[:6] != wanted or "timeout" not in signature.parameters:
        warnings.warn(
            "pomona does not know this version of torch: init_process_group('mpi') may not work; "
            "use backend 'pomona'",
            stacklevel=2,
        )
        return

    @functools.wraps(original)
    def helper(*args: Any, **kwargs: Any) -> Any:
        _add_private_device(c10d)
        call = signature.bind(*args, **kwargs)
        values = call.arguments
        backends = _backends_of(values["backend"])
        if c10d.GroupMember.WORLD is None and set(backends) <= set(_regroup.OURS):
            _name_default_group(c10d, values)
        if "mpi" in backends:
            if values["group_rank"] == -1 and not values["global_ranks_in_group"]:
                _default_group(values)
            _context.group = {
                "name": str(values["group_name"]),
                "rank": values["group_rank"],
                "size": values["group_size"],
                "timeout": values.get("timeout"),
                "store": values["store"],
            }
        try:
            made = original(*call.args, **call.kwargs)
        finally:
            _context.group = None  # else its store, which may serve a port, outlives the group
        if ":" in str(values["backend"]):
            _set_default_backend(c10d, made[0], backends)
        return made

    c10d._new_process_group_helper = helper


def _name_default_group(c10d: Any, values: dict[str, Any]) -> None:
    """The same on all ranks, though some have called init_process_group in vain before.

    torch counts these calls in the names of groups, so that later ones would never meet.
    """
    values["group_name"] = type(values["group_name"])("0")
    c10d._world.group_count = 1


def _add_private_device(c10d: Any) -> None:
    """A device that a package adds to torch (PrivateUse1) has its name only after that package is
    loaded."""
    import torch

    name = torch._C._get_privateuse1_backend_name()
    for backend in ("mpi", "pomona"):
        devices = c10d.Backend.backend_capability.get(backend)
        if devices is not None and name not in devices and "cpu" in devices:
            devices.append(name)


def _backends_of(config: Any) -> list[str]:
    """{"mpi"} of "mpi", {"gloo", "mpi"} of "cuda:gloo,cpu:mpi"."""
    return [part.split(":")[-1].strip().lower() for part in str(config).split(",")]


def _default_group(values: dict[str, Any]) -> None:
    """The rank and size torch leaves to MPI, and a store for what asks for one."""
    extension = glue()
    told = _told_to_init()
    store = None
    if not extension.mpi_running() and not _by_mpi_launcher():
        store, rank, size = _meet(told, values.get("timeout"))
        _start_mpi(values.get("timeout"), store, rank, size)
    _start_mpi(values.get("timeout"))
    world = extension.world_info()
    _check_asked_for(told, world)
    extension.meet_world(_seconds(values.get("timeout")))
    world["local_rank"], world["local_size"] = extension.local_info()
    # As with other backends the ranks are those that the processes are told.
    values["group_rank"] = world["rank"] if told["rank"] == -1 else told["rank"]
    values["group_size"] = world["size"]
    values["store"] = store or _make_store(world, values.get("timeout"))
    # Not by who has started the program: the next init_process_group asks MPI as this one did.
    _state["rank_by_mpi"] = _state["rank_by_mpi"] or "RANK" not in os.environ
    for name, key in (
        ("RANK", "rank"),
        ("WORLD_SIZE", "size"),
        ("LOCAL_RANK", "local_rank"),
        ("LOCAL_WORLD_SIZE", "local_size"),
    ):
        os.environ.setdefault(name, str(world[key]))


def _told_to_init() -> dict[str, Any]:
    """What init_process_group was told: torch drops rank, world_size and store for backend
    "mpi"."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "init_process_group":
        frame = frame.f_back
    values = frame.f_locals if frame is not None else {}
    told = {name: values.get(name) for name in ("init_method", "store")}
    query = urllib.parse.parse_qs(urllib.parse.urlparse(str(told["init_method"] or "")).query)
    for name in ("rank", "world_size"):
        value = values.get(name, -1)
        told[name] = value if value not in (-1, None) else int(query.get(name, ["-1"])[0])
    return told


# Set by launchers of MPI, Pomona's and others; the last three do not set RANK as torch's do.
LAUNCHER_VARIABLES = ("POMONA_JOB_ID", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")


def _by_mpi_launcher() -> bool:
    """torchrun inside of another launcher's job (srun) is the nearer one."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return False
    return any(name in os.environ for name in LAUNCHER_VARIABLES)


def _meet(told: dict[str, Any], timeout: timedelta | None) -> tuple[Any, int, int]:
    """Store, rank and size of processes that torchrun or somebody by hand has started; or (None, 0,
    1)."""
    dist = _torch_distributed()
    c10d = _torch_distributed().distributed_c10d

    if told["store"] is not None:
        store, rank, size = told["store"], told["rank"], told["world_size"]
    else:
        method = told["init_method"]
        if told["world_size"] == -1 and "WORLD_SIZE" not in os.environ and method in (None, "env://"):
            return None, 0, 1
        more = {} if timeout is None else {"timeout": timeout}
        rendezvous = c10d.rendezvous(method or "env://", told["rank"], told["world_size"], **more)
        with _no_wait_for_workers():
            store, rank, size = next(rendezvous)
    if timeout is not None:
        store.set_timeout(timeout)
    return dist.PrefixStore("default_pg", store), rank, size


@contextlib.contextmanager
def _no_wait_for_workers() -> Iterator[None]:
    """The server of torch's store waits for all ranks, and names none that does not come: MPI does,
    which then meets by it."""
    module: Any = importlib.import_module("torch.distributed.rendezvous")
    original = module.TCPStore
    module.TCPStore = functools.partial(original, wait_for_workers=False)
    try:
        yield
    finally:
        module.TCPStore = original


def _check_asked_for(told: dict[str, Any], world: dict[str, Any]) -> None:
    """The world must be as large as init_process_group was told, by arguments or by its URL."""
    size, rank = told["world_size"], told["rank"]
    if size != -1 and size != world["size"]:
        _wrong_size(f"init_process_group was told world_size={size}", size, world["size"])
    if rank != -1 and rank >= world["size"]:
        _wrong_size(f"init_process_group was told rank={rank}", rank + 1, world["size"])


def _wrong_size(told: str, wanted: int, size: int) -> NoReturn:
    ranks = "one rank" if size == 1 else f"{size} ranks"
    why = "this process was not started by mpirun" if size == 1 else "mpirun was given another number"
    raise RuntimeError(
        f"{told}, but MPI's world has {ranks}: {why}. Start the program with: mpirun -n {wanted} "
        f"{os.path.basename(sys.executable)} {' '.join(sys.argv)}"
    )


def _wrap_rendezvous(c10d: Any) -> None:
    """Under a launcher that tells torch nothing (RANK, MASTER_ADDR, ...), MPI gives rank and
    store."""
    theirs: Callable[..., Iterator[tuple[Any, int, int]]] = c10d.rendezvous

    @functools.wraps(theirs)
    def rendezvous(
        url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
    ) -> Iterator[tuple[Any, int, int]]:
        told = rank != -1 or world_size != -1 or ("RANK" in os.environ and not _state["rank_by_mpi"])
        if told or not str(url).startswith("env://"):
            return theirs(url, rank, world_size, **kwargs)
        if not any(name in os.environ for name in LAUNCHER_VARIABLES):
            return theirs(url, rank, world_size, **kwargs)
        values: dict[str, Any] = {"timeout": kwargs.get("timeout")}
        _default_group(values)
        return iter([(values["store"], values["group_rank"], values["group_size"])])

    c10d.rendezvous = rendezvous


def _wrap_monitored_barrier(dist: Any, c10d: Any) -> None:
    """torch refuses monitored_barrier for every backend but gloo, by name."""
    original = c10d.monitored_barrier

    @functools.wraps(original)
    def monitored_barrier(
        group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> Any:
        if c10d._rank_not_in_group(group) or c10d.get_backend(group) not in ("mpi", "pomona"):
            return original(group, timeout, wait_all_ranks)
        if timeout is not None:
            c10d._check_valid_timeout(timeout)
        chosen = c10d._get_default_group() if group is None else group
        more = {} if timeout is None else {"timeout": timeout}
        return chosen.monitored_barrier(wait_all_ranks=wait_all_ranks, **more)

    for module in (c10d, dist):
        module.monitored_barrier = monitored_barrier


def _wrap_set_timeout(c10d: Any) -> None:
    """torch sets the timeouts of gloo's and NCCL's groups alone, by their classes."""
    original = getattr(c10d, "_set_pg_timeout", None)
    if original is None:
        return

    @functools.wraps(original)
    def set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        chosen = c10d._get_default_group() if group is None else group
        ours: set[Any] = set()
        others = _state["glue"] is None or c10d._rank_not_in_group(chosen)
        for device in [] if others else chosen._device_types:
            backend = chosen._get_backend(device)
            if isinstance(backend, _state["glue"].ProcessGroupPomona):
                ours.add(backend)
            else:
                others = True
        for backend in ours:
            set_timeout: Any = getattr(backend, "_set_default_timeout", None) or backend.set_timeout
            set_timeout(timeout)
        if others or not ours:
            original(timeout, group)

    c10d._set_pg_timeout = set_pg_timeout


def _wrap_sequence_number(c10d: Any) -> None:
    """torch asks the groups of a few backends alone for it, by their names."""
    original = getattr(c10d.ProcessGroup, "_get_sequence_number_for_group", None)
    if original is None:
        return

    @functools.wraps(original)
    def sequence_number(self: Any) -> int:
        for device in [] if _state["glue"] is None else self._device_types:
            backend = self._get_backend(device)
            if isinstance(backend, _state["glue"].ProcessGroupPomona):
                return int(backend._get_sequence_number_for_group())
        return int(original(self))

    c10d.ProcessGroup._get_sequence_number_for_group = sequence_number


def _make_store(world: dict[str, Any], timeout: timedelta | None) -> Any:
    """Rank 0 opens a TCPStore on a free port; MPI tells the others where."""
    dist = _torch_distributed()

    if world["size"] == 1:
        return dist.HashStore()
    # torch's clock overflows with timedelta.max.
    timeout = min(timeout or timedelta(minutes=5), timedelta(days=36500))
    store = None
    if world["rank"] == 0:
        try:
            # Who serves it is at home by this address, whatever the others know the host by.
            store = dist.TCPStore(
                "127.0.0.1", 0, world["size"], is_master=True, wait_for_workers=False, timeout=timeout
            )
        except Exception as error:
            glue().broadcast_text(f"error: {error}")  # the others wait for it
            raise
    given = os.environ.get("MASTER_ADDR")
    one_host = world["local_size"] == world["size"]
    host = given or ("127.0.0.1" if one_host else socket.gethostname())
    address = glue().broadcast_text(f"{host} {store.port}" if store else "")
    if address.startswith("error: "):
        raise RuntimeError(f"rank 0 could not open a store: {address[7:]}")
    if store is None:
        host, port = address.split()
        if not given:
            host = _address_in(glue().paths_to(0)) or host
        store = dist.TCPStore(
            host, int(port), world["size"], is_master=False, wait_for_workers=False, timeout=timeout
        )
    return store


def _address_in(paths: str) -> str:
    """By which messages reach a rank, of what MPIX_Link_paths tells, or "": the name of its host is
    known to others in some networks only."""
    lines = [line.split("\t") for line in paths.splitlines()]
    if lines and lines[0][0] == "shared memory":
        return "127.0.0.1"
    lines.sort(key=lambda words: "first" not in words)  # what messages take comes first
    for words in lines:
        found = re.match(r"tcp \d+ .*?(\S+) to (\S+)", words[6]) if words[1:2] == ["up"] else None
        if found and not found[2].startswith("fe80:"):  # which means nothing without its interface
            return found[2]
    return ""


def _set_default_backend(c10d: Any, group: Any, backends: list[str]) -> None:
    """With any registered backend present, torch sets none for "cpu:x,cuda:y", and then fails at
    the end."""
    if not isinstance(group, c10d.ProcessGroup) or c10d.Backend.NCCL in backends:
        return
    kind = c10d.Backend.backend_type_map.get(backends[0])
    if kind is not None:
        group._set_default_backend(kind)


def _start_mpi(timeout: timedelta | None, store: Any = None, rank: int = 0, size: int = 1) -> None:
    """MPI_Init. Processes that no launcher of MPI has started meet in `store`, which has the
    timeout."""
    extension = glue()
    running = extension.mpi_running()
    if not running or not _state["settled"]:
        _settle(extension)
    if not running:
        _settings.tell()
    if store is not None and size > 1 and not extension.mpi_running() and not _by_mpi_launcher():
        dist = _torch_distributed()

        extension.start_mpi_by_store(dist.PrefixStore("pomona", store), rank, size)
        return
    extension.start_mpi(max(_seconds(timeout), 0.001))  # 0 is no limit there
    wanted = int(os.environ.get("WORLD_SIZE", "1"))
    if extension.world_info()["size"] == 1 and wanted > 1:
        _wrong_size(f"WORLD_SIZE is {wanted}", wanted, 1)


def _settle(extension: Any) -> None:
    """Not when the extension is loaded: pomona.init() may come after that."""
    _settings.for_the_glue()
    extension.set_futures_inline(os.environ.get("POMONA_FUTURES") == "inline")
    prefix = os.environ.get("POMONA_GLUE_RECORD")
    if prefix:
        extension.set_record_dumper(functools.partial(_dump_record, prefix))
    _state["settled"] = True


def _start_mpi_for(rank: int, size: int, ranks: list[int], timeout: timedelta | None, store: Any) -> None:
    """For a group: the default one, whose ranks are not listed, or one made beside another
    backend's."""
    if ranks and not glue().mpi_running():
        dist = _torch_distributed()
        c10d = _torch_distributed().distributed_c10d

        if len(ranks) != dist.get_world_size() and not _by_mpi_launcher():
            raise RuntimeError(
                f"MPI starts in all {dist.get_world_size()} processes at once, without mpirun: make a "
                "group of all ranks with this backend before those of some ranks"
            )
        rank, size, store = dist.get_rank(), dist.get_world_size(), c10d._get_default_store()
    _start_mpi(timeout, store, rank, size)


def _create_registered(backend_name: str, options: Any, _pg_options: Any = None) -> Any:
    """Creator of a registered backend (extended API)."""
    size = options.group_size
    ranks = [int(rank) for rank in options.global_ranks_in_group]
    rank = options.group_rank
    timeout = options.timeout
    if timeout < timedelta(0):  # torch counts microseconds in 64 bits, which overflow
        timeout = timedelta.max
    return _create(backend_name, options.group_id, rank, size, ranks, timeout, options.store)


def _create(
    backend_name: str,
    group_name: str,
    rank: int,
    size: int,
    ranks: list[int],
    timeout: timedelta | None,
    store: Any,
) -> Any:
    _start_mpi_for(rank, size, ranks, timeout, store)
    return glue().create(backend_name, group_name, rank, size, ranks, _seconds(timeout))


def _seconds(timeout: timedelta | None) -> float:
    return timeout.total_seconds() if timeout is not None else 1800.0


def _python_ends() -> None:
    _state["glue"].python_ends(_exit.failed())
