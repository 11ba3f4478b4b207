"""hosts.py: jobs over several hosts, beside Debian's Open MPI: start, large sums, and what a lost host costs.

hosts.py BUILD [-r ROUNDS] [--rate MEGABITS] [--json FILE]

The hosts are network namespaces joined by a virtual switch (tests/host_world.py), each with a stand-in
for ssh; both launchers run on the first one. Measured in turns: from the start of mpirun to its end
for programs that only begin and end, two ranks on each of 2, 4 and 8 hosts; an allreduce of 64 MiB
with one rank on each of 2 and 4 hosts whose cables a token bucket limits, against the time that the
bytes need (2 (n - 1) / n of them through each cable); and the time from the end of a host's agent to
that of mpirun. Linux and root.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import host_world  # noqa: E402

BYTES = 64 << 20


def clean():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "POMONA_"))}
    return dict(env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


class Library:
    def __init__(self, name, mpicc, launcher, world):
        self.name = name
        self.launcher = launcher
        self.program = os.path.join(world.place, name)
        self.world = world
        subprocess.run([mpicc, "-O2", str(HERE / "hosts.c"), "-o", self.program], check=True,
                       env=clean())

    def command(self, hosts, each, *words):
        names = ",".join(f"h{i}:{each}" for i in range(1, hosts + 1))
        return self.world.inside("h1", *self.launcher, "--host", names, "-n", hosts * each,
                                 self.program, *words)

    def run(self, hosts, each, *words):
        begin = time.perf_counter()
        done = subprocess.run(self.command(hosts, each, *words), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env=clean(), timeout=300)
        took = time.perf_counter() - begin
        if done.returncode != 0:
            sys.exit(f"{self.name}: {done.stderr}")
        return took, [float(line) for line in done.stdout.split()]


def libraries(options, world):
    build = Path(options.build).resolve()
    out = [Library("pomona", build / "bin/mpicc",
                   [build / "bin/mpirun", "--ssh", world.enter, "--bind-to", "none"], world)]
    # Debian's packages openmpi-bin and libopenmpi-dev.
    found = subprocess.run(["mpicc.openmpi", "--showme:incdirs"], capture_output=True, text=True) \
        if shutil.which("mpirun.openmpi") and shutil.which("mpicc.openmpi") else None
    if found and any(os.path.exists(os.path.join(d, "mpi.h")) for d in found.stdout.split()):
        out.append(Library("openmpi", "mpicc.openmpi",
                           ["mpirun.openmpi", "--mca", "plm_rsh_agent", world.enter, "--mca",
                            "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "eth0",
                            "--bind-to", "none", "--oversubscribe"], world))
    return out


def shape(world, megabits):
    for number in range(1, world.count + 1):
        for space, end in ((world.space(f"h{number}"), "eth0"), (world.space("sw"), f"p{number}")):
            subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", end, "root", "tbf", "rate",
                            f"{megabits}mbit", "burst", str(max(128 << 10, megabits * 20)),
                            "latency", "50ms"], check=True)


def lost_host(library, world, rounds):
    """Milliseconds from the end of a host's agent to that of mpirun."""
    out = []
    for _ in range(rounds):
        world.forget_shells()
        job = subprocess.Popen(library.command(2, 1, str(1 << 10), "100000000"),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean(),
                               stdin=subprocess.DEVNULL)
        job.stdout.readline()  # it is under way
        begin = time.perf_counter()
        for pid in world.shells("h2"):
            os.kill(pid, signal.SIGKILL)
        while job.stdout.read(65536):
            pass
        job.wait()
        out.append((time.perf_counter() - begin) * 1e3)
    return out


def arguments(about, rounds):
    """What benchmarks over hosts are called with; `about`: the caller's description."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-r", "--rounds", type=int, default=rounds)
    parser.add_argument("--rate", type=int, default=1000, help="of the cables, in Mb/s")
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    options = arguments(__doc__, 9)
    if not host_world.possible():
        return 77
    result = {"command": f"hosts.py BUILD -r {options.rounds} --rate {options.rate}",
              "cores": os.cpu_count(), "start_ms": {}, "allreduce_64MiB": {}, "lost_host_ms": {}}
    world = host_world.HostWorld(8)
    try:
        both = libraries(options, world)
        for hosts in (2, 4, 8):
            times = {each.name: [] for each in both}
            for _ in range(options.rounds):
                for each in both:
                    times[each.name].append(each.run(hosts, 2)[0] * 1e3)
            row = {name: {"median": round(statistics.median(all_), 1), "quickest": round(min(all_), 1)}
                   for name, all_ in times.items()}
            result["start_ms"][str(hosts)] = row
            print(f"start, 2 ranks on each of {hosts} hosts, ms: {row}", flush=True)
        shape(world, options.rate)
        for hosts in (2, 4):
            bound = 2 * (hosts - 1) / hosts * BYTES / (options.rate * 1e6 / 8)
            times = {each.name: [] for each in both}
            for _ in range(max(options.rounds // 3, 2)):
                for each in both:
                    times[each.name] += each.run(hosts, 1, str(BYTES), "3")[1]
            row = {name: {"median_s": round(statistics.median(all_), 4),
                          "of_bound": round(bound / statistics.median(all_), 3)}
                   for name, all_ in times.items()}
            result["allreduce_64MiB"][str(hosts)] = dict(row, bound_s=round(bound, 4))
            print(f"allreduce of 64 MiB on {hosts} hosts at {options.rate} Mb/s: {row}", flush=True)
        times = lost_host(both[0], world, min(options.rounds, 5))
        result["lost_host_ms"] = {"median": round(statistics.median(times), 1),
                                  "most": round(max(times), 1)}
        print(f"from the end of a host's agent to that of mpirun, ms: {result['lost_host_ms']}")
    finally:
        world.close()
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
