"""Runs on every rank, under `mpirun --on-death continue`: ranks die, and the others train on.

HOW: "train" (rank 1 of 3 or more kills itself in a step of DistributedDataParallel), "first" (rank
0 does, which serves the store), "twice" (two, one after the other), "idle" (nobody has died),
"absent" (one that lives does not come), "alive" (the last rank is excluded though it lives),
"subgroup" (of a group that is not the default one), "leave" (after a death one leaves early),
"split" (groups of a group, made by their members).
"""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks_models import batch, close, make_model
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pomona

BACKEND = os.environ.get("TEST_BACKEND", "mpi")
STEPS = 12


def step(network, optimizer, number, rank, size):
    x, y = batch(number)
    optimizer.zero_grad()
    nn.functional.mse_loss(network(x[rank::size]), y[rank::size]).backward()
    optimizer.step()


def train_on(deaths):
    """`deaths`: {step: rank}, as numbered then. A step in which a rank died is made again."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    network = DistributedDataParallel(model)
    number = 0
    while number < STEPS:
        if deaths.get(number) == dist.get_rank():
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            step(network, optimizer, number, dist.get_rank(), dist.get_world_size())
        except dist.DistBackendError as error:
            assert "Timed out" not in str(error), error
            failed = pomona.failed_ranks()
            assert failed == [deaths.pop(number)], failed
            dist.shrink_group(failed)
            assert dist.get_backend() == BACKEND
            network = DistributedDataParallel(model)
            continue
        number += 1
    return list(model.parameters())


def reference():
    """Each step's gradient is the mean over all rows, however many ranks share them: sizes divide
    24."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number in range(STEPS):
        step(model, optimizer, number, 0, 1)
    return list(model.parameters())


def check_world(size):
    assert dist.get_world_size() == size, dist.get_world_size()
    x = torch.full((5,), float(dist.get_rank() + 1))
    dist.all_reduce(x)
    assert x.tolist() == [size * (size + 1) / 2] * 5, x
    objects = [None] * size
    dist.all_gather_object(objects, dist.get_rank())
    assert objects == list(range(size)), objects
    pair = dist.new_group([0, size - 1])
    if dist.get_rank() in (0, size - 1) and size > 1:
        x = torch.ones(3)
        dist.all_reduce(x, group=pair)
        assert x.tolist() == [2.0] * 3
    dist.barrier()


def train(rank, size):
    weights = train_on({5: 1})
    close(weights, reference(), "after a death")
    check_world(size - 1)


def first(rank, size):
    close(train_on({5: 0}), reference(), "after rank 0's death")
    check_world(size - 1)


def twice(rank, size):
    weights = train_on({3: 1, 8: 1})  # the second was rank 2 before
    close(weights, reference(), "after two deaths")
    check_world(size - 2)


def idle(rank, size):
    assert pomona.failed_ranks() == []


def absent(rank, size):
    if rank == 1:
        time.sleep(6)
        return
    dist.group.WORLD._get_backend(torch.device("cpu")).set_timeout(timedelta(seconds=1))
    try:
        pomona.failed_ranks()
    except dist.DistBackendError as error:
        assert "not all ranks that live have called failed_ranks()" in str(error), error
        return
    raise AssertionError("no error")


def alive(rank, size):
    """Nobody has died, and who is excluded does not take part."""
    if rank < size - 1:
        dist.shrink_group([size - 1])
        check_world(size - 1)
    else:
        time.sleep(2)


def subgroup(rank, size):
    """Ranks 1, 2 and 3 of the world lose the second of them, which lives on outside."""
    group = dist.new_group([1, 2, 3])
    if rank in (1, 3):
        group = dist.shrink_group([1], group)
        assert dist.get_process_group_ranks(group) == [1, 3]
        assert dist.get_backend(group) == BACKEND
        x = torch.tensor([float(rank)])
        dist.broadcast(x, src=3, group=group)
        assert x.item() == 3.0
    check_world(size)


def leave(rank, size):
    """After a death who waits for a rank that has ended hears of it, long before the timeout."""
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.barrier()
    except dist.DistBackendError:
        pass
    dist.shrink_group(pomona.failed_ranks())
    if dist.get_rank() == 0:
        return
    try:
        dist.barrier()
    except dist.DistBackendError as error:
        assert "Timed out" not in str(error), error
        return
    raise AssertionError("no error")


def split(rank, size):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_splitting and backend.supports_shrinking
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    mine = halves[rank >= size // 2]
    # Not all in as many groups: names must not depend on their number.
    alone = dist.split_group(None, [[0]])
    assert (alone is None) == (rank != 0)
    for part in (dist.split_group(None, halves), dist.split_group(dist.group.WORLD, halves[::-1])):
        assert (part.rank(), part.size()) == (mine.index(rank), len(mine))
        assert dist.get_process_group_ranks(part) == mine and dist.get_backend(part) == BACKEND
        assert dist.get_global_rank(part, len(mine) - 1) == mine[-1]
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=part)
        assert x.item() == sum(mine), (x, mine)
        dist.broadcast(x.fill_(rank), src=mine[0], group=part)
        assert x.item() == mine[0]
        objects = [None] * len(mine)
        dist.all_gather_object(objects, rank, group=part)
        assert objects == mine
    last = dist.split_group(part, [[len(mine) - 1]], timeout=timedelta(seconds=5))
    assert (last is None) == (rank != mine[-1])
    if last is not None:
        assert dist.get_process_group_ranks(last) == [rank]
        dist.destroy_process_group(last)
    for wrong in ([[0], [0]], [[]], [[size]]):
        try:
            dist.split_group(None, wrong)
        except ValueError as error:
            assert "split_group" in str(error) or "empty" in str(error), error
        else:
            raise AssertionError(wrong)
    model = make_model()
    network = DistributedDataParallel(model, process_group=part)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number in range(STEPS):
        step(network, optimizer, number, mine.index(rank), len(mine))
    close(model.parameters(), reference(), "DDP in a split group")
    dist.barrier()


def names_again(rank, size):
    """Groups of a second default group have the first one's names, and other members."""
    for members in ([0, 1], [0, 2]):
        group = dist.new_group(members)
        if rank in members:
            part = dist.split_group(group, [[0, 1]], timeout=timedelta(seconds=10))
            x = torch.ones(1)
            dist.all_reduce(x, group=part)
            assert x.item() == 2.0
        dist.destroy_process_group()
        dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))


def main():
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    globals()[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    sys.stdout.write(f"rank {dist.get_rank()}: all passed\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
