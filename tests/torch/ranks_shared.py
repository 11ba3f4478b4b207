"""Runs on every rank: groups of one machine use its shared memory for collectives.

Goal: the default group and new ones, whose operations are all non-blocking, small and large.
Method: the library's own counters of posts and chunks (performance variables of MPI_T) rise. The
    algorithms are forced (a group that cannot take one takes another): by costs a machine may
    prefer messages through shared memory to chunks.
"""

import ctypes

import torch
import torch.distributed as dist

CLASS_COUNTER = 7  # MPI_T_PVAR_CLASS_COUNTER of the standard ABI


class Counter:
    """How often something happened in this process since the counter was made."""

    def __init__(self, name):
        self.mpi = ctypes.CDLL("libmpi_abi.so.1")
        index, count = ctypes.c_int(), ctypes.c_int()
        self.session, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        for error in (
            self.mpi.MPI_T_init_thread(0, ctypes.byref(count)),
            self.mpi.MPI_T_pvar_get_index(name.encode(), CLASS_COUNTER, ctypes.byref(index)),
            self.mpi.MPI_T_pvar_session_create(ctypes.byref(self.session)),
            self.mpi.MPI_T_pvar_handle_alloc(
                self.session, index, None, ctypes.byref(self.handle), ctypes.byref(count)
            ),
        ):
            assert error == 0, (name, error)

    def value(self):
        value = ctypes.c_ulonglong()
        error = self.mpi.MPI_T_pvar_read(self.session, self.handle, ctypes.byref(value))
        assert error == 0, error
        return value.value


def main():
    dist.init_process_group("mpi")
    rank, world = dist.get_rank(), dist.get_world_size()
    for group in (None, dist.new_group(list(range(world)))):
        for name, size in (("board_posts", 10), ("board_chunks", 300000)):
            counter = Counter(name)
            tensor = torch.full((size,), float(rank + 1))
            dist.all_reduce(tensor, group=group)
            assert torch.equal(tensor, torch.full((size,), world * (world + 1) / 2))
            assert counter.value() > 0, (name, group)
    dist.destroy_process_group()
    print(f"rank {rank}: all passed")


main()
