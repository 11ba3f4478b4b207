"""Puts mpirun, mpicc and the other programs of the package on the PATH.

A package of its own, so that starting mpirun does not import pomona, which imports torch.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import NoReturn


def folder() -> str:
    """The installed package's folder: bin, lib and include are below it."""
    spec = importlib.util.find_spec("pomona")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("pomona_tools: the package pomona is not installed beside it. Install it again: pip install .")
    return spec.submodule_search_locations[0]


def _command(name: str) -> list[str]:
    return [os.path.join(folder(), "bin", name), *sys.argv[1:]]


def _run(name: str) -> NoReturn:
    command = _command(name)
    try:
        os.execv(command[0], command)
    except OSError as error:
        _cannot(name, error)


def _cannot(name: str, error: OSError) -> NoReturn:
    sys.exit(f"{name}: cannot run it: {error}. Install the package again: pip install .")


def mpirun() -> None:
    _run("mpirun")


def mpiexec() -> None:
    _run("mpirun")


def mpicc() -> None:
    _run("mpicc")


def mpicxx() -> None:
    _run("mpicxx")


def pomona() -> None:
    """Its doctor looks at this Python's torch, too."""
    if sys.argv[1:] != ["doctor"]:
        _run("pomona")
    try:
        machine = subprocess.run(_command("pomona"), check=False).returncode
    except OSError as error:
        _cannot("pomona", error)
    sys.exit(subprocess.run([sys.executable, "-m", "pomona._doctor"], check=False).returncode or machine)


def mpi_bench() -> None:
    _run("mpi-bench")
