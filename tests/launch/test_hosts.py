# tests/launch/test_hosts.py: mpirun over several hosts: where ranks run, their streams, and how a job ends.
# The hosts are namespaces of this machine (../host_world.py). Needs what test_launch.py needs.
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from host_world import HostCase
from test_launch import MPIRUN, PATIENCE, alive, clean_environment, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
MPICC = os.path.join(os.path.dirname(MPIRUN), "mpicc")
DOCTOR = os.path.join(os.path.dirname(MPIRUN), "pomona")
SHOW = ("sh", "-c", "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $POMONA_JOB_NODES")


class Case(HostCase):
    def environment(self, **changes):
        return clean_environment(TMPDIR=self.world.temporary, **changes)

    def words(self, *words, ssh=None):
        return [MPIRUN, "--ssh", ssh or self.world.enter, *map(str, words)]

    def run_job(self, *words, ssh=None, env=None, **kinds):
        kinds.setdefault("stdin", subprocess.DEVNULL)
        if "input" in kinds:
            del kinds["stdin"]
        return subprocess.run(self.words(*words, ssh=ssh), capture_output=True, text=True,
                              timeout=PATIENCE, env=env or self.environment(), **kinds)

    def start(self, *words, ssh=None, **kinds):
        return subprocess.Popen(self.words(*words, ssh=ssh), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(), start_new_session=True, **kinds)

    def pids_of(self, process, count):
        return [int(process.stdout.readline()) for _ in range(count)]

    def nothing_left(self, pids):
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids)), pids)
        self.assertTrue(wait_until(lambda: not os.listdir(self.world.temporary)),
                        os.listdir(self.world.temporary))

    def end_of(self, process):
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err


