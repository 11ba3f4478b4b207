#!/usr/bin/env python3
"""rdma_mesh.py: allreduce among processes joined by fake cables, against what the cables allow.

Usage: rdma_mesh.py BUILD [-m MACHINES ...] [-a ALGORITHM ...] [--rate MB_PER_SECOND] [-t SECONDS]
[--json FILE]. One rank a machine, each two of which have a cable of the fake verbs library
(tests/verbs) with 4.2 us of latency and a rate each way. Its devices have engines: threads that
move bytes, so that a rank's own processor does what it would with hardware. These need processors
too, one for each device, and copy a byte twice, which takes the machine's memory: what is found is
the least that processors allow. TCP, of this machine here, may carry a part of messages from 1 MiB
on, as Ethernet does beside cables. The bound is that of the cables, 2/p of the vector each way by
each (all of it between two). By the quickest and the median of all calls, with checksums and
without.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from figures import keep

RDMA = Path(__file__).resolve().parent.parent / "programs" / "rdma.sh"
SIZES = "1M:64M"


def measured(build, machines, rate, seconds, crc, algorithm):
    """mpi-bench's rows, and the machine."""
    faults = f"hold * * on\nengine * * on\nlatency * * 4200\nrate * * {rate}"
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        script = (f"$build/bin/mpirun --oversubscribe -n {machines} --bind-to none "
                  f"--set transports=self,rdma,tcp --set rdma_crc={crc} --set allreduce={algorithm} "
                  f"$through $build/bin/mpi-bench allreduce -q -s {SIZES} --step 4 -t {seconds} "
                  f"--json {file.name}")
        done = subprocess.run([str(RDMA), str(build), str(machines), "1", "sh", "-c", script],
                              capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, RDMA_FAULTS=faults, RDMA_LEAST="0"))
        if done.returncode != 0:
            sys.exit(f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        found = json.loads(Path(file.name).read_text())
    return found["rows"], found["machine"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("-m", "--machines", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("-a", "--algorithms", nargs="+", help="of MPI_Allreduce")
    parser.add_argument("--rate", type=int, default=4000, help="of a cable, each way, MB/s")
    parser.add_argument("-t", "--seconds", type=float, default=0.3, help="for each size")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows, machine = [], {}
    print(f"{'machines':>8} {'':>20} {'checksums':>9} {'bytes':>10} {'us':>10} {'cables':>9} share median")
    for machines in options.machines:
        for crc in ("auto", "none"):
            for algorithm in options.algorithms or ["ring"] + ["direct"] * (machines > 2):
                found, machine = measured(options.build, machines, options.rate, options.seconds,
                                          crc, algorithm)
                for each in found:
                    cables = each["bytes"] * (1 if machines == 2 else 2 / machines) / options.rate
                    row = {"machines": machines, "algorithm": algorithm, "checksums": crc,
                           "bytes": each["bytes"], "least_us": each["min_us"],
                           "median_us": each["p50_us"], "cables_us": round(cables, 1),
                           "share": round(cables / each["min_us"], 3),
                           "share_of_median": round(cables / each["p50_us"], 3)}
                    rows.append(row)
                    print(f"{machines:>8} {algorithm:>20} {crc:>9} {row['bytes']:>10} "
                          f"{row['least_us']:>10.1f} {cables:>9.1f} {row['share']:>5.2f} "
                          f"{row['share_of_median']:>6.2f}", flush=True)
    command = " ".join(["rdma_mesh.py", "BUILD", *sys.argv[2:]])
    keep({"schema": 1, "tool": "rdma_mesh.py", "command": command,
          "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "machine": machine,
          "rate_mbs": options.rate, "latency_ns": 4200, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
