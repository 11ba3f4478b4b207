"""Two processes by torch.multiprocessing.spawn, and the one that spawns them.

Usage: `ranks_spawn.py STORE PLACE`.
STORE is "file" or "tcp", PLACE a path or a port. Neither the environment nor a URL says anything:
rank, size and store are arguments of init_process_group. The process that spawns is a world of its
own, with a HashStore, which no other process can reach.
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing

import pomona


def check(store, rank, size):
    dist.init_process_group("mpi", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    assert (dist.get_rank(), dist.get_world_size(), pomona.info()["size"]) == (rank, size, size)
    x = torch.full((1000,), rank + 1.0)
    dist.all_reduce(x)
    assert x.tolist() == [size * (size + 1) / 2] * 1000, x[0]
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(size)], objects
    dist.destroy_process_group()
    sys.stdout.write(f"rank {rank} of {size}: all passed\n")
    sys.stdout.flush()


def child(rank, kind, place):
    if kind == "file":
        store = dist.FileStore(place, 2)
    else:
        store = dist.TCPStore("127.0.0.1", int(place), 2, is_master=rank == 0)
    check(store, rank, 2)


if __name__ == "__main__":
    check(dist.HashStore(), 0, 1)
    torch.multiprocessing.spawn(child, nprocs=2, args=tuple(sys.argv[1:]))
