"""Runs on every rank: metrics, the report of all ranks, the timeline, spans in torch's profiler.
Argument: a folder; then, if only some are to run, names of tests that take none."""

import json
import os
import re
import sys
import threading
import time

import torch
import torch.distributed as dist

import pomona
from pomona import _backends, sight

RANK = int(os.environ["RANK"])


def all_reduce_with_late_rank_1(length, seconds=0.0):
    """Rank 1 calls it after all others have."""
    others = [rank for rank in range(dist.get_world_size()) if rank != 1]
    if RANK == 1:
        for other in others:
            dist.recv(torch.zeros(1), other)
        time.sleep(seconds)
        dist.all_reduce(torch.ones(length))
        return
    work = dist.all_reduce(torch.ones(length), async_op=True)
    dist.send(torch.zeros(1), 1)
    work.wait()


def test_report():
    """Rank 1 comes late, and all are told who waited for it how long."""
    dist.barrier()
    pomona.metrics(reset=True)
    since = time.time_ns()
    for _ in range(5):
        all_reduce_with_late_rank_1(1 << 20, 0.05)
    dist.broadcast(torch.ones(1 << 20), 0)
    report = pomona.report(since)
    size = dist.get_world_size()
    assert report.waits[0][1] >= 0.25 and report.lasts[1] >= 5, report
    late, seconds = report.stragglers()[0]
    assert seconds >= 0.25 * (size - 1) and seconds == sum(row[late] for row in report.waits), report
    sums = report.operations["all_reduce"]
    assert sums["count"] == 5 * size and sums["seen"] == 5 * size, sums
    assert sums["bytes"] == 5 * size * 4 << 20, sums
    waiting, reducing, moving = report.moving_share("all_reduce")
    assert waiting > 0 and reducing > 0 and abs(waiting + reducing + moving - 1) < 1e-9, report
    # By value: each of the five took all but rank 1 at least the 50 ms that it was late.
    assert sums["waiting_seconds"] >= 0.25 * (size - 1) and sums["seconds"] >= sums["waiting_seconds"], sums
    assert abs(waiting - sums["waiting_seconds"] / sums["seen_seconds"]) < 1e-9, sums
    assert 50_000 <= sums["p50_us"] <= sums["p99_us"] <= 1.2 * 1e6 * sums["seconds"], sums
    own = pomona.metrics()["all_reduce"]
    assert own["count"] == 5 and (RANK == 1 or (own["p50_us"] >= 50_000 and own["waited_seconds"] > 0)), own
    assert report.operations["broadcast"]["reducing_seconds"] == 0, report.operations
    content = json.loads(report.json())
    assert content["stragglers"][0] == {"rank": late, "seconds": seconds}, content
    assert content["operations"]["all_reduce"]["waiting_share"] == waiting, content
    # Who waited for a message nobody has looked.
    assert content["operations"]["send"]["count"] > 0 and "moving_share" not in content["operations"]["send"], content
    assert 'pomona_moving_share{operation="send"}' not in report.prometheus(), report.prometheus()
    words = report.text()
    assert re.search(r"^send .* -  +-  +-$", words, re.M) and re.search(r"^all_reduce .*%  +\d+%  +\d+%$", words, re.M)
    assert "all_reduce" in words and re.search(r"^1 .*rank 0 0\.\d+ s", words, re.M), words
    same = [None] * size
    dist.all_gather_object(same, words)
    assert set(same) == {words}


def parts(kind):
    """Seconds of this rank's operations: all, waiting for others, adding, moving, which add up."""
    row = pomona.metrics()[kind]
    whole, waiting, adding, moving = (row[f"{key}seconds"] for key in ("", "waiting_", "reducing_", "moving_"))
    assert min(waiting, adding, moving) >= 0 and waiting <= whole, row
    assert abs(max(whole - waiting - adding, 0) - moving) < 1e-9, row
    return whole, waiting, adding, moving


