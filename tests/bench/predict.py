"""predict.py: what `pomona predict` says of training steps, held against measured ones.

predict.py BUILD [-r ROUNDS] [--python PYTHON] [--hosts 2,4,8] [--rates 100,1000]
    [--congestion NAME] [--realtime] [--set NAME=VALUE] [--json FILE]

The hosts are network namespaces (tests/host_world.py), one rank on each, whose cables a token
bucket limits to so many Mb/s. One step of DistributedDataParallel and one of FSDP2 are recorded
with two ranks on one host, through shared memory. For each number of hosts and rate `pomona links`
measures the network, `pomona predict` foretells the steps from the recording and that, and then
they run. The model's computing is sleep, so that the hosts do not share processors with each
other's computing (tests/bench/predict_step.py). TCP's congestion control is the system's, or what
--congestion says; the figures name it. On a machine that other programs use, --realtime
gives the ranks and `pomona links` precedence. Linux and root.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import host_world  # noqa: E402

import hosts as hosts_bench  # noqa: E402
from figures import keep  # noqa: E402
from namespaces import shape_line  # noqa: E402
from plain_ring import ring_share  # noqa: E402

STEPS = 6


def run(command, environment, timeout=600):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def shape(world, megabits):
    """As HostWorld.shape, but TCP keeps short queues before the bucket, as it does before real
    interfaces.

    Otherwise the answer to one message would wait for all of another that goes the same way. And
    the bucket lets through half a millisecond's worth at once; more would carry the start of each
    collective for nothing.
    """
    burst = max(16 << 10, megabits * 63)
    for number in range(1, world.count + 1):
        for space, end in ((world.space(f"h{number}"), "eth0"), (world.space("sw"), f"p{number}")):
            shape_line(space, end, megabits, burst)
        subprocess.run(["ip", "netns", "exec", world.space(f"h{number}"), "sh", "-c",
                        f"echo {2 * burst} > /proc/sys/net/ipv4/tcp_limit_output_bytes"], check=True)


class Cluster:
    def __init__(self, options, world):
        self.options, self.world = options, world
        self.build = Path(options.build).resolve()
        self.environment = dict(hosts_bench.clean(), PYTHONPATH=str(self.build / "python"),
                                OMP_NUM_THREADS="1", XDG_CACHE_HOME=world.place)
        self.precedence = ["chrt", "-r", "1"] if options.realtime else []
        self.sets = [word for each in options.set for word in ("--set", each)]
        self.words = ["realtime"] if options.realtime else []
        self.program = [options.python, HERE / "predict_step.py"]

    def mpirun(self, hosts, ranks, *words):
        names = ",".join(f"h{number}:{ranks}" for number in range(1, hosts + 1))
        return self.world.inside("h1", self.build / "bin/mpirun", "--ssh", self.world.enter, "--bind-to",
                                 "none", "-x", "PYTHONPATH", "-x", "OMP_NUM_THREADS", *self.sets, "--host", names, "-n",
                                 hosts * ranks, *self.program, *words, *self.words)

    def record(self):
        run(self.mpirun(1, 2, "record", self.world.place), self.environment)

    def probe(self, hosts):
        path = os.path.join(self.world.place, "network.json")
        names = ",".join(f"h{number}" for number in range(1, hosts + 1))
        report = run(self.world.inside("h1", *self.precedence, self.build / "bin/pomona", "links", "--ssh",
                                       self.world.enter, "--host", names, "--json"), self.environment)
        Path(path).write_text(report)
        return path, json.loads(report)["pairs"]

    def foretell(self, kind, network):
        return json.loads(run([self.build / "bin/pomona", "predict", "--json", "--network", network, "--model",
                               os.path.join(self.world.place, f"{kind}.json")], self.environment))

    def measure(self, hosts):
        return json.loads(run(self.mpirun(hosts, 1, "measure", STEPS), self.environment))


def row_of(cluster, hosts, rate, rounds):
    """Both kinds; the network is measured before each round, and the middle of the rounds
    counts."""
    foretold, measured, lines, hidden = {}, {}, [], {}
    plain = ring_share(cluster.world, hosts, rate)
    for _ in range(rounds):
        network, pairs = cluster.probe(hosts)
        lines.append(statistics.median(pair["gigabits"] for pair in pairs))
        took = cluster.measure(hosts)
        for kind in ("ddp", "fsdp2"):
            prediction = cluster.foretell(kind, network)
            foretold.setdefault(kind, []).append(prediction["step_s"])
            hidden[kind] = round(prediction["hidden"], 3)
            measured.setdefault(kind, []).append(statistics.median(took[kind]))
    rows = []
    for kind, all_ in measured.items():
        middle, said = statistics.median(all_), statistics.median(foretold[kind])
        rows.append({"kind": kind, "hosts": hosts, "megabits": rate,
                     "plain_ring": plain, "probed_megabits": round(1000 * statistics.median(lines)),
                     "predicted_ms": round(said * 1e3, 1), "measured_ms": round(middle * 1e3, 1),
                     "rounds_ms": [round(each * 1e3, 1) for each in all_], "hidden": hidden[kind],
                     "off": round(said / middle - 1, 3)})
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="that has torch")
    parser.add_argument("--hosts", default="2,4,8")
    parser.add_argument("--rates", default="100,1000", help="of the cables, in Mb/s")
    parser.add_argument("--congestion", help="TCP's congestion control, as cubic")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="as of mpirun")
    parser.add_argument("--realtime", action="store_true", help="the ranks take precedence")
    parser.add_argument("--json")
    options = parser.parse_args()
    if not host_world.possible():
        return 77
    counts = [int(each) for each in options.hosts.split(",")]
    rows = []
    world = host_world.HostWorld(max(counts))
    try:
        cluster = Cluster(options, world)
        cluster.record()
        for rate in (int(each) for each in options.rates.split(",")):
            shape(world, rate)
            control = hosts_bench.congestion(world, options.congestion)
            if control is None:
                return 1
            for hosts in counts:
                rows += row_of(cluster, hosts, rate, options.rounds)
    finally:
        world.close()
    off = [abs(row["off"]) for row in rows]
    result = {"command": f"predict.py BUILD -r {options.rounds} --hosts {options.hosts} --rates {options.rates}"
              + (f" --congestion {options.congestion}" if options.congestion else "")
              + " --realtime" * options.realtime + "".join(f" --set {each}" for each in options.set),
              "congestion": control, "cores": os.cpu_count(), "load": os.getloadavg()[0],
              "off_median": statistics.median(off),
              "off_worst": max(off), "rows": rows}
    print(f"off by {result['off_median']:.3f} in the median, {result['off_worst']:.3f} at worst")
    keep(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
