#!/usr/bin/env python3
"""Runs random correct MPI programs (random_program.c and beside it) and compares their checksums.

Each seed is one program. Its checksum must be the same in every row of WAYS (transports,
parameters, forced algorithms) and on every --peer library. A seed whose checksum differs, or that
fails, is shrunk to few steps, and the command that repeats it is printed. Numbers of ranks go round
with the batches.

    run.py --build .build/release --seeds 200
    run.py --build .build/release --first 4711 --seeds 1 --ranks 3
    run.py --build .build/release --seeds 50 --peer mpich=/opt/mpich/bin
"""
import argparse
import concurrent.futures
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS = 30
NODES = HERE.parent / "programs" / "nodes.sh"

# Name -> environment, and what starts each rank's program.
WAYS = {
    "default": ({}, []),
    "tcp": ({"POMONA_TRANSPORTS": "self,tcp"}, []),
    "nodes": ({}, [str(NODES), "2"]),
    "messages": ({"POMONA_SHM_BOARD": "0", "POMONA_SHM_PULL_MIN": "0", "POMONA_RMA_SHARED": "no"}, []),
    "small rings": ({"POMONA_SHM_RING_SLOTS": "32", "POMONA_SHM_RING_BYTES": "65536",
                     "POMONA_SHM_FRAGMENT": "4096", "POMONA_SHM_EAGER_MAX": "1024"}, []),
    "streams": ({"POMONA_TRANSPORTS": "self,tcp", "POMONA_TCP_STREAMS": "3", "POMONA_ENCRYPT": "all",
                 "POMONA_TCP_EAGER_MAX": "512", "POMONA_TCP_FRAGMENT": "8192"}, []),
    "ask first": ({"POMONA_EAGER_MAX": "1", "POMONA_UNEXPECTED_MAX": "1024",
                   "POMONA_PROGRESS": "thread"}, []),
    "checked": ({"POMONA_CHECK": "1"}, []),
}
# Where tests/programs/rdma.sh has made fake RDMA cables.
if "fabric" in os.environ:
    WAYS["rdma"] = ({}, os.environ["through"].split())
