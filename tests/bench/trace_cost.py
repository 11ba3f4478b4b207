#!/usr/bin/env python3
"""What recording costs: trace_app.c with and without mpirun --trace, in turn.

Usage: trace_cost.py BUILD [-n RANKS] [-r REPETITIONS] [--json FILE]. Prints the quickest run and
the median of each, and their ratios, from after MPI_Init to before MPI_Finalize: by the clock, and
of rank 0's processor. On a busy machine -n 1 and the processor's time tell what recording costs.
"""
import argparse
import datetime
import os
import platform
import statistics
import subprocess
import tempfile
from pathlib import Path

from figures import keep

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("-r", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tools = options.build.resolve() / "bin"
    with tempfile.TemporaryDirectory(prefix="pomona-trace-") as folder:
        program, trace = f"{folder}/app", f"{folder}/trace.json"
        subprocess.run([tools / "mpicc", "-O2", HERE / "trace_app.c", "-o", program], check=True)
        found = {"plain": [], "traced": []}
        for _ in range(options.r):
            for name, words in (("plain", []), ("traced", ["--trace", trace])):
                done = subprocess.run([tools / "mpirun", "-n", str(options.n), *words, program], check=True,
                                      capture_output=True, text=True)
                found[name].append([float(word) for word in done.stdout.split()])
        bytes_written = os.path.getsize(trace)
    out = {"date": datetime.date.today().isoformat(), "machine": platform.machine(),
           "system": f"{platform.system()} {platform.release()}", "cores": os.cpu_count(),
           "command": f"tests/bench/trace_cost.py BUILD -n {options.n} -r {options.r}",
           "trace_bytes": bytes_written, "load": os.getloadavg()[0]}
    for place, what in enumerate(("jacobi_wall_s", "jacobi_cpu_s", "sendrecv_8B_wall_s", "sendrecv_8B_cpu_s")):
        row = {}
        for name, runs in found.items():
            values = [run[place] for run in runs]
            row[name] = {"quickest": min(values), "median": statistics.median(values)}
        row["ratio"] = {key: row["traced"][key] / row["plain"][key] for key in ("quickest", "median")}
        out[what] = row
        print(f"{what}: {row}")
    keep(out, options.json)


if __name__ == "__main__":
    main()
