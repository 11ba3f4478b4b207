"""builds.py: two builds of Pomona side by side, in turns: is the newer one as quick?

builds.py BASE NEW [--case latency ...] [-s SIZES] [-r ROUNDS] [-t SECONDS] [-n RANKS]
          [--set NAME=VALUE ...] [--bind-to core] [--statistic p50|min] [--sockets] [--json FILE]

BASE and NEW are folders with bin/mpirun, bin/mpi-bench and lib. Each round runs every case once
with each build; the build that goes first changes from round to round, since the second of two runs
can find another machine. For each size: the ratio NEW / BASE of the medians (p50), in the middle of
the rounds, and of the quickest rounds of both; below 1 the new build is ahead. --bind-to is
mpirun's. --statistic min: each run's quickest sample in place of its median, for a machine that is
busy with other things.
--sockets: bare TCP sockets in the same rounds (mpi-bench limits tcp): half a round trip beside
latency, and beside bandwidth the time of a stream of as many bytes as a window has (where it was
measured, from 8 KiB on).
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import keep


# The case of `mpi-bench limits` that stands beside one of its own, and how many writes it times.
SOCKETS = {"latency": ("tcp-latency", 1), "bandwidth": ("tcp-stream", 16)}


def run_for_json(command, environment):
    """The document that this mpi-bench writes; rows hold microseconds by size in bytes."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([*command, "--json", out.name], env=environment, capture_output=True,
                              text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        return json.loads(Path(out.name).read_text())


def measure_sockets(build, options):
    """{case of ours: {bytes: microseconds of one write}}"""
    rows = run_for_json([str(Path(build, "bin", "mpi-bench")), "limits", "tcp", "-s", options.sizes, "--step", "2", "-t",
                         options.seconds], os.environ)["rows"]
    return {case: {row["bytes"]: row[f"{options.statistic}_us"] / writes for row in rows
                   if row["case"] == name} for case, (name, writes) in SOCKETS.items()}


def beside_sockets(case, rows, rounds):
    """Adds to the rows of a case what bare sockets take, in the middle of the rounds."""
    for row in rows:
        times = [each[case][row["bytes"]] for each in rounds if row["bytes"] in each.get(case, {})]
        if times:
            row["sockets_us"] = statistics.median(times) * (row["window"] or 1)
            row["ratio_to_sockets"] = row["new_us"] / row["sockets_us"]


def measure(build, case, options):
    environment = dict(os.environ)
    library = str(Path(build, "lib").resolve())
    environment["LD_LIBRARY_PATH"] = ":".join(
        [library] + [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p])
    command = [str(Path(build, "bin", "mpirun")), "-n", str(options.ranks)]
    for each in options.set:
        command += ["--set", each]
    if options.bind_to:
        command += ["--bind-to", options.bind_to]
    command += [str(Path(build, "bin", "mpi-bench")), case, "-s", options.sizes, "-t", options.seconds]
    return run_for_json(command, environment)


def measure_both(case, options, new_first):
    """[document of BASE, document of NEW]"""
    builds = [options.base, options.new]
    if new_first:
        return [measure(build, case, options) for build in reversed(builds)][::-1]
    return [measure(build, case, options) for build in builds]


def compare(rounds, windows):
    """From [(base rows, new rows)] by round, rows being {bytes: p50}, to one row for each size.
    `windows`: how many messages are timed together, by size; None where each is."""
    out = []
    for size in sorted(rounds[0][0]):
        base, new = ([r[which][size] for r in rounds] for which in (0, 1))
        out.append({"bytes": size, "window": windows[size], "base_us": statistics.median(base),
                    "new_us": statistics.median(new),
                    "ratio": statistics.median(n / b for b, n in zip(base, new)),
                    "ratio_of_quickest": min(new) / min(base)})
    return out


def command_of(arguments, options):
    """The command as others can repeat it: without this machine's paths and where the document
    went."""
    out, left_out = ["builds.py", "BASE", "NEW"], False
    for each in arguments:
        if not (left_out or each.startswith("--json") or os.path.isabs(each)
                or each in (options.base, options.new)):
            out.append(each)
        left_out = each == "--json"
    return shlex.join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("new")
    parser.add_argument("--case", nargs="+", default=["latency", "bandwidth"])
    parser.add_argument("-s", "--sizes", default="8:4M")
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("-t", "--seconds", default="0.05")
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--set", nargs="+", default=["transports=self,tcp"])
    parser.add_argument("--bind-to")
    parser.add_argument("--label", nargs=2, default=["base", "new"],
                        help="what the builds are, for the file: two revisions")
    parser.add_argument("--statistic", choices=["p50", "min"], default="p50")
    parser.add_argument("--sockets", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    found, windows, sockets = {case: [] for case in options.case}, {}, []
    for index in range(options.rounds):
        if options.sockets:
            sockets.append(measure_sockets(options.new, options))
        for case in options.case:
            both = measure_both(case, options, new_first=index % 2 == 1)
            windows[case] = {r["bytes"]: r.get("extra", {}).get("window") for r in both[1]["rows"]}
            found[case].append([{r["bytes"]: r[f"{options.statistic}_us"] for r in d["rows"]} for d in both])
    document = {
        "schema": 1, "tool": "builds.py",
        "command": command_of(sys.argv[1:], options),
        "base": options.label[0], "new": options.label[1], "machine": both[1]["machine"],
        "date": both[1]["date"], "rounds": options.rounds, "cases": {}}
    for case, rounds in found.items():
        document["cases"][case] = compare(rounds, windows[case])
        beside_sockets(case, document["cases"][case], sockets)
        for row in document["cases"][case]:
            bare = ""
            if "sockets_us" in row:
                bare = f", sockets {row['sockets_us']:.2f} us, {row['ratio_to_sockets']:.2f} of them"
            print(f"{case:10} {row['bytes']:8} {row['base_us']:10.2f} {row['new_us']:10.2f} us "
                  f"{row['ratio']:5.2f}, quickest {row['ratio_of_quickest']:5.2f}{bare}")
        ratios = [row["ratio"] for row in document["cases"][case]]
        print(f"{case}: mean ratio {statistics.geometric_mean(ratios):.3f}")
    keep(document, options.json)


if __name__ == "__main__":
    main()
