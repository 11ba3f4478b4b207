"""Runs on every rank: each operation, dtype and reduce operation against sums made in one process.

Every rank can make every rank's input (seeded by rank), so it computes the expected result alone.
"""

import itertools
import os
import time
import warnings

import torch
import torch.distributed as dist
from differences import difference
from rank_device import DEVICE, take_device
from rank_tests import run_tests

# Newer names of the same operations, which torch up to 2.12 lacks.
warnings.filterwarnings("ignore", category=FutureWarning)
BACKEND = os.environ.get("TEST_BACKEND", "mpi")

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
FLOAT8 = [torch.float8_e5m2, torch.float8_e4m3fn]
MOVED = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX, *UNSIGNED, *FLOAT8]
# Moved alone; torch itself does next to nothing with them. Not every torch has all.
RARE = [getattr(torch, name) for name in ("float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
                                          "complex32") if hasattr(torch, name)]
R = dist.ReduceOp
SIZES = [0, 1, 2, 3, 5, 17, 1000, 40000]


def sample(rank, dtype, size, salt=0):
    """Rank's input: small integers, so that sums are exact in every dtype."""
    generator = torch.Generator().manual_seed(1000 * salt + rank)
    values = torch.randint(0, 4, (size,), generator=generator, device="cpu").to(DEVICE)
    if dtype == torch.bool:
        return values > 1
    if dtype.is_complex:
        return torch.complex(values.double(), values.flip(0).double()).to(dtype)
    if dtype in FLOAT8:
        return values.float().to(dtype)
    return values.to(dtype)


def fold(tensors, op):
    dtype = tensors[0].dtype
    if dtype == torch.bool:
        table = {R.SUM: torch.logical_or, R.MAX: torch.logical_or, R.BOR: torch.logical_or,
                 R.PRODUCT: torch.logical_and, R.MIN: torch.logical_and, R.BAND: torch.logical_and,
                 R.BXOR: torch.logical_xor}
    else:
        table = {R.SUM: torch.add, R.AVG: torch.add, R.PRODUCT: torch.mul, R.MIN: torch.minimum,
                 R.MAX: torch.maximum, R.BAND: torch.bitwise_and, R.BOR: torch.bitwise_or,
                 R.BXOR: torch.bitwise_xor}
    wide = tensors
    if dtype in UNSIGNED:  # torch computes little with these
        wide = [t.to(torch.int64) for t in tensors]
    result = wide[0].clone()
    for t in wide[1:]:
        result = table[op](result, t)
    if op == R.AVG:
        result = (result / len(tensors)) if dtype.is_floating_point or dtype.is_complex else (
            torch.div(result, len(tensors), rounding_mode="trunc"))
    return result.to(dtype)


def same(actual, expected, what):
    if actual.dtype in FLOAT8:
        actual, expected = actual.float(), expected.float()
    if actual.dtype in (torch.float16, torch.bfloat16):
        ok = torch.allclose(actual.float(), expected.float(), rtol=1e-2, atol=1e-2)
    elif actual.dtype.is_floating_point or actual.dtype.is_complex:
        ok = torch.allclose(actual, expected, rtol=1e-6, atol=1e-6)
    else:
        ok = torch.equal(actual, expected)
    assert ok, f"rank {dist.get_rank()}: {what}: {difference(actual, expected)}"


def reductions():
    for dtype, op in itertools.product([torch.bool, *INTEGERS, *FLOATS, *COMPLEX, *UNSIGNED],
                                       [R.SUM, R.AVG, R.PRODUCT, R.MIN, R.MAX, R.BAND, R.BOR, R.BXOR]):
        bitwise = op in (R.BAND, R.BOR, R.BXOR)
        if bitwise and (dtype.is_floating_point or dtype.is_complex):
            continue
        if dtype.is_complex and op not in (R.SUM, R.AVG):
            continue
        if dtype == torch.bool and op == R.AVG:
            continue
        yield dtype, op


def test_all_reduce(rank, size):
    for dtype, op in reductions():
        for n in SIZES if dtype in (torch.float32, torch.bfloat16) else (1, 17, 1000):
            x = sample(rank, dtype, n)
            dist.all_reduce(x, op=op)
            same(x, fold([sample(r, dtype, n) for r in range(size)], op), f"all_reduce {dtype} {op} {n}")


