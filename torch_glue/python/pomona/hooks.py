"""Communication hooks for DistributedDataParallel, for links that are slower than the gradients are
large.

    import pomona.hooks
    hook = pomona.hooks.Int8()
    model.register_comm_hook(None, hook)

Each takes the gradients' average by fewer bytes. `hook.bytes` counts what this rank has given to
collectives, `hook.bytes_plain` what it would have given without the hook. Hooks see gradients
alone: parameters and buffers are broadcast whole.
"""

# No `from __future__ import annotations`: DDP compares the annotations of hooks with its own types.
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.utils.weak import WeakTensorKeyDictionary


class Hook:
    """What they have in common: the group and the counts.

    `group`: None for the default one. `bytes` and `bytes_plain` count bytes of this rank since the
    hook was made. Called by DistributedDataParallel with each bucket: a flat tensor of floats, as
    long on every rank. The Future that it returns is that of the bucket itself with the average;
    an operation that fails is thrown by it as DistBackendError.
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.bytes = self.bytes_plain = 0
        self.__name__ = self.__qualname__ = type(self).__name__  # DDP asks for them

    def __call__(self, state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        self.bytes_plain += bucket.buffer().nbytes
        future: torch.futures.Future[torch.Tensor] = self.average(bucket)
        return future

    def size(self) -> int:
        """The group's number of ranks."""
        return int(dist.get_world_size(self.group))

    def count(self, *tensors: torch.Tensor) -> None:
        """Adds the bytes of tensors that this rank gives to a collective."""
        self.bytes += sum(tensor.nbytes for tensor in tensors)

    def average(self, bucket: GradBucket) -> Any:
        """The Future of the bucket's average: one tensor of the shape and dtype of its buffer,
        which has one dimension and any floating dtype."""
        raise NotImplementedError


