# tests/trace/test_trace.py: mpirun --trace and pomona trace.
# Goal: a trace has the documented format ("Trace Event Format", Chromium project), every message of
# the program as one arrow between calls that hold its ends, and names who was waited for. Method:
# traced.c knows how many messages it has sent, and who comes late; nothing is said of how late.
# Usage: test_trace.py BUILD [unittest's words].
import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = sys.argv.pop(1)
BIN = os.path.join(BUILD, "bin")
PATIENCE = 120
sys.path.insert(0, os.path.join(HERE, ".."))
from host_world import HostCase  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="pomona-trace-")
PROGRAM = os.path.join(FOLDER, "traced")
KEYS = {"X": {"name", "cat", "ts", "dur", "pid", "tid", "args"}, "B": {"name", "cat", "ts", "pid", "tid", "args"},
        "s": {"name", "cat", "ts", "id", "pid", "tid"},
        "f": {"name", "cat", "ts", "id", "pid", "tid", "bp"}, "M": {"name", "pid", "args"}}


def setUpModule():
    subprocess.run([f"{BIN}/mpicc", "-O1", os.path.join(HERE, "traced.c"), "-o", PROGRAM], check=True)


def tearDownModule():
    subprocess.run(["rm", "-rf", FOLDER], check=True)


def run(*words, **kinds):
    kinds.setdefault("cwd", FOLDER)
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, **kinds)


def mpirun(*words, **kinds):
    return run(f"{BIN}/mpirun", *words, **kinds)


def pomona(*words, **kinds):
    return run(f"{BIN}/pomona", *words, **kinds)


class Trace:
    """A trace that has been checked against the format."""

    def __init__(self, path):
        with open(path) as file:
            self.all = json.load(file)
        self.events = self.all["traceEvents"]
        self.calls = [e for e in self.events if e["ph"] == "X" and e["cat"] != "waiting"]
        self.waits = [e for e in self.events if e["ph"] == "X" and e["cat"] == "waiting"]
        self.open = [e for e in self.events if e["ph"] == "B"]
        self.starts = {e["id"]: e for e in self.events if e["ph"] == "s"}
        self.ends = {e["id"]: e for e in self.events if e["ph"] == "f"}

    def check(self, test):
        last = 0
        for event in self.events:
            test.assertIn(event["ph"], KEYS, event)
            test.assertLessEqual(KEYS[event["ph"]], set(event), event)
            if event["ph"] == "M":
                continue
            test.assertGreaterEqual(event["ts"], last, event)
            last = event["ts"]
            test.assertGreaterEqual(event.get("dur", 0), 0, event)
        test.assertEqual(len(self.starts), sum(e["ph"] == "s" for e in self.events))
        test.assertEqual(set(self.starts), set(self.ends))
        by_thread = collections.defaultdict(list)
        for call in self.calls:
            by_thread[call["pid"], call["tid"]].append(call)
        for flow in [*self.starts.values(), *self.ends.values()]:
            around = [c for c in by_thread[flow["pid"], flow["tid"]]
                      if c["ts"] <= flow["ts"] <= c["ts"] + c["dur"]]
            test.assertTrue(around, flow)
        # Of ranks on other hosts no nearer than their clocks are known.
        error = 2 * self.all["otherData"]["error of clocks in ns"] / 1000
        for number, start in self.starts.items():
            test.assertLessEqual(start["ts"], self.ends[number]["ts"] + error)
            test.assertEqual(start["args"], self.ends[number]["args"])
        # Calls of a thread lie one in another or one after the other.
        for calls in by_thread.values():
            open_until = []
            for call in calls:
                while open_until and open_until[-1] <= call["ts"]:
                    open_until.pop()
                end = call["ts"] + call["dur"]
                test.assertTrue(not open_until or end <= open_until[-1] + 0.002, call)
                open_until.append(end)
        return self

    def waited(self):
        return {(e["pid"], e["args"]["for"], e["args"]["why"]) for e in self.waits}


