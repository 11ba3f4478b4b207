"""Runs on every rank: the edges of c10d's operations: memory that is shared, coalescing that an
exception leaves, groups made by their members alone, factors, futures and results.

Like ranks_ops.py: `ranks_edges.py [test_...]`, each result compared with one made in one process.
"""

import os
import threading
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from expected import expect
from rank_tests import TORCH, run_tests
from torch.distributed.distributed_c10d import _coalescing_manager

warnings.filterwarnings("ignore", category=FutureWarning)
BACKEND = os.environ.get("TEST_BACKEND", "mpi")
CPU = torch.device("cpu")
R = dist.ReduceOp


def backend_of(group=None):
    return (group or dist.group.WORLD)._get_backend(CPU)


def check_all_reduce(size, group=None):
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    assert x.tolist() == [float(size)] * 3, x


def becomes(tensor, values):
    """Whether an operation that nobody can wait for any more ends, and brings these."""
    until = time.monotonic() + 20
    while tensor.tolist() != values and time.monotonic() < until:
        time.sleep(0.001)
    return tensor.tolist() == values


class Thrown(Exception):
    pass


def leave(*calls, **more):
    """A manager that an exception leaves after these calls."""
    try:
        with _coalescing_manager(**more):
            for call in calls:
                call()
            raise Thrown
    except Thrown:
        return
    raise AssertionError("the exception was lost")


def test_coalescing_left_by_exceptions(rank, size):
    """What is called afterwards is called at once, not put into a list."""
    listed = torch.ones(2)
    leave()
    check_all_reduce(size)
    leave(lambda: dist.all_reduce(listed))  # torch only lists it: it is never called
    check_all_reduce(size)
    assert listed.tolist() == [1.0, 1.0], listed
    started = torch.full((2,), float(rank))
    leave(lambda: dist.broadcast(started, 0), device=CPU)
    x = torch.full((2,), float(rank))
    dist.broadcast(x, size - 1)
    assert x.tolist() == [size - 1.0] * 2, x
    assert becomes(started, [0.0, 0.0]), started  # had been started, and went on by itself
    # An operation in it that is refused.
    try:
        with _coalescing_manager():
            dist.all_reduce(torch.ones(2, dtype=torch.float8_e5m2))
    except ValueError as error:
        assert "Float8_e5m2" in str(error), error
    else:
        raise AssertionError("no error")
    check_all_reduce(size)
    # Operations of different kinds, which torch refuses at the end; before 2.12 it takes all of
    # them for the first.
    if TORCH >= (2, 12):
        flat = torch.zeros(size)
        expect(RuntimeError, ["mixed types"], both, listed, flat)
        check_all_reduce(size)
    with _coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(listed)
    manager.wait()
    assert listed.tolist() == [float(size)] * 2, listed


def both(x, flat):
    with _coalescing_manager(device=CPU):
        dist.all_reduce(x)
        dist.all_gather_into_tensor(flat, torch.ones(1))


def test_coalescing_begun_again(rank, size):
    """Without torch's manager: the next start takes over, and says so on stderr."""
    group = dist.group.WORLD
    first, second = torch.ones(2), torch.ones(3)
    group._start_coalescing(CPU)
    dist.all_reduce(first, async_op=True)
    group._start_coalescing(CPU)
    dist.all_reduce(second, async_op=True)
    work = group._end_coalescing(CPU)
    work.wait()
    assert [t.shape for t in work.result()] == [second.shape], work.result()
    assert second.tolist() == [float(size)] * 3, second
    check_all_reduce(size)
    assert becomes(first, [float(size)] * 2), first
    group._end_coalescing(CPU).wait()  # of nothing