class Shares(Hook):
    """Each rank averages its share of all ranks' gradients, and gives the result to all.

    Both times they travel packed: a matrix of fp32 in, one of as many rows out.
    """

    multiple = 1  # of it is the length of a share

    def pack(self, values: torch.Tensor) -> torch.Tensor:
        """(rows, n) in fp32, n a multiple of `multiple`, to as many rows of what travels."""
        raise NotImplementedError

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """What pack() has made, back to (rows, n) in fp32."""
        raise NotImplementedError

    def mean(self, packed: torch.Tensor) -> torch.Tensor:
        """Of what all ranks have sent, one row in fp32."""
        return self.unpack(packed).mean(dim=0, keepdim=True)

    def average_shares(self, buffer: torch.Tensor, wanted: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """The Future of the average; and what the others get of `wanted`."""
        size = self.size()
        share = math.ceil(wanted.numel() / (size * self.multiple)) * self.multiple
        padded = wanted.new_zeros(size * share, dtype=torch.float32)
        padded[: wanted.numel()] = wanted
        packed = self.pack(padded.view(size, share))
        received = torch.empty_like(packed)
        self.count(packed)
        work = dist.all_to_all_single(received, packed, group=self.group, async_op=True)

        def back(_: Any) -> torch.Tensor:
            mine = self.pack(self.mean(received))
            everybody = mine.new_empty(size * mine.numel())
            self.count(mine)
            dist.all_gather_into_tensor(everybody, mine.flatten(), group=self.group)
            result = self.unpack(everybody.view(size, -1)).flatten()
            return buffer.copy_(result[: buffer.numel()])

        return work.get_future().then(back), packed


class Cast(Shares):
    """Gradients travel as `dtype`; their sum is made in `accumulate`: in fp32 fp16 does not
    overflow in it, and nothing is rounded but the result; in bf16, after each addition, it takes
    half the memory. Raises ValueError where `accumulate` is another dtype."""

    def __init__(self, dtype: torch.dtype, group: Any = None, accumulate: torch.dtype = torch.float32) -> None:
        super().__init__(group)
        if accumulate not in (torch.float32, torch.bfloat16):
            raise ValueError(f"accumulate must be torch.float32 or torch.bfloat16, not {accumulate}")
        self.dtype = dtype
        self.accumulate = accumulate

    def pack(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.dtype)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        return packed.float()

    def mean(self, packed: torch.Tensor) -> torch.Tensor:
        if self.accumulate == torch.float32:
            return super().mean(packed)
        total = packed[0].to(self.accumulate, copy=True)
        for row in packed[1:]:
            total += row.to(self.accumulate)
        return total.div_(self.size()).float()[None]

    def average(self, bucket: GradBucket) -> Any:
        return self.average_shares(bucket.buffer(), bucket.buffer())[0]


class Fp16(Cast):
    """Half the bytes of fp32; a gradient beyond 65504 becomes infinite."""

    def __init__(self, group: Any = None, accumulate: torch.dtype = torch.float32) -> None:
        super().__init__(torch.float16, group, accumulate)


class Bf16(Cast):
    """Half the bytes of fp32, with its range and 8 bits of precision."""

    def __init__(self, group: Any = None, accumulate: torch.dtype = torch.float32) -> None:
        super().__init__(torch.bfloat16, group, accumulate)


class Residuals:
    """What was not sent, by parameter: it is added to the next gradients (error feedback).

    Not by bucket: after the first step DDP deals the parameters into other buckets, in another
    order.
    """

    def __init__(self) -> None:
        self.kept: Any = WeakTensorKeyDictionary()

    def parts(self, bucket: GradBucket, flat: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The bucket's parameters, and of `flat`, as long as its buffer, the view that is
        theirs."""
        parameters = bucket.parameters()
        return zip(parameters, torch.split(flat, [parameter.numel() for parameter in parameters]))

    def add_to(self, bucket: GradBucket) -> torch.Tensor:
        """A new fp32 tensor of the bucket's shape: what is to be sent now."""
        wanted = bucket.buffer().to(torch.float32, copy=True)  # which is overwritten by the result
        for parameter, part in self.parts(bucket, wanted):
            if parameter in self.kept:
                part += self.kept[parameter]
        return wanted

    def keep(self, bucket: GradBucket, residual: torch.Tensor) -> None:
        """For the next step: an fp32 tensor of the bucket's shape. What is no number is dropped: a
        gradient that overflows once (GradScaler leaves such steps out) must not be there for
        ever."""
        residual = residual.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        for parameter, part in self.parts(bucket, residual):
            self.kept[parameter] = part


class TopK(Hook):
    """Only the part `ratio` of the gradients that is largest travels; the rest waits for the next
    steps.

    8 bytes for each value (its place and its fp32 value) go to every other rank. Raises ValueError
    where `ratio` is not above 0 and at most 1.
    """

    def __init__(self, ratio: float = 0.01, group: Any = None) -> None:
        super().__init__(group)
        if not 0 < ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, not {ratio}")
        self.ratio = ratio
        self.residuals = Residuals()

    def average(self, bucket: GradBucket) -> Any:
        buffer, wanted = bucket.buffer(), self.residuals.add_to(bucket)
        length = max(1, math.ceil(self.ratio * wanted.numel()))
        places = wanted.abs().topk(length, sorted=False).indices
        values = wanted[places]
        residual = wanted.clone()
        residual[places] = 0
        self.residuals.keep(bucket, residual)
        words = torch.cat([places.to(torch.int32), values.view(torch.int32)])
        everybody = words.new_empty(self.size() * words.numel())
        self.count(words)
        work = dist.all_gather_into_tensor(everybody, words, group=self.group, async_op=True)

        def back(_: Any) -> torch.Tensor:
            total = torch.zeros_like(wanted)
            for part in everybody.view(self.size(), 2, length):  # in one order on all ranks
                total.index_add_(0, part[0].long(), part[1].view(torch.float32))
            return buffer.copy_(total.div_(self.size()))

        return work.get_future().then(back)


class Int8(Shares):
    """8 bits a value and one fp32 scale for each block of `block` values, with error feedback.

    Raises ValueError where `block` is not a multiple of 4.
    """

    def __init__(self, block: int = 256, group: Any = None) -> None:
        super().__init__(group)
        if block % 4 != 0 or block <= 0:
            raise ValueError(f"block must be a multiple of 4, not {block}")
        self.block = self.multiple = block
        self.residuals = Residuals()

    def pack(self, values: torch.Tensor) -> torch.Tensor:
        """(rows, n * block) in fp32 to (rows, n * (block + 4)) bytes."""
        blocks = values.view(values.shape[0], -1, self.block)
        scales = blocks.abs().amax(dim=2, keepdim=True) / 127
        whole = (blocks / scales.clamp(min=torch.finfo(torch.float32).tiny)).round_().to(torch.int8)
        return torch.cat([whole.view(torch.uint8), scales.view(torch.uint8)], dim=2).flatten(1)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        blocks = packed.view(packed.shape[0], -1, self.block + 4)
        scales = blocks[:, :, self.block :].contiguous().view(torch.float32)
        return (blocks[:, :, : self.block].contiguous().view(torch.int8) * scales).flatten(1)

    def average(self, bucket: GradBucket) -> Any:
        wanted = self.residuals.add_to(bucket)
        future, packed = self.average_shares(bucket.buffer(), wanted)
        self.residuals.keep(bucket, wanted - self.unpack(packed).flatten()[: wanted.numel()])
        return future


class Reproducible(Hook):
    """The same bits whichever rank has which gradients, in whatever order they are added.

    With another number of ranks a rank's own gradients are those of other rows, which are rounded
    where they are added up: MicroBatches is for that. Sums are made of whole numbers: each block's
    values by one power of two, chosen by the largest of all ranks, with 40 bits below it. 8 bytes
    for each value and 8 for each block of `block` values. Raises ValueError where `block` is not
    positive.
    """

    BITS = 40  # 23 more are left for the sum: 8 million ranks

    def __init__(self, block: int = 256, group: Any = None) -> None:
        super().__init__(group)
        if block <= 0:
            raise ValueError(f"block must be positive, not {block}")
        self.block = block

    def average(self, bucket: GradBucket) -> Any:
        buffer = bucket.buffer()
        values = buffer.new_zeros(math.ceil(buffer.numel() / self.block) * self.block, dtype=torch.float64)
        values[: buffer.numel()] = buffer
        blocks = values.view(-1, self.block)
        largest = blocks.abs().amax(dim=1)
        largest = torch.where(largest.isfinite(), largest, torch.inf)
        self.count(largest)
        work = dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group, async_op=True)

        def add(_: Any) -> torch.Tensor:
            if not largest.isfinite().all():  # on all ranks: the sum is no number either
                dist.all_reduce(buffer.div_(self.size()), group=self.group)
                return buffer
            scale = torch.ldexp(torch.ones_like(largest), self.BITS - torch.frexp(largest).exponent)[:, None]
            whole = (blocks * scale).round_().to(torch.int64)
            self.count(whole)
            dist.all_reduce(whole, group=self.group)
            return buffer.copy_((whole / scale / self.size()).flatten()[: buffer.numel()])

        return work.get_future().then(add)


class MicroBatches:
    """The mean gradient of micro-batches that are dealt among the ranks, with the same bits however
    they are dealt: with any number of ranks, in any order.

        own = pomona.hooks.MicroBatches(model.parameters())
        for x, y in mine:                   # of a DistributedDataParallel: within no_sync()
            loss(model(x), y).backward()
            own.add()
        own.average()                       # into .grad
        optimizer.step()

    What a rank adds to .grad itself is rounded at each addition, so it would depend on which
    micro-batches are its own. So here each one's gradients are kept until average() (their memory
    times the rank's micro-batches), which adds all as whole numbers: 12 bytes a value travel. Of
    float32 and 16-bit parameters, all on one device. Raises ValueError for others.
    """

    BITS = 40  # below the largest summand of a value; 22 more for the sum: 4 million micro-batches

    def __init__(self, parameters: Iterable[torch.Tensor], group: Any = None) -> None:
        self.parameters = list(parameters)
        self.group = group
        self.kept: list[torch.Tensor] = []
        for parameter in self.parameters:
            if parameter.dtype not in (torch.float32, torch.float16, torch.bfloat16):
                raise ValueError(f"MicroBatches is for parameters of float32 and 16-bit floats, not {parameter.dtype}")

    def add(self) -> None:
        """Takes what is in .grad, which is None then: one micro-batch's gradients."""
        parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in self.parameters]
        self.kept.append(torch.cat([part.detach().flatten().float() for part in parts]))
        for parameter in self.parameters:
            parameter.grad = None

    def average(self) -> int:
        """Collective: .grad is then the mean of all ranks' micro-batches since the last call.
        Returns their number; of none, the mean is 0."""
        length = sum(parameter.numel() for parameter in self.parameters)
        device = self.parameters[0].device
        highest = torch.zeros(length, device=device)
        for each in self.kept:
            largest = each.abs()
            torch.maximum(highest, torch.where(largest.isfinite(), largest, torch.inf), out=highest)
        dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=self.group)
        finite = highest.isfinite()
        exponents = torch.frexp(torch.where(finite, highest, 0.0)).exponent
        scale = torch.ldexp(torch.ones(length, device=device, dtype=torch.float64), self.BITS - exponents)
        whole = torch.zeros(length + 1, device=device, dtype=torch.int64)
        whole[-1] = len(self.kept)
        for each in self.kept:
            whole[:-1] += torch.where(finite, each, 0.0).double().mul_(scale).round_().to(torch.int64)
        dist.all_reduce(whole, group=self.group)
        total = int(whole[-1])
        mean = (whole[:-1] / scale / max(total, 1)).float()
        if not finite.all():  # on all ranks
            broken = torch.zeros(length, device=device)
            for each in self.kept:
                broken += torch.where(each.isfinite(), 0.0, each)
            dist.all_reduce(broken, group=self.group)
            mean = torch.where(finite, mean, broken)
        self.kept.clear()
        parts = torch.split(mean, [parameter.numel() for parameter in self.parameters])
        for parameter, part in zip(self.parameters, parts):
            parameter.grad = part.view_as(parameter).to(parameter.dtype)
        return total
