"""Runs on every rank: rank 1 takes no part, and every operation ends on the others.

    ranks_dead.py [NAME...]             it is killed; by a launcher that goes on
    ranks_dead.py --absent [NAME...]    it computes, then it is stopped

Each operation has a group of its own, since one that has failed stays so. Those that need something
of rank 1 must end with an error that names rank, operation and group; others may also succeed.
Where it is killed the groups' timeout is far beyond the time that the job may take, so nothing ends
by it. Where it is absent all operations are called at once, by threads, and end at the groups'
timeout.
"""

import contextlib
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

BACKEND = os.environ.get("TEST_BACKEND", "mpi")
CPU = torch.device("cpu")
DEAD = 1
N = 50000


def all_reduce_coalesced(group, rank, size):
    with _coalescing_manager(group):
        dist.all_reduce(torch.ones(N), group=group)
        dist.all_reduce(torch.ones(3), group=group)


def coalesced_broadcasts(group, rank, size):
    with _coalescing_manager(group, CPU):
        dist.broadcast(torch.ones(N), DEAD, group=group)
        dist.broadcast(torch.ones(3), DEAD, group=group)


def all_gather_coalesced(group, rank, size):
    with _coalescing_manager(group):
        dist.all_gather_into_tensor(torch.ones(N * size), torch.ones(N), group=group)
        dist.all_gather_into_tensor(torch.ones(size), torch.ones(1), group=group)


def reduce_scatter_coalesced(group, rank, size):
    with _coalescing_manager(group):
        dist.reduce_scatter_tensor(torch.ones(N), torch.ones(N * size), group=group)
        dist.reduce_scatter_tensor(torch.ones(1), torch.ones(size), group=group)


