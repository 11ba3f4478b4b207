# tests/launch/test_ends.py: what must not lose output, hang or hit strangers when things around
# mpirun go wrong: full disks, hang-ups, few descriptors, processes that outlive their rank, reused
# process numbers. Needs what launch_case.py needs.
import fcntl
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from launch_case import MPIRUN, NEEDS_PMIX, PATIENCE, PROBE, PYTHON, alive, clean_environment, run, wait_until

WORKER = ("env", "-u", "POMONA_JOB_ID", PROBE)  # knows PMIx alone


def start(*words, **kinds):
    kinds.setdefault("stdout", subprocess.PIPE)
    kinds.setdefault("env", clean_environment())
    return subprocess.Popen([MPIRUN, *map(str, words)], stdin=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, start_new_session=True, **kinds)


def ignore(number):
    return lambda: signal.signal(number, signal.SIG_IGN)


def read_numbers(path):
    with open(path) as file:
        return [int(line) for line in file.read().split("\n")[:-1]]


def limit_descriptors(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class KilledAtTheStart(unittest.TestCase):
    def test_no_rank_is_left(self):
        # mpirun is killed while it starts ranks: 300 take it about half a second. The system ends
        # these, and nobody but the watchdog what they have started.
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "started")
            process = start("-n", 300, "sh", "-c", f"sleep 600 & echo $! >> {path}; wait")
            self.assertTrue(wait_until(lambda: os.path.exists(path) and len(read_numbers(path)) >= 32))
            process.kill()
            process.communicate()
            started = read_numbers(path)
            self.assertLess(len(started), 300, "all had been started")
            self.assertTrue(wait_until(lambda: not any(map(alive, read_numbers(path)))))


@unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
class FullDisk(unittest.TestCase):
    def check(self, *words):
        with open("/dev/full", "w") as full:
            process = start(*words, stdout=full)
            _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(err.count("standard output cannot be written"), 1, err)
        self.assertIn("No space left on device", err)

    def test_the_last_words_are_missed(self):
        self.check("-n", 2, "echo", "word")

    def test_a_job_that_goes_on_ends(self):
        self.check("-n", 2, "sh", "-c", "echo word; sleep 600")

    def check_script(self, script, code, said):
        done = subprocess.run(["bash", "-c", script, MPIRUN], capture_output=True, text=True, timeout=PATIENCE,
                              env=clean_environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, (script, done.stderr))
        (self.assertIn if said else self.assertEqual)(said, done.stderr)

    def test_a_standard_output_that_is_closed(self):
        missed = "standard output cannot be written: Bad file descriptor"
        for command in ("-n 2 echo word", "-n 1 sh -c 'echo word; sleep 600'", "--help"):
            self.check_script(f'"$0" {command} >&-', 1, missed)
        for command in ("-n 2 true", "-n 1 sh -c 'echo >&2'"):
            self.check_script(f'"$0" {command} >&- 2>/dev/null', 0, "")

    def test_a_reader_that_has_gone(self):
        # All ranks end well: what they wrote has reached mpirun alone.
        late = "trap \"\" PIPE; sleep 0.3; echo word; exit 0"
        self.check_script(f'"$0" -n 2 sh -c \'{late}\' | true; exit ${{PIPESTATUS[0]}}', 128 + signal.SIGPIPE, "")
        self.check_script('"$0" -n 2 true | true; exit ${PIPESTATUS[0]}', 0, "")

    def test_nobody_is_told_when_standard_error_is_full(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([MPIRUN, "-n", "1", "sh", "-c", "echo word >&2"], stderr=full,
                                  env=clean_environment(), timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)


@unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
class FullDiskOfFiles(unittest.TestCase):
    """Files of --output-filename, and programs that ask for no error when they print."""

    def setUp(self):
        self.place = self.enterContext(tempfile.TemporaryDirectory())

    def check(self, *words, full="1.out", ranks=2):
        """The job whose file of that name has no room ends with code 1 and says so once."""
        os.symlink("/dev/full", os.path.join(self.place, full))
        done = run("-n", ranks, "--output-filename", self.place, *words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"^mpirun: the output of rank {full[0]} is lost: {self.place}/{full} cannot be "
                                      r"written: No space left on device; the job ends with code 1\n$")

    def read(self, name):
        with open(os.path.join(self.place, name)) as file:
            return file.read()

    def test_the_last_words_are_missed(self):
        self.check("sh", "-c", "echo error >&2; echo word; exit 0")
        self.assertEqual(self.read("1.err"), "error\n")

    def test_standard_error(self):
        self.check("sh", "-c", "echo error >&2; exit 0", full="0.err")

    def test_both_in_one_file(self):
        self.check("--merge-stderr-to-stdout", "sh", "-c", "echo error >&2; exit 0", full="0.out")

    def test_a_job_that_goes_on_ends(self):
        self.check("sh", "-c", "trap '' PIPE; echo word; sleep 600")

    def test_lines_with_beginnings(self):
        self.check("--tag-output", "sh", "-c", "echo word; exit 0")

    def test_a_job_that_was_asked_to_end(self):
        # Its ranks end well then, and what they say last is lost.
        os.symlink("/dev/full", os.path.join(self.place, "0.out"))
        process = start("-n", 1, "--output-filename", self.place, "sh", "-c",
                        "trap 'echo word; exit 0' TERM; echo here >&2; while :; do sleep 0.05; done")
        self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(self.place, "0.err"))
                                   and self.read("0.err") == "here\n"))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("the output of rank 0 is lost", err)

    def test_one_word_for_all_ranks(self):
        for rank in range(2):
            os.symlink("/dev/full", os.path.join(self.place, f"{rank}.out"))
        done = run("-n", 2, "--output-filename", self.place, "sh", "-c", "echo word; exit 0")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)

    def test_a_disk_that_becomes_full(self):
        if os.getuid() != 0 or not shutil.which("unshare"):
            self.skipTest("needs root and unshare")
        script = f"mount -t tmpfs -o size=64k none {self.place} || exit 9; \"$@\"; code=$?; " \
                 f"head -c 20 {self.place}/0.out; exit $code"
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", MPIRUN, "-n", "1",
             "--output-filename", self.place, "sh", "-c", "echo begin; head -c 300000 /dev/zero; exit 0"],
            capture_output=True, timeout=PATIENCE, env=clean_environment(), stdin=subprocess.DEVNULL)
        if done.returncode == 9:
            self.skipTest("no file system can be mounted here")
        self.assertEqual((done.returncode, done.stdout), (1, b"begin\n" + 14 * b"\0"), done.stderr)
        self.assertIn(b"No space left on device", done.stderr)