def test_waiting_and_moving():
    """Each rank alone knows what of its time was waiting for others; what is left was moving."""
    size = dist.get_world_size()
    pomona.metrics(reset=True)
    for _ in range(5):  # short: 4 bytes, of which no adding is counted
        all_reduce_with_late_rank_1(1, 0.05)
    whole, waiting, adding, moving = parts("all_reduce")
    if RANK == 1:  # who comes last has waited for nobody
        assert waiting == 0 and moving == whole, (whole, waiting)
    else:
        assert waiting >= 0.25 and adding == 0 and moving <= whole - 0.25, (whole, waiting, moving)
    # Many more than are asked for at once.
    for _ in range(150):
        dist.all_reduce(torch.ones(1))
    assert pomona.metrics()["all_reduce"]["count"] == 155 and min(parts("all_reduce")[:2]) >= waiting
    # The same in a group of some ranks, of one host and of two; the others' times are none of its.
    for early in {0, size - 2}:
        pair = dist.new_group([early, size - 1])
        dist.barrier()
        pomona.metrics(reset=True)
        if RANK == early:
            work = dist.barrier(group=pair, async_op=True)
            dist.send(torch.zeros(1), size - 1)
            work.wait()
            assert parts("barrier")[1] >= 0.2, parts("barrier")
        elif RANK == size - 1:
            dist.recv(torch.zeros(1), early)
            time.sleep(0.2)
            dist.barrier(group=pair)
            assert parts("barrier")[1] == 0, parts("barrier")
    # Long ones that nobody is late for move, and a rank that is alone waits for nobody.
    own = [dist.new_group([rank]) for rank in range(size)][RANK]
    for group, alone in ((None, False), (own, True)):
        dist.barrier()
        pomona.metrics(reset=True)
        for _ in range(3):
            dist.all_reduce(torch.ones(4 << 20), group=group)
        whole, waiting, adding, moving = parts("all_reduce")
        assert moving > 0 and (adding > 0) != alone and (waiting == 0 or not alone), (whole, waiting, adding, moving)
    # Of messages nobody knows it.
    if RANK < 2:
        pomona.metrics(reset=True)
        (dist.send if RANK == 0 else dist.recv)(torch.zeros(1), 1 - RANK)
        told = pomona.metrics()["send" if RANK == 0 else "recv"]
        assert told["count"] == 1 and "waiting_seconds" not in told and "moving_seconds" not in told, told


def waited(call, late=0.3):
    """By rank 0 in all_reduce, where rank 1 sleeps before it calls; and the time of the call."""
    dist.barrier()
    pomona.metrics(reset=True)
    if RANK == 1:
        time.sleep(late)
    begin = time.monotonic()
    call()
    seconds = time.monotonic() - begin
    dist.barrier()
    return pomona.metrics()["all_reduce"]["waited_seconds"], seconds


def test_waiting_through_futures():
    """Who waits for a Future has waited, too; several that are waited for at once count once."""
    pending = []

    def several():
        pending[:] = [dist.all_reduce(torch.ones(1000), async_op=True).get_future() for _ in range(4)]
        torch.futures.wait_all(pending)

    def chained():
        future = dist.all_reduce(torch.ones(1000), async_op=True).get_future()
        future.then(lambda done: done.value()[0] / 2).wait()

    def later():  # what is over by then is not waited for
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        future = work.get_future()
        while not future.done():
            time.sleep(0.001)
        future.wait()

    for call in (several, chained):
        seconds, whole = waited(call)
        if RANK != 1:
            assert 0.2 < seconds <= whole, (call.__name__, seconds, whole)
        else:
            assert seconds <= whole + 0.01, (call.__name__, seconds, whole)
    seconds, whole = waited(later)
    assert seconds < 0.1, (seconds, whole)


def test_waiting_in_backward():
    """DistributedDataParallel waits for Futures where C++ does it: from the end of what this rank
    computes. With buckets that are over before, a hook of Python's, and other waits in a pass."""
    for hook in (None, lambda state, bucket: dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda done: done.value()[0] / dist.get_world_size())):
        layers = [torch.nn.Linear(200, 200) for _ in range(4)]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1)
        if hook:
            model.register_comm_hook(None, hook)
        for _ in range(3):  # the buckets are laid out anew after the first
            loss = model(torch.ones(4, 200)).sum()
            seconds, whole = waited(loss.backward)
            if RANK != 1:
                assert 0.2 < seconds <= whole, (hook, seconds, whole)
            else:
                assert seconds <= whole, (hook, seconds, whole)
    # An early bucket whose wait is over while this rank still computes has not been waited for.
    slow = torch.nn.Sequential(Slow(), torch.nn.Linear(200, 200), torch.nn.Linear(200, 200))
    model = torch.nn.parallel.DistributedDataParallel(slow, bucket_cap_mb=0.01)
    for _ in range(2):
        loss = model(torch.ones(4, 200, requires_grad=True)).sum()
        seconds, whole = waited(loss.backward)
    assert seconds < 0.2 and whole > 0.4, (seconds, whole)


