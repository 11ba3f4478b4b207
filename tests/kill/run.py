#!/usr/bin/env python3
"""Kill tests: a rank is killed in the middle of each kind of operation; the job must end.

Goal: no hang, no orphan, nothing left in shared memory or of the job's directory, a message that
names the rank and the signal. Method: victim.c repeats one operation on three ranks (or
POMONA_TEST_RANKS) until rank 1 kills itself; the job must be over two seconds after that (measured
from the last sign of life; slow machines may be given more by POMONA_TEST_SLACK seconds), with an
exit code that is not 0. Then once more with mpirun itself killed while everybody works. And without
any launcher ("alone"): this script starts the ranks and nobody ends them, so each has to see an
error in its own operation; the dead rank stays a zombie meanwhile. By shared memory this script
stands for a mpirun that says nothing; by TCP ranks meet by a folder of files.

"mixed": ranks 0 and 1 share memory, all others are on machines of their own. Without mpirun such
machines, and those of RDMA, are names (UTS namespaces: root, Linux; else these cases are left out).

Usage: run.py MPICC MPIRUN [PATTERN of "operation transport how"]...
"""
import functools
import os
import pathlib
import re
import secrets
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from cases import HERE, compiled, go_through

RANKS = int(os.environ.get("POMONA_TEST_RANKS", "3"))
DEADLINE = 2 + float(os.environ.get("POMONA_TEST_SLACK", "8"))
TRANSPORTS = {"shm": [], "tcp": ["--set", "transports=self,tcp"],
              "streams": ["--set", "transports=self,tcp", "--set", "tcp_streams=3"],
              "mixed": []}
MIXED = ["sh", str(HERE.parent / "programs/nodes.sh"), "2"]
# Where tests/programs/rdma.sh has made fake RDMA cables, only by these: what starts a rank there.
THROUGH = shlex.split(os.environ.get("through", ""))
if THROUGH:
    TRANSPORTS = {"rdma": []}
# By several connections, or by RDMA: what is large enough to be under way on all of them, or among
# all.
BY_STREAMS = ["rendezvous", "bcast", "allreduce", "iallreduce", "several", "rma_get"]
# And by RDMA without a launcher one of each kind.
BY_RDMA = [*BY_STREAMS, "sendrecv", "ssend", "persistent_p2p", "partitioned", "barrier", "neighbors", "split",
           "inter_allreduce", "rma_fence", "rma_lock", "rma_pscw", "file_collective"]
# Without a launcher: all but those that do not communicate, or end before they do; those that may
# still be served by who lives: receives from any source, and rma_holder, in which the others wait
# for a lock that the dead rank held; and those that need mpirun.
NOT_ALONE = ["absent", "compute", "init", "finalize", "any_source", "iprobe", "rma_holder", "connected",
             "spawned"]
CHILDREN = {"spawned": 2}
NOT_INVOLVED = {"inter_sendrecv": range(2, RANKS)}
# Killed from outside: what leaves traces (rings, windows) and what does not.
LAUNCHER_KILLED = ["compute", "sendrecv", "rendezvous", "iallreduce", "rma_lock_allocated", "rma_make"]


def running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = pathlib.Path(f"/proc/{pid}/stat")
    # A zombie has ended; whoever inherited it has not looked yet.
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def leftovers(pids, job_id):
    """What a job left behind, as words."""
    found = [f"process {pid}" for pid in pids if running(pid)]
    for folder in ("/dev/shm", tempfile.gettempdir(), "/tmp"):
        if os.path.isdir(folder):
            found += sorted({f"{folder}/{name}" for name in os.listdir(folder) if job_id in name})
    return found


def run(command, how):
    """The faults found, as sentences."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    hung = threading.Event()

    def give_up():
        hung.set()
        os.killpg(job.pid, signal.SIGKILL)

    timer = threading.Timer(DEADLINE + 60, give_up)
    timer.start()
    text = ""
    while text.count("alive ") < RANKS and (line := job.stdout.readline()):
        text += line
    begin = time.monotonic()
    if how == "live":
        job.kill()
    text += job.stdout.read()
    job.wait()
    took = time.monotonic() - begin
    timer.cancel()
    faults = ["the job did not end"] if hung.is_set() else []
    if took > DEADLINE:
        faults.append(f"the job ended only after {took:.1f} s")
    if text.count("alive ") != RANKS:
        faults.append("not all ranks came under way")
    if job.returncode == 0:
        faults.append("the exit code is 0")
    # Who tells depends on who sees it first: mpirun the signal, a rank the broken connection.
    if command[-2] == "absent":
        faults += [] if "saw error" in text or "has ended" in text else ["nobody was told"]
    elif how != "live" and ("rank 1" not in text or "signal 9" not in text) and (
            "has ended" not in text and "saw error" not in text):
        faults.append("no message names rank 1 and its signal")
    told = re.findall(r"process (\d+) job (\w+)", text)
    children = re.findall(r"child (\d+) job (\w+)", text)
    if len(told) != RANKS or len({name for _, name in told}) != 1:
        return faults + ["the ranks did not tell their job:\n" + text]
    if len(children) != CHILDREN.get(command[-2], 0):
        faults.append(f"{len(children)} processes were spawned")
    pids, job_id = [int(pid) for pid, _ in told + children], told[0][1]
    end = time.monotonic() + DEADLINE
    while (left := leftovers(pids, job_id)) and time.monotonic() < end:
        time.sleep(0.05)
    faults += [f"left behind: {what}" for what in left]
    for pid in pids:
        if running(pid):
            os.kill(pid, signal.SIGKILL)
    if faults:
        faults.append("output:\n" + text)
    return faults


def ended(process):
    """Without taking its exit code, after which it were no zombie any more."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def listen(directory):
    """A place of mpirun's that takes whatever ranks say, and answers only what each asks first: it
    is the rank that it says, and has published nothing (a "value" of pmix/control.h)."""
    nothing = struct.pack("<IBBI", 6, 8, 0, 0)
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{directory}/mpirun.sock")
    server.listen(RANKS)

    def serve():
        connections = []
        while True:
            try:
                connections.append(server.accept()[0])
                connections[-1].sendall(nothing)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    return server


