# tests/launch/test_waits.py: what is said of ranks that wait for each other.
# Goal: the line that a rank writes after wait_warn_s, mpirun's table (SIGUSR1, --timeout), its JSON and
# the deadlocks that it names are right: who, in what, for whom. Method: waits.c does one thing after
# the other wrong; the test waits for the words, however long they take, then lets the job go on.
# Nothing is said of when. Usage: test_waits.py MPICC MPIRUN.
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

MPICC, MPIRUN = sys.argv[1:3]
PATIENCE = 120  # for what must not hang; never waited for when all is well
TRANSPORTS = {"shm": [], "tcp": ["--set", "transports=self,tcp"]}
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="pomona-waits-")
PROGRAM = os.path.join(FOLDER, "waits")


def setUpModule():
    subprocess.run([MPICC, "-O1", os.path.join(HERE, "waits.c"), "-o", PROGRAM], check=True)


def tearDownModule():
    subprocess.run(["rm", "-rf", FOLDER], check=True)


class Job:
    """A job of waits.c whose standard error is read as it comes."""

    def __init__(self, ranks, how, transport, *options):
        self.folder = tempfile.mkdtemp(dir=FOLDER)
        self.go = os.path.join(self.folder, "go")
        self.table = os.path.join(self.folder, "table.json")
        self.lines = []
        self.process = subprocess.Popen(
            [MPIRUN, "-n", str(ranks), *TRANSPORTS[transport], "--set", "wait_warn_s=1",
             "--report-json", self.table, *options, PROGRAM, how, self.go],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def text(self):
        return "\n".join(self.lines)

    def await_line(self, pattern):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.reader.is_alive():
            for line in list(self.lines):
                if re.search(pattern, line):
                    return line
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"no line {pattern!r} in:\n{self.text()}")

    def await_table(self, wanted):
        """Asks for the table until `wanted` says yes to its JSON; ranks tell of waits after half a second."""
        end = time.monotonic() + PATIENCE
        table = None
        while time.monotonic() < end and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)  # mpirun has its handler: a rank has said something
            time.sleep(0.2)
            if os.path.exists(self.table):
                with open(self.table) as file:
                    table = json.load(file)
                if wanted(table):
                    return table
        self.kill()
        raise AssertionError(f"the table never was as wanted: {table}\n{self.text()}")

    def end(self):
        open(self.go, "w").close()
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.reader.join()
        return self.process.returncode, self.process.stdout.read()

    def kill(self):
        self.process.send_signal(signal.SIGTERM)  # nothing, if it has ended
        self.process.wait(timeout=PATIENCE)
        self.reader.join()
        self.process.stdout.close()


def wait_of(table, rank):
    entry = table["ranks"][rank]
    return entry["waits"][0] if entry["state"] == "waiting" else None


# How, ranks, the operation, its communicator, its detail, whom rank 0 waits for.
LATE = [
    ("barrier", 3, "MPI_Barrier", "MPI_COMM_WORLD", "", [2]),
    ("allreduce", 2, "MPI_Allreduce", "a communicator of 2 ranks", "", [1]),
    ("iallreduce", 2, "MPI_Wait of an MPI_Iallreduce", "MPI_COMM_WORLD", "", [1]),
    ("recv", 2, "MPI_Recv", "MPI_COMM_WORLD", "from rank 1, tag 5, 4 bytes", [1]),
    ("ssend", 2, "MPI_Ssend", "MPI_COMM_WORLD", "to rank 1, tag 6, 4 bytes", [1]),
    ("probe", 2, "MPI_Probe", "MPI_COMM_WORLD", "from any rank, tag 7", [1]),
    ("wait", 3, "MPI_Wait of an MPI_Irecv", "MPI_COMM_WORLD", "from rank 1, tag 8, 4 bytes", [1]),
    ("waitall", 3, "MPI_Waitall of an MPI_Irecv", "MPI_COMM_WORLD",
     "2 of 2 requests are not complete", [1, 2]),
    ("waitany", 3, "MPI_Waitany of an MPI_Irecv", "MPI_COMM_WORLD",
     "2 of 2 requests are not complete", [1, 2]),
    ("win_fence", 2, "MPI_Win_fence", "", "", [1]),
    ("win_start", 2, "MPI_Win_start", "", "", [1]),
    ("finalize", 2, "MPI_Finalize", "MPI_COMM_WORLD", "", [1]),
]


