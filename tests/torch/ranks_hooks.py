"""Runs on every rank: the communication hooks of pomona.hooks, against the exact average.

Goal: what each hook promises of its result, and how many bytes it takes. Method: a model of one
layer whose gradient is chosen: the batch's size is one and the loss is linear, so the gradient is
the input.
"""

import math

import torch
import torch.distributed as dist

import pomona.hooks as hooks

NUMBER = 5000


class Given(torch.nn.Module):
    """Of two parameters, which DDP has in one order in the first step, and in the other later."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ParameterList([torch.zeros(2000), torch.zeros(NUMBER - 2000)])

    def forward(self, x):
        return sum((part * own).sum() for part, own in zip(self.parts, x.split([2000, NUMBER - 2000])))

    def gradient(self):
        return torch.cat([part.grad for part in self.parts])


def gradient(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(NUMBER, generator=generator)


def steps(hook, number, scale=1.0, model=None):
    """Gradients of each step by the hook, and what they should be."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(model or Given())
    model.register_comm_hook(None, hook)
    for step in range(number):
        model.zero_grad()
        model(gradient(rank, step) * scale).backward()
        yield model.module.gradient(), sum(gradient(r, step) * scale for r in range(world)) / world


def check_bytes(hook, number, each):
    assert hook.bytes == number * each, (hook.bytes, number * each)
    assert hook.bytes_plain == number * NUMBER * 4


def share_of(world):
    return math.ceil(NUMBER / world)


def test_fp16(rank, world):
    hook = hooks.Fp16()
    for got, want in steps(hook, 3, scale=10000.0):  # sums are above 65504
        assert torch.allclose(got, want, rtol=2e-3, atol=16)
    check_bytes(hook, 3, 2 * share_of(world) * (world + 1))


def test_bf16(rank, world):
    hook = hooks.Bf16()
    for got, want in steps(hook, 3):
        assert torch.allclose(got, want, rtol=2e-2, atol=2e-2)
    check_bytes(hook, 3, 2 * share_of(world) * (world + 1))


def test_bf16_accumulate(rank, world):
    """Sums are rounded after each addition: to other values than those of fp32, not far off."""
    for kind in (hooks.Bf16, hooks.Fp16):
        hook, plain = kind(accumulate=torch.bfloat16), kind()
        for (got, want), (fp32, _) in zip(steps(hook, 2), steps(plain, 2)):
            assert torch.allclose(got, want, rtol=2e-2, atol=4e-2)
            # Of two the one rounding is the same.
            assert world <= 2 or not torch.equal(got, fp32)
        assert hook.bytes == plain.bytes
    try:
        hooks.Bf16(accumulate=torch.float16)
    except ValueError as error:
        assert "torch.float32 or torch.bfloat16" in str(error)
    else:
        raise AssertionError("accumulate=torch.float16 was taken")


class Buffered(Given):
    def __init__(self, rank):
        super().__init__()
        for part in self.parts:  # no value of 16 bits, and too large for fp16
            torch.nn.init.constant_(part, 1e6 + 1 / 16 + rank)
        self.register_buffer("seen", torch.full((3000,), 1e6 + 1 / 8 + rank))


def test_broadcasts_are_whole(rank, world):
    """Hooks see gradients alone: parameters and buffers are rank 0's to the bit."""
    for hook in (hooks.Fp16(), hooks.Bf16(), hooks.TopK(0.01), hooks.Int8(), hooks.Reproducible()):
        model = Buffered(rank)
        network = torch.nn.parallel.DistributedDataParallel(model)
        network.register_comm_hook(None, hook)
        for step in range(2):
            model.seen.fill_(1e6 + 1 / 8 + rank + step)
            network(gradient(rank, step)).backward()
            assert (model.seen == 1e6 + 1 / 8 + step).all(), hook.__name__
            assert all((part == 1e6 + 1 / 16).all() for part in model.parts), hook.__name__
        assert hook.bytes_plain == 2 * NUMBER * 4, "another tensor than gradients"
        part = torch.full((1000,), 1e6 + rank + 1 / 16)
        dist.broadcast(part, world - 1)
        assert (part == 1e6 + world - 1 + 1 / 16).all()
        assert hook.bytes_plain == 2 * NUMBER * 4


