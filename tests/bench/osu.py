#!/usr/bin/env python3
"""tests/bench/osu.py: OSU's micro-benchmarks over Pomona and its peers, side by side.

    tests/bench/osu.py BUILD SOURCES [--run RANKS:ROUNDS:PROGRAM,... ...] [--peers FOLDER]
                       [--only-peers NAME ...] [--within SECONDS] [--json FILE]

SOURCES is an unpacked archive of osu-micro-benchmarks 5.x
(https://mvapich.cse.ohio-state.edu/benchmarks/), which is compiled here by each library's mpicc
and kept in the peers' cache. Programs are named without "osu_"; --run may be given several times
("2:3:latency,bw"; the default is all point-to-point and blocking collective ones with 2 ranks,
and the latter with 4). In each round every library runs once; who begins changes from round to
round. Of each row: the ratio of Pomona's time to the best peer's (of bandwidths the reverse), by
the medians of the rounds and by the quickest; a row counts as behind where both are above 1.02,
and a time differs by more than the last digit that is printed, 0.01 us. --within: no program
begins later.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
from figures import keep

P2P = "latency,bw,bibw,multi_lat,mbw_mr"
COLLECTIVE = ("allreduce,bcast,alltoall,allgather,reduce_scatter,reduce,gather,scatter,barrier,"
              "allgatherv,alltoallv,gatherv,scatterv")
ONE_SIDED = ("put_latency,get_latency,put_bw,get_bw,acc_latency,get_acc_latency,fop_latency,"
             "cas_latency")
NONBLOCKING = "iallreduce,ibcast,ibarrier,iallgather,ialltoall,igather,iscatter,ireduce"
SHORT = {"p2p": P2P, "collective": COLLECTIVE, "onesided": ONE_SIDED, "nonblocking": NONBLOCKING}
DEFAULT = ["2:3:p2p", "2:3:collective", "4:3:collective"]
BEHIND, DIGIT = 1.02, 0.0101
NAME = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_library_version(text, &length);
    if (rank == 0) puts(text);
    return MPI_Finalize();
}
"""
# What OSU's configure defines.
FLAGS = ["-O2", "-DFIELD_WIDTH=18", "-DFLOAT_PRECISION=2", '-DPACKAGE_VERSION="5"']


def wanted(runs):
    """(ranks, rounds, program) of all, in order."""
    for run in runs:
        ranks, rounds, names = run.split(":")
        for name in ",".join(SHORT.get(each, each) for each in names.split(",")).split(","):
            yield int(ranks), int(rounds), name


def compiler_of(library):
    beside = Path(library.mpirun).parent / "mpicc"
    return str(beside) if library.kind == "pomona" else library.mpicxx.replace("mpicxx", "mpicc")


