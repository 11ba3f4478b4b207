"""Runs on every rank: one failure by name, e.g. `ranks_errors.py timeout`. Prints what it met.

Those of ranks that come late stand in ranks_timeouts.py. The runner checks the output and that the
job ends in time, with the right exit code.
"""

import gc
import os
import signal
import sys
import threading
import time
import warnings
from datetime import timedelta

import ranks_timeouts
import torch
import torch.distributed as dist
from expected import expect
from memory import expect_no_growth, pages
from rank_device import take_device
from rank_tests import TORCH
from torch.multiprocessing.reductions import StorageWeakRef

BACKEND = os.environ.get("TEST_BACKEND", "mpi")


def late_world(rank, size):
    """A rank that does not come to the first group: see main()."""


def store_fails(rank, size):
    """Rank 0 cannot open torch's store: the others are told. See main()."""


def arguments(rank, size):
    """Wrong arguments: plain errors before anything is sent."""
    half = torch.ones(2, dtype=torch.float8_e5m2)
    expect(ValueError, ["SUM", "Float8_e5m2", "Convert"], dist.all_reduce, half)
    expect(ValueError, ["BXOR", "Float"], dist.all_reduce, torch.ones(2), op=dist.ReduceOp.BXOR)
    world = dist.group.WORLD
    expect(ValueError, ["all_gather_into_tensor", "world size"], world._allgather_base,
           torch.empty(size + 1), torch.empty(1))
    expect(ValueError, ["list must have one tensor for each"], world.allgather,
           [[torch.empty(1)] * (size + 1)], [torch.empty(1)])
    expect(ValueError, ["differ in dtype"], world._reduce_scatter_base,
           torch.empty(1), torch.empty(size, dtype=torch.float64))
    expect(ValueError, ["tag", "out of range"], world.send, [torch.ones(1)], 0, -5)
    expect(ValueError, ["source 99"], world.recv, [torch.ones(1)], 99, 0)
    if rank == 0:  # alone: the ranks still count alike
        expect(ValueError, ["SUM"], dist.all_reduce, half)
    numbers = [None] * size
    backend = world._get_backend(torch.device("cpu"))
    dist.all_gather_object(numbers, backend._get_sequence_number_for_group())
    assert len(set(numbers)) == 1, numbers
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == size
    print("met: wrong arguments", flush=True)


def abort(rank, size):
    """What MPI may still write into stays, though the program drops it; what is complete goes."""
    complete, reduced, received = (torch.ones(1000) for _ in range(3))
    held = [StorageWeakRef(each.untyped_storage()) for each in (complete, reduced, received)]
    dist.all_reduce(complete)
    del complete
    until = time.time() + 10
    while not held[0].expired() and time.time() < until:
        time.sleep(0.01)
    assert held[0].expired()
    if rank == 0:
        works = [dist.all_reduce(reduced, async_op=True), dist.irecv(received, 1)]
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend.get_error().name == "SUCCESS"
        backend.abort()
        for work in works:
            expect(dist.DistBackendError, ["aborted"], work.wait)
        assert backend.get_error().name == "COMM_ERROR"
        del reduced, received, works, work
        gc.collect()
        time.sleep(0.5)
        assert not held[1].expired() and not held[2].expired()
        print("met: aborted", flush=True)
    else:
        time.sleep(3)


