"""hosts_gloo.py: one rank of what hosts.c does, over gloo, for hosts.py.

hosts_gloo.py RANK SIZE ADDRESS sum BYTES ROUNDS
hosts_gloo.py RANK SIZE ADDRESS stream BYTES ROUNDS
"""

import datetime
import sys
import time

import torch
import torch.distributed as dist


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{sys.argv[3]}:29517", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=120))
    count, rounds = int(sys.argv[5]) // 4, int(sys.argv[6])
    if sys.argv[4] == "stream":
        data = torch.ones(count)
        for number in range(rounds + 1):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(8):
                if rank == 0:
                    dist.send(data, 1)
                else:
                    dist.recv(data, 0)
            if rank == 0:
                dist.recv(data[:1], 1)
            else:
                dist.send(data[:1], 0)
            if rank == 0 and number > 0:
                print(f"{(time.perf_counter() - begin) / 8:.9f}", flush=True)
    else:
        for number in range(rounds + 1):
            data = torch.arange(count) % 7 + float(rank)
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(data)
            took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            assert data[8].item() == size * (size - 1) // 2 + size * (8 % 7)
            if rank == 0 and number > 0:
                print(f"{took.item():.9f}", flush=True)
    dist.destroy_process_group()


main()
