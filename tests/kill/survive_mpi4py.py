#!/usr/bin/env python3
"""mpi4py's wrappers of the functions for survivors (docs/failures.md) reach ours.

Goal: Revoke, Is_revoked, Shrink, Ishrink, Agree, Iagree, Get_failed and Ack_failed work from
Python.
Method: this starts itself on four ranks, of which rank 1 kills itself. It needs an mpi4py that was
built with mpix.h, as docs/failures.md says. Where this Python has none, one is built in FOLDER,
once: from source, by our mpicc, not optimized (half a minute of processor time; with ccache, where
that is installed). Where the source cannot be fetched, or nothing may be installed
(POMONA_INSTALL=no), it ends with code 77, which is "skipped" for ctest.

Usage: survive_mpi4py.py MPIRUN MPICC FOLDER
"""
import array
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

RANKS = 4
SKIPPED = 77
RELEASE = "4.1.2"
WRAPPED = ["ERR_REVOKED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "Comm_revoke",
           "Comm_is_revoked", "Comm_get_failed", "Comm_ack_failed", "Comm_agree", "Comm_iagree",
           "Comm_shrink", "Comm_ishrink"]


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


def serves(python):
    """Has this Python an mpi4py that was built with mpix.h, for Pomona?"""
    asked = ("from mpi4py import MPI; 'Pomona' in MPI.Get_library_version() and "
             "MPI.ERR_REVOKED != MPI.ERR_UNKNOWN or exit(1)")
    return Path(python).exists() and subprocess.run(
        [python, "-c", asked], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def run(command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


def fetch(python, folder):
    """mpi4py's source, unpacked below `folder`; None where it cannot be had."""
    got = run([python, "-m", "pip", "download", "--disable-pip-version-check", "--retries", "1",
               "--timeout", "10", "--no-deps", "--no-binary", "mpi4py", "-d", str(folder),
               f"mpi4py=={RELEASE}"])
    if got.returncode != 0:
        print(got.stdout[-500:])
        return None
    with tarfile.open(folder / f"mpi4py-{RELEASE}.tar.gz") as packed:
        packed.extractall(folder)
    return folder / f"mpi4py-{RELEASE}"


def build(mpicc, folder):
    """A Python environment with mpi4py in `folder`: its interpreter, or the exit code to end
    with."""
    if os.environ.get("POMONA_INSTALL") == "no":
        print("skipped: no mpi4py that was built with mpix.h (docs/failures.md), and nothing is "
              "installed (POMONA_INSTALL=no)")
        return SKIPPED
    shutil.rmtree(folder, ignore_errors=True)
    made = run([sys.executable, "-m", "venv", str(folder)])
    if made.returncode != 0:
        print(made.stdout + "skipped: no Python environment can be made")
        return SKIPPED
    python = str(folder / "bin" / "python")
    source = fetch(python, folder)
    if source is None:
        print("skipped: mpi4py's source cannot be fetched")
        return SKIPPED
    environment = dict(os.environ, MPICC=str(Path(mpicc).resolve()))
    environment["CFLAGS"] = " ".join(["-O0", "-g0", "-include mpix.h"] +
                                     [f"-DPyMPI_HAVE_MPIX_{name}=1" for name in WRAPPED])
    if shutil.which("ccache"):
        environment["POMONA_CC"] = "ccache " + run([mpicc, "-showme:command"]).stdout.strip()
    # From a folder: of an archive pip might take what it has built before, for another library.
    built = run([python, "-m", "pip", "install", "--disable-pip-version-check", str(source)],
                env=environment)
    if built.returncode != 0:
        print(built.stdout[-4000:])
        return 1
    return python


def main(mpirun, mpicc, folder):
    own = Path(folder) / "bin" / "python"
    python = next((each for each in (sys.executable, str(own)) if serves(each)), None)
    if python is None:
        python = build(mpicc, Path(folder).resolve())
        if isinstance(python, int):
            return python
        if not serves(python):
            print("mpi4py was built with mpix.h and does not have its functions")
            return 1
    job = subprocess.run([mpirun, "-n", str(RANKS), "--oversubscribe", "--on-death", "continue",
                          python, __file__, "survive"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=120)
    right = job.returncode == 128 + signal.SIGKILL and job.stdout.count("survived") == RANKS - 1
    print(job.stdout + f"exit code {job.returncode}")
    return 0 if right else 1


if __name__ == "__main__":
    if sys.argv[1] == "survive":
        survive()
    else:
        sys.exit(main(*sys.argv[1:]))
