#!/usr/bin/env python3
"""Writes everything that follows from the tables of the ABI (mpi/abi/tables).

  generate.py header            mpi/include/mpi.h, kept in git
  generate.py docs              docs/functions.md, kept in git
  generate.py build FOLDER      sources and export lists for the build, into FOLDER
With --check, header and docs compare instead of writing; exit code 1 when one is stale.
"""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from generator import docs, exports, header, sources, wrappers  # noqa: E402


def put(path, text, check=False):
    """Writes `text` if it differs, so that nothing is rebuilt for nothing; or reports it."""
    path = Path(path)
    if path.exists() and path.read_text() == text:
        return True
    if check:
        print(f"{path} is stale: run mpi/abi/generate.py and commit the result")
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def build(folder):
    put(folder / "large_count.cc", wrappers.generate(sources.plan()))
    put(folder / "weak_apple.cc", exports.weak_definitions())
    put(folder / "exports.map", exports.version_script())
    put(folder / "exports_apple.txt", exports.exported_symbols())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["header", "docs", "build"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.what == "header":
        return 0 if put(HERE.parent / "include/mpi.h", header.generate(), options.check) else 1
    if options.what == "docs":
        page = sources.ROOT / "docs/functions.md"
        return 0 if put(page, docs.generate(), options.check) else 1
    if not options.folder:
        parser.error("build needs a folder")
    build(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
