"""Runs on every rank: callbacks of Futures that wait, raise, or are late. Prints what passed.

A callback that waits for the program's thread (HOLD at the most) must not hold up anybody else's
operations: the runner's time limit is far below HOLD. Rank 0 is the last to call what has
callbacks. So they run late on the others; on rank 0 the operation may be over at once, and then
torch runs callbacks in then(), on the thread that calls it.
"""

import ctypes
import os
import queue
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from rank_tests import run_tests

BACKEND = os.environ.get("TEST_BACKEND", "mpi")
HOLD = 600
MAIN = threading.get_ident()


def begin(rank, group=None):
    if rank == 0:
        time.sleep(1)
    return dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()


def set_timeout(group):
    """One second, where the group has been made."""
    backend = group._get_backend(torch.device("cpu"))
    getattr(backend, "set_timeout", getattr(backend, "_set_default_timeout", None))(timedelta(seconds=1))


class Blocked:
    """A callback that waits for the program's thread."""

    def __init__(self):
        self.begun, self.go, self.seen = threading.Event(), threading.Event(), False

    def __call__(self, future):
        self.begun.set()
        if threading.get_ident() != MAIN:
            self.seen = self.go.wait(HOLD)
        return future.value()

    def end(self, future):
        self.go.set()
        assert future.wait()[0].tolist() == [float(dist.get_world_size())] * 3
        assert self.seen or dist.get_rank() == 0, "the callback was not waited for"


class Messages:
    """Rank 0 sends late, by a thread; the others wait so long that MPI's thread takes over."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.thread = threading.Thread(target=self.send)
        self.thread.start()

    def send(self):
        time.sleep(0.5)
        for peer in range(1, self.size if self.rank == 0 else 0):
            dist.send(torch.full((2,), 7.0), peer)

    def receive(self):
        got = torch.full((2,), 7.0)
        if self.rank != 0:
            got.zero_()
            dist.recv(got, 0)
        assert got.tolist() == [7.0, 7.0], got
        self.thread.join()


def test_program_waits_for_message(rank, size):
    messages, blocked = Messages(rank, size), Blocked()
    future = begin(rank).then(blocked)
    assert blocked.begun.wait(HOLD)
    messages.receive()
    blocked.end(future)


def test_program_waits_for_other_group(rank, size):
    other = dist.new_group(list(range(size)))
    blocked = Blocked()
    future = begin(rank).then(blocked)
    assert blocked.begun.wait(HOLD)
    tensor = torch.full((5,), float(rank))
    if rank == 0:
        time.sleep(1)
    dist.all_reduce(tensor, group=other)
    assert tensor.tolist() == [sum(range(size))] * 5
    # and callbacks of that group run, too
    chained = begin(rank, other).then(lambda done: done.value()[0] + 1)
    assert chained.wait().tolist() == [size + 1.0] * 3
    blocked.end(future)


def test_program_waits_for_what_had_begun(rank, size):
    """In the group of the callback: an operation that was under way before."""
    if rank == 0:
        time.sleep(1)
    first = dist.all_reduce(torch.ones(3), async_op=True)
    tensor = torch.full((5,), float(rank))
    if rank == 0:
        time.sleep(1)
    second = dist.all_reduce(tensor, async_op=True)
    blocked = Blocked()
    future = first.get_future().then(blocked)
    second.wait()
    assert tensor.tolist() == [sum(range(size))] * 5
    blocked.end(future)


def test_callback_waits_for_what_comes_later(rank, size):
    """Of its own group, begun by another thread while the callback runs."""
    begun, later, tensor = threading.Event(), queue.Queue(), torch.full((5,), float(rank))

    def start_another():
        assert begun.wait(HOLD)
        later.put(dist.all_reduce(tensor, async_op=True))

    def callback(future):
        extra = torch.ones(2)
        dist.all_reduce(extra)
        begun.set()
        later.get(timeout=HOLD).wait()
        dist.all_reduce(extra)
        return tensor.clone(), extra

    thread = threading.Thread(target=start_another)
    thread.start()
    sums, extra = begin(rank).then(callback).wait()
    assert sums.tolist() == [sum(range(size))] * 5, sums
    assert extra.tolist() == [float(size**2)] * 2, extra
    thread.join()


def later_futures(rank, count):
    if rank == 0:
        time.sleep(1)
    works = [dist.all_reduce(torch.full((2,), float(i)), async_op=True) for i in range(count)]
    return works, [work.get_future() for work in works]


def test_callback_waits_for_a_later_future(rank, size):
    """Of its own group, complete before the callback begins, or not; not the next one either."""
    works, futures = later_futures(rank, 4)

    def callback(future):
        if threading.get_ident() != MAIN:
            works[2].wait()
        return [futures[i].wait()[0][0].item() for i in (2, 3, 1)]

    assert futures[0].then(callback).wait() == [2.0 * size, 3.0 * size, 1.0 * size]
    assert [future.wait()[0][0].item() for future in futures] == [i * size for i in range(4)]


def test_callback_waits_for_a_later_callback(rank, size):
    """That waits for one that comes later still."""
    _, futures = later_futures(rank, 4)
    extra = torch.ones(2)

    def first(future):
        dist.all_reduce(extra)
        return chained.wait()

    ended = futures[3].then(lambda done: done.value()[0][0].item())
    chained = futures[1].then(lambda done: [futures[2].wait()[0][0].item(), ended.wait()])
    assert futures[0].then(first).wait() == [2.0 * size, 3.0 * size]
    assert extra.tolist() == [float(size)] * 2


def test_callback_waits_for_all_later_futures(rank, size):
    """And for one that the program's thread starts after the callback has begun."""
    _, futures = later_futures(rank, 3)
    begun, more = threading.Event(), queue.Queue()

    def callback(future):
        begun.set()
        values = torch.futures.wait_all(futures[1:])
        return [value[0][0].item() for value in values + [more.get(timeout=HOLD).wait()]]

    def start_another():
        assert begun.wait(HOLD)
        more.put(dist.all_reduce(torch.full((2,), 3.0), async_op=True).get_future())

    thread = threading.Thread(target=start_another)
    thread.start()
    assert futures[0].then(callback).wait() == [1.0 * size, 2.0 * size, 3.0 * size]
    thread.join()