def test_top_k_of_all(rank, world):
    hook = hooks.TopK(1.0)
    for got, want in steps(hook, 2):
        assert torch.allclose(got, want, atol=1e-6)
    check_bytes(hook, 2, NUMBER * 8)


def test_top_k(rank, world):
    """Nothing is lost: what all steps have given and what is kept are the sum of all gradients."""
    hook, model = hooks.TopK(0.1), Given()
    given, wanted = torch.zeros(NUMBER), torch.zeros(NUMBER)
    for got, want in steps(hook, 6, model=model):
        assert 0 < int((got != 0).sum()) <= world * math.ceil(0.1 * NUMBER)
        given, wanted = given + got, wanted + want
    kept = torch.cat([hook.residuals.kept[part] for part in model.parts])
    dist.all_reduce(kept, op=dist.ReduceOp.AVG)
    assert torch.allclose(given + kept, wanted, atol=1e-4)
    check_bytes(hook, 6, math.ceil(0.1 * NUMBER) * 8)


def test_int8(rank, world):
    hook = hooks.Int8()
    for got, want in steps(hook, 4):
        # Two roundings to 1 / 127 of a block's largest value, and what the last step has left.
        assert (got - want).abs().max() < 3 * 5.0 / 127
        reference = got.clone()
        dist.broadcast(reference, 0)
        assert torch.equal(reference, got)  # the same on all ranks
    share = math.ceil(NUMBER / (world * 256)) * 260
    check_bytes(hook, 4, world * share + share)


def test_overflow(rank, world):
    """A step whose gradients have overflowed says so, and later ones do not remember it."""
    for hook in (hooks.Fp16(), hooks.TopK(0.1), hooks.Int8(), hooks.Reproducible()):
        model = torch.nn.parallel.DistributedDataParallel(Given())
        model.register_comm_hook(None, hook)
        for step in range(4):
            model.zero_grad()
            model(torch.full((NUMBER,), math.inf) if step == 1 else gradient(rank, step)).backward()
            assert bool(model.module.gradient().isfinite().all()) == (step != 1), (hook.__name__, step)


def test_two_models(rank, world):
    """One hook of two models: what is kept of the one is not added to the other."""
    hook, models = hooks.TopK(0.1), [Given(), Given()]
    networks = [torch.nn.parallel.DistributedDataParallel(model) for model in models]
    for network, factor in zip(networks, (1.0, 0.0)):
        network.register_comm_hook(None, hook)
        network(gradient(rank, 0) * factor).backward()
    assert models[0].gradient().any() and not models[1].gradient().any()


def spread(rank, step):
    """Values of unlike sizes, whose float32 sum depends on the order."""
    return gradient(rank, step) * torch.logspace(-6, 6, NUMBER) * (-1) ** rank


def averaged(hook, given):
    model = torch.nn.parallel.DistributedDataParallel(Given())
    model.register_comm_hook(None, hook)
    model(given).backward()
    return model.module.gradient()


def test_reproducible(rank, world):
    """The same bits when the ranks' gradients change places, and as one process adds them."""
    hook = hooks.Reproducible()
    first = averaged(hook, spread(rank, 1))
    for turn in range(1, world):
        assert torch.equal(averaged(hook, spread((rank + turn) % world, 1)), first)
    check_bytes(hook, world, 8 * (5120 + 20))
    blocks = torch.zeros(world, 5120, dtype=torch.float64)
    for r in range(world):
        blocks[r, :NUMBER] = spread(r, 1)
    blocks = blocks.view(world, 20, 256)
    exponents = torch.frexp(blocks.abs().amax(dim=(0, 2))).exponent
    unit = 2.0 ** (exponents.double() - 40)[:, None]
    alone = sum((blocks[r] / unit).round() for r in range(world)) * unit / world
    assert torch.equal(alone.flatten()[:NUMBER].float(), first)
    exact = sum(spread(r, 1).double() for r in range(world)) / world
    assert ((first - exact).abs() <= exact.abs() * 2**-24 + unit.expand(-1, 256).flatten()[:NUMBER] * world).all()
    broken = spread(rank, 2)
    broken[7] = math.inf if rank == 0 else 1.0
    got = averaged(hook, broken)
    assert got[7] == math.inf and got[8:].isfinite().all()


def main():
    dist.init_process_group("mpi")
    rank, world = dist.get_rank(), dist.get_world_size()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test(rank, world)
    dist.destroy_process_group()
    print(f"rank {rank}: all passed")


main()