class OutputFiles(unittest.TestCase):
    def test_much_for_a_slow_reader_of_a_pipe(self):
        # More than mpirun keeps of it: the rank waits, and all of it comes, also what is written
        # last.
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "0.out")
            os.mkfifo(path)
            for option, end in (("--quiet", b"end"), ("--tag-output", b"\n[0]<stdout>: end\n")):
                process = start("-n", 1, option, "--output-filename", place, "sh", "-c",
                                "head -c 4000000 /dev/zero | tr '\\0' '\\n'; printf end")
                self.addCleanup(process.kill)
                data = subprocess.run(["sh", "-c", f"exec < {path}; sleep 0.5; exec cat"], timeout=PATIENCE,
                                      stdout=subprocess.PIPE).stdout
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual((process.returncode, data.count(b"\n") >= 4000000, data[-len(end):]), (0, True, end), err)

    def test_who_goes_on_writing_holds_nobody_up(self):
        with tempfile.TemporaryDirectory() as place:
            process = start("-n", 2, "--output-filename", place, "sh", "-c",
                            "setsid sh -c 'while sleep 0.01; do echo more; done' & echo word")
            _, err = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, err), (0, ""))
            for rank in range(2):
                with open(os.path.join(place, f"{rank}.out")) as file:
                    self.assertEqual(set(file.read().splitlines()) - {"more"}, {"word"})

    @unittest.skipUnless(os.path.isdir("/proc/self"), "reads /proc")
    def test_no_file_of_a_rank_that_has_ended_is_kept_open(self):
        # Files of worlds that come and go would use up the descriptors.
        with tempfile.TemporaryDirectory() as place:
            go = os.path.join(place, "go")
            process = start("-n", 2, "--output-filename", place, "sh", "-c",
                            f"[ $RANK = 1 ] || until test -e {go}; do sleep 0.01; done; echo word")

            def files():
                links = [os.path.join(f"/proc/{process.pid}/fd", each) for each in os.listdir(f"/proc/{process.pid}/fd")]
                return sorted(os.path.basename(path) for path in map(os.path.realpath, links) if path.startswith(place))
            try:
                self.assertTrue(wait_until(lambda: files() == ["0.err", "0.out"]), files())
            finally:
                open(go, "w").close()
                process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0)


