#!/usr/bin/env python3
"""Checks that sources look as clang-format 14 with .clang-format makes them; --fix makes them so.

Usage: format.py ROOT [--fix] [FILE...]. Other versions of clang-format differ in details, so the
check is skipped (exit code 77) without version 14: Debian's clang-format-14 or PyPI's
clang-format==14.0.6; POMONA_TEST_CLANG_FORMAT names another place. Files in format_later.txt are
not covered yet.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS = ["btl", "accel", "coll", "pmix", "mpi", "torch_glue", "tests"]
# Made by a generator, or in the form of somebody else's headers.
EXEMPT = re.compile(r"^(mpi/include/mpi\.h$|tests/metal/metal_stdlib|tests/cross/)")


def find_tool():
    for name in [os.environ.get("POMONA_TEST_CLANG_FORMAT"), "clang-format-14", "clang-format",
                 str(pathlib.Path(sys.executable).with_name("clang-format"))]:
        path = name and shutil.which(name)
        if path and " 14." in subprocess.run([path, "--version"], capture_output=True,
                                             text=True).stdout:
            return path
    return None


def covered(root):
    later = (root / "tests/tidy/format_later.txt").read_text().split()
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix not in {".cc", ".h", ".mm"} or EXEMPT.match(path):
                continue
            if not any(path == each or (each.endswith("/") and path.startswith(each))
                       for each in later):
                yield path


def main(root, *arguments):
    tool = find_tool()
    if not tool:
        print("clang-format 14 is not installed")
        return 77
    files = [a for a in arguments if a != "--fix"] or list(covered(root))
    mode = ["-i"] if "--fix" in arguments else ["--dry-run", "-Werror"]
    done = subprocess.run([tool, "--style=file", *mode, *files], cwd=root, capture_output=True, text=True)
    faults = sorted(set(re.findall(r"^(\S+?:\d+):\d+: error", done.stderr, re.M)))
    for fault in faults:
        print(f"{fault}: not as clang-format makes it")
    if done.returncode and not faults:
        print(done.stderr[:2000])
    print(f"{len(files)} files, {len(faults)} faults"
          + (f"; mend with: {sys.argv[0]} {root} --fix" if faults else ""))
    return 1 if done.returncode or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]))
