"""Finds what is written by hand: every POMONA_MPI(type, Name, ...) in the sources of mpi/.

From that follow two kinds of functions: written (by hand) and widened (the int form of a written
large-count form, which is generated). Together they are all of the ABI, or nothing is generated.
"""
import re
from pathlib import Path

from . import tables

ROOT = Path(__file__).resolve().parent.parent.parent.parent
DEFINITION = re.compile(r"^(?:POMONA_MPI\(\s*[\w*]+\s*,\s*|NO_EVENTS\()(\w+)\s*,", re.MULTILINE)


def written():
    """name -> file, for all functions defined by hand."""
    found = {}
    for path in sorted((ROOT / "mpi").rglob("*.cc")):
        for match in DEFINITION.finditer(path.read_text()):
            name = "MPI_" + match[1]
            where = path.relative_to(ROOT).as_posix()
            if name in found:
                raise SystemExit(f"{name} is defined in {found[name]} and in {where}")
            found[name] = where
    known = {f.name for f in tables.functions()}
    for name in found:
        if name not in known:
            raise SystemExit(f"{found[name]} defines {name}, which is not a function of the ABI")
    return found


def plan():
    """name -> "written" or "widened", for every function of the ABI."""
    by_hand = written()
    result = {}
    for f in tables.functions():
        if f.name in by_hand:
            result[f.name] = "written"
        elif f.large in by_hand and widenable(f):
            result[f.name] = "widened"
        else:
            raise SystemExit(f"{f.name} is not defined: no POMONA_MPI in mpi/ names it")
    return result


def widenable(f):
    """False for the few whose large-count form differs in more than the width of integers."""
    return f.name not in ("MPI_Op_create", "MPI_Register_datarep", "MPI_Type_get_contents",
                          "MPI_Type_get_envelope")
