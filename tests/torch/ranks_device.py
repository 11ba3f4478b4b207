"""Runs on every rank: collectives on tensors of a device, a stand-in (fake_device.cc) or CUDA
(DEVICE=cuda).

Goal: results are right whatever is late, and nobody waits for the device who need not. Method: the
device does all its work late and overwrites memory that nobody keeps; each test gives its stream
work before and after a collective, without waiting itself. FAKE_DEVICE=apart (default): the CPU
does not see the device's memory; seen: it does. MIXED=1: odd ranks have no device, and call the
same with CPU tensors. PEERS=1: sums go by memory that the devices read from each other; with
FAKE_SHARING they try, and do not.
"""

import datetime
import os
import random
import sys
import threading
import time
import types

import torch
import torch.distributed as dist
from differences import difference

CUDA = os.environ.get("DEVICE") == "cuda"
PEERS = bool(os.environ.get("PEERS"))
MIXED = bool(os.environ.get("MIXED"))
ON_CPU = MIXED and int(os.environ["RANK"]) % 2 == 1

if ON_CPU:

    class fake_device:
        apart = False
        to = staticmethod(lambda t: t.clone())
        values = staticmethod(lambda t: t.clone())
        add_later = staticmethod(lambda t, number: t.add_(number))
        set_stream = staticmethod(lambda number: 0)
        close_gate = open_gate = staticmethod(lambda: None)
        synchronised = spoiled = staticmethod(lambda: 0)
elif CUDA:
    from rank_device import take_gpu

    take_gpu()  # first: the other knows the streams of this GPU
    import cuda_device as fake_device
else:
    import fake_device

    torch.utils.rename_privateuse1_backend("fake")

to, values = fake_device.to, fake_device.values


def value(rank, size, dtype=torch.int32):
    return (torch.arange(size) % 100 + rank).to(dtype)


def total(world, size, dtype=torch.int32):
    return sum(value(r, size, dtype) for r in range(world))


def same(tensor, want):
    got = values(tensor)
    assert torch.equal(got, want), difference(got, want)


SIZES = (0, 1, 17, 50000, 300001)  # the last two in pieces: POMONA_GLUE_STAGE_BYTES is small


def test_all_reduce(rank, world):
    for size in SIZES:
        for dtype in (torch.int32, torch.float32):
            tensor = to(value(rank, size, dtype))
            fake_device.add_later(tensor, 5)
            dist.all_reduce(tensor)
            fake_device.add_later(tensor, 7)
            same(tensor, total(world, size, dtype) + 5 * world + 7)


def test_average(rank, world):
    for size in SIZES:
        for dtype in (torch.int32, torch.float32):
            tensor = to(value(rank, size, dtype) * world)
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
            same(tensor, total(world, size, dtype))


def test_premultiplied(rank, world):
    for size in SIZES:
        tensor = to(value(rank, size, torch.float32))
        dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.5))
        same(tensor, total(world, size, torch.float32) / 2)


def test_strided(rank, world):
    for size in (10, 500):
        square = value(rank, size * size).view(size, size)
        tensor = to(square)
        fake_device.add_later(tensor, 1)
        dist.all_reduce(tensor.t())
        want = sum(value(r, size * size).view(size, size) + 1 for r in range(world))
        same(tensor, want)
        dist.broadcast(tensor[:, 1:3], 0)
        same(tensor, want)


def test_stress(rank, world):
    """Sums of all sizes and dtypes in chains on several streams, and ranks that are late in
    turn."""
    same_everywhere, own = random.Random(1), random.Random(rank)
    sizes = (1, 700, 40000, 300001) if not CUDA else (1, 700, 40000, 300001, 5000011)
    dtypes = (torch.float32, torch.int32, torch.float64, torch.bfloat16, torch.uint8)
    for _ in range(200 if CUDA else 30):
        number = same_everywhere.randint(1, 6)
        under_way = []
        for i in range(number):
            size, dtype = same_everywhere.choice(sizes), same_everywhere.choice(dtypes)
            if own.random() < 0.2:
                time.sleep(own.random() * 0.003)
            fake_device.set_stream(i % 3 + 1)
            tensor = to(torch.full((size,), rank + i, dtype=dtype))
            if own.random() < 0.3:
                fake_device.add_later(tensor, 0)
            work = dist.all_reduce(tensor, async_op=True)
            if same_everywhere.random() < 0.5:  # in place, once more
                work.wait()
                work = dist.all_reduce(tensor, async_op=True)
                want = (sum(range(world)) + i * world) * world
            else:
                want = sum(range(world)) + i * world
            under_way.append((i, tensor, work, want))
        for i, tensor, work, want in under_way:
            fake_device.set_stream(i % 3 + 1)
            work.wait()
            fake_device.add_later(tensor, 1)
            same(tensor, torch.full(tensor.shape, want + 1, dtype=tensor.dtype))
    fake_device.set_stream(0)