def batch(group, rank, size):
    ops = [dist.P2POp(dist.isend, torch.ones(N), DEAD, group), dist.P2POp(dist.irecv, torch.ones(N), DEAD, group)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def objects(group, rank, size):
    dist.all_gather_object([None] * size, rank, group=group)


def future(group, rank, size):
    dist.all_reduce(torch.ones(N), group=group, async_op=True).get_future().wait()


def rows(size):
    return [torch.ones(N) for _ in range(size)]


# name: (the call, on which ranks it must fail, what the error must say)
ALL = (0, 2)
OPERATIONS = {
    "all_reduce": (lambda g, r, s: dist.all_reduce(torch.ones(N), group=g), ALL, "ALLREDUCE of Float[50000]"),
    "all_reduce_short": (lambda g, r, s: dist.all_reduce(torch.ones(3), group=g), ALL, "ALLREDUCE of Float[3]"),
    "all_reduce_async": (lambda g, r, s: dist.all_reduce(torch.ones(N), group=g, async_op=True).wait(), ALL,
                         "ALLREDUCE"),
    "future": (future, ALL, "ALLREDUCE"),
    "all_reduce_coalesced": (all_reduce_coalesced, ALL, "ALLREDUCE_COALESCED"),
    "coalesced_broadcasts": (coalesced_broadcasts, ALL, "BROADCAST"),
    "sparse": (lambda g, r, s: dist.all_reduce(torch.eye(3).to_sparse(), group=g), ALL, "_ALLGATHER_BASE"),
    "broadcast": (lambda g, r, s: dist.broadcast(torch.ones(N), DEAD, group=g), ALL, "BROADCAST"),
    "broadcast_of_0": (lambda g, r, s: dist.broadcast(torch.ones(N), 0, group=g), (), "BROADCAST"),
    "reduce": (lambda g, r, s: dist.reduce(torch.ones(N), 0, group=g), (0,), "REDUCE"),
    "all_gather": (lambda g, r, s: dist.all_gather(rows(s), torch.ones(N), group=g), ALL, "ALLGATHER"),
    "all_gather_into_tensor": (lambda g, r, s: dist.all_gather_into_tensor(torch.ones(N * s), torch.ones(N), group=g),
                               ALL, "_ALLGATHER_BASE"),
    "all_gather_coalesced": (all_gather_coalesced, ALL, "COALESCED"),
    "gather": (lambda g, r, s: dist.gather(torch.ones(N), rows(s) if r == 0 else None, 0, group=g), (0,), "GATHER"),
    "scatter": (lambda g, r, s: dist.scatter(torch.ones(N), None, DEAD, group=g), ALL, "SCATTER"),
    "scatter_of_0": (lambda g, r, s: dist.scatter(torch.ones(N), rows(s) if r == 0 else None, 0, group=g), (),
                     "SCATTER"),
    "reduce_scatter": (lambda g, r, s: dist.reduce_scatter(torch.ones(N), rows(s), group=g), ALL, "REDUCE_SCATTER"),
    "reduce_scatter_tensor": (lambda g, r, s: dist.reduce_scatter_tensor(torch.ones(N), torch.ones(N * s), group=g),
                              ALL, "_REDUCE_SCATTER_BASE"),
    "reduce_scatter_coalesced": (reduce_scatter_coalesced, ALL, "REDUCE_SCATTER"),
    "all_to_all": (lambda g, r, s: dist.all_to_all(rows(s), rows(s), group=g), ALL, "ALLTOALL"),
    "all_to_all_single": (lambda g, r, s: dist.all_to_all_single(torch.ones(N * s), torch.ones(N * s), group=g), ALL,
                          "ALLTOALL_BASE"),
    "send": (lambda g, r, s: dist.send(torch.ones(1 << 20), DEAD, group=g), ALL, "SEND of Float[1048576]"),
    "recv": (lambda g, r, s: dist.recv(torch.ones(N), DEAD, group=g), ALL, "RECV of Float[50000]"),
    "recv_from_any": (lambda g, r, s: dist.recv(torch.ones(N), group=g), ALL, "RECVANYSOURCE"),
    "batch": (batch, ALL, "Float[50000]"),
    "barrier": (lambda g, r, s: dist.barrier(group=g), ALL, "BARRIER"),
    "monitored_barrier": (lambda g, r, s: dist.monitored_barrier(group=g, timeout=timedelta(seconds=5)), (0,),
                          "monitored_barrier"),
    "objects": (objects, ALL, "ALLGATHER"),
}


MESSAGES = {"send": "received", "recv": "sent", "recv_from_any": "sent", "batch": "received"}


def said_of(name, absence):
    """What an error says at the timeout of the operation's number, and of rank 1. A barrier was the
    group's only operation before."""
    if name == "monitored_barrier":
        return ["Rank 1 failed to pass monitoredBarrier"]
    if name not in MESSAGES:
        last = "rank 1 has not called it (its last one of this group was number 1, "
        return ["(sequence 2)", *(["rank 1 did not answer: stopped"] if absence == "stopped" else [last, " s ago)"])]
    missing = f"rank 1 has not {MESSAGES[name]} it"
    if absence == "stopped":
        return ["(message 1)", missing, "rank 1 did not answer: stopped"]
    return ["(message 1)", missing + " (its last in this group: no message, and collective number 1, ", " s ago)"]


def absent(wanted, store, rank, size):
    """The operations of one rank that finds rank 1 late, or stopped."""
    for absence in ("late", "stopped"):
        groups = {name: dist.new_group(timeout=timedelta(seconds=6)) for name in wanted}
        for group in groups.values():
            dist.barrier(group=group)
        if rank == DEAD and absence == "stopped":
            store.set("stopped", str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        elif rank == DEAD:
            store.wait([f"{absence}{each}" for each in range(size) if each != DEAD], timedelta(seconds=90))
            continue

        def outcome(name):
            call, fails, words = OPERATIONS[name]
            try:
                call(groups[name], rank, size)
            except (dist.DistBackendError, RuntimeError) as error:
                text = str(error)
                said = [f"Rank {rank} of {size} in group", words, *said_of(name, absence)]
                missing = [each for each in said if each not in text]
                return f"{absence}: {name}: lacks {missing}: {text}" if missing else ""
            return f"{absence}: {name} succeeded without rank {DEAD}" if rank in fails else ""

        with ThreadPoolExecutor(len(wanted)) as threads:
            wrong = [each for each in threads.map(outcome, wanted) if each]
        assert not wrong, f"rank {rank}: " + "\n".join(wrong)
        store.set(f"{absence}{rank}", "ended")
    store.wait([f"stopped{each}" for each in range(size) if each != DEAD], timedelta(seconds=60))
    print(f"rank {rank}: all {len(wanted)} passed", flush=True)
    if rank == 0:
        with contextlib.suppress(ProcessLookupError):  # of another machine, or ended by the launcher
            os.kill(int(store.get("stopped")), signal.SIGKILL)


def main():
    if "--absent" in sys.argv:
        dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
        wanted = sys.argv[2:] or [name for name in OPERATIONS if name != "objects"]
        store = dist.distributed_c10d._get_default_store()
        return absent(wanted, store, dist.get_rank(), dist.get_world_size())
    dist.init_process_group(BACKEND, timeout=timedelta(minutes=30))
    rank, size = dist.get_rank(), dist.get_world_size()
    wanted = sys.argv[1:] or list(OPERATIONS)
    groups = {name: dist.new_group() for name in wanted}
    late = dist.new_group()
    for group in (*groups.values(), late):
        dist.barrier(group=group)
    if rank == DEAD:
        os.kill(os.getpid(), signal.SIGKILL)
    for name in wanted:
        call, fails, words = OPERATIONS[name]
        try:
            call(groups[name], rank, size)
        except (dist.DistBackendError, RuntimeError) as error:
            text = str(error)
            named = f"Rank {rank} of {size} in group" in text and words in text
            # A survivor that had all its errors may be gone when the other hears of the first.
            both = "ranks {}, {} have died".format(*sorted((DEAD, 2 - rank)))
            who = "rank 1 has died" in text or both in text
            assert named and who, f"{name}: {text}"
            print(f"met: {name}: {text.splitlines()[0]}", flush=True)
        else:
            assert rank not in fails, f"rank {rank}: {name} succeeded without rank {DEAD}"
            print(f"met: {name} succeeded on rank {rank}", flush=True)
    print(f"rank {rank}: all {len(wanted)} passed", flush=True)


if __name__ == "__main__":
    main()
