# tests/launch/test_tools.py: what people use on MPI programs, under mpirun: debuggers, valgrind,
# sanitizers, the look into queues; programs without an rpath, and programs in Python that have
# another MPI library.
# Usage: test_tools.py MPICC MPIRUN [unittest's words]. What is not installed is skipped.
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from host_world import HostCase  # noqa: E402

MPICC, MPIRUN = sys.argv[1:3]
del sys.argv[1:3]
BIN = os.path.dirname(MPIRUN)
PATIENCE = 120  # for what must not hang; never waited for when all is well
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="pomona-tools-")
PROGRAM = os.path.join(FOLDER, "tools")
SOURCE = os.path.join(HERE, "tools.c")


def setUpModule():
    subprocess.run([MPICC, "-g", "-O0", SOURCE, "-o", PROGRAM], check=True)


def tearDownModule():
    subprocess.run(["rm", "-rf", FOLDER], check=True)


def run(*words, **kinds):
    kinds.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE,
                          cwd=FOLDER, **kinds)


def mpirun(*words, **kinds):
    return run(MPIRUN, *words, **kinds)


def without(*names):
    return {name: value for name, value in os.environ.items() if name not in names}


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is not installed")


class Nested(unittest.TestCase):
    def test_a_rank_starts_a_program_that_would_be_the_same_rank(self):
        """It is refused before it touches the memory that ranks share."""
        for options in ((), ("--set", "transports=self,tcp")):
            done = mpirun("-n", 2, "--timeout", 60, *options, PROGRAM, "nest")
            self.assertEqual((done.returncode, done.stdout.count("sum 1\n")), (0, 2), done.stdout + done.stderr)
            self.assertRegex(done.stdout, "(?m)^nested: [1-9]")
            self.assertIn("a program started by a rank must not call MPI_Init itself", done.stderr)


