"""A worker of torchrun's that goes on with as many hosts as are left: `ranks_elastic.py HOST FILE`.

In a world of two it calls all_reduce until that fails, and on HOST it writes its agent's number and
its own to FILE, so that somebody kills both. Started anew, alone, it has come through.
"""

import os
import socket
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.ones(3)
dist.all_reduce(x)
assert x.tolist() == [float(size)] * 3, x
if size == 2:
    if socket.gethostname() == sys.argv[1]:
        with open(sys.argv[2] + ".new", "w", encoding="ascii") as file:
            file.write(f"{os.getppid()} {os.getpid()}\n")
        os.rename(sys.argv[2] + ".new", sys.argv[2])
    while True:
        dist.all_reduce(torch.ones(1000))
sys.stdout.write(f"rank {rank} of {size} after {os.environ['TORCHELASTIC_RESTART_COUNT']} restarts: all passed\n")
