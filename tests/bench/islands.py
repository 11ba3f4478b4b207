"""islands.py: collectives of machines in islands (coll/islands.h), beside what is chosen otherwise
and other MPI libraries.

islands.py BUILD [-r ROUNDS] [--rate MEGABITS] [--peers FOLDER] [--no-install] [--json FILE]

Four hosts, network namespaces (tests/host_world.py) with one rank each. h1 and h2 reach each other
at the rate, and so do h3 and h4; each host's line to the others has a tenth of it, for all that it
sends them and, apart from that, for all that it gets from them. Jobs are given these rates,
numbered by pair (0 1, 2 3) or across them (0 2, 1 3), and run in turns: as chosen with the islands
in the catalog, as chosen without (--set NAME=ROW, by `pomona cost`), and by the newest wheels of
Open MPI and MPICH (peers.py; --no-install: of those in FOLDER or the cache), which know nothing of
the rates. The program (lanes.c) checks its results. Linux and root.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import host_world  # noqa: E402

import hosts  # noqa: E402
from figures import keep  # noqa: E402
from namespaces import limit_packets  # noqa: E402
from unlike import SLOWER, compiled_lanes, launcher, run, tc  # noqa: E402

SIZES = (64 << 10, 1 << 20)  # of a vector, or of all blocks
COLLECTIVES = ("allgather", "reduce_scatter", "allreduce", "bcast")
ORDERS = {"by pair": "h1,h2,h3,h4", "across": "h1,h3,h2,h4"}
MATE = {1: 2, 2: 1, 3: 4, 4: 3}


def limit(world, number, rate):
    """A host's line: what it sends its mate and the others, and what it gets from them."""
    for space, device, field in ((world.space(f"h{number}"), "eth0", "dst"), (world.space("sw"), f"p{number}", "src")):
        limit_packets(space, device, rate / SLOWER)
        tc(space, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", 20)
        for name, speed, burst in (("1:10", rate, "32k"), ("1:20", rate / SLOWER, "4k")):
            tc(space, "class", "add", "dev", device, "parent", "1:", "classid", name, "htb", "rate", f"{speed}mbit",
               "burst", burst, "cburst", burst, "quantum", 6000)
        tc(space, "filter", "add", "dev", device, "protocol", "ip", "parent", "1:", "u32", "match", "ip", field,
           f"10.213.7.{MATE[number]}", "flowid", "1:10")


def describe(path, names, rate):
    """The network's file, its hosts in the order of a job's."""
    Path(path).write_text(json.dumps({
        "hosts": [{"host": name, "gigabits": rate / SLOWER / 1000} for name in names.split(",")],
        "pairs": [{"hosts": pair, "gigabits": rate / 1000, "latency_us": 100, "cable": True}
                  for pair in (["h1", "h2"], ["h3", "h4"])]}))


def best_rows(build, network, collective, size):
    """The first row of `pomona cost`, and the first that is not `islands`."""
    out = subprocess.run([build / "bin/pomona", "cost", collective, str(size), "--network", network],
                         check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ +[\d.]+ us  (\S+)", out, re.MULTILINE)
    return rows[0], next(name for name in rows if not name.startswith("islands"))


def ways_of(world, launch, program, environment, words, instead, others):
    """What is measured, each by its name: functions that run once and return seconds."""
    def ours(*sets):
        return [float(line) for line in run(world, environment, *launch, *sets, program, *words).split()]

    ways = {"chosen": ours, "without": lambda: ours("--set", f"{words[0]}={instead}")}
    for other in others:
        ways[other.name] = lambda other=other: other.run(4, 1, *words)[1]
    return ways


def measure(ways, rounds):
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way, once in ways.items():
            times[way] += once()
    found = {}
    for name, statistic in (("quickest", min), ("median", statistics.median)):
        own = statistic(times["chosen"])
        found[f"{name}_ms"] = {way: round(statistic(each) * 1e3, 3) for way, each in times.items()}
        found[f"{name}_of"] = {way: round(own / statistic(each), 3) for way, each in times.items() if way != "chosen"}
    return found


def main():
    options = hosts.arguments(__doc__, 3, hosts.wheels_wanted)
    if not host_world.possible():
        return 77
    build = Path(options.build).resolve()
    world = host_world.HostWorld(4)
    rows = []
    try:
        program = compiled_lanes(world, build)
        others = hosts.wheels(options, world, "lanes.c")
        for number in range(1, 5):
            limit(world, number, options.rate)
        slow, quick = 8000 * SLOWER / options.rate, 8000 / options.rate
        environment = dict(hosts.clean(), XDG_CACHE_HOME=world.place)
        for order, names in ORDERS.items():
            pairs = ["0-1", "2-3"] if order == "by pair" else ["0-2", "1-3"]
            network = os.path.join(world.place, "network.json")
            describe(network, names, options.rate)
            links = ",".join([f"net=95000:2500:{slow:g}"] + [f"{pair}=95000:2500:{quick:g}" for pair in pairs])
            launch = [*launcher(world, build, names), "--set", f"links={links}"]
            for other in others:
                other.order = [int(name[1:]) for name in names.split(",")]
            for collective in COLLECTIVES:
                for size in SIZES:
                    block = size if collective in ("allreduce", "bcast") else size // 4
                    best, instead = best_rows(build, network, collective, block)
                    ways = ways_of(world, launch, program, environment, [collective, size, 3, "block"], instead, others)
                    rows.append({"collective": collective, "bytes": size, "order": order, "best_by_price": best,
                                 "without": instead, **measure(ways, options.rounds)})
                    print(rows[-1], flush=True)
    finally:
        world.close()
    if options.json:
        words = " --peers FOLDER" * bool(options.peers) + " --no-install" * options.no_install
        result = {"command": f"islands.py BUILD -r {options.rounds} --rate {options.rate}{words}",
                  "cores": os.cpu_count(), "load": os.getloadavg()[0], "rows": rows}
        keep(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