def test_coalesced_work(rank, size):
    """Its Future, its results, and its time, which is that of all parts together."""
    group = dist.new_group(timeout=timedelta(seconds=60))
    first, second = torch.ones(2), torch.full((3,), rank + 1.0)
    group._start_coalescing(CPU)
    dist.all_reduce(first, group=group, async_op=True)
    dist.all_reduce(second, group=group, async_op=True)
    work = group._end_coalescing(CPU)
    got = work.get_future().wait()
    assert [t.tolist() for t in got] == [[float(size)] * 2, [size * (size + 1) / 2.0] * 3], got
    work.wait()
    assert work.is_completed() and work.is_success() and len(work.result()) == 2
    if size == 1:
        return
    if rank == 0:
        group._start_coalescing(CPU)
        dist.all_reduce(first, group=group, async_op=True)
        dist.all_reduce(second, group=group, async_op=True)
        work = group._end_coalescing(CPU)
        expect(dist.DistBackendError, ["Rank 0 of", "Timed out after waiting 200 ms for number 1 of 2", "ALLREDUCE"],
               work.wait, timedelta(milliseconds=200))
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        dist.all_reduce(first, group=group)
        dist.all_reduce(second, group=group)
    assert first.tolist() == [float(size * size)] * 2, first


def test_outputs_that_overlap(rank, size):
    """As with gloo and NCCL, which copy in the order of the ranks: what comes last stays, and each
    rank gets its own bytes."""
    for n in (5, 30000):
        parts = [torch.arange(float(n)) + 1000 * r for r in range(size)]
        memory = torch.zeros(n + size - 1)
        dist.all_gather([memory[r : r + n] for r in range(size)], parts[rank])
        expected = torch.zeros(n + size - 1)
        for r in range(size):
            expected[r : r + n] = parts[r]
        assert torch.equal(memory, expected), (memory[:8], expected[:8])
        one = torch.zeros(n)
        dist.all_gather([one] * size, parts[rank])
        assert torch.equal(one, parts[-1]), one[:8]
        root = size - 1
        dist.gather(parts[rank], [one] * size if rank == root else None, dst=root)
        assert rank != root or torch.equal(one, parts[-1])
        sent = [torch.full((n,), 10.0 * rank + to) for to in range(size)]
        dist.all_to_all([one] * size, sent)
        assert bool((one == 10.0 * (size - 1) + rank).all()), one[:8]
        # outputs over the inputs, in another place
        memory = torch.cat([torch.full((n,), 10.0 * rank + to) for to in range(size)] + [torch.zeros(1)])
        dist.all_to_all([memory[1 + r * n : 1 + r * n + n] for r in range(size)],
                        [memory[r * n : r * n + n] for r in range(size)])
        expected = torch.cat([torch.full((n,), 10.0 * r + rank) for r in range(size)])
        assert torch.equal(memory[1:], expected), memory[:8]


def test_inputs_inside_outputs(rank, size):
    for n in (4, 30000):
        parts = [torch.arange(float(n)) + 1000 * r for r in range(size)]
        # Not where it is to come: at the front, and one element later.
        for place in (0, min(1, n * (size - 1))):
            whole = torch.zeros(n * size)
            whole[place : place + n] = parts[rank]
            dist.all_gather_into_tensor(whole, whole[place : place + n])
            assert torch.equal(whole, torch.cat(parts)), whole[:8]
        whole = torch.zeros(n * size)
        whole[:n] = parts[rank]
        dist.all_gather(list(whole.view(size, n)), whole[:n])
        assert torch.equal(whole, torch.cat(parts)), whole[:8]
        for root in range(size):
            whole = torch.cat(parts) if rank == root else None
            rows = list(whole.view(size, n)) if rank == root else None
            out = rows[(root + 1) % size] if rank == root else torch.zeros(n)
            dist.scatter(out, rows, src=root)  # into what another rank is to get
            assert torch.equal(out, parts[rank]), out[:8]
            whole = torch.zeros(n * size)
            rows = list(whole.view(size, n))
            mine = rows[(root + 1) % size]
            mine.copy_(parts[rank])
            dist.gather(mine, rows if rank == root else None, dst=root)
            assert rank != root or torch.equal(whole, torch.cat(parts)), whole[:8]
            # in place
            rows[root].copy_(parts[rank])
            dist.gather(rows[root], rows if rank == root else None, dst=root)
            dist.scatter(rows[root], rows if rank == root else None, src=root)
            assert torch.equal(rows[root], parts[rank]), rows[root][:8]


