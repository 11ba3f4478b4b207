#!/usr/bin/env python3
"""Operations and training steps of torch.distributed over "mpi" against gloo, in many places.

torch_places.py BUILD [--python PYTHON] [--places NAMES] [-r TURNS] [--sizes BYTES] [--json FILE]

Runs torch_operations.py with 2 and 4 ranks of one machine, by shared memory and by TCP, and with 2
ranks on two hosts, which are network namespaces (tests/host_world.py) whose cable a token bucket
limits. gloo uses lo, and between hosts the cable. The goals for an all_reduce of written data,
by shared memory: 0.05 of gloo's time for 4 B, 0.2 for 4 MiB, 0.3 for 64 MiB. Hosts need Linux and
root; without, these places are left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import host_world  # noqa: E402

import hosts as hosts_bench  # noqa: E402
import predict  # noqa: E402
from plain_ring import ring_share  # noqa: E402

BY_TCP = ["--set", "transports=self,tcp"]
PLACES = {  # name: ranks, words for mpirun, Mb/s of the cable between hosts with a rank each
    "shm, 2 ranks": (2, [], None),
    "shm, 4 ranks": (4, [], None),
    "TCP, 2 ranks": (2, BY_TCP, None),
    "TCP, 4 ranks": (4, BY_TCP, None),
    "1 Gb/s, 2 hosts": (2, [], 1000),
    "10 Gb/s, 2 hosts": (2, [], 10000),
}


def measured(options, name, world):
    ranks, words, rate = PLACES[name]
    plain = {}
    build = Path(options.build).resolve()
    environment = dict(hosts_bench.clean(), PYTHONPATH=str(build / "python"), OMP_NUM_THREADS="1",
                       GLOO_SOCKET_IFNAME="eth0" if rate else "lo")
    handed = [word for each in ("PYTHONPATH", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME") for word in ("-x", each)]
    command = [build / "bin/mpirun", "-n", ranks, *words, *handed]
    if rate:
        predict.shape(world, rate)
        plain = {"plain_ring": ring_share(world, ranks, rate)}
        command = world.inside("h1", *command, "--ssh", world.enter, "--host", world.names(ranks))
    else:
        command.append("--oversubscribe")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        predict.run([*command, options.python, HERE / "torch_operations.py", "--json", report, "-r",
                     options.repeat, "--sizes", options.sizes], environment, timeout=3600)
        return {"place": name, **plain, **json.loads(report.read_text())}


def shown(row):
    print(f"{row['place']}, load {row['load'][0]} to {row['load'][1]}")
    for each in row["operations"]:
        ours, gloo = (each[way]["median"] for way in ("mpi", "gloo"))
        print(f"  {each['operation']:<24}{each['bytes']:>10} B {each['manner']:<9}{ours:>12.1f} us, gloo"
              f"{gloo:>12.1f}, {each['ratio']['median']:.3f}; least {each['ratio']['least']:.3f}")
    for each in row["steps"]:
        ours, gloo, alone = (each[way]["median"] / 1e3 for way in ("mpi", "gloo", "alone"))
        print(f"  step of {each['step']}: {ours:.1f} ms, gloo {gloo:.1f}, alone {alone:.1f}; exchange "
              f"{each['exchange, mpi']['median'] / 1e3:.1f} and {each['exchange, gloo']['median'] / 1e3:.1f}; hidden "
              f"{each['hidden, mpi']['median']} and {each['hidden, gloo']['median']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--python", default=sys.executable, help="that has torch")
    parser.add_argument("--places", default="; ".join(PLACES), help="of these, separated by ;")
    parser.add_argument("-r", "--repeat", type=int, default=5, help="turns")
    parser.add_argument("--sizes", default="4,4096,65536,1048576,4194304,67108864")
    parser.add_argument("--json")
    options = parser.parse_args()
    names = [name.strip() for name in options.places.split(";")]
    if unknown := [name for name in names if name not in PLACES]:
        parser.error(f"no place {unknown[0]!r}; there are: {'; '.join(PLACES)}")
    if not host_world.possible():
        names = [name for name in names if PLACES[name][2] is None]
    rows = []
    world = host_world.HostWorld(2) if any(PLACES[name][2] for name in names) else None
    try:
        for name in names:
            rows.append(measured(options, name, world))
            shown(rows[-1])
    finally:
        if world:
            world.close()
    if options.json:
        Path(options.json).write_text(json.dumps({
            "command": f"torch_places.py BUILD -r {options.repeat}" + (
                "" if names == list(PLACES) else f" --places '{'; '.join(names)}'"),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cores": os.cpu_count(),
            "unit": "us", "places": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
