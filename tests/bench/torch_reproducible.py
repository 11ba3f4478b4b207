#!/usr/bin/env python3
"""What sums cost whose bits depend on the summands alone (glue_sum=reproducible), against plain
ones.

    mpirun -n 2 python tests/bench/torch_reproducible.py [-r 9] [--json FILE]

Two groups of the same ranks, one made with the parameter and one without, take the same operations
in turns; each time is that of the slowest rank, and of the turns the medians are told. Data is
written before each operation, as gradients are.
"""

import argparse
import json
import os
import platform
import statistics
import time

import torch
import torch.distributed as dist

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]


def all_reduce(x, group):
    return lambda: dist.all_reduce(x, group=group)


def reduce_scatter(x, group):
    part = torch.empty(x.numel() // dist.get_world_size(group), dtype=x.dtype)
    return lambda: dist.reduce_scatter_tensor(part, x, group=group)


OPERATIONS = {
    "all_reduce of float32": (all_reduce, torch.float32, SIZES),
    "all_reduce of bfloat16": (all_reduce, torch.bfloat16, SIZES[2:4]),
    "all_reduce of float64": (all_reduce, torch.float64, SIZES[2:4]),
    "reduce_scatter_tensor of float32": (reduce_scatter, torch.float32, SIZES[2:4]),
}


def seconds(operation, times, x, source, group):
    """Of one operation, the slowest rank's."""
    spent = 0.0
    for _ in range(times):
        x.copy_(source)
        dist.barrier(group)
        begin = time.perf_counter()
        operation()
        spent += time.perf_counter() - begin
    slowest = torch.tensor([spent / times], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
    return slowest.item()


def measured(groups, make, dtype, size, turns):
    source = torch.randn(size // dtype.itemsize).to(dtype)
    x = source.clone()
    operations = {name: make(x, group) for name, group in groups.items()}
    times = max(1, min(50, (1 << 20) // size))
    spent = {name: [] for name in groups}
    for turn in range(turns + 1):
        for name, group in groups.items():
            taken = seconds(operations[name], times, x, source, group)
            if turn > 0:
                spent[name].append(taken)
    return {name: statistics.median(each) * 1e6 for name, each in spent.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", "--repeat", type=int, default=9)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    groups = {}
    for name in ("fast", "reproducible"):
        os.environ["POMONA_GLUE_SUM"] = name  # read when a group is made
        groups[name] = dist.new_group()
    rows = []
    for operation, (make, dtype, sizes) in OPERATIONS.items():
        for size in sizes:
            took = measured(groups, make, dtype, size, options.repeat)
            row = {"operation": operation, "bytes": size, **{f"{name}_us": round(us, 1) for name, us in took.items()},
                   "times": round(took["reproducible"] / took["fast"], 2)}
            rows.append(row)
            if dist.get_rank() == 0:
                print("{operation:34} {bytes:9} B {fast_us:10} us {reproducible_us:10} us {times:6}".format(**row),
                      flush=True)
    if options.json and dist.get_rank() == 0:
        load = os.getloadavg()[0]
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"command": f"mpirun -n {dist.get_world_size()} python tests/bench/torch_reproducible.py "
                                  f"-r {options.repeat}", "ranks": dist.get_world_size(), "cores": os.cpu_count(),
                       "machine": platform.machine(), "torch": torch.__version__, "load_at_end": round(load, 1),
                       "rows": rows}, out, indent=1)
            out.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
