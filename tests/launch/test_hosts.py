# tests/launch/test_hosts.py: mpirun over several hosts: the streams of ranks, and how a job ends.
# Where ranks run: test_hosts_placement.py; MPI programs: test_hosts_programs.py.
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest

from hosts_case import Case
from launch_case import PATIENCE, PROBE, alive, wait_until


class Apart(Case):
    """What makes the hosts of these tests hosts."""

    def seen(self, host, *words):
        return subprocess.run(self.world.inside(host, *words), capture_output=True, text=True,
                              check=True).stdout.split()

    def test_shared_memory_is_a_hosts_own(self):
        self.seen("h1", "touch", "/dev/shm/mine")
        self.addCleanup(self.seen, "h1", "rm", "/dev/shm/mine")
        self.assertEqual([self.seen(host, "ls", "/dev/shm") for host in ("h1", "h2", "h1")],
                         [["mine"], [], ["mine"]])
        spaces = [self.seen(host, "readlink", "/proc/self/ns/ipc")[0] for host in ("h1", "h2", "h1")]
        self.assertEqual(len(set(spaces)), 2, spaces)
        self.assertEqual(spaces[0], spaces[2])

    def test_processes_and_temporary_files_are_a_hosts_own(self):
        if not self.world.own_processes:
            self.skipTest("these hosts share them")
        left = subprocess.Popen(self.world.inside("h1", "sh", "-c", "echo $$; exec sleep 600"),
                                stdout=subprocess.PIPE, text=True)
        number = int(left.stdout.readline())
        try:
            self.assertEqual({host: [self.world.told(pid) for pid in pids]
                              for host, pids in self.world.processes().items()},
                             {"h1": [number], "h2": [], "h3": []})
            self.assertEqual(self.seen("h2", "sh", "-c", "cat /proc/[0-9]*/comm; exit 0"), ["cat", "sh"])
        finally:
            for pid in self.world.processes()["h1"]:
                os.kill(pid, signal.SIGKILL)
            left.communicate()
        self.seen("h1", "touch", "/tmp/pomona-left")
        self.assertEqual(self.world.entries("/tmp"), ["h1: pomona-left"])
        self.seen("h1", "rm", "/tmp/pomona-left")


