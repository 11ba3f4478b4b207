"""Runs on every rank of a job that mpirun has not started: `ranks_start.py BACKEND HOW [METHOD]`.

HOW: "train" (sums, subgroups, DDP against one process), "killed" (rank 1 kills itself), "restarted"
(the same at torchrun's first attempt only), "beside" (a group beside gloo's), "again" (many groups,
one after the other, and neither memory nor threads nor files grow), "port" (the store ends with its
group), "untold" (as "again", but nothing in the environment tells torch its rank, as with launchers
of other MPI libraries), "swept" (another job starts just after rank 0 was killed), "looked_at"
(`pomona top` runs beside it).
"""

import os
import signal
import socket
import subprocess
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from memory import expect_no_growth, pages
from rank_device import take_device
from ranks_models import test_ddp
from torch import nn

import pomona


def check_sums(group=None):
    x = torch.full((1000,), float(dist.get_rank() + 1))
    dist.all_reduce(x, group=group)
    size = dist.get_world_size()
    assert x.tolist() == [size * (size + 1) / 2] * 1000, x[0]


def train(rank, size):
    check_sums()
    test_ddp(rank, size)
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        x = torch.ones(3)
        dist.all_reduce(x, group=pair)
        assert x.tolist() == [2.0] * 3
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [each["rank"] for each in objects] == list(range(size))
    # Once more in the same processes.
    dist.destroy_process_group()
    start()
    check_sums()


def killed(rank, size):
    check_sums()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(1000):
            dist.all_reduce(torch.ones(100000))
    except dist.DistBackendError as error:
        print(f"met: {str(error).splitlines()[0]}", flush=True)
        assert "Timed out" not in str(error)
        return
    raise AssertionError("no error")


def swept(rank, size):
    """It begins before the others can have seen the death, and leaves them what they see it by."""
    pids = [None] * size
    dist.all_gather_object(pids, os.getpid())
    others = " ".join(map(str, pids[1:]))
    if rank == 1:
        subprocess.Popen(["sh", "-c", f"kill -STOP {others}; kill -KILL {pids[0]}; "
                          f"while kill -0 {pids[0]} 2> /dev/null; do sleep 0.1; done; "
                          f"'{os.environ['TOOLS']}/mpirun' -n 1 true; kill -CONT {others}"])
    try:
        while True:
            dist.all_reduce(torch.ones(10))
    except dist.DistBackendError as error:
        print(f"met: {str(error).splitlines()[0]}", flush=True)
        assert "Timed out" not in str(error)


def looked_at(rank, size):
    """It is not one that mpirun could tell of, and nobody's signal ends it."""
    if rank == 0:
        done = subprocess.run([f"{os.environ['TOOLS']}/pomona", "top", "--once"], capture_output=True, text=True)
        assert done.returncode != 0 and "no mpirun of yours runs on this host" in done.stderr, done
    check_sums()


def restarted(rank, size):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        killed(rank, size)
        sys.exit(1)
    train(rank, size)


def beside(rank, size):
    group = dist.new_group(backend=sys.argv[1])
    check_sums(group)
    network = nn.parallel.DistributedDataParallel(nn.Linear(3, 1), process_group=group)
    network(torch.ones(2, 3)).sum().backward()


def port(rank, size):
    """The store ends with its group: another program may listen where it did."""
    check_sums()
    dist.destroy_process_group()
    if rank == 0:
        with socket.create_server(("127.0.0.1", int(sys.argv[3].rpartition(":")[2]))):
            pass


def held():
    """Threads and open files of this process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def again(rank, size):
    for turn in range(50):
        check_sums()
        dist.destroy_process_group()
        start()
        if turn == 20:
            before, memory = held(), pages()
    now = held()
    assert now[0] <= before[0] + 4 and now[1] <= before[1] + 8, (before, now)
    expect_no_growth(memory, 1000)


untold = again


def start():
    backend, how, *method = sys.argv[1:]
    take_device()
    more = {"timeout": timedelta(seconds=60)}
    if method:
        more |= {"rank": int(os.environ["THE_RANK"]), "world_size": int(os.environ["THE_SIZE"])}
        more["init_method"] = method[0]
    dist.init_process_group("gloo" if how == "beside" else backend, **more)


def main():
    if sys.argv[2] == "untold":
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)
    start()
    rank, size = dist.get_rank(), dist.get_world_size()
    globals()[sys.argv[2]](rank, size)
    assert sys.argv[2] == "killed" or pomona.info()["size"] == size
    here = pomona._backends.glue().local_info()[1] if sys.argv[2] == "train" else 0
    # One write: print makes two where Python does not buffer, and other ranks' words come between.
    sys.stdout.write(f"rank {rank} of {size}, {here} on this machine: all passed\n")
    sys.stdout.flush()


main()