def without_launcher(rank, transport, directory, job_id):
    """The environment of a rank that this script starts."""
    if transport == "shm":
        own = dict(POMONA_JOB_ID=job_id, POMONA_JOB_RANK=str(rank), POMONA_JOB_SIZE=str(RANKS),
                   POMONA_JOB_NODES=f"0x{RANKS}", POMONA_JOB_DIR=directory, POMONA_OVERSUBSCRIBED="1")
    else:
        settings = [each.split("=", 1) for each in TRANSPORTS[transport] if each != "--set"]
        own = {f"POMONA_{name.upper()}": value for name, value in settings}
        own.update(VICTIM_TABLE=directory, VICTIM_RANK=str(rank), VICTIM_RANKS=str(RANKS))
    if transport == "rdma":
        own["POMONA_TEST_MACHINE"] = str(rank)
    return dict(os.environ, **own)


def elsewhere(rank, transport):
    """What starts a rank on a machine of its own, as far as it knows."""
    if transport not in ("mixed", "rdma") or (transport == "mixed" and rank < 2):
        return []
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"machine{rank}"]


def run_alone(program, operation, transport):
    """The faults found among ranks that nobody started together, as sentences."""
    job_id = "k" + secrets.token_hex(4)
    with tempfile.TemporaryDirectory(prefix="pomona-kill-") as directory:
        server = listen(directory)
        output = open(f"{directory}/output", "w+")
        ranks = []
        for rank in range(RANKS):
            environment = without_launcher(rank, transport, directory, job_id)
            command = [*elsewhere(rank, transport), program, operation, "alone"]
            ranks.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        end = time.monotonic() + DEADLINE + 60
        while not ended(ranks[1]) and time.monotonic() < end:
            time.sleep(0.01)
        faults = [] if ended(ranks[1]) else ["rank 1 did not die"]
        end = time.monotonic() + DEADLINE
        survivors = [i for i in (0, 2) if i not in NOT_INVOLVED.get(operation, [])]
        while not all(ended(ranks[i]) for i in survivors) and time.monotonic() < end:
            time.sleep(0.01)
        faults += [f"rank {i} did not end" for i in survivors if not ended(ranks[i])]
        for each in ranks:
            each.kill()
        codes = [each.wait() for each in ranks]
        faults += [f"rank {i} ended with {codes[i]}" for i in survivors if codes[i] != 7]
        server.close()
        output.seek(0)
        text = output.read()
        output.close()
        for left in pathlib.Path("/dev/shm").glob(f"pomona-{job_id}*"):
            left.unlink(missing_ok=True)  # another job that starts sweeps what the dead have left
    if faults:
        faults.append("output:\n" + text)
    return faults


def cases(operations):
    """(operation, transport, how)"""
    few = {"streams": BY_STREAMS, "rdma": BY_RDMA}
    for transport in TRANSPORTS:
        streams = transport in ("streams", "rdma")
        if transport not in ("mixed", "rdma") or (sys.platform == "linux" and os.geteuid() == 0):
            yield from ((operation, transport, "alone")
                        for operation in few.get(transport, operations)
                        if operation not in NOT_ALONE)
        # By TCP all ranks wait for each other in MPI_Init, and mpirun ends a job whose ranks cannot
        # meet.
        some = operations if transport == "shm" else [o for o in operations if o != "absent"]
        # Who is spawned knows nothing of machines that ranks only believe in.
        if transport == "mixed":
            some = [o for o in some if o not in CHILDREN]
        for how in ("return",) if transport == "mixed" else ("fatal", "return"):
            yield from ((operation, transport, how) for operation in (BY_STREAMS if streams else some))
        if transport in ("shm", "tcp"):
            yield from ((operation, transport, "live") for operation in LAUNCHER_KILLED)


def main(mpicc, mpirun, *patterns):
    def faults_of(operation, transport, how):
        if how == "alone":
            return run_alone(program, operation, transport)
        through = MIXED if transport == "mixed" else THROUGH
        return run([mpirun, "-n", str(RANKS), "--oversubscribe", *TRANSPORTS[transport], *through, program,
                    operation, how], how)

    with tempfile.TemporaryDirectory() as folder:
        program, operations = compiled(mpicc, folder, "victim")
        return go_through(((" ".join(case), functools.partial(faults_of, *case))
                           for case in cases(operations)), patterns)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
