"""Runs on every rank: PyTorch's own ProcessGroupMPI (process_group_mpi.sh), where torch has it if
built with MPI."""

import sys

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

import process_group_mpi  # needs torch's libraries


class ProcessGroupMPI:
    create = staticmethod(process_group_mpi.create)


for module in (dist, c10d):
    module.ProcessGroupMPI = ProcessGroupMPI
c10d._MPI_AVAILABLE = True
c10d.Backend.backend_capability["mpi"] = ["cpu"]
from ranks_models import close, make_model, reference, train  # noqa: E402

DTYPES = torch.uint8, torch.int8, torch.float64, torch.float32, torch.int32, torch.int64, torch.int16


def value(rank, size=6, dtype=torch.float32):
    return (torch.arange(size) + rank + 1).to(dtype)


def test_all_reduce(rank, size):
    op = dist.ReduceOp
    for dtype in DTYPES:
        stacked = torch.stack([value(r, 6, dtype) % 3 + 1 for r in range(size)])
        wants = {op.SUM: stacked.sum(0), op.MIN: stacked.min(0)[0], op.MAX: stacked.max(0)[0], op.PRODUCT: stacked.prod(0)}
        for kind, want in wants.items():
            tensor = stacked[rank].clone()
            dist.all_reduce(tensor, op=kind)
            assert torch.equal(tensor, want.to(dtype)), (dtype, kind, tensor, want)
    tensor = torch.tensor([-rank - 1], dtype=torch.int8)  # as MPI_CHAR
    dist.all_reduce(tensor, op=op.MIN)
    assert tensor.item() == -size


def test_roots(rank, size):
    for root in range(size):
        tensor = value(rank)
        dist.broadcast(tensor, root)
        assert torch.equal(tensor, value(root))
        tensor = value(rank)
        dist.reduce(tensor, root)
        if rank == root:
            assert torch.equal(tensor, sum(value(r) for r in range(size)))
        got = [torch.zeros(6) for _ in range(size)] if rank == root else None
        dist.gather(value(rank), got, root)
        if rank == root:
            assert all(torch.equal(got[r], value(r)) for r in range(size))
        tensor = torch.zeros(6)
        dist.scatter(tensor, [value(r + root) for r in range(size)] if rank == root else None, root)
        assert torch.equal(tensor, value(rank + root))


def test_lists(rank, size):
    got = [torch.zeros(6) for _ in range(size)]
    dist.all_gather(got, value(rank))
    assert all(torch.equal(got[r], value(r)) for r in range(size))
    tensor = torch.zeros(6)
    try:
        dist.reduce_scatter(tensor, [value(rank + r) for r in range(size)])
        assert torch.equal(tensor, sum(value(r + rank) for r in range(size)))
    except RuntimeError as error:  # PyTorch's own limit in older sources
        assert "ProcessGroupMPI does not support reduce_scatter" in str(error), error
    tensor = torch.zeros(2 * size)
    dist.all_to_all_single(tensor, value(rank, 2 * size))
    assert torch.equal(tensor, torch.cat([value(r, 2 * size)[2 * rank : 2 * rank + 2] for r in range(size)]))
    splits = [r + 1 for r in range(size)]
    tensor = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(tensor, value(rank, sum(splits)), [rank + 1] * size, splits)
    first = sum(splits[:rank])
    assert torch.equal(tensor, torch.cat([value(r, sum(splits))[first : first + rank + 1] for r in range(size)]))
    got = [torch.zeros(r + 1) for r in range(size)]
    dist.all_to_all(got, [value(rank, rank + 1) for _ in range(size)])
    assert all(torch.equal(got[r], value(r, r + 1)) for r in range(size))


def test_messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    got, large = torch.zeros(6), torch.zeros(300000)
    # The Work of a send does not keep its tensor.
    sent = value(rank), value(rank, 300000)
    sending = [dist.isend(sent[0], right), dist.isend(sent[1], right, tag=3)]
    dist.irecv(large, left, tag=3).wait()
    dist.recv(got, left)
    for work in sending:
        work.wait()
    assert torch.equal(got, value(left)) and torch.equal(large, value(left, 300000))
    if rank == 0:
        sources = []
        for _ in range(size - 1):
            sources.append(dist.recv(got))
            assert torch.equal(got, value(sources[-1]))
        assert sorted(sources) == list(range(1, size))
    else:
        dist.send(value(rank), 0)
    dist.barrier()


def test_async(rank, size):
    tensors = [value(rank, 1000 + i) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works[:10]]
    for work in works:
        work.wait()
    for future in futures:
        future.wait()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, sum(value(r, 1000 + i) for r in range(size)))


def test_ddp(rank, size):
    for options in ({}, {"bucket_cap_mb": 0.01}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        model = make_model()
        network = DistributedDataParallel(model, **options)
        train(network, model.parameters(), rank, size)
        close(model.parameters(), reference(), f"DDP {options}")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    for test in tests:
        test(rank, size)
        dist.barrier()
        if rank == 0:
            print("passed", test.__name__, flush=True)
    # Pomona's own backend leaves "mpi" to it.
    import pomona  # noqa: F401

    assert dist.ProcessGroupMPI is ProcessGroupMPI and c10d.ProcessGroupMPI is ProcessGroupMPI
    dist.all_reduce(value(rank))
    if rank == 0:
        print(f"all {len(tests)} passed", flush=True)
    sys.stdout.flush()
    dist.destroy_process_group()


main()