class Late(unittest.TestCase):
    def look_at(self, transport, how, ranks, operation, communicator, detail, awaited):
        job = Job(ranks, how, transport)
        self.addCleanup(job.kill)  # or it would outlive a fault found here, and this test wait for it
        line = job.await_line(r"pomona 0@\S+ mpi: .* has waited for")
        named = operation + (f" on {communicator}" if communicator else "")
        self.assertIn(f"mpi: {named}", line)
        if detail:
            self.assertIn(f"({detail})", line)
        # The root of it: the rank that does something else. Who has not come may stand behind another.
        late = ranks - 1 if awaited == [ranks - 1] else awaited[0]
        self.assertRegex(line, rf"rank {late} is not waiting in MPI")
        if transport == "shm" and how in ("barrier", "allreduce", "iallreduce"):
            self.assertRegex(line, rf"rank {late}( \(shared memory\))? has not come")
        table = job.await_table(lambda table: wait_of(table, 0))
        wait = wait_of(table, 0)
        self.assertEqual(wait["operation"], operation)
        if communicator:
            self.assertEqual(wait["communicator"], communicator)
        self.assertEqual(wait["detail"], detail)
        if transport == "shm" or how not in ("barrier", "finalize"):
            self.assertEqual(wait["waits_for"], awaited)
        self.assertEqual(table["ranks"][late]["state"], "not waiting")
        self.assertEqual(table["deadlock"], [])
        text = job.await_line(r"^mpirun: rank 0 \(pid \d+ on \S+\) has been in ")
        self.assertIn(f"in {named}", text)
        job.await_line(rf"^mpirun: rank {late} \(pid {table['ranks'][late]['pid']} on \S+\) is not waiting")
        self.assertEqual(sum("pomona 0@" in each and "has waited" in each for each in job.lines), 1)
        code, out = job.end()
        self.assertEqual((code, out), (0, "over\n"), job.text())


def add_late(transport, case):
    setattr(Late, f"test_{case[0]}_{transport}", lambda self: self.look_at(transport, *case))


for transport in TRANSPORTS:
    for case in LATE:
        add_late(transport, case)


class Deadlocks(unittest.TestCase):
    def look_at(self, transport, ranks, how, cycle, sentence):
        job = Job(ranks, how, transport)
        self.addCleanup(job.kill)
        job.await_line(r"pomona \d@\S+ mpi: .* has waited for")
        table = job.await_table(lambda table: table["deadlock"])
        self.assertEqual(table["deadlock"], cycle)
        self.assertEqual(table["deadlock_text"], sentence)
        job.await_line("^mpirun: deadlock: " + re.escape(sentence))
        job.kill()

    def test_two(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 2, "circle", [0, 1],
                         "ranks 0 and 1 wait for each other: "
                         "rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 1, "
                         "rank 1 in MPI_Recv on MPI_COMM_WORLD for rank 0")

    def test_three(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 3, "circle", [0, 1, 2],
                         "ranks 0, 1 and 2 wait for each other: "
                         "rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 1, "
                         "rank 1 in MPI_Recv on MPI_COMM_WORLD for rank 2, "
                         "rank 2 in MPI_Recv on MPI_COMM_WORLD for rank 0")

    def test_opposite_orders(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 2, "mismatch", [0, 1],
                         "ranks 0 and 1 wait for each other: "
                         "rank 0 in MPI_Barrier on MPI_COMM_WORLD for rank 1, "
                         "rank 1 in MPI_Barrier on a communicator of 2 ranks for rank 0")

    def test_a_member_of_a_collective_that_never_comes(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 3, "absent", [0, 2],
                         "ranks 0 and 2 wait for each other: "
                         "rank 0 in MPI_Barrier on MPI_COMM_WORLD for rank 2, "
                         "rank 2 in MPI_Recv on MPI_COMM_WORLD for rank 0")


class Timeout(unittest.TestCase):
    def test_names_the_calls(self):
        for seconds in (3, 10, 40):  # a machine may be slow to start
            job = Job(2, "circle", "shm", "--timeout", str(seconds))
            job.process.wait(timeout=PATIENCE)
            job.reader.join()
            job.process.stdout.close()
            self.assertEqual(job.process.returncode, 124)
            if "deadlock" in job.text():
                break
        for rank, other in ((0, 1), (1, 0)):
            self.assertRegex(job.text(), rf"mpirun: rank {rank} \(pid \d+ on \S+\) has been in MPI_Recv on "
                             rf"MPI_COMM_WORLD \(from rank {other}, tag 9, 4 bytes\) for \d.*s, "
                             rf"waiting for rank {other}")

    def test_programs_without_mpi(self):
        result = subprocess.run([MPIRUN, "-n", "2", "--timeout", "0.5", "sleep", "60"], timeout=PATIENCE,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 124)
        self.assertEqual(result.stderr.count("has not called MPI_Init"), 2, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
