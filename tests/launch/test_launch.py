# tests/launch/test_launch.py: mpirun as its users meet it: options, output, signals, failures, and
# that nothing is left behind. Times are not tested, except that a dead rank ends the job within
# two seconds. Needs what launch_case.py needs.
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launch_case import DEADLINE, MPIRUN, PATIENCE, PROBE, PYTHON, Running, alive, clean_environment, run, wait_until


class Start(unittest.TestCase):
    def test_ranks_know_who_they_are(self):
        result = run("-n", 3, PROBE, "info")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = sorted(result.stdout.splitlines())
        self.assertEqual(len(lines), 3)
        for rank, line in enumerate(lines):
            self.assertIn(f"rank={rank} size=3 local={rank}/3 origin=mpirun", line)
            self.assertIn("all=value of 0,value of 1,value of 2", line)
        directory = re.search(r"dir=(\S+)", lines[0])[1]
        self.assertFalse(os.path.exists(directory))

    def test_many_ranks_and_threads(self):
        self.assertEqual(run("-n", 24, PROBE, "info").returncode, 0)
        self.assertEqual(run("-n", 4, PROBE, "threads").returncode, 0)
        self.assertEqual(run("-n", 4, PROBE, "fences", 200).returncode, 0)

    def test_several_programs(self):
        result = run("-n", 1, PROBE, "info", ":", "-n", 2, PROBE, "info")
        self.assertEqual(result.returncode, 0, result.stderr)
        apps = dict(re.findall(r"rank=(\d).* app=(\d)", result.stdout))
        self.assertEqual(apps, {"0": "0", "1": "1", "2": "1"})

    def test_two_programs_one_after_the_other_in_a_script(self):
        result = run("-n", 2, "sh", "-c", f"{PROBE} info && {PROBE} info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("all=value of 0,value of 1"), 4)

    def test_a_child_of_a_rank_cannot_take_its_place(self):
        script = f"{PROBE} pause & sleep 0.3; {PROBE} info; code=$?; kill %1; exit $code"
        result = run("-n", 1, "bash", "-c", "set -m; " + script)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("another process is that rank already", result.stderr)

    def test_environment(self):
        show = "import os,json;print(json.dumps(dict(os.environ)))"
        env = clean_environment(PMIX_RANK="7", OMPI_COMM_WORLD_RANK="7", PMI_RANK="7", KEPT="yes",
                                RANK="9", POMONA_JOB_ID="outer")
        result = run("-n", 2, "-x", "GIVEN=a=b", "-x", "KEPT", "--set", "spin_us=7", PYTHON, "-c",
                     show, env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        import json
        seen = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual({s["RANK"] for s in seen}, {"0", "1"})
        for s in seen:
            self.assertEqual((s["WORLD_SIZE"], s["LOCAL_WORLD_SIZE"]), ("2", "2"))
            self.assertEqual(s["RANK"], s["LOCAL_RANK"])
            self.assertEqual((s["GIVEN"], s["KEPT"], s["POMONA_SPIN_US"]), ("a=b", "yes", "7"))
            self.assertNotIn("OMPI_COMM_WORLD_RANK", s)
            self.assertNotIn("PMI_RANK", s)
            self.assertNotEqual(s["POMONA_JOB_ID"], "outer")
            self.assertEqual(s["MASTER_ADDR"], "127.0.0.1")
        self.assertEqual(len({s["MASTER_PORT"] for s in seen}), 1)
        self.assertGreater(int(seen[0]["MASTER_PORT"]), 1023)

    def test_given_ranks_win_over_ours(self):
        result = run("-n", 1, "-x", "MASTER_PORT=4711", "sh", "-c", "echo $MASTER_PORT")
        self.assertEqual(result.stdout, "4711\n")

    def test_working_directory_and_relative_program(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "hello")
            with open(path, "w") as file:  # no first line: the shell runs it, as execvp would
                file.write("echo from $PWD\n")
            os.chmod(path, 0o755)
            result = run("-n", 1, "--wdir", directory, "./hello")
            self.assertEqual(result.stdout, f"from {directory}\n", result.stderr)

    def test_default_count_is_the_number_of_cores(self):
        # Threads of one core count once. (Control groups: tests/unit/cores.cc.)
        result = run("echo", "x")
        cores = os.cpu_count()
        if hasattr(os, "sched_getaffinity"):
            siblings = set()
            for processor in os.sched_getaffinity(0):
                with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") as file:
                    siblings.add(file.read())
            cores = len(siblings)
        self.assertEqual(result.stdout, "x\n" * cores)

    def test_a_control_group_of_one_processor(self):
        folder = f"/sys/fs/cgroup/cpu/pomona-test-{os.getpid()}"
        try:
            os.mkdir(folder)
            self.addCleanup(os.rmdir, folder)
            with open(folder + "/cpu.cfs_quota_us", "w") as file:
                file.write("100000")
        except OSError as error:
            self.skipTest(f"no control groups of version 1 here: {error}")

        def enter():
            with open(folder + "/tasks", "w") as file:
                file.write("0")
        done = subprocess.run([MPIRUN, "sh", "-c", "echo $POMONA_OVERSUBSCRIBED"], text=True,
                              capture_output=True, timeout=PATIENCE, env=clean_environment(),
                              stdin=subprocess.DEVNULL, preexec_fn=enter)
        self.assertEqual(done.stdout, "0\n", done.stderr)
        done = subprocess.run([MPIRUN, "-n", "2", "sh", "-c", "echo $POMONA_OVERSUBSCRIBED"],
                              text=True, capture_output=True, timeout=PATIENCE,
                              env=clean_environment(), stdin=subprocess.DEVNULL, preexec_fn=enter)
        self.assertEqual(done.stdout, "1\n1\n", done.stderr)

    def test_oversubscription(self):
        cores = os.cpu_count()
        result = run("-n", cores + 1, "sh", "-c", "echo $POMONA_OVERSUBSCRIBED")
        self.assertEqual(result.stdout, "1\n" * (cores + 1))
        result = run("-n", cores + 1, "--no-oversubscribe", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("slots", result.stderr)

    def test_hosts(self):
        self.assertEqual(run("--host", "localhost:3", "echo", "x").stdout, "x\n" * 3)
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write("# here\nlocalhost slots=2\n")
            file.flush()
            self.assertEqual(run("--hostfile", file.name, "echo", "x").stdout, "x\n" * 2)

    @unittest.skipUnless(hasattr(os, "sched_getaffinity"), "this system cannot bind")
    def test_binding(self):
        show = "import os;print(sorted(os.sched_getaffinity(0)))"
        result = run("-n", 2, "--bind-to", "hwthread", "--report-bindings", PYTHON, "-c", show)
        self.assertEqual(result.returncode, 0, result.stderr)
        masks = sorted(result.stdout.splitlines())
        cores = sorted(os.sched_getaffinity(0))
        self.assertEqual(len(eval(masks[0])), 1)
        self.assertIn("rank 0 on", result.stderr)
        if len(cores) > 1:
            self.assertNotEqual(masks[0], masks[1])
        # A mask that we are confined to is respected.
        confined = subprocess.run(
            [PYTHON, "-c", f"import os;os.sched_setaffinity(0,{{{cores[-1]}}});"
             f"os.execv({MPIRUN!r},[{MPIRUN!r},'-n','2','--bind-to','core',{PYTHON!r},'-c',{show!r}])"],
            capture_output=True, text=True, timeout=PATIENCE, env=clean_environment())
        self.assertEqual(confined.stdout, f"[{cores[-1]}]\n" * 2, confined.stderr)

    @unittest.skipUnless(hasattr(os, "sched_getaffinity"), "this system cannot bind")
    def test_binding_by_default(self):
        show = "import os;print(sorted(os.sched_getaffinity(0)))"
        everything = sorted(os.sched_getaffinity(0))

        def masks(*words):
            result = run(*words, PYTHON, "-c", show)
            self.assertEqual(result.returncode, 0, result.stderr)
            return [eval(line) for line in result.stdout.splitlines()]

        self.assertEqual(masks("-n", 1), [everything])
        self.assertEqual(masks("-n", 2, "--bind-to", "none"), [everything] * 2)
        crowd = len(everything) + 1
        self.assertEqual(masks("-n", crowd), [everything] * crowd)
        siblings = {Path(f"/sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list").read_text()
                    for i in everything}
        if len(siblings) >= 2:
            pair = masks("-n", 2)
            self.assertEqual(sorted(pair[0] + pair[1]), everything)

    def test_display_map(self):
        result = run("-n", 2, "--display-map", "true")
        self.assertIn("rank 1: true", result.stderr)


class Streams(unittest.TestCase):
    def test_lines_of_ranks_do_not_mix(self):
        # Method: pieces of lines with pauses; every line must come out whole.
        script = ("import os,sys,time\nr=os.environ['RANK']\nfor i in range(40):\n"
                  " for part in ('<', r*50, '>'):\n  sys.stdout.write(part); sys.stdout.flush()\n"
                  "  time.sleep(0.0005)\n print(flush=True)\n")
        result = run("-n", 4, PYTHON, "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)
        want = sorted("<" + r * 50 + ">" for r in "0123" for _ in range(40))
        self.assertEqual(sorted(result.stdout.splitlines()), want)

    def test_a_last_line_without_its_end(self):
        result = run("-n", 2, "printf", "abc")
        self.assertEqual(result.stdout, "abc\nabc\n")
        self.assertEqual(run("-n", 1, "printf", "abc").stdout, "abc")

    def test_much_output(self):
        script = "import sys;[print('x'*99) for _ in range(30000)]"
        result = run("-n", 2, PYTHON, "-c", script)
        self.assertEqual(len(result.stdout), 2 * 30000 * 100)

    def test_stderr_stays_apart_or_is_merged(self):
        result = run("-n", 1, "sh", "-c", "echo out; echo err >&2")
        self.assertEqual((result.stdout, result.stderr), ("out\n", "err\n"))
        result = run("-n", 1, "--merge-stderr-to-stdout", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual((result.stdout, result.stderr), ("out\nerr\n", ""))

    def test_tags_and_times(self):
        result = run("-n", 2, "--tag-output", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0]<stdout>: out", "[1]<stdout>: out"])
        self.assertIn("[1]<stderr>: err", result.stderr)
        result = run("-n", 1, "--timestamp-output", "echo", "x")
        self.assertRegex(result.stdout, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} x\n$")

    def test_output_files(self):
        with tempfile.TemporaryDirectory() as directory:
            base = os.path.join(directory, "log")
            result = run("-n", 2, "--output-filename", base, "sh", "-c", "echo $RANK; echo e >&2")
            self.assertEqual((result.stdout, result.stderr), ("", ""))
            for name, text in (("1.out", "1\n"), ("0.err", "e\n")):
                with open(f"{base}.{name}") as file:
                    self.assertEqual(file.read(), text)
            for words in (("--output-filename", directory), ("--output", f"dir={directory}")):
                self.assertEqual(run("-n", 2, *words, "sh", "-c", "echo $RANK").returncode, 0)
                with open(os.path.join(directory, "1.out")) as file:
                    self.assertEqual(file.read(), "1\n")
                os.unlink(os.path.join(directory, "1.out"))
            new = os.path.join(directory, "new", "one")
            self.assertEqual(run("-n", 1, "--output", f"dir={new}", "echo", "x").returncode, 0)
            with open(os.path.join(new, "0.out")) as file:
                self.assertEqual(file.read(), "x\n")

    def test_tags_reach_output_files(self):
        # As with Open MPI and PRRTE.
        script = ("sh", "-c", "echo a; echo b; echo e >&2; printf half")
        with tempfile.TemporaryDirectory() as directory:
            def read(name):
                with open(os.path.join(directory, name)) as file:
                    return file.read()
            for words in (("--tag-output", "--output-filename", directory), ("--output", f"tag,dir={directory}")):
                result = run("-n", 2, *words, *script)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
                tag = "[1]<stdout>: "
                self.assertEqual(read("1.out"), f"{tag}a\n{tag}b\n{tag}half\n")
                self.assertEqual(read("0.err"), "[0]<stderr>: e\n")
            result = run("-n", 1, "--timestamp-output", "--merge-stderr-to-stdout", "--output", f"file={directory}/x",
                         "sh", "-c", "echo a; echo e >&2")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
            self.assertRegex(read("x.0.out"), r"^\d{4}-\d\d-\d\d [0-9:.]{12} a\n\d{4}-\d\d-\d\d [0-9:.]{12} e\n$")
            result = run("-n", 1, "--tag-output", "--output", "file=/nosuch/x", *script)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("/nosuch/x.0.out cannot be written: No such file", result.stderr)

    def test_stdin(self):
        text = "line\n" * 1000
        result = run("-n", 3, "sh", "-c", "cat | wc -l", input=text)
        self.assertEqual(sorted(result.stdout.split()), ["0", "0", "1000"])
        result = run("-n", 3, "--stdin", "all", "sh", "-c", "cat | wc -l", input=text)
        self.assertEqual(result.stdout.split(), ["1000"] * 3)
        result = run("-n", 3, "--stdin", "none", "sh", "-c", "cat | wc -l", input=text)
        self.assertEqual(result.stdout.split(), ["0"] * 3)
        result = run("-n", 2, "--stdin", "1", "sh", "-c", "echo $RANK $(cat | wc -l)", input=text)
        self.assertEqual(sorted(result.stdout.splitlines()), ["0 0", "1 1000"])

    def test_stdin_is_left_to_the_caller(self):
        # Goal: a shell loop that reads the same input is not robbed by a rank that does not read.
        script = f"while read line; do {MPIRUN} -n 2 true; echo got $line; done"
        result = subprocess.run(["sh", "-c", script], input="1\n2\n3\n", capture_output=True,
                                text=True, timeout=PATIENCE, env=clean_environment())
        self.assertEqual(result.stdout, "got 1\ngot 2\ngot 3\n")

    def test_a_reader_that_leaves(self):
        result = subprocess.run(["sh", "-c", f"{MPIRUN} -n 2 yes | head -1"], capture_output=True,
                                text=True, timeout=PATIENCE, env=clean_environment())
        self.assertEqual((result.stdout, result.stderr), ("y\n", ""))

    def test_terminal_shows_half_lines(self):
        import pty
        controller, terminal = pty.openpty()
        process = subprocess.Popen([MPIRUN, "-n", "2", "sh", "-c",
                                    "if test $RANK = 0; then printf 'name? '; read name; echo hi $name; fi"],
                                   stdin=terminal, stdout=terminal, stderr=terminal,
                                   env=clean_environment(), start_new_session=True)
        os.close(terminal)
        seen = b""
        while b"name? " not in seen:
            seen += os.read(controller, 1000)
        os.write(controller, b"Ann\n")
        try:
            while b"hi Ann" not in seen:
                seen += os.read(controller, 1000)
        except OSError:
            pass
        process.wait(timeout=PATIENCE)
        os.close(controller)
        self.assertIn(b"hi Ann", seen)


class Ends(unittest.TestCase):
    def check_quick_end(self, job, begin, code, *texts):
        got, out, err = job.end()
        self.assertLess(time.monotonic() - begin, DEADLINE)
        self.assertEqual(got, code, err)
        for text in texts:
            self.assertIn(text, err)
        self.assertEqual(err.count("mpirun:"), 1, err)
        self.assertTrue(wait_until(lambda: not job.leftovers(), 2), job.leftovers())

    def test_exit_code_of_the_first_to_fail(self):
        result = run("-n", 3, "sh", "-c", "test $RANK != 1 || exit 42")
        self.assertEqual(result.returncode, 42)
        self.assertRegex(result.stderr, r"rank 1 \(pid \d+, sh\) on \S+ exited with code 42")
        self.assertEqual(run("-n", 3, PROBE, "exit", 9, 2).returncode, 9)

    def test_others_may_still_say_why(self):
        result = run("-n", 2, "sh", "-c", "test $RANK = 0 && exit 3; sleep 0.1; echo late; exit 4")
        self.assertEqual((result.returncode, result.stdout), (3, "late\n"))

    def test_killed_rank(self):
        for number, text in ((signal.SIGKILL, "signal 9 (Killed"), (signal.SIGSEGV, "Segmentation fault"),
                             (signal.SIGABRT, "Aborted")):
            job = Running(3, "die", int(number), 1)
            self.check_quick_end(job, time.monotonic(), 128 + number, "rank 1 (pid", text, " on ")

    def test_rank_killed_from_outside(self):
        job = Running(4, "spin")
        begin = time.monotonic()
        os.kill(job.pids[2], signal.SIGKILL)
        self.check_quick_end(job, begin, 137, f"pid {job.pids[2]}", "signal 9")

    def test_ranks_that_ignore_sigterm(self):
        job = Running(3, "ignore")
        begin = time.monotonic()
        os.kill(job.pids[0], signal.SIGKILL)
        self.check_quick_end(job, begin, 137, f"pid {job.pids[0]}")

    def test_exit_without_finalize(self):
        result = run("-n", 3, PROBE, "nofinalize", 0, 1)
        self.assertEqual(result.returncode, 1)
        self.assertIn("without calling MPI_Finalize", result.stderr)
        self.assertIn("rank 1", result.stderr)

    def test_the_killed_one_is_named_though_another_ended_with_a_code(self):
        # All end while mpirun is stopped, so that it sees them at once, the lowest rank first.
        with tempfile.TemporaryDirectory() as folder:
            wait = f"touch {folder}/$RANK; until [ -e {folder}/go ]; do sleep 0.01; done; "
            process = subprocess.Popen(
                [MPIRUN, "-n", "1", "sh", "-c", wait + "exit 5", ":", "-n", "1", "sh", "-c",
                 wait + f"touch {folder}/done; kill -9 $$"], text=True, stderr=subprocess.PIPE)
            self.until(lambda: len(os.listdir(folder)) == 2)
            process.send_signal(signal.SIGSTOP)
            open(f"{folder}/go", "w").close()
            self.until(lambda: os.path.exists(f"{folder}/done"))
            time.sleep(0.2)
            process.send_signal(signal.SIGCONT)
            errors = process.communicate(timeout=10)[1]
            self.assertEqual(process.returncode, 137, errors)
            self.assertIn("rank 1", errors)

    def until(self, condition):
        end = time.monotonic() + 10
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_exit_before_init_while_others_wait(self):
        for late_ms in 0, 300:  # the others begin to wait before it has ended, and after
            result = run("-n", 3, PROBE, "noinit", 2, late_ms)
            self.assertEqual(result.returncode, 1)
            self.assertIn("rank 2", result.stderr)
            self.assertIn("without calling MPI_Init", result.stderr)

    def test_abort(self):
        for code, want, more in ((5, 5, ""), (0, 1, ", and mpirun ends with code 1"),
                                 (256, 1, ", and mpirun ends with code 1"), (300, 44, "")):
            job = Running(3, "abort", code, 2)
            self.check_quick_end(job, time.monotonic(), want, "rank 2 (pid",
                                 f"ended the job with code {code}: the test wants it{more}\n")

    def test_timeout(self):
        begin = time.monotonic()
        result = run("-n", 2, "--timeout", "0.3", "sleep", 60)
        self.assertLess(time.monotonic() - begin, 0.3 + DEADLINE)
        self.assertEqual(result.returncode, 124)
        self.assertIn("still running: rank 0, 1", result.stderr)

    def test_missing_programs(self):
        for word, code, text in (("no-such-program", 127, "no program no-such-program in PATH"),
                                 ("./no-such-file", 127, "no such file"), ("/", 126, "it is a folder"),
                                 (os.path.abspath(__file__), 126, "not an executable")):
            result = run("-n", 2, word)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(text, result.stderr)
        result = run("-n", 2, "--wdir", "/no/such/place", "true")
        self.assertIn("working directory /no/such/place", result.stderr)
        self.assertNotEqual(result.returncode, 0)

    def test_second_program_missing_kills_the_first(self):
        result = run("-n", 2, "sleep", 60, ":", "-n", 1, "no-such-program")
        self.assertEqual(result.returncode, 127)

    def test_background_processes_of_ranks_go_too(self):
        result = run("-n", 2, "sh", "-c", "sleep 60 & echo $!")
        self.assertEqual(result.returncode, 0)
        for pid in result.stdout.split():
            self.assertTrue(wait_until(lambda: not alive(int(pid)), 2))


class Signals(unittest.TestCase):
    def test_forwarded(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            script = ("import signal,sys,time\n"
                      f"signal.signal({int(number)},lambda *a: (print('caught'), sys.exit(0)))\n"
                      "print('ready'); time.sleep(60)")
            process = subprocess.Popen([MPIRUN, "-n", "2", PYTHON, "-c", script], text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       env=clean_environment())
            self.assertEqual([process.stdout.readline() for _ in range(2)], ["ready\n"] * 2)
            process.send_signal(number)
            out, _ = process.communicate(timeout=PATIENCE)
            self.assertEqual((out, process.returncode), ("caught\n" * 2, 0))

    def test_interrupt_terminate_hangup(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            job = Running(2, "pause")
            job.process.send_signal(number)
            code, _, err = job.end()
            self.assertEqual(code, 128 + number, err)
            self.assertTrue(wait_until(lambda: not job.leftovers(), 2), job.leftovers())

    def test_second_interrupt_kills(self):
        job = Running(2, "ignore")
        begin = time.monotonic()
        job.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        self.assertTrue(alive(job.pids[0]))
        job.process.send_signal(signal.SIGTERM)
        code, _, _ = job.end()
        self.assertLess(time.monotonic() - begin, DEADLINE)
        self.assertIn(code, (128 + signal.SIGTERM, 128 + signal.SIGKILL))
        self.assertEqual(job.leftovers(), [])

    @unittest.skipUnless(os.path.isdir("/proc/self"), "reads /proc")
    def test_stop_and_continue(self):
        def state(pid):
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        job = Running(2, "pause")
        job.process.send_signal(signal.SIGTSTP)
        everyone = [*job.pids, job.process.pid]
        self.assertTrue(wait_until(lambda: all(state(p) == "T" for p in everyone)))
        job.process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: all(state(p) != "T" for p in everyone)))
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end()[0], 143)

    def test_sigkill_of_mpirun_leaves_nothing(self):
        for words in (("pause",), ("spin",), ("ignore",)):
            job = Running(3, *words)
            self.assertTrue(glob.glob(f"/dev/shm/pomona-{job.tag}-*") or sys.platform == "darwin")
            self.assertEqual(os.stat(job.directory).st_mode & 0o777, 0o700)
            job.process.kill()
            job.end()
            self.assertTrue(wait_until(lambda: not job.leftovers(), DEADLINE), job.leftovers())

    def test_sigkill_of_mpirun_kills_grandchildren(self):
        process = subprocess.Popen([MPIRUN, "-n", "2", "sh", "-c", "sleep 60 & echo $!; wait"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                   env=clean_environment())
        pids = [int(process.stdout.readline()) for _ in range(2)]
        time.sleep(0.2)  # the watchdog is made while the ranks start
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.assertTrue(wait_until(lambda: not any(map(alive, pids)), DEADLINE))


class CommandLine(unittest.TestCase):
    def test_the_timeout_of_the_environment(self):
        env = clean_environment(MPIEXEC_TIMEOUT="0.3")
        result = run("-n", 1, "sleep", 600, env=env)
        self.assertEqual(result.returncode, 124)
        self.assertIn("the time of 0.3 s given by MPIEXEC_TIMEOUT is over", result.stderr)
        result = run("-n", 1, "--timeout", 0.2, "sleep", 600, env=env)
        self.assertIn("the time of 0.2 s given by --timeout is over", result.stderr)

    def test_what_has_no_effect_is_told(self):
        result = run("-n", 2, "--mca", "btl", "tcp", "true")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (0, 1), result.stderr)
        self.assertIn("option --mca btl tcp has no effect", result.stderr)
        self.assertEqual(run("-q", "-n", 2, "--mca", "btl", "tcp", "true").stderr, "")

    def test_processors(self):
        if not hasattr(os, "sched_getaffinity"):
            self.skipTest("processes cannot be bound here")
        one = min(os.sched_getaffinity(0))
        script = "import os;print(sorted(os.sched_getaffinity(0)))"
        for options in (("--cpu-set", one), ("--map-by", "slot:PE=1")):
            result = run("-n", 1, *options, PYTHON, "-c", script)
            self.assertEqual(result.stdout, f"[{one}]\n", result.stderr)
            result = run("-n", 1, "--report-bindings", *options, "true")
            self.assertRegex(result.stderr, rf"rank 0 .*bound to processors {one}\b")
        result = run("--cpu-set", "4095", "true")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("processor 4095 is not one that mpirun may use", result.stderr)
        result = run("-n", 2, "--map-by", "slot:PE=1000", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("need 2000 cores", result.stderr)

    # The parser's many cases stand in parse_test.cc; here, that they reach the user.
    def test_mistakes(self):
        result = run("--tag-outptu", "true")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("did you mean --tag-output?", result.stderr)
        self.assertEqual(run().returncode, 2)

    def test_help_and_version(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("Examples:", result.stdout)
        self.assertIn("Pomona", run("--version").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
