"""Puts mpirun, mpicc and the other programs of the package on the PATH.

A package of its own, so that starting mpirun does not import pomona, which imports torch.
"""

import importlib.util
import os
import sys


def folder():
    """The installed package's folder: bin, lib and include are below it."""
    return importlib.util.find_spec("pomona").submodule_search_locations[0]


def _run(name):
    program = os.path.join(folder(), "bin", name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot run {program}: {error.strerror}. Install the package again: pip install .")


def mpirun():
    _run("mpirun")


def mpiexec():
    _run("mpirun")


def mpicc():
    _run("mpicc")


def mpicxx():
    _run("mpicxx")


def pomona():
    _run("pomona")
