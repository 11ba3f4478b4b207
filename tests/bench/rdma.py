#!/usr/bin/env python3
"""Figures of paths by RDMA over the fake verbs library (tests/verbs), which copies by the processor.

Usage: rdma.py BUILD [-r ROUNDS] [--json FILE]. In interleaved rounds: what the library does by itself
(verbs_bench), what two ranks of Pomona do over it and by TCP (mpi-bench), and how long nothing arrives
when a cable is pulled (rdma_cut.c). Of all rounds the quickest one counts.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
SIZES = [65536, 262144, 1048576, 4194304, 16777216]


def under(build, script, faults="drop * * 0"):
    done = subprocess.run([str(PROGRAMS / "rdma.sh"), str(build), "2", "1", "sh", "-c", script],
                          capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, RDMA_FAULTS=faults))
    if done.returncode != 0:
        sys.exit(f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def raw(build, found):
    text = under(build, "$build/tests/verbs_bench 0.rdma_en1 1.rdma_en0 1", "hold * * on")
    for case, size, value in re.findall(r"^(latency|bandwidth) (\d+) ([\d.]+)$", text, re.M):
        found.setdefault((case, int(size)), []).append(float(value))


def ours(build, transports, found):
    """Half round trips in us, and GB/s of windows of messages; the machine."""
    with tempfile.TemporaryDirectory() as folder:
        for case, sizes in (("latency", "8:8"), ("bandwidth", f"{SIZES[0]}:{SIZES[-1]}")):
            file = f"{folder}/{case}.json"
            under(build, f"$build/bin/mpirun --oversubscribe -n 2 --set transports={transports} $through "
                         f"$build/bin/mpi-bench {case} -q -s {sizes} --step 4 -t 0.1 --json {file}")
            kept = json.loads(Path(file).read_text())
            for row in kept["rows"]:
                value = row["min_us"]
                if case == "bandwidth":
                    value = row["bytes"] * row["extra"]["window"] / row["min_us"] / 1e3
                found.setdefault((case, row["bytes"]), []).append(value)
    return kept["machine"]


def gaps(build, folder):
    program = f"{folder}/rdma_cut"
    subprocess.run([f"{build}/bin/mpicc", "-O2", str(HERE / "rdma_cut.c"), "-o", program, "-ldl"], check=True)
    text = under(build, f"$build/bin/mpirun --oversubscribe -n 2 $through {program}")
    return [float(value) for value in re.findall(r"gap_ms ([\d.]+)", text)]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=Path)
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    build = options.build.resolve()
    library, rdma, tcp, cuts = {}, {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            raw(build, library)
            machine = ours(build, "self,rdma,tcp", rdma)
            ours(build, "self,tcp", tcp)
            cuts += gaps(build, folder)
    raw_best = max(max(values) for (case, _), values in library.items() if case == "bandwidth")
    raw_latency = min(library["latency", 8])
    cuts.sort()
    out = {
        "schema": 1, "tool": "rdma.py", "command": "rdma.py " + " ".join(sys.argv[2:]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "machine": machine,
        "rounds": options.rounds, "of_all_rounds": "the quickest",
        "half_round_trip_8_B": {"library_us": raw_latency, "rdma_us": min(rdma["latency", 8]),
                                "tcp_us": min(tcp["latency", 8]),
                                "ratio": min(rdma["latency", 8]) / raw_latency},
        "library_gbs": {str(size): max(values) for (case, size), values in library.items()
                        if case == "bandwidth"},
        "bandwidth": [{"bytes": size, "rdma_gbs": max(rdma["bandwidth", size]),
                       "tcp_gbs": max(tcp["bandwidth", size]),
                       "share_of_library": max(rdma["bandwidth", size]) / raw_best} for size in SIZES],
        "cable_pulled_ms": {"cuts": len(cuts), "p50": cuts[len(cuts) // 2], "least": cuts[0],
                            "most": cuts[-1]},
    }
    text = json.dumps(out, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
