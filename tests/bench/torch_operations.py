#!/usr/bin/env python3
"""Each operation of torch.distributed, and training steps, over "mpi" against gloo: a rank.

    mpirun -n 2 -x PYTHONPATH python tests/bench/torch_operations.py --json FILE

The same processes have a group of each backend and call them in turns (torch_step.py); a time is
the slowest rank's. Manners: "in a row", calls one after the other, and "written", where the ranks
write their data and meet before each call, as training does. Before it is timed, both backends'
results are compared. Bytes are those of the whole vector: of all ranks' parts together where an
operation has parts. torch_places.py runs this over shared memory, TCP and networks.
"""

import argparse
import json
import os
import random
import statistics
import time
import warnings

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # noqa: F401  (registers "fake")
import torch_step
from torch_step import ALONE, GLOO, MIB, OURS, WAYS, load, measure

import pomona  # noqa: F401

LONG = ("all_reduce", "reduce_scatter_tensor", "all_gather_into_tensor")  # also of 64 MiB
ROW_MOST = 100  # calls in a row
ROW_BYTES = 2 * MIB  # that these may have together


class Vectors:
    """What the operations of one size work on."""

    def __init__(self, size):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        count = max(1, size // 4 // self.ranks)
        self.whole, self.other = torch.zeros(count * self.ranks), torch.zeros(count * self.ranks)
        self.part = torch.zeros(count)

    def write(self):
        for number, each in enumerate((self.whole, self.other, self.part)):
            each.fill_(self.rank + number + 1)

    def clear(self):
        for each in (self.whole, self.other, self.part):
            each.zero_()

    def all(self):
        return torch.cat([self.whole, self.other, self.part])

    def operations(self, group):
        whole, other, part = self.whole, self.other, self.part
        parts = list(other.chunk(self.ranks)) if self.rank == 0 else None

        def there_and_back():  # between neighbours; the time is of both ways
            peer = self.rank ^ 1
            if peer >= self.ranks:
                return
            if self.rank < peer:
                dist.send(whole, peer, group=group)
                dist.recv(other, peer, group=group)
            else:
                dist.recv(other, peer, group=group)
                dist.send(whole, peer, group=group)

        return {
            "all_reduce": lambda: dist.all_reduce(whole, group=group),
            "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part, group=group),
            "broadcast": lambda: dist.broadcast(whole, 0, group=group),
            "reduce": lambda: dist.reduce(whole, 0, group=group),
            "all_to_all_single": lambda: dist.all_to_all_single(other, whole, group=group),
            "gather": lambda: dist.gather(part, parts, dst=0, group=group),
            "scatter": lambda: dist.scatter(part, parts, src=0, group=group),
            "send and recv": there_and_back,
            "barrier": lambda: dist.barrier(group=group),
        }


def agree(name, vectors, actions):
    results = []
    for way in WAYS:
        vectors.write()
        actions[way]()
        if name == "reduce" and vectors.rank != 0:  # undefined but at the root
            vectors.clear()
        results.append(vectors.all())
    if not torch.equal(*results):
        raise SystemExit(f"torch_operations: {name} of {vectors.whole.numel()} floats: the results differ")


def measure_written(actions, vectors, meet, turns, calls):
    """As measure(), but each call has data that was just written, and is timed by itself; of
    several the first is not, which finds what the other backend has left in the caches."""
    names, order = list(actions), random.Random(1)
    times = {name: [] for name in names}
    for turn in range(turns + 1):
        for name in order.sample(names, len(names)):
            for call in range(calls):
                vectors.write()
                meet()
                start = time.perf_counter()
                actions[name]()
                if turn > 0 and (call > 0 or calls == 1):
                    times[name].append((time.perf_counter() - start) * 1e6)
    slowest = torch.tensor([times[name] for name in names], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return {name: {"median": round(statistics.median(each), 2), "least": round(min(each), 2)}
            for name, each in zip(names, slowest.tolist())}


def operation_rows(sizes, meet, groups, turns):
    for number, size in enumerate(sizes):
        vectors = Vectors(size)
        each = {way: vectors.operations(groups[way]) for way in WAYS}
        for name in each[OURS]:
            if size > 4 * MIB and name not in LONG or name == "barrier" and number > 0:
                continue
            actions = {way: each[way][name] for way in WAYS}
            agree(name, vectors, actions)
            calls = max(1, min(ROW_MOST, ROW_BYTES // size))
            for manner, times in (
                    ("in a row", measure(actions, meet, turns, calls, before=vectors.clear)),
                    ("written", measure_written(actions, vectors, meet, turns, min(calls, 10)))):
                ratio = {kind: round(times[OURS][kind] / times[GLOO][kind], 3) for kind in ("median", "least")}
                yield {"operation": name, "bytes": size, "manner": manner, **times, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", required=True, help="rank 0 writes the results here")
    parser.add_argument("--sizes", default="4,4096,65536,1048576,4194304,67108864")
    parser.add_argument("-r", "--repeat", type=int, default=5, help="turns")
    parser.add_argument("--width", type=int, default=1024, help="of each layer of the steps' model")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64, help="rows of a rank")
    parser.add_argument("--bucket", type=float, default=8, help="MiB, of DistributedDataParallel")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")  # from the launcher's MASTER_ADDR; groups of each kind are made in it
    groups = {OURS: dist.new_group(backend=OURS), GLOO: dist.new_group(backend=GLOO),
              ALONE: dist.new_group(backend="fake")}

    meeting = torch.zeros(1)

    def meet():
        dist.all_reduce(meeting, group=groups[OURS])

    result = {"ranks": dist.get_world_size(), "torch": torch.__version__, "load": [load()]}
    result["operations"] = list(operation_rows(map(int, args.sizes.split(",")), meet, groups, args.repeat))
    x = torch.randn(args.batch, args.width, generator=torch.Generator().manual_seed(dist.get_rank()))
    result["steps"] = [torch_step.step_row(kind, args, x, groups, meet)
                       for kind in (torch_step.Ddp, torch_step.Fsdp)]
    result["load"].append(load())
    if dist.get_rank() == 0:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
