#!/usr/bin/env python3
"""bare.py: small messages, long ones and small collectives, against what processes that share
memory do without MPI.

Usage: bare.py BUILD [-n RANKS ...] [-r REPETITIONS] [-t SECONDS] [--json FILE]. In each repetition
mpi-bench measures in turns the bare thing (`mpi-bench limits`) and Pomona's. A row is the median of
the repetitions' medians, beside it the quickest sample of all; ratios are of our time to the bare
one, of rates the other way round, so that above 1 is slower.

- latency: half a round trip against a cache line that two processes hand over; of 128 and 256 B
  against that of 64 B.
- bandwidth, bibandwidth: against a pipe of 32 KiB pieces in shared memory, both sides copying: one
  that moves one message over and over, from a cache and into one, and one that moves as much as a
  window has, whose messages have buffers of their own.
- collectives of 8 B and barriers: against processes that wait until all have seen all others'
  words, as many as ranks, lined up for each round as mpi-bench lines up ranks.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from figures import keep

COLLECTIVES = ["allreduce", "bcast", "allgather", "reduce_scatter", "alltoall", "barrier"]
SMALL = [8, 64, 128, 256]
LONG, PIPED = "64K:4M", "64K:16M"


class Bare:
    def __init__(self, bench, seconds):
        self.bench, self.seconds = bench, seconds
        self.found = {}  # (case, ranks, bytes): [median, least] of each repetition, in us
        self.windows = {}  # the same: messages of a window

    def run(self, words, ranks=0):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            subprocess.run([self.bench, *words, "-t", str(self.seconds), "--json", file.name],
                           check=True, capture_output=True, timeout=600)
            rows = json.loads(Path(file.name).read_text())["rows"]
        for row in rows:
            key = row["case"], ranks, row.get("bytes", 0)
            window = row.get("extra", {}).get("window", 1)
            messages = window * (2 if key[0] == "bibandwidth" else 1)
            self.windows[key] = int(window)
            times = [row["p50_us"] / messages, row["min_us"] / messages]
            self.found.setdefault(key, []).append(times)

    def repetition(self, ranks):
        mpi = ["-q", "--no-verify", "-n"]
        self.run(["limits", "handover"])
        self.run(["latency", "-s", "8:256", *mpi, "2"], 2)
        self.run(["limits", "shm-copy", "-s", PIPED])
        self.run(["bandwidth", "bibandwidth", "-s", LONG, *mpi, "2"], 2)
        self.run(["limits", "meet"])
        for n in ranks:
            self.run([*COLLECTIVES, "-s", "8:8", *mpi, str(n)], n)

    def of(self, case, ranks=0, size=0):
        """Of a message or call: the median of medians, and the least of all samples; or None."""
        samples = self.found.get((case, ranks, size))
        if not samples:
            return None
        return statistics.median(each[0] for each in samples), min(each[1] for each in samples)

    def row(self, name, ours, bare, asked):
        if not ours or not bare:
            return None
        return {"what": name, "us": round(ours[0], 4), "bare_us": round(bare[0], 4),
                "ratio": round(ours[0] / bare[0], 3), "quickest": round(ours[1] / bare[1], 3),
                "asked": asked}

    def rows(self, ranks):
        line = self.of("handover", 0, 8)
        yield self.row("latency of 8 B", self.of("latency", 2, 8), line, 1.3)
        for size in SMALL[2:]:
            yield self.row(f"latency of {size} B, of 64 B", self.of("latency", 2, size),
                           self.of("latency", 2, 64), 1.15)
        for case in ("bandwidth", "bibandwidth"):
            for size in [64 << 10 << k for k in range(7)]:
                for piped, where in ((size, "in the caches"),
                                     (size * self.windows.get((case, 2, size), 0), "as much")):
                    bare = self.of("shm-copy", 0, piped)
                    yield self.row(f"{case} of {size >> 10} KiB, {where}", self.of(case, 2, size),
                                   bare and [each * size / piped for each in bare], 1.11)
        for n in ranks:
            for case in COLLECTIVES:
                ours = self.of(case, n, 8) or self.of(case, n)
                yield self.row(f"{case}, {n} ranks", ours, self.of(f"meet-{n}"), 1.25)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("-n", "--ranks", type=int, nargs="+", default=[2],
                        help="2, 4 or 8, no more than there are cores")
    parser.add_argument("-r", "--repeat", type=int, default=5)
    parser.add_argument("-t", "--time", type=float, default=0.03, help="seconds per case and size")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    bare = Bare(args.build.resolve() / "bin" / "mpi-bench", args.time)
    for _ in range(args.repeat):
        bare.repetition(args.ranks)
    rows = [each for each in bare.rows(args.ranks) if each]
    print(f"{'':40} {'us':>10} {'bare us':>10} {'ratio':>7} {'quickest':>9} {'asked':>6}")
    for each in rows:
        behind = "" if min(each["ratio"], each["quickest"]) <= each["asked"] else "  <-"
        print(f"{each['what']:40} {each['us']:10.3f} {each['bare_us']:10.3f} {each['ratio']:7.2f} "
              f"{each['quickest']:9.2f} {each['asked']:6.2f}{behind}")
    command = f"bare.py BUILD -n {' '.join(map(str, args.ranks))} -r {args.repeat} -t {args.time}"
    keep({"schema": 1, "tool": "bare", "date": datetime.date.today().isoformat(),
          "command": command, "cores": os.cpu_count(), "load": os.getloadavg()[:2],
          "rows": rows}, args.json)


if __name__ == "__main__":
    main()