class Slow(torch.nn.Module):
    """Whose backward pass takes longer than rank 1 is late."""

    def forward(self, x):
        return SlowFunction.apply(x)


class SlowFunction(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(0.5)
        return gradient


def test_prometheus():
    """Every line has the form that Prometheus reads, and each name has its HELP and TYPE first."""
    report = pomona.report()
    text = report.prometheus()
    line = re.compile(r'(pomona_\w+)\{(\w+="[^"]*",?)+\} [0-9.e+-]+')
    known, values = set(), {}
    assert text.endswith("\n") and 'pomona_operations_total{operation="all_reduce"}' in text, text
    for each in text.splitlines():
        if each.startswith("# TYPE "):
            known.add(each.split()[2])
        elif not each.startswith("#"):
            found = line.fullmatch(each)
            assert found and found[1] in known, each
            values[each.split()[0]] = float(each.split()[1])
    row = report.operations["all_reduce"]
    for name, key in (("operations_total", "count"), ("operation_bytes_total", "bytes"), ("operation_p99_us", "p99_us"),
                      ("operation_seconds_total", "seconds"), ("reducing_seconds_total", "reducing_seconds")):
        told = values[f'pomona_{name}{{operation="all_reduce"}}']
        assert abs(told - row[key]) <= 1e-8 * row[key] and told > 0, (name, told, row)
    shares = [values[f'pomona_{part}_share{{operation="all_reduce"}}'] for part in ("waiting", "reducing", "moving")]
    assert all(abs(told - share) < 1e-9 for told, share in zip(shares, report.moving_share("all_reduce"))), shares
    late = {rank: seconds for rank, seconds in report.stragglers()}
    told = {int(re.search(r'rank="(\d+)"', name)[1]): value for name, value in values.items() if "waited_for" in name}
    assert told.keys() == late.keys() and all(abs(told[rank] - late[rank]) <= 1e-8 * late[rank] for rank in late), told


def test_reset_loses_none():
    """Counts that are taken and begun anew, again and again, while a thread goes on, add up."""
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][RANK]
    pomona.metrics(reset=True)
    thread = threading.Thread(target=lambda: [dist.all_reduce(torch.ones(1), group=alone) for _ in range(3000)])
    thread.start()
    seen = 0
    while thread.is_alive():
        seen += pomona.metrics(reset=True).get("all_reduce", {"count": 0})["count"]
    thread.join()
    seen += pomona.metrics(reset=True).get("all_reduce", {"count": 0})["count"]
    assert seen == 3000, seen


def made_up(rank, *entries, until=100):
    """A rank's record of collectives on all of two ranks: (sequence, begin, end, failed) each."""
    names = "sequence", "created_ns", "ended_ns", "failed"
    rows = [dict(zip(names, entry), group="0", title="mpi:all_reduce", kind="all_reduce", message=False, peer=-1, sizes=[],
                 dtypes=[]) for entry in entries]
    return sight.RankRecord(rank, "host", rows, {"0": [0, 1]}, {}, until)


def test_records_of_a_group_that_is_made_again():
    """Its operations are numbered anew: those under way do not meet old ones of their number."""
    old = [made_up(rank, (1, 0, 2, False)) for rank in range(2)]
    assert len(sight.meetings(old)) == 1
    old[0].entries += made_up(0, (1, 90, 0, False)).entries
    old[1].entries += made_up(1, (1, 80, 95, False)).entries
    assert not sight.meetings(old)


def test_timeline_of_what_is_under_way():
    records = [made_up(0, (1, 10, 0, False), (2, 30, 40, False)), made_up(1)]
    first, second = (event for event in sight.make_trace(records).events if event["ph"] == "X")
    assert first["dur"] == 0.09 and first["args"]["under_way"] and "under_way" not in second["args"], (first, second)
    assert first["tid"] != second["tid"], (first, second)


