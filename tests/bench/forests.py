"""forests.py: collectives by trees that `pomona synthesize` found, beside what the library chooses
by price.

forests.py BUILD [-r ROUNDS] [--rate MEGABITS] [--json FILE]

Four hosts, network namespaces (tests/host_world.py) with one rank each: h1 is reached by all at the
rate, the others reach each other at a tenth of it. The network is described as it was set up, and
both kinds of jobs are given these rates; they run in turns. The program (lanes.c) checks its
results. Linux and root.
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
from namespaces import limit_packets, shape_line  # noqa: E402
from unlike import compiled_lanes, launcher, run, tc  # noqa: E402

SLOWER = 10
TRIES = 60
SIZES = {"allreduce": 1 << 20, "allgather": 256 << 10}  # that a rank gives


def limit(world, number, rate):
    """What a host sends has the rate to each other, or a tenth of it where neither is h1."""
    space = world.space(f"h{number}")
    limit_packets(space, "eth0", rate / SLOWER)
    tc(space, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", 10)
    tc(space, "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate", f"{rate}mbit",
       "burst", "32k", "cburst", "32k", "quantum", 6000)
    for other in range(1, 5):
        slow = 1 not in (number, other)
        tc(space, "class", "add", "dev", "eth0", "parent", "1:1", "classid", f"1:1{other}", "htb", "rate",
           f"{rate / SLOWER if slow else rate / 4}mbit", "ceil", f"{rate / SLOWER if slow else rate}mbit",
           "burst", "4k" if slow else "32k", "cburst", "4k" if slow else "32k", "quantum", 6000)
        tc(space, "filter", "add", "dev", "eth0", "protocol", "ip", "parent", "1:", "u32", "match", "ip", "dst",
           f"10.213.7.{other}", "flowid", f"1:1{other}")
    shape_line(world.space("sw"), f"p{number}", rate, 32 << 10)


def main():
    options = hosts.arguments(__doc__, 3)
    if not host_world.possible():
        return 77
    build = Path(options.build).resolve()
    world = host_world.HostWorld(4)
    rows = []
    try:
        program = compiled_lanes(world, build)
        for number in range(1, 5):
            limit(world, number, options.rate)
        rate = {pair: options.rate / (1 if pair[0] == 1 else SLOWER)
                for pair in ((a, b) for a in range(1, 5) for b in range(a + 1, 5))}
        network = os.path.join(world.place, "network.json")
        Path(network).write_text(json.dumps({
            "hosts": [{"host": f"h{n}"} for n in range(1, 5)],
            "pairs": [{"hosts": [f"h{a}", f"h{b}"], "gigabits": each / 1000, "latency_us": 100}
                      for (a, b), each in rate.items()]}))
        links = ",".join(["net=95000:2500:0.9"] + [f"{a - 1}-{b - 1}=95000:2500:{8000 / each:g}"
                                                  for (a, b), each in rate.items()])
        environment = dict(hosts.clean(), XDG_CACHE_HOME=world.place)
        launch = [*launcher(world, build), "--set", f"links={links}"]
        for collective, size in SIZES.items():
            found = subprocess.run([build / "bin/pomona", "synthesize", collective, str(size), "--keep", "--network",
                                    network, "--links", "built-in", "--tries", str(TRIES)], check=True,
                                   capture_output=True, text=True, env=environment).stdout
            times = {"chosen": [], "forest": []}
            whole = size if collective == "allreduce" else 4 * size
            for _ in range(options.rounds):
                for way in times:
                    sets = ["--set", "forests=none"] if way == "chosen" else []
                    out = run(world, environment, *launch, *sets, program, collective,
                              whole, 3, "block")
                    times[way] += [float(line) for line in out.split()]
            priced = re.findall(r"([\d.]+) ms; busiest", found)
            rows.append({"collective": collective, "bytes": size, "kept": "verified" in found,
                         "priced_ms": {"best_row": float(priced[0]), "forest": float(priced[1])},
                         "quickest_ms": {way: round(min(t) * 1e3, 3) for way, t in times.items()},
                         "median_ms": {way: round(statistics.median(t) * 1e3, 3) for way, t in times.items()},
                         "forest_of_chosen": round(min(times["forest"]) / min(times["chosen"]), 3)})
            print(rows[-1], flush=True)
    finally:
        world.close()
    if options.json:
        result = {"command": f"forests.py BUILD -r {options.rounds} --rate {options.rate}",
                  "cores": os.cpu_count(), "load": os.getloadavg()[0], "rows": rows}
        keep(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
