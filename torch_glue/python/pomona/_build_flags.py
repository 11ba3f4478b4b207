"""What a compiler must know to build the glue against this Python's torch.

Found without importing torch (seconds) and without a build requirement on it (gigabytes): inside
pip's isolated builds torch cannot be imported, but its folder in the environment can be read.
"""

import importlib.util
import os
import re
import sys
import sysconfig


def torch_folder():
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


def torch_version(folder):
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        return re.search(r"__version__ = '([^']+)'", file.read()).group(1)


def flags():
    folder = torch_folder()
    if folder is None:
        raise SystemExit("torch is not installed there. Install it first: pip install torch")
    include = os.path.join(folder, "include")
    return {
        "TORCH_INCLUDES": [include, os.path.join(include, "torch", "csrc", "api", "include")],
        "TORCH_LIB_DIR": os.path.join(folder, "lib"),
        "TORCH_VERSION": torch_version(folder),
        "PYTHON_INCLUDE": sysconfig.get_path("include"),
        "EXT_SUFFIX": sysconfig.get_config_var("EXT_SUFFIX"),
    }


if __name__ == "__main__":
    for name, value in flags().items():
        text = ";".join(value) if isinstance(value, list) else value
        print(f'set({name} "{text}")' if "--cmake" in sys.argv else f"{name}={text}")
