"""Runs on every rank: `ranks_late.py BACKEND LATE FOLDER [METHOD]`: rank LATE comes to
init_process_group when the others' first call has failed, which they tell by files in FOLDER. They
call it again, and all meet, as often as they like.

METHOD: a URL for init_process_group, else nothing is told to it.
"""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

SHORT, LONG = timedelta(seconds=1), timedelta(seconds=40)


def init(timeout):
    more = {"timeout": timeout}
    if len(sys.argv) > 4:
        more |= {"rank": int(os.environ["THE_RANK"]), "world_size": int(os.environ["THE_SIZE"])}
        more["init_method"] = sys.argv[4]
    dist.init_process_group(sys.argv[1], **more)


def check_sum(group=None):
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    assert x.tolist() == [float(dist.get_world_size())] * 3


def main():
    late, folder = int(sys.argv[2]), Path(sys.argv[3])
    rank, size = (os.environ.get(f"THE_{a}") or os.environ[b] for a, b in (("RANK", "RANK"), ("SIZE", "WORLD_SIZE")))
    if int(rank) == late:
        while len(list(folder.glob("failed-*"))) < int(size) - 1:
            time.sleep(0.1)
    else:
        try:
            init(SHORT)
        except Exception as error:
            print(f"met: {str(error).splitlines()[0]}", flush=True)
        else:
            raise AssertionError("all were there")
        (folder / f"failed-{rank}").touch()  # with the error has gone what it held: torch's store
        # Which "pomona" would find of a rank 0 that has not given up yet; "mpi" meets without it.
        while sys.argv[1] == "pomona" and len(list(folder.glob("failed-*"))) < int(size) - 1:
            time.sleep(0.01)
    begin = time.time()
    init(LONG)
    check_sum()
    check_sum(dist.new_group())
    dist.destroy_process_group()
    (folder / f"ended-{rank}").touch()
    while not (folder / "ended-0").exists():  # who meets in torch's store would find the old one
        time.sleep(0.01)
    init(LONG)
    check_sum()
    assert time.time() - begin < 40, time.time() - begin
    print(f"rank {dist.get_rank()}: all passed", flush=True)


main()
