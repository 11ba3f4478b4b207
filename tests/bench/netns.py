"""netns.py: two network namespaces stand for two hosts (`mpi-bench versus --net 1,10,40,10x2`).

Idea: a veth pair joins them, a token bucket on both ends makes it a link of the asked rate; 10x2
are two such links side by side, by each of which Pomona has a TCP stream (POMONA_TCP_STREAMS). The
launchers of MPICH and Open MPI believe in two hosts: in place of ssh they get a script that enters
the namespace of the host named. Pomona's ranks are started into the namespaces directly, one
program each ("mpirun ... : ..."). A bare TCP ping-pong and stream over the same link stand beside.
Linux and root only; elsewhere this part says so and is left out.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compare import Goal  # noqa: E402
from namespaces import keep_order, shape_line  # noqa: E402

SUBNETS = ["10.213.7", "10.213.8", "10.213.9", "10.213.10"]  # one a cable
BURST_SECONDS = 100e-6  # what the token bucket lets through at once, at the link's rate


NAMES = ["pomb-a", "pomb-b"]  # the two hosts' names


def core_of(side):
    """Each side stays on a core of its own, where there are two."""
    return str(side if (os.cpu_count() or 1) > 1 else 0)


def quiet(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.returncode == 0


class Link:
    """The two namespaces; a context manager that takes them away again."""

    def __init__(self, scratch, cables=1):
        tag = os.getpid() % 100000
        self.spaces = [f"pomb{tag}a", f"pomb{tag}b"]
        self.ends = [f"pv{tag}a", f"pv{tag}b"]
        self.subnets = SUBNETS[:cables]
        self.addresses = [f"{SUBNETS[0]}.1", f"{SUBNETS[0]}.2"]
        self.cables = 1  # in use
        self.agent = Path(scratch) / "agent.sh"

    def __enter__(self):
        try:
            for space in self.spaces:
                quiet("ip", "netns", "add", space)
            for cable, subnet in enumerate(self.subnets):
                ends = [f"{end}{cable}" for end in self.ends]
                quiet("ip", "link", "add", ends[0], "netns", self.spaces[0], "type", "veth",
                      "peer", "name", ends[1], "netns", self.spaces[1])
                for side, (space, end) in enumerate(zip(self.spaces, ends)):
                    quiet("ip", "-n", space, "addr", "add", f"{subnet}.{side + 1}/24", "dev", end)
                    quiet("ip", "-n", space, "link", "set", end, "up")
                    quiet("ip", "-n", space, "link", "set", "lo", "up")
                    keep_order(space, end)
        except OSError:
            self.__exit__()
            raise
        self.write_agent()
        return self

    def __exit__(self, *_):
        for space in self.spaces:
            quiet("ip", "netns", "del", space, check=False)

    def shape(self, gigabits, cables=1):
        self.cables = cables
        burst = int(max(128 << 10, gigabits * 1e9 / 8 * BURST_SECONDS))
        for space, end in zip(self.spaces, self.ends):
            for cable in range(cables):
                shape_line(space, f"{end}{cable}", gigabits * 1000, burst, "20ms")

    def inside(self, side, command):
        """Runs `command` in one namespace, with a host name and a core of its own."""
        return ["ip", "netns", "exec", self.spaces[side], "taskset", "-c", core_of(side),
                "unshare", "--uts", "sh", "-c", f'hostname {NAMES[side]}; exec "$@"', "sh",
                *command]

    def write_agent(self):
        """What the launchers call in place of ssh: [options] host command..."""
        cases = "\n".join(f"    *{address}|{NAMES[side]}) space={self.spaces[side]} "
                          f"name={NAMES[side]} core={core_of(side)};;"
                          for side, address in enumerate(self.addresses))
        self.agent.write_text(f"""#!/bin/sh