def stays_failed(rank, size):
    """After a timeout and after abort nothing starts any more, and the first cause is told."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert not backend._group_comm_error()
    if rank == 0:
        expect(dist.DistBackendError, ["Timed out after 1 s"], dist.all_reduce, torch.ones(3))
        assert backend._group_comm_error() and backend.get_error().name == "TIMEOUT"
        for operation in (dist.all_reduce, dist.broadcast):
            more = (0,) if operation is dist.broadcast else ()
            expect(dist.DistBackendError, ["cannot be used any more", "ALLREDUCE", "Timed out"],
                   operation, torch.ones(3), *more)
        backend.abort()
        expect(dist.DistBackendError, ["cannot be used any more", "Timed out"], dist.barrier)
        assert backend.get_error().name == "TIMEOUT"  # the first cause
        print("met: the failure stays", flush=True)
    else:
        time.sleep(4)


def abort_before_waiting(rank, size):
    """A blocking operation that was started but is not waited for yet is known to no watchdog."""
    if rank == 0:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        opts = dist.AllreduceOptions()
        opts.asyncOp = False
        work = backend.allreduce([torch.ones(3)], opts)
        backend.abort()
        expect(dist.DistBackendError, ["aborted"], work.wait)
        print("met: aborted before waiting", flush=True)
    else:
        time.sleep(3)


def abort_while_waiting(rank, size):
    """A thread inside a blocking operation is reached, and the group stays aborted."""
    if rank == 0:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        seen = []

        def wait():
            seen.append(expect(dist.DistBackendError, ["aborted"], dist.all_reduce, torch.ones(3)))

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.5)
        backend.abort()
        thread.join(20)
        assert seen
        expect(dist.DistBackendError, ["aborted"], dist.barrier)
        print("met: aborted while waiting", flush=True)
    else:
        time.sleep(3)


def interrupted(rank, size):
    """Ctrl-C ends the wait, and not only when the others have come; the operation goes on."""
    if rank == 1:
        time.sleep(5)
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3))
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what scripts start with & ignores it
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin, x = time.monotonic(), torch.ones(3)
    expect(KeyboardInterrupt, [], dist.all_reduce, x)
    took = time.monotonic() - begin
    assert took < 2, took
    print("met: an interrupt", flush=True)
    dist.all_reduce(torch.ones(3))
    assert x.tolist() == [2.0] * 3, x


def options(rank, size):
    """torch asks a backend for its options when it splits groups and makes meshes."""
    found = dist.group.WORLD._get_backend(torch.device("cpu")).options
    assert found._timeout == timedelta(seconds=60), found._timeout
    assert found.backend == BACKEND, found.backend
    # Collectives count, messages do not; of each group by itself.
    for group in (dist.group.WORLD, dist.new_group()):
        before = group._get_sequence_number_for_group()
        dist.barrier(group=group)
        if rank == 0:
            dist.send(torch.ones(2), group_dst=1, group=group)
        elif rank == 1:
            dist.recv(torch.ones(2), group_src=0, group=group)
        assert group._get_sequence_number_for_group() == before + 1
    print("met: options", flush=True)


def timeout_set_later(rank, size):
    """For the default group and another one; torch itself knows gloo's and NCCL's alone."""
    for group in (None, dist.new_group()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dist.distributed_c10d._set_pg_timeout(timedelta(milliseconds=700), group)
        if rank == 0:
            expect(dist.DistBackendError, ["Timed out after 700 ms"], dist.all_reduce, torch.ones(3), group=group)
        else:
            time.sleep(2)
    if rank == 0:
        print("met: timeouts set later", flush=True)


def peer_leaves(rank, size):
    """Rank 1's program ends in good order: who waits for it is told at once, not at the timeout."""
    x = torch.ones(3)
    dist.all_reduce(x)
    if rank == 1:
        sys.exit(0)
    expect(dist.DistBackendError, ["ALLREDUCE", "rank 1 has ended the program"], dist.all_reduce, x)
    print("met: a peer has left", flush=True)


def peer_leaves_message(rank, size):
    """The same of who waits for a message; one that was sent before is received."""
    x = torch.ones(3)
    if rank == 1:
        dist.send(x, 0)
        return
    time.sleep(1)
    dist.recv(x, 1)
    expect(dist.DistBackendError, ["RECV", "rank 1 has ended the program"], dist.recv, x, 1)
    print("met: a peer has left", flush=True)


def peer_leaves_group(rank, size):
    """Ranks are named as the group counts them, and other groups go on."""
    pair, other = dist.new_group([1, 2]), dist.new_group([0, 1])
    x = torch.ones(3)
    dist.all_reduce(x)
    if rank == 2:
        sys.exit(0)
    if rank == 1:
        expect(dist.DistBackendError, ["Rank 0 of 2", "rank 1 has ended the program"],
               dist.all_reduce, x, group=pair)
    dist.all_reduce(x, group=other)
    assert x.tolist() == [6.0] * 3
    print("met: a peer has left", flush=True)


