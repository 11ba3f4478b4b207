"""paths.py: what a link does with two cables: shares of unlike ones, and what a cut costs.

paths.py BUILD [-r ROUNDS] [-t SECONDS] [--json FILE]

Two network namespaces are joined by two cables whose rates a token bucket sets. Measured by flow.c:
how much more two cables carry than each alone (equal ones, and unlike ones against their sum), and
the longest pause of arriving messages when one of two cables drops everything without a word,
against the same without a cut. Measured by mpi-bench: an allreduce, which sends both ways at once,
by both cables against the quicker one alone; a slow one beside it must not cost. Linux and root.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import netns
from figures import keep
from namespaces import shape_line

HERE = Path(__file__).resolve().parent
MEGABIT = 1e6 / 8


def shape(link, cable, megabits):
    for space, end in zip(link.spaces, link.ends):
        shape_line(space, f"{end}{cable}", megabits, max(128 << 10, megabits * 20), "20ms")


def drop_all(link, cable, drops=True):
    """From now on nothing passes, and no end is told: both send to an address that nobody has."""
    for side, (space, end) in enumerate(zip(link.spaces, link.ends)):
        peer = f"{link.subnets[cable]}.{2 - side}"
        if drops:
            netns.quiet("ip", "-n", space, "neigh", "replace", peer, "lladdr", "02:00:00:00:00:99",
                        "dev", f"{end}{cable}", "nud", "permanent")
        else:
            netns.quiet("ip", "-n", space, "neigh", "flush", "dev", f"{end}{cable}", "nud", "all",
                        check=False)


def flow(options, link, program, cables, size, scratch, window=1, cut=None):
    """What flow.c says of two ranks joined by these cables, `window` messages being on their way.

    `cut` is called when messages have been arriving for half a second."""
    begun = Path(scratch) / "begun"
    begun.unlink(missing_ok=True)
    hosts = ",".join(f"{link.subnets[c]}.{side}" for side in (1, 2) for c in cables)
    ranks = [["-n", "1"] + link.inside(side, [program, str(options.seconds), str(size), str(window),
                                               str(begun)])
             for side in (0, 1)]
    command = [str(Path(options.build) / "bin" / "mpirun"), "--bind-to", "none", "--set",
               "transports=self,tcp", "--set", f"if_include={hosts}"]
    running = subprocess.Popen(command + ranks[0] + [":"] + ranks[1], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    if cut:
        end = time.monotonic() + 30
        while not begun.exists() and time.monotonic() < end and running.poll() is None:
            time.sleep(0.01)
        cut()
    out, problems = running.communicate(timeout=options.seconds + 60)
    if running.returncode != 0:
        sys.exit(f"flow.c ended with {running.returncode}: {problems}")
    return json.loads(out)


def exchange(options, link, cables, sizes, scratch):
    """The median times of allreduces of so many bytes, by these cables, in microseconds."""
    hosts = ",".join(f"{link.subnets[c]}.{side}" for side in (1, 2) for c in cables)
    build, out = Path(options.build), Path(scratch) / "exchange.json"
    command = [str(build / "bin" / "mpirun"), "--bind-to", "none", "--set", "transports=self,tcp",
               "--set", f"if_include={hosts}"]
    for side in (0, 1):
        program = [str(build / "bin" / "mpi-bench"), "allreduce", "-q", "-s",
                   f"{min(sizes)}:{max(sizes)}", "--step", str(max(sizes) // min(sizes)), "-t",
                   str(options.seconds), "--json", str(out)]
        command += ([":"] if side else []) + ["-n", "1"] + link.inside(side, program)
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds * 10 + 60)
    if done.returncode != 0:
        sys.exit(f"mpi-bench ended with {done.returncode}: {done.stderr}")
    rows = json.loads(out.read_text())["rows"]
    return {row["bytes"]: row["p50_us"] for row in rows}


def measure_exchange(options, link, scratch):
    """Rows of exchange() by both cables and by the quicker one alone."""
    rows, sizes = [], (64 << 10, 4 << 20)
    for rates in ((1000, 1000), (1000, 300), (1000, 100), (100, 1000), (1000, 10)):
        quicker = rates.index(max(rates))
        for cable in (0, 1):
            shape(link, cable, rates[cable])
        times = [[exchange(options, link, cables, sizes, scratch) for cables in ([quicker], [0, 1])]
                 for _ in range(options.rounds)]
        for size in sizes:
            alone, both = (statistics.median(each[i][size] for each in times) for i in range(2))
            ratio = statistics.median(each[1][size] / each[0][size] for each in times)
            rows.append({"case": "exchange", "megabits": list(rates), "bytes": size,
                         "quicker_alone_us": alone, "both_us": both, "of_the_quicker": ratio})
            print(f"allreduce of {size >> 10} KiB by {rates[0]} and {rates[1]} Mb/s: {both:.0f} us, "
                  f"{ratio:.2f} of the quicker one alone ({alone:.0f})", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("-t", "--seconds", type=float, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    if not netns.usable(print):
        sys.exit(77)
    rows = []
    with tempfile.TemporaryDirectory() as scratch, netns.Link(scratch, 2) as link:
        program = str(Path(scratch) / "flow")
        subprocess.run([str(Path(options.build) / "bin" / "mpicc"), "-O2", str(HERE / "flow.c"),
                        "-o", program], check=True)

        def rate(cables, window):
            said = flow(options, link, program, cables, 4 << 20, scratch, window)
            return said["bytes"] / said["seconds"] / MEGABIT

        for first, second in ((500, 500), (500, 100)):
            shape(link, 0, first)
            shape(link, 1, second)
            for window in (1, 4):
                rounds = [[rate(cables, window) for cables in ([0], [1], [0, 1])]
                          for _ in range(options.rounds)]
                one, other, both = (statistics.median(r[i] for r in rounds) for i in range(3))
                of_sum = statistics.median(r[2] / (r[0] + r[1]) for r in rounds)
                of_first = statistics.median(r[2] / r[0] for r in rounds)
                rows.append({"case": "striping", "megabits": [first, second], "window": window,
                             "alone": [one, other], "both": both, "of_the_sum": of_sum,
                             "of_the_first": of_first})
                print(f"{first} and {second} Mb/s, window {window}: alone {one:.0f} and "
                      f"{other:.0f}, both {both:.0f}: {of_first:.2f} times the first, "
                      f"{of_sum:.2f} of the sum", flush=True)
        rows += measure_exchange(options, link, scratch)
        for size in (1 << 10, 64 << 10, 1 << 20):
            gaps = {True: [], False: []}
            for _ in range(options.rounds):
                for cuts in (False, True):
                    shape(link, 0, 500)
                    shape(link, 1, 500)
                    drop_all(link, 0, False)
                    said = flow(options, link, program, [0, 1], size, scratch,
                                cut=(lambda: drop_all(link, 0)) if cuts else None)
                    gaps[cuts].append(said["longest_gap_ms"])
            rows.append({"case": "cut", "bytes": size,
                         "longest_gap_ms": statistics.median(gaps[True]),
                         "most_ms": max(gaps[True]),
                         "without_cut_ms": statistics.median(gaps[False])})
            print(f"cut, messages of {size >> 10} KiB: longest pause {rows[-1]['longest_gap_ms']:.0f} "
                  f"ms (at most {max(gaps[True]):.0f}), without a cut "
                  f"{rows[-1]['without_cut_ms']:.0f} ms")
    if options.json:
        document = {"schema": 1, "tool": "paths.py", "rounds": options.rounds,
                    "command": f"paths.py BUILD -r {options.rounds} -t {options.seconds:g}",
                    "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}
        keep(document, options.json)


if __name__ == "__main__":
    main()
