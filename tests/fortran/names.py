#!/usr/bin/env python3
"""Every function of MPI 5.0 that Fortran has, against the library and the modules.

Usage: names.py BUILD LIBRARY. What should exist comes from fortran.csv alone, not from the
generator that made library and modules: names of the mpi module, of mpi_f08, and the PMPI_ twin of
each.
"""
import csv
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Called through their address only; they have no PMPI_ twin.
BY_ADDRESS = re.compile(r"MPI_(\w+_FN|CONVERSION_FN_NULL)$")


def exported(library):
    flags = ["-gU"] if sys.platform == "darwin" else ["-D", "--defined-only"]
    out = subprocess.run(["nm", *flags, library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in out.splitlines() if line.strip()}
    return {n.removeprefix("_") if sys.platform == "darwin" else n for n in names}


def generic_names(path):
    """What a program may call: names of generic interfaces, of procedures, of declared
    externals."""
    text = path.read_text().lower().replace("&\n", " ")
    return set(re.findall(r"^\s*(?:interface|(?:pure )?subroutine|function|external ::) (\w+)", text,
                          re.MULTILINE))


def main(build, library):
    symbols = exported(library)
    modules = Path(build) / "include/mpi_modules"
    in_mpi, in_f08 = generic_names(modules / "mpi.f90"), generic_names(modules / "mpi_f08.f90")
    wrong, checked = [], 0
    with open(ROOT / "mpi/abi/tables/fortran.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = row["function"]
        prototype = row["callback"] == "1"
        for prefix in ("",) if prototype or BY_ADDRESS.match(name) else ("", "P"):
            full = (prefix + name).lower()
            if row["in_mpi_module"] == "1" and not prototype:
                checked += 2
                symbol = "mpi_sizeof_desc_" if name == "MPI_Sizeof" else full + "_"
                if symbol not in symbols:
                    wrong.append(f"{symbol} is not in the library")
                if full not in in_mpi:
                    wrong.append(f"{prefix}{name} is not in the module mpi")
            if row["in_mpi_f08"] == "1":
                checked += 1
                if full not in in_f08:
                    wrong.append(f"{prefix}{name} is not in the module mpi_f08")
    # What the modules refer to is in the library.
    for module in ("mpi_types", "mpi", "mpi_f08"):
        text = (modules / f"{module}.f90").read_text().replace("&\n", " ")
        text = re.sub(r"abstract interface.*?end interface", "", text, flags=re.DOTALL)
        procedures = re.findall(r"^\s*(?:pure )?(?:subroutine|function) +(\w+)\s*\([^)]*\)"
                                r"(?:\s+bind\(C,\s*name=\"(\w+)\"\))?", text, re.MULTILINE)
        for name, label in procedures:
            checked += 1
            if (label or name.lower() + "_") not in symbols:
                wrong.append(f"{name} of {module} is not in the library")
        for name in re.findall(r'bind\(C, name="(\w+)"\) ::', text):
            checked += 1
            if name not in symbols:
                wrong.append(f"{name}, a variable of {module}, is not in the library")
    print("\n".join(wrong))
    print(f"{len(rows)} functions, {checked} names checked, {len(wrong)} missing")
    return 1 if wrong or checked < 3000 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