class Signals(unittest.TestCase):
    def test_ignored_signals_stay_ignored(self):
        # nohup and `command &` of a shell without job control; both for mpirun and its ranks.
        for number in (signal.SIGHUP, signal.SIGINT):
            script = f"kill -{int(number)} $$; echo still here; sleep 0.5; echo {int(number)}"
            process = start("-n", 1, "sh", "-c", script, preexec_fn=ignore(number))
            self.assertEqual(process.stdout.readline(), "still here\n")
            process.send_signal(number)
            process.wait(timeout=PATIENCE)
            with process.stdout, process.stderr:
                said = process.stdout.read(), process.stderr.read()
            self.assertEqual((process.returncode, *said), (0, f"{int(number)}\n", ""))

    def test_a_blocked_sigchld(self):
        # As some programs start others: ranks that have ended must be seen all the same.
        process = start("-n", 2, "echo", "x",
                        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD]))
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out, err), (0, "x\n" * 2, ""))

    def test_an_interrupt_does_not_prolong_the_end(self):
        # Rank 1 fails and rank 0 does not care; it is killed 1.3 s later, and not 4 s after Ctrl-C.
        script = "if test $RANK = 1; then exit 3; fi; trap '' TERM INT; while :; do sleep 0.1; done"
        process = start("-n", 2, "sh", "-c", script)
        with process.stdout:
            self.assertIn("exited with code 3", process.stderr.readline())
        time.sleep(0.6)  # it has been asked to end meanwhile
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 3)
        self.assertLess(time.monotonic() - begin, 3.8)

    def test_an_interrupt_that_ranks_ignore(self):
        process = start("-n", 2, "sh", "-c", "trap '' INT; echo here; while :; do sleep 0.1; done")
        self.assertEqual([process.stdout.readline() for _ in range(2)], ["here\n"] * 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, err)


class Outliving(unittest.TestCase):
    @unittest.skipUnless(shutil.which("setsid"), "needs setsid")
    def test_a_writer_in_another_session(self):
        # It is in no process group of ours and has the rank's standard output.
        with tempfile.TemporaryDirectory() as place:
            name = os.path.join(place, "pid")
            script = f"setsid sh -c 'echo $$ > {name}.new; mv {name}.new {name}; exec yes' & " \
                     f"while ! test -e {name}; do sleep 0.01; done"
            # With a time on each line mpirun is slower than the writer, whose pipe is never empty.
            process = start("-n", 1, "--timestamp-output", "sh", "-c", script,
                            stdout=subprocess.DEVNULL)
            try:
                process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0)
                with open(name) as file:
                    writer = int(file.read())
                self.assertTrue(wait_until(lambda: not alive(writer)))
            finally:
                process.kill()
                process.wait()

    def test_a_rank_that_has_gone_to_another_group(self):
        # It is reached by its own number then, and the job ends.
        leave = ("import os, time\n"
                 "os.setpgid(0, os.getpgid(os.getppid()))\n"
                 "print(os.getpid(), flush=True)\n"
                 "time.sleep(600)")
        with tempfile.TemporaryDirectory() as place:
            gone = os.path.join(place, "gone")
            process = start("-n", 1, PYTHON, "-c", leave, ":", "-n", 1, "sh", "-c",
                            f"while ! test -e {gone}; do sleep 0.01; done; exit 3")
            try:
                pid = int(process.stdout.readline())
                with open(gone, "w"):
                    pass
                process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 3)
                self.assertFalse(alive(pid))
            finally:
                process.kill()
                process.communicate()

    def test_a_number_that_someone_else_has_now(self):
        """Rank 0 ends; another program gets its number and a group of that number; the job ends."""
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.getuid() != 0 or not shutil.which("unshare") or subprocess.run(
                [*unshare, "sh", "-c", "echo 1000 > /proc/sys/kernel/ns_last_pid"],
                capture_output=True).returncode != 0:
            self.skipTest("needs root and PID namespaces")
        script = f"""
import os, subprocess, time
job = subprocess.Popen([{MPIRUN!r}, "-n", "2", "sh", "-c",
                        "if test $RANK = 0; then echo $$; else exec sleep 4; fi"], stdout=subprocess.PIPE)
number = int(job.stdout.readline())
while os.path.exists(f"/proc/{{number}}"):
    time.sleep(0.01)
for attempt in range(100):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(number - 1))
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    if other.pid == number:
        break
    other.kill()
    other.wait()
    time.sleep(0.02)  # somebody else may have got the number
job.wait()
print(other.pid == number, other.poll())
"""
        done = subprocess.run([*unshare, PYTHON, "-c", script], capture_output=True, text=True,
                              timeout=PATIENCE, env=clean_environment())
        if done.stdout.startswith("False"):
            self.skipTest("the number was taken by another process of this test")
        self.assertEqual(done.stdout, "True None\n", done.stderr)


