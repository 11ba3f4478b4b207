"""lanes.py: FSDP's collectives on several hosts: two levels against flat rings.

lanes.py BUILD [-r ROUNDS] [--rate MEGABITS] [--json FILE]

The hosts are network namespaces (tests/host_world.py) whose cables a token bucket limits; two ranks
on each of 4. Allgather and reduce_scatter by ring, by hierarchical and as selection chooses, in
turns; the ranks of a host one after the other (block), or the hosts in turn (cyclic). Linux and
root.
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

WAYS = ("ring", "hierarchical", "auto")
SIZES = (64 << 10, 1 << 20, 16 << 20)


def measure(world, build, program, collective, size, order, rounds):
    """Seconds of each way, in turns."""
    times = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            command = world.inside(
                "h1", build / "bin/mpirun", "--ssh", world.enter, "--bind-to", "none", "--set",
                f"{collective}={way}", "--host", ",".join(f"h{i}:2" for i in range(1, 5)), "-n", 8,
                program, collective, size, 5, order)
            done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL, env=hosts.clean())
            if done.returncode != 0:
                sys.exit(f"{way}: {done.stderr}")
            times[way] += [float(line) for line in done.stdout.split()]
    return {way: statistics.median(all_) for way, all_ in times.items()}


def main():
    options = hosts.arguments(__doc__, 5)
    if not host_world.possible():
        return 77
    build = Path(options.build).resolve()
    rows = []
    world = host_world.HostWorld(4)
    try:
        program = os.path.join(world.place, "lanes")
        subprocess.run([build / "bin/mpicc", "-O2", HERE / "lanes.c", "-o", program], check=True)
        world.shape(options.rate)
        for collective in ("allgather", "reduce_scatter"):
            for order in ("block", "cyclic"):
                for size in SIZES:
                    took = measure(world, build, program, collective, size, order, options.rounds)
                    row = {"collective": collective, "order": order, "bytes": size,
                           "ms": {way: round(s * 1e3, 3) for way, s in took.items()},
                           "of_ring": round(took["hierarchical"] / took["ring"], 3),
                           "auto_of_ring": round(took["auto"] / took["ring"], 3)}
                    rows.append(row)
                    print(row, flush=True)
    finally:
        world.close()
    if options.json:
        result = {"command": f"lanes.py BUILD -r {options.rounds} --rate {options.rate}",
                  "cores": os.cpu_count(), "rows": rows}
        keep(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
