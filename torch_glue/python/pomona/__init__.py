"""Pomona for Python: backends "mpi" and "pomona" of torch.distributed.

    import torch.distributed as dist
    import pomona                       # not needed where the package is installed: torch loads it
    dist.init_process_group("mpi")      # under: mpirun -n 4 python script.py

Importing this registers the backends; MPI starts with the first process group.
"""

import os
import sys

__version__ = "0.1.0"


def _autoload():
    """Called by `import torch` (entry point torch.backends). Must never break it."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - torch must be importable whatever happens here
        if os.environ.get("POMONA_LOG"):
            print(f"pomona: backends not registered: {error!r}", file=sys.stderr)


def _register():
    from . import _backends

    _backends.register()


def get_include():
    """Folder of mpi.h and mpix.h."""
    return os.path.join(os.path.dirname(__file__), "include")


def info():
    """What MPI runs underneath: library, rank, size, whether it exports mpix.h's functions."""
    from . import _backends

    return _backends.glue().world_info()


try:
    import torch  # noqa: F401
except ImportError:
    pass  # the tools and the MPI library are usable without torch
else:
    _register()
