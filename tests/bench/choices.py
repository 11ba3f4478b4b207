#!/usr/bin/env python3
"""tests/bench/choices.py: is the algorithm that the library takes by itself about the fastest one?

Runs mpi-bench with every algorithm of a collective forced in turn, and with none forced, in
interleaved repetitions, and holds the time of the choice against the best one's. Run by hand on a
quiet machine:

    tests/bench/choices.py --bin build/bin --json docs/bench/choices.json

A time is the median of the repetitions' medians (--statistic min: the least of all samples, for a
machine that others use too). A choice has to do for data that lies in the caches since the last
call and for data just written (mpi-bench --fresh), and the quickest algorithm may be another one
for each: so an algorithm's time is the geometric mean of both. Runs of the algorithm that is chosen
anyway count as runs of the choice, unless a rule of `pomona tune` has chosen it, with options of
its own.

--hosts 2 --rate 1000: the ranks are on so many hosts, as many on each, which network namespaces
stand for (tests/host_world.py; Linux and root), by cables of so many Mb/s. Jobs know that rate and
half a round trip, as they do where one has seen them, and nothing that was tuned. Each host has
processors of its own, in turns, which work its ranks and its packets: where the system draws them
for each connection, a round of 5 us in one run takes 25 or 50 in the next. Where ranks are more
than processors they sleep at once (spin_us=0), or they would poll while others wait.
"""
import argparse
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import host_world  # noqa: E402
from figures import keep  # noqa: E402

COLLECTIVES = ["allreduce", "bcast", "allgather", "reduce_scatter", "alltoall"]
SIZES = [8, 1 << 10, 16 << 10, 256 << 10, 4 << 20]
ROW = re.compile(r"^\s*([0-9.]+) us\s+(\w+)(?::segments=(\d+))?")
RULE = re.compile(r"counts: .* (\S+)\n  (\w+) is taken, whatever")


