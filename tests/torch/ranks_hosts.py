"""One of two hosts: two processes by torch.multiprocessing, which meet the other host's two by a
store that each brings, first a TCPStore, then a FileStore. Nothing in the environment says
anything.

Usage: `ranks_hosts.py HOST ADDRESS PORT FILE`.
HOST is 0 or 1; ADDRESS and PORT are where host 0 serves, FILE is a path that both reach.
"""

import sys

import torch.distributed as dist
import torch.multiprocessing
from ranks_spawn import check

EACH, HOSTS = 2, 2


def child(local, kind, host, address, port, file):
    rank, size = int(host) * EACH + local, EACH * HOSTS
    store = (dist.FileStore(file, size) if kind == "file" else
             dist.TCPStore(address, int(port), size, is_master=rank == 0))
    check(store, rank, size)


if __name__ == "__main__":
    for kind in ("tcp", "file"):
        # By fork, since each import of torch takes seconds; ranks_spawn.py has the other way.
        torch.multiprocessing.start_processes(child, nprocs=EACH, args=(kind, *sys.argv[1:]), start_method="fork")