class Large:
    """A value whose end gives Python's lock away for a moment."""

    def __init__(self):
        self.tensor = torch.ones(2000)


def test_many_threads_chain_futures(rank, size):
    """Values end while other threads note what Futures are made of."""

    def chain():
        for _ in range(1500):
            first = torch.futures.Future()
            second = first.then(lambda done: Large())
            both = torch.futures.collect_all([second, first])
            first.set_result(torch.ones(3))
            both.wait()

    threads = [threading.Thread(target=chain) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_callback_waits_for_another_threads_message(rank, size):
    messages, blocked, got = Messages(rank, size), Blocked(), []

    def receive():
        assert blocked.begun.wait(HOLD)
        messages.receive()
        got.append(True)
        blocked.go.set()

    thread = threading.Thread(target=receive)
    thread.start()
    future = begin(rank).then(blocked)
    assert future.wait()[0].tolist() == [float(size)] * 3
    thread.join()
    assert got == [True] and (blocked.seen or rank == 0)


def test_chained(rank, size):
    """then() of then(): in order, each with the value of the one before; starts inside of them."""
    messages, blocked, seen = Messages(rank, size), Blocked(), []

    def note(number):
        def callback(future):
            seen.append(number)
            tensor = torch.tensor([float(number)])
            nested = dist.all_reduce(tensor, async_op=True).get_future()
            seen.append(nested.then(lambda done: done.value()[0].item()).wait())
            return future.value()

        return callback

    future = begin(rank).then(blocked).then(note(1)).then(note(2))
    assert blocked.begun.wait(HOLD)
    messages.receive()
    blocked.end(future)
    assert seen == [1, 1.0 * size, 2, 2.0 * size], seen


def test_nested_in_nested(rank, size):
    """A callback that waits for a Future, whose callback waits for another one's callback."""
    def deeper(depth):
        def callback(future):
            if depth == 4:
                return depth
            tensor = torch.ones(depth + 1)
            return dist.all_reduce(tensor, async_op=True).get_future().then(deeper(depth + 1)).wait()

        return callback

    assert begin(rank).then(deeper(0)).wait() == 4


def test_raises(rank, size):
    """An exception is the Future's that then() has given; others go on."""
    seen = []

    def bad(future):
        raise ValueError("deliberate")

    def after(future):
        try:
            future.value()
        except Exception as error:
            seen.append(str(error))
        return "after"

    first = begin(rank)
    failing = first.then(bad)
    first.add_done_callback(bad)  # whose error is in torch's log
    late = first.then(after)
    chained = failing.then(after)
    try:
        failing.wait()
        raise AssertionError("no error")
    except Exception as error:
        assert "deliberate" in str(error), error
    assert late.wait() == "after" and chained.wait() == "after"
    assert len(seen) == 1 and "deliberate" in seen[0], seen
    assert begin(rank).then(lambda done: done.value()[0].sum().item()).wait() == 3 * size
    dist.barrier()


def test_order(rank, size):
    """Futures of one group complete in the order of their operations, callbacks apart from the
    program's thread and one at a time."""
    seen, running = [], []

    def callback(number):
        def call(future):
            if threading.get_ident() == MAIN:
                return
            running.append(number)
            time.sleep(0.001)
            assert len(running) == 1, running
            seen.append(number)
            running.remove(number)

        return call

    if rank == 0:
        time.sleep(1)
    works = [dist.all_reduce(torch.ones(10 * (i + 1)), async_op=True) for i in range(20)]
    futures = [work.get_future() for work in reversed(works)][::-1]
    last = dist.all_reduce(torch.ones(1), async_op=True)
    chained = [future.then(callback(i)) for i, future in enumerate(futures)]
    last.wait()
    for future in chained:
        future.wait()
    assert seen == sorted(seen) and (len(seen) == 20 or rank == 0), seen


def test_many_threads(rank, size):
    """Threads with a group each, whose callbacks start collectives; others pass messages."""
    groups = [dist.new_group(list(range(size))) for _ in range(4)]
    failures = []

    def train(group, number):
        try:
            for turn in range(25):
                first, second = torch.full((10,), float(turn)), torch.ones(number + 1)

                def callback(future, second=second, group=group):
                    dist.all_reduce(second, group=group)
                    work = dist.all_reduce(second, group=group, async_op=True)
                    work.get_future().wait()
                    return future.value()[0]

                future = dist.all_reduce(first, group=group, async_op=True).get_future().then(callback)
                third = torch.ones(2)
                dist.all_reduce(third, group=group)
                assert future.wait().tolist() == [turn * float(size)] * 10
                assert second.tolist() == [float(size**2)] * (number + 1), second
                assert third.tolist() == [float(size)] * 2
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=train, args=(group, i)) for i, group in enumerate(groups)]
    for thread in threads:
        thread.start()
    for _ in range(25):
        pass_on = torch.tensor([float(rank)])
        got = torch.zeros(1)
        works = [dist.isend(pass_on, (rank + 1) % size), dist.irecv(got, (rank - 1) % size)]
        futures = [work.get_future().then(lambda done: 1) for work in works]
        assert sum(future.wait() for future in futures) == 2
        assert got.item() == (rank - 1) % size
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_destroyed(rank, size):
    """destroy_process_group lets callbacks end."""
    group = dist.new_group(list(range(size)))
    ended = []

    def slow(future):
        time.sleep(0.5)
        ended.append(True)

    future = begin(rank, group)
    future.then(slow)
    future.wait()
    dist.destroy_process_group(group)
    assert ended == [True]


