"""Pomona for Python: backends "mpi" and "pomona" of torch.distributed.

    import torch.distributed as dist
    import pomona                       # not needed where the package is installed: torch loads it
    dist.init_process_group("mpi")      # under: mpirun -n 4 python script.py

Importing this registers the backends; MPI starts with the first process group.
"""

from __future__ import annotations

import os
import warnings
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._settings import Setting, init, resolved
    from .config import Config
    from .recovery import failed_ranks
    from .sight import Report, dump_record, metrics, report, timeline

__all__ = [
    "Config",
    "Report",
    "Setting",
    "dump_record",
    "failed_ranks",
    "get_include",
    "info",
    "init",
    "metrics",
    "report",
    "resolved",
    "set_host_visible",
    "timeline",
]

# `import torch` loads this package: what it offers is loaded when it is first asked for.
_MODULES = {
    "Config": "config",
    "Setting": "_settings",
    "init": "_settings",
    "resolved": "_settings",
    "failed_ranks": "recovery",
    "Report": "sight",
    "dump_record": "sight",
    "metrics": "sight",
    "report": "sight",
    "timeline": "sight",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        return metadata.version("pomona")
    if name in _MODULES:
        return getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    raise AttributeError(f"module 'pomona' has no attribute {name!r}")


def _autoload() -> None:
    """Called by `import torch` (entry point torch.backends), which has imported this module
    before."""


def _register() -> None:
    """Never raises: torch imports this module, and must be importable whatever happens here."""
    try:
        from . import _backends

        _backends.register()
    except Exception as error:  # noqa: BLE001
        warnings.warn(
            f"pomona's backends are not available: torch {torch.__version__} is not as expected "
            f"({error!r}). torch itself is not affected",
            stacklevel=2,
        )


def get_include() -> str:
    """Folder of mpi.h and mpix.h."""
    return os.path.join(os.path.dirname(__file__), "include")


def set_host_visible(device: str) -> None:
    """Declares that the CPU sees the memory of this kind of device, at the tensors' own addresses.

    For devices of torch's PrivateUse1 that have such memory; to be called by all ranks that have
    the device, before the first process group. Collectives then use tensors where they lie, without
    copies. Raises RuntimeError for a name that torch does not know.
    """
    from . import _backends

    _backends.glue().set_host_visible(device)


def info() -> dict[str, Any]:
    """What MPI runs underneath: "library" (its name), "rank", "size", and "mpix": whether it
    exports mpix.h's functions. Raises RuntimeError before the first process group, with which MPI
    starts.
    """
    from . import _backends

    if not _backends.mpi_running():
        raise RuntimeError("pomona.info: MPI does not run: call init_process_group first")
    world: dict[str, Any] = _backends.glue().world_info()
    return world


try:
    import torch
except ImportError:
    pass  # the tools and the MPI library are usable without torch
else:
    _register()
