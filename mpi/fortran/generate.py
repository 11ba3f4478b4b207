#!/usr/bin/env python3
"""Writes the Fortran side of MPI from the tables of the ABI (mpi/abi/tables).

  generate.py FOLDER            C++ sources into FOLDER, mpif.h and module sources into FOLDER/include
  generate.py --names           the external names that the library must have, one a line
Files that stay the same are not touched.
"""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from writer import glue, modules, routines  # noqa: E402


def put(path, text):
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    found = routines.routines()
    if options.names:
        print("\n".join(modules.external_names(found)))
        return
    if not options.folder:
        parser.error("a folder is needed")
    for name, text in glue.sources(found).items():
        put(options.folder / name, text)
    for name, text in glue.sources(found, wide=True).items():
        put(options.folder / "integer8" / name, text)
    for name, text in modules.sources(found).items():
        put(options.folder / "include" / name, text)


if __name__ == "__main__":
    main()
