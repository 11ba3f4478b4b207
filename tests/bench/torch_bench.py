#!/usr/bin/env python3
"""torch_bench.py: one rank of a torch.distributed benchmark on CPU tensors.

Method: as mpi-bench: before each call all ranks meet (in an all_reduce of one element), a sample is
the greatest time of the ranks for one call, the result is checked before and after timing. A DDP
step is timed in turns with one that is the same but for the exchange (its communication hook gives
each bucket back at once); the difference is the communication that the backward pass did not hide.
Ranks come from the launcher's RANK and WORLD_SIZE, or from mpirun.
"""

import argparse
import json
import statistics
import sys
import time
import warnings


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="gloo", help="gloo, mpi or pomona")
    parser.add_argument("--cases", default="all_reduce,reduce_scatter,all_gather,ddp")
    parser.add_argument("--sizes", default="4,1024,16384,262144,4194304,16777216")
    parser.add_argument("-t", "--time", type=float, default=0.1, help="seconds per size")
    parser.add_argument("--ddp-models", default="small", help="small, large or both: small,large")
    parser.add_argument("--json", help="rank 0 writes the results here")
    return parser.parse_args()


class Ranks:
    def __init__(self, backend):
        import torch
        import torch.distributed as dist
        if backend in ("mpi", "pomona"):
            import pomona  # noqa: F401  (registers the backend)
        self.torch, self.dist = torch, dist
        torch.set_num_threads(1)
        dist.init_process_group(backend=backend)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.meeting = torch.zeros(1)

    def meet(self):
        self.dist.all_reduce(self.meeting)

    def once(self, call):
        self.meet()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def timed_in_turns(self, calls, seconds):
        """For each of the calls the microseconds of all its samples, the maximum over the ranks."""
        for _ in range(3):
            once = sum(self.once(call) for call in calls)
        plan = self.torch.tensor([max(5.0, min(2000.0, len(calls) * seconds / max(once, 1e-6)))])
        self.dist.all_reduce(plan, op=self.dist.ReduceOp.MIN)
        samples = [[self.once(call) * 1e6 for call in calls] for _ in range(int(plan.item()))]
        slowest = self.torch.tensor(samples, dtype=self.torch.float64)
        self.dist.all_reduce(slowest, op=self.dist.ReduceOp.MAX)
        return slowest.T.tolist()

    def timed(self, call, seconds):
        return self.timed_in_turns([call], seconds)[0]


def require(good, what):
    if not good:
        sys.exit(f"torch_bench: wrong result: {what}")


def row_of(case, size, samples):
    samples = sorted(samples)
    return {"case": case, "bytes": size, "samples": len(samples),
            "p50_us": statistics.median(samples), "min_us": samples[0],
            "p99_us": samples[min(len(samples) - 1, int(len(samples) * 0.99))]}


def all_reduce(ranks, size, seconds):
    torch, dist = ranks.torch, ranks.dist
    count = max(1, size // 4)
    tensor = torch.full((count,), float(ranks.rank + 1))
    dist.all_reduce(tensor)
    expected = ranks.size * (ranks.size + 1) / 2
    require(bool((tensor == expected).all()), f"all_reduce of {size} bytes")
    tensor.zero_()  # so that repeated sums stay finite
    return ranks.timed(lambda: dist.all_reduce(tensor), seconds)


def reduce_scatter(ranks, size, seconds):
    torch, dist = ranks.torch, ranks.dist
    count = max(1, size // 4 // ranks.size)
    source = torch.arange(count * ranks.size, dtype=torch.float32) % 64
    out = torch.empty(count)

    def call():
        dist.reduce_scatter_tensor(out, source)
    call()
    mine = source[ranks.rank * count:(ranks.rank + 1) * count] * ranks.size
    require(torch.equal(out, mine), f"reduce_scatter of {size} bytes")
    samples = ranks.timed(call, seconds)
    require(torch.equal(out, mine), f"reduce_scatter of {size} bytes, after timing")
    return samples


def all_gather(ranks, size, seconds):
    torch, dist = ranks.torch, ranks.dist
    count = max(1, size // 4)
    source = torch.full((count,), float(ranks.rank))
    out = torch.empty(count * ranks.size)

    def call():
        dist.all_gather_into_tensor(out, source)
    call()
    expected = torch.arange(ranks.size, dtype=torch.float32).repeat_interleave(count)
    require(torch.equal(out, expected), f"all_gather of {size} bytes")
    samples = ranks.timed(call, seconds)
    require(torch.equal(out, expected), f"all_gather of {size} bytes, after timing")
    return samples


def ddp_rows(ranks, name, seconds):
    """A training step, and what of it is communication not hidden behind the backward pass."""
    torch = ranks.torch
    from torch.nn.parallel import DistributedDataParallel
    width = {"small": 128, "large": 4096}[name]
    torch.manual_seed(2 + ranks.rank)
    inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def given_back(_, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def step_of(exchanges):
        torch.manual_seed(1)
        layers = [torch.nn.Linear(64, width), torch.nn.ReLU()]
        for _ in range(3 if name == "large" else 1):  # 3 x 4096 x 4096: about 50 million parameters
            layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
        model = DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)))
        if not exchanges:
            model.register_comm_hook(None, given_back)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def step():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        return model, step

    model, step = step_of(True)
    _, silent = step_of(False)
    whole, rest = ranks.timed_in_turns([step, silent], seconds * 5)
    check = torch.cat([p.detach().flatten() for p in model.parameters()])
    least = check.clone()
    ranks.dist.all_reduce(least, op=ranks.dist.ReduceOp.MIN)
    require(torch.equal(check, least), f"DDP {name}: the ranks' weights differ")
    size = sum(p.numel() for p in model.parameters()) * 4
    communication = max(0.0, statistics.median(w - r for w, r in zip(whole, rest)))
    return [row_of(f"ddp step, {name}", size, whole),
            row_of(f"ddp communication, {name}", size, [communication])]


def main():
    args = parse()
    warnings.simplefilter("ignore", FutureWarning)  # torch renames functions between releases
    ranks = Ranks(args.backend)
    rows = []
    for case in args.cases.split(","):
        if case == "ddp":
            for name in args.ddp_models.split(","):
                rows += ddp_rows(ranks, name, args.time)
            continue
        for size in map(int, args.sizes.split(",")):
            rows.append(row_of(case, size, globals()[case](ranks, size, args.time)))
    if ranks.rank == 0:
        for row in rows:
            print(f"{row['case']:<28}{row['bytes']:>12} B {row['p50_us']:>12.1f} us")
        if args.json:
            with open(args.json, "w", encoding="utf-8") as out:
                json.dump({"schema": 1, "tool": "torch_bench", "backend": args.backend,
                           "torch": ranks.torch.__version__, "ranks": ranks.size, "rows": rows},
                          out, indent=1)
    ranks.meet()
    ranks.dist.destroy_process_group()


if __name__ == "__main__":
    main()
