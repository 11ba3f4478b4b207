#!/usr/bin/env python3
"""Kill tests: a rank is killed in the middle of each kind of operation; the job must end.

Goal: no hang, no orphan, no leftover shared memory, a message that names the rank and the signal.
Method: victim.c repeats one operation on three ranks until rank 1 kills itself; the job must be
over two seconds after that (measured from the last sign of life; slow machines may be given more by
POMONA_TEST_SLACK seconds), with an exit code that is not 0.

Usage: run.py MPICC MPIRUN
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

OPERATIONS = ["sendrecv", "rendezvous", "ssend", "any_source", "probe", "waitany", "barrier", "bcast",
              "reduce", "allreduce", "allgather", "alltoall", "scan", "iallreduce", "split", "compute"]
DEADLINE = 2 + float(os.environ.get("POMONA_TEST_SLACK", "8"))


def shared_memory():
    folder = pathlib.Path("/dev/shm")
    return {p.name for p in folder.glob("pomona-*")} if folder.is_dir() else set()


def run(mpirun, program, operation, options, arguments):
    """The faults found, as sentences."""
    before = shared_memory()
    job = subprocess.Popen([mpirun, "-n", "3", *options, program, operation, *arguments],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    hung = threading.Event()

    def give_up():
        hung.set()
        os.killpg(job.pid, signal.SIGKILL)

    timer = threading.Timer(DEADLINE + 30, give_up)
    timer.start()
    text = "".join(job.stdout.readline() for _ in range(3))  # everybody is under way
    begin = time.monotonic()
    text += job.stdout.read()
    job.wait()
    took = time.monotonic() - begin
    timer.cancel()
    faults = ["the job did not end"] if hung.is_set() else []
    if took > DEADLINE:
        faults.append(f"the job ended only after {took:.1f} s")
    if job.returncode == 0:
        faults.append("the exit code is 0")
    # Who tells depends on who sees it first: mpirun the signal, a rank the broken connection.
    if ("rank 1" not in text or "signal 9" not in text) and "has ended" not in text and (
            "saw error" not in text):
        faults.append("no message names rank 1 and its signal:\n" + text)
    leftover = [name for name in shared_memory() - before if os.path.exists(f"/dev/shm/{name}")]
    # Other jobs may run beside; what belongs to this one is gone with its ranks.
    for name in leftover:
        time.sleep(0.5)
        if os.path.exists(f"/dev/shm/{name}") and str(job.pid) in name:
            faults.append(f"shared memory {name} was left")
    return faults


def main(mpicc, mpirun):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/victim"
        source = pathlib.Path(__file__).with_name("victim.c")
        subprocess.run([mpicc, "-O1", "-o", program, str(source)], check=True)
        for transport, options in [("shm", []), ("tcp", ["--set", "transports=self,tcp"])]:
            for arguments in [[], ["return"]]:
                for operation in OPERATIONS:
                    faults = run(mpirun, program, operation, options, arguments)
                    name = " ".join([operation, transport, *arguments])
                    print(("FAILED " if faults else "passed ") + name, flush=True)
                    for fault in faults:
                        print("    " + fault)
                    failed += bool(faults)
                    passed += not faults
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
