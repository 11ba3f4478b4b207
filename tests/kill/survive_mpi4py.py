#!/usr/bin/env python3
"""mpi4py's wrappers of the functions for survivors (docs/failures.md) reach ours.

Goal: Revoke, Is_revoked, Shrink, Ishrink, Agree, Iagree, Get_failed and Ack_failed work from Python.
Method: without arguments this starts itself on four ranks, of which rank 1 kills itself. It needs an
mpi4py that was built with mpix.h, as docs/failures.md says; without one it ends with code 77, which
is "skipped" for ctest.

Usage: survive_mpi4py.py MPIRUN
"""
import array
import os
import signal
import subprocess
import sys

RANKS = 4
SKIPPED = 77


def survive():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Set_errhandler(MPI.ERRORS_RETURN)
    rank = world.Get_rank()
    world.Barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            world.allreduce(1)
    except MPI.Exception as error:
        assert error.Get_error_class() in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED), error
    assert world.Is_revoked() in (True, False)
    world.Revoke()
    assert world.Is_revoked()
    left = world.Shrink()
    assert left.Get_size() == RANKS - 1 and left.allreduce(1) == RANKS - 1
    failed = world.Get_failed()
    assert failed.Get_size() == 1
    assert MPI.Group.Translate_ranks(failed, [0], world.Get_group()) == [1]
    assert world.Ack_failed() == 1
    assert world.Agree(~(1 << rank)) == ~0b1101
    assert left.Agree(7) == 7
    flag = array.array("i", [6 | 8 * rank])
    left.Iagree(flag).Wait()
    assert flag[0] == 6
    made, request = left.Ishrink()
    request.Wait()
    assert made.allreduce(1) == RANKS - 1
    print(f"survived {rank}", flush=True)


def main(mpirun):
    asked = ("from mpi4py import MPI; 'Pomona' in MPI.Get_library_version() and "
             "MPI.ERR_REVOKED != MPI.ERR_UNKNOWN or exit(1)")
    found = subprocess.run([sys.executable, "-c", asked], stdin=subprocess.DEVNULL,
                           capture_output=True)
    if found.returncode != 0:
        print("skipped: no mpi4py that was built with mpix.h (docs/failures.md)")
        return SKIPPED
    job = subprocess.run([mpirun, "-n", str(RANKS), "--oversubscribe", "--on-death", "continue",
                          sys.executable, __file__, "survive"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=120)
    right = job.returncode == 128 + signal.SIGKILL and job.stdout.count("survived") == RANKS - 1
    print(job.stdout + f"exit code {job.returncode}")
    return 0 if right else 1


if __name__ == "__main__":
    if sys.argv[1] == "survive":
        survive()
    else:
        sys.exit(main(sys.argv[1]))