class GoingOn(unittest.TestCase):
    """--on-death continue"""

    def test_who_comes_later_hears_of_who_is_gone(self):
        # Also where nobody listens for it yet when the word comes.
        done = run("-n", 3, "--oversubscribe", "--on-death", "continue", PROBE, "gone", 2)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                         (3, [f"rank {rank} was told of 2" for rank in (0, 1)]), done.stderr)


@NEEDS_PMIX
class PmixAlone(unittest.TestCase):
    """Programs that know PMIx alone."""

    def test_an_exit_before_init_while_others_wait(self):
        # It ends before the others have called PMIx_Init, and while they wait.
        for before, of_others in (("", "sleep 0.5; "), ("sleep 0.5; ", "")):
            done = run("-n", 2, "sh", "-c", f"{of_others}exec {' '.join(WORKER)} info", ":",
                       "-n", 1, "sh", "-c", f"{before}exit 0")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"^mpirun: rank 2 \(sh\) on \S+ exited without calling MPI_Init")
            self.assertEqual(done.stderr.count("mpirun:"), 1, done.stderr)


class Descriptors(unittest.TestCase):
    @NEEDS_PMIX
    def test_the_soft_limit_is_no_limit(self):
        process = start("-n", 24, *WORKER, "info", preexec_fn=limit_descriptors(64, 4096))
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(out.count("size=24"), 24)

    def test_ranks_have_the_limit_of_the_caller(self):
        process = start("-n", 1, "sh", "-c", "ulimit -Sn; ulimit -Hn",
                        preexec_fn=limit_descriptors(64, 4096))
        self.assertEqual(process.communicate(timeout=PATIENCE)[0], "64\n4096\n")

    def test_too_few_are_told_at_the_start(self):
        process = start("-n", 30, "true", preexec_fn=limit_descriptors(64, 64))
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, r"30 processes need \d+ descriptors here, and the limit is 64")

    def test_files_of_output_count(self):
        with tempfile.TemporaryDirectory() as place:
            for ranks, code in ((4, 0), (6, 1)):
                process = start("-n", ranks, "--output-filename", place, "true", preexec_fn=limit_descriptors(64, 64))
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual((process.returncode, "6 processes need" in err), (code, code == 1), err)

    @unittest.skipUnless(os.path.isdir("/proc/self"), "needs /proc")
    def test_without_one_mpirun_does_not_spin(self):
        # Connections that cannot be accepted stay in the queue; a rank's comes when there is room
        # again.
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="fd") as place:
            go = os.path.join(place, "go")
            script = f"while ! test -e {go}; do sleep 0.05; done; exec {PROBE} info"
            process = start("-n", 1, "sh", "-c", f"echo $POMONA_JOB_DIR; {script}",
                            preexec_fn=limit_descriptors(64, 64))
            path = os.path.join(process.stdout.readline().rstrip(), "mpirun.sock")
            connections = []
            for _ in range(100):
                connection = socket.socket(socket.AF_UNIX)
                self.addCleanup(connection.close)
                connection.connect(path)
                connections.append(connection)

            def processor_seconds():
                with open(f"/proc/{process.pid}/stat") as file:
                    words = file.read().rsplit(")", 1)[1].split()
                return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
            before = processor_seconds()
            time.sleep(2)
            self.assertLess(processor_seconds() - before, 0.2)
            for connection in connections:
                connection.close()
            with open(go, "w"):
                pass
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn("size=1", out)


