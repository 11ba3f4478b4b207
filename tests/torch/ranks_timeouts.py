"""What each rank sees of others that come late, or not at all, within a group's timeout: failures
by name for ranks_errors.py, which makes the group."""

import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from expected import expect

BACKEND = os.environ.get("TEST_BACKEND", "mpi")


def timeout(rank, size):
    """Rank 1 does not take part: rank 0 gets an error after the group's timeout."""
    if rank == 0:
        start = time.time()
        text = expect(dist.DistBackendError, ["Rank 0 of", "ALLREDUCE", "Timed out after 1 s"],
                      dist.all_reduce, torch.ones(3))
        assert 0.9 < time.time() - start < 8, time.time() - start
        print("met:", text.splitlines()[0], flush=True)
    else:
        time.sleep(4)


def timeout_of_future(rank, size):
    """Nobody waits for the work, only for its Future."""
    if rank == 0:
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        expect(Exception, ["Timed out after 1 s"], future.wait)
        print("met: Timed out in a Future", flush=True)
    else:
        time.sleep(4)


def timeout_of_wait(rank, size):
    """A wait with a timeout of its own: it ends, the operation goes on."""
    x = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        expect(dist.DistBackendError, ["Timed out after waiting 100 ms"], work.wait,
               timedelta(milliseconds=100))
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(x)
    assert x.tolist() == [float(size)] * 3
    print("met: wait timed out, operation complete", flush=True)


def timeout_of_messages(rank, size):
    """Messages keep the group's timeout, or one of their own, and name the rank that does not
    come."""
    if rank == 0:
        start = time.time()
        words = ["RECV of Float[3] from rank 1 (message 1)", "rank 1 has not sent it", "Timed out after 1 s"]
        text = expect(dist.DistBackendError, words, dist.recv, torch.ones(3), 1)
        assert 0.9 < time.time() - start < 8, time.time() - start
        print("met:", text.splitlines()[0], flush=True)
    else:
        time.sleep(4)


def timeout_of_many(rank, size):
    """Operations that time out one after the other are told of in one record if it holds all."""
    if rank == 0:
        works = []
        for _ in range(20):
            works.append(dist.all_reduce(torch.ones(3), async_op=True))
            time.sleep(0.01)
        for work in works:
            expect(dist.DistBackendError, ["Timed out after 1 s"], work.wait)
        print("met: timeouts of many", flush=True)
    else:
        time.sleep(6)


def longest_timeout(rank, size):
    """The longest time that Python can say is none that is over at once."""
    group = dist.new_group(timeout=timedelta.max)
    x = torch.ones(3)
    time.sleep(rank)
    dist.all_reduce(x, group=group, async_op=True).wait(timedelta.max)
    assert x.tolist() == [float(size)] * 3
    if BACKEND == "mpi":  # of others the store is torch's own, which takes no such time
        dist.destroy_process_group()
        dist.init_process_group(BACKEND, timeout=timedelta.max)
        dist.barrier()
    print("met: the longest timeout", flush=True)


def timeout_of_operation(rank, size):
    """An operation's own timeout is shorter than the group's, which is an hour."""
    group = dist.new_group(timeout=timedelta(hours=1))
    if rank == 0:
        options = dist.AllreduceOptions()
        options.timeout = timedelta(seconds=1)
        expect(dist.DistBackendError, ["ALLREDUCE", "Timed out after 1 s"],
               group._get_backend(torch.device("cpu")).allreduce, [torch.ones(3)], options)
        print("met: an operation's timeout", flush=True)
    else:
        time.sleep(4)


def timeout_that_is_made_up_for(rank, size):
    """What has timed out ends later, when the peer comes: then nothing keeps the ranks from
    MPI_Finalize, which the launcher would miss."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        expect(dist.DistBackendError, ["Timed out after 1 s"], dist.recv, torch.ones(3), 1, group=group)
    dist.barrier()
    if rank == 1:
        dist.send(torch.ones(3), 0, group=group)
    dist.barrier()
    print("met: a peer that came after the timeout", flush=True)


def monitored_barrier(rank, size):
    if rank == 0:
        expect(RuntimeError, ["monitored_barrier", "Rank 1 failed to pass monitoredBarrier"], dist.monitored_barrier,
               timeout=timedelta(seconds=1))
        print("met: monitored barrier named rank 1", flush=True)
    else:
        time.sleep(4)


def monitored_barrier_all(rank, size):
    """Passes where all come; names all that are late if that is asked for."""
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=30), wait_all_ranks=True)
    if rank == 0:
        expect(RuntimeError, ["Rank 1 failed to pass monitoredBarrier"], dist.monitored_barrier, timeout=timedelta(seconds=1),
               wait_all_ranks=True)
        print("met: monitored barrier named the late ones", flush=True)
    else:
        time.sleep(4)


def late_group(rank, size):
    """A rank that does not come to a new group is named when the time is over."""
    if rank == 0:
        expect(dist.DistBackendError, ["could not be made", "rank 1 did not come"], dist.new_group,
               [0, 1], timeout=timedelta(seconds=1))
        print("met: a late rank", flush=True)
    else:
        time.sleep(4)


def late_leader(rank, size):
    """Rank 0 comes when rank 1 has given up: neither waits for the other in MPI."""
    start = time.time()
    if rank == 0:
        time.sleep(4)
        expect(dist.DistBackendError, ["could not be made", "rank 1 did not wait until all ranks had come"],
               dist.new_group, [0, 1], timeout=timedelta(seconds=1))
    else:
        expect(dist.DistBackendError, ["could not be made", "rank 0 did not tell within 1000 ms"],
               dist.new_group, [0, 1], timeout=timedelta(seconds=1))
    print(f"met: a late leader after {time.time() - start:.0f} s", flush=True)
    time.sleep(1 if rank == 0 else 16)


def late_rank(rank, size):
    """The error of a timeout says who has not come, and what it has called last."""
    dist.barrier()
    if rank == 2:
        time.sleep(12)
        return
    text = expect(dist.DistBackendError,
                  [f"Rank {rank} of 3 in group", "ALLREDUCE of Float[3] (sequence 2)", "Timed out after 4 s",
                   "rank 2 has not called it", "number 1,", "s ago"], dist.all_reduce, torch.ones(3))
    assert "rank 0 has" not in text and "rank 1 has" not in text, text
    print("met: a late rank", flush=True)
    time.sleep(4)  # mpirun ends the others when the first has left


def stopped_rank(rank, size):
    """One whose process stands still answers nothing, and is named all the same: by the timeouts of
    collectives, of messages and of new groups, and by monitored_barrier."""
    pair, other = dist.new_group(timeout=timedelta(seconds=4)), dist.new_group(timeout=timedelta(seconds=4))
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    expect(RuntimeError, [f"Rank {rank} of", "monitored_barrier", "Rank 1 failed to pass monitoredBarrier"], dist.monitored_barrier,
           timeout=timedelta(seconds=3))
    expect(dist.DistBackendError, ["ALLREDUCE of Float[3]", "group", "Timed out after 4 s", "rank 1 did not answer"],
           dist.all_reduce, torch.ones(3), group=pair)
    expect(dist.DistBackendError, ["RECV of Float[3] from rank 1 (message 1)", "Timed out after 4 s",
                                    "rank 1 has not sent it; rank 1 did not answer"], dist.recv, torch.ones(3), 1, group=other)
    expect(dist.DistBackendError, ["could not be made", "rank 1 did not come"],
           dist.new_group, timeout=timedelta(seconds=3))
    print("met: a stopped rank", flush=True)
    time.sleep(3)  # until the other one is as far: mpirun ends all when one has left so