def test_reduce(rank, size):
    for dtype, op in reductions():
        for root in range(size):
            x = sample(rank, dtype, 13, root)
            dist.reduce(x, dst=root, op=op)
            if rank == root:
                expected = fold([sample(r, dtype, 13, root) for r in range(size)], op)
                same(x, expected, f"reduce {dtype} {op} root {root}")


def test_reduce_scatter(rank, size):
    for dtype, op in reductions():
        for n in (1, 7, 1000):
            rows = [[sample(r, dtype, n, d) for d in range(size)] for r in range(size)]
            out = torch.empty(n, dtype=dtype)
            dist.reduce_scatter(out, [t.clone() for t in rows[rank]], op=op)
            expected = fold([rows[r][rank] for r in range(size)], op)
            same(out, expected, f"reduce_scatter {dtype} {op} {n}")
            out = torch.empty(n, dtype=dtype)
            dist.reduce_scatter_tensor(out, torch.cat(rows[rank]), op=op)
            same(out, expected, f"reduce_scatter_tensor {dtype} {op} {n}")


def test_reduce_scatter_in_place_and_uneven(rank, size):
    flat = torch.cat([sample(rank, torch.float32, 5, d) for d in range(size)])
    dist.reduce_scatter_tensor(flat[5 * rank : 5 * rank + 5], flat)
    expected = fold([sample(r, torch.float32, 5, rank) for r in range(size)], R.SUM)
    same(flat[5 * rank : 5 * rank + 5], expected, "reduce_scatter_tensor into its input")
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, [sample(rank, torch.float32, d + 1, d) for d in range(size)])
    expected = fold([sample(r, torch.float32, rank + 1, rank) for r in range(size)], R.SUM)
    same(out, expected, "reduce_scatter of unequal parts")


def test_premul_sum(rank, size):
    for factor in (0.5, torch.tensor([0.25])):
        op = dist._make_nccl_premul_sum(factor)
        x = sample(rank, torch.float32, 10)
        out = torch.empty(10)
        dist.reduce_scatter_tensor(out, torch.cat([sample(rank, torch.float32, 10, d) for d in range(size)]), op=op)
        dist.all_reduce(x, op=op)
        expected = fold([sample(r, torch.float32, 10) for r in range(size)], R.SUM) * float(factor)
        same(x, expected, "all_reduce PREMUL_SUM")
        expected = fold([sample(r, torch.float32, 10, rank) for r in range(size)], R.SUM) * float(factor)
        same(out, expected, "reduce_scatter PREMUL_SUM")


def test_broadcast(rank, size):
    for dtype in MOVED:
        for root in range(size):
            for n in (0, 1, 1000):
                x = sample(rank, dtype, n, root)
                dist.broadcast(x, src=root)
                same(x, sample(root, dtype, n, root), f"broadcast {dtype} root {root}")


