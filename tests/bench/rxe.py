#!/usr/bin/env python3
"""Figures of paths by RDMA over Linux's RDMA by software (rdma_rxe), in the small virtual machine
of tests/vm, whose two processors are emulated.

Usage: rxe.py BUILD [-r ROUNDS] [--json FILE]. In each round, in turns: what libibverbs does by
itself between two processes (verbs_bench), and what two ranks of Pomona do over it and by TCP
(mpi-bench), by one cable, with checksums and without. Absolute figures say nothing of a machine;
ratios of the two within a round are what is asked for. The emulated processors do the kernel's part
of either, and are at times twice as quick as at others: the median of the rounds counts.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from rdma import say

HERE = Path(__file__).resolve().parent
HOW = ("rdma", "unchecked", "tcp")
RAW = 65536  # bytes of a message of the library's; Pomona's own have a head more


def rounds_of(build, rounds):
    """What the guest prints, and the files of mpi-bench."""
    with tempfile.TemporaryDirectory() as shared:
        done = subprocess.run([str(HERE.parent / "vm/run.sh"), os.environ.get("POMONA_VM", f"{build}/../vm"),
                               str(HERE.parent / "vm/guest_figures.sh"), str(build), str(rounds)],
                              capture_output=True, text=True,
                              env=dict(os.environ, SHARED=shared, CABLES="1", SECONDS_MOST=str(300 * rounds)))
        if done.returncode != 0:
            sys.exit(f"run.sh ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        files = {path.name: json.loads(path.read_text()) for path in Path(shared).glob("*-*-*")}
    return done.stdout, files


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=Path)
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    load = os.getloadavg()[0]
    text, files = rounds_of(options.build.resolve(), options.rounds)
    latency = [float(value) for value in re.findall(r"^latency 8 ([\d.]+)$", text, re.M)]
    raw = [float(value) for value in re.findall(rf"^bandwidth {RAW} ([\d.]+)$", text, re.M)]
    ours = {}
    for name, kept in sorted(files.items()):
        case, transport, _ = name.split("-")
        for row in kept["rows"]:
            # Messages go by TCP before the cable is joined: the quickest ones are not of interest.
            value = row["p50_us"]
            if case == "bandwidth":
                value = row["bytes"] * row["extra"]["window"] / value / 1e3
            ours.setdefault((case, transport, row["bytes"]), []).append(value)

    def ratios(mine, its):
        each = [one / other for one, other in zip(mine, its)]
        return {"to_the_librarys": statistics.median(each), "of_rounds": [round(value, 2) for value in each]}

    def half_trips(transport):
        trips = ours["latency", transport, 8]
        return {"us": statistics.median(trips)} | ratios(trips, latency)

    def rates(transport):
        sizes = sorted(size for case, by, size in ours if (case, by) == ("bandwidth", transport))
        return [{"bytes": size, "gbs": statistics.median(ours["bandwidth", transport, size])} |
                ratios(ours["bandwidth", transport, size], raw) for size in sizes]

    out = {
        "schema": 1, "tool": "rxe.py", "command": "rxe.py BUILD " + " ".join(sys.argv[2:]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": next(iter(files.values()))["machine"], "load_average": round(load, 1),
        "rounds": options.rounds, "of_all_rounds": "the median",
        "library": {"half_round_trip_8_B_us": statistics.median(latency), "gbs_64_KiB": statistics.median(raw)},
        "half_round_trip_8_B": {how: half_trips(how) for how in HOW},
        "bandwidth": {how: rates(how) for how in HOW},
    }
    say(out, options.json)


if __name__ == "__main__":
    main()