def test_forked(rank, size):
    """A child that was made while a callback runs does not wait for that at its end, for 5 s."""
    if "TSAN_OPTIONS" in os.environ:  # its runtime waits for ever in such a child
        return
    blocked = Blocked()
    future = begin(rank).then(blocked)
    assert blocked.begun.wait(HOLD)
    child = os.fork()
    if child == 0:
        start = time.monotonic()
        sys.modules["pomona._glue"].python_ends(False)
        sys.exit(5 if time.monotonic() - start < 4 else 6)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    blocked.end(future)


# By name only: what fails leaves the group, or the program, unusable.


def error_waits(rank, size):
    """A callback that is told of a timeout, and waits, does not hold up the next timeout."""
    other = dist.new_group(list(range(size)))
    if rank == 0:
        set_timeout(dist.group.WORLD)
        set_timeout(other)
        go, begun = threading.Event(), threading.Event()

        def callback(future):
            begun.set()
            go.wait(HOLD)

        dist.all_reduce(torch.ones(3), async_op=True).get_future().add_done_callback(callback)
        assert begun.wait(HOLD)
        try:
            dist.all_reduce(torch.ones(3), group=other)
            raise AssertionError("no error")
        except dist.DistBackendError as error:
            assert "Timed out after 1 s" in str(error), error
        go.set()
        print("met: two timeouts", flush=True)
    else:
        time.sleep(6)