class Placement(Case):
    def lines(self, *words, **kinds):
        done = self.run_job(*words, *SHOW, **kinds)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(done.stdout.splitlines())

    def test_one_on_each(self):
        self.assertEqual(self.lines("--host", "h1,h2"), ["0 0/1 h1 0x1,1x1", "1 0/1 h2 0x1,1x1"])

    def test_blocks(self):
        self.assertEqual(self.lines("-n", 4, "--host", "h1,h2"),
                         ["0 0/2 h1 0x2,1x2", "1 1/2 h1 0x2,1x2",
                          "2 0/2 h2 0x2,1x2", "3 1/2 h2 0x2,1x2"])

    def test_by_node(self):
        self.assertEqual(self.lines("-n", 3, "--map-by", "node", "--host", "h1:2,h2:2"),
                         ["0 0/2 h1 0x1,1x1,0x1", "1 0/1 h2 0x1,1x1,0x1", "2 1/2 h1 0x1,1x1,0x1"])

    def test_hostfile_and_programs(self):
        path = os.path.join(self.world.place, "hosts")
        with open(path, "w") as file:
            file.write("h1 slots=1\nh2:2 max_slots=2\nh3 slots=1\n")
        done = self.run_job("--hostfile", path, "-n", 1, *SHOW, ":", "-n", 2, *SHOW)
        self.assertEqual(sorted(line.split()[2] for line in done.stdout.splitlines()),
                         ["h1", "h2", "h2"])
        done = self.run_job("--hostfile", path, "--host", "h3", "-n", 1, "hostname")
        self.assertEqual(done.stdout, "h3\n", done.stderr)

    def test_rankfile(self):
        path = os.path.join(self.world.place, "ranks")
        with open(path, "w") as file:
            file.write("rank 0=h2 slot=0\nrank 1=h1 slot=0\n")
        self.assertEqual([line.split()[2] for line in self.lines("--rankfile", path)], ["h2", "h1"])

    def test_this_host_by_another_name(self):
        # The stand-in stays on this host; all ranks have one node then.
        plain = self.world.stand_in("stay", text="#!/bin/sh\nshift\nexec sh -c \"$*\"\n")
        self.assertEqual([line.split()[1] for line in
                          self.lines("-n", 2, "--host", "localhost,alias", ssh=plain)],
                         ["0/2", "1/2"])

    def test_what_the_ranks_see(self):
        env = self.environment(POMONA_EAGER_MAX="3K", MINE="x")
        done = self.run_job("-n", 2, "--host", "h1,h2", "-x", "MINE", "--set", "wait_warn_s=77",
                            "sh", "-c", "echo $MINE $POMONA_EAGER_MAX $POMONA_WAIT_WARN_S $PWD "
                            "$(test -e $POMONA_JOB_PARAMETERS && echo there)",
                            env=env, cwd=self.world.home)
        self.assertEqual(done.stdout, f"x 3K 77 {self.world.home} there\n" * 2, done.stderr)
        # Without such a directory there: the one in which ssh begins, as ssh does.
        lost = os.path.join(self.world.place, "here-only")
        os.mkdir(lost)
        script = self.world.stand_in("elsewhere", begin=f"mount -t tmpfs none {lost} && "
                                     f"chmod 0 {lost} && setpriv --reuid 65534 -- true; ")
        done = self.run_job("-n", 1, "--host", "h1", "pwd", cwd=lost, ssh=script)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_program_found_here_is_tried_there(self):
        # In the PATH of mpirun alone, as in a Python environment that is active.
        folder = os.path.join(self.world.place, "bin")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(shutil.which("true"), os.path.join(folder, "only-here"))
        env = self.environment(PATH=folder + ":" + os.environ["PATH"])
        other = self.world.stand_in("path", begin="PATH=/usr/sbin:/usr/bin:/sbin:/bin; ")
        self.assertEqual(self.run_job("--host", "h1", "only-here", env=env, ssh=other).returncode, 0)

    def test_too_many_for_the_slots(self):
        done = self.run_job("-n", 3, "--no-oversubscribe", "--host", "h1,h2", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 slots", done.stderr)


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
        words = " ".join(self.words("-n", 2, "--host", "h1,h2", "yes"))
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

    def test_interrupted_while_hosts_are_reached(self):
        slow = self.world.stand_in("slow", text="#!/bin/sh\nexec sleep 600\n")
        process = subprocess.Popen(self.words("-n", 2, "--host", "h1,h2", "true", ssh=slow),
                                   env=self.environment(), stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)

    def test_timeout(self):
        done = self.run_job("-n", 2, "--timeout", 1, "--host", "h1,h2", "sleep", 600)
        self.assertEqual(done.returncode, 124)
        self.assertIn("still running: rank 0, 1", done.stderr)
        self.assertRegex(done.stderr, r"rank 1 .* on h2")
        self.nothing_left([])

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
        for pid in shells:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.nothing_left(pids)

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
        for pid in shells:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

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

    def test_what_ranks_have_started_ends_too(self):
        process = self.start("-n", 2, "--host", "h1,h2", "sh", "-c",
                             "sleep 600 & echo $!; sleep 600 & echo $!; sleep 0.3")
        pids = self.pids_of(process, 4)
        self.assertEqual(self.end_of(process)[0], 0)
        self.nothing_left(pids)

    def test_what_has_left_its_group_ends_too(self):
        # A process in a session of its own, with a child; at a normal end and when mpirun is killed.
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

    def test_stopped_and_continued(self):
        process = self.start("-n", 2, "--set", "link_grace_s=1", "--host", "h1,h2", "sh", "-c",
                             "echo $$; sleep 5; echo end")
        self.pids_of(process, 2)
        process.send_signal(signal.SIGTSTP)
        time.sleep(4.5)  # longer than the silence that would end the job
        process.send_signal(signal.SIGCONT)
        code, out, err = self.end_of(process)
        self.assertEqual((code, out, err), (0, "end\n" * 2, ""))


@unittest.skipUnless(os.path.exists(DOCTOR), "needs pomona")
class Doctor(Case):
    def doctor(self, *words):
        return subprocess.run([DOCTOR, "doctor", "--ssh", self.world.enter, *words], text=True,
                              capture_output=True, timeout=PATIENCE,
                              env=self.environment(XDG_CACHE_HOME=self.world.place),
                              stdin=subprocess.DEVNULL)

    def test_two_hosts_fit(self):
        done = self.doctor("--host", "h1,h2", "--json")
        report = json.loads(done.stdout)
        self.assertEqual([host["host"] for host in report["hosts"]], ["h1", "h2"])
        self.assertTrue(all(host["reached"] for host in report["hosts"]))
        self.assertEqual([each["state"] for each in report["together"]], ["ok"], report["together"])
        self.assertEqual(report["links"]["pairs"][0]["hosts"], ["h1", "h2"])

    def test_a_host_that_is_not_there(self):
        done = self.doctor("--host", "h1,nosuch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nosuch: mpirun: host nosuch cannot be used", done.stdout)

    def test_an_address_that_two_hosts_have(self):
        for host in ("h1", "h2"):
            self.world.ip("-n", self.world.space(host), "addr", "add", "10.99.0.1/24", "dev", "eth0")
        try:
            done = self.doctor("--host", "h1,h2")
        finally:
            for host in ("h1", "h2"):
                self.world.ip("-n", self.world.space(host), "addr", "del", "10.99.0.1/24", "dev",
                              "eth0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("10.99.0.1 is one of h1 and of h2", done.stdout)


@unittest.skipUnless(os.path.exists(DOCTOR), "needs pomona")
class Links(Case):
    """pomona links: what it finds, and what it remembers."""
    hosts = 2

    def links(self, *words, **changes):
        return subprocess.run([DOCTOR, "links", "--ssh", self.world.enter, *words], text=True,
                              capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(XDG_CACHE_HOME=self.world.place, **changes))

    def test_the_matrix_and_its_memory(self):
        done = self.links("--host", "h1,h2", "--json", "--forget")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual([host["host"] for host in report["hosts"]], ["h1", "h2"])
        used = [each for each in report["hosts"][0]["interfaces"] if each["used"]]
        self.assertIn("10.213.7.1/24", [each["address"] for each in used])
        self.assertTrue(all(each["mtu"] == 1500 for each in used), used)
        (pair,) = report["pairs"]
        self.assertEqual(pair["hosts"], ["h1", "h2"])
        self.assertGreater(pair["gigabits"], 0)
        self.assertGreater(pair["latency_us"], 0)
        self.assertEqual(sum(path["first"] for path in pair["paths"]), 1, pair)
        self.assertEqual(pair["before"], [])
        # A link that gave a thousand times as much on another day.
        path = os.path.join(self.world.place, "pomona", "link-history")
        with open(path) as file:
            kept = json.loads(file.read())
        with open(path, "w") as file:
            file.write(json.dumps(dict(kept, gigabits=kept["gigabits"] * 1000, date="2020-01-01")))
        done = self.links("--host", "h1,h2")
        self.assertRegex(done.stdout, r"h1 - h2: .* us, .* Gb/s")
        self.assertRegex(done.stdout, r"gives .* Gb/s today, .* on 2020-01-01")

    def test_a_job_is_explained(self):
        done = self.run_job("-n", 2, "--explain", "--host", "h1,h2", "hostname",
                            env=self.environment(XDG_CACHE_HOME=self.world.place))
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["h1", "h2"]), done.stderr)
        self.assertRegex(done.stderr, r"h1 - h2: .* us, .* Gb/s")
        self.assertRegex(done.stderr, r"mpirun: rank 1 on h2: hostname")

    def test_interfaces_that_are_left_out(self):
        done = self.links("--host", "h1,h2", POMONA_IF_INCLUDE="10.213.7.0/24")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"fd00:7::1/64 .*not used: if_include=10.213.7.0/24")

    def test_what_gloo_and_nccl_were_told_of_networks(self):
        # A second network, which alone is wanted; mpirun hands these variables on.
        for host in ("h1", "h2"):
            self.world.ip("-n", self.world.space(host), "link", "add", "ib0", "type", "bridge")
            self.world.ip("-n", self.world.space(host), "addr", "add", "10.9.9.9/24", "dev", "ib0")
            self.world.ip("-n", self.world.space(host), "link", "set", "ib0", "up")
        try:
            for variable, value in (("GLOO_SOCKET_IFNAME", "eth0"), ("NCCL_SOCKET_IFNAME", "eth"),
                                    ("NCCL_SOCKET_IFNAME", "=eth0"), ("NCCL_SOCKET_IFNAME", "^ib")):
                done = self.links("--host", "h1,h2", "--json", **{variable: value})
                self.assertEqual(done.returncode, 0, done.stderr)
                for host in json.loads(done.stdout)["hosts"]:
                    by = {each["name"]: each for each in host["interfaces"]}
                    self.assertTrue(by["eth0"]["used"], (variable, value))
                    self.assertEqual(by["ib0"]["why_not"], f"{variable}={value}")
        finally:
            for host in ("h1", "h2"):
                self.world.ip("-n", self.world.space(host), "link", "del", "ib0")

    def test_a_host_that_is_not_there(self):
        done = self.links("--host", "h1,nosuch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("host nosuch cannot be used", done.stderr)


@unittest.skipUnless(os.path.exists(MPICC), "needs mpicc")
class Programs(Case):
    """MPI programs whose host, cable or rank goes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.join(cls.world.place, "rounds")
        subprocess.run([MPICC, "-O1", os.path.join(HERE, "rounds.c"), "-o", cls.program], check=True)

    def rounds(self, *words, options=()):
        process = self.start("-n", 3, *options, "--host", "h1,h2,h3", self.program, *words)
        return process, self.pids_of(process, 3)

    def test_a_rank_is_killed(self):
        process, pids = self.rounds()
        os.kill(pids[0], signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertRegex(err, r"^mpirun: rank \d \(pid %d, .*\) on h\d was killed by signal 9" % pids[0])
        self.nothing_left(pids)

    def test_survivors_of_a_host_go_on(self):
        process, pids = self.rounds("return", options=("--on-death", "continue"))
        for pid in self.world.shells("h2"):
            os.kill(pid, signal.SIGKILL)
        code, out, err = self.end_of(process)
        self.assertEqual(sorted(out.splitlines()),
                         ["rank 0: a process has failed", "rank 2: a process has failed"], err)
        self.assertEqual(code, 1)
        self.nothing_left(pids)

    def test_a_pair_of_hosts_meets_late(self):
        # What h1 and h3 send each other vanishes, so they meet through h2, after a while. The ranks of
        # h2 wait for them meanwhile, and ask what they wait for.
        pair = (("h1", "10.213.7.3"), ("h3", "10.213.7.1"))
        for host, other in pair:
            self.world.ip("-n", self.world.space(host), "neigh", "replace", other, "lladdr",
                          "02:00:00:00:00:99", "dev", "eth0")
        try:
            for _ in range(3):
                done = self.run_job("-n", 6, "--oversubscribe", "--host", "h1:2,h2:2,h3:2",
                                    self.program, "once",
                                    env=self.environment(POMONA_IF_INCLUDE="10.213.7.0/24"))
                self.assertEqual(done.returncode, 0, done.stderr)
        finally:
            for host, other in pair:
                self.world.ip("-n", self.world.space(host), "neigh", "del", other, "dev", "eth0")

    def test_types_that_differ_are_refused(self):
        program = os.path.join(self.world.place, "unlike")
        subprocess.run([MPICC, os.path.join(HERE, "unlike.c"), "-o", program], check=True)
        done = self.run_job("-n", 3, "--host", "h1,h2,h3", "sh", "-c",
                            "[ $RANK = 1 ] && export POMONA_FORMATS=8,53,4,signed; exec " + program)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                         (0, [f"rank {rank}: passed" for rank in range(3)]), done.stderr)

    def filtered(self, host, hook, what):
        """Packets that come to a host or leave it by eth0 are dropped or rejected until the block ends."""
        table = ["nft", f"add table inet t; add chain inet t c {{ type filter hook {hook} priority 0; }}; "
                 f"add rule inet t c {'iif' if hook == 'input' else 'oif'} eth0 {what}"]
        subprocess.run(self.world.inside(host, *table), check=True)
        stack = contextlib.ExitStack()
        stack.callback(subprocess.run, self.world.inside(host, "nft", "delete table inet t"), check=True)
        return stack

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_firewall_comes_up(self):
        # What arrives at h2 is dropped, then refused, then what it sends is lost.
        for hook, what in (("input", "drop"), ("input", "reject"), ("output", "drop")):
            with self.subTest(hook=hook, what=what):
                process, pids = self.rounds(options=("--set", "link_grace_s=1"))
                with self.filtered("h2", hook, what):
                    code, _, err = self.end_of(process)
                self.assertNotEqual(code, 0)
                self.assertRegex(err, r"ended the job with code \d+: MPI_Allreduce")
                self.nothing_left(pids)

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_firewall_from_the_start(self):
        # The ranks never meet: the job ends, and says with whom no connection could be made.
        env = self.environment(POMONA_LINK_GRACE_S="2", POMONA_CONNECT_TIMEOUT_MS="2000")
        for what in ("drop", "reject"):
            with self.subTest(what=what), self.filtered("h1", "input", what), \
                    self.filtered("h2", "input", what):
                done = self.run_job("-n", 2, "--host", "h1,h2", self.program, "once", env=env)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"on h[12].*MPI_Allreduce|MPI_Allreduce.*rank [01]")

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_one_side_lets_nobody_in(self):
        # h2 connects itself, then.
        with self.filtered("h2", "input", "tcp flags & (syn | ack) == syn drop"):
            done = self.run_job("-n", 2, "--host", "h1,h2", self.program, "once")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_mtu_that_does_not_fit(self):
        # The way to h2 drops long packets in silence, as a switch between cards set to 9000 and 1500
        # does. The job ends with the right sum or with a word, within the grace.
        way = ("-n", self.world.space("sw"), "link", "set", "p2", "mtu")
        self.world.ip(*way, "1300")
        try:
            begun = time.monotonic()
            done = self.run_job("-n", 2, "--set", "link_grace_s=3", "--host", "h1,h2", self.program,
                                "once")
            if done.returncode != 0:
                self.assertRegex(done.stderr, r"ended the job with code \d+: MPI_Allreduce")
            self.assertLess(time.monotonic() - begun, PATIENCE - 5)
        finally:
            self.world.ip(*way, "1500")

    def test_an_address_that_several_hosts_have(self):
        # As docker0: the same on each, and nobody there is reached by it.
        for host in ("h1", "h2", "h3"):
            space = self.world.space(host)
            self.world.ip("-n", space, "link", "add", "dup0", "type", "bridge")
            self.world.ip("-n", space, "addr", "add", "172.17.0.1/16", "dev", "dup0")
            self.world.ip("-n", space, "link", "set", "dup0", "up")
        try:
            done = self.run_job("-n", 3, "--host", "h1,h2,h3", self.program, "once")
            self.assertEqual(done.returncode, 0, done.stderr)
        finally:
            for host in ("h1", "h2", "h3"):
                self.world.ip("-n", self.world.space(host), "link", "del", "dup0")

    def test_a_program_asks_for_its_paths(self):
        program = os.path.join(self.world.place, "link_paths")
        subprocess.run([MPICC, "-Wall", "-Werror", os.path.join(HERE, "link_paths.c"), "-o", program],
                       check=True)
        done = self.run_job("-n", 2, "--host", "h1,h2", program)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertRegex(done.stdout, r"^connected\ntcp\tup\tfirst\twired\t\d+\t\d+\ttcp .*eth0.*\t-\n")
        done = self.run_job("-n", 2, "--host", "h1", program)
        self.assertEqual((done.returncode, done.stdout), (0, "shared memory\n"), done.stderr)

    def test_spawned_processes_ports_and_names(self):
        # Asked for on another host than the first; parents and children then talk over the network.
        programs = os.path.join(HERE, "..", "programs")
        for name in ("spawn_basic", "port_connect"):
            with self.subTest(program=name):
                program = os.path.join(self.world.place, name)
                subprocess.run([MPICC, "-I", programs, os.path.join(programs, name + ".c"), "-o", program],
                               check=True)
                done = self.run_job("-n", 3, "--host", "h1,h2,h3", program)
                self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_programs_of_other_libraries_are_refused(self):
        done = self.run_job("-n", 2, "--pmix", "on", "--host", "h1,h2", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("option --pmix=on: programs of other MPI libraries are served on this host alone",
                      done.stderr)

    def test_a_cable_is_pulled(self):
        # For shorter than the grace nothing happens; for longer the job ends and says why. (The
        # stand-in for ssh does not use the cable.)
        process, pids = self.rounds(options=("--set", "link_grace_s=2"))
        port = ("-n", self.world.space("sw"), "link", "set", "p2")
        self.world.ip(*port, "down")
        time.sleep(0.7)
        self.world.ip(*port, "up")
        time.sleep(0.7)
        self.assertIsNone(process.poll())
        self.world.ip(*port, "down")
        try:
            code, _, err = self.end_of(process)
        finally:
            self.world.ip(*port, "up")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"ended the job with code \d+: MPI_Allreduce")
        self.nothing_left(pids)


class Reaching(Case):
    """What lies between mpirun and its agents."""

    def test_what_a_login_shell_prints(self):
        noisy = self.world.stand_in("noisy", begin="echo Welcome; echo warning >&2; ")
        done = self.run_job("-n", 1, "--host", "h1", "echo", "x", ssh=noisy)
        self.assertEqual((done.returncode, done.stdout), (0, "x\n"), done.stderr)

    def test_login_shells(self):
        for shell in ("fish", "tcsh", "zsh", "bash", "dash"):
            path = shutil.which(shell)
            if not path:
                continue
            with self.subTest(shell=shell):
                text = f"#!/bin/sh\nhost=$1\nshift\nexec ip netns exec {self.world.tag}$host " \
                       f"unshare --uts {path} -c \"hostname $host; $*\"\n"
                done = self.run_job("-n", 2, "--host", "h1,h2", "hostname",
                                    ssh=self.world.stand_in("login-" + shell, text=text))
                self.assertEqual(sorted(done.stdout.split()), ["h1", "h2"], done.stderr)

    def test_failures_are_explained(self):
        for printed, code, mend in (("Host key verification failed.", 255, "ssh h1 true"),
                                    ("me@h1: Permission denied (publickey).", 255, "ssh-copy-id h1"),
                                    ("something else", 3, "ended with code 3: something else")):
            failing = self.world.stand_in("failing",
                                          text=f"#!/bin/sh\necho '{printed}' >&2\nexit {code}\n")
            done = self.run_job("-n", 1, "--host", "h1", "true", ssh=failing)
            self.assertEqual(done.returncode, 1)
            self.assertIn("host h1 cannot be used: ", done.stderr)
            self.assertIn(mend, done.stderr)

    def test_no_pomona_there(self):
        done = self.run_job("-n", 1, "--prefix", "/nowhere", "--host", "h1", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--prefix DIRECTORY", done.stderr)

    def test_a_prefix(self):
        prefix = os.path.join(self.world.place, "prefix")
        os.makedirs(os.path.join(prefix, "bin"), exist_ok=True)
        link = os.path.join(prefix, "bin", "mpirun")
        if not os.path.exists(link):
            os.symlink(MPIRUN, link)
        path = os.path.join(self.world.place, "prefixed")
        with open(path, "w") as file:
            file.write(f"h1 prefix={prefix}\nh2 prefix=/nowhere\n")
        self.assertEqual(self.run_job("--hostfile", path, "--host", "h1", "-n", 1, "hostname").stdout,
                         "h1\n")
        done = self.run_job("--hostfile", path, "-n", 2, "hostname")
        self.assertIn("host h2 cannot be used", done.stderr)

    def test_another_version(self):
        # A word of the same form with another version in it.
        other = self.world.stand_in("other", text="""#!/usr/bin/env python3
import struct, sys, time
def text(word): return struct.pack("<I", len(word)) + word
body = struct.pack("<I", 1) + text(b"0.0.9")
frame = struct.pack("<IB", len(body) + 1, 1) + body
sys.stdout.buffer.write(b"\\npomona-agent-speaks\\n" + frame)
sys.stdout.flush()
time.sleep(5)
""")
        done = self.run_job("-n", 1, "--host", "h1", "true", ssh=other)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"Pomona 0.0.9 stands there, and \d")

    def test_garbage_instead_of_an_agent(self):
        for text in ("cat /dev/urandom", "yes", "printf '\\npomona-agent-speaks\\n'; cat /dev/urandom"):
            garbage = self.world.stand_in("garbage", text=f"#!/bin/sh\n{text}\n")
            done = self.run_job("-n", 1, "--host", "h1", "true", ssh=garbage)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("host h1 cannot be used", done.stderr)

    def test_no_such_stand_in(self):
        done = self.run_job("-n", 1, "--host", "h1", "true", ssh="/nowhere/ssh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("see --ssh", done.stderr)

    def test_as_an_operator_of_kubernetes_starts_it(self):
        # Host names and the way to them come by variables for Open MPI; the first pod starts slowly;
        # no rank runs where mpirun does.
        tries = os.path.join(self.world.place, "tries")
        pods = self.world.stand_in("kubexec", text=f"""#!/bin/sh
echo x >> {tries}-$1
if [ $1 = h1 ] && [ $(wc -l < {tries}-$1) -lt 3 ]; then
    echo "ssh: Could not resolve hostname $1" >&2
    exit 255
fi
exec {self.world.enter} "$@"
""")
        path = os.path.join(self.world.place, "pods")
        with open(path, "w") as file:
            file.write("h1 slots=1\nh2 slots=1\n")
        done = subprocess.run([MPIRUN, "-n", "2", "hostname"], capture_output=True, text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(OMPI_MCA_plm_rsh_agent=pods,
                                                   OMPI_MCA_orte_default_hostfile=path,
                                                   KUBERNETES_SERVICE_HOST="10.0.0.1"))
        self.assertEqual((sorted(done.stdout.split()), done.stderr), (["h1", "h2"], ""))
        with open(tries + "-h1") as file:
            self.assertEqual(file.read(), "x\n" * 3)

    def test_it_is_named_by_a_variable(self):
        done = subprocess.run([MPIRUN, "-n", "1", "--host", "h2", "hostname"], capture_output=True,
                              env=self.environment(POMONA_SSH=self.world.enter), text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual((done.stdout, done.stderr), ("h2\n", ""))


@unittest.skipUnless(shutil.which("sshd") and shutil.which("ssh-keygen"), "needs OpenSSH's server")
class RealSsh(Case):
    """OpenSSH on h2, with keys made for the test; mpirun runs on h1."""
    hosts = 2

    def setUp(self):
        super().setUp()
        place = self.world.place
        for name in ("host_key", "user_key"):
            if not os.path.exists(os.path.join(place, name)):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                                os.path.join(place, name)], check=True)
        os.makedirs("/run/sshd", exist_ok=True)
        config = os.path.join(place, "sshd_config")
        with open(config, "w") as file:
            file.write(f"Port 2222\nHostKey {place}/host_key\nPidFile none\nStrictModes no\n"
                       f"AuthorizedKeysFile {place}/user_key.pub\nPermitRootLogin yes\n"
                       "PasswordAuthentication no\nUsePAM no\n")
        self.server = subprocess.Popen(
            self.world.inside("h2", shutil.which("sshd"), "-D", "-e", "-f", config),
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertIn("listening", self.server.stderr.readline())
        with open(os.path.join(place, "host_key.pub")) as file:
            key = file.read().split()[:2]
        with open(os.path.join(place, "known"), "w") as file:
            for name in ("[10.213.7.2]:2222", "[fd00:7::2]:2222"):
                file.write(" ".join([name, *key]) + "\n")

    def tearDown(self):
        self.server.terminate()
        self.server.wait()
        self.server.stderr.close()

    def ssh(self, known="known", key="user_key"):
        place = self.world.place
        return (f"ssh -p 2222 -i {place}/{key} -o IdentitiesOnly=yes -F none "
                f"-o UserKnownHostsFile={place}/{known}")

    def from_h1(self, *words, ssh=None):
        return self.world.inside("h1", *self.words(*words, ssh=ssh or self.ssh()))

    def run_from_h1(self, *words, ssh=None):
        return subprocess.run(self.from_h1(*words, ssh=ssh), capture_output=True, text=True,
                              timeout=PATIENCE, env=self.environment(), stdin=subprocess.DEVNULL)

    def test_ranks_on_both_ends(self):
        for host in ("10.213.7.2", "fd00:7::2", "root@10.213.7.2", "[fd00:7::2]:1"):
            done = self.run_from_h1("-n", 2, "--host", f"localhost:1,{host}", "hostname")
            self.assertEqual((sorted(done.stdout.split()), done.stderr), (["h1", "h2"], ""), host)

    def test_where_rank_0_is_reached(self):
        done = self.run_from_h1("-n", 2, "--host", "localhost,10.213.7.2", "sh", "-c",
                                "echo $MASTER_ADDR")
        self.assertEqual(done.stdout, "10.213.7.1\n" * 2, done.stderr)
        done = self.run_from_h1("-n", 2, "--host", "10.213.7.2,localhost", "sh", "-c",
                                "echo $MASTER_ADDR")
        self.assertEqual(done.stdout, "10.213.7.2\n" * 2, done.stderr)

    def test_keys_that_are_not_known(self):
        done = self.run_from_h1("-n", 1, "--host", "10.213.7.2", "true",
                                ssh=self.ssh(known="unknown"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ssh 10.213.7.2 true", done.stderr)
        done = self.run_from_h1("-n", 1, "--host", "10.213.7.2", "true",
                                ssh=self.ssh(key="host_key"))
        self.assertIn("ssh-copy-id 10.213.7.2", done.stderr)
        done = self.run_from_h1("-n", 1, "--host", "10.213.7.2", "true",
                                ssh=self.ssh().replace("2222", "2223"))
        self.assertIn("nothing listens for ssh there", done.stderr)

    def test_the_ssh_client_is_killed(self):
        process = subprocess.Popen(self.from_h1("-n", 2, "--host", "localhost,10.213.7.2",
                                                "sh", "-c", "echo $$; exec sleep 600"),
                                   stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment())
        pids = self.pids_of(process, 2)
        mpirun = process.pid  # unshare and sh have become it
        children = pathlib.Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
        clients = [int(pid) for pid in children
                   if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "ssh"]
        self.assertEqual(len(clients), 1)
        os.kill(clients[0], signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertIn("mpirun: host 10.213.7.2: the connection to it ended", err)
        self.nothing_left(pids)


if __name__ == "__main__":
    unittest.main()
