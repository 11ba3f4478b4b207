"""What a compiler must know to build the glue against this Python's torch.

Found without importing torch (seconds) and without a build requirement on it (gigabytes): inside
pip's isolated builds torch cannot be imported, but its folder in the environment can be read.
    python _build_flags.py [--cmake] [FOLDER]       FOLDER: a torch package, unpacked, to build for
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
from typing import Any


def torch_folder() -> str | None:
    """The folder of the torch package of this environment, or None."""
    try:
        spec = importlib.util.find_spec("torch")
        if spec and spec.submodule_search_locations:
            return spec.submodule_search_locations[0]
    except (ImportError, ValueError):
        pass
    for key in ("purelib", "platlib"):
        folder = os.path.join(sysconfig.get_path(key), "torch")
        if os.path.exists(os.path.join(folder, "version.py")):
            return folder
    return None


def torch_version(folder: str) -> str:
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        found = re.search(r"__version__ = '([^']+)'", file.read())
    if found is None:
        raise SystemExit(f"{folder}/version.py does not tell torch's version")
    return found.group(1)


def minor_of(version: str) -> tuple[int, int]:
    """(2, 13) of "2.13.0+cpu"."""
    major, minor = version.split("+")[0].split(".")[:2]
    return int(major), int(minor)


def flags(folder: str | None = None) -> dict[str, Any]:
    folder = folder or torch_folder()
    if folder is None:
        raise SystemExit("torch is not installed there. Install it first: pip install torch")
    include = os.path.join(folder, "include")
    version = torch_version(folder)
    return {
        "TORCH_INCLUDES": [include, os.path.join(include, "torch", "csrc", "api", "include")],
        "TORCH_LIB_DIR": os.path.join(folder, "lib"),
        "TORCH_VERSION": version,
        "TORCH_MINOR": "{}.{}".format(*minor_of(version)),
        "PYTHON_INCLUDE": sysconfig.get_path("include"),
        "EXT_SUFFIX": sysconfig.get_config_var("EXT_SUFFIX"),
    }


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    for name, value in flags(*folders).items():
        text = ";".join(value) if isinstance(value, list) else value
        print(f'set({name} "{text}")' if "--cmake" in sys.argv else f"{name}={text}")
