"""Loads the C++ extension for the torch that runs.

c10d's classes change with every minor version of torch, so an extension fits one minor version. The
package carries those that it was built with (_glue_torch2_13...), and the sources: with another
torch they are compiled once, at the first use, into the user's cache folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from types import ModuleType
from typing import Any

from . import _build_flags

FOLDER = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(FOLDER, "src")  # laid out as in the repository: torch_glue/, mpi/include/

NAME = "pomona._glue"

# The versions of torch that the sources are written for: c10d's classes of others are not known.
OLDEST, NEWEST = (2, 10), (2, 15)


def load() -> Any:
    import torch

    _check_version(torch.__version__)
    built = _built_for(torch.__version__)
    # It can be loaded once: a second use after a failure below finds it there.
    extension = sys.modules.get(NAME) or _load_file(
        built if os.path.exists(built) else _compiled(torch.__version__)
    )
    failure = extension.open_library(_mpi_library())
    if failure:
        raise RuntimeError(f"pomona: {failure}")
    return extension


def _check_version(version: str) -> None:
    if not OLDEST <= _build_flags.minor_of(version) <= NEWEST:
        oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
        raise RuntimeError(
            f"pomona {metadata.version('pomona')} works with torch {oldest} to {newest}, and this is torch "
            f"{version}. Install one of these (pip install 'torch>={oldest},<={newest}.99'), or a pomona for "
            "that torch"
        )


def _built_for(version: str) -> str:
    """The package's extension for this minor version of torch, if it has one."""
    major, minor = _build_flags.minor_of(version)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return os.path.join(FOLDER, f"_glue_torch{major}_{minor}{suffix}")


def _mpi_library() -> str:
    """The package's own library; that of the build tree where the package has none."""
    name = "libmpi_abi.1.dylib" if sys.platform == "darwin" else "libmpi_abi.so.1"
    path = os.path.join(FOLDER, "lib", name)
    return path if os.path.exists(path) else _built().get("mpi") or path


def program(name: str) -> str:
    """The path of mpirun, pomona and the like: in the package, or in the build tree."""
    return os.path.join(os.path.dirname(os.path.dirname(_mpi_library())), "bin", name)


def _built() -> dict[str, str]:
    """Of a build tree: {"mpi": the library's path}."""
    try:
        with open(os.path.join(FOLDER, "_glue_built.json"), encoding="utf-8") as file:
            content: dict[str, str] = json.load(file)
            return content
    except (OSError, ValueError):
        return {}


def _load_file(path: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension of Python")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[NAME] = module
    return module


def _source_files() -> tuple[str, list[str]]:
    folder = os.path.join(SOURCES, "torch_glue")
    if not os.path.isdir(folder):
        raise RuntimeError(
            "pomona's torch extension was not built for this version of torch, and its sources are not "
            "in the package. Build again with -DPOMONA_PYTHON=" + sys.executable
        )
    return folder, sorted(name for name in os.listdir(folder) if name.endswith(".cc"))


def _cache_folder(torch_version: str) -> str:
    digest = hashlib.sha256()
    folder, _ = _source_files()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(name.encode() + file.read())
    digest.update(platform.machine().encode())  # a home folder may be shared by unlike machines
    base = os.environ.get("POMONA_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pomona"
    )
    tag = f"glue-torch{torch_version}-{sys.implementation.cache_tag}-{digest.hexdigest()[:12]}"
    return os.path.join(base, tag)


def _compiled(torch_version: str) -> str:
    cache = _cache_folder(torch_version)
    target = os.path.join(cache, "_glue.so")
    if os.path.exists(target):
        return target
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first rank compiles, the others wait
        if not os.path.exists(target):
            print(
                f"pomona: compiling the torch extension for torch {torch_version}, once "
                f"(one to five minutes) into {cache}",
                file=sys.stderr,
            )
            start = time.time()
            _compile(cache, target)
            print(f"pomona: compiled in {time.time() - start:.0f} s", file=sys.stderr)
    return target


def _compiler() -> list[str]:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(shlex.split(name)[0]):
            return shlex.split(name)
    raise RuntimeError(
        "pomona: no C++ compiler found to build the torch extension. Install one (apt install g++, or "
        "xcode-select --install) or set CXX"
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pomona: {shlex.join(command)} failed:\n{done.stderr[-4000:]}")


def _compile(cache: str, target: str) -> None:
    flags = _build_flags.flags()
    compiler = _compiler()
    includes = [f"-I{SOURCES}"]
    for folder in [*flags["TORCH_INCLUDES"], flags["PYTHON_INCLUDE"]]:
        includes += ["-isystem", folder]
    options = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", *includes]
    folder, names = _source_files()

    def one(name: str) -> str:
        output = os.path.join(cache, name + ".o")
        _run([*compiler, *options, "-c", os.path.join(folder, name), "-o", output])
        return output

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        objects = list(pool.map(one, names))
    link = [f"-L{flags['TORCH_LIB_DIR']}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10"]
    if sys.platform != "darwin":
        link.append("-ldl")
    if sys.platform == "darwin":
        link += ["-undefined", "dynamic_lookup"]
    part = target + ".part"
    _run([*compiler, "-shared", *objects, *link, "-o", part])
    os.rename(part, target)
    for name in objects:
        os.unlink(name)