def different_calls(rank, size):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: each pair of calls that do not match is named on all
    ranks."""
    x, longer, others = torch.ones(3), torch.ones(4), torch.ones(3, dtype=torch.int32)
    many = [torch.ones(10 + i) for i in range(40)]
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))

    def coalesced(tensors):
        return backend.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions())

    for calls, words in (
        ((lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0)), ["ALLREDUCE", "BROADCAST"]),
        ((lambda: dist.all_reduce(x), lambda: dist.all_reduce(longer)), ["[3]", "[4]"]),
        ((lambda: dist.all_reduce(x), lambda: dist.all_reduce(others)), ["Float", "Int"]),
        ((lambda: dist.all_reduce(x), lambda: dist.all_reduce(x, op=dist.ReduceOp.MAX)), ["SUM", "MAX"]),
        ((lambda: dist.broadcast(x, 0), lambda: dist.broadcast(x, 1)), ["root 0", "root 1"]),
        ((dist.barrier, lambda: dist.all_reduce(x)), ["BARRIER", "ALLREDUCE"]),
        # More tensors than the words of a call have room for.
        ((lambda: coalesced(many), lambda: coalesced([*many[:-1], x])), ["ALLREDUCE_COALESCED", "Float[10]", " ... ("]),
    ):
        text = expect(RuntimeError, [], calls[rank])
        # From 2.14 on torch's wrapper of DETAIL stands around "mpi", too, and finds some first.
        if TORCH >= (2, 14) and "Detected mismatch between collectives on ranks" in text:
            continue
        missing = [word for word in ["different collectives", "by rank 0: ", "by rank 1: ", *words] if word not in text]
        assert not missing, (missing, text)
    dist.all_reduce(x)
    assert x.tolist() == [float(size)] * 3
    print("met: different calls", flush=True)


def mismatched(rank, size):
    """Without a check: who hears of it hears what it has called, and what the other has."""
    def calls_of(group, n, later):
        def row(*sizes):
            return [torch.ones(n) for n in sizes]

        more = {"group": group, "async_op": later}
        return {
            "lengths": (lambda: dist.all_reduce(*row(n), **more), lambda: dist.all_reduce(*row(2 * n), **more)),
            "functions": (lambda: dist.all_reduce(*row(n), **more), lambda: dist.broadcast(*row(n), 0, **more)),
            "short": (lambda: dist.broadcast(*row(n), 0, **more), lambda: dist.broadcast(*row(2 * n), 0, **more)),
            "gathers": (lambda: dist.gather(*row(n), row(n, n), 0, **more),
                        lambda: dist.gather(*row(2 * n), None, 0, **more)),
            "barrier": (lambda: dist.barrier(**more), lambda: dist.all_reduce(*row(n), **more)),
        }

    heard = 0
    for n in (4, 100000):
        for later in (False, True):
            for name in ("lengths", "functions", "short", "gathers", "barrier"):
                group = dist.new_group()
                try:
                    work = calls_of(group, n, later)[name][rank]()
                    if later:
                        work.wait()
                except dist.DistBackendError as error:
                    text = str(error).splitlines()[0]
                    heard += 1
                    words = [f"Rank {rank} of 2 in group", "(sequence 1)", "POMONA_CHECK=1", "(rank ", "peer "]
                    words += [] if "BARRIER" in text else [" of Float["]
                    missing = [word for word in words if word not in text.replace("(MPI_Test: ", "(")]
                    assert not missing, f"{name} of {n}, async {later}: the message lacks {missing}: {text}"
                    assert "not in this list" not in text, text
                    print(f"heard: {name} of {n}, async {later}: {text}", flush=True)
    assert heard >= 8, heard
    print("met: calls that do not match", flush=True)


def leave_unmatched(rank, size):
    """Nobody receives what is sent: the process ends in seconds, not at the group's timeout."""
    if rank == 0:
        dist.isend(torch.ones(1000000), 1)
    print("met: left", flush=True)


def destroy_unmatched(rank, size):
    """The same after destroy_process_group; whoever holds the work is told."""
    if rank == 0:
        work = dist.isend(torch.ones(1000000), 1)
        dist.destroy_process_group()
        expect(dist.DistBackendError, ["shut down"], work.wait)
        print("met: left", flush=True)
    else:
        time.sleep(7)  # the launcher ends the others when a rank has left without MPI_Finalize


