"""Pomona for Python: backends "mpi" and "pomona" of torch.distributed.

    import torch.distributed as dist
    import pomona                       # not needed where the package is installed: torch loads it
    dist.init_process_group("mpi")      # under: mpirun -n 4 python script.py

Importing this registers the backends; MPI starts with the first process group.
"""

import os
import warnings

__version__ = "0.1.0"


def _autoload():
    """Called by `import torch` (entry point torch.backends), which has imported this module before."""


def _register():
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


def get_include():
    """Folder of mpi.h and mpix.h."""
    return os.path.join(os.path.dirname(__file__), "include")


def set_host_visible(device):
    """Declares that the CPU sees the memory of this kind of device, at the tensors' own addresses.

    For devices of torch's PrivateUse1 that have such memory; to be called by all ranks that have the device,
    before the first process group. Collectives then use tensors where they lie, without copies.
    """
    from . import _backends

    _backends.glue().set_host_visible(device)


def metrics(reset=False):
    """What this process has called so far: {"all_reduce": {"count": ..., ...}, ...}.

    bytes: of the results; seconds: from the calls to the ends; waited_seconds: of these, a thread of the
    program was in wait(); p50_us and p99_us: times of half and of 99 in 100 (upper ends of steps of a fifth);
    failed: operations that ended with an error, which are in none of the others.
    """
    from . import _backends

    glue = _backends.glue()
    result = {title.split(":")[-1]: values for title, values in glue.metrics().items()}
    if reset:
        glue.reset_metrics()
    return result


def dump_record(prefix):
    """Writes what this process has called lately to PREFIX + rank, for torch's analyser (torchfrtrace).

    Beside it RANK.json has the same for people. Returns the path.
    """
    from . import _backends, _record

    return _record.dump(_backends.glue(), prefix, _backends.glue().world_info()["rank"])


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
