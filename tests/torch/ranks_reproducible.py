"""Runs on every rank: sums whose bits depend on the summands alone (glue_sum=reproducible).

Goal: the same bits in whatever order the ranks have the summands, however many ranks and in
whichever operation; and the right ones. Method: summands of a number, the same in every job, are
dealt among the ranks of groups of all sizes, in several orders, with zeros for the other ranks.
Rank 0 prints a digest of the bits, which test_glue.py compares between jobs of other sizes,
algorithms and transports. The values are compared with sums of fractions.
"""

import hashlib
import itertools
import math
import os
import sys
from fractions import Fraction

import torch
import torch.distributed as dist
from rank_tests import run_tests

import pomona.hooks

NUMBER = 509  # values of a tensor
MOST = 4  # summands
FLOATS = [torch.float32, torch.float64]
OTHERS = [torch.bfloat16, torch.float16, torch.complex64, torch.complex128]
KINDS = ["gradients", "wild", "cancelling", "denormal", "large", "no numbers"]
REPRODUCIBLE = os.environ.get("POMONA_GLUE_SUM") == "reproducible"
digests = {}  # by what they are of: jobs in which that is the same have the same


def note(name, x):
    digests.setdefault(name, hashlib.sha256()).update(bits(x).numpy().tobytes())