class SearchPath(unittest.TestCase):
    LINKED = os.path.join(FOLDER, "searching")
    VARIABLE = "DYLD_FALLBACK_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"

    def setUp(self):
        shown = run(MPICC, "-show", SOURCE, "-o", self.LINKED).stdout.split()
        words = [word for word in shown if "rpath" not in word]
        self.assertLess(len(words), len(shown))
        subprocess.run(words, check=True)

    def test_a_program_without_an_rpath(self):
        env = without(self.VARIABLE)
        done = mpirun("-n", 2, self.LINKED, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "sum 1\n" * 2)
        done = mpirun("-n", 1, "--library-path", "off", self.LINKED, env=env)
        self.assertEqual(done.returncode, 127)

    def test_what_the_user_says_comes_first(self):
        show = ["sh", "-c", f"echo ${self.VARIABLE}"]
        said = mpirun("-n", 1, "-x", f"{self.VARIABLE}=/mine", *show).stdout
        # Before it stands a folder in which nothing is found (pmix/launch/bait.h).
        self.assertRegex(said, r"^(/[^:]*/other:)?/mine:.*/lib\n$")
        said = mpirun("-n", 1, "--library-path=off", "-x", f"{self.VARIABLE}=/mine", *show).stdout
        self.assertEqual(said, "/mine\n")

    def test_nothing_else_is_found_there(self):
        listed = mpirun("-n", 1, "sh", "-c", "ls $POMONA_JOB_DIR/lib").stdout.split()
        self.assertTrue(all(name.startswith("libmpi_abi") for name in listed), listed)

    def test_a_wrong_word(self):
        done = mpirun("--library-path", "maybe", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("none of: off on", done.stderr)


class SearchPathOfHosts(HostCase):
    hosts = 2

    def test_each_host_has_its_own(self):
        shown = run(MPICC, "-show", SOURCE, "-o", SearchPath.LINKED).stdout.split()
        subprocess.run([word for word in shown if "rpath" not in word], check=True)
        for options, code in (([], 0), (["--library-path", "off"], 127)):
            done = mpirun("--ssh", self.world.enter, "--host", "h1,h2", "-n", 2, *options, SearchPath.LINKED,
                          env={**without(SearchPath.VARIABLE), "TMPDIR": self.world.temporary})
            self.assertEqual(done.returncode, code, done.stderr)


@unittest.skipUnless(sys.platform == "linux", "memory of processes is looked into on Linux")
class AnotherMpi(unittest.TestCase):
    LIBRARY = os.path.join(FOLDER, "libmpi.so.40")

    def setUp(self):
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", self.LIBRARY], input="int MPI_Init;",
                       text=True, check=True)

    def job(self, text, ranks=2):
        return mpirun("-n", ranks, sys.executable, "-c", text)

    def test_python_that_has_imported_one(self):
        # It is looked for when the process says something, and no more when it has ended.
        done = self.job(f"import ctypes, time; ctypes.CDLL({self.LIBRARY!r}); print('rank 0 of 1', flush=True); "
                        "time.sleep(0.5)")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("has loaded libmpi.so.40, another MPI library"), 1, done.stderr)
        self.assertIn("pip install", done.stderr)

    def test_one_that_fails_at_once(self):
        """Such a process has gone before anybody has looked into its memory; its words tell."""
        for words, name in (("internal_Init_thread(71)....: failed\\nMPIR_pmi_init(225): no", "MPICH"),
                            ("*** An error occurred in ompi_mpi_init", "Open MPI")):
            for streams in ([], ["--tag-output"], ["--merge-stderr-to-stdout"]):
                with self.subTest(name, streams=streams):
                    done = mpirun("-n", 2, *streams, "sh", "-c", f"printf '{words}\\n' >&2; exit 16")
                    self.assertEqual(done.returncode, 16)
                    self.assertEqual(done.stderr.count(f"ends with the words of {name}, another MPI library"), 1,
                                     done.stderr)
                    self.assertIn("pip install", done.stderr)

    def test_one_that_runs_on_is_told_of(self):
        process = subprocess.Popen(
            [MPIRUN, "-n", "2", sys.executable, "-c",
             f"import ctypes, time; ctypes.CDLL({self.LIBRARY!r}); time.sleep({PATIENCE})"],
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.assertIn("has loaded libmpi.so.40", process.stderr.readline())
        process.terminate()
        process.communicate(timeout=PATIENCE)

    def test_no_false_alarm(self):
        own = os.path.join(BIN, "../lib/libmpi_abi.so.1")
        load = f"import ctypes; ctypes.CDLL({self.LIBRARY!r}); "
        for text, ranks in (("print('nothing')", 2), (load + "print(1)", 1),
                            (load + f"ctypes.CDLL({own!r}); print('both')", 2),
                            (load + f"m = ctypes.CDLL({own!r}); m.MPI_Init(None, None); print('joined'); "
                             "m.MPI_Finalize()", 2)):
            with self.subTest(text=text):
                done = self.job(text, ranks)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


class Checkers(unittest.TestCase):
    def test_valgrind_says_nothing_of_ours(self):
        needs("valgrind")
        for options in ([], ["--set", "transports=self,tcp"]):
            with self.subTest(options):
                done = mpirun("-n", 4, *options, "valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
                              PROGRAM, env=without("VALGRIND_OPTS"))
                said = [line for line in done.stderr.splitlines() if line.startswith("==")]
                self.assertEqual((done.returncode, said), (0, []))
        said = mpirun("-n", 1, "sh", "-c", "echo $VALGRIND_OPTS", env={**os.environ, "VALGRIND_OPTS": "-v"})
        self.assertEqual(said.stdout, "-v\n")

    def test_valgrind_finds_mistakes_in_buffers(self):
        needs("valgrind")
        source = os.path.join(FOLDER, "short.c")
        with open(source, "w") as file:
            file.write("#include <mpi.h>\n#include <stdlib.h>\nint main(void) { int rank; MPI_Init(0, 0);\n"
                       "MPI_Comm_rank(MPI_COMM_WORLD, &rank); char* b = calloc(1, 4);\n"
                       "if (rank == 0) MPI_Send(b, 64, MPI_CHAR, 1, 0, MPI_COMM_WORLD);\n"
                       "else MPI_Recv(b, 64, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
                       "free(b); MPI_Finalize(); return 0; }\n")
        subprocess.run([MPICC, source, "-o", source + ".out"], check=True)
        done = mpirun("-n", 2, "valgrind", "-q", source + ".out")
        self.assertRegex(done.stderr, r"Invalid read(.*\n)*?.* by .*MPI_Send")
        self.assertRegex(done.stderr, r"Invalid write(.*\n)*?.* by .*MPI_Recv")

    def test_threads_under_the_sanitizer(self):
        # What threads do in the library is no race of the program, which has one of its own.
        source = os.path.join(FOLDER, "threads.c")
        with open(source, "w") as file:
            file.write("#include <mpi.h>\n#include <pthread.h>\nstatic int counted;\n"
                       "static void* sums(void* comm) { int one = 1, sum;\n"
                       "for (int i = 0; i < 100; ++i)\n"
                       "MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *(MPI_Comm*)comm);\n"
                       "return NULL; }\n"
                       "static void* counts(void* none) { ++counted; return none; }\n"
                       "int main(int argc, char** argv) { int level; MPI_Comm comms[2]; pthread_t threads[2];\n"
                       "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);\n"
                       "for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);\n"
                       "for (int i = 0; i < 2; ++i)\n"
                       "pthread_create(&threads[i], NULL, argc > 1 ? counts : sums, &comms[i]);\n"
                       "for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);\n"
                       "for (int i = 0; i < 2; ++i) MPI_Comm_free(&comms[i]);\n"
                       "MPI_Finalize(); return 0; }\n")
        built = run(MPICC, "-g", "-pthread", "-fsanitize=thread", source, "-o", source + ".out")
        if built.returncode != 0:
            self.skipTest("the compiler has no thread sanitizer")
        done = mpirun("-n", 2, source + ".out", env=without("TSAN_OPTIONS"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = mpirun("-n", 1, source + ".out", "race", env=without("TSAN_OPTIONS"))
        self.assertIn("WARNING: ThreadSanitizer: data race", done.stderr)
        said = mpirun("-n", 1, "sh", "-c", "echo $TSAN_OPTIONS", env={**os.environ, "TSAN_OPTIONS": "verbosity=1"})
        self.assertEqual(said.stdout, "verbosity=1\n")

    def test_sanitizers(self):
        for kind in ("address,undefined", "thread"):
            program = os.path.join(FOLDER, kind.split(",")[0])
            if subprocess.run([MPICC, "-g", f"-fsanitize={kind}", SOURCE, "-o", program],
                              capture_output=True).returncode:
                continue
            with self.subTest(kind):
                done = mpirun("-n", 2, program)
                self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "sum 1\n" * 2))


class Lldb(unittest.TestCase):
    def test_calls_of_a_crash(self):
        needs("lldb")
        done = mpirun("-n", 2, "--lldb", PROGRAM, "crash")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"frame #0: .*write_to\(where=0x0*8\)")
        done = mpirun("-n", 2, "--lldb", PROGRAM)
        self.assertEqual((done.returncode, done.stdout.count("sum 1\n")), (0, 2), done.stdout)