def with_limits(limits, *words, **kinds):
    """mpirun under ulimit."""
    return subprocess.run(["bash", "-c", f'ulimit {limits} && exec "$@"', "bash", MPIRUN, *map(str, words)],
                          capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                          env=clean_environment(), **kinds)


class SmallStack(unittest.TestCase):
    """ulimit -s 64: of KiB, also for the environment."""

    def test_a_job(self):
        with tempfile.TemporaryDirectory() as place:
            for options in (), ("--tag-output",), ("--output-filename", place), ("--pmix", "off"):
                with self.subTest(options=options):
                    done = with_limits("-s 64", "-n", 2, *options, PROBE, "info")
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_streams(self):
        done = subprocess.run(["bash", "-c", f"ulimit -s 64 && head -c 300000 /dev/zero | {MPIRUN} -n 2 --stdin all "
                               "head -c 300000"], stdout=subprocess.PIPE, timeout=PATIENCE, env=clean_environment())
        self.assertEqual((done.returncode, done.stdout.count(b"\0")), (0, 600000))

    @NEEDS_PMIX
    def test_openpmix_needs_more(self):
        done = with_limits("-s 64", "-n", 2, *WORKER, "info")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("OpenPMIx needs a stack of 512 KiB, and the limit is 64", done.stderr)
        self.assertEqual(with_limits("-s 512", "-n", 2, *WORKER, "info").returncode, 0)


class FewProcesses(unittest.TestCase):
    def test_ranks_that_cannot_be_started(self):
        if os.getuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv")
        # Root has no such limit: another user has it, of whose processes there may be others.
        for most in range(1, 6):
            with self.subTest(most=most):
                done = subprocess.run(
                    ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "bash", "-c",
                     f'ulimit -u {most} && exec "$@"', "bash", MPIRUN, "-n", "8", "sleep", "600"],
                    capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                    env=clean_environment(TMPDIR="/tmp"), cwd="/")
                self.assertNotIn(done.returncode, (0, 139), done.stderr)
                self.assertRegex(done.stderr, "mpirun: ")


class LimitOfFiles(unittest.TestCase):
    def test_mpirun_and_its_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            def limited(blocks, *words):
                return subprocess.run(["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", MPIRUN, "-n", "1", *words],
                                      capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                                      cwd=folder, env=clean_environment(TMPDIR=folder))
            done = limited(0, "true")
            self.assertEqual((done.returncode, os.listdir(folder)), (1, []), done.stderr)
            self.assertIn("File too large", done.stderr)
            done = limited(100, "sh", "-c", "head -c 100000 /dev/zero > large")
            self.assertEqual((done.returncode, os.listdir(folder)), (153, ["large"]), done.stderr)


class HeldUp(unittest.TestCase):
    def test_who_said_why_it_gave_up_is_not_blamed_for_its_exit(self):
        # It has gone by itself before mpirun reads its word: MPIX_ERR_PROC_FAILED, another's death.
        process = start("-n", 2, PROBE, "late_abort", 16001, 1)
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3.5)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 129, err)
        self.assertRegex(err, r"^mpirun: rank 1 .* ended the job with code 16001: the test wants it\n$")


class Reader(unittest.TestCase):
    def test_the_last_words_reach_a_slow_one_though_the_job_fails(self):
        # More than a pipe takes, and read when the job has long been asked to end and been killed.
        for end in ("exit 3", "kill -9 $$", f"exec {PROBE} abort 3 0"):
            with self.subTest(end=end):
                process = start("-n", 1, "sh", "-c", f"head -c 300000 /dev/zero | tr '\\0' x; {end}",
                                bufsize=0)
                time.sleep(2)
                out, _ = process.communicate(timeout=PATIENCE)
                self.assertEqual(out.count("x"), 300000)

    def test_an_interrupt_ends_the_wait_for_one_that_reads_nothing(self):
        process = start("-n", 1, "sh", "-c", "head -c 300000 /dev/zero; echo done >&2; exit 3")
        with process.stdout, process.stderr:
            self.assertEqual(process.stderr.readline(), "done\n")
            time.sleep(1.6)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=PATIENCE), 3)