def held_too_long(rank, size):
    """What waits for callbacks that do not end says so, at the group's timeout."""
    blocked = Blocked()
    future = begin(rank).then(blocked)
    assert blocked.begun.wait(HOLD)
    set_timeout(dist.group.WORLD)
    try:
        dist.all_reduce(torch.ones(3))
        raise AssertionError("no error")
    except dist.DistBackendError as error:
        assert rank == 0 or "after the callbacks of the Future of sequence" in str(error), error
    blocked.end(future)
    if rank != 0:
        print("met: held too long", flush=True)


def failure_reaches_callback(rank, size):
    """A callback that waits for a Future of its group whose operation fails is told."""
    told = []
    dist.all_reduce(torch.ones(3))
    set_timeout(dist.group.WORLD)
    if rank != 0:
        time.sleep(1)
        dist.all_reduce(torch.ones(3))
        time.sleep(4)
        return
    first = dist.all_reduce(torch.ones(3), async_op=True)
    unmatched = dist.all_reduce(torch.ones(3), async_op=True).get_future()

    def callback(future):
        try:
            unmatched.wait()
        except Exception as error:
            told.append(str(error))

    first.get_future().then(callback).wait()
    assert len(told) == 1 and "Timed out after 1 s" in told[0], told
    print("met: told in a callback", flush=True)


def failures_wait_for_each_other(rank, size):
    """A failed Future's callback that waits for another one, which fails a moment later."""
    told = []
    dist.all_reduce(torch.ones(3))
    set_timeout(dist.group.WORLD)
    if rank != 0:
        time.sleep(5)
        return
    first, second = (dist.all_reduce(torch.ones(3), async_op=True).get_future() for _ in range(2))

    def callback(future):
        try:
            second.wait()
        except Exception as error:
            told.append(str(error))

    first.then(callback).wait()
    assert len(told) == 1 and "Timed out after 1 s" in told[0], told
    print("met: told in a callback", flush=True)


def destroyed_unmatched(rank, size):
    """destroy_process_group tells callbacks that wait for what never comes."""
    told = []
    if rank != 0:
        time.sleep(7)  # the launcher ends the others when a rank has left without MPI_Finalize
        return
    unmatched = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    unmatched.add_done_callback(told.append)
    dist.destroy_process_group()
    assert len(told) == 1
    try:
        unmatched.wait()
        raise AssertionError("no error")
    except dist.DistBackendError as error:
        assert "shut down" in str(error), error
    print("met: told of the end", flush=True)


def ends_while_blocked(rank, size):
    """The program ends while a callback waits for what never comes."""
    blocked = Blocked()
    begin(rank).then(blocked)
    assert blocked.begun.wait(HOLD)
    dist.barrier(dist.new_group(list(range(size))))
    print("met: left", flush=True)


def ends_while_waiting_for_operation(rank, size):
    """The same, with a callback that waits for a message."""
    begun = threading.Event()

    def callback(future):
        begun.set()
        if threading.get_ident() != MAIN:
            dist.recv(torch.zeros(1), 0)

    begin(rank).then(callback)
    assert begun.wait(HOLD)
    print("met: left", flush=True)


def ends_slowly_while_waiting_for_operation(rank, size):
    """The same, where this process is there for a while after Python, and hears that rank 0 has
    left: that ends the wait, and the callback's thread must not ask for Python then."""
    ends_while_waiting_for_operation(rank, size)
    if rank == 1:
        end_after(13)


def ends_slowly_while_thread_waits(rank, size):
    """The same of a thread that the program itself has begun, and leaves."""
    dist.barrier()
    if rank == 1:
        threading.Thread(target=dist.recv, args=(torch.zeros(1), 0), daemon=True).start()
        end_after(13)
    print("met: left", flush=True)


def end_after(seconds):
    """The process is there for so long when Python has ended."""
    libc = ctypes.CDLL(None)
    handle = ctypes.c_void_p(1)  # of no library; without one the thread sanitizer hands on no argument
    libc.__cxa_atexit(libc.sleep, ctypes.c_void_p(seconds), handle)


def ends_with_callbacks_to_run(rank, size):
    """Callbacks of what is complete run before the program ends."""

    def callback(number):
        time.sleep(0.05)
        print(f"met: callback {number}", flush=True)

    futures = [dist.all_reduce(torch.ones(3), async_op=True).get_future() for _ in range(5)]
    for i, future in enumerate(futures):
        future.add_done_callback(lambda done, i=i: callback(i))
    futures[-1].wait()


def main():
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    wanted = sys.argv[1:]
    if wanted and not wanted[0].startswith("test_"):
        globals()[wanted[0]](dist.get_rank(), dist.get_world_size())
        return
    run_tests(globals())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