class Debuggers(unittest.TestCase):
    def setUp(self):
        needs("gdb")

    def test_calls_of_a_crash(self):
        done = mpirun("-n", 2, "--gdb", PROGRAM, "crash")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"#0 .*write_to \(where=0x8\)")

    def test_exit_codes_pass(self):
        self.assertEqual(mpirun("-n", 2, "--gdb", PROGRAM).returncode, 0)

    def test_arguments_with_room_and_quotes(self):
        done = mpirun("-n", 1, "--gdb", "sh", "-c", "test 'a  b' = \"$1\" && exit 5", "sh", "a  b")
        self.assertEqual(done.returncode, 5, done.stdout)

    def test_exit_codes_of_one_rank(self):
        done = mpirun("-n", 2, "--debug-rank", 1, PROGRAM, "code", 3)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout.count("exited with code 03"), 1, done.stdout)

    def test_a_command(self):
        done = mpirun("-n", 2, "--debugger", "env GREETING=hello", "sh", "-c", "echo $GREETING")
        self.assertEqual(done.stdout, "hello\n" * 2)
        done = mpirun("-n", 2, "--debug-rank", 2, PROGRAM)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--debug-rank names rank 2", done.stderr)

    def test_in_a_terminal(self):
        process, terminal = pty.fork()
        if process == 0:
            os.environ["TERM"] = "dumb"
            os.execv(MPIRUN, [MPIRUN, "-n", "2", "--debug-rank", "1", PROGRAM, "crash"])
        seen = self.read_until(terminal, "(gdb)")
        os.write(terminal, b"run\n")
        seen = self.read_until(terminal, "SIGSEGV")
        os.write(terminal, b"print where\n")
        seen = self.read_until(terminal, "0x8")
        os.write(terminal, b"set confirm off\nquit\n")
        with contextlib.suppress(OSError):
            self.read_until(terminal, "never")
        self.assertTrue(seen)
        os.waitpid(process, 0)

    def read_until(self, terminal, word):
        seen = ""
        end = time.monotonic() + PATIENCE
        while word not in seen:
            self.assertLess(time.monotonic(), end, seen)
            if select.select([terminal], [], [], 1)[0]:
                piece = os.read(terminal, 4096).decode(errors="replace")
                if not piece:
                    raise OSError(seen)
                seen += piece
        return seen

    def test_a_pane_a_rank(self):
        needs("tmux")
        tmux = ["tmux", "-L", f"pomona-test-{os.getpid()}", "-f", "/dev/null"]
        self.addCleanup(run, *tmux, "kill-server")
        out = os.path.join(FOLDER, "out")
        subprocess.run([*tmux, "new-session", "-d", "-x", "200", "-y", "60",
                        f"{MPIRUN} -n 2 --gdb {PROGRAM}; echo $? > {out}; sleep {PATIENCE}"], check=True,
                       env=without("TMUX"))

        def panes():
            return run(*tmux, "list-panes", "-F", "#{pane_id}").stdout.split()

        def await_text(pane, word):
            end = time.monotonic() + PATIENCE
            while word not in (text := run(*tmux, "capture-pane", "-p", "-t", pane).stdout):
                self.assertLess(time.monotonic(), end, text)
                time.sleep(0.05)

        end = time.monotonic() + PATIENCE
        while len(panes()) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        ranks = panes()[1:]
        self.assertEqual(len(ranks), 2)
        for pane in ranks:
            await_text(pane, "(gdb)")
            run(*tmux, "send-keys", "-t", pane, "run", "Enter")
        for pane in ranks:
            await_text(pane, "exited normally")
            run(*tmux, "send-keys", "-t", pane, "quit", "Enter")
        while not os.path.exists(out) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(self.has(out, "0\n", end))


    def has(self, path, text, end):
        while time.monotonic() < end:
            with open(path) as file:
                if file.read() == text:
                    return True
            time.sleep(0.05)
        return False