class Input(unittest.TestCase):
    def test_a_file_for_all(self):
        with tempfile.TemporaryFile("w+") as file:
            file.write("line\n" * 100000)
            file.seek(0)
            done = subprocess.run([MPIRUN, "-n", "3", "--stdin", "all", "wc", "-l"], stdin=file,
                                  capture_output=True, text=True, timeout=PATIENCE,
                                  env=clean_environment())
        self.assertEqual((done.returncode, done.stdout.split(), done.stderr), (0, ["100000"] * 3, ""))


class NoPrograms(unittest.TestCase):
    def test_files_that_are_no_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program")
            for content, code, text in ((b"", 127, "the file is empty"),
                                        (b"\xcf\xfa\xed\xfe\x0c\0\0\1" + bytes(99), 127, "it is a program of macOS (Mach-O), and this is "),
                                        (b"MZ\x90\0" + bytes(99), 127, "it is a program of Windows, and this is "),
                                        (b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xf3\0" + bytes(99), 127,
                                         "it is a program of Linux or BSD (ELF) for RISC-V, and this is "),
                                        (bytes(99), 127, "it is no program, and this is "),
                                        (b"#!/nosuch/python -u\nprint()\n", 127, "its first line names /nosuch/python: No such file"),
                                        (b"#!/bin/sh\r\necho\r\n", 127, "its lines end as on Windows"),
                                        (b"#! /dev/null\n", 126, "its first line names /dev/null: Permission denied"),
                                        (b"echo text\n", 0, "")):
                if sys.platform == "darwin" and content[:1] in (b"\xcf", b"#"):
                    continue  # its own programs, and other words for the others
                with open(path, "wb") as file:
                    file.write(content)
                os.chmod(path, 0o755)
                result = run("-n", 2, "./program", cwd=folder)
                self.assertEqual((result.returncode, result.stdout), (code, "" if code else "text\n" * 2), result.stderr)
                self.assertIn(text, result.stderr)


class Directory(unittest.TestCase):
    @unittest.skipUnless(os.getuid() == 0 and os.path.isdir("/proc/self"), "needs root and /proc")
    def test_one_that_takes_no_files(self):
        # Not to be seen by its permissions; who is no user with all rights goes to /tmp.
        done = run("-n", 1, "true", env=clean_environment(TMPDIR="/proc"))
        self.assertEqual((done.returncode, done.stderr),
                         (1, "mpirun: the job's directory cannot be made in /proc: No such file or directory; "
                             "set TMPDIR to a directory that can be written\n"))