def forked(rank, size):
    """A child made by fork() gets an error and ends by itself; the parent's MPI is not
    disturbed."""
    x = torch.ones(3)
    dist.all_reduce(x)
    pending = dist.irecv(torch.empty(1), 1 - rank)
    child = os.fork()
    if child == 0:
        expect(dist.DistBackendError, ["RECV", "fork()"], pending.wait)
        expect(dist.DistBackendError, ["Rank", "fork()", "spawn"], dist.all_reduce, torch.ones(3))
        dist.destroy_process_group()
        expect(dist.DistBackendError, ["fork()"], dist.init_process_group, BACKEND)
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    dist.all_reduce(x)
    assert x.tolist() == [float(size * size)] * 3
    dist.send(torch.ones(1), 1 - rank)
    pending.wait()
    print("met: forked child", flush=True)


def exception(rank, size):
    """An uncaught exception on one rank while the other waits: the job must end, not hang."""
    if rank == 1:
        raise RuntimeError("deliberate failure")
    dist.all_reduce(torch.ones(3))


def exit_code(rank, size):
    if rank == 1:
        sys.exit(7)
    dist.all_reduce(torch.ones(3))


def many_groups(rank, size):
    """What a group leaves, names and counts, goes when hundreds of others have ended after it."""
    glue = sys.modules["pomona._glue"]
    for turn in range(700):
        group = dist.new_group()
        if turn % 20 == 0:
            dist.all_reduce(torch.ones(3), group=group)
        dist.destroy_process_group(group)
        if turn == 100:
            before = pages()
    assert len(glue.record_groups()) <= 500 + 700 // 20, len(glue.record_groups())
    expect_no_growth(before, 500)
    print("met: many groups", flush=True)


def again_and_again(rank, size):
    """Groups end and are made again in one process, and memory does not grow."""
    for turn in range(50):
        dist.destroy_process_group()
        dist.init_process_group(BACKEND)
        x = torch.ones(1000)
        dist.all_reduce(x)
        assert x[0].item() == size
        if turn == 20:
            before = pages()
    expect_no_growth(before, 1000)
    print("met: again and again", flush=True)


def recovered(rank, size, how):
    """A group ends by abort or shutdown, and the next one works; the job ends in good order."""
    for turn in range(20):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        if how == "unmatched" and rank == turn % size:
            work = dist.all_reduce(torch.ones(300000 if turn % 2 else 3), async_op=True)
            backend.abort()
            expect(dist.DistBackendError, ["aborted"], work.wait)
        elif how == "shutdown":
            backend.shutdown()
        else:
            backend.abort()
        dist.destroy_process_group()
        dist.init_process_group(BACKEND)
        x = torch.full((1000,), rank + turn)
        dist.all_reduce(x)
        assert x[0].item() == sum(other + turn for other in range(size))
        if turn == 10:
            before = pages()
    expect_no_growth(before, 1000)
    dist.destroy_process_group()
    print("met: recovered", flush=True)


def recovered_from_abort(rank, size):
    recovered(rank, size, "abort")


def recovered_from_shutdown(rank, size):
    recovered(rank, size, "shutdown")


def recovered_from_unmatched(rank, size):
    recovered(rank, size, "unmatched")


def told_of_failures(rank, size):
    """A rank fails in an operation that is over for others: who then waits for it is told soon, and
    what has failed there. Other groups go on."""
    def rows(n, root):
        return [torch.ones(n) for _ in range(size)] if rank == root else None

    def recv_too_much():
        if rank == 0:
            dist.send(torch.ones(2000), 1, group=group)
        elif rank == 1:
            dist.recv(torch.ones(1000), 0, group=group)

    n = 2000 if rank == 0 else 1000
    for name, call, by_ranks, sizes in (
        ("BROADCAST", lambda: dist.broadcast(torch.ones(n), 0, group=group), (1, 2), "Float[1000]"),
        ("SCATTER", lambda: dist.scatter(torch.ones(n), rows(n, 0), 0, group=group), (1, 2), "Float[1000]"),
        ("REDUCE", lambda: dist.reduce(torch.ones(n), 0, group=group), (0,), "Float[2000]"),
        ("GATHER", lambda: dist.gather(torch.ones(n), rows(n, 0), 0, group=group), (0,), "Float[2000]"),
        ("RECV", recv_too_much, (1,), "Float[1000]"),
    ):
        group = dist.new_group()
        try:
            call()
        except dist.DistBackendError as error:
            assert rank in by_ranks and name in str(error), error
        else:
            assert rank not in by_ranks
            start = time.time()
            text = expect(dist.DistBackendError, ["has failed", name, sizes, "MPI_ERR_TRUNCATE"],
                          dist.all_reduce, torch.ones(3), group=group)
            assert time.time() - start < 5, (time.time() - start, text)  # else 60 s
            first = text.split("has failed")[0]
            assert any(first.endswith(f": rank {each} ") for each in by_ranks), text
            text = expect(dist.DistBackendError, ["cannot be used any more", "has failed"], dist.barrier, group)
        x = torch.ones(3)
        dist.all_reduce(x)
        assert x.tolist() == [float(size)] * 3
    print("met: told", flush=True)


