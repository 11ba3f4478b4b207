"""predict_step.py: one rank of tests/bench/predict.py: trains a small model whose computing is
sleep.

predict_step.py record FOLDER | measure STEPS [realtime]

So computing takes no processor, as on a GPU, and many hosts can stand on few cores. Prints, or
records, steps of DistributedDataParallel and of FSDP2. With realtime other programs do not delay
the ranks (SCHED_RR).
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import pomona  # noqa: F401

BLOCKS, WIDTH = 8, 512  # 1 MiB of fp32 each
FORWARD, BACKWARD = 0.005, 0.010  # seconds a block
BUCKET_MIB = 2


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        time.sleep(FORWARD)
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(BACKWARD)
        return gradient


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.linear(Sleep.apply(x))


def model_of(kind):
    model = torch.nn.Sequential(*[Block() for _ in range(BLOCKS)])
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=BUCKET_MIB)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def steps(model, count, around):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.ones(2, WIDTH, requires_grad=True)
    for _ in range(count):
        with around():
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()


class Clock:
    def __init__(self):
        self.seconds = []

    def __call__(self):
        return self

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *_):
        self.seconds.append(time.perf_counter() - self.begin)


def main():
    torch.set_num_threads(1)
    if sys.argv[3:] == ["realtime"]:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # threads that are made later too
    dist.init_process_group("mpi")
    out = {}
    for kind in ("ddp", "fsdp2"):
        model = model_of(kind)
        if sys.argv[1] == "record":
            from pomona.predict import Recorder

            recorder = Recorder(model)
            steps(model, 8, recorder.step)
            recorder.write(f"{sys.argv[2]}/{kind}.json")
        else:
            clock = Clock()
            steps(model, int(sys.argv[2]) + 2, clock)
            out[kind] = clock.seconds[2:]  # the first have other buckets, and connect
    if dist.get_rank() == 0 and out:
        print(json.dumps(out), flush=True)
    dist.destroy_process_group()


main()
