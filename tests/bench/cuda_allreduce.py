"""all_reduce and DDP steps of CUDA tensors: backend "mpi" against gloo, in one run of the same processes.

    PYTHONPATH=.build/release/python python tests/bench/cuda_allreduce.py --json cuda.json

--peers 1048576 adds a group whose sums from there on go by memory that the devices read from each other,
--nccl NCCL, which needs two GPUs. Two processes share the GPU, or take one each where there are
several. Times are of all_reduce and the device's synchronisation, the median over the repetitions,
the slower rank's. --device cpu tries the script.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing

PEERS = "mpi by peers"
OTHERS = ("gloo", "nccl")  # what "mpi" is compared to
KIB, MIB = 1024, 1024 * 1024
SIZES = [4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]


def device_of(args, rank):
    if args.device == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(group, device, action, repetitions):
    """Median microseconds, of the slower rank."""
    times = []
    for i in range(repetitions + 2):
        synchronize(device)
        dist.barrier()
        start = time.perf_counter()
        action()
        synchronize(device)
        if i >= 2:
            times.append((time.perf_counter() - start) * 1e6)
    slowest = torch.tensor([statistics.median(times)], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return round(slowest.item(), 1)


def check(groups, device, rank, say):
    """Right results, and what depends on streams: work before and after, async, averages, a CPU rank."""
    for name, group in groups.items():
        for size in (1, 1000, 3 * MIB + 7):
            x = torch.full((size,), float(rank + 1), device=device)
            for _ in range(20):
                x.mul_(1.0)
            x.add_(1)
            work = dist.all_reduce(x, group=group, async_op=True)
            work.wait()
            x.add_(1)
            assert bool((x == 6).all()), (name, size, x)
            y = torch.full((size,), float(rank), device=device)
            future = dist.all_reduce(y, group=group, async_op=True).get_future()
            z = future.then(lambda f: [f.value()[0] * 2]).wait()
            z = z[0] if isinstance(z, list) else z
            assert bool((z == 2).all()), (name, size, z)
        mixed = torch.full((5 * MIB,), float(rank + 1), device=device if rank == 0 else "cpu")
        dist.all_reduce(mixed, group=group)
        assert bool((mixed == 3).all()), (name, "mixed")
        dist.broadcast(mixed, 0, group=group)
        half = torch.full((1000,), 60000.0, device=device, dtype=torch.float16)
        dist.all_reduce(half, op=dist.ReduceOp.AVG, group=group)
        say("fp16 average of 60000", name, float(half[0]))


class Layers(torch.nn.Module):
    """25 million parameters in 50 layers, as a ResNet-50 has."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(710, 710) for _ in range(50))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def ddp_step(group, device, mixed_rank=None):
    torch.manual_seed(1)
    model = Layers().to(device)
    ids = [device] if device.type == "cuda" else None
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, process_group=group)
    x = torch.randn(64, 710, device=device)

    def step():
        model.zero_grad()
        model(x).sum().backward()

    return step


def run(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    device = device_of(args, rank)
    result = {"device": str(device), "torch": torch.__version__, "rows": [], "notes": []}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        result["device"] = torch.cuda.get_device_name(device)

    def say(*words):
        if rank == 0:
            result["notes"].append(" ".join(map(str, words)))
            print(*words, flush=True)
            if args.json:
                with open(args.json, "w", encoding="utf-8") as file:
                    json.dump(result, file, indent=1)

    dist.init_process_group("gloo", rank=rank, world_size=2)
    import pomona  # noqa: F401

    groups = {}
    os.environ["POMONA_GLUE_PEER_BYTES"] = "0"
    for piece in args.pieces:
        os.environ["POMONA_GLUE_STAGE_BYTES"] = str(piece)
        groups[f"mpi {piece // KIB} KiB"] = dist.new_group([0, 1], backend="mpi")
    if args.peers:
        os.environ["POMONA_GLUE_PEER_BYTES"] = str(args.peers)
        groups[PEERS] = dist.new_group([0, 1], backend="mpi")
    try:
        check(groups, device, rank, say)
        say("checked")
    except Exception:
        print(f"rank {rank}:", traceback.format_exc(), flush=True)
        say("check failed", traceback.format_exc())
        return
    if args.peers:
        say("pieces by peers:", pomona._backends.glue().pieces_by_peers())  # 0: refused, or no CUDA
    groups["gloo"] = None
    if args.nccl:
        groups["nccl"] = dist.new_group([0, 1], backend="nccl")
    for size in args.sizes:
        row = {"bytes": size}
        repetitions = 5 if size >= 64 * MIB else 15 if size >= 4 * MIB else 60
        x = torch.zeros(size // 4, device=device)
        for name, group in groups.items():
            row[name] = measure(group, device, lambda: dist.all_reduce(x, group=group), repetitions)
        first = next(iter(groups))
        host = torch.zeros(size // 4, pin_memory=device.type == "cuda")
        row["host memory, mpi"] = measure(
            None, device, lambda: dist.all_reduce(host, group=groups[first]), repetitions
        )

        def both_ways():
            host.copy_(x, non_blocking=True)
            x.copy_(host, non_blocking=True)

        row["one copy each way"] = measure(None, device, both_ways, repetitions)
        row["mpi over gloo"] = round(min(row[g] for g in groups if g not in OTHERS) / row["gloo"], 3)
        if args.peers:
            row["peers over gloo"] = round(row[PEERS] / row["gloo"], 3)
        if args.peers and args.nccl:
            row["peers over nccl"] = round(row[PEERS] / row["nccl"], 3)
        result["rows"].append(row)
        say(json.dumps(row))
    ddp = {"parameters": sum(p.numel() for p in Layers().parameters())}
    for name, group in groups.items():
        ddp[name] = measure(None, device, ddp_step(group, device), 8)
    result["ddp step"] = ddp
    say("ddp", json.dumps(ddp))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pieces", type=int, nargs="+", default=[1 * MIB, 2 * MIB, 4 * MIB])
    parser.add_argument("--peers", type=int, default=0, help="a group whose sums from BYTES on go by CUDA IPC")
    parser.add_argument("--nccl", action="store_true", help="also NCCL (a GPU for each process)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run, (args, port), nprocs=2)


if __name__ == "__main__":
    sys.exit(main())