# Collectives of which one algorithm is forced at a time; their names are the catalog's.
FORCED = ["allreduce", "bcast", "reduce", "allgather", "reduce_scatter", "alltoall", "gather", "scatter",
          "scan"]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", required=True, help="Pomona's build tree or installation")
    p.add_argument("--first", type=int, default=1, help="first seed")
    p.add_argument("--seeds", type=int, default=200)
    p.add_argument("--batch", type=int, default=10, help="seeds of one job")
    p.add_argument("--ranks", default="2 3 4 1 5", help="numbers of ranks, which go round")
    p.add_argument("--ways", help="only these, separated by commas")
    p.add_argument("--each-way", action="store_true",
                   help="every seed by every way; else by the default and two that go round")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=BIN",
                   help="another library: the folder of its mpicc and mpiexec (repeatable)")
    p.add_argument("-j", "--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=60, help="seconds for a batch")
    return p.parse_args()


def algorithms():
    """Forced algorithms, from the catalog: ways in which one row is taken wherever it is legal."""
    text = (HERE.parents[1] / "coll" / "catalog.def").read_text()
    found = re.findall(r"^ALGORITHM\((\w+), (\w+)", text, re.M)
    return {f"{collective}={name}": ({f"POMONA_{collective.upper()}": name}, [])
            for collective, name in found if collective in FORCED}


class Library:
    def __init__(self, name, folder, work):
        self.folder = Path(folder)
        self.program = work / f"random_program.{name}"
        command = [self.folder / "mpicc", "-g", "-O1", "-std=gnu11", "-w", *sorted(HERE.glob("*.c")), "-o",
                   self.program]
        subprocess.run([str(word) for word in command], check=True)

    def command(self, ranks, first, count, selection, through=()):
        starter = self.folder / "mpirun"
        extra = ["--oversubscribe"] if self.program.suffix == ".pomona" else []
        if not starter.exists():
            starter = self.folder / "mpiexec"
        return [str(starter), *extra, "-n", str(ranks), *through, str(self.program), str(first),
                str(count), str(STEPS), *([selection] if selection else [])]


def run(command, environment, timeout):
    """Checksums by seed, and what went wrong ('' if nothing)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **environment}, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=timeout)
        wrong = f"exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            out, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
        wrong = f"no end after {timeout:g} s"
    found = dict(re.findall(r"^seed (\d+) checksum (\w+)$", out, re.M))
    return {int(seed): value for seed, value in found.items()}, wrong and f"{wrong}\n{out[-2000:]}"


def shrink(fails, steps):
    """The fewest steps for which fails(steps) still holds, by leaving out ever smaller parts."""
    size = len(steps) // 2
    while size >= 1:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size:]
            if fewer and fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


class Comparison:
    def __init__(self, options, libraries):
        self.options, self.libraries = options, libraries
        self.ways = {**WAYS, **algorithms()}

    def ways_of(self, batch):
        if self.options.ways:
            return self.options.ways.split(",")
        others = [name for name in self.ways if name != "default"]
        if self.options.each_way:
            return ["default"] + others
        return ["default"] + [others[(2 * batch + i) % len(others)] for i in range(2)]

    def one(self, library, way, ranks, first, count, selection=None, timeout=None):
        environment, through = self.ways[way] if library == "pomona" else ({}, [])
        command = self.libraries[library].command(ranks, first, count, selection, through)
        return run(command, environment, timeout or self.options.timeout)

    def batch(self, number):
        options = self.options
        first = options.first + number * options.batch
        count = min(options.batch, options.first + options.seeds - first)
        ranks = int(options.ranks.split()[number % len(options.ranks.split())])
        expected, wrong = self.one("pomona", "default", ranks, first, count)
        faults = []
        runs = [("pomona", way) for way in self.ways_of(number) if way != "default"]
        runs += [(name, "default") for name in self.libraries if name != "pomona"]
        if wrong or len(expected) != count:
            return [self.fault("pomona", "default", ranks, first + len(expected), wrong)]
        for library, way in runs:
            found, wrong = self.one(library, way, ranks, first, count)
            for seed in range(first, first + count):
                if found.get(seed) == expected[seed]:
                    continue
                faults.append(self.fault(library, way, ranks, seed, wrong))
                break
        return faults

    def fault(self, library, way, ranks, seed, wrong):
        def fails(steps):
            selection = ",".join(map(str, steps))
            base, failed = self.one("pomona", "default", ranks, seed, 1, selection, 10)
            if failed or (library, way) == ("pomona", "default"):
                return bool(failed)
            other, failed = self.one(library, way, ranks, seed, 1, selection, 10)
            return bool(failed) or other != base
        steps = list(range(STEPS))
        words = f"seed {seed}, {ranks} ranks, {library}, {way}: {wrong or 'another checksum'}"
        if not fails(steps):
            return words + "\nIt does not fail when run alone."
        steps = shrink(fails, steps)
        environment, through = self.ways[way] if library == "pomona" else ({}, [])
        command = self.libraries[library].command(ranks, seed, 1, ",".join(map(str, steps)), through)
        settings = [f"{name}={value}" for name, value in environment.items()]
        return f"{words}\nrepeat: {shlex.join(['env', 'FUZZ_TELL=1', *settings, *command])}"


def main():
    options = parse_arguments()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        libraries = {"pomona": Library("pomona", Path(options.build) / "bin", work)}
        for peer in options.peer:
            name, _, place = peer.partition("=")
            libraries[name] = Library(name, place, work)
        comparison = Comparison(options, libraries)
        batches = range((options.seeds + options.batch - 1) // options.batch)
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for faults in pool.map(comparison.batch, batches):
                for words in faults:
                    failed += 1
                    print(words, flush=True)
    print(f"{options.seeds} seeds, {failed} faults, {time.monotonic() - begin:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