class OneHost(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(tempfile.mkdtemp(dir=FOLDER), "trace.json")

    def record(self, ranks, *options):
        done = mpirun("-n", ranks, "--trace", self.path, *options, PROGRAM)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        messages, size = map(int, done.stdout.split())
        trace = Trace(self.path).check(self)
        self.assertEqual(len(trace.starts), messages)
        self.assertEqual(sum(e["args"]["bytes"] for e in trace.starts.values()), size)
        flaws = [v for k, v in trace.all["otherData"].items() if "message" in k]
        self.assertEqual(flaws, [0, 0, 0])
        self.assertFalse(os.path.exists(self.path + ".parts"))
        return trace

    def test_every_message_is_an_arrow(self):
        for options in ([], ["--set", "transports=self,tcp"]):
            with self.subTest(options):
                trace = self.record(4, *options)
                names = {e["name"] for e in trace.calls}
                self.assertLessEqual({"MPI_Init", "MPI_Isend", "MPI_Startall", "MPI_Mrecv", "MPI_Ibarrier",
                                      "MPI_Finalize"}, names)
                self.assertIn('the "ring"', {e["args"].get("comm") for e in trace.calls})

    def test_who_is_waited_for(self):
        waited = self.record(2).waited()
        self.assertLessEqual({(1, 0, "late sender"), (1, 0, "late receiver"), (1, 0, "late root"),
                              (1, 0, "late to collective")}, waited)

    def test_sums(self):
        self.record(2)
        text = pomona("trace", self.path)
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertRegex(text.stdout, r"rank 1 for rank 0: late sender +\d+ ")
        self.assertRegex(text.stdout, r"rank 0 to rank 1 +\d+ ")
        sums = json.loads(pomona("trace", self.path, "--json").stdout)
        pair = next(p for p in sums["pairs"] if (p["from"], p["to"]) == (1, 0))
        self.assertGreater(pair["bytes"], 1 << 20)
        self.assertEqual(sums["calls"]["MPI_Barrier"]["count"], 6)
        self.assertEqual(sums["not_returned"], [])

    def test_heat_map(self):
        self.record(2)
        picture = self.path + ".png"
        bad = os.path.join(FOLDER, "no-matplotlib")
        os.mkdir(bad)
        with open(os.path.join(bad, "matplotlib.py"), "w") as file:
            file.write("raise ImportError('none here')\n")
        environment = {**os.environ, "POMONA_PYTHON": sys.executable}
        done = pomona("trace", self.path, "--heat", picture, env={**environment, "PYTHONPATH": bad})
        self.assertEqual(done.returncode, 1)
        self.assertIn("pip install matplotlib", done.stderr)
        if subprocess.run([sys.executable, "-c", "import matplotlib"], capture_output=True).returncode:
            self.skipTest("this Python has no matplotlib")
        done = pomona("trace", self.path, "--heat", picture, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(picture, "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_a_job_that_is_ended_leaves_parts(self):
        done = mpirun("-n", 2, "--trace", self.path, PROGRAM, "abort")
        self.assertEqual(done.returncode, 134)
        self.assertIn("pomona trace " + self.path, done.stderr)
        text = pomona("trace", self.path)
        self.assertEqual(text.returncode, 0, text)
        self.assertIn("without MPI_Finalize", text.stderr)
        trace = Trace(self.path).check(self)
        self.assertIn((1, 0, "late sender"), trace.waited())

    def test_calls_that_did_not_return(self):
        """Of a job that hangs: where each rank was, by the time that is over, and by Ctrl-C."""
        job = ["-n", 5, "--oversubscribe", "--trace", self.path]
        for interrupted in False, True:
            if interrupted:
                done = run("timeout", "-s", "INT", 3, f"{BIN}/mpirun", *job, PROGRAM, "hang")
            else:
                done = mpirun(*job, "--timeout", 3, PROGRAM, "hang")
                self.assertEqual(done.returncode, 124, done)
            self.assertIn("pomona trace " + self.path, done.stderr)
            text = pomona("trace", self.path)
            self.assertEqual(text.returncode, 0, text)
            trace = Trace(self.path).check(self)
            ring = 'the "ring"'
            for rank, name, args in ((0, "MPI_Recv", {"comm": ring, "peer": 1, "tag": 44}),
                                     (1, "MPI_Wait", {"comm": ring, "peer": 0, "tag": 45}),
                                     (2, "MPI_Barrier", {"comm": ring}), (4, "MPI_Finalize", {})):
                found = [e for e in trace.open if e["pid"] == rank]
                self.assertEqual([e["name"] for e in found], [name], trace.open)
                self.assertEqual({**found[0]["args"], **args, "not returned": 1}, found[0]["args"])
            self.assertEqual({e["pid"] for e in trace.open}, {0, 1, 2, 4})  # rank 3 is not in MPI
            self.assertRegex(text.stdout, r'rank 0 in MPI_Recv +from rank 1, tag 44, the "ring"')
            self.assertRegex(text.stdout, r'rank 1 in MPI_Wait +from rank 0, tag 45, the "ring"')
            self.assertRegex(text.stdout, r'rank 2 in MPI_Barrier +the "ring"')
            self.assertRegex(text.stdout, r"rank 4 in MPI_Finalize")
            sums = json.loads(pomona("trace", self.path, "--json").stdout)
            self.assertEqual([(e["rank"], e["call"]) for e in sums["not_returned"]],
                             [(0, "MPI_Recv"), (1, "MPI_Wait"), (2, "MPI_Barrier"), (4, "MPI_Finalize")])
            self.assertEqual(sums["not_returned"][0]["tag"], 44)

    def test_no_file_is_lost(self):
        with open(self.path, "w") as file:
            file.write("my data\n")
        done = mpirun("-n", 1, "--trace", self.path, PROGRAM)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no trace", done.stderr)
        with open(self.path) as file:
            self.assertEqual(file.read(), "my data\n")
        done = mpirun("-n", 1, "--trace", "/no/such/folder/t.json", PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("cannot be written", done.stderr)

    def test_what_is_no_trace(self):
        """Told in a sentence of its own, without a parser's words."""
        broken = '{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"X","name":"a"'
        for text, want in (("my data\n", "it is no trace; mpirun --trace FILE records one"),
                           ("", "it is no trace; mpirun --trace FILE records one"),
                           ('{"a": [1, 2]}', "it is no trace; mpirun --trace FILE records one"),
                           ('[{"ph": 1}]', "it is no trace; mpirun --trace FILE records one"),
                           (broken, f"its end is missing, or it is damaged (at byte {len(broken) + 1})")):
            with open(self.path, "w") as file:
                file.write(text)
            done = pomona("trace", self.path)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertEqual(done.stderr, f"pomona trace: {self.path}: {want}\n")

    def test_what_is_no_mpi_program(self):
        done = mpirun("-n", 2, "--trace", self.path, "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn("there is no trace", done.stderr)

    def test_by_the_variable(self):
        done = mpirun("-n", 2, PROGRAM, env={**os.environ, "POMONA_TRACE": "by-variable.json"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        Trace(os.path.join(FOLDER, "by-variable.json")).check(self)

    def test_other_tools_see_their_calls(self):
        source, tool = os.path.join(FOLDER, "tool.c"), os.path.join(FOLDER, "libtool.so")
        with open(source, "w") as file:
            file.write("#include <mpi.h>\n#include <stdio.h>\nstatic int barriers;\n"
                       "int MPI_Barrier(MPI_Comm comm) { ++barriers; return PMPI_Barrier(comm); }\n"
                       "int MPI_Finalize(void) { fprintf(stderr, \"%d barriers\\n\", barriers); "
                       "return PMPI_Finalize(); }\n")
        subprocess.run([f"{BIN}/mpicc", "-shared", "-fPIC", source, "-o", tool], check=True)
        variable = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
        done = mpirun("-n", 2, "--trace", self.path, "-x", f"{variable}={tool}", PROGRAM)
        self.assertEqual(done.stderr.splitlines(), ["3 barriers"] * 2)
        Trace(self.path).check(self)

    def test_fortran(self):
        if subprocess.run([f"{BIN}/mpifort", "--version"], capture_output=True).returncode:
            self.skipTest("no Fortran compiler")
        source = os.path.join(FOLDER, "program.f90")
        with open(source, "w") as file:
            file.write("program p\nuse mpi_f08\ninteger :: n = 1, rank\ncall MPI_Init()\n"
                       "call MPI_Comm_rank(MPI_COMM_WORLD, rank)\n"
                       "if (rank == 0) call MPI_Send(n, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD)\n"
                       "if (rank == 1) call MPI_Recv(n, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, "
                       "MPI_STATUS_IGNORE)\ncall MPI_Finalize()\nend program\n")
        subprocess.run([f"{BIN}/mpifort", source, "-o", source + ".out"], check=True)
        done = mpirun("-n", 2, "--trace", self.path, source + ".out")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(Trace(self.path).check(self).starts), 1)


class TwoHosts(HostCase):
    hosts = 2

    def test_clocks_of_hosts_are_aligned(self):
        """The other host's steady clock is 1000 s ahead; arrows would point into the past."""
        if subprocess.run(["unshare", "--time", "--monotonic", "1000", "--fork", "true"],
                          capture_output=True).returncode:
            self.skipTest("no time namespaces here")
        path = os.path.join(FOLDER, "hosts.json")
        ahead = self.world.stand_in(
            "ahead", shell="$([ $host = h2 ] && echo unshare --time --monotonic 1000 --fork) sh")
        done = mpirun("--ssh", ahead, "--host", "h1:2,h2:2", "-n", 4, "--trace", path, PROGRAM,
                      env={**os.environ, "TMPDIR": self.world.temporary})
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = Trace(path).check(self)
        self.assertEqual(len(trace.starts), int(done.stdout.split()[0]))
        self.assertGreater(trace.all["otherData"]["error of clocks in ns"], 0)
        self.assertLess(max(e["ts"] for e in trace.events if e["ph"] == "X"), 500e6)


if __name__ == "__main__":
    unittest.main()