class Queues(unittest.TestCase):
    def start(self, *options):
        self.go = os.path.join(tempfile.mkdtemp(dir=FOLDER), "go")
        job = subprocess.Popen([MPIRUN, "-n", "3", *options, PROGRAM, "queues", self.go],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.wait, PATIENCE)
        self.addCleanup(job.kill)
        return job, int(job.stdout.readline())

    def finish(self, job):
        with open(self.go, "w"):
            pass
        out, err = job.communicate(timeout=PATIENCE)
        self.assertEqual((job.returncode, out), (0, ""), err)

    def test_what_a_rank_waits_for(self):
        pomona = os.path.join(BIN, "pomona")
        for options in ([], ["--set", "transports=self,tcp"], ["--set", "progress=thread"]):
            with self.subTest(options):
                job, rank0 = self.start(*options)
                done = run(pomona, "queues", rank0)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                for line in (r"posted receives: 3\n", r"from rank 1, tag 11, 40 bytes, MPI_COMM_WORLD",
                             r"from rank any, tag any, 41 bytes, named", r"from rank 1, tag 15, 1 bytes",
                             r"unexpected messages: 1\n.*from rank 1, tag 12, 12 bytes, MPI_COMM_WORLD",
                             r"pending sends: 2\n", r"to rank 1, tag 13, 1048576 bytes, named, waits for its receive",
                             r"to rank 1, tag 14, 1 bytes, MPI_COMM_WORLD, waits for its receive"):
                    self.assertRegex(done.stdout, line)
                ranks = json.loads(run(pomona, "queues", job.pid, "--json").stdout)
                self.assertEqual([each["rank"] for each in ranks], [0, 1, 2])
                self.assertEqual(ranks[0]["pid"], rank0)
                self.assertEqual(ranks[0]["queues"]["counts"]["posted"], 3)
                expected = "answered" if "progress=thread" in options else "silent"
                self.assertEqual(ranks[2]["state"], expected)
                self.finish(job)

    def test_who_is_no_rank(self):
        done = run(os.path.join(BIN, "pomona"), "queues", os.getpid())
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("is no rank of a job of yours", done.stderr)
        for word in ("hello", "-3", "0", "12x"):
            done = run(os.path.join(BIN, "pomona"), "queues", "--", word)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"pid: {word} is not the number of a process\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