class Leftovers(unittest.TestCase):
    def test_what_killed_jobs_left_is_swept(self):
        # Of three directories one has a lock that nobody holds: it goes, with its shared memory.
        shared = "/dev/shm/pomona-swept000-0"
        # The last part stands for the host; of another one, on a shared disk, nothing is removed.
        host = run("-n", 1, "sh", "-c", "echo $POMONA_JOB_DIR").stdout.strip().split("-")[-1]
        with tempfile.TemporaryDirectory(prefix="sweep", dir="/tmp") as place:
            names = {tag: os.path.join(place, f"pomona-{os.getuid()}-{tag}-{host}")
                     for tag in ("swept000", "locked00", "nolock00", "others00", "halfway0", "halfway1")}
            names["elsewher"] = os.path.join(place, f"pomona-{os.getuid()}-elsewher-wxyz")
            for name in names.values():
                os.mkdir(name, 0o700)
            for tag in ("swept000", "locked00", "elsewher"):
                open(os.path.join(names[tag], "lock"), "w").close()
            # Old, and of another launcher, or of an mpirun that was killed before it had locked it.
            open(os.path.join(names["others00"], "socket"), "w").close()
            open(os.path.join(names["halfway1"], "lock.new"), "w").close()
            for tag in ("others00", "halfway0", "halfway1"):
                os.utime(names[tag], (1, 1))
            open(os.path.join(names["swept000"], "mpirun.sock"), "w").close()
            # A name that only a file in the directory tells of, as where names cannot be listed.
            told = f"/dev/shm/pomona-told-{os.getpid()}"
            open(os.path.join(names["swept000"], "shm." + os.path.basename(told)), "w").close()
            if os.path.isdir("/dev/shm"):
                open(shared, "w").close()
                open(told, "w").close()
            with open(os.path.join(names["locked00"], "lock")) as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                result = run("-n", 1, "--verbose", "true", env=clean_environment(TMPDIR=place))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(sorted(os.listdir(place)),
                                 sorted(os.path.basename(names[t])
                                        for t in ("locked00", "nolock00", "others00", "elsewher")))
            self.assertFalse(os.path.exists(shared))
            self.assertFalse(os.path.exists(told))
            self.assertIn("removed what 3 killed jobs had left", result.stderr)

    def test_memory_that_no_directory_tells_of_is_swept(self):
        """As after a job whose launcher had its files in a directory of its own, which is gone."""
        if not os.path.isdir("/dev/shm"):
            self.skipTest("names of shared memory cannot be listed")
        paths = {kind: f"/dev/shm/pomona-{kind}{os.getpid()}-0" for kind in ("dead", "living", "unmarked", "linked")}
        try:
            os.symlink("/etc/hostname", paths["linked"])
            for kind in ("dead", "living", "unmarked"):
                open(paths[kind], "w").close()
                os.chmod(paths[kind], 0o600 if kind == "unmarked" else 0o1600)
            with open(paths["living"]) as held:
                fcntl.flock(held, fcntl.LOCK_SH)
                result = run("-n", 1, "true")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual([kind for kind, path in paths.items() if os.path.lexists(path)],
                                 ["living", "unmarked", "linked"])
        finally:
            for path in paths.values():
                if os.path.lexists(path):
                    os.unlink(path)

    def test_a_living_job_is_not_swept(self):
        with tempfile.TemporaryDirectory(prefix="sweep", dir="/tmp") as place:
            inner = [MPIRUN, "-n", "1", "true"]
            script = ("import os,subprocess,sys\n"
                      "directory=os.environ['POMONA_JOB_DIR']\n"
                      "env={k:v for k,v in os.environ.items() if not k.startswith('POMONA_')}\n"
                      f"code=subprocess.run({inner!r},env=env).returncode\n"
                      "print(code,os.path.exists(directory))")
            result = run("-n", 1, PYTHON, "-c", script, env=clean_environment(TMPDIR=place))
            self.assertEqual(result.stdout, "0 True\n", result.stderr)
            self.assertEqual(os.listdir(place), [])


class Stacks(unittest.TestCase):
    """What --stack-traces prints at the end of the time, by stand-ins for the debugger."""

    def debugger(self, script):
        """An environment with a stand-in for gdb."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        path = os.path.join(place.name, "gdb")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return clean_environment(PATH=f"{place.name}:{os.environ['PATH']}")

    def test_stack_traces_at_the_timeout(self):
        # What the debugger is asked and says must be seen, once for each rank.
        env = self.debugger("echo \"#0 in somewhere, asked: $*\"\n")
        result = run("-n", 2, "--timeout", 0.5, "--stack-traces", "sleep", 600, env=env)
        self.assertEqual(result.returncode, 124)
        asked = re.findall(r"calls of rank (\d) \(pid (\d+), sleep\):\n"
                           r"#0 in somewhere, asked: .*-p (\d+)\n", result.stderr)
        self.assertEqual(sorted(rank for rank, *_ in asked), ["0", "1"], result.stderr)
        for _, told, given in asked:
            self.assertEqual(told, given)

    def test_output_goes_on_while_stacks_are_taken(self):
        """Debuggers of several ranks run at once, and mpirun passes on what comes meanwhile."""
        env = self.debugger("sleep 2; echo '#0 in somewhere'\n")
        begin = time.monotonic()
        process = start("-n", 3, "--timeout", 0.3, "--stack-traces", "sh", "-c",
                        "while :; do echo line; sleep 0.1; done", env=env)
        at = []
        for _ in process.stdout:
            at.append(time.monotonic() - begin)
        err = process.stderr.read()
        self.assertEqual((process.wait(), err.count("#0 in somewhere")), (124, 3), err)
        self.assertLess(time.monotonic() - begin, 5.5, err)
        during = [each for each in at if 0.8 < each < 1.8]
        self.assertGreater(len(during), 5, at)

    def test_an_interrupt_ends_the_wait_for_stacks(self):
        env = self.debugger("exec sleep 600\n")
        process = start("-n", 2, "--timeout", 0.2, "--stack-traces", "sleep", 600, env=env)
        time.sleep(1)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        self.assertLess(time.monotonic() - begin, 3)
        self.assertEqual(process.returncode, 124)


if __name__ == "__main__":
    unittest.main(verbosity=1)
