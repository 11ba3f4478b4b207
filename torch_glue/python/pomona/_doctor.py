"""What `pomona doctor` says of this Python: does the extension load, and what does torch see?

    python -m pomona._doctor        # exit code 1 where backend "mpi" would not start
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any


def main() -> int:
    try:
        import torch
    except ImportError as error:
        print(f"torch         none in {sys.executable} ({error}): pip install torch")
        return 1
    print(f"torch         {torch.__version__}, in {os.path.dirname(torch.__file__)}")
    from . import _backends, _load

    try:
        extension = _backends.glue()
    except Exception as error:  # noqa: BLE001
        print(f"extension     does not load: {error}")
        return 1
    print(f"extension     {sys.modules['pomona._glue'].__file__}")
    print(f"MPI           {_version(_load._mpi_library())}, {_load._mpi_library()}")
    print(f"backends      {_backend_words()}")
    for line in _devices(torch):
        print(f"device        {line}")
    other = extension.other_library()
    if other:
        print(f"another MPI   {other} is loaded, too; what uses it is a world of its own")
    return 0


def _version(library: str) -> str:
    text, length = ctypes.create_string_buffer(1 << 14), ctypes.c_int()
    ctypes.CDLL(library).MPI_Get_library_version(text, ctypes.byref(length))
    return text.value.decode().partition("\n")[0]


def _backend_words() -> str:
    from . import _backends

    dist = _backends._torch_distributed()
    names = [name for name in ("mpi", "pomona") if name in dist.Backend.backend_list]
    autoload = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    loaded = "import torch loads them" if autoload != "0" else "import pomona first (TORCH_DEVICE_BACKEND_AUTOLOAD=0)"
    mine = "Pomona's" if dist.distributed_c10d.ProcessGroupMPI.__module__.startswith("pomona") else "torch's own"
    return f"{', '.join(names)}; \"mpi\" is {mine}; {loaded}"


def _devices(torch: Any) -> list[str]:
    lines = [f"cpu, {torch.get_num_threads()} threads"]
    for number in range(torch.cuda.device_count()):
        lines.append(f"cuda:{number}, {torch.cuda.get_device_name(number)}")
    if torch.backends.mps.is_available():
        lines.append("mps")
    private = torch._C._get_privateuse1_backend_name()
    if private != "privateuseone":
        lines.append(private)
    return lines


if __name__ == "__main__":
    sys.exit(main())
