#!/usr/bin/env python3
"""Training steps, calls and memory of torch.distributed over "mpi", on CPU tensors, against gloo
(bound to lo) in the same run.

    PYTHONPATH=.build/release/python python tests/bench/torch_step.py --json torch_step.json

Times: the same processes have a group of each backend, and call them in turns, in another order
each time; all ranks meet before each call, a time is the slowest rank's, the median and the least
of all turns are kept.
- calls: in a group of one rank, where nobody is waited for: what Python, torch and the backend
  cost.
- steps: of DistributedDataParallel and of FSDP2, each beside one that exchanges nothing ("alone":
  the hook gives buckets back; torch's "fake" group), and beside what the step exchanges without a
  step around it ("exchange"). hidden = 1 - (step - alone) / exchange: the part of the communication
  that the step does not wait for. Before that, the weights of all ways are compared.
Memory (Linux): one set of processes for each backend. In KiB of a rank: what the first group takes,
what an operation takes beside its tensors at its most, and what of it stays.
The load of the machine stands beside each part; on a busy one trust the least, and ratios.
"""

import argparse
import json
import os
import random
import socket
import statistics
import sys
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing

MIB = 1024 * 1024
OURS, GLOO, ALONE = "mpi", "gloo", "alone"
WAYS = (OURS, GLOO)


def load():
    return round(os.getloadavg()[0], 1)


def measure(actions, meet, turns, calls=1, warm=3, before=None):
    """{name: {"median", "least"}} in microseconds a call, of the slowest rank. before() is called
    before the ranks meet."""
    names, order = list(actions), random.Random(1)  # the same order on all ranks
    times = {name: [] for name in names}
    for turn in range(turns + warm):
        for name in order.sample(names, len(names)):
            action = actions[name]
            if before:
                before()
            meet()
            start = time.perf_counter()
            for _ in range(calls):
                action()
            if turn >= warm:
                times[name].append((time.perf_counter() - start) * 1e6 / calls)
    slowest = torch.tensor([times[name] for name in names], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return {name: {"median": round(statistics.median(each), 2), "least": round(min(each), 2)}
            for name, each in zip(names, slowest.tolist())}


def call_rows(own, meet, turns):
    """`own`: {way: this rank's group of one}."""
    x, whole = torch.zeros(1), torch.zeros(1)
    operations = {
        "all_reduce": lambda group: dist.all_reduce(x, group=group),
        "all_reduce, async_op, wait": lambda group: dist.all_reduce(x, group=group, async_op=True).wait(),
        "all_gather_into_tensor": lambda group: dist.all_gather_into_tensor(whole, x, group=group),
        "barrier": lambda group: dist.barrier(group=group),
    }
    for name, call in operations.items():
        actions = {way: lambda call=call, group=group: call(group) for way, group in own.items()}
        yield {"call": name, **measure(actions, meet, turns, calls=200)}


def make_model(width, layers):
    torch.manual_seed(1)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def step_of(network, optimizer, x):
    def step():
        optimizer.zero_grad()
        network(x).square().mean().backward()
        optimizer.step()
    return step


class Ddp:
    """Steps of DistributedDataParallel, and the sums that one makes."""

    title = "DistributedDataParallel"

    def __init__(self, args, x, groups):
        self.steps, self.models, self.buckets = {}, {}, []
        for way, group in groups.items():
            model = make_model(args.width, args.layers)
            network = torch.nn.parallel.DistributedDataParallel(
                model, process_group=groups[OURS] if way == ALONE else group, bucket_cap_mb=args.bucket)
            if way == ALONE:
                network.register_comm_hook(None, self.given_back)
            self.models[way] = model
            self.steps[way] = step_of(network, torch.optim.SGD(model.parameters(), lr=0.01), x)

    def given_back(self, _, bucket):
        if bucket.index() == 0:
            self.buckets.clear()
        self.buckets.append(bucket.buffer().numel())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def exchanges(self, group):
        tensors = [torch.zeros(count) for count in self.buckets]

        def exchange():
            for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]:
                work.wait()
        return exchange

    def weights(self, way):
        return torch.cat([p.detach().flatten() for p in self.models[way].parameters()])


