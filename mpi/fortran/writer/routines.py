"""Reads what Fortran has of MPI: mpi/abi/tables/fortran.csv, joined with the C prototypes.

Each parameter of a Fortran routine knows the C parameter that it becomes (or None), so the kinds of
integers, the widths of large-count forms and what is an array follow from the C prototype; the kind
in fortran.csv tells the rest (logicals, strings, choice buffers, functions).
"""
import csv
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "abi"))

from generator import tables  # noqa: E402

HANDLES = {"MPI_Comm", "MPI_Group", "MPI_Datatype", "MPI_Op", "MPI_Request", "MPI_Errhandler",
           "MPI_Info", "MPI_Win", "MPI_File", "MPI_Message", "MPI_Session"}
# Functions of Fortran; everything else is a subroutine.
RESULTS = {"WALL_TIME": "double", "TICK_RESOLUTION": "double", "LOCATION_SMALL": "MPI_Aint",
           "DISPLACEMENT": "MPI_Aint"}
CALLED_BY_ADDRESS = re.compile(r"MPI_(\w+_FN|CONVERSION_FN_NULL)$")


@dataclass
class Param:
    name: str
    kind: str
    direction: str
    length: str  # "", the name of a parameter, "*" or an expression
    flags: set
    not_in: set
    function: str  # the callback's prototype
    c: object = None  # tables.Param

    @property
    def array(self):
        return self.length != ""

    @property
    def is_buffer(self):
        return self.kind == "BUFFER"

    @property
    def is_value(self):
        """A LOGICAL of any kind, by its address."""
        return self.kind == "LOGICAL_VOID"

    @property
    def is_string(self):
        return self.kind == "STRING" or self.kind in ("STRING_ARRAY", "STRING_2DARRAY")

    @property
    def is_function(self):
        return self.kind in ("FUNCTION", "POLYFUNCTION")

    @property
    def is_logical(self):
        return self.kind == "LOGICAL"

    @property
    def is_status(self):
        return self.kind in ("STATUS", "F90_STATUS", "F08_STATUS")

    @property
    def handle(self):
        """The C type of the handle, or None."""
        if self.c is not None and self.c.base in HANDLES:
            return self.c.base
        return None


@dataclass
class Routine:
    """One Fortran procedure: of the mpi module, or of mpi_f08 (there in both widths)."""

    name: str  # MPI_Send, MPI_Send_c
    params: list  # as Fortran has them, ierror included
    call: list  # as C has them
    result: str  # "" or a C type
    c: object  # tables.Function
    in_mpi: bool
    in_f08: bool
    large: bool
    lengths: dict
    calls: str = ""  # another C function than that of its name, without MPI_

    @property
    def short(self):
        return self.name[4:]

    @property
    def variants(self):
        """Ends of further names in the mpi module, of one procedure with arguments of other types:
        memory as a C pointer; scalars for the arrays that mean nothing with MPI_IN_PLACE. LLVM's
        flang takes no two procedures of one linker's name."""
        return ((["_cptr"] if any(p.kind == "C_BUFFER" for p in self.params) else []) +
                (["_in_place"] if re.search("lltoall[vw]", self.name) else []))

    @property
    def buffers(self):
        return [p for p in self.params if p.is_buffer]

    @property
    def ierror(self):
        return any(p.name == "ierror" for p in self.params)

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)


def parse(text, large):
    found = []
    for item in text.split("; "):
        if not item:
            continue
        name, kind, direction, *rest = item.split(":")
        flags = {r for r in rest if "=" not in r}
        named = dict(r.split("=", 1) for r in rest if "=" in r)
        if "large_only" in flags and not large:
            continue
        length = named.get("len", "")
        if length == "" and any(r == "len=" for r in rest):
            length = "*"
        if kind == "STRING":
            length = ""  # a scalar
        found.append(Param(name, kind, direction, length, flags,
                           set(named.get("not_in", "").split("+")), named.get("func", "")))
    return found


def join(name, text, function, result, row, large, lengths):
    everything = parse(text, large)
    in_c = [p for p in everything if "c_parameter" not in p.not_in and p.kind != "VARARGS"]
    c_params = [p for p in function.params if p.name != "..."] if function else []
    if function and len(in_c) != len(c_params):
        raise SystemExit(f"{name}: Fortran's parameters do not fit those of C")
    for p, c in zip(in_c, c_params):
        p.c = c
    fortran = [p for p in everything if "f90_parameter" not in p.not_in and p.kind != "VARARGS"]
    return Routine(name, fortran, in_c, result, function, row["in_mpi_module"] == "1",
                   row["in_mpi_f08"] == "1", large, lengths)


def rows():
    with open(tables.TABLES / "fortran.csv", newline="") as file:
        return [row for row in csv.DictReader(file)
                if (row["in_mpi_module"] == "1" or row["in_mpi_f08"] == "1")]


def routines():
    """All procedures that a program calls, large-count forms after the plain ones."""
    functions = {f.name: f for f in tables.functions()}
    plain, large = [], []
    for row in rows():
        name = row["function"]
        if row["callback"] == "1" or CALLED_BY_ADDRESS.match(name):
            continue
        function = functions.get(name)
        result = RESULTS.get(row["return_kind"], "")
        lengths = function.lengths if function else {}
        plain.append(join(name, row["parameters"], function, result, row, False, lengths))
        if function and function.large and row["in_mpi_f08"] == "1":
            large.append(join(function.large, row["parameters"], functions[function.large], result,
                              row, True, lengths))
    return plain + large


def callbacks():
    """name -> parameters, of the prototypes of user functions and the predefined ones."""
    return [(row["function"], parse(row["parameters"], False), row) for row in rows()
            if row["callback"] == "1" or CALLED_BY_ADDRESS.match(row["function"])]
