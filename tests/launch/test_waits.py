# tests/launch/test_waits.py: what is said of ranks that wait for each other.
# Goal: the line that a rank writes after wait_warn_s, mpirun's table (SIGUSR1, --timeout), its JSON
# and the deadlocks that it names are right: who, in what, for whom. Method: waits.c does one thing
# after the other wrong; the test waits for the words, however long they take, then lets the job go
# on. Nothing is said of when. Usage: test_waits.py MPICC MPIRUN.
import concurrent.futures
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
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
        """Asks for the table until `wanted` says yes to its JSON; ranks tell of waits after half a
        second."""
        end = time.monotonic() + PATIENCE
        table = None
        # mpirun has its handler when ranks have begun.
        while time.monotonic() < end and not os.path.exists(self.go + ".begun"):
            time.sleep(0.02)
        while time.monotonic() < end and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
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
    ("win_lock", 2, "MPI_Win_lock", "a window", "memory of rank 1", [1]),
    ("win_lock_created", 2, "MPI_Win_lock", "a window", "memory of rank 1", [1]),
    ("win_flush", 2, "MPI_Win_flush", "a window", "", [1]),
    ("win_wait", 2, "MPI_Win_wait", "a window", "", [1]),
    ("finalize", 2, "MPI_Finalize", "MPI_COMM_WORLD", "", [1]),
]

# Memory of windows that ranks of one machine do not share.
BY_MESSAGES = ["--set", "rma_shared=0"]

# What is missing of rank 1.
NEEDS = {
    "recv": "nothing has come from rank 1",
    "probe": "nothing has come from rank 1",
    "ssend": "has not received it",
    "win_start": "has not called MPI_Win_post",
    "win_wait": "has not called MPI_Win_complete",
    "win_lock": "holds the lock, or is before it",
    "win_flush": "has not answered",
}
# Within a machine the locks of all windows stand in shared memory.
NEEDS_BY = {
    ("shm", "win_lock_created"): "holds the lock, or is before it",
    ("tcp", "win_lock_created"): "has not granted its lock, which somebody else may hold",
}

