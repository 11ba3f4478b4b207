"""all_reduce and DDP steps of CUDA tensors: backend "mpi" against gloo, in one run of the same
processes.

    PYTHONPATH=.build/release/python python tests/bench/cuda_allreduce.py --json cuda.json

Two processes (--ranks) share the GPU, or take one each where there are several; then NCCL is
measured too. "mpi": as users have it; "host": through pinned host memory; "peers": by memory that
the devices read from each other. Each repetition runs all ways, in another order. Times are of
all_reduce and the device's synchronisation, the slowest rank's, in us: the median and the least
over the repetitions. --others measures all_gather, reduce_scatter, broadcast and all_to_all too, by
the bytes of all ranks' parts together. --device cpu tries the script.
"""

import argparse
import json
import os
import random
import socket
import statistics
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing

KIB, MIB = 1024, 1024 * 1024
SIZES = [4 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
OURS, HOST, PEERS, GLOO, NCCL = "mpi", "mpi, host", "mpi, peers", "gloo", "nccl"
HOST_MEMORY, COPIES = "host memory, mpi", "one copy each way"
WAYS = {OURS: None, HOST: 0, PEERS: 1}  # POMONA_GLUE_PEER_BYTES


def device_of(args, rank):
    if args.device == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(actions, meet, device, repetitions):
    """{name: (median, least)} in microseconds, of the slowest rank."""
    names, warm, order = list(actions), 3, random.Random(1)  # the same order on all ranks
    times = {name: [] for name in names}
    for i in range(repetitions + warm):
        for name in order.sample(names, len(names)):
            synchronize(device)
            meet()
            start = time.perf_counter()
            actions[name]()
            synchronize(device)
            if i >= warm:
                times[name].append((time.perf_counter() - start) * 1e6)
    slowest = torch.tensor([times[name] for name in names], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return {name: (round(statistics.median(each), 1), round(min(each), 1))
            for name, each in zip(names, slowest.tolist())}


def check(groups, device, rank, size):
    """Right results, and what depends on streams: work before and after, async, averages, a CPU
    rank."""
    total = size * (size + 1) // 2
    for name, group in groups.items():
        for count in (1, 1000, 3 * MIB + 7):
            x = torch.full((count,), float(rank + 1), device=device)
            for _ in range(20):
                x.mul_(1.0)
            x.add_(1)
            work = dist.all_reduce(x, group=group, async_op=True)
            work.wait()
            x.add_(1)
            assert bool((x == total + size + 1).all()), (name, count, x)
            y = torch.full((count,), float(rank + 1), device=device)
            future = dist.all_reduce(y, group=group, async_op=True).get_future()
            z = future.then(lambda f: [f.value()[0] * 2]).wait()
            z = z[0] if isinstance(z, list) else z
            assert bool((z == 2 * total).all()), (name, count, z)
        mixed = torch.full((5 * MIB,), float(rank + 1), device=device if rank == 0 else "cpu")
        dist.all_reduce(mixed, group=group)
        assert bool((mixed == total).all()), (name, "mixed")
        dist.broadcast(mixed, 0, group=group)
        half = torch.full((1000,), 60000.0, device=device, dtype=torch.float16)
        dist.all_reduce(half, op=dist.ReduceOp.AVG, group=group)
        assert bool((half == 60000).all()), (name, half)


class Layers(torch.nn.Module):
    """25 million parameters in 50 layers, as a ResNet-50 has."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(710, 710) for _ in range(50))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def models(device):
    """Name, model and batch: the layers, and ResNet-50 itself where torchvision is there."""
    yield "layers", Layers(), torch.randn(64, 710, device=device)
    try:
        from torchvision.models import resnet50
    except ImportError:
        return
    yield "resnet50", resnet50(), torch.randn(16, 3, 224, 224, device=device)


def ddp_steps(groups, device):
    """{model: {way: a step}}; "alone" exchanges nothing."""
    steps = {}
    for title, model, x in models(device):
        model.to(device)
        steps[title] = {}
        for name, group in {"alone": None, **groups}.items():
            network = model
            if name != "alone":
                ids = [device] if device.type == "cuda" else None
                network = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, process_group=group)

            def step(network=network, x=x):
                network.zero_grad()
                network(x).sum().backward()

            steps[title][name] = step
    return steps


def measure_size(size, groups, device, repetitions, meet):
    x = torch.zeros(size // 4, device=device)
    host = torch.zeros(size // 4, pin_memory=device.type == "cuda")

    def both_ways():
        host.copy_(x, non_blocking=True)
        x.copy_(host, non_blocking=True)

    actions = {name: lambda group=group: dist.all_reduce(x, group=group) for name, group in groups.items()}
    actions[HOST_MEMORY] = lambda: dist.all_reduce(host, group=groups[HOST])
    actions[COPIES] = both_ways
    return measure(actions, meet, device, repetitions)


def others(size, ranks, device):
    """{operation: what calls it on a group}."""
    whole = torch.zeros(size // 4, device=device)
    again = torch.zeros(size // 4, device=device)
    part = torch.zeros(size // 4 // ranks, device=device)
    return {"all_gather_into_tensor": lambda group: dist.all_gather_into_tensor(whole, part, group=group),
            "reduce_scatter_tensor": lambda group: dist.reduce_scatter_tensor(part, whole, group=group),
            "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
            "all_to_all_single": lambda group: dist.all_to_all_single(again, whole, group=group)}


def measure_others(size, groups, device, repetitions, meet):
    """A row for each operation; ways that do not have it are left out."""
    for title, call in others(size, dist.get_world_size(), device).items():
        actions = {}
        for name, group in groups.items():
            try:
                call(group)
                actions[name] = lambda call=call, group=group: call(group)
            except (RuntimeError, NotImplementedError):
                pass  # on all ranks alike
        times = measure(actions, meet, device, repetitions)
        yield {"operation": title, "bytes": size,
               **{kind: {name: each[place] for name, each in times.items()} for place, kind in enumerate(("median", "least"))}}


def row_of(size, times):
    row = {"bytes": size}
    for place, kind in enumerate(("median", "least")):
        row[kind] = {name: each[place] for name, each in times.items()}
    medians = row["median"]
    ours = [name for name in medians if name.startswith("mpi")]
    for peer in (GLOO, NCCL):
        if peer in medians:
            row[f"over {peer}"] = {name: round(medians[name] / medians[peer], 3) for name in ours}
    through = medians[HOST_MEMORY] + medians[COPIES]
    row["over host memory and copies"] = {name: round(medians[name] / through, 3) for name in ours}
    return row


def try_nccl(rank, ranks):
    """What NCCL says of these ranks on these GPUs."""
    try:
        group = dist.new_group(list(range(ranks)), backend="nccl")
        dist.all_reduce(torch.ones(3, device="cuda"), group=group)
        torch.cuda.synchronize()
        return "works"
    except Exception as error:  # noqa: BLE001
        lines = str(error).splitlines()
        return next((line for line in lines if "uplicate" in line), lines[0])


def run(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(args.ranks))
    device = device_of(args, rank)
    result = {"command": "tests/bench/cuda_allreduce.py " + " ".join(sys.argv[1:]),
              "machine": args.machine, "device": str(device), "torch": torch.__version__,
              "ranks": args.ranks, "rows": [], "ddp": {}}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        result["device"] = torch.cuda.get_device_name(device)

    def say(*words):
        if rank == 0:
            print(*words, flush=True)
            if args.json:
                with open(args.json, "w", encoding="utf-8") as file:
                    json.dump(result, file, indent=1)

    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    import pomona

    groups = {}
    for name, peer_bytes in WAYS.items():
        os.environ.pop("POMONA_GLUE_PEER_BYTES", None)
        if peer_bytes is not None:
            os.environ["POMONA_GLUE_PEER_BYTES"] = str(peer_bytes)
        groups[name] = dist.new_group(backend="mpi")
    os.environ["POMONA_GLUE_PEER_BYTES"] = "0"
    for piece in args.pieces:
        os.environ["POMONA_GLUE_STAGE_BYTES"] = str(piece)
        groups[f"{HOST}, {piece // KIB} KiB"] = dist.new_group(backend="mpi")
    try:
        check(groups, device, rank, args.ranks)
        result["checked"] = True
    except Exception:
        print(f"rank {rank}:", traceback.format_exc(), flush=True)
        return
    result["pieces by peers"] = pomona._backends.glue().pieces_by_peers()  # 0: refused, or no CUDA
    say("checked; pieces by peers:", result["pieces by peers"])

    def meet():
        dist.barrier(group=groups[HOST])

    groups[GLOO] = None
    if device.type == "cuda" and args.ranks <= torch.cuda.device_count():
        groups[NCCL] = dist.new_group(backend="nccl")
    measure_size(4 * MIB, groups, device, 100 if device.type == "cuda" else 1, meet)  # clocks rise
    for size in args.sizes:
        repetitions = 7 if size >= 64 * MIB else 15 if size >= 4 * MIB else 60
        row = row_of(size, measure_size(size, groups, device, repetitions, meet))
        result["rows"].append(row)
        say(json.dumps(row))
    for peer in (GLOO, NCCL):
        over = [row[f"over {peer}"] for row in result["rows"] if f"over {peer}" in row]
        if over:
            result[f"over {peer}, mean"] = {name: round(statistics.mean(each[name] for each in over), 3)
                                            for name in over[0]}
    for size in [size for size in args.sizes if size >= 256 * KIB] if args.others else []:
        for row in measure_others(size, groups, device, 7 if size >= 64 * MIB else 15, meet):
            result.setdefault("others", []).append(row)
            say(json.dumps(row))
    for title, steps in ({} if args.no_ddp else ddp_steps(groups, device)).items():
        for name, times in measure(steps, meet, device, 10).items():
            result["ddp"].setdefault(title, {})[name] = dict(zip(("median", "least"), times))
        say("ddp", title, json.dumps(result["ddp"][title]))
    if device.type == "cuda" and args.nccl and NCCL not in groups:
        result["nccl"] = try_nccl(rank, args.ranks)
        say("nccl:", result["nccl"])
        os._exit(0)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--machine", default="", help="a few words for the JSON")
    parser.add_argument("--pieces", type=int, nargs="+", default=[], help="also other lengths of pieces, in bytes")
    parser.add_argument("--nccl", action="store_true", help="ranks share a GPU: last, try NCCL")
    parser.add_argument("--others", action="store_true", help="other operations, too")
    parser.add_argument("--no-ddp", action="store_true", help="without steps of DistributedDataParallel")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run, (args, port), nprocs=args.ranks)


if __name__ == "__main__":
    sys.exit(main())