def test_prometheus_of_large_counts():
    row = {"count": 123456789012345, "failed": 0, "bytes": 9007199254740993, "seconds": 0.1, "waited_seconds": 1e-7,
           "reducing_seconds": 0.0, "p50_us": 1.0, "p99_us": 2.0, "seen": 1, "seen_seconds": 0.2, "waiting_seconds": 0.05}
    text = sight.Report(["host"], {"all_reduce": row}, [[0.0]], [0]).prometheus()
    assert 'operations_total{operation="all_reduce"} 123456789012345\n' in text, text
    assert 'operation_bytes_total{operation="all_reduce"} 9007199254740993\n' in text, text
    assert 'wait_seconds_total{operation="all_reduce"} 1e-07\n' in text, text
    for part, share in (("waiting", 0.25), ("reducing", 0.0), ("moving", 0.75)):
        assert f'pomona_{part}_share{{operation="all_reduce"}} {share}\n' in text, text


class Shifted:
    """The glue of a rank whose clock is 5 s ahead."""

    def __init__(self, glue):
        self.glue = glue

    def __getattr__(self, name):
        return getattr(self.glue, name)

    def record_entries(self):
        entries = self.glue.record_entries()
        for raw in entries:
            raw["created_ns"] += AHEAD
            raw["ended_ns"] += AHEAD if raw["ended_ns"] else 0
        return entries


AHEAD = 5_000_000_000


def test_clocks():
    """Ranks that share no clock with rank 0 bring theirs together by messages."""
    dist.barrier()
    kept = sight._boot, sight._clock_ns, _backends.glue
    sight._boot = lambda: f"machine {RANK}"
    if RANK == 1:
        shifted = Shifted(_backends.glue())
        sight._clock_ns = lambda: time.time_ns() + AHEAD
        _backends.glue = lambda: shifted
    try:
        records = sight.gather_records()
    finally:
        sight._boot, sight._clock_ns, _backends.glue = kept
    last = [each for each in sight.meetings(records) if each.kind == "barrier"][-1]
    begins = [entry["created_ns"] for entry in last.entries.values()]
    ends = [entry["ended_ns"] for entry in last.entries.values()]
    # A barrier ends after everybody has come, by any right clock; a clock in seconds off breaks
    # that.
    assert max(ends) - min(ends) < 1e9 and max(begins) < min(ends) + 1e9, last


def test_timeline(folder):
    path = f"{folder}/step.json"
    with pomona.timeline(path):
        all_reduce_with_late_rank_1(1000)
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(2)]
        for work in works:
            work.wait()
    dist.barrier()
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [name.split(" (")[0] for _, name in sorted(names.items())] == [
        f"rank {rank}" for rank in range(dist.get_world_size())
    ], names
    spans = [event for event in events if event["ph"] == "X"]
    sums = [span for span in spans if span["name"] == "mpi:all_reduce"]
    assert len(sums) == 3 * dist.get_world_size() and sums[0]["args"]["sizes"] == [[1000]], spans
    assert any(span["name"] == "waits for rank 1" and span["pid"] == 0 for span in spans), spans
    by_row = {}
    for span in sums:
        by_row.setdefault((span["pid"], span["tid"]), []).append((span["ts"], span["ts"] + span["dur"]))
    for row in by_row.values():
        row.sort()
        assert all(one[1] <= other[0] for one, other in zip(row, row[1:])), by_row


def test_profiler():
    """Spans carry the name of the backend that was asked for."""
    other = dist.new_group(backend="pomona")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(4), group=other)
    names = {event.key for event in profile.key_averages()}
    assert {"mpi:all_reduce", "pomona:all_reduce"} <= names, names
    assert pomona.metrics()["all_reduce"]["count"] >= 2


def main():
    dist.init_process_group("mpi")
    if sys.argv[2:]:
        for name in sys.argv[2:]:
            globals()[name]()
        dist.destroy_process_group()
        sys.stdout.write(f"all of rank {RANK} passed\n")
        return
    test_report()
    test_waiting_and_moving()
    test_waiting_through_futures()
    test_waiting_in_backward()
    test_prometheus()
    test_prometheus_of_large_counts()
    test_reset_loses_none()
    test_records_of_a_group_that_is_made_again()
    test_clocks()
    test_timeline_of_what_is_under_way()
    test_timeline(sys.argv[1])
    test_profiler()
    dist.destroy_process_group()
    sys.stdout.write(f"all of rank {RANK} passed\n")


main()