def real_summand(kind, dtype, number):
    generator = torch.Generator().manual_seed(1000 * KINDS.index(kind) + number)
    normal = torch.randn(NUMBER, generator=generator, dtype=torch.float64)
    info = torch.finfo(dtype)
    if kind == "wild":
        low, high = math.frexp(info.tiny)[1], math.frexp(info.max)[1] - 4
        powers = torch.randint(low, high, (NUMBER,), generator=generator)
        return torch.ldexp(normal, powers).to(dtype)
    if kind == "cancelling":
        same = torch.randn(NUMBER, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        return (same * (-1) ** number + normal * 1e-3).to(dtype)
    if kind == "denormal":
        return (torch.randint(-9, 9, (NUMBER,), generator=generator) * info.smallest_normal * info.eps).to(dtype)
    if kind == "large":  # the sum of two is no number any more, unless the next is taken away first
        return torch.full((NUMBER,), info.max * (-1) ** (number // 2), dtype=dtype)
    values = normal.to(dtype)
    if kind == "no numbers":
        values[10:20] = math.inf
        values[20 + 10 * number] = math.nan
        values[60:70] = math.inf if number == 0 else -math.inf
        values[70 + number] = -math.inf
    return values


def summand(kind, dtype, number):
    """Of number MOST and more: nothing, by zeros of either sign."""
    if dtype.is_complex:
        half = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.complex(summand(kind, half, number), summand(kind, half, number).flip(0))
    if number >= MOST:
        return torch.full((NUMBER,), -0.0 if number % 2 else 0.0, dtype=dtype)
    return real_summand(kind, dtype, number)


def bits(x):
    x = torch.view_as_real(x) if x.is_complex() else x
    if x.element_size() == 2:  # torch makes these of fp32, and NaN in more than one pattern
        x = torch.where(x.isnan(), math.nan, x)
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def same_bits(a, b):
    return torch.equal(bits(a), bits(b))


def scatter_lengths(size):
    """Unequal, one of them 0."""
    lengths = [40 * i for i in range(size)]
    return [*lengths[:-1], NUMBER - sum(lengths[:-1])]


def gathered(part, lengths, group):
    """The ranks' parts, one after the other."""
    parts = [torch.empty(length, dtype=part.dtype) for length in lengths]
    dist.all_gather(parts, part, group=group)
    return torch.cat(parts)[:NUMBER]


def by_each_operation(x, group, all_forms):
    """The sum of the ranks' `x`, by the operations that can make it: {name: tensor}."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    sums = {}

    def reduced(name, tensor):
        dist.all_reduce(tensor, group=group)
        sums[name] = tensor.resolve_neg().reshape(-1)

    reduced("all_reduce", x.clone())
    at_root = x.clone()
    dist.reduce(at_root, group_dst=size - 1, group=group)
    if rank != size - 1:
        assert same_bits(at_root, x), "reduce has written on a rank that gets nothing"
    dist.broadcast(at_root, group_src=size - 1, group=group)
    sums["reduce"] = at_root
    lengths = scatter_lengths(size)
    inputs = list(x.split(lengths))
    part = torch.empty_like(inputs[rank])
    dist.reduce_scatter(part, inputs, group=group)
    sums["reduce_scatter"] = gathered(part, lengths, group)
    if not all_forms:
        return sums
    wide = torch.zeros(NUMBER, 3, dtype=x.dtype)
    wide[:, 1] = x
    reduced("a strided view", wide[:, 1])
    assert not bits(wide[:, 0]).any() and not bits(wide[:, 2]).any()
    if not x.is_complex():
        reduced("a negated view", torch._neg_view(-x))
    work = dist.all_reduce(later := x.clone(), group=group, async_op=True)
    with dist._coalescing_manager(group=group):
        dist.all_reduce(first := x.clone(), group=group)
        dist.all_reduce(torch.zeros(0, dtype=x.dtype), group=group)
        dist.all_reduce(second := x.flip(0), group=group)
    work.wait()
    sums |= {"async_op": later, "coalesced": first, "coalesced, second": second.flip(0)}
    each = -(-NUMBER // size)
    padded = torch.cat([x, torch.zeros(each * size - NUMBER, dtype=x.dtype)])
    part = torch.empty(each, dtype=x.dtype)
    dist.reduce_scatter_tensor(part, padded, group=group)
    sums["reduce_scatter_tensor"] = gathered(part, [each] * size, group)
    inside = padded.clone()
    own = inside[rank * each : (rank + 1) * each]
    dist.reduce_scatter_tensor(own, inside, group=group)
    sums["reduce_scatter_tensor, in place"] = gathered(own, [each] * size, group)
    parts = torch.empty(each, dtype=x.dtype), torch.empty(each, dtype=x.dtype)
    with dist._coalescing_manager(group=group):
        for part in parts:
            dist.reduce_scatter_tensor(part, padded, group=group)
    sums["reduce_scatter_tensor, coalesced"] = gathered(parts[1], [each] * size, group)
    return sums


def orders(size):
    return list(itertools.permutations(range(size))) if size < 4 else [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)]


def groups(world):
    """Of each size, in two orders."""
    made = []
    for size in range(1, world + 1):
        made += [dist.new_group(list(range(size))), dist.new_group(list(range(world - size, world)))]
    return [group for group in made if group is not dist.GroupMember.NON_GROUP_MEMBER]


def fraction(x):
    return [Fraction(value) for value in x.double().tolist()]


def check_values(kind, dtype, count, got):
    """Within what docs/torch.md says: half of the last bit, and 2^-46 of the largest summand (2^-92
    of doubles) for each summand; of 16-bit floats two roundings."""
    if kind == "no numbers" or dtype.is_complex:
        return
    summands = [fraction(summand(kind, dtype, number)) for number in range(count)]
    info = torch.finfo(dtype)
    for i, value in enumerate(got.double().tolist()):
        each = [numbers[i] for numbers in summands]
        exact, most = sum(each), max(abs(number) for number in each)
        if not math.isfinite(value):
            assert abs(exact) >= Fraction(info.max), (kind, dtype, i, value)
            continue
        last = Fraction(info.eps) * max(abs(exact), Fraction(info.smallest_normal))
        unit = Fraction(2) ** (-92 if dtype == torch.float64 else -46) * most * 2
        assert abs(Fraction(value) - exact) <= last * Fraction(51, 100) + unit * count, (kind, dtype, i, value, exact)
        if value == 0 and exact == 0:
            assert math.copysign(1, value) == 1, "a sum that is nothing is +0"


def check_no_numbers(got, count):
    assert (got[10:20] == math.inf).all()
    assert all(math.isnan(got[20 + 10 * number]) for number in range(count))
    assert got[60:70].isnan().all() if count > 1 else (got[60:70] == math.inf).all()
    assert all(got[70 + number] == -math.inf for number in range(count))
    assert got[80:].isfinite().all()


def check_bits(name_of_sums, dtypes, world):
    """In groups of each size, in several orders, by each operation."""
    some = groups(world)
    for dtype, kind, count in itertools.product(dtypes, KINDS, range(1, world + 1)):
        first = None
        special = kind == "no numbers" or (kind == "gradients" and count == world)
        for group in some:
            size = dist.get_world_size(group)
            if size < count:
                continue
            for order in orders(size)[: 6 if kind == "wild" and count == size else 2]:
                number = order[dist.get_rank(group)]
                given = summand(kind, dtype, number if number < count else MOST + number)
                for name, got in by_each_operation(given, group, special).items():
                    first = got if first is None else first
                    assert same_bits(got, first), (name, dtype, kind, count, size, order)
        check_values(kind, dtype, count, first)
        if kind == "no numbers" and not dtype.is_complex:
            check_no_numbers(first, count)
        note(f"{name_of_sums} of {count}", first)


def test_bits_of_floats(rank, world):
    check_bits("sums", FLOATS, world)


def test_bits_of_others(rank, world):
    check_bits("other sums", OTHERS, world)


def test_averages_and_factors(rank, world):
    """AVG is the sum, divided and rounded once; PREMUL_SUM the sum of products."""
    factor = 1 / 3
    for dtype, kind in itertools.product([*FLOATS, *OTHERS], ["gradients", "wild"]):
        given = [summand(kind, dtype, number) for number in range(world)]
        wide = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
        seen = []
        for turn in range(world):
            mean, product = given[(rank + turn) % world].clone(), given[(rank + turn) % world].clone()
            part = torch.empty(-(-NUMBER // world), dtype=dtype)
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            dist.all_reduce(product, op=dist._make_nccl_premul_sum(factor))
            padded = torch.cat([given[(rank + turn) % world], torch.zeros(len(part) * world - NUMBER, dtype=dtype)])
            dist.reduce_scatter_tensor(part, padded, op=dist.ReduceOp.AVG)
            assert same_bits(gathered(part, [len(part)] * world, None), mean)
            seen.append((mean, product))
        assert all(same_bits(a, b) for each in seen for a, b in zip(each, seen[0]))
        if kind == "gradients" and not dtype.is_complex:
            exact = [sum(numbers) / world for numbers in zip(*(fraction(each) for each in given))]
            off = max(abs(Fraction(a) - b) for a, b in zip(seen[0][0].double().tolist(), exact))
            assert off <= Fraction(torch.finfo(dtype).eps) * 3, (dtype, float(off))
            products = [each.to(wide) * factor for each in given]
            exact = [sum(numbers) for numbers in zip(*(fraction(each) for each in products))]
            off = max(abs(Fraction(a) - b) for a, b in zip(seen[0][1].double().tolist(), exact))
            assert off <= Fraction(torch.finfo(dtype).eps) * 4, (dtype, float(off))


def test_other_sums(rank, world):
    """What has no order, or no sum, is as ever; also beside floats in one call."""
    for dtype in (torch.int32, torch.uint8, torch.int64):
        x = torch.full((70,), rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert (x == world * (world + 1) // 2).all()
    x = torch.full((5,), rank + 1.5)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    assert (x == world + 0.5).all()
    mixed = [torch.full((40,), rank + 1), torch.full((41,), rank + 0.25), torch.full((3,), rank, dtype=torch.int16)]
    with dist._coalescing_manager():
        for tensor in mixed:
            dist.all_reduce(tensor)
    assert (mixed[0] == world * (world + 1) // 2).all() and (mixed[2] == world * (world - 1) // 2).all()
    assert (mixed[1] == world * (world - 1) / 2 + world / 4).all()
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    dist.reduce_scatter_tensor(torch.zeros(0), torch.zeros(0))


def test_flushed_denormals(rank, world):
    """A thread that takes denormals for zero makes the same of them."""
    given = summand("denormal", torch.float32, rank)
    plain = given.clone()
    dist.all_reduce(plain)
    torch.set_flush_denormal(True)
    dist.all_reduce(given)
    torch.set_flush_denormal(False)
    assert bits(plain).any() and same_bits(plain, given)


def test_long(rank, world):
    """Several pieces of the usual length, several operations under way."""
    generator = torch.Generator().manual_seed(5)
    given = torch.randn(world, 1_300_003, generator=generator) * torch.logspace(-8, 8, 1_300_003)
    tensors = [given[(rank + turn) % world].clone() for turn in range(3)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    assert all(same_bits(tensor, tensors[0]) for tensor in tensors)
    exact = given.double().sum(dim=0)
    assert torch.allclose(tensors[0].double(), exact, rtol=1e-6, atol=0) or world > 2
    note(f"long sums of {world}", tensors[0])


def rows_of(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 20, generator=generator), torch.randint(3, (8,), generator=generator)


def trained(rank, world, micro_batches):
    """Weights after some steps with a batch of 8 rows, each a micro-batch of its own."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    own = pomona.hooks.MicroBatches(model.parameters()) if micro_batches else None
    for step in range(5):
        x, y = rows_of(step)
        for row in range(rank, 8, world):
            torch.nn.functional.cross_entropy(model(x[row : row + 1]), y[row : row + 1]).backward()
            if own:
                own.add()
        if own:
            assert own.average() == 8
        else:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= 8
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_micro_batches(rank, world):
    """The same weights with any number of ranks: the digest is compared."""
    note("trained weights", trained(rank, world, True))
    model = torch.nn.Linear(3, 1)
    own = pomona.hooks.MicroBatches(model.parameters())
    model.weight.grad = torch.tensor([[math.inf, 1.0, 1e-30]])  # and none of the bias
    own.add()
    model.weight.grad = torch.tensor([[1.0, -1.0 if rank else math.nan, 1e-30]])
    own.add()
    assert own.average() == 2 * world
    assert model.weight.grad[0, 0] == math.inf and model.weight.grad[0, 1].isnan()
    assert model.weight.grad[0, 2] == 1e-30 and not model.bias.grad.any()
    assert own.average() == 0 and not model.weight.grad.any(), "nothing is left"


def order_matters(rank, world):
    """What the parameter is for: without it the same summands in another order give other bits."""
    given = [summand("gradients", torch.float32, number) for number in range(world)]
    seen = []
    for order in itertools.permutations(range(world)):
        x = given[order[rank]].clone()
        dist.all_reduce(x)
        seen.append(x)
    differ = any(not same_bits(x, seen[0]) for x in seen)
    note("plainly trained weights", trained(rank, world, False))
    if rank == 0:
        print("order matters:", differ, flush=True)


def main():
    assert REPRODUCIBLE or sys.argv[1:] == ["order_matters"]
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    rank, world = dist.get_rank(), dist.get_world_size()
    if sys.argv[1:] == ["order_matters"]:
        order_matters(rank, world)
    else:
        run_tests(globals())
    mine = {name: each.hexdigest() for name, each in digests.items()}
    everybody = [None] * world
    dist.all_gather_object(everybody, mine)
    assert all(each == mine for each in everybody)
    for name, each in mine.items() if rank == 0 else ():
        print(f"digest of {name}: {each}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