def told_of_ends(rank, size):
    """A rank gives up in an operation that the others would wait for: after its timeout, which is
    shorter than theirs, or by abort(), with an operation under way and without."""
    def timeout(group):
        text = expect(dist.DistBackendError, ["Timed out after", "rank 2 has not called it"],
                      dist.all_reduce, torch.ones(3), group=group)
        assert "has failed" not in text, text

    def abort(group):
        dist.all_reduce(torch.ones(3), group=group, async_op=True)
        time.sleep(0.5)
        group._get_backend(torch.device("cpu")).abort()

    def abort_idle(group):
        group._get_backend(torch.device("cpu")).abort()

    for end, words in ((timeout, "Timed out after"), (abort, "aborted"), (abort_idle, "aborted")):
        seconds = 2 if end is timeout and rank == 0 else 60
        group = dist.new_group(timeout=timedelta(seconds=seconds))
        dist.barrier(group)
        if rank == 0:
            end(group)
        elif rank == 1:
            start = time.time()
            expect(dist.DistBackendError, ["rank 0 has failed", words], dist.all_reduce, torch.ones(3), group=group)
            assert time.time() - start < 20, time.time() - start
        dist.barrier()
        if rank == 2:  # what the others have begun may be done for whoever comes late, but no more
            start = time.time()
            expect(dist.DistBackendError, ["rank 0 has failed", words],
                   lambda: [dist.all_reduce(torch.ones(3), group=group) for _ in range(2)])
            assert time.time() - start < 20, time.time() - start
        dist.barrier()
    print("met: told", flush=True)


def leave_without_destroy(rank, size):
    x = torch.ones(3)
    dist.all_reduce(x)
    print("met: left", flush=True)


def leave_pending(rank, size):
    """A send nobody waited for is delivered though its rank ends first."""
    if rank == 0:
        dist.isend(torch.arange(1000000.0), 1)
    else:
        time.sleep(1)
        x = torch.empty(1000000)
        dist.recv(x, 0)
        assert x[-1].item() == 999999
        print("met: delivered", flush=True)


def main():
    name = sys.argv[1]
    take_device()
    short = ("timeout", "timeout_of_future", "timeout_of_many", "timeout_of_messages", "monitored_barrier",
             "stays_failed")
    seconds = 1 if name in short else 60
    if name == "late_world" and os.environ["RANK"] == "1":
        time.sleep(4)
        return
    if name == "late_world":
        expect(dist.DistBackendError, ["rank 1 did not come"], dist.init_process_group, BACKEND,
               timeout=timedelta(seconds=1))
        print("met: a late rank", flush=True)
        return
    if name == "store_fails":
        def fail(*_arguments, **_more):
            raise RuntimeError("no port is free")

        if os.environ["RANK"] == "0":
            dist.TCPStore = fail
        expect(RuntimeError, ["no port is free"], dist.init_process_group, BACKEND)
        print("met: the store fails", flush=True)
        return
    seconds = 4 if name == "late_rank" else seconds
    # Not yet the short one: making the group keeps it, too, and ranks do not start at once.
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    getattr(backend, "set_timeout", getattr(backend, "_set_default_timeout", None))(
        timedelta(seconds=seconds))
    rank, size = dist.get_rank(), dist.get_world_size()
    (globals().get(name) or getattr(ranks_timeouts, name))(rank, size)
    if name in ("arguments", "timeout_of_wait"):
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
