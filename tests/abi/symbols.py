#!/usr/bin/env python3
"""Checks what a built library exports: symbols.py LIBRARY.

Goal: every MPI_ name is weak and every PMPI_ name strong (profiling tools rely on it), the MPIX_
names are there, and nothing else is. Method: the output of nm against the tables.
"""
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "mpi/abi"))

from generator import exports, tables  # noqa: E402


def elf(library):
    """name -> "weak" or "strong"."""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    found = {}
    for line in lines:
        _, kind, name = line.split()
        found[name.split("@")[0]] = "weak" if kind in "WwVv" else "strong"
    return found


def mach_o(library):
    nm = os.environ.get("NM", "nm")  # another system's files need another nm
    lines = subprocess.run([nm, "-gUm", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return {line.split()[-1].removeprefix("_"): "weak" if " weak " in line else "strong"
            for line in lines if " external " in line}


def main():
    library = sys.argv[1]
    with open(library, "rb") as file:
        is_elf = file.read(4) == b"\x7fELF"
    found = elf(library) if is_elf else mach_o(library)
    wanted = {f.name: "weak" for f in tables.functions()}
    wanted.update({"P" + f.name: "strong" for f in tables.functions()})
    wanted.update({name: "strong" for name in exports.extensions()})
    wrong = [f"{name} is not exported" for name in sorted(wanted.keys() - found.keys())]
    wrong += [f"{name} is exported and should not be" for name in sorted(found.keys() - wanted.keys())]
    wrong += [f"{name} is {found[name]}, not {kind}" for name, kind in sorted(wanted.items())
              if name in found and found[name] != kind]
    print("\n".join(wrong) if wrong else f"{len(found)} symbols, as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
