"""Runs the tests that stand in a file of ranks, once its group has been made."""

import sys

import torch
import torch.distributed as dist

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))  # what torch itself does differs by it


def run_tests(names, before=None):
    """Of `names`, the file's globals(), each test_NAME(rank, size) that the command line names, or
    all of them, with a barrier behind each; before(NAME) is called first. Rank 0 prints which have
    passed, and their number at the end."""
    rank, size = dist.get_rank(), dist.get_world_size()
    ran = 0
    for name, test in list(names.items()):
        if not name.startswith("test_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        if before:
            before(name)
        test(rank, size)
        dist.barrier()
        ran += 1
        if rank == 0:
            print("passed", name, flush=True)
    assert ran > 0, "no such test"
    if rank == 0:
        print(f"all {ran} passed", flush=True)