def name_of(library):
    """What it says of itself, in short; empty where it does not run."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "name.c"
        source.write_text(NAME)
        program = source.with_suffix("")
        if peers.output_of([compiler_of(library), str(source), "-o", str(program)]) is None:
            return ""
        done = subprocess.run([*library.launch(1), str(program)], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env=library.environment("shm"))
        return peers.short_name(done.stdout) if done.returncode == 0 else ""


def compile_all(library, sources, names):
    """Folder of the programs; compiles those that are not there."""
    found = {path.stem: path for path in sorted(sources.rglob("osu_*.c"))}
    util = [found[name] for name in ("osu_util", "osu_util_mpi") if name in found]
    if not util:
        sys.exit(f"{sources} holds no osu_util.c: unpack OSU's archive there")
    mpicc = compiler_of(library)
    key = peers.digest(mpicc, *(path.read_text() for path in found.values()))
    folder = peers.cache_folder() / "osu" / key
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        program = folder / f"osu_{name}"
        if program.exists():
            continue
        if f"osu_{name}" not in found:
            sys.exit(f"{sources} holds no osu_{name}.c")
        command = [mpicc, *FLAGS, f"-I{util[0].parent}", str(found[f"osu_{name}"]),
                   *map(str, util), "-o", str(program), "-lm", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return folder


def run(library, program, ranks):
    """Figures by size (0: the program has one only); empty where it failed or took too long."""
    try:
        done = subprocess.run([*library.launch(ranks), str(program)], capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL,
                              env=library.environment("shm"))
    except subprocess.TimeoutExpired:
        print(f"{library} takes more than 120 s for {program.name} with {ranks} ranks")
        return {}
    if done.returncode:
        print(f"{library} ended {program.name} with {done.returncode}: {done.stderr[-200:]}")
        return {}
    figures = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if not words or not all(re.fullmatch(r"[\d.]+", word) for word in words):
            continue
        # Without sizes: barrier and atomics, whose line is time first, or bytes and time.
        if "." in words[0]:
            figures[0] = float(words[0])
        elif len(words) > 1:
            figures[int(words[0])] = float(words[1])
    return figures


def compare(program, ranks, figures, rows):
    """Adds the program's rows; prints those behind, and the mean."""
    higher = "bw" in program
    best = max if higher else min
    ratios = []
    for size, of in sorted(figures.items()):
        others = [name for name in of if name != "Pomona"]
        if "Pomona" not in of or not others:
            continue
        beyond = []
        row = {"program": program, "ranks": ranks, "bytes": size, "figures": of}
        for label, reduce in (("median", statistics.median), ("quickest", best)):
            value = {name: reduce(each) for name, each in of.items()}
            peer = best(others, key=lambda name: value[name])
            ratio = value[peer] / value["Pomona"] if higher else value["Pomona"] / value[peer]
            beyond.append(higher or value["Pomona"] - value[peer] > DIGIT)
            row[label] = {"ratio": round(ratio, 3), "peer": peer}
        row["behind"] = all(beyond) and min(row["median"]["ratio"],
                                            row["quickest"]["ratio"]) > BEHIND
        ratios.append(row["median"]["ratio"])
        rows.append(row)
        if row["behind"]:
            print(f"  {program} {ranks} ranks {size} B: {row['median']['ratio']:.2f} of "
                  f"{row['median']['peer']}, quickest {row['quickest']['ratio']:.2f}")
    if ratios:
        print(f"{program} {ranks} ranks: {len(ratios)} rows, mean {statistics.mean(ratios):.2f}, "
              f"worst {max(ratios):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="OSU's micro-benchmarks, side by side.")
    parser.add_argument("build", help="an install prefix or a build tree")
    parser.add_argument("sources", type=Path)
    parser.add_argument("--run", action="append", metavar="RANKS:ROUNDS:PROGRAMS",
                        help=f"programs, or {', '.join(SHORT)}")
    parser.add_argument("--peers", help="folder of the peers' wheels, or of what they hold")
    parser.add_argument("--only-peers", nargs="+", default=["MPICH", "Open MPI"],
                        help="whose names begin so")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    begin, load = time.time(), [os.getloadavg()[0]]
    candidate = peers.find_candidate(args.build, None)
    libraries = [candidate]
    for library in peers.system_peers() + peers.wheel_peers(print, False, args.peers):
        library.name = name_of(library)
        if any(library.name.startswith(name) for name in args.only_peers):
            libraries.append(library)
    candidate.name = "Pomona"
    planned = list(wanted(args.run or DEFAULT))
    names = list(dict.fromkeys(name for _, _, name in planned))
    folders = {library.name: compile_all(library, args.sources, names) for library in libraries}
    rows = []
    for ranks, rounds, name in planned:
        if time.time() - begin > args.within:
            print(f"no time for {name} with {ranks} ranks")
            continue
        figures = {}
        for turn in range(rounds):
            first = turn % len(libraries)
            for library in libraries[first:] + libraries[:first]:
                for size, value in run(library, folders[library.name] / f"osu_{name}", ranks).items():
                    figures.setdefault(size, {}).setdefault(library.name, []).append(value)
        compare(name, ranks, figures, rows)
        if args.json:
            load[1:] = [os.getloadavg()[0]]
            document = {"tool": "osu.py", "date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(),
                        "command": " ".join(["osu.py", "BUILD", "SOURCES",
                                             *(f"--run {each}" for each in args.run or DEFAULT)]),
                        "libraries": [library.name for library in libraries], "load": load,
                        "rows": rows}
            keep(document, args.json)
    behind = sum(row["behind"] for row in rows)
    print(f"{behind} of {len(rows)} rows are behind the best peer by more than {BEHIND - 1:.0%}, "
          "by the medians and the quickest")


if __name__ == "__main__":
    main()