def show(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def output_of(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


class Choices:
    def __init__(self, args, world=None):
        self.args, self.world = args, world
        # No run may reckon with what an earlier one has seen of its lines.
        self.env = dict(os.environ, POMONA_LEARN_LINKS="no")
        self.processors, self.latencies = [], {}
        if world:
            self.processors = sorted(os.sched_getaffinity(0))
            self.env["HOME"] = world.home  # where nothing is kept
        # (ranks, collective, size, algorithm): kind of data: a time of each repetition, in us
        self.times = {}

    def prices(self, ranks, collective, size):
        """The algorithms that may serve, the cheapest first, as (name, microseconds)."""
        return self.explained(ranks, collective, size)[0]

    def explained(self, ranks, collective, size):
        """The same, and what a rule takes instead, or None."""
        # pomona cost takes a block where every rank has its own; mpi-bench the whole vector.
        block = size // ranks if collective == "reduce_scatter" else size
        words = [f"{self.args.bin}/pomona", "cost", collective, str(block)]
        if self.world:
            words += ["--network", self.network(ranks)]
        else:
            words += ["-n", str(ranks), "--machine", self.args.transport]
        if self.args.links:
            words += ["--links", self.args.links]
        text = output_of(words, self.env)
        rows = [ROW.match(line) for line in text.splitlines()]
        rule = RULE.search(text)
        return [(row[2], float(row[1])) for row in rows if row], rule and rule[1]

    def network(self, ranks):
        """A file that describes the hosts, with so many ranks in all."""
        each = ranks // self.world.count
        names = [f"h{number + 1}" for number in range(self.world.count)]
        file = Path(self.world.place, "network.json")
        file.write_text(json.dumps({
            "hosts": [{"host": name, "ranks": each} for name in names],
            "pairs": [{"hosts": pair, "latency_us": self.latency(ranks), "gigabits": self.args.rate / 1000}
                      for pair in itertools.combinations(names, 2)]}))
        return str(file)

    def run(self, ranks, collective, algorithm):
        words = [f"{self.args.bin}/mpirun", "-n", str(ranks), "--set", f"{collective}={algorithm}"]
        if self.world:
            # Half a round trip is L + 2 o; 1 Gb/s takes 8 ns for a byte.
            latency = max(0, self.latency(ranks) * 1000 - 5000)
            words += ["--set", f"links=net={latency:.0f}:2500:{8000 / self.args.rate:g}"]
            words = self.on_hosts(ranks, self.world.count, words + self.waiting(ranks))
        else:
            if self.args.links:
                words += ["--set", f"links={self.args.links}"]
            words += ["--set", f"transports=self,{self.args.transport}"]
            if sys.platform == "linux" and ranks <= os.cpu_count():
                words += ["--bind-to", "core"]
        words += [f"{self.args.bin}/mpi-bench", collective, "-t", str(self.args.time), "-q"]
        for sizes, step in ((f"{SIZES[0]}:{SIZES[1]}", "128"), (f"{SIZES[2]}:{SIZES[4]}", "16")):
            for kind in self.args.data:
                more = ["-s", sizes, "--step", step, *(["--fresh"] if kind == "fresh" else [])]
                for row in self.measured(words + more):
                    key = "min_us" if self.args.statistic == "min" else "p50_us"
                    kinds = self.times.setdefault((ranks, collective, row["bytes"], algorithm), {})
                    kinds.setdefault(kind, []).append(row[key])

    def on_hosts(self, ranks, hosts, words):
        """With each rank on a processor of its host, and the host's packets on its first one's."""
        each, have = ranks // hosts, self.processors
        lines = []
        for rank in range(ranks):
            host, processor = rank // each + 1, have[rank % len(have)]
            lines.append(f"rank {rank}=h{host} slot={processor}\n")
            if rank % each == 0:
                self.world.steer(host, processor)
        file = Path(self.world.place, "rankfile")
        file.write_text("".join(lines))
        names = ",".join(f"h{number + 1}:{each}" for number in range(hosts))
        return self.world.inside("h1", *words, "--ssh", self.world.enter, "--rankfile", file, "--host", names)

    def waiting(self, ranks):
        return ["--set", "spin_us=0"] if ranks > len(self.processors) else []

    def latency(self, ranks):
        """Half a round trip of 8 bytes between two hosts, in us; ranks wait as so many do."""
        if ranks not in self.latencies:
            words = self.on_hosts(2, 2, [f"{self.args.bin}/mpirun", "-n", "2", *self.waiting(ranks)])
            words += [f"{self.args.bin}/mpi-bench", "latency", "-t", str(self.args.time), "-q", "-s", "8"]
            values = [self.measured(words)[0]["p50_us"] for _ in range(5)]
            self.latencies[ranks] = round(statistics.median(values), 1)
        return self.latencies[ranks]

    def measured(self, words):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            output_of([*words, "--json", file.name], self.env)
            return json.loads(Path(file.name).read_text())["rows"]

    def repeat(self):
        jobs = []
        for ranks in self.args.ranks:
            for collective in self.args.collectives:
                names = {name for size in SIZES for name, _ in self.prices(ranks, collective, size)}
                jobs += [(ranks, collective, name) for name in ["auto", *sorted(names)]]
        end = time.monotonic() + self.args.within
        for repetition in range(self.args.repeat):
            turn = repetition * 5 % len(jobs)
            for number, job in enumerate(jobs[turn:] + jobs[:turn]):
                if time.monotonic() > end:
                    return print(f"no time for more than {repetition} repetitions and {number} of {len(jobs)} jobs")
                if sys.stderr.isatty():
                    print(f"\r{repetition + 1}/{self.args.repeat}: {number + 1}/{len(jobs)} ", end="",
                          file=sys.stderr, flush=True)
                self.run(*job)
        if sys.stderr.isatty():
            print("\r" + " " * 30 + "\r", end="", file=sys.stderr)

    def taken(self, case, names):
        """Microseconds of an algorithm in this case by kind of data; None where it was not run."""
        middle = min if self.args.statistic == "min" else statistics.median
        pooled = {}
        for name in names:
            for kind, values in self.times.get((*case, name), {}).items():
                pooled.setdefault(kind, []).extend(values)
        return {kind: round(middle(values), 3) for kind, values in pooled.items()} or None

    def rows(self):
        out = []
        for ranks in self.args.ranks:
            for collective in self.args.collectives:
                for size in SIZES:
                    prices, rule = self.explained(ranks, collective, size)
                    choice = f"{rule} (rule)" if rule and ":" in rule else rule or prices[0][0]
                    case = (ranks, collective, size)
                    by_kind = {name: self.taken(case, [name, "auto"] if name == choice else [name])
                               for name in dict.fromkeys([choice, *(name for name, _ in prices)])}
                    us = {name: round(statistics.geometric_mean(kinds.values()), 3)
                          for name, kinds in by_kind.items() if kinds}
                    if choice not in us:
                        continue  # fewer bytes than ranks
                    best = min(us, key=us.get)
                    out.append({"ranks": ranks, "collective": collective, "bytes": size,
                                "choice": choice, "best": best,
                                "ratio": round(us[choice] / us[best], 3), "us": us,
                                "us_by_data": {name: by_kind[name] for name in us},
                                "model_us": dict(prices)})
        return out


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of mpirun, mpi-bench and pomona")
    parser.add_argument("-n", "--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--collectives", nargs="+", default=COLLECTIVES, choices=COLLECTIVES)
    parser.add_argument("--transport", default="shm", choices=["shm", "tcp"])
    parser.add_argument("--hosts", type=int, default=0, help="network namespaces that the ranks are on")
    parser.add_argument("--rate", type=int, default=1000, help="Mb/s of each host's cable")
    parser.add_argument("--links", default="", help="costs to choose by, as the parameter links")
    parser.add_argument("-r", "--repeat", type=int, default=5)
    parser.add_argument("-t", "--time", type=float, default=0.02, help="seconds per size and run")
    parser.add_argument("--statistic", choices=["p50", "min"], default="p50")
    parser.add_argument("--data", nargs="+", default=["same", "fresh"], choices=["same", "fresh"],
                        help="that lies where it lay, or is written anew before each call")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds, then it judges what it has")
    parser.add_argument("--limit", type=float, default=1.25, help="ratio that is good enough")
    parser.add_argument("--json", help="write everything to this file")
    args = parser.parse_args()
    args.bin = str(Path(args.bin).resolve())
    if args.hosts and any(ranks % args.hosts for ranks in args.ranks):
        parser.error("every host has as many ranks as the others")
    if args.hosts and args.links:
        parser.error("--rate says what links between --hosts take")
    return args


def main():
    args = parse()
    if args.hosts == 0:
        return judge(args, None)
    if not host_world.possible():
        return 77
    world = host_world.HostWorld(args.hosts)
    try:
        world.shape(args.rate)
        return judge(args, world)
    finally:
        world.close()


def judge(args, world):
    choices = Choices(args, world)
    load = [round(os.getloadavg()[0], 2)]
    choices.repeat()
    load.append(round(os.getloadavg()[0], 2))
    rows = choices.rows()
    print(f"{'ranks':>5} {'collective':<15}{'size':>8}  {'choice':<26}{'us':>10}  {'best':<26}"
          f"{'us':>10}{'ratio':>7}")
    for row in rows:
        mark = "  <-" if row["ratio"] > args.limit else ""
        print(f"{row['ranks']:>5} {row['collective']:<15}{show(row['bytes']):>8}  {row['choice']:<26}"
              f"{row['us'][row['choice']]:>10.2f}  {row['best']:<26}{row['us'][row['best']]:>10.2f}"
              f"{row['ratio']:>7.2f}{mark}")
    good = sum(row["ratio"] <= args.limit for row in rows)
    worst = max((row["ratio"] for row in rows), default=0)
    near = sum(row["ratio"] <= 1.15 for row in rows)
    print(f"{good} of {len(rows)} choices are within {args.limit} of the best, {near} within 1.15, "
          f"the worst at {worst}")
    if args.json:
        document = {"schema": 1, "tool": "choices", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "command": "tests/bench/choices.py " + " ".join(sys.argv[1:]),
                    "cores": os.cpu_count(), "load": load, "statistic": args.statistic,
                    "repetitions": args.repeat, "transport": "hosts" if world else args.transport, "links": args.links,
                    "data": args.data, "half_round_trip_us": choices.latencies,
                    "good": good, "within 1.15": near, "rows": rows}
        keep(document, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