def test_all_gather(rank, size):
    for dtype in MOVED:
        for n in (0, 1, 33):
            expected = [sample(r, dtype, n) for r in range(size)]
            outputs = [torch.empty(n, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, sample(rank, dtype, n))
            for r in range(size):
                same(outputs[r], expected[r], f"all_gather {dtype} from {r}")
            flat = torch.empty(n * size, dtype=dtype)
            dist.all_gather_into_tensor(flat, sample(rank, dtype, n))
            for r in range(size):
                same(flat[n * r : n * r + n], expected[r], f"all_gather_into_tensor {dtype} from {r}")
    flat = torch.zeros(4 * size)
    flat[4 * rank : 4 * rank + 4] = sample(rank, torch.float32, 4)
    dist.all_gather_into_tensor(flat, flat[4 * rank : 4 * rank + 4])
    same(flat, torch.cat([sample(r, torch.float32, 4) for r in range(size)]), "all_gather in place")
    uneven = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(uneven, sample(rank, torch.float32, rank + 1))
    for r in range(size):
        same(uneven[r], sample(r, torch.float32, r + 1), "all_gather of unequal parts")


def test_gather_scatter(rank, size):
    for dtype in MOVED:
        for root in range(size):
            outputs = [torch.empty(9, dtype=dtype) for _ in range(size)] if rank == root else None
            dist.gather(sample(rank, dtype, 9), outputs, dst=root)
            if rank == root:
                for r in range(size):
                    same(outputs[r], sample(r, dtype, 9), f"gather {dtype} from {r}")
            inputs = [sample(root, dtype, 9, d) for d in range(size)] if rank == root else None
            out = torch.empty(9, dtype=dtype)
            dist.scatter(out, inputs, src=root)
            same(out, sample(root, dtype, 9, rank), f"scatter {dtype} root {root}")


def test_all_to_all(rank, size):
    for dtype in MOVED:
        inputs = [sample(rank, dtype, 4, d) for d in range(size)]
        outputs = [torch.empty(4, dtype=dtype) for _ in range(size)]
        dist.all_to_all(outputs, inputs)
        for r in range(size):
            same(outputs[r], sample(r, dtype, 4, rank), f"all_to_all {dtype} from {r}")
        flat = torch.empty(4 * size, dtype=dtype)
        dist.all_to_all_single(flat, torch.cat(inputs))
        for r in range(size):
            same(flat[4 * r : 4 * r + 4], sample(r, dtype, 4, rank), f"all_to_all_single {dtype} from {r}")
    # rank sends (rank + 2 d) rows of 3 to d
    splits_in = [rank + 2 * d for d in range(size)]
    splits_out = [r + 2 * rank for r in range(size)]
    source = torch.cat([torch.full((n, 3), 10.0 * rank + d) for d, n in enumerate(splits_in)])
    target = torch.empty(sum(splits_out), 3)
    dist.all_to_all_single(target, source, splits_out, splits_in)
    expected = torch.cat([torch.full((n, 3), 10.0 * r + rank) for r, n in enumerate(splits_out)])
    same(target.flatten(), expected.flatten(), "all_to_all_single with splits")
    outputs = [torch.empty(r + 2 * rank) for r in range(size)]
    dist.all_to_all(outputs, [torch.full((n,), 10.0 * rank + d) for d, n in enumerate(splits_in)])
    for r in range(size):
        same(outputs[r], torch.full((r + 2 * rank,), 10.0 * r + rank), "all_to_all of unequal parts")


def test_rare_dtypes(rank, size):
    """Each byte arrives. One rank's parts all begin with its number."""
    def part(source, target, dtype):
        values = [(13 * source + 7 * target + n) % 256 for n in range(15)]
        return torch.tensor([source, *values], dtype=torch.uint8, device=DEVICE).view(dtype)

    def arrived(out, source, target, what):
        same(out.view(torch.uint8), part(source, target, out.dtype).view(torch.uint8), f"{what} {out.dtype}")

    for dtype in RARE:
        out = part(rank, 0, dtype)
        dist.broadcast(out, src=size - 1)
        arrived(out, size - 1, 0, "broadcast")
        outs = [part(size, size, dtype) for _ in range(size)]
        dist.all_gather(outs, part(rank, 0, dtype))
        for source in range(size):
            arrived(outs[source], source, 0, "all_gather")
        outs = [part(size, size, dtype) for _ in range(size)]
        dist.all_to_all(outs, [part(rank, target, dtype) for target in range(size)])
        for source in range(size):
            arrived(outs[source], source, rank, "all_to_all")
        outs = [part(size, size, dtype) for _ in range(size)]
        dist.gather(part(rank, 0, dtype), outs if rank == 0 else None)
        for source in range(size if rank == 0 else 0):
            arrived(outs[source], source, 0, "gather")
        out = part(size, size, dtype)
        dist.scatter(out, [part(rank, target, dtype) for target in range(size)] if rank == 0 else None)
        arrived(out, 0, rank, "scatter")
        if size == 1:
            continue
        out = part(size, size, dtype)
        work = dist.isend(part(rank, 1, dtype), (rank + 1) % size)
        dist.recv(out, (rank - 1) % size)
        work.wait()
        arrived(out, (rank - 1) % size, 1, "send and recv")


def test_zero_size(rank, size):
    """Nothing is moved, by nobody refused, and what comes next meets its like. Others' tests have
    all_reduce, broadcast and all_gather of no elements."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        def none(*shape):
            return torch.empty(*shape or (0,), dtype=dtype)

        rows = [none() for _ in range(size)]
        dist.reduce(none(), dst=size - 1)
        dist.gather(none(), rows if rank == 0 else None)
        dist.scatter(none(), rows if rank == 0 else None)
        dist.reduce_scatter(none(), rows)
        dist.reduce_scatter_tensor(none(0, 3), none(0, 3))
        dist.all_to_all(rows, [none() for _ in range(size)])
        dist.all_to_all_single(none(0, 3), none(0, 3))
        if size > 1:
            work = dist.isend(none(), (rank + 1) % size)
            dist.recv(none(), (rank - 1) % size)
            work.wait()
        # Of all_to_all a part only: none for rank 0.
        outs = [torch.full((int(rank != 0),), -1, dtype=dtype) for _ in range(size)]
        dist.all_to_all(outs, [torch.full((int(target != 0),), 10 * rank + target, dtype=dtype) for target in range(size)])
        assert [out.tolist() for out in outs] == [[10 * r + rank] if rank else [] for r in range(size)], outs
        x = torch.full((3,), rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert x.tolist() == [size * (size + 1) / 2] * 3, x


def test_point_to_point(rank, size):
    if size == 1:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    for dtype in MOVED:
        out = torch.empty(21, dtype=dtype)
        works = [dist.isend(sample(rank, dtype, 21), right, tag=7), dist.irecv(out, left, tag=7)]
        for work in works:
            work.wait()
        same(out, sample(left, dtype, 21), f"send and recv {dtype}")
    # tags tell messages apart
    if rank == 0:
        dist.send(torch.tensor([1.0]), 1, tag=1)
        dist.send(torch.tensor([2.0]), 1, tag=2)
    elif rank == 1:
        second, first = torch.empty(1), torch.empty(1)
        work = dist.irecv(second, 0, tag=2)
        dist.recv(first, 0, tag=1)
        work.wait()
        assert (first.item(), second.item()) == (1.0, 2.0)
    # any source
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            x = torch.empty(1)
            source = dist.recv(x, tag=5)
            assert x.item() == 100 + source, (x, source)
            seen.add(source)
        assert seen == set(range(1, size)), seen
    else:
        dist.send(torch.tensor([100.0 + rank]), 0, tag=5)
    ops = [dist.P2POp(dist.isend, sample(rank, torch.float32, 50), right)]
    out = torch.empty(50)
    ops.append(dist.P2POp(dist.irecv, out, left))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(out, sample(left, torch.float32, 50), "batch_isend_irecv")
    objects = [{"from": rank}] if rank == 0 else [None]
    if rank == 0:
        dist.send_object_list(objects, 1)
    elif rank == 1:
        dist.recv_object_list(objects, 0)
        assert objects == [{"from": 0}]


def test_not_contiguous(rank, size):
    def matrix(r):
        return sample(r, torch.float32, 24).view(4, 6)

    x = matrix(rank).t()
    dist.all_reduce(x)
    same(x.contiguous().view(-1), fold([matrix(r).t().contiguous().view(-1) for r in range(size)], R.SUM), "t()")
    whole = torch.zeros(4, 6)
    column = whole[:, 2]
    column.copy_(torch.arange(4.0) + rank)
    dist.broadcast(column, src=size - 1)
    same(whole[:, 2].clone(), torch.arange(4.0) + size - 1, "broadcast of a column")
    assert whole[:, 3].abs().sum() == 0
    outputs = [torch.empty(6, 4).t() for _ in range(size)]
    dist.all_gather(outputs, matrix(rank))
    for r in range(size):
        same(outputs[r].contiguous().view(-1), matrix(r).view(-1), "all_gather into transposed outputs")
    if size > 1:
        if rank == 0:
            dist.send(matrix(0).t(), 1)
        elif rank == 1:
            out = torch.zeros(12, 8)[::2, ::2]
            dist.recv(out, 0)
            same(out.reshape(-1), matrix(0).t().reshape(-1), "recv into a strided tensor")


def test_unlike_splits(rank, size):
    """One rank says nothing of its equal parts, another names them: one operation all the same."""
    parts = [1] * size if rank == 0 else None
    source, target = torch.arange(size) + 10 * rank, torch.empty(size, dtype=torch.int64)
    dist.all_to_all_single(target, source, parts, parts)
    assert target.tolist() == [10 * other + rank for other in range(size)], target


def test_starts_in_callbacks(rank, size):
    """All ranks start collectives in one order, though callbacks run at once on one and late on
    another."""
    for turn in range(30):
        first, second, third = torch.ones(5), torch.ones(3000), torch.ones(70)

        def start_another(future, second=second):
            dist.all_reduce(second)
            return future.value()

        future = dist.all_reduce(first, async_op=True).get_future()
        if turn % size == rank:
            time.sleep(0.01)  # the operation is over: the callback runs in then()
        future = future.then(start_another)
        dist.all_reduce(third)
        future.wait()
        for tensor in (first, second, third):
            assert tensor.tolist() == [float(size)] * len(tensor), (turn, tensor)


def test_async_and_futures(rank, size):
    tensors = [sample(rank, torch.float32, 100 * (i + 1), i) for i in range(20)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    futures = [work.get_future() for work in works]
    chained = [f.then(lambda f: f.value()[0].sum()) for f in futures]
    for i, (t, f) in enumerate(zip(tensors, chained)):
        expected = fold([sample(r, torch.float32, 100 * (i + 1), i) for r in range(size)], R.SUM)
        same(f.wait().view(1), expected.sum().view(1), "Future.then")
        same(t, expected, "asynchronous all_reduce")
    assert all(w.is_completed() and w.is_success() for w in works)
    work = dist.all_reduce(torch.ones(3), async_op=True)
    while not work.is_completed():
        pass
    same(work.result()[0], torch.full((3,), float(size)), "result()")
    # the work may be dropped before the end; the tensor still gets the result
    x = torch.ones(100000)
    future = dist.all_reduce(x, async_op=True).get_future()
    future.wait()
    same(x, torch.full((100000,), float(size)), "dropped work")
    inference = None
    with torch.inference_mode():
        inference = torch.ones(4, 4).t()
        dist.all_reduce(inference)
    assert inference.sum() == 16 * size
    leaf = torch.ones(6, 2, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf.t())
    assert leaf.sum() == 12 * size


def test_coalesced(rank, size):
    from torch.distributed.distributed_c10d import _coalescing_manager

    tensors = [sample(rank, torch.float32, n, n) for n in (3, 50, 1)]
    with _coalescing_manager(async_ops=True) as manager:
        for t in tensors:
            dist.all_reduce(t)
    manager.wait()
    for n, t in zip((3, 50, 1), tensors):
        same(t, fold([sample(r, torch.float32, n, n) for r in range(size)], R.SUM), "coalesced all_reduce")
    outputs = [torch.empty(n * size) for n in (3, 5)]
    with _coalescing_manager():
        for n, out in zip((3, 5), outputs):
            dist.all_gather_into_tensor(out, sample(rank, torch.float32, n, n))
    for n, out in zip((3, 5), outputs):
        same(out, torch.cat([sample(r, torch.float32, n, n) for r in range(size)]), "coalesced all_gather")
    outputs = [torch.empty(n) for n in (3, 5)]
    with _coalescing_manager():
        for n, out in zip((3, 5), outputs):
            dist.reduce_scatter_tensor(out, torch.cat([sample(rank, torch.float32, n, d) for d in range(size)]))
    for n, out in zip((3, 5), outputs):
        expected = fold([sample(r, torch.float32, n, rank) for r in range(size)], R.SUM)
        same(out, expected, "coalesced reduce_scatter")
    x, y = torch.full((2,), float(rank)), torch.full((3,), float(rank))
    with _coalescing_manager(device=torch.device(DEVICE)):  # start and end of coalescing, any operations
        dist.broadcast(x, src=size - 1)
        dist.broadcast(y, src=0)
    assert x.tolist() == [size - 1.0] * 2 and y.tolist() == [0.0] * 3


def test_sparse(rank, size):
    def sparse(r):
        dense = torch.zeros(8, 3)
        dense[r % 8] = r + 1.0
        dense[7] = 1.0
        return dense.to_sparse(1)

    x = sparse(rank)
    dist.all_reduce(x)
    expected = sum(sparse(r).to_dense() for r in range(size))
    same(x.to_dense().view(-1), expected.view(-1), "all_reduce of a sparse tensor")
    # With async_op the call itself waits for the others; what it returns is over.
    x = sparse(rank)
    work = dist.all_reduce(x, op=R.AVG, async_op=True)
    assert work.is_completed() and work.is_success()
    same(x.to_dense().view(-1), expected.view(-1) / size, "asynchronous all_reduce of a sparse tensor")
    (got,) = work.get_future().wait()
    same(got.to_dense().view(-1), expected.view(-1) / size, "Future of a sparse tensor")
    if size == 1:
        return
    # Other collectives may be under way: numbers and order stay alike on all ranks.
    before = torch.full((100000,), rank + 1.0)
    work = dist.all_reduce(before, async_op=True)
    x = sparse(rank)
    dist.all_reduce(x)
    work.wait()
    same(x.to_dense().view(-1), expected.view(-1), "sparse beside another")
    assert before[-1].item() == size * (size + 1) / 2


def test_objects_and_barriers(rank, size):
    got = [None] * size
    dist.all_gather_object(got, ("rank", rank))
    assert got == [("rank", r) for r in range(size)]
    box = [list(range(100))] if rank == 0 else [None]
    dist.broadcast_object_list(box, src=0)
    assert box == [list(range(100))]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert out == [f"for {rank}"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * 2, gathered, dst=0)
    assert rank != 0 or gathered == [2 * r for r in range(size)]
    dist.barrier()
    dist.barrier(async_op=True).wait()
    group = dist.group.WORLD
    group._get_backend(torch.device("cpu")).monitored_barrier() if hasattr(
        group._get_backend(torch.device("cpu")), "monitored_barrier") else group.monitored_barrier()


def test_functional_collectives(rank, size):
    import torch.distributed._functional_collectives as funcol

    world = dist.group.WORLD
    x = sample(rank, torch.float32, 6)
    same(funcol.wait_tensor(funcol.all_reduce(x, "sum", world)),
         fold([sample(r, torch.float32, 6) for r in range(size)], R.SUM), "functional all_reduce")
    same(funcol.wait_tensor(funcol.all_gather_tensor(x, 0, world)),
         torch.cat([sample(r, torch.float32, 6) for r in range(size)]), "functional all_gather")
    flat = torch.cat([sample(rank, torch.float32, 2, d) for d in range(size)])
    same(funcol.wait_tensor(funcol.reduce_scatter_tensor(flat, "avg", 0, world)),
         fold([sample(r, torch.float32, 2, rank) for r in range(size)], R.AVG), "functional reduce_scatter")
    same(funcol.wait_tensor(funcol.all_to_all_single(flat, None, None, world)),
         torch.cat([sample(r, torch.float32, 2, rank) for r in range(size)]), "functional all_to_all")
    outs = funcol.all_reduce_coalesced([x, flat], "sum", world)
    funcol.wait_tensor(outs[1])
    same(funcol.wait_tensor(outs[0]),
         fold([sample(r, torch.float32, 6) for r in range(size)], R.SUM), "functional coalesced")
    same(funcol.wait_tensor(funcol.broadcast(x, size - 1, world)), sample(size - 1, torch.float32, 6),
         "functional broadcast")
    left = (rank - 1) % size
    same(funcol.wait_tensor(funcol.permute_tensor(x, [(r + 1) % size for r in range(size)], world)),
         sample(left, torch.float32, 6), "functional permute")
    outs = funcol.all_gather_into_tensor_coalesced([x, sample(rank, torch.float32, 2, 1)], world)
    for out, count, salt in zip(outs, (6, 2), (0, 1)):
        same(funcol.wait_tensor(out), torch.cat([sample(r, torch.float32, count, salt) for r in range(size)]),
             "functional coalesced all_gather")
    outs = funcol.reduce_scatter_tensor_coalesced([flat, 2 * flat], "sum", [0, 0], world)
    for out, factor in zip(outs, (1, 2)):
        same(funcol.wait_tensor(out), factor * fold([sample(r, torch.float32, 2, rank) for r in range(size)], R.SUM),
             "functional coalesced reduce_scatter")


def test_gradients(rank, size):
    """Through collectives: the functional ones, and torch.distributed.nn's. The loss weighs what a
    rank has got by its number, from 1 on."""
    import torch.distributed._functional_collectives as funcol
    import torch.distributed.nn.functional as nn

    world, total = dist.group.WORLD, size * (size + 1) / 2

    def gradient(call, count):
        x = sample(rank, torch.float32, count).requires_grad_()
        (call(x) * (rank + 1.0)).sum().backward()
        return x.grad

    def of_each(values):
        return torch.tensor([float(value) for value in values for _ in range(2)])

    ranks = range(1, size + 1)
    gathered = {
        "functional all_gather": lambda x: funcol.all_gather_tensor_autograd(x, 0, world),
        "nn.all_gather": lambda x: torch.cat(nn.all_gather(x)),
        "nn.all_reduce": nn.all_reduce,
    }
    for what, call in gathered.items():
        same(gradient(call, 2), torch.full((2,), total), f"gradient of {what}")
    scattered = {
        "functional reduce_scatter": lambda x: funcol.reduce_scatter_tensor_autograd(x, "sum", 0, world),
        "functional all_to_all": lambda x: funcol.all_to_all_single_autograd(x, [2] * size, [2] * size, world),
        "nn.reduce_scatter": lambda x: nn.reduce_scatter(torch.empty(2), list(x.split(2))),
        "nn.all_to_all_single": lambda x: nn.all_to_all_single(torch.empty(2 * size), x),
        "nn.all_to_all": lambda x: torch.cat(nn.all_to_all([torch.empty(2) for _ in ranks], list(x.split(2)))),
    }
    for what, call in scattered.items():
        same(gradient(call, 2 * size), of_each(ranks), f"gradient of {what}")
    for root in range(size):
        mine = rank == root
        same(gradient(lambda x: nn.broadcast(x, root), 2), torch.full((2,), total * mine), "gradient of nn.broadcast")
        same(gradient(lambda x: nn.reduce(x, root), 2), torch.full((2,), root + 1.0), "gradient of nn.reduce")
        same(gradient(lambda x: torch.cat(nn.gather(x, root)), 2), torch.full((2,), root + 1.0), "gradient of nn.gather")
        same(gradient(lambda x: nn.scatter(list(x.split(2)), root), 2 * size), of_each(ranks) * mine,
             "gradient of nn.scatter")


def test_sums_of_16_bits(rank, world):
    """They are added in fp32 and rounded once: an average does not overflow, small terms are not
    lost."""
    for dtype in (torch.float16, torch.bfloat16):
        large = 60000.0 if dtype == torch.float16 else 2.0**120
        want = torch.full((5000,), large, dtype=dtype)
        if world > 1:
            mine = want.clone()
            dist.all_reduce(mine, op=dist.ReduceOp.AVG)
            assert torch.equal(mine, want), mine
            part = torch.zeros(50, dtype=dtype)
            dist.reduce_scatter_tensor(part, want[:50].repeat(world), op=dist.ReduceOp.AVG)
            assert torch.equal(part, want[:50]), part
            parts = [want[:50].clone() for _ in range(world)]
            dist.reduce_scatter(part, parts, op=dist.ReduceOp.AVG)
            assert torch.equal(part, want[:50]), part
            mine = want.clone()
            dist.reduce(mine, 0, op=dist.ReduceOp.AVG)
            assert rank != 0 or torch.equal(mine, want), mine
        one = 2048.0 if dtype == torch.float16 else 256.0  # the next number is two more
        mine = torch.full((70,), one if rank == 0 else 1.0, dtype=dtype)
        dist.all_reduce(mine)
        exact = torch.tensor(one + world - 1).to(dtype)
        assert bool((mine == exact).all()), (mine, exact)


def test_groups(rank, size):
    evens = dist.new_group(list(range(0, size, 2)))
    odds = dist.new_group(list(range(1, size, 2))) if size > 1 else None
    mine = evens if rank % 2 == 0 else odds
    members = list(range(rank % 2, size, 2))
    x = sample(rank, torch.float32, 10)
    dist.all_reduce(x, group=mine)
    same(x, fold([sample(r, torch.float32, 10) for r in members], R.SUM), "all_reduce in a subgroup")
    x = sample(rank, torch.float32, 10)
    dist.broadcast(x, src=members[-1], group=mine)
    same(x, sample(members[-1], torch.float32, 10), "broadcast in a subgroup")
    assert dist.get_rank(mine) == members.index(rank) and dist.get_world_size(mine) == len(members)
    # overlapping groups made by their members only
    for first in range(size - 1):
        pair = dist.new_group([first, first + 1])
        if rank in (first, first + 1):
            y = torch.tensor([rank])
            dist.all_reduce(y, group=pair)
            assert y.item() == 2 * first + 1
            dist.destroy_process_group(pair)
    world_again = dist.new_group()
    y = torch.ones(1)
    dist.all_reduce(y, group=world_again)
    assert y.item() == size
    gloo = dist.new_group(backend="gloo")
    dist.all_reduce(y, group=gloo)
    assert y.item() == size * size


def test_large(rank, size):
    """More than 2^31 bytes in one call, which int counts of bytes cannot express."""
    if not os.environ.get("TEST_LARGE"):
        return
    n = (1 << 31) + 4096
    x = torch.full((n,), rank + 1, dtype=torch.uint8)
    dist.broadcast(x, src=0)
    assert int(x.min()) == 1 and int(x.max()) == 1
    dist.all_reduce(x)
    assert int(x.min()) == size and int(x.max()) == size


def main():
    take_device()
    dist.init_process_group(BACKEND)
    run_tests(globals())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
