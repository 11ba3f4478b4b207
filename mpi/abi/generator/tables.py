"""Reads mpi/abi/tables/*.csv: the MPI-5.0 standard ABI as facts (names, values, prototypes).

Source: MPI 5.0, chapter 20 and appendix A (ABI version 1.0). Every other file of the generator, and
the tests in tests/abi, take what they know of the ABI from here.
"""
import csv
import re
from dataclasses import dataclass
from pathlib import Path

TABLES = Path(__file__).resolve().parent.parent / "tables"


@dataclass
class Param:
    """One parameter: `const int recvcounts[]` is type "const int", name "recvcounts", array
    "[]"."""

    text: str
    type: str
    name: str
    array: str

    @property
    def base(self):
        """The element type without const and without pointer: int, MPI_Count, void ..."""
        return self.type.replace("const ", "").replace("*", "").strip()

    @property
    def pointers(self):
        return self.type.count("*")


@dataclass
class Function:
    name: str
    group: str
    result: str
    params: list
    since: str
    deprecated: str
    large: str  # name of the large-count form, or ""
    lengths: dict  # array parameter -> what its length is (see docs of wrappers.py)

    @property
    def short(self):
        """The name without MPI_."""
        return self.name[4:]

    @property
    def variadic(self):
        return any(p.name == "..." for p in self.params)

    @property
    def prototype(self):
        return ", ".join(p.text for p in self.params) or "void"

    @property
    def arguments(self):
        return [p.name for p in self.params if p.name != "..."]

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)


def parse_param(text):
    if text == "...":
        return Param(text, "", "...", "")
    match = re.fullmatch(r"(.*?)(\w+)((?:\[\d*\])*)", text)
    return Param(text, match[1].strip(), match[2], match[3])


def rows(name):
    with open(TABLES / name, newline="") as file:
        return list(csv.DictReader(file))


def functions():
    result = []
    for row in rows("functions.csv"):
        params = [parse_param(p) for p in row["params"].split("; ") if p]
        lengths = dict(item.split("=") for item in row["lengths"].split())
        result.append(Function(row["name"], row["group"], row["return"], params, row["since"],
                               row["deprecated"], row["large"], lengths))
    return result


def constants():
    return rows("constants.csv")


def types():
    return rows("types.csv")


def datatypes():
    return rows("datatypes.csv")


# Integer constants are macros (programs test them with #ifdef); these kinds are enumerators.
ENUM_KINDS = {"mpi_t_cb_safety": "MPI_T_cb_safety", "mpi_t_source_order": "MPI_T_source_order"}
