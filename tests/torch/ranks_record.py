"""Runs on every rank: the record of what was called, and the metrics. Arguments: two prefixes for
files of one folder.

Rank 0 calls one collective more than the others, which times out: each rank then has a file, rank 0
at the timeout (POMONA_GLUE_RECORD), the others because they ask for it. The ranks are others than
MPI's.
"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import pomona


def main():
    world = int(os.environ["WORLD_SIZE"])
    rank = world - 1 - int(os.environ["RANK"])
    dist.init_process_group("mpi", timeout=timedelta(seconds=4), rank=rank, world_size=world)
    for _ in range(5):
        dist.all_reduce(torch.ones(1000))
    dist.broadcast(torch.ones(10, dtype=torch.int32), 0)
    other = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(torch.ones(7), group=other)
        dist.send(torch.ones(3), 1) if rank == 0 else dist.recv(torch.ones(3), 0)
    alone = next(each for each in [dist.new_group([rank]) for rank in range(world)] if each != dist.GroupMember.NON_GROUP_MEMBER)
    dist.barrier()
    metrics = pomona.metrics()
    sums = metrics["all_reduce"]
    assert sums["count"] == 5 + (rank < 2) and sums["failed"] == 0, metrics
    assert sums["bytes"] == 5 * 4000 + 28 * (rank < 2), metrics
    assert 0 < sums["p50_us"] <= sums["p99_us"] and sums["waited_seconds"] > 0, metrics
    assert metrics["broadcast"]["bytes"] == 40 and metrics["barrier"]["count"] >= 1, metrics
    assert pomona.metrics(reset=True) == metrics and pomona.metrics() == {}
    if rank != 0:
        for prefix in sys.argv[1:]:
            assert pomona.dump_record(prefix) == f"{prefix}{rank}"
            dist.all_reduce(torch.ones(1), group=alone)  # so that the second has more
        print("met: all passed")
        sys.stdout.flush()
        import time

        time.sleep(7)
        return
    try:
        dist.all_reduce(torch.ones(1000))
    except dist.DistBackendError as error:
        assert "Timed out" in str(error), error
        sums = pomona.metrics()["all_reduce"]
        assert sums["failed"] == 1 and sums["waited_seconds"] == sums["count"] == 0, sums
        print("met: all passed")


main()
