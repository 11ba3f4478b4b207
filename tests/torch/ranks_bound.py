"""Runs on every rank: a group bound to a device (fake_device.cc), which torch splits others from.

Goal: init_process_group(device_id=...), new_group, split_group, a 2-d DeviceMesh of the device and
of CPUs, and shrink_group give groups that work with tensors of both. Method: sums whose value tells
who took part.
"""

import os
import sys
import types

import fake_device
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import pomona  # noqa: F401


def add_device():
    torch.utils.rename_privateuse1_backend("fake")
    module = types.ModuleType("torch.fake")
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.set_device = lambda index: None
    torch._register_device_module("fake", module)


def check(group, members):
    """The sum of the members' ranks, of a tensor of either kind."""
    for to, values in ((fake_device.to, fake_device.values), (torch.clone, torch.clone)):
        tensor = to(torch.full((3,), float(dist.get_rank())))
        dist.all_reduce(tensor, group=group)
        assert values(tensor).tolist() == [float(sum(members))] * 3, (values(tensor), members)


def main():
    add_device()
    dist.init_process_group(os.environ.get("TEST_BACKEND", "mpi"), device_id=torch.device("fake", 0))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert size == 4 and torch.accelerator.is_available()
    check(None, range(4))
    pair = dist.new_group([1, 3])
    if rank in (1, 3):
        check(pair, (1, 3))
    halves = [[0, 1], [2, 3]]
    check(dist.split_group(None, halves), halves[rank // 2])
    for kind in ("fake", "cpu"):
        mesh = init_device_mesh(kind, (2, 2), mesh_dim_names=("rows", "columns"))
        check(mesh["columns"].get_group(), halves[rank // 2])
        check(mesh["rows"].get_group(), (rank % 2, rank % 2 + 2))
    dist.barrier()
    if rank != 2:
        dist.shrink_group([2])
        assert dist.get_world_size() == 3
        check(None, range(3))
        dist.destroy_process_group()
    sys.stdout.write(f"rank {rank}: all passed\n")


main()
