#!/usr/bin/env python3
"""Runs random correct MPI programs (random_program.c and beside it) and compares their checksums.

Each seed is one program. Its checksum must be the same in every row of WAYS (transports,
parameters, forced algorithms) and on every --peer library. A seed whose checksum differs, or that
fails, is shrunk to few steps, and the command that repeats it is printed. Numbers of ranks go round
with the batches.

    run.py --build .build/release --seeds 200
    run.py --build .build/release --first 4711 --seeds 1 --ranks 3
    run.py --build .build/release --seeds 50 --peer mpich=/opt/mpich/bin
    run.py --build .build/release --seeds 20 --peers-installed
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shlex
import shutil
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
    p.add_argument("--peers-installed", action="store_true",
                   help="MPICH, if it is installed (mpicc.mpich in PATH, as Debian names it) and compiles; else exit "
                        "code 77. Beside it Open MPI, whose other checksums are told and no faults")
    p.add_argument("-j", "--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=60, help="seconds for a batch")
    return p.parse_args()


def algorithms():
    """Forced algorithms, from the catalog: ways in which one row is taken wherever it is legal."""
    text = (HERE.parents[1] / "coll" / "catalog.def").read_text()
    found = re.findall(r"^ALGORITHM\((\w+), (\w+)", text, re.M)
    return {f"{collective}={name}": ({f"POMONA_{collective.upper()}": name}, [])
            for collective, name in found if collective in FORCED}


# For the tests' user root, and for more ranks than processors; of Open MPI 4 and 5.
PEER_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
                    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


# Open MPI 5.0.11 has other checksums in 6 of the first 20 seeds; MPICH 5.0.2 agrees with us there.
NO_JUDGES = ["openmpi"]


def installed_peers(work):
    """Name -> a folder with the peer's mpicc and mpirun, of those that compile a program."""
    found = {}
    (work / "probe.c").write_text("#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n")
    for name in "mpich", "openmpi":
        compiler = shutil.which(f"mpicc.{name}")
        starter = shutil.which(f"mpirun.{name}") or shutil.which(f"mpiexec.{name}")
        if not compiler or not starter:
            continue
        folder = work / name
        folder.mkdir()
        # Not links: both find their installation by the name under which they are called.
        for link, program in ("mpicc", compiler), ("mpirun", starter):
            (folder / link).write_text(f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n')
            (folder / link).chmod(0o755)
        done = subprocess.run([folder / "mpicc", work / "probe.c", "-o", work / "probe"], capture_output=True)
        if done.returncode:
            print(f"{compiler} does not compile a program (are its headers installed?): {name} is left out")
        else:
            found[name] = folder
    return found


def mpi_version(folder, work):
    """The number of the standard that a library's header claims."""
    (work / "version.c").write_text("#include <mpi.h>\nversion MPI_VERSION\n")
    text = subprocess.run([Path(folder) / "mpicc", "-E", work / "version.c"], capture_output=True, text=True,
                          check=True).stdout
    return int(re.search(r"^version\s+(\d+)", text, re.M)[1])


class Library:
    def __init__(self, name, folder, work, version=None):
        self.folder = Path(folder)
        self.ours = name.startswith("pomona")
        self.program = work / f"random_program.{name}"
        only = [f"-DFUZZ_VERSION={version}"] if version else []
        command = [self.folder / "mpicc", "-g", "-O1", "-std=gnu11", "-w", *only, *sorted(HERE.glob("*.c")), "-o",
                   self.program]
        subprocess.run([str(word) for word in command], check=True)

    def command(self, ranks, first, count, selection, through=()):
        starter = self.folder / "mpirun"
        extra = ["--oversubscribe"] if self.ours else []
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
    def __init__(self, options, libraries, base):
        self.told = collections.Counter()  # seeds in which a library differs that is no judge
        # Of libraries of an older standard: as which library ours is compared with them.
        self.options, self.libraries, self.base = options, libraries, base
        self.ways = {**WAYS, **algorithms()}

    def ways_of(self, batch):
        if self.options.ways:
            return self.options.ways.split(",")
        others = [name for name in self.ways if name != "default"]
        if self.options.each_way:
            return ["default"] + others
        return ["default"] + [others[(2 * batch + i) % len(others)] for i in range(2)]

    def one(self, library, way, ranks, first, count, selection=None, timeout=None):
        environment, through = self.ways[way] if self.libraries[library].ours else (PEER_ENVIRONMENT, [])
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
        runs += [(name, "default") for name, library in self.libraries.items() if not library.ours]
        if wrong or len(expected) != count:
            return [self.fault("pomona", "default", ranks, first + len(expected), wrong)]
        for library, way in runs:
            found, wrong = self.one(library, way, ranks, first, count)
            wanted = expected
            if library in self.base:
                wanted, _ = self.one(self.base[library], "default", ranks, first, count)
            for seed in range(first, first + count):
                if seed in wanted and found.get(seed) == wanted[seed]:
                    continue
                if options.peers_installed and library in NO_JUDGES:
                    self.told[library] += 1
                    continue
                faults.append(self.fault(library, way, ranks, seed, wrong))
                break
        return faults

    def fault(self, library, way, ranks, seed, wrong):
        def fails(steps):
            selection = ",".join(map(str, steps))
            base, failed = self.one(self.base.get(library, "pomona"), "default", ranks, seed, 1, selection, 10)
            if failed or (library, way) == ("pomona", "default"):
                return bool(failed)
            other, failed = self.one(library, way, ranks, seed, 1, selection, 10)
            return bool(failed) or other != base
        steps = list(range(STEPS))
        words = f"seed {seed}, {ranks} ranks, {library}, {way}: {wrong or 'another checksum'}"
        if not fails(steps):
            return words + "\nIt does not fail when run alone."
        steps = shrink(fails, steps)
        environment, through = self.ways[way] if self.libraries[library].ours else (PEER_ENVIRONMENT, [])
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
        if options.peers_installed:
            for name, place in installed_peers(work).items():
                libraries[name] = Library(name, place, work)
            if "mpich" not in libraries:
                print("skipped: no mpicc.mpich in PATH compiles a program")
                return 77
            print("compared with " + " and ".join(name for name in libraries if name != "pomona"))
        base = {}
        for name in [name for name, library in libraries.items() if not library.ours]:
            version = mpi_version(libraries[name].folder, work)
            if version < 4:
                base[name] = f"pomona as of MPI {version}"
                libraries[base[name]] = Library(base[name], Path(options.build) / "bin", work, version)
        comparison = Comparison(options, libraries, base)
        batches = range((options.seeds + options.batch - 1) // options.batch)
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for faults in pool.map(comparison.batch, batches):
                for words in faults:
                    failed += 1
                    print(words, flush=True)
    for library, times in comparison.told.items():
        print(f"{library} has another checksum, or failed, in {times} seeds, as is known of it")
    print(f"{options.seeds} seeds, {failed} faults, {time.monotonic() - begin:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
