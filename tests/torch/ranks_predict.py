"""What pomona.predict.Recorder writes of DistributedDataParallel and of FSDP2, and that it changes
no result."""

import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from pomona.predict import Recorder

BLOCKS, WIDTH, NAP = 4, 256, 0.01  # 256 KiB a block; seconds of each block's backward pass
# Rank 0 has to wait for rank 1's buckets: what it computes in the meantime counts all the same.
LATE = 3


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(NAP * (LATE if dist.get_rank() == 1 else 1))
        return gradient


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.linear(Nap.apply(x))


def model_of(kind):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Block() for _ in range(BLOCKS)])
    if kind == "ddp":
        return DistributedDataParallel(model, bucket_cap_mb=0.25)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(kind, recorded):
    model = model_of(kind)
    recorder = Recorder(model) if recorded else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for number in range(4):
        torch.manual_seed(10 * number + dist.get_rank())
        x = torch.rand(3, WIDTH, requires_grad=True)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

        if recorder:
            with recorder.step():
                step()
        else:
            step()
    return losses, recorder


def check(kind, recording):
    events = recording["events"]
    starts = [event for event in events if "start" in event]
    waits = [event["wait"] for event in events if "wait" in event]
    computing = sum(event.get("compute_s", 0) for event in events)
    megabytes = 4 * sum(recording["parameters"]) / 1e6
    assert recording["kind"] == kind and recording["steps"] == 3, recording
    assert recording["parameters"] == [WIDTH * WIDTH] * BLOCKS
    assert sorted(waits) == list(range(len(starts))), waits
    assert computing > BLOCKS * NAP, computing
    sums = {}
    for event in starts:
        sums[event["start"]] = sums.get(event["start"], 0) + event["megabytes"]
    if kind == "ddp":
        assert len(starts) == BLOCKS and abs(sums["all_reduce"] - megabytes) < 1e-9, sums
    else:
        assert abs(sums["reduce_scatter"] - megabytes) < 1e-9, sums
        assert megabytes - 1e-9 < sums["all_gather"] < 2 * megabytes + 1e-9, sums


def predicted(path, folder):
    """`pomona predict` reads it."""
    network = os.path.join(folder, "network.json")
    with open(network, "w", encoding="utf-8") as file:
        file.write('{"hosts": [{"host": "a", "gigabits": 1}, {"host": "b", "gigabits": 1}]}')
    program = os.path.join(sys.argv[1], "pomona")
    done = subprocess.run([program, "predict", "--json", "--model", path, "--network", network],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    prediction = json.loads(done.stdout)
    assert prediction["step_s"] > BLOCKS * NAP and prediction["communication_s"] > 0.005, prediction


def main():
    dist.init_process_group("mpi")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("ddp", "fsdp2"):
            plain, _ = train(kind, False)
            calls = dist.all_reduce, dist.reduce_scatter_tensor
            losses, recorder = train(kind, True)
            assert losses == plain, (losses, plain)
            assert calls == (dist.all_reduce, dist.reduce_scatter_tensor), "not put back"
            path = os.path.join(folder, f"{kind}.json")
            check(kind, recorder.write(path))
            assert os.path.exists(path) == (dist.get_rank() == 0)
            if dist.get_rank() == 0:
                predicted(path, folder)
            try:
                Recorder(torch.nn.Linear(1, 1)).result()
                raise SystemExit("a recording of nothing")
            except RuntimeError as error:
                assert "step()" in str(error)
    dist.barrier()
    if dist.get_rank() == 0:
        print("all passed", flush=True)
    dist.destroy_process_group()
    sys.exit(0)


main()