# Runs the command in the network namespace that stands for the host.
while [ $# -gt 0 ]; do
  space=
  case "$1" in
{cases}
  esac
  shift
  [ -n "$space" ] && break
done
[ -n "$space" ] || exit 255
exec ip netns exec "$space" taskset -c "$core" unshare --uts sh -c "hostname $name; $*"
""")
        self.agent.chmod(0o755)


def usable(say):
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        say("--net needs Linux and root; the loopback groups show TCP here")
        return False
    missing = [tool for tool in ("ip", "tc", "unshare", "taskset") if not shutil.which(tool)]
    if missing:
        say(f"--net needs {', '.join(missing)} (packages iproute2 and util-linux)")
    return not missing


def environment_of(library, link, case):
    env = library.environment("tcp")
    if library.kind == "pomona":  # its launcher knows of one host only
        env["POMONA_IF_INCLUDE"] = ",".join(f"{subnet}.{side}" for side in (1, 2)
                                                for subnet in link.subnets[:link.cables])
        env.setdefault("POMONA_TCP_STREAMS", str(link.cables))
        if case == "overlap":
            env["POMONA_PROGRESS"] = "thread"
    if library.kind == "mpich":
        env.pop("MPIR_CVAR_NOLOCAL", None)
    if library.kind == "openmpi":
        net = ",".join(f"{subnet}.0/24" for subnet in link.subnets[:link.cables])
        for prefix in ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_"):
            env[prefix + "oob_tcp_if_include"] = net
        env.update({"OMPI_MCA_btl_tcp_if_include": net, "OMPI_MCA_pml": "ob1",
                    "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_plm_rsh_agent": str(link.agent),
                    "PRTE_MCA_plm_ssh_agent": str(link.agent),
                    "PRTE_MCA_prte_if_include": net})
    return env


def command_of(library, link, program):
    """One rank in each namespace."""
    hosts = ",".join(link.addresses)
    if library.kind == "mpich":
        launcher = [library.mpirun, "-bind-to", "none", "-launcher", "ssh", "-launcher-exec",
                    str(link.agent), "-hosts", hosts, "-n", "2", "-ppn", "1"]
        return link.inside(0, launcher + program)
    if library.kind == "openmpi":
        launcher = [library.mpirun, "--bind-to", "none", "-H", hosts, "--map-by", "node",
                    "-n", "2"]
        return link.inside(0, launcher + program)
    ranks = [["-n", "1"] + link.inside(side, program) for side in (0, 1)]
    return [library.mpirun, "--bind-to", "none"] + ranks[0] + [":"] + ranks[1]


class Shaped:
    """The groups of one link rate, or of several such links side by side."""

    def __init__(self, gigabits, Group, cables=1):
        def name(what):
            return (f"{what}, {gigabits:g} Gb/s link" if cables == 1
                    else f"{what}, {cables} links of {gigabits:g} Gb/s")
        self.groups = [
            Group(name("tcp latency"), "latency", "half round trip, us", sizes="8:4K",
                  transport="tcp", limit=f"tcp-latency {gigabits:g}", tags=("net",)),
            Group(name("tcp bandwidth"), "bandwidth", "GB/s", sizes="64K:4M", transport="tcp",
                  metric="algorithm_gbs", less_is_better=False,
                  limit=f"tcp-stream {gigabits:g}" if cables == 1 else None, tags=("net",)),
            Group(name("tcp allreduce"), "allreduce", "us", sizes="1M:64M", transport="tcp",
                  goal=Goal(None, 0.9), tags=("net",)),
            Group(name("overlap of iallreduce"), "overlap", "percent hidden, no calls meanwhile",
                  sizes="4M:4M", transport="tcp", metric="extra:hidden %", less_is_better=False,
                  tags=("net",)),
        ]


class InNamespaces:
    """Stands in for versus.Run's way to start a library, keeping all else."""

    def __init__(self, run, link):
        self.run, self.link = run, link

    def __enter__(self):
        self.kept = (self.run.command, self.run.environment)
        self.run.hosts = 2
        self.run.command = lambda library, group, ranks, extra: command_of(
            library, self.link, [library.program, group.case, *extra])
        self.run.environment = lambda library, group: environment_of(
            library, self.link, group.case)
        return self

    def __exit__(self, *_):
        self.run.command, self.run.environment = self.kept
        self.run.hosts = None


def bare_tcp(run, link, program, gigabits):
    """The bare ping-pong and stream through this link, kept under the link's rate."""
    report = Path(run.scratch) / "tcp.json"
    server = subprocess.Popen(link.inside(1, [program, "limits", "--tcp-server",
                                              link.addresses[1]]))
    try:
        client = link.inside(0, [program, "limits", "--tcp-client", link.addresses[1], "-t",
                                 str(run.args.time), "--json", str(report)])
        try:
            done = subprocess.run(client, capture_output=True, text=True,
                                  timeout=run.args.timeout)
        except subprocess.TimeoutExpired:
            run.failures.append(f"bare TCP over the {gigabits:g} Gb/s link: no end within "
                                f"{run.args.timeout} s")
            return
        if done.returncode != 0:
            run.failures.append(f"bare TCP over the {gigabits:g} Gb/s link: {done.stderr[-300:]}")
            return
        for row in json.loads(report.read_text())["rows"]:
            value = row.get("algorithm_gbs", row["p50_us"])
            key = (f"{row['case']} {gigabits:g}", row["bytes"])
            run.limits.setdefault(key, []).append(value)
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(5)
        if server.poll() is None:
            server.kill()
            server.wait()


def parse_links(text):
    """Rate in Gb/s and number of links: "10", "10x2"."""
    rate, _, cables = text.partition("x")
    number = int(cables or 1)
    if not 1 <= number <= len(SUBNETS):
        raise ValueError(f"--net {text}: 1 to {len(SUBNETS)} links")
    return float(rate), number


def measure(args, run, libraries, Group, say, groups):
    """Runs the repetitions on every link; adds the groups whose rows were recorded."""
    if not args.net or not usable(say):
        return
    try:
        links = [parse_links(text) for text in args.net.split(",")]
        most = max(cables for _, cables in links)
        with Link(run.scratch, most) as link, InNamespaces(run, link):
            for rate, cables in links:
                link.shape(rate, cables)
                time.sleep(0.2)
                shaped = Shaped(rate, Group, cables)
                groups += shaped.groups
                for repetition in range(args.repeat):
                    bare_tcp(run, link, libraries[0].program, rate)
                    turn = repetition % len(libraries)
                    for group in shaped.groups:
                        for library in libraries[turn:] + libraries[:turn]:
                            run.measure(library, group, repetition)
                run.set_limits(shaped.groups)
    except OSError as error:
        say(f"--net: {error}")
