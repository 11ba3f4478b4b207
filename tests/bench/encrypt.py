#!/usr/bin/env python3
"""tests/bench/encrypt.py: what encrypted connections cost (parameter `encrypt`).

Runs mpi-bench between two ranks over TCP of the loopback interface, with and without, in
interleaved repetitions, and keeps the medians of the repetitions' medians (--statistic min: the
least of them, for a machine that others use too). Run by hand on a quiet machine:

    tests/bench/encrypt.py --bin build/bin --json docs/bench/encrypt.json

Both ends work on this machine, so encrypting and decrypting share its cores with the kernel's
copies.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import keep

WAYS = {"plain": "no", "encrypted": "all"}


def measure(args, way, report):
    words = [f"{args.bin}/mpirun", "-n", "2", "--set", "transports=self,tcp", "--set",
             f"encrypt={WAYS[way]}", f"{args.bin}/mpi-bench", *args.cases, "-s", args.sizes, "-t",
             str(args.time), "--step", "4", "--json", str(report)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description="What encrypted connections cost.")
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--json", default="encrypt.json")
    parser.add_argument("-r", "--repeat", type=int, default=5)
    parser.add_argument("-t", "--time", type=float, default=0.1)
    parser.add_argument("-s", "--sizes", default="8:4M")
    parser.add_argument("--statistic", choices=["p50", "min"], default="p50")
    parser.add_argument("cases", nargs="*", default=["latency", "bandwidth"])
    args = parser.parse_args()
    load = [os.getloadavg()[0]]
    best = statistics.median if args.statistic == "p50" else None
    times, machine = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(args.repeat):
            for way in sorted(WAYS, reverse=repetition % 2 == 0):
                document = measure(args, way, Path(folder) / "report.json")
                machine = document["machine"]
                for row in document["rows"]:
                    key = (row["case"], row["bytes"])
                    times.setdefault(key, {}).setdefault(way, []).append(row)
    load.append(os.getloadavg()[0])
    rows = []
    for (case, size), ways in times.items():
        out = {"case": case, "bytes": size}
        for way, found in ways.items():
            out[f"{way}_us"] = round((best or min)(row["p50_us"] for row in found), 3)
            if case != "latency":
                out[f"{way}_gbs"] = round((best or max)(row["algorithm_gbs"] for row in found), 4)
        out["ratio"] = round(out["encrypted_us"] / out["plain_us"], 3)
        rows.append(out)
        print(f"{case:10} {size:9} B  {out['plain_us']:10.2f} us  {out['encrypted_us']:10.2f} us"
              f"  {out['ratio']:6.2f}")
    kept = {"schema": 1, "tool": "encrypt", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": " ".join(["tests/bench/encrypt.py", *sys.argv[1:]]), "machine": machine,
            "load": load, "statistic": args.statistic, "repetitions": args.repeat, "rows": rows}
    keep(kept, args.json)


if __name__ == "__main__":
    main()
