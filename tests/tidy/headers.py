#!/usr/bin/env python3
"""Checks the form of files: each says what it is in its first lines; lines of at
most 140 characters (rows of tables: 240); no tabs, no blanks at line ends; no words that promise
later work.

Usage: headers.py ROOT. Prints each fault and exits 1.
"""
import pathlib
import re
import sys

FOLDERS = ["btl", "accel", "coll", "pmix", "mpi", "torch_glue", "tests", "examples"]
SUFFIXES = {".h": "//", ".cc": "//", ".def": "//", ".c": "/*", ".py": None, ".sh": "#", ".metal": "//"}
PROMISES = re.compile(r"\b(TODO|FIXME|XXX)\b")
GENERATED = {"mpi/include/mpi.h"}


def faults(path, text):
    lines = text.splitlines()
    start = next((line for line in lines if line and not line.startswith("#!")), "")
    if path not in GENERATED and not re.match(r'\s*(//|/\*|#|"""|r""")', start):
        yield 1, "the file does not begin by saying what it is"
    for number, line in enumerate(lines, 1):
        # Rows of tables stay whole; code does not need more than 140.
        if len(line) > (240 if path.endswith(".def") else 140):
            yield number, f"{len(line)} characters"
        if line != line.rstrip():
            yield number, "blanks at the end"
        if "\t" in line:
            yield number, "a tab"
        if PROMISES.search(line) and not path.startswith("tests/tidy/"):
            yield number, "a promise of later work"


def main(root):
    wrong = checked = 0
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SUFFIXES or "corpus" in file.parts:
                continue
            checked += 1
            path = file.relative_to(root).as_posix()
            for number, what in faults(path, file.read_text()):
                print(f"{path}:{number}: {what}")
                wrong += 1
    print(f"{checked} files checked, {wrong} faults")
    return 1 if wrong or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
