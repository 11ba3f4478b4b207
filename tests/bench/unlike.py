"""unlike.py: collectives among hosts that unlike links join: chosen by pairs, or by one number for
all.

unlike.py BUILD [-r ROUNDS] [--rate MEGABITS] [--json FILE]

Four hosts, network namespaces (tests/host_world.py) with one rank each, whose cables are limited.
`wifi`: one host has a tenth of the others' rate. `edge`: two hosts have a tenth of it between each
other alone. Jobs run in turns with the rates of the pairs as they were set (pairs), and with the
slowest pair's for all pairs (one), as it was before pairs had numbers of their own; both by the
parameter `links`, since what is measured on a busy machine says little. Linux and root.
"""

import os
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

HOSTS = "h1,h2,h3,h4"
SLOWER = 10
SIZES = (256 << 10, 2 << 20)


def tc(space, *words):
    subprocess.run(["tc", "-n", space, *map(str, words)], check=True)


def limit(world, host, rate, slow_to=None):
    """What `host` sends has this rate, and to the address `slow_to` a tenth."""
    space = world.space(host)
    subprocess.run(["tc", "-n", space, "qdisc", "del", "dev", "eth0", "root"], capture_output=True)
    limit_packets(space, "eth0", rate / SLOWER if slow_to else rate)
    tc(space, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", 10)
    tc(space, "class", "replace", "dev", "eth0", "parent", "1:", "classid", "1:10", "htb", "rate",
       f"{rate}mbit", "burst", "64k", "cburst", "64k", "quantum", 6000)
    tc(space, "class", "replace", "dev", "eth0", "parent", "1:", "classid", "1:20", "htb", "rate",
       f"{rate / SLOWER}mbit", "burst", "4k", "cburst", "4k", "quantum", 6000)
    if slow_to:
        tc(space, "filter", "add", "dev", "eth0", "protocol", "ip", "parent", "1:", "u32", "match",
           "ip", "dst", slow_to, "flowid", "1:20")


def shape(world, what, rate):
    for number in range(1, 5):
        slow_to = {2: "10.213.7.3", 3: "10.213.7.2"}.get(number) if what == "edge" else None
        slow = what == "wifi" and number == 3
        limit(world, f"h{number}", rate / SLOWER if slow else rate, slow_to)
        # What comes in by the switch.
        shape_line(world.space("sw"), f"p{number}", rate / SLOWER if slow else rate, 64 << 10)


def compiled_lanes(world, build):
    """The program of this and the benchmarks beside it (lanes.c)."""
    program = os.path.join(world.place, "lanes")
    subprocess.run([build / "bin/mpicc", "-O2", HERE / "lanes.c", "-o", program], check=True)
    return program


def launcher(world, build, names=HOSTS):
    """mpirun for a rank on each of four hosts."""
    return [build / "bin/mpirun", "--ssh", world.enter, "--bind-to", "none", "--host", names, "-n", 4,
            "--set", "if_include=10.213.7.0/24"]


def run(world, environment, *words):
    done = subprocess.run(world.inside("h1", *words), capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL, env=environment)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def measure(world, build, program, what, options, environment):
    shape(world, what, options.rate)
    launch = launcher(world, build)
    usual, slow = (f"100000:5000:{8000 * times / options.rate:g}" for times in (1, SLOWER))
    pairs = ["1-2"] if what == "edge" else ["0-2", "1-2", "2-3"]
    ways = {"pairs": ",".join([f"net={usual}"] + [f"{pair}={slow}" for pair in pairs]),
            "one": f"net={slow}"}
    rows = []
    for collective in ("allreduce", "allgather", "reduce_scatter"):
        for size in SIZES:
            times = {way: [] for way in ways}
            for _ in range(options.rounds):
                for way, links in ways.items():
                    out = run(world, environment, *launch, "--set", f"links={links}",
                              program, collective, size, 3, "block")
                    times[way] += [float(line) for line in out.split()]
            rows.append({"network": what, "collective": collective, "bytes": size,
                         "quickest_ms": {way: round(min(t) * 1e3, 3) for way, t in times.items()},
                         "median_ms": {way: round(statistics.median(t) * 1e3, 3)
                                       for way, t in times.items()},
                         "pairs_of_one": round(min(times["pairs"]) / min(times["one"]), 3)})
            print(rows[-1], flush=True)
    return {"network": what, "links": ways, "rows": rows}


def main():
    options = hosts.arguments(__doc__, 3)
    if not host_world.possible():
        return 77
    build = Path(options.build).resolve()
    found = []
    world = host_world.HostWorld(4)
    try:
        program = compiled_lanes(world, build)
        for what in ("wifi", "edge"):
            found.append(measure(world, build, program, what, options, hosts.clean()))
    finally:
        world.close()
    if options.json:
        result = {"command": f"unlike.py BUILD -r {options.rounds} --rate {options.rate}",
                  "cores": os.cpu_count(), "load": os.getloadavg()[0], "networks": found}
        keep(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
