#!/usr/bin/env python3
"""Writes everything that follows from the tables of the ABI (mpi/abi/tables).

  generate.py header            -> mpi/abi/mpi.h               (kept in git)
  generate.py header --check       compares instead of writing; exit code 1 when it is stale
"""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from generator import header  # noqa: E402


def put(path, text, check=False):
    """Writes `text` if it differs, so that nothing is rebuilt for nothing; or reports the difference."""
    path = Path(path)
    if path.exists() and path.read_text() == text:
        return True
    if check:
        print(f"{path} is stale: run mpi/abi/generate.py and commit the result")
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["header"])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    return 0 if put(HERE / "mpi.h", header.generate(), options.check) else 1


if __name__ == "__main__":
    sys.exit(main())