def test_memory_given_away(rank, world):
    """Who drops the tensor of a sum under way may use its memory at once: the result does not come
    there."""
    if not CUDA or MIXED:
        return
    operations = (
        lambda x, y: dist.all_reduce(x, async_op=True),
        lambda x, y: dist.broadcast(x, 0, async_op=True),
        lambda x, y: dist.all_gather_into_tensor(x, y, async_op=True),
        lambda x, y: dist.reduce_scatter_tensor(y, x, async_op=True),
        lambda x, y: dist.all_to_all_single(x, x.clone(), async_op=True),
    )
    for size in (1000 * world, 1000000 * world):
        for turn in range(20):
            tensor, part = to(value(rank, size)), to(value(rank, size // world))
            work = operations[turn % len(operations)](tensor, part)
            del tensor, part
            others = [torch.full((n,), 77 + turn, device="cuda", dtype=torch.int32)
                      for n in (size, size // world) for _ in range(3)]
            work.wait()
            del work
            others.append(torch.full((size,), 77 + turn, device="cuda", dtype=torch.int32))
            for other in others:
                assert bool((other == 77 + turn).all())


def test_many_at_once(rank, world):
    """Their order is the same on all ranks, whichever device they are on, and none is waited
    for."""
    tensors, works = [], []
    for i in range(12):
        tensor = value(rank, 1000 * (i % 4) + 5)
        if i % 3 != 2:
            tensor = to(tensor)
            fake_device.add_later(tensor, i)
        else:
            tensor.add_(i)
        tensors.append(tensor)
        works.append(dist.all_reduce(tensor, async_op=True))
    message = to(value(rank, 9)) if rank < 2 else None
    if rank < 2:  # must not wait for the sums
        work = dist.isend(message, 1) if rank == 0 else dist.irecv(message, 0)
        work.wait()
        same(message, value(0, 9))
    for i in reversed(range(12)):
        works[i].wait()
        want = total(world, 1000 * (i % 4) + 5) + i * world
        if i % 3 != 2:
            same(tensors[i], want)
        else:
            assert torch.equal(tensors[i], want)


def test_dropped(rank, world):
    """Nobody keeps the tensors; their memory is used again."""
    for _ in range(4):
        dist.all_reduce(to(value(rank, 40000)), async_op=True).wait()
    works = [dist.all_reduce(to(value(rank, 40000)), async_op=True) for _ in range(4)]
    for size in (9, 33000):
        empty = torch.zeros(size * world, dtype=torch.int32)
        full, one = value(rank, size * world), value(rank, size)
        works += [dist.broadcast(to(one), 0, async_op=True),
                  dist.all_gather_into_tensor(to(empty), to(one), async_op=True),
                  dist.reduce_scatter_tensor(to(one), to(full), async_op=True),
                  dist.all_to_all_single(to(empty), to(full), async_op=True),
                  dist.all_reduce(to(empty)[::2], async_op=True)]
    del works
    dist.barrier()
    assert fake_device.spoiled() == 0


def test_not_blocked(rank, world):
    """A collective is started while the stream cannot go on, and nobody waits for it."""
    for size in (10, 100000):
        tensor = to(value(rank, size))
        before = fake_device.synchronised()
        fake_device.close_gate()
        fake_device.add_later(tensor, 3)
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        if not ON_CPU:
            assert not work.is_completed() and not future.done()
        fake_device.open_gate()
        work.wait()
        assert fake_device.synchronised() == before
        fake_device.add_later(tensor, 4)
        same(tensor, total(world, size) + 3 * world + 4)
        future.wait()


def test_streams(rank, world):
    """The order is that of the stream which is current when a collective starts, and when it is
    waited for."""
    tensor = to(value(rank, 60000))
    before = fake_device.set_stream(3)
    fake_device.add_later(tensor, 2)
    work = dist.all_reduce(tensor, async_op=True)
    fake_device.set_stream(5)
    work.wait()
    fake_device.add_later(tensor, 1)
    same(tensor, total(world, 60000) + 2 * world + 1)
    fake_device.set_stream(before)


def test_futures(rank, world):
    """Callbacks see the result in their streams' order, and may start collectives and wait for
    them."""
    done = threading.Event()
    tensor, second = to(value(rank, 30000)), to(value(rank, 30))

    def callback(future):
        result = future.value()[0]
        fake_device.add_later(result, 1)
        dist.all_reduce(second)
        fake_device.add_later(second, 1)
        done.set()
        return result

    chained = dist.all_reduce(tensor, async_op=True).get_future().then(callback)
    chained.wait()
    assert done.is_set()
    same(tensor, total(world, 30000) + 1)
    if not MIXED:
        dist.barrier()


def test_others(rank, world):
    for size in (7, 30000):
        tensor = to(value(rank, size))
        fake_device.add_later(tensor, 1)
        dist.broadcast(tensor, 1)
        same(tensor, value(1, size) + 1)
        out = to(torch.zeros(size * world, dtype=torch.int32))
        fake_device.add_later(out, 7)  # must not come after the result
        dist.all_gather_into_tensor(out, to(value(rank, size)))
        same(out, torch.cat([value(r, size) for r in range(world)]))
        part = to(torch.zeros(size, dtype=torch.int32))
        dist.reduce_scatter_tensor(part, to(value(rank, size * world)))
        same(part, total(world, size * world)[size * rank : size * rank + size])
        inside = to(value(rank, size * world))  # the output inside the input
        dist.reduce_scatter_tensor(inside[size * rank : size * rank + size], inside)
        want = value(rank, size * world)
        want[size * rank : size * rank + size] = total(world, size * world)[size * rank : size * rank + size]
        same(inside, want)
        outs = [to(torch.zeros(size, dtype=torch.int32)) for _ in range(world)]
        dist.all_gather(outs, to(value(rank, size)))
        for r in range(world):
            same(outs[r], value(r, size))
        summed = to(torch.zeros(size, dtype=torch.int32))
        dist.reduce_scatter(summed, [to(value(rank, size) + i) for i in range(world)])
        same(summed, total(world, size) + rank * world)
        reduced = to(value(rank, size))
        dist.reduce(reduced, 0)
        if rank == 0:
            same(reduced, total(world, size))
        got = [to(torch.zeros(size, dtype=torch.int32)) for _ in range(world)]
        dist.gather(to(value(rank, size)), got if rank == 0 else None, 0)
        if rank == 0:
            for r in range(world):
                same(got[r], value(r, size))
        mine = to(torch.zeros(size, dtype=torch.int32))
        dist.scatter(mine, [to(value(r, size)) for r in range(world)] if rank == 0 else None, 0)
        same(mine, value(rank, size))
        swapped = to(torch.zeros(size * world, dtype=torch.int32))
        dist.all_to_all_single(swapped, to(value(rank, size * world)))
        want = [value(r, size * world)[size * rank : size * rank + size] for r in range(world)]
        same(swapped, torch.cat(want))
        tensor = to(value(rank, size))
        if rank == 0:
            dist.send(tensor, 1)
        elif rank == 1:
            dist.recv(tensor, 0)
            same(tensor, value(0, size))
        for delay in (0, 0.02):  # the thread that moves operations on is awake, and asleep
            if rank == 0:
                for _ in range(world - 1):
                    source = dist.recv(tensor)
                    same(tensor, value(source, size))
            else:
                time.sleep(delay)
                dist.send(to(value(rank, size)), 0)
            dist.barrier()


def test_coalesced(rank, world):
    sizes = (3, 30000, 5, 0)
    tensors = [to(value(rank, size)) for size in sizes]
    dist.all_reduce_coalesced(tensors)
    for tensor, size in zip(tensors, sizes):
        same(tensor, total(world, size))


def test_peers(rank, world):
    """Long sums go that way, unless one rank's tensor is on the CPU; other ranks' tensors change
    nothing."""
    if not PEERS:
        return
    import pomona._backends as backends

    went = backends.glue().pieces_by_peers
    works = not MIXED and fake_device.apart and not os.environ.get("FAKE_SHARING")
    for size in (300, 50000, 300001):
        before = went()
        tensor = to(value(rank, size))
        dist.all_reduce(tensor)
        same(tensor, total(world, size))
        slots = -(-size * 4 // 65536) if size * 4 >= 2000 and works else 0
        assert went() - before == slots, (size, went() - before, slots)
    before = went()
    for i in range(8):  # some by peers, some by the host, under way at once
        tensors = [to(value(rank, 40000)) for _ in range(4)]
        tensors[i % 4] = value(rank, 40000) if rank == i % world else tensors[i % 4]
        ended = [dist.all_reduce(t, async_op=True) for t in tensors]
        for work in ended:
            work.wait()
        for tensor in tensors:
            if tensor.device.type == "cpu":
                assert torch.equal(tensor, total(world, 40000))
            else:
                same(tensor, total(world, 40000))
    assert went() - before == (8 * 3 * 3 if works else 0)
    group = dist.new_group(list(range(world)))
    before = went()
    for _ in range(8):  # a group that has no use for it tries no more
        tensor = value(rank, 40000)
        dist.all_reduce(tensor, group=group)
        assert torch.equal(tensor, total(world, 40000))
    for _ in range(3):
        tensor = to(value(rank, 40000))
        dist.all_reduce(tensor, group=group)
        same(tensor, total(world, 40000))
    assert went() == before
    dist.destroy_process_group(group)
    group = dist.new_group(list(range(world)))
    tensor = to(value(rank, 40000))
    dist.all_reduce(tensor, group=group)
    same(tensor, total(world, 40000))
    held = 0 if ON_CPU or CUDA else fake_device.shared_memories()
    dist.destroy_process_group(group)
    if CUDA:
        return  # counts no memories
    if works:
        assert held == 2 * world and fake_device.shared_memories() == world
    elif not ON_CPU and os.environ.get("FAKE_SHARING"):
        assert held == 0, held


def by_peers():
    return PEERS and not MIXED and fake_device.apart and not os.environ.get("FAKE_SHARING")


def counted(action, pieces):
    """Runs it; it goes in so many pieces where peers' memory is used."""
    import pomona._backends as backends

    went = backends.glue().pieces_by_peers
    before = went()
    action()
    want = pieces if by_peers() else 0
    assert went() - before == want, (went() - before, want)


def test_peers_gather(rank, world):
    """Each way an output may lie: apart, around the input, strided, in tensors of unlike sizes."""
    for size in (40000, 50001):
        wants = [value(r, size) + 3 for r in range(world)]
        mine, out = to(value(rank, size)), to(torch.zeros(world * size, dtype=torch.int32))
        fake_device.add_later(mine, 3)
        counted(lambda: dist.all_gather_into_tensor(out, mine), -(-size * 4 // 65536))
        fake_device.add_later(out, 1)
        same(out, torch.cat(wants) + 1)
        around = to(torch.zeros(world * size, dtype=torch.int32) + rank)
        inside = around[rank * size : rank * size + size]
        fake_device.add_later(around, 5)
        dist.all_gather_into_tensor(around, inside)
        same(around, torch.cat([torch.full((size,), r + 5, dtype=torch.int32) for r in range(world)]))
        outs = [to(torch.zeros(size - 7 * r, dtype=torch.int32)) for r in range(world)]
        outs[-1] = to(torch.zeros(size - 7 * (world - 1), 2, dtype=torch.int32))[:, 1]
        counted(lambda: dist.all_gather(outs, to(value(rank, size - 7 * rank))), -(-size * 4 // 65536))
        for r in range(world):
            fake_device.add_later(outs[r], 1)
            same(outs[r], value(r, size - 7 * r) + 1)


def test_peers_reduce_scatter(rank, world):
    """Outputs apart from the input, in the place of the own part, and in that of another rank's."""
    count = 65536 // 4 // world // 64 * 64  # elements of a part in a slot
    for size, op, dtype in ((40000, "SUM", torch.int32), (33333, "AVG", torch.float32), (50001, "SUM", torch.int64)):
        each = count * 4 // torch.empty((), dtype=dtype).element_size() // 64 * 64
        wide = [(value(r, world * size, dtype) + r) * world for r in range(world)]
        whole = (sum(wide) / (world if op == "AVG" else 1)).to(dtype).view(world, size)
        reduce = getattr(dist.ReduceOp, op)
        out, source = to(torch.zeros(size, dtype=dtype)), to(wide[rank])
        counted(lambda: dist.reduce_scatter_tensor(out, source, op=reduce), -(-size // each))
        fake_device.add_later(source, 9)  # it may be used again: all have read it
        fake_device.add_later(out, 1)
        same(out, whole[rank] + 1)
        for first in (rank * size, (rank + 1) % world * size, 100):
            source = to(wide[rank])
            fake_device.add_later(source, 2)
            out = source[first : first + size]
            dist.reduce_scatter_tensor(out, source, op=reduce)
            same(out, whole[rank] + 2 * (1 if op == "AVG" else world))
        parts = [to(wide[rank].view(world, size)[r]) for r in range(world)]
        strided = to(torch.zeros(size, 2, dtype=dtype))[:, 1]
        dist.reduce_scatter(strided, parts, op=reduce)
        same(strided, whole[rank])
    halves = [torch.full((world * 40000,), 60000.0, dtype=torch.float16) for _ in range(world)]
    out = to(torch.zeros(40000, dtype=torch.float16))
    dist.reduce_scatter_tensor(out, to(halves[rank]), op=dist.ReduceOp.AVG)  # sums in fp32
    same(out, halves[0][:40000])


def test_peers_broadcast(rank, world):
    for root in range(world):
        for size in (40001, 300):
            tensor = to(value(rank, size))
            fake_device.add_later(tensor, 4)
            counted(lambda: dist.broadcast(tensor, root), -(-size * 4 // 65536) if size * 4 >= 2000 else 0)
            fake_device.add_later(tensor, 1)
            same(tensor, value(root, size) + 5)
    square = to(value(rank, 40000).view(200, 200))
    dist.broadcast(square.t(), 1)
    same(square, value(1, 40000).view(200, 200))


def test_peers_all_to_all(rank, world):
    """Sizes that only the two ranks of a pair know, some of them 0; short ones go through the
    host."""
    def size(source, target, scale):
        return 0 if (source + target) % 5 == 4 else scale * (1 + (source + 2 * target) % 3)

    most = max(size(s, t, 20000) for s in range(world) for t in range(world))
    for scale, pieces in ((20000, -(-most * 4 // (65536 // world // 64 * 64))), (3, 0)):
        sends = [size(rank, r, scale) for r in range(world)]
        gets = [size(r, rank, scale) for r in range(world)]
        wants = [value(r, size(r, rank, scale)) + rank + 6 for r in range(world)]
        source = to(torch.cat([value(rank, sends[r]) + r for r in range(world)]))
        fake_device.add_later(source, 6)
        out = to(torch.zeros(sum(gets), dtype=torch.int32))
        counted(lambda: dist.all_to_all_single(out, source, gets, sends), pieces)
        fake_device.add_later(source, 1)
        fake_device.add_later(out, 1)
        same(out, torch.cat(wants) + 1)
        ins = [to(value(rank, sends[r]) + r + 6) for r in range(world)]
        outs = [to(torch.zeros(n, dtype=torch.int32)) for n in gets]
        counted(lambda: dist.all_to_all(outs, ins), pieces)
        for r in range(world):
            same(outs[r], wants[r])
    inside = to(value(rank, world * 30000))
    dist.all_to_all_single(inside, inside)
    same(inside, torch.cat([value(r, world * 30000)[rank * 30000 : rank * 30000 + 30000] for r in range(world)]))


def test_peers_in_turns(rank, world):
    """All operations under way at once, ranks late in turn, some tensors on the CPU: slots are kept
    apart."""
    same_everywhere, own = random.Random(2), random.Random(rank)
    for _ in range(30 if CUDA else 8):
        ended = []
        for i in range(6):
            size, kind = same_everywhere.choice((600, 33000, 70001)), same_everywhere.choice("grbas")
            place = torch.Tensor.clone if same_everywhere.random() < 0.1 and rank == i % world else to
            if own.random() < 0.3:
                time.sleep(own.random() * 0.01)
            full, one = value(rank, size * world) + i, value(rank, size) + i
            block = slice(size * rank, size * rank + size)
            empty = torch.zeros(size * world if kind in "ga" else size, dtype=torch.int32)
            if kind == "g":
                out, args = place(empty), (dist.all_gather_into_tensor, place(one))
                want = torch.cat([value(r, size) + i for r in range(world)])
            elif kind == "r":
                out, args = place(empty), (dist.reduce_scatter_tensor, place(full))
                want = (total(world, size * world) + i * world)[block]
            elif kind == "a":
                out, args = place(empty), (dist.all_to_all_single, place(full))
                want = torch.cat([(value(r, size * world) + i)[block] for r in range(world)])
            elif kind == "b":
                out, args, want = place(one), (dist.broadcast, i % world), value(i % world, size) + i
            else:
                out, args, want = place(one), (dist.all_reduce,), total(world, size) + i * world
            ended.append((out, args[0](out, *args[1:], async_op=True), want))
        for out, work, want in ended:
            work.wait()
            if out.device.type == "cpu":
                assert torch.equal(out, want)
            else:
                fake_device.add_later(out, 1)
                same(out, want + 1)


def test_peers_dtypes(rank, world):
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint16, torch.uint32):
        tensor = to(value(rank, 70000).to(dtype))
        dist.all_reduce(tensor)
        same(tensor, total(world, 70000).to(dtype))


def test_staging_memory(rank, world):
    """It is used again, and what is kept has a bound."""
    if ON_CPU or not fake_device.apart:
        return
    import pomona._backends as backends

    assert 0 < backends.glue().staging_kept("cuda" if CUDA else "fake") <= 256 << 20


def late_rank(rank, world):
    """A sum that rank 1 does not come to ends with an error, and no stream is blocked by it."""
    tensor, other = to(value(rank, 100000)), to(value(rank, 100000))
    dist.all_reduce(tensor)
    same(tensor, total(world, 100000))
    if rank == 1:
        time.sleep(8)
        os._exit(0)
    try:
        dist.all_reduce(other)
    except dist.DistBackendError as error:
        assert "Timed out" in str(error) and "rank 1" in str(error), error
        fake_device.add_later(tensor, 1)
        same(tensor, total(world, 100000) + 1)
        print("met: a late rank", flush=True)
    os._exit(0)


def unlike_sizes(rank, world):
    """All ranks hear of it, none gets a wrong result."""
    try:
        dist.broadcast(to(value(rank, 40000 + (rank == 1))), 0)
    except dist.DistBackendError as error:
        assert "differ in size: from 160000 to 160004 bytes" in str(error), error
        print("met: unlike sizes", flush=True)
    os._exit(0)


def by_length(rank, world):
    """Without POMONA_GLUE_PEER_BYTES: medium sums go by peers where each rank has a device of its
    own, long ones anyway."""
    import pomona._backends as backends

    went = backends.glue().pieces_by_peers
    one_device = os.environ.get("FAKE_SHARING") == "one_device" or (CUDA and torch.cuda.device_count() < world)
    for turn in range(2):
        for size, peers in ((40000, False), (80000, not one_device), (600000, True)):
            before = went()
            tensor = to(value(rank, size))
            dist.all_reduce(tensor)
            same(tensor, total(world, size))
            assert went() - before == (-(-size * 4 // 65536) if peers else 0), (turn, size, went() - before)
            part, swapped = to(value(rank, size)), to(value(rank, size))
            dist.all_to_all_single(swapped, part)
            each = size // world
            want = [value(r, size)[each * rank : each * rank + each] for r in range(world)]
            same(swapped, torch.cat(want))


def report_of_machines(rank, world):
    """Of ranks that share no clock, in a group that knows no tensors but a device's."""
    from pomona import sight

    torch._register_device_module("fake", types.SimpleNamespace(current_device=lambda: 0, is_available=lambda: True,
                                                                _is_in_bad_fork=lambda: False))
    dist.all_reduce(to(torch.ones(5)))
    sight._boot = lambda: f"machine {rank}"
    report = sight.report()
    assert report.operations["all_reduce"]["count"] == world, report.operations
    sys.stdout.write(f"met: the report of {len(report.hosts)} ranks\n")


def main():
    os.environ.setdefault("POMONA_GLUE_STAGE_BYTES", "65536")
    import pomona

    if not ON_CPU and not fake_device.apart:
        pomona.set_host_visible("fake")
    if PEERS:
        if sys.argv[1:] != ["by_length"]:
            os.environ["POMONA_GLUE_PEER_BYTES"] = "2000"
        os.environ["POMONA_GLUE_PEER_SLOT_BYTES"] = "65536"
        if not ON_CPU and not CUDA:
            import pomona._backends as backends

            backends.glue().set_memory_sharing("fake", fake_device.memory_sharing())
    chosen = sys.argv[1:]
    late = chosen == ["late_rank"]
    backend = "fake:mpi" if chosen == ["report_of_machines"] else "mpi"
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=3 if late else 300))
    rank, world = dist.get_rank(), dist.get_world_size()
    if late:
        late_rank(rank, world)
    if chosen == ["unlike_sizes"]:
        unlike_sizes(rank, world)
    if chosen == ["report_of_machines"]:
        report_of_machines(rank, world)
    if chosen == ["by_length"]:
        by_length(rank, world)
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not chosen or name in chosen):
            test(rank, world)
    dist.destroy_process_group()
    print(f"rank {rank}: all passed")


main()