# How, the operation, its communicator, its detail: of rank 0, which tests for what rank 1 sends
# late.
TESTS = [
    ("test", "MPI_Test of an MPI_Irecv", "MPI_COMM_WORLD", "from rank 1, tag 12, 4 bytes"),
    ("test_rarely", "MPI_Test of an MPI_Irecv", "MPI_COMM_WORLD", "from rank 1, tag 12, 4 bytes"),
    ("testall", "MPI_Testall of an MPI_Irecv", "MPI_COMM_WORLD", "2 of 2 requests are not complete"),
    ("testany", "MPI_Testany of an MPI_Irecv", "MPI_COMM_WORLD", "from rank 1, tag 12, 4 bytes"),
    ("testsome", "MPI_Testsome of an MPI_Irecv", "MPI_COMM_WORLD", "2 of 2 requests are not complete"),
    ("test_status", "MPI_Request_get_status of an MPI_Irecv", "MPI_COMM_WORLD",
     "from rank 1, tag 12, 4 bytes"),
    ("iprobe", "MPI_Iprobe", "MPI_COMM_WORLD", "from rank 1, tag 12"),
    ("improbe", "MPI_Improbe", "MPI_COMM_WORLD", "from rank 1, tag 12"),
    ("win_test", "MPI_Win_test", "a window", ""),
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
        # The root of it: the rank that does something else. Who has not come may stand behind
        # another.
        late = ranks - 1 if awaited == [ranks - 1] else awaited[0]
        self.assertRegex(line, rf"rank {late} is not waiting in MPI")
        if transport == "shm" and how in ("barrier", "allreduce", "iallreduce"):
            self.assertRegex(line, rf"rank {late}( \(shared memory\))? has not come")
        # How it is reached, and what is missing.
        self.assertIn("shared memory" if transport == "shm" else "connected", line)
        needs = NEEDS.get(how) or NEEDS_BY.get((transport, how))
        if needs:
            self.assertIn(needs, line)
        table = job.await_table(lambda table: wait_of(table, 0))
        wait = wait_of(table, 0)
        self.assertEqual(wait["operation"], operation)
        if communicator:
            self.assertEqual(wait["communicator"], communicator)
        self.assertEqual(wait["detail"], detail)
        self.assertGreater(wait["for_s"], 0.4)  # it was told after half a second
        if transport == "shm" or how not in ("barrier", "finalize"):
            self.assertEqual(wait["waits_for"], awaited)
        self.assertEqual(table["ranks"][late]["state"], "not waiting")
        self.assertEqual(table["deadlock"], [])
        host = re.escape(socket.gethostname().split(".")[0])
        self.assertRegex(table["ranks"][0]["host"], rf"^{host}")
        text = job.await_line(rf"^mpirun: rank 0 \(pid {table['ranks'][0]['pid']} on {host}\S*\) has been in ")
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


class Top(unittest.TestCase):
    """`pomona top`: mpirun's table of a running job, which neither its ranks nor its terminal
    see."""

    POMONA = os.path.join(os.path.dirname(MPIRUN), "pomona")

    def top(self, *options):
        return subprocess.run([self.POMONA, "top", *options], capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    def waiting_job(self):
        job = Job(2, "recv", "shm")
        self.addCleanup(job.kill)
        job.await_line(r"pomona 0@\S+ mpi: .* has waited for")
        return job

    def test_table(self):
        job = self.waiting_job()
        process = str(job.process.pid)
        done = self.top(process, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        table = json.loads(done.stdout)
        self.assertEqual((wait_of(table, 0)["operation"], wait_of(table, 0)["waits_for"]), ("MPI_Recv", [1]))
        if sys.platform == "linux":
            self.assertTrue(all(rank["resident_kib"] > 100 and "cpu_percent" in rank for rank in table["ranks"]), table)
        done = self.top(process, "--once")
        self.assertRegex(done.stdout, rf"^mpirun {process}: 2 ranks, 1 of them waiting in MPI\n")
        self.assertRegex(done.stdout, r"(?m)^ +0 .* waiting \d+\.\d s in MPI_Recv for 1$")
        self.assertNotIn("mpirun: rank", job.text())
        self.assertEqual(job.end(), (0, "over\n"))
        done = self.top(process)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"process {process} is not an mpirun of yours on this host", done.stderr)

    def await_rates(self, job, wanted):
        """Looks until `wanted` says yes to the ranks: between two looks they may do little."""
        end, ranks = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            done = self.top(str(job.process.pid), "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            ranks = json.loads(done.stdout)["ranks"]
            if wanted(*ranks):
                return
        self.fail(f"the rates never were as wanted: {ranks}")

    def test_rates(self):
        """Rank 0 sends 64 KiB, rank 1 takes them, and both exchange sums, by messages or as pieces
        on a board."""
        for transport, algorithm in (("tcp", "ring"), ("shm", "ring"), ("shm", "chunks")):
            job = Job(2, "exchange", transport, "--set", f"allreduce={algorithm}")
            self.addCleanup(job.kill)
            job.await_table(lambda table: True)
            self.await_rates(job, lambda sends, takes: 0 < takes["bytes_per_s"] < sends["bytes_per_s"])
            self.await_rates(job, lambda sends, takes: 0 < sends["received_bytes_per_s"] < takes["received_bytes_per_s"])
            # A round is a message of 64 KiB, and 256 KiB or more of sums.
            self.await_rates(job, lambda sends, takes: sends["bytes_per_s"] > 2**16 * sends["messages_per_s"] / 10 > 0)
            shown = self.top(str(job.process.pid), "--once").stdout
            self.assertRegex(shown, r"(?m)^ +rank +host +pid +cpu +MiB +msg/s +MiB/s  what it does$")
            self.assertRegex(shown, r"(?m)^ +0 +\S+ +\d+ +\d+% +[\d.]+ +\d+ +\d+\.\d  ")
            self.assertEqual(job.end(), (0, "over\n"), job.text())
        # Who waits moves nothing.
        job = self.waiting_job()
        rates = ("messages_per_s", "bytes_per_s", "received_bytes_per_s")
        self.await_rates(job, lambda *ranks: not any(rank[name] for rank in ranks for name in rates))
        self.assertEqual(job.end(), (0, "over\n"), job.text())

    def test_terminal(self):
        job = self.waiting_job()
        ours, its = os.openpty()
        top = subprocess.Popen([self.POMONA, "top", str(job.process.pid), "-i", "0.1"], stdin=its, stdout=its)
        os.close(its)
        shown = b""
        while shown.count(b"what it does") < 3:
            shown += os.read(ours, 4096)
        self.assertEqual(job.end(), (0, "over\n"))
        self.assertEqual(top.wait(PATIENCE), 0)
        os.close(ours)
        self.assertIn(b"in MPI_Recv for 1", shown)

    def test_small_terminal(self):
        """The last line tells what has no place. Lines are cleared before they are written: behind
        one as wide as the terminal it would be its last letter."""
        job = self.waiting_job()
        ours, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 50, 0, 0))
        top = subprocess.Popen([self.POMONA, "top", str(job.process.pid), "-i", "0.1"], stdin=its, stdout=its)
        os.close(its)
        shown = b""
        while shown.count(b"mpirun") < 3:
            shown += os.read(ours, 4096)
        self.assertEqual(job.end(), (0, "over\n"))
        self.assertEqual(top.wait(PATIENCE), 0)
        os.close(ours)
        screen = shown.split(b"\x1b[H")[1].split(b"\x1b[J")[0].replace(b"\x1b[K", b"").decode().splitlines()
        self.assertEqual(len(screen), 3, screen)
        self.assertEqual(screen[2], "2 more lines: a larger terminal, or --once, has th", screen)
        self.assertIsNone(re.search(rb"[^\nH]\x1b\[K", shown), shown)


class Tests(unittest.TestCase):
    """Ranks that test in loops stand in the table, and in the lines of those who wait for them."""

    def look_at(self, transport, how, operation, communicator, detail):
        job = Job(2, how, transport)
        self.addCleanup(job.kill)
        table = job.await_table(lambda table: table["ranks"][0]["state"] == "testing")
        wait = table["ranks"][0]["waits"][0]
        self.assertEqual((wait["operation"], wait["communicator"], wait["detail"]),
                         (operation, communicator, detail))
        self.assertEqual((wait["waits_for"], wait["tests"], table["deadlock"]), ([1], True, []))
        text = job.await_line(r"^mpirun: rank 0 \(pid \d+ on \S+\) has tested in vain for ")
        self.assertIn(f"by {operation} on {communicator}", text)
        # A program may look for messages by intention, also for long; an operation that was begun
        # is told.
        if "probe" not in how:
            line = job.await_line(r"pomona 0@\S+ mpi: .* has been tested in vain for")
            self.assertIn(f"{operation} on {communicator}", line)
            self.assertIn("rank 1 is not waiting in MPI", line)
        code, out = job.end()
        self.assertEqual((code, out), (0, "over\n"), job.text())
        self.assertEqual(sum("has waited" in each or "tested in vain for" in each and "pomona 0@" in each
                             for each in job.lines), 0 if "probe" in how else 1, job.text())

    def test_who_works_is_not_named(self):
        for transport in TRANSPORTS:
            job = Job(2, "test_busily", transport)
            self.addCleanup(job.kill)
            tables = []
            job.await_table(lambda table: tables.append(table) or len(tables) == 20)
            # One may wait for the other's turn on a core; but not since the beginning.
            for rank in (0, 1):
                wait = (tables[-1]["ranks"][rank].get("waits") or [{"for_s": 0}])[0]
                self.assertLess(wait["for_s"], 3)
            self.assertEqual([table["deadlock"] for table in tables], [[]] * 20)
            self.assertEqual(job.end(), (0, "over\n"), job.text())

    def test_probes_that_wait_for_nobody_are_not_named(self):
        """The hint pomona_quiet: whoever looks for what may never come, as the torch glue does."""
        job = Job(2, "improbe_quiet", "shm")
        self.addCleanup(job.kill)
        states = set()
        end = time.monotonic() + 4  # other probes are told of after half a second
        job.await_table(lambda table: states.add(table["ranks"][0]["state"]) or time.monotonic() > end)
        self.assertEqual(states, {"not waiting"})
        self.assertEqual(job.end(), (0, "over\n"), job.text())

    def test_who_computes_afterwards_is_not_named(self):
        for transport in TRANSPORTS:
            job = Job(2, "test_then_compute", transport)
            self.addCleanup(job.kill)
            job.await_table(lambda table: table["ranks"][0]["state"] == "testing")
            open(job.go + ".tested", "w").close()
            job.await_table(lambda table: table["ranks"][0]["state"] == "not waiting")
            self.assertEqual(job.end(), (0, "over\n"), job.text())

    def test_who_waits_for_one_that_tests_says_so(self):
        for seconds in (1, 5, 25):  # a busy machine may keep rank 1 from testing for as long
            job = Job(3, "test_mixture", "shm", "--set", f"wait_warn_s={seconds}")
            self.addCleanup(job.kill)
            line = job.await_line(r"pomona 0@\S+ mpi: .* has waited for")
            job.kill()
            if "MPI_Iprobe" in line:
                break
        self.assertIn("MPI_Recv on MPI_COMM_WORLD (from rank 1, tag 9, 4 bytes)", line)
        self.assertIn("MPI_Iprobe on MPI_COMM_WORLD", line)


def add_tests(transport, case):
    setattr(Tests, f"test_{case[0]}_{transport}", lambda self: self.look_at(transport, *case))


for transport in TRANSPORTS:
    for case in TESTS:
        add_tests(transport, case)


class Ports(unittest.TestCase):
    def look_at(self, how, rank, operation, words):
        job = Job(2, how, "shm")
        self.addCleanup(job.kill)
        line = job.await_line(rf"pomona {rank}@\S+ mpi: .* has waited for")
        self.assertIn(f"{operation} on MPI_COMM_SELF ({words}", line)
        wait = wait_of(job.await_table(lambda table: wait_of(table, rank)), rank)
        self.assertEqual((wait["operation"], wait["communicator"]), (operation, "MPI_COMM_SELF"))
        self.assertIn(words, wait["detail"])
        self.assertEqual(job.end(), (0, "over\n"), job.text())

    def test_accept(self):
        self.look_at("accept", 0, "MPI_Comm_accept", "nobody has connected at pomona:")

    def test_connect(self):
        self.look_at("connect", 1, "MPI_Comm_connect", "nobody has accepted at pomona:")


class Deadlocks(unittest.TestCase):
    def look_at(self, transport, ranks, how, cycle, sentence, *options, warns=True):
        job = Job(ranks, how, transport, *options)
        self.addCleanup(job.kill)
        if warns:
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

    CIRCLE = ("rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 1{0}, "
              "rank 1 in MPI_Recv on MPI_COMM_WORLD for rank 0{0}")

    def test_one_thread_where_several_may_call(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 2, "threads_one", [0, 1],
                         "ranks 0 and 1 wait for each other: " + self.CIRCLE.format(""))

    def test_two_threads(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 2, "threads_two", [0, 1],
                         "ranks 0 and 1 wait for each other: " +
                         self.CIRCLE.format(" (one of its 2 threads, which all wait)"))

    def test_a_thread_that_has_not_called(self):
        self.look_at("shm", 2, "threads_idle", [0, 1],
                     "ranks 0 and 1 wait for each other, unless a thread that has not called MPI yet does so: " +
                     self.CIRCLE.format(""))

    def test_a_thread_that_computes(self):
        job = Job(2, "threads_compute", "shm")
        self.addCleanup(job.kill)
        for rank in (0, 1):
            job.await_line(rf"pomona {rank}@\S+ mpi: .* has waited for")
        table = job.await_table(lambda table: all(each["state"] == "waiting" for each in table["ranks"]))
        self.assertEqual(table["deadlock"], [])
        self.assertEqual(job.end(), (0, "over\n"), job.text())

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
                         "rank 1 in MPI_Barrier on a communicator of 2 ranks for rank 0; they call "
                         "collective operations of two communicators in different orders")

    def test_opposite_orders_of_messages(self):
        # Longer than what goes by boards, and by another function.
        for transport in TRANSPORTS:
            self.look_at(transport, 2, "mismatch_long", [0, 1],
                         "ranks 0 and 1 wait for each other: "
                         "rank 0 in MPI_Allreduce on MPI_COMM_WORLD for rank 1, "
                         "rank 1 in MPI_Bcast on a communicator of 2 ranks for rank 0; they call "
                         "collective operations of two communicators in different orders")

    def test_all_test(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 2, "test_circle", [0, 1],
                         "ranks 0 and 1 wait for each other, if they do nothing but test: "
                         "rank 0 tests by MPI_Test of an MPI_Irecv on MPI_COMM_WORLD for rank 1, "
                         "rank 1 tests by MPI_Test of an MPI_Irecv on MPI_COMM_WORLD for rank 0", warns=False)

    def test_some_test(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 3, "test_mixture", [0, 1, 2],
                         "ranks 0, 1 and 2 wait for each other, if those that test do nothing else: "
                         "rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 1, "
                         "rank 1 tests by MPI_Iprobe on MPI_COMM_WORLD for rank 2, "
                         "rank 2 tests by MPI_Testall of an MPI_Irecv on MPI_COMM_WORLD for rank 0")

    def test_a_member_of_a_collective_that_never_comes(self):
        for transport in TRANSPORTS:
            self.look_at(transport, 3, "absent", [0, 2],
                         "ranks 0 and 2 wait for each other: "
                         "rank 0 in MPI_Barrier on MPI_COMM_WORLD for rank 2, "
                         "rank 2 in MPI_Recv on MPI_COMM_WORLD for rank 0")


    # Locks of memory that is shared are found there; others are asked for.
    def test_locks_in_opposite_orders(self):
        for transport in TRANSPORTS:
            for options in ([], BY_MESSAGES):
                self.look_at(transport, 2, "lock_orders", [0, 1],
                             "ranks 0 and 1 wait for each other: "
                             "rank 0 in MPI_Win_lock on the lower table for rank 1 to unlock it, "
                             "rank 1 in MPI_Win_lock on the upper table for rank 0 to unlock it", *options)

    def test_the_holder_of_a_lock_waits(self):
        for transport in TRANSPORTS:
            for options in ([], BY_MESSAGES):
                self.look_at(transport, 2, "lock_all", [0, 1],
                             "ranks 0 and 1 wait for each other: "
                             "rank 0 in MPI_Win_lock_all on the upper table for rank 1 to unlock it, "
                             "rank 1 in MPI_Recv on MPI_COMM_WORLD for rank 0", *options)

    # Rank 2 shares the lock with rank 0, but rank 1 has asked before it.
    def test_before_one_in_the_line_for_a_lock(self):
        for options in ([], BY_MESSAGES):
            self.look_at("shm", 3, "lock_line", [0, 2, 1],
                         "ranks 0, 1 and 2 wait for each other: "
                         "rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 2, "
                         "rank 2 in MPI_Win_lock on the upper table for rank 1 to unlock it, "
                         "rank 1 in MPI_Win_lock on the upper table for rank 0 to unlock it", *options)

    def test_a_lock_that_is_given_back_late(self):
        job = Job(3, "lock_late", "shm")
        self.addCleanup(job.kill)
        line = job.await_line(r"pomona 0@\S+ mpi: MPI_Win_lock .* has waited for")
        self.assertRegex(line, r"MPI_Win_lock on the upper table \(memory of rank 0\)")
        table = job.await_table(lambda table: wait_of(table, 0) and wait_of(table, 0)["waits_for"] != [0])
        self.assertIn(2, wait_of(table, 0)["waits_for"])
        self.assertIn("rank 2 holds the lock" if wait_of(table, 0)["waits_for"] == [2] else
                      "hold the lock, or are before it", wait_of(table, 0)["needs"])
        self.assertEqual(table["deadlock"], [])
        self.assertEqual(job.end(), (0, "over\n"), job.text())


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
        with open(job.table) as file:
            table = json.load(file)
        self.assertEqual(table["deadlock"], [0, 1])
        self.assertEqual([wait_of(table, rank)["waits_for"] for rank in (0, 1)], [[1], [0]])

    def test_programs_without_mpi(self):
        result = subprocess.run([MPIRUN, "-n", "2", "--timeout", "0.5", "sleep", "60"], timeout=PATIENCE,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 124)
        self.assertEqual(result.stderr.count("has not called MPI_Init"), 2, result.stderr)


def run_together(tests, threads=4):
    """Nearly all of the time is waiting, so several tests wait at once."""
    def run(test):
        result = unittest.TestResult()
        test.run(result)
        return result

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(run, tests))
    for result in results:
        for test, text in result.failures + result.errors:
            print(f"FAIL: {test}\n{text}", file=sys.stderr)
    bad = sum(not result.wasSuccessful() for result in results)
    print(f"{len(results)} tests, {bad} failed", file=sys.stderr)
    return 1 if bad or not results else 0


def each_of(suite):
    for test in suite:
        yield from each_of(test) if isinstance(test, unittest.TestSuite) else [test]


if __name__ == "__main__":
    loader, here = unittest.defaultTestLoader, sys.modules[__name__]
    names = sys.argv[3:]
    suite = loader.loadTestsFromNames(names, here) if names else loader.loadTestsFromModule(here)
    setUpModule()
    try:
        code = run_together(list(each_of(suite)))
    finally:
        tearDownModule()
    sys.exit(code)
