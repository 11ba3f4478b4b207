"""What the ranks of a job have called, and how long they waited for each other.

    pomona.metrics()                             # this rank: counts, bytes, times of each operation
    with pomona.timeline("step.json"):           # on all ranks: who did what when, for ui.perfetto.dev
        train_one_step()
    report = pomona.report()                     # on all ranks: waiting, moving, reducing; who is late
    print(report.text()); report.json(); report.prometheus()

report() and timeline() are collective over the default group, whose clocks they bring together:
ranks of one machine share a clock; others send a tensor to rank 0 and back a few times, and the
quickest counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import importlib
import json
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from . import _backends
from ._trace import Trace

logger = logging.getLogger("pomona")

ROUNDS = 20  # of messages to rank 0 and back, of which the quickest tells the clocks' difference


def metrics(reset: bool = False) -> dict[str, dict[str, float]]:
    """What this process has called so far: {"all_reduce": {"count": ..., ...}, ...}.

    bytes: of the results; seconds: from the calls to the ends; waited_seconds: of these, a thread
    of the program was in wait(), of the work or of its Future (the Futures that are asked for in a
    backward pass, as by DistributedDataParallel, count as waited for from the pass's end);
    reducing_seconds: of these, this process was adding (parts of 4 KiB and more; where unlike
    operations that reduce are under way at a time, one of them has it all); waiting_seconds: of
    these, the group's last rank had not come (of those that came before the operation ended here);
    moving_seconds: the rest, what was neither waiting nor reducing (too little, down to 0, where
    one of these went on during the other); p50_us and p99_us: times of half and of 99 in 100 (upper
    ends of steps of a fifth); failed: operations that ended with an error, which are in none of the
    others.

    Ranks of other machines are asked when they came, which takes milliseconds (at the first call up
    to 0.2 s); the clocks are compared by messages, so half a round trip of error is possible.
    waiting_seconds and moving_seconds are missing where this process does not know them of every
    operation counted: of messages, where a rank has not answered within half a second (it is
    stopped, or gone), and of more than 16384 operations over machines since the last call.
    report() has what is seen with all ranks together only.
    """
    glue = _backends.glue()
    result: dict[str, dict[str, float]] = glue.metrics(reset)
    return result


def dump_record(prefix: str) -> str:
    """Writes what this process has called lately to PREFIX + rank, for torch's analyser
    (torchfrtrace).

    Beside it RANK.json has the same for people. Returns the path. Raises RuntimeError before the
    first process group, OSError where the file cannot be written.
    """
    from . import _record

    if not _backends.mpi_running():
        raise RuntimeError("pomona.dump_record: MPI does not run: call init_process_group first")
    return _record.dump(_backends.glue(), prefix, _backends.rank())


# ---- all ranks together


@dataclasses.dataclass
class RankRecord:
    """One rank's operations; times are those of rank 0's clock."""

    rank: int  # in the default group
    host: str
    entries: list[dict[str, Any]]
    groups: dict[str, list[int]]  # ranks of each group, as ranks of the default one
    metrics: dict[str, dict[str, float]]
    until_ns: int  # when they were taken


def _boot() -> str:
    """The same for processes that share a clock."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


def _distributed() -> Any:
    return importlib.import_module("torch.distributed")


def _clock_ns() -> int:
    return time.time_ns()


def _clock_offset(dist: Any, boots: list[str]) -> int:
    """What to add to this rank's clock for rank 0's. Collective."""
    import torch

    rank = dist.get_rank()
    others = [other for other, boot in enumerate(boots) if boot != boots[0]]
    # A group of "cuda:mpi" takes no tensors of the CPU.
    device = getattr(dist.distributed_c10d, "_get_object_coll_device", lambda: "cpu")()
    word = torch.zeros(1, dtype=torch.int64, device=device)
    if rank == 0:
        for other in others:
            for _ in range(ROUNDS):
                dist.recv(word, other)
                dist.send(torch.tensor([_clock_ns()], device=device), other)
        return 0
    if rank not in others:
        return 0
    quickest, offset = 0, 0
    for _ in range(ROUNDS):
        begin = _clock_ns()
        dist.send(word, 0)
        dist.recv(word, 0)
        end = _clock_ns()
        if quickest == 0 or end - begin < quickest:
            quickest, offset = end - begin, int(word.item()) - (begin + end) // 2
    return offset


def gather_records(since_ns: int = 0) -> list[RankRecord]:
    """What all ranks have called since a time of this rank's clock, on every rank. Collective.

    Of each rank the last 2000 operations at the most. Raises RuntimeError without a process group.
    """
    dist = _distributed()
    if not dist.is_initialized():
        raise RuntimeError("pomona: there is no process group yet: call init_process_group first")
    glue = _backends.glue()
    entries = [dict(raw) for raw in glue.record_entries() if raw["created_ns"] >= since_ns]
    until, groups, counted = time.time_ns(), glue.record_groups(), glue.metrics(False)
    boots: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(boots, _boot())
    offset = _clock_offset(dist, boots)
    for raw in entries:
        raw["created_ns"] += offset
        if raw["ended_ns"]:
            raw["ended_ns"] += offset
        raw["kind"] = raw["title"].rpartition(":")[2]
    own = RankRecord(dist.get_rank(), socket.gethostname(), entries, groups, counted, until + offset)
    records: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(records, own)
    return records


@dataclasses.dataclass
class Meeting:
    """A collective that all ranks of its group have ended: who came when."""

    kind: str
    group: str
    sequence: int
    entries: dict[int, dict[str, Any]]  # by rank

    @property
    def last(self) -> int:
        """The rank that came last."""
        return max(self.entries, key=lambda rank: (self.entries[rank]["created_ns"], rank))

    def waited_ns(self, rank: int) -> int:
        """How long `rank` was in it before the last one came."""
        entry = self.entries[rank]
        latest = self.entries[self.last]["created_ns"]
        return int(max(0, min(latest, entry["ended_ns"]) - entry["created_ns"]))


def meetings(records: list[RankRecord]) -> list[Meeting]:
    """The collectives that every rank of their group has in its record."""
    found: dict[tuple[str, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    members: dict[str, int] = {}
    for record in records:
        members.update({name: len(ranks) for name, ranks in record.groups.items()})
        for raw in record.entries:
            if raw["message"]:
                continue
            meeting = found[raw["group"], raw["sequence"]]
            if raw["ended_ns"] and not raw["failed"]:
                meeting[record.rank] = raw
            else:  # an older one of these names was of a group that has ended
                meeting.pop(record.rank, None)
    return [
        Meeting(next(iter(by_rank.values()))["kind"], group, sequence, by_rank)
        for (group, sequence), by_rank in found.items()
        if len(by_rank) == members.get(group)
    ]


SHARES = {
    "waiting_share": "part of their time before the last rank came, lately",
    "reducing_share": "part of their time of adding and the like",
    "moving_share": "part of their time that was neither",
}


@dataclasses.dataclass
class Report:
    """All ranks together. The same on every rank."""

    hosts: list[str]
    # By operation, sums over all ranks: count, failed, bytes, seconds, waited_seconds,
    # reducing_seconds as metrics() has them; p50_us, p99_us: the slowest rank's. And of the
    # operations that were seen at all ranks of their group (among the last 2000 of each): seen,
    # seen_seconds, waiting_seconds (until the last rank came).
    operations: dict[str, dict[str, float]]
    # waits[a][b]: seconds that rank a was in collectives to which rank b came last.
    waits: list[list[float]]
    lasts: list[int]  # how often each rank came last, where somebody waited for more than 10 us

    def moving_share(self, kind: str) -> tuple[float, float, float]:
        """Of an operation's time: waiting for peers, reducing, and moving (all else). They add up
        to 1. Of one that was not seen at all ranks of its group, as of messages, waiting is 0:
        json() and the others leave out its shares."""
        row = self.operations[kind]
        if not row["seconds"]:
            return 0.0, 0.0, 0.0
        waiting = row["waiting_seconds"] / row["seen_seconds"] if row["seen_seconds"] else 0.0
        reducing = min(row["reducing_seconds"] / row["seconds"], 1 - waiting)
        return waiting, reducing, 1 - waiting - reducing

    def stragglers(self) -> list[tuple[int, float]]:
        """(rank, seconds that all others together have waited for it), the worst first."""
        size = len(self.hosts)
        late = [(rank, sum(self.waits[other][rank] for other in range(size))) for rank in range(size)]
        return sorted(late, key=lambda pair: -pair[1])

    def json(self) -> str:
        """All fields, of each operation the shares of its time too, and the stragglers; times in
        seconds but where a name ends in _us."""
        content = dataclasses.asdict(self)
        for kind, row in content["operations"].items():
            if row["seen"]:
                row.update(dict(zip(SHARES, self.moving_share(kind))))
        content["stragglers"] = [{"rank": rank, "seconds": late} for rank, late in self.stragglers()]
        return json.dumps(content, indent=2)

    def text(self) -> str:
        """Two tables, for people."""
        lines = [
            f"{'operation':<28}{'count':>8}{'MB':>10}{'s':>9}{'p50 us':>9}{'p99 us':>9}"
            f"{'waiting':>9}{'reducing':>9}{'moving':>8}"
        ]
        for kind, row in sorted(self.operations.items(), key=lambda item: -item[1]["seconds"]):
            parts = [f"{share:.0%}" if row["seen"] else "-" for share in self.moving_share(kind)]
            waiting, reducing, moving = parts
            lines.append(
                f"{kind:<28}{row['count']:>8.0f}{row['bytes'] / 1e6:>10.2f}{row['seconds']:>9.3f}"
                f"{row['p50_us']:>9.0f}{row['p99_us']:>9.0f}{waiting:>9}{reducing:>9}{moving:>8}"
            )
        lines.append(f"{'rank':<6}{'host':<22}{'came last':>10}  others waited for it")
        for rank, seconds in self.stragglers():
            waiters = [
                f"rank {other} {row[rank]:.3f} s" for other, row in enumerate(self.waits) if row[rank] >= 0.0005
            ]
            lines.append(
                f"{rank:<6}{self.hosts[rank]:<22}{self.lasts[rank]:>10}  {seconds:.3f} s"
                + (f": {', '.join(waiters)}" if waiters else "")
            )
        return "\n".join(lines)

    def log(self) -> None:
        """text() at level info of the logger "pomona"."""
        logger.info("pomona: all ranks together\n%s", self.text())

    def prometheus(self) -> str:
        """The text format that Prometheus reads (exposition format 0.0.4)."""
        names = {
            "count": ("operations", "counter", "operations that have ended"),
            "failed": ("failed_operations", "counter", "operations that have ended with an error"),
            "bytes": ("operation_bytes", "counter", "bytes of their results"),
            "seconds": ("operation_seconds", "counter", "seconds from the calls to the ends"),
            "waited_seconds": ("wait_seconds", "counter", "seconds that the program waited for them"),
            "reducing_seconds": ("reducing_seconds", "counter", "seconds of adding and the like"),
            "p50_us": ("operation_p50_us", "gauge", "microseconds of half of the operations, slowest rank"),
            "p99_us": ("operation_p99_us", "gauge", "microseconds of 99 in 100, slowest rank"),
        }
        lines = []
        for key, (name, kind, text) in names.items():
            full = f"pomona_{name}" + ("_total" if kind == "counter" else "")
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
            lines += [f'{full}{{operation="{each}"}} {row[key]!r}' for each, row in self.operations.items()]
        for place, (name, text) in enumerate(SHARES.items()):
            lines += [f"# HELP pomona_{name} {text}", f"# TYPE pomona_{name} gauge"]
            lines += [
                f'pomona_{name}{{operation="{each}"}} {self.moving_share(each)[place]!r}'
                for each, row in self.operations.items()
                if row["seen"]
            ]
        full = "pomona_waited_for_seconds"
        lines += [f"# HELP {full} seconds that other ranks have waited for this one lately", f"# TYPE {full} gauge"]
        for rank, seconds in sorted(self.stragglers()):
            host = self.hosts[rank].replace("\\", r"\\").replace('"', r"\"")
            lines.append(f'{full}{{rank="{rank}",host="{host}"}} {seconds!r}')
        return "\n".join(lines) + "\n"


SLOWEST = ("p50_us", "p99_us")
LOCAL = ("waiting_seconds", "moving_seconds")  # some ranks may not know them: see moving_share()


def make_report(records: list[RankRecord]) -> Report:
    """What report() returns, of what gather_records() has returned."""
    operations: dict[str, dict[str, float]] = {}
    for record in records:
        for kind, row in record.metrics.items():
            total = operations.setdefault(kind, dict.fromkeys(("seen", "seen_seconds", "waiting_seconds"), 0.0))
            for key, value in row.items():
                if key in LOCAL:
                    continue
                old = total.get(key, 0.0)
                total[key] = max(old, value) if key in SLOWEST else old + value
    size = len(records)
    waits = [[0.0] * size for _ in records]
    lasts = [0] * size
    for meeting in meetings(records):
        if meeting.kind not in operations:
            continue  # counted anew since
        row = operations[meeting.kind]
        last = meeting.last
        waited = {rank: meeting.waited_ns(rank) / 1e9 for rank in meeting.entries}
        lasts[last] += max(waited.values()) > 1e-5
        for rank, entry in meeting.entries.items():
            waits[rank][last] += waited[rank]
            row["seen"] += 1
            row["seen_seconds"] += (entry["ended_ns"] - entry["created_ns"]) / 1e9
            row["waiting_seconds"] += waited[rank]
    return Report([record.host for record in records], operations, waits, lasts)


def report(since_ns: int = 0) -> Report:
    """What all ranks have called, and who kept whom waiting. Collective over the default group.

    `since_ns`: only operations after this time.time_ns() count for who waited for whom. Raises
    RuntimeError without a process group, DistBackendError where a rank does not call it within the
    group's timeout.
    """
    return make_report(gather_records(since_ns))


# ---- a timeline


def _lanes(entries: list[dict[str, Any]], until_ns: int) -> list[int]:
    """A row for each operation, so that those of a row do not overlap. By start."""
    free: list[tuple[int, int]] = []  # (end, row)
    rows: list[int] = []
    for raw in entries:
        if free and free[0][0] <= raw["created_ns"]:
            row = heapq.heappop(free)[1]
        else:
            row = len(free)
        heapq.heappush(free, (raw["ended_ns"] or until_ns, row))
        rows.append(row)
    return rows


def make_trace(records: list[RankRecord]) -> Trace:
    """All ranks' operations: a process for each rank, and in collectives the part spent waiting for
    whom."""
    trace = Trace()
    lasts = {(each.group, each.sequence): each for each in meetings(records)}
    starts = [raw["created_ns"] for record in records for raw in record.entries]
    zero = min(starts, default=0)
    for record in records:
        trace.process(record.rank, f"rank {record.rank} ({record.host})")
        entries = sorted(record.entries, key=lambda raw: int(raw["created_ns"]))
        for raw, row in zip(entries, _lanes(entries, record.until_ns)):
            begin, end = raw["created_ns"] - zero, (raw["ended_ns"] or record.until_ns) - zero
            facts = {key: raw[key] for key in ("group", "sequence", "sizes", "dtypes", "failed")}
            if raw["message"]:
                facts["peer"] = raw["peer"]
            if not raw["ended_ns"]:
                facts["under_way"] = True  # until the timeline's end
            trace.span(record.rank, row, raw["title"], begin, end, facts)
            meeting = None if raw["message"] else lasts.get((raw["group"], raw["sequence"]))
            waited = meeting.waited_ns(record.rank) if meeting else 0
            if meeting and waited > 0:
                trace.span(record.rank, row, f"waits for rank {meeting.last}", begin, begin + waited, {})
    return trace


@contextlib.contextmanager
def timeline(path: str) -> Iterator[None]:
    """Writes what all ranks called within it to `path` (on rank 0), for ui.perfetto.dev or chrome://tracing.

    Collective over the default group at its end. Of each rank the last 2000 operations at the most.
    An exception inside is passed on, and nothing is written then.
    """
    since = time.time_ns()
    yield
    records = gather_records(since)
    if _distributed().get_rank() == 0:
        make_trace(records).write(path)