class Fsdp:
    """Steps of FSDP2: each layer is gathered twice, and its gradients are scattered once."""

    title = "FSDP2"

    def __init__(self, args, x, groups):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        self.steps, self.models, self.args = {}, {}, args
        for way, group in groups.items():
            mesh = DeviceMesh.from_group(group, "cpu")
            model = make_model(args.width, args.layers)
            for layer in model:
                if isinstance(layer, torch.nn.Linear):
                    fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            self.models[way] = model
            self.steps[way] = step_of(model, torch.optim.SGD(model.parameters(), lr=0.01), x)

    def exchanges(self, group):
        size, layers = dist.get_world_size(group), self.args.layers
        count = self.args.width * (self.args.width + 1)
        part = torch.zeros(-(-count // size))
        whole = torch.zeros(len(part) * size)

        def exchange():
            for _ in range(2 * layers):
                dist.all_gather_into_tensor(whole, part, group=group, async_op=True).wait()
            for _ in range(layers):
                dist.reduce_scatter_tensor(part, whole, group=group, async_op=True).wait()
        return exchange

    def weights(self, way):
        return torch.cat([p.full_tensor().detach().flatten() for p in self.models[way].parameters()])


def hidden(row):
    for way in WAYS:
        each = {}
        for kind in ("median", "least"):
            exposed = max(0.0, row[way][kind] - row[ALONE][kind])
            each[kind] = round(1 - exposed / row["exchange, " + way][kind], 3)
        row["hidden, " + way] = each


def step_row(kind, args, x, groups, meet):
    case = kind(args, x, groups)
    for way in groups:
        for _ in range(2):
            case.steps[way]()
    ours, theirs = case.weights(OURS), case.weights(GLOO)
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6), f"{case.title}: the backends' weights differ"
    actions = dict(case.steps)
    for way in WAYS:
        actions["exchange, " + way] = case.exchanges(groups[way])
    row = {"step": case.title, "load": [load()], **measure(actions, meet, args.repeat)}
    row["load"].append(load())
    hidden(row)
    return row


def memory_of(field):
    with open("/proc/self/smaps_rollup" if field == "Pss" else "/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))


def memory_rows(size):
    ranks = dist.get_world_size()
    whole, again = (torch.ones(size // 4 // ranks * ranks) for _ in range(2))
    part = torch.ones(len(whole) // ranks)
    for title, call in {
            "all_reduce": lambda: dist.all_reduce(whole),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part),
            "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, whole),
            "broadcast": lambda: dist.broadcast(whole, 0),
            "all_to_all_single": lambda: dist.all_to_all_single(again, whole)}.items():
        dist.barrier()
        resident, share = memory_of("VmRSS"), memory_of("Pss")
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the peak starts anew
        try:
            for _ in range(3):
                call()
        except (RuntimeError, NotImplementedError) as error:  # gloo lacks some; on all ranks alike
            yield {"operation": title, "error": str(error).splitlines()[0]}
            continue
        peak = memory_of("VmHWM") - resident
        dist.barrier()
        yield {"operation": title, "peak": peak, "stays": memory_of("Pss") - share}


def init(backend, rank, ranks, port):
    os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)


def measure_memory(rank, args, port, backend, path):
    import pomona  # noqa: F401

    before = memory_of("Pss")
    init(backend, rank, args.ranks, port)
    dist.barrier()
    dist.all_reduce(torch.zeros(1))
    rows = [{"operation": "first group, one all_reduce of 4 bytes", "stays": memory_of("Pss") - before}]
    rows += memory_rows(args.bytes)
    most = [None] * args.ranks
    dist.all_gather_object(most, rows)
    if rank == 0:
        for each in zip(*most):
            for key in ("peak", "stays"):
                if key in each[0]:
                    each[0][key] = max(row[key] for row in each)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    dist.destroy_process_group()


def measure_times(rank, args, port, path):
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  (registers "fake")

    import pomona  # noqa: F401

    init("gloo", rank, args.ranks, port)
    groups = {OURS: dist.new_group(backend=OURS), GLOO: dist.new_group(backend=GLOO),
              ALONE: dist.new_group(backend="fake")}
    own = {}
    for each in range(args.ranks):
        for way in WAYS:
            group = dist.new_group([each], backend=way)
            if each == rank:
                own[way] = group

    def meet():
        dist.barrier(group=groups[OURS])

    result = {"calls": [], "steps": []}
    result["load of calls"] = [load()]
    result["calls"] = list(call_rows(own, meet, args.repeat))
    result["load of calls"].append(load())
    x = torch.randn(args.batch, args.width, generator=torch.Generator().manual_seed(rank))
    for kind in (Ddp, Fsdp):
        result["steps"].append(step_row(kind, args, x, groups, meet))
    if rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def spawned(function, args, *more):
    path = args.json + ".part"
    torch.multiprocessing.spawn(function, (args, free_port(), *more, path), nprocs=args.ranks)
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    os.remove(path)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", default="torch_step.json", help="where the results go")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("-r", "--repeat", type=int, default=20, help="turns")
    parser.add_argument("--width", type=int, default=1024, help="of each layer")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64, help="rows of a rank")
    parser.add_argument("--bucket", type=float, default=8, help="MiB, of DistributedDataParallel")
    parser.add_argument("--bytes", type=int, default=64 * MIB, help="tensors of the memory's part")
    parser.add_argument("--machine", default="", help="a few words for the JSON")
    args = parser.parse_args()
    result = {"command": "tests/bench/torch_step.py " + " ".join(sys.argv[1:]), "machine": args.machine,
              "cores": os.cpu_count(), "torch": torch.__version__, "ranks": args.ranks, "unit": "us, KiB",
              "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **spawned(measure_times, args)}
    if sys.platform == "linux":
        result["memory"] = {way: spawned(measure_memory, args, way) for way in WAYS}
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
