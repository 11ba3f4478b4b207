#!/usr/bin/env python3
"""Checks the order of dependency: a folder includes only what stands above it
(docs/architecture.md).

Usage: includes.py ROOT. Prints each offending include and exits 1.
"""
import pathlib
import re
import sys

# What both rooms of pmix share.
PMIX_SHARED = ["pmix/control.h", "pmix/job_directory.h", "pmix/job_key.h", "pmix/link_history.h",
               "pmix/link_learning.h", "pmix/program.h", "pmix/services.h"]

# What each folder may include, by prefix. The longest prefix of a file's path decides its row.
ALLOWED = {
    "btl/base": ["btl/base"],
    "btl": ["btl"],
    "btl/sim": ["btl", "coll", "accel"],
    "accel": ["btl/base", "accel"],
    "pmix": ["btl/base", *PMIX_SHARED],
    # Who is started by hand dials, and proves itself, as links do.
    "pmix/wireup": ["btl/base", "btl/link/handshake.h", "btl/tcp/handshake_by_socket.h", "btl/tcp/interfaces.h",
                    "btl/tcp/socket.h", *PMIX_SHARED, "pmix/wireup"],
    # Which interfaces lead to other hosts; connections of agents, proved and encrypted as those of
    # ranks. The code with which a rank ends that has met a failed one.
    "pmix/launch": ["btl/base", "btl/link/handshake.h", "btl/tcp/handshake_by_socket.h", "btl/tcp/interfaces.h",
                    "btl/tcp/ip.h", "btl/tcp/socket.h", "mpi/include/mpix.h", "pmix"],
    "coll": ["btl/base", "accel", "coll"],
    "mpi/object": ["btl/base", "accel", "coll", "mpi/object", "mpi/include/mpi.h", "mpi/include/mpix.h",
                   "mpi/p2p", "mpi/check", "mpi/runtime"],
    "mpi/p2p": ["btl", "accel", "coll", "mpi/object", "mpi/p2p", "mpi/include/mpi.h", "mpi/include/mpix.h"],
    "mpi/check": ["btl", "coll", "accel", "mpi/object", "mpi/p2p", "mpi/check", "mpi/runtime",
                  "mpi/include/mpi.h", "mpi/include/mpix.h"],
    "mpi/topo": ["btl/base", "mpi/object", "mpi/topo", "mpi/include/mpi.h", "mpi/runtime"],
    "mpi/rma": ["btl", "accel", "mpi/object", "mpi/p2p", "mpi/check", "mpi/rma", "mpi/runtime",
                "mpi/include/mpi.h"],
    "mpi/io": ["btl", "mpi/object", "mpi/p2p", "mpi/rma", "mpi/io", "mpi/runtime", "mpi/include/mpi.h"],
    "mpi/runtime": ["btl", "accel", "coll", "pmix", "mpi"],
    "mpi/abi": ["btl", "accel", "coll", "pmix", "mpi"],
    "mpi/tools": ["btl", "accel", "coll", "pmix", "mpi"],
    # Above the standard ABI, like any program.
    "mpi/fortran": ["mpi/fortran", "mpi/include/mpi.h"],
    # What it says stands in the table of messages, which is constants alone.
    "mpi/trace": ["btl/base/messages.h", "mpi/trace", "mpi/include/mpi.h"],
    "torch_glue": ["btl/base/messages.def", "torch_glue", "mpi/include/mpi.h", "mpi/include/mpix.h"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def row_of(path):
    prefixes = [p for p in ALLOWED if path.startswith(p + "/")]
    return max(prefixes, key=len) if prefixes else None


def main(root):
    wrong = checked = 0
    for folder in sorted({p.split("/")[0] for p in ALLOWED}):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in {".h", ".cc", ".mm", ".def"}:
                continue
            path = file.relative_to(root).as_posix()
            row = row_of(path)
            checked += 1
            for number, line in enumerate(file.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if not found or not row:
                    continue
                name = found.group(1)
                if "/" not in name or not (root / name).exists():
                    continue  # of another library, or generated
                if not any(name == p or name.startswith(p + "/") for p in ALLOWED[row]):
                    print(f"{path}:{number}: {row} must not include {name}")
                    wrong += 1
    print(f"{checked} files checked, {wrong} wrong includes")
    return 1 if wrong or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