class Streams(Case):
    def test_standard_input(self):
        self.assertEqual(self.run_job("-n", 2, "--host", "h1,h2", "cat", input="word\n").stdout,
                         "word\n")
        done = self.run_job("-n", 3, "--host", "h1,h2,localhost", "--stdin", "all", "cat",
                            input="word\n")
        self.assertEqual(done.stdout, "word\n" * 3)

    def test_much_in_both_directions(self):
        text = "".join(f"line {i}\n" for i in range(200000))
        done = self.run_job("-n", 2, "--host", "h1,h2", "--stdin", "all", "cat", input=text)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(2 * text.splitlines()))

    def test_a_reader_that_stops_early(self):
        # mpirun ... | head: the ranks get SIGPIPE and nobody complains.
        for program in (["yes"], ["sh", "-c", "yes; exit"]):  # a script passes the signal on as a code
            words = shlex.join(self.words("-n", 2, "--host", "h1,h2", *program))
            done = subprocess.run(["bash", "-c", f"set -o pipefail; {words} | head -n 1"],
                                  capture_output=True, text=True, timeout=PATIENCE,
                                  env=self.environment(), stdin=subprocess.DEVNULL)
            self.assertEqual((done.stdout, done.stderr), ("y\n", ""))

    def test_streams_tags_and_files(self):
        script = ("sh", "-c", "echo out; echo err >&2")
        done = self.run_job("-n", 2, "--tag-output", "--host", "h1,h2", *script)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0]<stdout>: out", "[1]<stdout>: out"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0]<stderr>: err", "[1]<stderr>: err"])
        done = self.run_job("-n", 1, "--merge-stderr-to-stdout", "--host", "h1", *script)
        self.assertEqual(done.stdout, "out\nerr\n")
        name = os.path.join(self.world.place, "log")
        self.run_job("-n", 2, "--output-filename", name, "--host", "h1,localhost", *script)
        for rank in (0, 1):
            for stream in ("out", "err"):
                with open(f"{name}.{rank}.{stream}") as file:
                    self.assertEqual(file.read(), stream + "\n")
        self.run_job("-n", 2, "--tag-output", "--output-filename", name, "--host", "h1,localhost", *script)
        for rank in (0, 1):
            with open(f"{name}.{rank}.err") as file:
                self.assertEqual(file.read(), f"[{rank}]<stderr>: err\n")

    def test_agents_and_ranks_with_a_small_stack(self):
        small = self.world.stand_in("small", begin="ulimit -s 64; ")
        done = self.run_job("-n", 4, "--host", "h1:2,h2:2", "--stdin", "all", "sh", "-c",
                            f"cat | wc -c; ulimit -s; exec {PROBE} info", ssh=small, input="x" * 300000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines())[:8], ["300000"] * 4 + ["64"] * 4)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run(self.words("-n", 2, "--host", "h1,h2", "sh", "-c",
                                             "echo word; sleep 600"),
                                  stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                                  env=self.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output cannot be written", done.stderr)


class Ends(Case):
    """However a job ends: the cause is named, the code is right, nothing stays on any host."""

    LIVE = ("sh", "-c", "echo $$; exec sleep 600")

    def job(self, *words, count=2):
        process = self.start("-n", count, "--host", self.world.names(count), *words)
        return process, self.pids_of(process, count)

    def test_an_exit_code(self):
        done = self.run_job("-n", 3, "--host", "h1,h2,h3", "sh", "-c",
                            "test $RANK = 1 && exit 7; exec sleep 600")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^mpirun: rank 1 \(pid \d+, sh\) on h2 exited with code 7")
        self.nothing_left([])

    def test_a_killed_rank(self):
        process, pids = self.job(*self.LIVE)
        os.kill(pids[0], signal.SIGSEGV)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGSEGV)
        self.assertRegex(err, r"on h[12] was killed by signal 11")
        self.nothing_left(pids)

    def test_a_program_that_is_not_there(self):
        done = self.run_job("-n", 2, "--host", "h1,h2", "nosuch")
        self.assertEqual(done.returncode, 127)
        self.assertRegex(done.stderr, r"host h[12]: there is no program nosuch in PATH")
        self.nothing_left([])

    def test_interrupts(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, pids = self.job(*self.LIVE)
            process.send_signal(number)
            self.assertEqual(self.end_of(process)[0], 128 + number)
            self.nothing_left(pids)

    def test_two_interrupts(self):
        process, pids = self.job("sh", "-c", "trap '' INT TERM; echo $$; while :; do sleep 1; done")
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGINT)
        self.nothing_left(pids)

    def reaching(self):
        """mpirun, while it reaches hosts that never answer."""
        slow = self.world.stand_in("slow", text="#!/bin/sh\nexec sleep 600\n")
        process = subprocess.Popen(self.words("-n", 2, "--host", "h1,h2", "true", ssh=slow),
                                   env=self.environment(), stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        return process

    def test_interrupted_while_hosts_are_reached(self):
        process = self.reaching()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)

    def test_asked_while_hosts_are_reached(self):
        process = self.reaching()
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stderr.readline(), "mpirun: not reached yet: h1, h2\n")
        process.terminate()
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_a_blocked_sigchld(self):
        blocking = self.world.stand_in("blocking", text="#!/bin/sh\nexec " + shlex.join([
            sys.executable, "-c", "import os, signal, sys\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])\n"
            "os.execv(sys.argv[1], sys.argv[1:])", self.world.enter]) + ' "$@"\n')
        done = self.run_job("-n", 2, "--host", "h1,h2", "echo", "x", ssh=blocking)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "x\n" * 2, ""))

    def test_a_host_on_which_no_rank_runs_is_lost(self):
        # It has none; those that it had have ended, and all of their output has come.
        for count, script in ((1, "echo $$; sleep 3; echo end"),
                              (2, "test $RANK = 1 || { echo $$; sleep 3; }; echo end")):
            with self.subTest(count=count):
                self.world.forget_shells()
                process = self.start("-n", count, "--host", "h1,h2", "sh", "-c", script)
                self.assertTrue(wait_until(lambda: self.world.shells("h2")))
                said = [process.stdout.readline() for _ in range(count)]
                time.sleep(0.5)
                for pid in self.world.shells("h2"):
                    os.kill(pid, signal.SIGKILL)
                code, out, err = self.end_of(process)
                self.assertEqual((code, (said + [out]).count("end\n")), (0, count), err)
                self.assertRegex(err, r"^mpirun: host h2: .* signal 9; no rank runs there, and the job goes on\n$")
                self.nothing_left([])

    def test_timeout(self):
        done = self.run_job("-n", 2, "--timeout", 1, "--host", "h1,h2", "sleep", 600)
        self.assertEqual(done.returncode, 124)
        self.assertIn("still running: rank 0, 1", done.stderr)
        self.assertRegex(done.stderr, r"rank 1 .* on h2")
        self.nothing_left([])

    def test_stacks_take_longer_than_a_silence(self):
        debugger = self.world.stand_in("gdb", text="#!/bin/sh\nsleep 4; echo '#0 in somewhere'\n")
        env = self.environment(PATH=os.path.dirname(debugger) + ":" + os.environ["PATH"])
        done = self.run_job("-n", 2, "--silence", 2, "--timeout", 0.5, "--stack-traces", "--host", "h1,h2",
                            "sleep", 600, env=env)
        self.assertEqual((done.returncode, done.stderr.count("#0 in somewhere")), (124, 2), done.stderr)

    def test_mpirun_is_killed(self):
        process, pids = self.job(*self.LIVE)
        process.kill()
        process.communicate()
        self.nothing_left(pids)

    def test_ssh_or_an_agent_is_killed(self):
        for ssh in (self.world.apart, self.world.enter):  # a process of its own; the agent itself
            self.world.forget_shells()
            process = self.start("-n", 2, "--host", "h1,h2", *self.LIVE, ssh=ssh)
            pids = self.pids_of(process, 2)
            for pid in self.world.shells("h2"):
                os.kill(pid, signal.SIGKILL)
            code, _, err = self.end_of(process)
            self.assertEqual(code, 1)
            self.assertRegex(err, r"mpirun: host h2: the connection to it ended: .* was killed by "
                                  r"signal 9; the job ends with code 1")
            self.nothing_left(pids)

    def test_a_host_that_falls_silent(self):
        process = self.start("-n", 2, "--set", "link_grace_s=1", "--host", "h1,h2", *self.LIVE)
        pids = self.pids_of(process, 2)
        shells = self.world.shells("h2")
        for pid in shells:
            os.kill(pid, signal.SIGSTOP)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertRegex(err, r"mpirun: host h2: nothing was heard of it for \d s")
        # It wakes up: its agent was killed as ssh's process, and the watchdog ends the rest.
        self.wake(shells)
        self.nothing_left(pids)

    def test_an_interrupt_while_the_only_host_is_silent(self):
        # No rank tells how it ended: the job has, by the interrupt.
        process = self.start("-n", 2, "--host", "h2", *self.LIVE)
        self.pids_of(process, 2)
        shells = self.world.shells("h2")
        for pid in shells:
            os.kill(pid, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 130, err)
        self.wake(shells)

    def test_how_long_a_silent_host_is_waited_for(self):
        # Its own option, whatever the grace of connections is.
        process = self.start("-n", 2, "--silence", 2, "--host", "h1,h2", *self.LIVE)
        self.pids_of(process, 2)
        shells = self.world.shells("h2")
        for pid in shells:
            os.kill(pid, signal.SIGSTOP)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertRegex(err, r"mpirun: host h2: nothing was heard of it for [23] s")
        self.wake(shells)

    def test_a_silent_host_is_told_of_and_comes_back(self):
        process = self.start("-n", 2, "--host", "h1,h2", "sh", "-c", "echo $$; sleep 9; echo end")
        self.pids_of(process, 2)
        self.stop_agent("h2", 7.5)
        code, out, err = self.end_of(process)
        self.assertEqual((code, out), (0, "end\n" * 2), err)
        self.assertRegex(err, r"^mpirun: host h2: nothing was heard of it for [56] s; mpirun waits for it until "
                              r"32 s are over and then gives it up \(--silence 5 would make that 5 s\)\n"
                              r"mpirun: host h2: it is heard again, after [789] s\n$")

    def needs_hosts_that_see_each_other(self):
        if self.apart:
            self.skipTest("one such host has no processes of the others to enter them by")

    def inside_h1(self, *words, count=3, options=()):
        """A job whose mpirun is on h1, in the network of the others."""
        self.needs_hosts_that_see_each_other()
        process = subprocess.Popen(self.world.inside("h1", *self.words(*options, "-n", count, "--host",
                                                                       self.world.names(count), *words)),
                                   stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment(), start_new_session=True)
        self.addCleanup(lambda: process.returncode is None and process.kill())
        pids = self.pids_of(process, count)
        time.sleep(2.5)  # mpirun and agents have tried by now which addresses answer
        return process, pids

    def gone(self, host, shells):
        """Until the block ends: nothing gets to the host or leaves it; its agent stands still."""
        stack = contextlib.ExitStack()
        for hook in ("input", "output"):
            stack.enter_context(self.filtered(host, hook, "drop"))
        for pid in shells:
            os.kill(pid, signal.SIGSTOP)
        stack.callback(self.wake, shells)
        return stack

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_host_vanishes(self):
        # Its system does not answer any more: nobody waits until 32 s are over.
        self.vanishes(r"^mpirun: host h2: nothing was heard of it for \d s, and its system does not answer at "
                      r"10\.213\.7\.2, .* either: .*; the job ends with code 1\n$")

    def vanishes(self, words):
        """A job whose host h2 is gone ends with these words."""
        process, pids = self.inside_h1(*self.LIVE)
        with self.gone("h2", self.world.shells("h2")):
            begun = time.monotonic()
            code, _, err = self.end_of(process)
            self.assertLess(time.monotonic() - begun, 15)
        self.assertEqual(code, 1)
        self.assertRegex(err, words)
        self.nothing_left(pids)

    def by_wifi(self, *hosts):
        """Their cards count as Wi-Fi, by what their systems say of them, until the test ends."""
        for host in hosts:
            words = "mount -t tmpfs none /sys/class/net && mkdir -p /sys/class/net/eth0/wireless"
            subprocess.run(self.world.inside(host, "sh", "-c", words), check=True)
            self.addCleanup(subprocess.run, self.world.inside(host, "umount", "/sys/class/net"), check=True)

    WIFI_SILENT = (r"^mpirun: host h\d: nothing was heard of it for \d s, and its system does not answer at .* either, "
                   r"where this host gets by Wi-Fi or a tunnel: .* or has this host lost its own network\? "
                   r"\(--silence 32 waits that long\); the job ends with code 1\n$")

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_host_that_only_wifi_reaches_vanishes(self):
        self.by_wifi("h1", "h2", "h3")
        self.vanishes(self.WIFI_SILENT)

    def without_wifi(self, *agents):
        """Until the block ends: nobody is at the other end of h1's card, and these hosts' agents,
        whose words go by no network here, stand still."""
        set_port = ("-n", self.world.space("sw"), "link", "set", "p1")
        stack = contextlib.ExitStack()
        stack.callback(self.world.ip, *set_port, "up")
        self.world.ip(*set_port, "down")
        for host in agents:
            shells = self.world.shells(host)
            for pid in shells:
                os.kill(pid, signal.SIGSTOP)
            stack.callback(self.wake, shells)
        return stack

    def test_the_wifi_of_mpiruns_host_drops_out(self):
        self.by_wifi("h1", "h2", "h3")
        process, pids = self.inside_h1(*self.LIVE)
        with self.without_wifi("h2", "h3"):
            begun = time.monotonic()
            code, _, err = self.end_of(process)
            self.assertLess(time.monotonic() - begun, 15)
        self.assertEqual(code, 1)
        self.assertRegex(err, self.WIFI_SILENT)
        self.nothing_left(pids)

    def test_wifi_that_drops_out_for_a_while(self):
        # It is waited for where the user says so.
        self.by_wifi("h1", "h2")
        process, _ = self.inside_h1("sh", "-c", "echo $$; sleep 11; echo end", count=2, options=("--silence", 30))
        with self.without_wifi("h2"):
            time.sleep(7.5)
        code, out, err = self.end_of(process)
        self.assertEqual((code, out), (0, "end\n" * 2), err)
        self.assertRegex(err, r"host h2: it is heard again, after [789] s\n$")

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_the_host_of_mpirun_vanishes(self):
        process, pids = self.inside_h1(*self.LIVE)
        mpirun = self.world.within(process.pid)
        with self.gone("h1", [mpirun]):
            begun = time.monotonic()
            others = [pid for pid in pids if self.world.host_of(pid) != "h1"]
            self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in others)), others)
            self.assertLess(time.monotonic() - begun, 15)
            os.kill(mpirun, signal.SIGKILL)
        process.communicate()
        self.nothing_left(pids)

    def test_a_host_whose_system_answers_is_waited_for(self):
        # Or one that did not answer when the job began, as where a firewall drops all.
        self.needs_hosts_that_see_each_other()
        for firewall in (False, True):
            if firewall and not shutil.which("nft"):
                continue
            with self.subTest(firewall=firewall), contextlib.ExitStack() as stack:
                self.world.forget_shells()
                if firewall:
                    stack.enter_context(self.filtered("h2", "input", "drop"))
                process, _ = self.inside_h1("sh", "-c", "echo $$; sleep 11; echo end")
                self.stop_agent("h2", 7.5)
                code, out, err = self.end_of(process)
                self.assertEqual((code, out), (0, "end\n" * 3), err)
                self.assertRegex(err, r"host h2: it is heard again, after [789] s\n$")

    def test_a_cable_is_pulled_and_put_back(self):
        # Of both hosts at once, as the one between them: nobody else could know of it.
        process, _ = self.inside_h1("sh", "-c", "echo $$; sleep 11; echo end", count=2)
        def set_ports(state):
            for port in ("p1", "p2"):
                self.world.ip("-n", self.world.space("sw"), "link", "set", port, state)
        self.addCleanup(set_ports, "up")
        set_ports("down")
        self.stop_agent("h2", 7.5)
        set_ports("up")
        code, out, err = self.end_of(process)
        self.assertEqual((code, out), (0, "end\n" * 2), err)
        self.assertRegex(err, r"host h2: it is heard again, after [789] s\n$")

    def test_mpirun_falls_silent(self):
        # As when its host loses its power: the agents end their ranks by themselves.
        process = self.start("-n", 2, "--silence", 2, "--host", "h1,h2", *self.LIVE)
        pids = self.pids_of(process, 2)
        process.send_signal(signal.SIGSTOP)
        try:
            self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids)), pids)
        finally:
            process.kill()
            process.communicate()
        self.nothing_left(pids)

    def test_the_job_goes_on_without_a_host(self):
        process = self.start("-n", 3, "--on-death", "continue", "--host", "h1,h2,h3", "sh", "-c",
                             "echo $$; sleep 3; echo end of $RANK")
        pids = self.pids_of(process, 3)
        for pid in self.world.shells("h2"):
            os.kill(pid, signal.SIGKILL)
        code, out, err = self.end_of(process)
        self.assertEqual(sorted(out.splitlines()), ["end of 0", "end of 2"])
        self.assertEqual(code, 1)
        self.assertRegex(err, r"host h2: .*; the job goes on without its ranks")
        self.nothing_left(pids)

    def test_the_others_get_their_input_without_a_host(self):
        process = subprocess.Popen(
            self.words("-n", 3, "--on-death", "continue", "--stdin", "all", "--host", "h1,h2,h3", "sh", "-c",
                       "echo $RANK; exec wc -c"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment())
        for _ in range(3):
            process.stdout.readline()
        for pid in self.world.shells("h2"):
            os.kill(pid, signal.SIGKILL)
        self.assertIn("goes on without its ranks", process.stderr.readline())
        # More than mpirun sends to a rank on another host that takes nothing.
        out, _ = process.communicate("x" * 1000000, timeout=PATIENCE)
        self.assertEqual((process.returncode, out.split()), (1, ["1000000"] * 2))

    def test_what_ranks_have_started_ends_too(self):
        process = self.start("-n", 2, "--host", "h1,h2", "sh", "-c",
                             "sleep 600 & echo $!; sleep 600 & echo $!; sleep 0.3")
        pids = self.pids_of(process, 4)
        self.assertEqual(self.end_of(process)[0], 0)
        self.nothing_left(pids)

    def test_what_has_left_its_group_ends_too(self):
        # A process in a session of its own, with a child; at a normal end and when mpirun is
        # killed.
        leave = "setsid sh -c 'echo $$; sleep 600 & echo $!; wait' & "
        process = self.start("-n", 2, "--host", "h1,h2", "sh", "-c", leave + "sleep 0.5")
        pids = self.pids_of(process, 4)
        self.assertEqual(self.end_of(process)[0], 0)
        self.nothing_left(pids)
        process = self.start("-n", 2, "--host", "h1,localhost", "sh", "-c", leave + "sleep 600")
        pids = self.pids_of(process, 4)
        process.kill()
        process.communicate()
        self.nothing_left(pids)

    def test_nothing_stays_in_folders_that_a_host_has_for_itself(self):
        # No TMPDIR: each host's agent makes the job's files in that host's /tmp.
        if not self.world.own_processes:
            self.skipTest("these hosts share /tmp")
        env = self.environment()
        del env["TMPDIR"]
        for ends in ("", "; exec sleep 600"):
            process = subprocess.Popen(
                self.words("-n", 3, "--host", "h1,h2,h3", "sh", "-c", "setsid sleep 600 & "
                           "test -e $POMONA_JOB_DIR && dirname $POMONA_JOB_DIR" + ends),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=env, start_new_session=True)
            self.assertEqual([process.stdout.readline() for _ in range(3)], ["/tmp\n"] * 3)
            if ends:
                process.kill()
            process.communicate(timeout=PATIENCE)
            self.nothing_left([])

    def test_stopped_and_continued(self):
        process = self.start("-n", 2, "--set", "link_grace_s=1", "--host", "h1,h2", "sh", "-c",
                             "echo $$; sleep 5; echo end")
        self.pids_of(process, 2)
        process.send_signal(signal.SIGTSTP)
        time.sleep(4.5)  # longer than the silence that would end the job
        process.send_signal(signal.SIGCONT)
        code, out, err = self.end_of(process)
        self.assertEqual((code, out, err), (0, "end\n" * 2, ""))


if __name__ == "__main__":
    unittest.main()