def test_coalesced_tensors_that_overlap(rank, size):
    """The same tensor twice gets the sum once, as with gloo, which reduces copies."""
    for n in (6, 30000):
        total = sum(range(1, size + 1))
        x = torch.full((n,), rank + 1.0)
        with _coalescing_manager():
            for each in (x, x[1:], x[: n // 2]):
                dist.all_reduce(each)
        assert bool((x == total).all()), x[:8]
        whole, parts = torch.zeros(n * size), [torch.full((n,), 1.0 + r) for r in range(size)]
        with _coalescing_manager():
            dist.all_gather_into_tensor(whole, parts[rank])
            dist.all_gather_into_tensor(whole, parts[rank] * 2)
        assert torch.equal(whole, 2 * torch.cat(parts)), whole[:8]
        out = torch.zeros(n)
        with _coalescing_manager():
            dist.reduce_scatter_tensor(out, parts[rank].repeat(size))
            dist.reduce_scatter_tensor(out, parts[rank].repeat(size) * 3)
        assert bool((out == 3.0 * total).all()), out[:8]
        # A second operation whose output is the first one's input.
        first, second = torch.cat([parts[rank]] * size), torch.zeros(n * size)
        with _coalescing_manager():
            dist.all_gather_into_tensor(second, first[:n])
            dist.all_gather_into_tensor(first, parts[rank] * 3)
        assert torch.equal(second, torch.cat(parts)), second[:8]
        assert torch.equal(first, 3 * torch.cat(parts)), first[:8]


def test_outputs_of_expand(rank, size):
    """Several elements in one place cannot be written; reading them is fine."""
    wide = torch.ones(1).expand(4)
    for call in (lambda: dist.all_reduce(wide), lambda: dist.all_gather([wide] * size, torch.ones(4)),
                 lambda: dist.broadcast(wide, (rank + 1) % size) if size > 1 else dist.all_reduce(wide)):
        expect(ValueError, ["Rank", "one place of memory", "contiguous"], call)
    outputs = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(outputs, wide)
    assert all(out.tolist() == [1.0] * 4 for out in outputs)
    check_all_reduce(size)


def test_groups_made_by_members(rank, size):
    """use_local_synchronization: others do not call it, and may be in other groups."""
    if size < 3:
        return
    if rank in (0, 2):  # so that torch's own count of groups differs among those that follow
        pair = dist.new_group([0, 2], use_local_synchronization=True)
        check_all_reduce(2, pair)
        assert dist.get_backend(pair) == dist.get_backend(), dist.get_backend(pair)
        assert dist.get_process_group_ranks(pair) == [0, 2]
    everyone = list(range(size))
    first = dist.new_group(everyone, use_local_synchronization=True)
    second = dist.new_group(everyone, use_local_synchronization=True)  # the same ranks once more
    third = dist.new_group(use_local_synchronization=True, timeout=timedelta(seconds=50))
    groups = [first, second, third]
    works = [dist.all_reduce(torch.ones(2), group=group, async_op=True)
             for group in (groups if rank % 2 else reversed(groups))]
    for work in works:
        work.wait()
        assert work.result()[0].tolist() == [float(size)] * 2
    assert backend_of(third).options._timeout == timedelta(seconds=50)
    assert dist.new_group([(rank + 1) % size], use_local_synchronization=True) is None
    dist.destroy_process_group(second)
    check_all_reduce(size, first)
    again = dist.new_group(everyone, use_local_synchronization=True)
    check_all_reduce(size, again)
    check_all_reduce(size)


def test_groups_named_wrongly(rank, size):
    """One rank given twice, or one that is none."""
    if size < 2:
        return
    if TORCH < (2, 12) and rank > 1:
        dist.new_group([0, 1, 1])  # before, its members alone hear of it
    else:
        expect(ValueError, ["[0, 1, 1]"] if TORCH >= (2, 12) else ["group"], dist.new_group, [0, 1, 1])
    from pomona import _backends

    for ranks, words in (([0, 1, 1], ["rank 1", "twice"]), ([0, size], [f"rank {size}"])):
        expect(ValueError, ["[0, ", *words], _backends.glue().create, BACKEND, "wrong", 0, len(ranks), ranks, 5.0)
    check_all_reduce(size)


def test_factors(rank, size):
    """PREMUL_SUM of every floating dtype, exactly where the factor and the sum are exact."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for factor in (0.5, torch.tensor([0.25]), torch.tensor(2.0)):
            op = dist._make_nccl_premul_sum(factor)
            values = [(torch.arange(9) + r).to(dtype) for r in range(size)]
            expected = (float(factor) * sum(v.double() for v in values)).to(dtype)
            x = values[rank].clone()
            dist.all_reduce(x, op=op)
            assert x.dtype == dtype and torch.equal(x, expected), (dtype, factor, x, expected)
            x = values[rank].clone()
            dist.reduce(x, 0, op=op)
            assert rank or torch.equal(x, expected), (dtype, factor, x, expected)
            out = torch.empty(9, dtype=dtype)
            dist.reduce_scatter_tensor(out, values[rank].repeat(size), op=op)
            assert torch.equal(out, expected), (dtype, factor, out, expected)
            dist.reduce_scatter(out, [values[rank].clone() for _ in range(size)], op=op)
            assert torch.equal(out, expected), (dtype, factor, out, expected)
    third = dist._make_nccl_premul_sum(1 / 3)
    for dtype in (torch.float16, torch.bfloat16):
        # Each product would be rounded, and the sum once more: by fp32 only the end is.
        values = [torch.linspace(1, 2, 50).to(dtype) + r for r in range(size)]
        x = values[rank].clone()
        dist.all_reduce(x, op=third)
        wide = sum((v.float() * (1 / 3)) for v in values)
        assert torch.equal(x, wide.to(dtype)) or (x.float() - wide).abs().max() <= (
            torch.finfo(dtype).eps / 2 * wide.abs().max()), (x, wide)


def test_sums_of_16_bits_are_rounded_once(rank, size):
    for dtype in (torch.float16, torch.bfloat16):
        values = []
        for r in range(size):
            generator = torch.Generator().manual_seed(r)
            values.append((torch.rand(1000, generator=generator) * 8).to(dtype))
        for op, divisor in ((R.SUM, 1), (R.AVG, size)):
            x = values[rank].clone()
            dist.all_reduce(x, op=op)
            # In fp64 these sums are exact; fp32's error is far below half of a 16-bit step.
            exact = sum(v.double() for v in values) / divisor
            step = torch.finfo(dtype).eps * exact.abs()
            assert bool(((x.double() - exact).abs() <= step / 2 * 1.001).all()), (dtype, op)


def test_refused_reductions(rank, size):
    half = dist._make_nccl_premul_sum(0.5)
    floats, ints = torch.ones(4), torch.ones(4, dtype=torch.int32)
    flag, byte8 = torch.ones(4, dtype=torch.bool), torch.ones(4).to(torch.float8_e5m2)
    cases = [(ints, half, "PREMUL_SUM of Int", "float32"), (flag, half, "PREMUL_SUM of Bool", "float32"),
             (flag, R.AVG, "AVG of Bool", "Convert"), (floats, R.BAND, "BAND of Float", "int32"),
             (floats, R.BOR, "BOR of Float", "int32"), (floats, R.BXOR, "BXOR of Float", "int32"),
             (byte8, R.SUM, "SUM of Float8_e5m2", "float32")]
    for tensor, op, name, mend in cases:
        words = ["Rank", "in group", name, mend]
        before = tensor.clone()
        expect(ValueError, ["all_reduce", *words], dist.all_reduce, tensor, op=op)
        expect(ValueError, ["reduce", *words], dist.reduce, tensor, 0, op=op)
        out = torch.empty(4, dtype=tensor.dtype)
        expect(ValueError, ["reduce_scatter", *words], dist.reduce_scatter, out, [tensor] * size, op=op)
        expect(ValueError, ["reduce_scatter", *words], dist.reduce_scatter_tensor, out,
               tensor.repeat(size) if tensor is not byte8 else torch.empty(4 * size, dtype=tensor.dtype), op=op)
        expect(ValueError, ["all_reduce_coalesced", *words], coalesced, tensor, op)
        assert torch.equal(tensor.to(torch.complex64), before.to(torch.complex64))
    check_all_reduce(size)  # nothing of it has been started


def coalesced(tensor, op):
    with _coalescing_manager():
        dist.all_reduce(torch.ones_like(tensor), op=op)
        dist.all_reduce(tensor, op=op)


def test_coalesced_with_a_wrong_tensor(rank, size):
    """The second tensor is refused: the first has not been started, and ranks still agree."""
    good, bad = torch.ones(3), torch.ones(3, dtype=torch.float8_e5m2)
    options = dist.AllreduceCoalescedOptions()
    expect(ValueError, ["all_reduce_coalesced", "Float8_e5m2"], backend_of().allreduce_coalesced, [good, bad], options)
    expect(ValueError, ["all_gather_into_tensor", "world size"], gather_two, size)
    assert good.tolist() == [1.0] * 3
    check_all_reduce(size)


def gather_two(size):
    with _coalescing_manager():
        dist.all_gather_into_tensor(torch.empty(size), torch.ones(1))
        dist.all_gather_into_tensor(torch.empty(size + 1), torch.ones(1))


def test_split_sizes(rank, size):
    """Sizes that do not fit are named, with the tensor's."""
    x, out = torch.zeros(2 * size + 1), torch.zeros(2 * size + 1)
    even = [2] * size
    for call, words in (
        ((out, x), ["input has", f"{2 * size + 1} rows", "input_split_sizes"] if size > 1 else None),
        ((out[:-1], x, even, even), [f"input_split_sizes [{', '.join(['2'] * size)}] make {2 * size} rows",
                                     f"has {2 * size + 1}"]),
        ((out, x[:-1], even, even), ["output_split_sizes", f"make {2 * size} rows", f"has {2 * size + 1}"]),
        ((out[:-1], x[:-1], even, [2] * (size + 1)), ["input_split_sizes", f"each of the {size} ranks"]),
        ((out[:-1], x[:-1], even, [-1] + [2] * (size - 1)), ["input_split_sizes", "negative"]),
    ):
        if words:
            expect(ValueError, ["Rank", "all_to_all_single", *words], dist.all_to_all_single, *call)
    for call, words in (
        ((lambda: dist.scatter(out, [x[:2]] * size, src=rank)), ["scatter", "own part"]),
        ((lambda: dist.gather(x, [out[:2]] * size, dst=rank)), ["gather", "own part"]),
        ((lambda: dist.all_gather([out[:2]] * size, x)), ["all_gather", "own part"]),
        ((lambda: dist.reduce_scatter(out, [x[:2]] * size)), ["reduce_scatter", "own part"]),
    ):
        expect(ValueError, ["Rank", *words], call)
    check_all_reduce(size)


def negated(count, stride=1):
    return torch._neg_view(torch.zeros(count * stride)[::stride])


def conjugated(count, stride=1):
    return torch.conj(torch.zeros(count * stride, dtype=torch.complex64)[::stride])


LAZY = {  # views that only say that their values are others than those in memory
    "negative": negated,
    "negative strided": lambda count: negated(count, 2),
    "negative of 16 bits": lambda count: torch._neg_view(torch.zeros(count, dtype=torch.float16)),
    "imaginary of conjugated": lambda count: torch.conj(torch.zeros(count, dtype=torch.complex64)).imag,
    "conjugated": conjugated,
    "conjugated strided": lambda count: conjugated(count, 2),
}


def values(make, n, start):
    made = make(n)
    made.copy_((torch.arange(n) + start).to(made.dtype) * (1 + 2j if made.is_complex() else 1))
    return made


def written_and_called(rank, size, n, make):
    """Each operation: its name, its call, and what it writes on this rank; `make` makes tensors."""
    world, options = dist.group.WORLD, dist.AllreduceCoalescedOptions()
    right, left = (rank + 1) % size, (rank - 1) % size

    def new(start=0.0, count=n):
        return values(make, count, 100 * rank + start)

    def several(count=size):
        return [new(10.0 * i) for i in range(count)]

    x, rows, parts, whole, flat = new(), several(), several(), new(count=n * size), new(count=n * size)
    yield "all_reduce", lambda: dist.all_reduce(x), [x]
    one = new()
    yield "all_reduce, asynchronous", lambda: dist.all_reduce(one, async_op=True).get_future().wait(), [one]
    yield "broadcast", lambda: dist.broadcast(x, size - 1), [x]
    yield "reduce", lambda: dist.reduce(x, 0), [x] if rank == 0 else []
    yield "all_gather", lambda: dist.all_gather(rows, x), rows
    yield "all_gather_into_tensor", lambda: dist.all_gather_into_tensor(whole, x), [whole]
    yield "gather", lambda: dist.gather(x, rows if rank == 0 else None, 0), rows if rank == 0 else []
    yield "scatter", lambda: dist.scatter(x, parts if rank == 0 else None, 0), [x]
    yield "reduce_scatter", lambda: dist.reduce_scatter(x, parts), [x]
    yield "reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(x, flat), [x]
    yield "all_to_all_single", lambda: dist.all_to_all_single(whole, flat), [whole]
    yield "all_to_all", lambda: dist.all_to_all(rows, parts), rows
    yield "all_reduce_coalesced", lambda: world.allreduce_coalesced(rows, options).wait(), rows
    pair = several(2)
    wide = [new(count=n * size) for _ in pair]
    yield "all_gather, coalesced", lambda: in_one(dist.all_gather_into_tensor, wide, pair), wide
    yield "reduce_scatter, coalesced", lambda: in_one(dist.reduce_scatter_tensor, pair, wide), pair
    lists = [several(2) for _ in range(size)]
    yield "all_gather_coalesced", lambda: dist.all_gather_coalesced(lists, pair), [t for row in lists for t in row]
    if size == 1:
        return
    yield "send and recv", lambda: exchange(dist.isend(parts[0], right), dist.irecv(x, left)), [x]
    yield "recv from any", lambda: exchange(dist.isend(parts[0], right), dist.irecv(x)), [x]
    swap = [dist.P2POp(dist.isend, parts[1], right), dist.P2POp(dist.irecv, x, left)]
    yield "batch_isend_irecv", lambda: exchange(*dist.batch_isend_irecv(swap)), [x]


def in_one(operation, outputs, inputs):
    with _coalescing_manager():
        for output, given in zip(outputs, inputs):
            operation(output, given)


def exchange(*works):
    for work in works:
        work.wait()


def test_lazily_negated_and_conjugated(rank, size):
    """Views whose values are the negatives or conjugates of what lies in memory: as inputs and as
    outputs, the same comes out as of ordinary tensors. What torch itself refuses names the mend."""
    for n in (5, 30000):
        for kind, make in LAZY.items():
            kept = make(1).dtype

            def plain(count, dtype=kept):
                return torch.zeros(count, dtype=dtype)

            for (name, call, got), (_, as_usual, wanted) in zip(
                    written_and_called(rank, size, n, make), written_and_called(rank, size, n, plain)):
                if kept == torch.complex64 and refused(call):
                    continue
                if kept != torch.complex64:
                    call()
                as_usual()
                for a, b in zip(got, wanted):
                    assert torch.equal(a, b), (name, kind, n, a[:4], b[:4])


def test_lazily_negated_beside_another_backend(rank, size):
    """Gloo gets what torch gives it without Pomona: copies, which have the values of its inputs."""
    group = dist.new_group(backend="gloo")
    whole, mine = torch.zeros(3 * size), values(negated, 3, 10 * rank)
    dist.all_gather_into_tensor(whole, mine, group=group)
    assert whole.tolist() == [10.0 * r + i for r in range(size) for i in range(3)], whole
    dist.destroy_process_group(group)


def refused(call):
    """Torch makes a real view of complex tensors for some operations, and not of these."""
    try:
        call()
    except RuntimeError as error:
        assert "resolve_conj" in str(error), error
        return True
    return False


def works_of(rank, size):
    """Each operation, asynchronous: its name, its work, and the tensors that its result() has."""
    group = dist.group.WORLD
    x = torch.full((2,), float(rank))
    flat, rows = torch.zeros(2 * size), [torch.zeros(2) for _ in range(size)]
    yield "all_reduce", dist.all_reduce(x, async_op=True), [x]
    yield "broadcast", dist.broadcast(x, 0, async_op=True), [x]
    yield "reduce", dist.reduce(x, 0, async_op=True), [x]
    yield "all_gather", dist.all_gather(rows, x, async_op=True), rows
    yield "all_gather_into_tensor", dist.all_gather_into_tensor(flat, x, async_op=True), [flat]
    yield "gather", dist.gather(x, rows if rank == 0 else None, 0, async_op=True), rows if rank == 0 else []
    yield "scatter", dist.scatter(x, rows if rank == 0 else None, 0, async_op=True), [x]
    yield "reduce_scatter", dist.reduce_scatter(x, rows, async_op=True), [x]
    yield "reduce_scatter_tensor", dist.reduce_scatter_tensor(x, flat, async_op=True), [x]
    out = torch.zeros(2 * size)
    yield "all_to_all_single", dist.all_to_all_single(out, flat, async_op=True), [out]
    others = [torch.zeros(2) for _ in range(size)]
    yield "all_to_all", dist.all_to_all(others, rows, async_op=True), others
    yield "barrier", dist.barrier(async_op=True), []
    options = dist.AllreduceCoalescedOptions()
    options.asyncOp = True
    yield "all_reduce_coalesced", group.allreduce_coalesced([x, flat], options), [x, flat]
    if size > 1:
        right, left = (rank + 1) % size, (rank - 1) % size
        got = torch.zeros(2)
        sent = dist.isend(x, right)
        yield "recv", dist.irecv(got, left), [got]
        yield "send", sent, [x]


def test_results_and_futures(rank, size):
    """get_future() before wait(), after it, and again: all of them have what result() has."""
    for when in ("before", "after"):
        for name, work, tensors in works_of(rank, size):
            early = work.get_future() if when == "before" else None
            work.wait()
            assert work.is_completed() and work.is_success(), name
            assert TORCH < (2, 13) or work.exception() is None, name  # no such type in Python
            late = work.get_future()
            for future in (early, late, work.get_future()):
                if future is None:
                    continue
                value = future.wait()
                assert future.done() and len(value) == len(tensors), (name, value, tensors)
                assert all(a.data_ptr() == b.data_ptr() for a, b in zip(value, tensors)), (name, when)
            seen = []
            late.then(lambda done, seen=seen: seen.append(len(done.value()))).wait()
            assert seen == [len(tensors)], (name, seen)
            result = work.result()
            assert [t.data_ptr() for t in result] == [t.data_ptr() for t in tensors], (name, when)


def test_future_of_what_has_been_waited_for(rank, size):
    """A Future that is asked for after wait() has its value at once, as with gloo: also while
    another's callbacks run. Which thread is in the callback is chance, so many times."""
    for _ in range(40):
        begun = threading.Event()

        def callback(future, begun=begun):
            begun.set()
            time.sleep(0.02)

        first = dist.all_reduce(torch.ones(3), async_op=True)
        tensor = torch.full((4,), float(rank))
        second = dist.all_reduce(tensor, async_op=True)
        chained = first.get_future().then(callback)
        assert begun.wait(30)
        second.wait()
        (value,) = second.get_future().value()
        assert value.data_ptr() == tensor.data_ptr() and value.tolist() == [sum(range(size))] * 4
        chained.wait()


def main():
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    run_tests(globals())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
