#!/usr/bin/env python3
"""instructions.py: a guard on the length of the short paths, in instructions, not in time.

Goal: sends, receives, a window of receives, small collectives and accesses to windows must not grow
unnoticed; times are too noisy for that. Method: rank 1 of bench_paths runs under valgrind's
callgrind, which counts only inside the function in question; the count of 50 calls is subtracted
from that of 250, so that first calls (connections, schedules) do not show. What rank 0's delays
add is not the path's: where a count is too high the least of several counts. Compared with the
counts of a revision that are kept in instructions.json, with its compiler: what came since then
(links, failures, watching) may cost 1 % at most. Another compiler's counts differ by more than that
for the same source: then 10 %. --update writes them anew, as those of the revision that is named.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT = Path(__file__).resolve().parent / "instructions.json"
PATHS = {"send": ["MPI_Send"], "isend": ["MPI_Isend", "MPI_Wait"], "recv": ["MPI_Recv"],
         "window": ["MPI_Irecv", "MPI_Waitall"],  # 16 receives
         "bcast": ["MPI_Bcast"], "reduce": ["MPI_Reduce"],
         "allreduce": ["MPI_Iallreduce", "MPI_Wait"], "allgather": ["MPI_Iallgather", "MPI_Wait"],
         "barrier": ["MPI_Ibarrier", "MPI_Wait"],
         "put": ["MPI_Put", "MPI_Win_flush"], "accumulate": ["MPI_Accumulate", "MPI_Win_flush"]}
FEW, MANY = 50, 250
TRIES = 4
ALLOWED = 1.01
ALLOWED_OTHER_COMPILER = 1.10
SKIPPED = 77


def collected(mpirun, program, path, times, folder):
    # One function has two names; which of them callgrind goes by depends on the system.
    counted = [f"--toggle-collect={prefix}{name}" for name in PATHS[path] for prefix in ("", "P")]
    callgrind = ["valgrind", "--tool=callgrind", "-q", *counted,
                 f"--callgrind-out-file={folder}/out.{path}.{times}"]
    rank = [str(program), path, str(times), folder]
    # What pomona tune has found on this machine may choose other ways.
    command = [str(mpirun), "--set", "links=built-in", "--set", "choices=none",
               "-n", "1", *rank, ":", "-n", "1", *callgrind, *rank]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"instructions: {' '.join(command)}\n{done.stdout}{done.stderr}")
    text = Path(f"{folder}/out.{path}.{times}").read_text()
    return int(re.search(r"^(?:summary|totals):\s*(\d+)", text, re.M).group(1))


def measure(count, limit):
    """Instructions of a call; `count(times)` counts those of so many calls."""
    few, many = [], []
    for _ in range(TRIES):
        few.append(count(FEW))
        many.append(count(MANY))
        found = round((min(many) - min(few)) / (MANY - FEW), 1)
        if not limit or found <= limit:
            break
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True, help="bench_paths")
    parser.add_argument("--compiler", default="", help="that built it, as 'GNU 12.2.0'")
    parser.add_argument("--update", metavar="REVISION", help="keep the counts now, as of this revision")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("instructions: valgrind is not installed, nothing was counted")
        return SKIPPED
    kept = json.loads(KEPT.read_text())
    allowed = ALLOWED if args.compiler == kept["compiler"] else ALLOWED_OTHER_COMPILER
    print(f"instructions: at most {allowed:g} times those of {kept['revision']}, "
          f"{kept['compiler']}; built by {args.compiler or 'an unknown compiler'}")
    grown, measured = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for rank in (0, 1):
            os.mkfifo(f"{folder}/rank{rank}")
        for path, functions in PATHS.items():
            function = " + ".join(functions)
            before = kept["counts"].get(function)
            limit = None if args.update or not before else before * allowed
            measured[function] = measure(
                lambda times, path=path: collected(args.mpirun, args.program, path, times, folder), limit)
            print(f"{function:<28}{measured[function]:>10} instructions a call, kept: {before}")
            if measured[function] <= 0:
                grown.append(f"{function}: nothing was counted")
            elif limit and measured[function] > limit:
                grown.append(f"{function}: {before} -> {measured[function]}")
    if args.update:
        kept = {"revision": args.update, "compiler": args.compiler, "counts": measured}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        return 0
    if grown:
        print("instructions: these paths became longer (see --update):\n  " + "\n  ".join(grown))
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
