"""Runs on every rank: collectives on MPS tensors; a Mac's, or those of a stand-in (fake_mps.cc).

Goal: flat tensors in memory that the CPU shares are used where they lie, after the GPU's work on
them is done; private and strided ones go through copies, and give the same. FAKE_MPS_PRIVATE=1: all
are private.
"""

import os
import time

import torch
import torch.distributed as dist

try:
    import fake_mps  # before anything asks for MPS
except ImportError:

    class fake_mps:
        """The same on a Mac, where nothing can be counted."""

        to = staticmethod(lambda t: t.to("mps"))
        values = staticmethod(lambda t: t.cpu())
        part = staticmethod(lambda t, first, count: t[first : first + count])
        add_later = staticmethod(lambda t, number: t.add_(number))


PRIVATE = bool(os.environ.get("FAKE_MPS_PRIVATE"))


def value(rank, size):
    return torch.arange(size, dtype=torch.int32) % 100 + rank


def total(world, size):
    return sum(value(r, size) for r in range(world))


def test_all_reduce(rank, world):
    """The buffer itself, a part of it with an offset, work of the GPU not yet done."""
    for size in (1, 17, 50000):
        tensor = fake_mps.to(value(rank, size))
        dist.all_reduce(tensor)
        assert torch.equal(fake_mps.values(tensor), total(world, size))
        tensor = fake_mps.to(value(rank, size + 3))
        middle = fake_mps.part(tensor, 2, size)
        fake_mps.add_later(middle, 5)
        dist.all_reduce(middle)
        want = value(rank, size + 3)
        want[2 : size + 2] = sum(value(r, size + 3)[2 : size + 2] + 5 for r in range(world))
        assert torch.equal(fake_mps.values(tensor), want)


def test_others(rank, world):
    tensor = fake_mps.to(value(rank, 100))
    dist.broadcast(tensor, 1)
    assert torch.equal(fake_mps.values(tensor), value(1, 100))
    out = fake_mps.to(torch.zeros(100 * world, dtype=torch.int32))
    fake_mps.add_later(out, 7)  # must not come after the result
    dist.all_gather_into_tensor(out, fake_mps.to(value(rank, 100)))
    assert torch.equal(fake_mps.values(out), torch.cat([value(r, 100) for r in range(world)]))
    part = fake_mps.to(torch.zeros(50, dtype=torch.int32))
    dist.reduce_scatter_tensor(part, fake_mps.to(value(rank, 50 * world)))
    assert torch.equal(fake_mps.values(part), total(world, 50 * world)[50 * rank : 50 * rank + 50])
    inside = fake_mps.to(value(rank, 50 * world))  # the output inside the input
    dist.reduce_scatter_tensor(fake_mps.part(inside, 50 * rank, 50), inside)
    want = value(rank, 50 * world)
    want[50 * rank : 50 * rank + 50] = total(world, 50 * world)[50 * rank : 50 * rank + 50]
    assert torch.equal(fake_mps.values(inside), want)
    outs = [fake_mps.to(torch.zeros(9, dtype=torch.int32)) for _ in range(world)]
    dist.all_gather(outs, fake_mps.to(value(rank, 9)))
    for r in range(world):
        assert torch.equal(fake_mps.values(outs[r]), value(r, 9))
    tensor = fake_mps.to(value(rank, 20))
    if rank == 0:
        dist.send(tensor, 1)
    elif rank == 1:
        dist.recv(tensor, 0)
    assert torch.equal(fake_mps.values(tensor), value(0 if rank == 1 else rank, 20))


def test_async(rank, world):
    tensors = [fake_mps.to(value(rank, 3000)) for _ in range(4)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    futures = [work.get_future() for work in works]
    for work, future, tensor in zip(works, futures, tensors):
        work.wait()
        assert future.done()  # as with gloo: wait() returns after it
        assert torch.equal(fake_mps.values(tensor), total(world, 3000))


def test_dropped(rank, world):
    """MPI's thread frees a tensor, for which it needs Python's lock, while get_future() waits for
    that thread."""
    if rank == 1:
        time.sleep(0.3)  # longer than rank 0 tests the requests itself
    dropped = fake_mps.to(value(rank, 10))
    dist.all_reduce(dropped, async_op=True)
    tensor = fake_mps.to(value(rank, 10))
    del dropped
    dist.all_reduce(tensor, async_op=True).get_future().wait()
    assert torch.equal(fake_mps.values(tensor), total(world, 10))


def test_missing_wait(rank, world):
    """That the others would see it: the stand-in says of each event that it is reached."""
    fake_mps.set_blind(True)
    tensor = fake_mps.to(value(rank, 1000))
    fake_mps.add_later(tensor, 5)
    dist.all_reduce(tensor)
    assert not torch.equal(fake_mps.values(tensor), total(world, 1000) + 5 * world)
    fake_mps.set_blind(False)


def main():
    counted = hasattr(fake_mps, "copies")
    if counted:
        fake_mps.set_private(PRIVATE)
    dist.init_process_group("mpi")
    rank, world = dist.get_rank(), dist.get_world_size()
    start = fake_mps.to(torch.zeros(4, dtype=torch.int32))
    dist.all_reduce(start)  # the trial of shared memory copies
    before = fake_mps.copies() if counted else 0
    for test in (test_all_reduce, test_others, test_async, test_dropped):
        test(rank, world)
    del start
    if counted and not PRIVATE:  # where torch copies in the stream's order, there is no wait to miss
        test_missing_wait(rank, world)
    if counted:
        # None by the device; of a reduce-scatter into its own input the CPU copies the result.
        copies = fake_mps.copies() - before
        assert copies > 20 if PRIVATE else copies == 0, copies
        limit = time.monotonic() + 30
        while fake_mps.live() and time.monotonic() < limit:  # MPI's thread drops what it has finished
            time.sleep(0.01)
        assert fake_mps.live() == 0, fake_mps.live()
    dist.destroy_process_group()
    print(f"rank {rank}: all passed")


main()
