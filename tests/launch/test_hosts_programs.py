# tests/launch/test_hosts_programs.py: MPI programs over several hosts, whose host, cable or rank
# goes, whose types differ, or which spawn others.
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from hosts_case import Case, HERE, MPICC, command_of
from launch_case import alive, wait_until


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
        told = self.world.told(pids[0])
        os.kill(pids[0], signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertRegex(err, r"^mpirun: rank \d \(pid %d, .*\) on h\d was killed by signal 9" % told)
        self.nothing_left(pids)

    def test_the_cause_comes_first(self):
        # The rank beside it sees that it has gone and gives up before their agent tells of its end.
        for signal_, code, fate in ((signal.SIGKILL, 137, "was killed by signal 9"),
                                    (signal.SIGUSR1, 3, "exited with code 3 without calling MPI_Finalize")):
            with self.subTest(fate=fate):
                self.world.forget_shells()
                process = self.start("-n", 3, "--host", "h1:1,h2:2", self.program, "usr1")
                pids = self.pids_of(process, 3)
                agents = self.world.shells("h2")
                there = next(pid for pid in pids if self.world.host_of(pid) == "h2")
                for pid in agents:
                    os.kill(pid, signal.SIGSTOP)
                os.kill(there, signal_)
                time.sleep(0.2)
                self.wake(agents)
                end, _, err = self.end_of(process)
                self.assertEqual(end, code, err)
                self.assertRegex(err, rf"^mpirun: rank [12] \(pid \d+, .*\) on h2 {fate}")
                self.nothing_left(pids)

    def test_a_host_that_died_as_a_whole_is_swept_by_the_next_job(self):
        # Not even the watchdog lives on there, as when the power fails.
        if not self.world.own_processes:
            self.skipTest("needs hosts with processes of their own")
        process = self.start("-n", 3, "--host", "h1:1,h2:2", self.program)
        pids = self.pids_of(process, 3)
        # The watchdog first: it would clean up.
        there = sorted(self.world.processes()["h2"], key=lambda pid: command_of(pid) != "pomona-watchdog")
        self.assertEqual(command_of(there[0]), "pomona-watchdog")
        for pid in there:
            os.kill(pid, signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertIn("host h2: the connection to it ended", err)
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in there)))
        self.assertNotEqual(self.world.shared_memory(), [])
        self.assertEqual(self.run_job("-n", 2, "--host", "h1,h2", "true").returncode, 0)
        self.nothing_left(pids)

    def test_hosts_that_know_no_ipv4(self):
        for number in (1, 2, 3):
            self.world.ip("-n", self.world.space(f"h{number}"), "addr", "del", f"10.213.7.{number}/24",
                          "dev", "eth0")
        try:
            done = self.run_job("-n", 3, "--host", "h1,h2,h3", self.program, "once")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = self.run_job("-n", 3, "--host", "h1,h2,h3", "sh", "-c", "echo $MASTER_ADDR")
            self.assertEqual(done.stdout, "fd00:7::1\n" * 3, done.stderr)
        finally:
            for number in (1, 2, 3):
                self.world.ip("-n", self.world.space(f"h{number}"), "addr", "add",
                              f"10.213.7.{number}/24", "dev", "eth0")

    def test_where_rank_0_is_reached_by_interfaces_in_use(self):
        """torch's ranks meet at an address that the job uses, and that no other host has."""
        def meet(*words, **changes):
            done = self.run_job("-n", 3, "--host", "h1,h2,h3", *words, "sh", "-c", "echo $MASTER_ADDR",
                                env=self.environment(**changes))
            self.assertEqual(done.returncode, 0, done.stderr)
            (address,) = set(done.stdout.split())
            return address
        self.assertEqual(meet(), "10.213.7.1")
        self.assertEqual(meet(POMONA_IF_INCLUDE="fd00:7::/64"), "fd00:7::1")
        self.assertEqual(meet("--set", "if_exclude=10.213.7.0/24"), "fd00:7::1")
        # One that all have comes first.
        def ip(number, verb, address):
            self.world.ip("-n", self.world.space(f"h{number}"), "addr", verb, address, "dev", "eth0")
        for number in (1, 2, 3):
            ip(number, "del", f"10.213.7.{number}/24")
            ip(number, "add", "10.9.9.9/24")
            ip(number, "add", f"10.213.7.{number}/24")
            self.addCleanup(ip, number, "del", "10.9.9.9/24")
        self.assertEqual(meet(POMONA_IF_EXCLUDE="10.9.9.9"), "10.213.7.1")
        self.assertEqual(meet(), "10.213.7.1")

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
        # What h1 and h3 send each other vanishes, so they meet through h2, after a while. The ranks
        # of h2 wait for them meanwhile, and ask what they wait for.
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

    def test_who_helps_with_long_sums(self):
        # A thread, where messages come from other machines and the rank has a core for it.
        program = os.path.join(self.world.place, "long_sum")
        subprocess.run([MPICC, "-O1", "-Wall", "-Werror", os.path.join(HERE, "long_sum.c"), "-o", program],
                       check=True)
        cores = len(os.sched_getaffinity(0))
        one_host = ("--host", "h1:2", "--set", "allreduce=ring")  # by messages of half the vector
        for options, ranks, helped in ((["--host", "h1,h2"], 2, cores >= 2),
                                       (["--host", "h1,h2", "--set", "reduce_thread=none"], 2, False),
                                       ([*one_host], 2, False),
                                       ([*one_host, "--set", "reduce_thread=thread"], 2, True),
                                       (["--host", f"h1:{cores},h2:{cores}"], 2 * cores, False)):
            with self.subTest(options=options):
                done = self.run_job("-n", ranks, "--bind-to", "none", *options, program)
                word = "helper" if helped else "alone"
                self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                                 (0, sorted(f"rank {rank}: {word}" for rank in range(ranks))), done.stderr)

    OTHER = "POMONA_FORMATS=8,53,4,signed"  # an announced long double of 8 bytes

    def test_types_that_differ_are_refused(self):
        program = os.path.join(self.world.place, "unlike")
        subprocess.run([MPICC, os.path.join(HERE, "unlike.c"), "-o", program], check=True)
        # On three hosts; on one, as two processors' programs share it; there by TCP.
        for hosts, transports in (("h1,h2,h3", "self,shm,tcp"), ("h1:3", "self,shm,tcp"),
                                  ("h1:3", "self,tcp")):
            with self.subTest(hosts=hosts, transports=transports):
                done = self.run_job("-n", 3, "--host", hosts, "--set", f"transports={transports}",
                                    "sh", "-c", f"[ $RANK = 1 ] && export {self.OTHER}; exec " + program)
                self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                                 (0, [f"rank {rank}: passed" for rank in range(3)]), done.stderr)

    def test_a_host_whose_agent_announces_another_system(self):
        # All ranks of h2 have its variable from their agent, as all of that host's environment.
        program = os.path.join(self.world.place, "hosts")
        subprocess.run([MPICC, "-Wall", "-Werror", os.path.join(HERE, "unlike_hosts.c"), "-o", program], check=True)
        other = self.world.stand_in("other-system", begin="[ $host != h2 ] || export POMONA_FORMATS=8,53,4,unsigned; ")
        for transports in ("self,shm,tcp", "self,tcp"):
            with self.subTest(transports=transports):
                done = self.run_job("-n", 4, "--host", "h1:2,h2:2", "--set", f"transports={transports}", program,
                                    ssh=other)
                self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                                 (0, [f"rank {rank}: passed" for rank in range(4)]), done.stderr)
        # Without that word all types pass, so that the program finds fault.
        done = self.run_job("-n", 4, "--host", "h1:2,h2:2", program)
        self.assertNotEqual(done.returncode, 0)

    def test_spawned_processes_whose_types_differ(self):
        program, other = (os.path.join(self.world.place, name) for name in ("worlds", "other"))
        subprocess.run([MPICC, "-Wall", "-Werror", os.path.join(HERE, "unlike_worlds.c"), "-o", program],
                       check=True)
        self.world.stand_in("other", text=f"#!/bin/sh\nexport {self.OTHER}\nexec {program}\n")
        for hosts in ("h1:3", "h1,h2"):
            with self.subTest(hosts=hosts):
                done = self.run_job("-n", 1, "--host", hosts, program, other)
                self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                                 (0, ["child: passed"] * 2 + ["parent: passed"]), done.stderr)

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
                self.assertNotIn("Connections are made", err)
                self.nothing_left(pids)

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_firewall_from_the_start(self):
        # The ranks never meet: the job ends, and says with whom no connection could be made.
        env = self.environment(POMONA_LINK_GRACE_S="2", POMONA_CONNECT_TIMEOUT_MS="4000")
        for what, advice in (("drop", "A firewall may drop it"),
                             ("tcp flags & (syn | ack) == syn reject with tcp reset", "or a firewall rejects them")):
            with self.subTest(what=what), self.filtered("h1", "input", what), \
                    self.filtered("h2", "input", what):
                done = self.run_job("-n", 2, "--host", "h1,h2", self.program, "once", env=env)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"on h[12].*MPI_Allreduce|MPI_Allreduce.*rank [01]")
                self.assertIn(advice, done.stderr)

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_one_side_lets_nobody_in(self):
        # h2 connects itself, then.
        with self.filtered("h2", "input", "tcp flags & (syn | ack) == syn drop"):
            done = self.run_job("-n", 2, "--host", "h1,h2", self.program, "once")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_mtu_that_does_not_fit(self):
        # The switch drops long packets in silence, as one does between cards that are set to 9000.
        # Without segments of the system's own, which pass here whatever their length.
        def set_cards(mtu, segments):
            for host in ("h1", "h2"):
                self.world.ip("-n", self.world.space(host), "link", "set", "eth0", "mtu", mtu, "gso_max_segs", segments)
        set_cards("9000", "1")
        self.addCleanup(set_cards, "1500", "65535")
        begun = time.monotonic()
        done = self.run_job("-n", 2, "--host", "h1,h2", self.program, "once")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"Connections to rank [01] by eth0 .* are made and then carry nothing: packets "
                                      r"of more than 1200 bytes are avoided")
        self.assertLess(time.monotonic() - begun, 30)

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

    def test_a_rank_comes_when_others_have_given_up(self):
        program = os.path.join(self.world.place, "late")
        subprocess.run([MPICC, "-Wall", "-Werror", os.path.join(HERE, "late.c"), "-o", program], check=True)
        for late in (0, 2):
            with self.subTest(late=late), tempfile.TemporaryDirectory(dir=self.world.place) as folder:
                done = self.run_job("-n", 3, "--host", "h1,h2,h3", program, folder, late)
                self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
                told = re.findall(r"MPI_Init: these have not called MPI_Init within 0.5 s: ranks? ([\d, and]+) \(", done.stdout)
                self.assertEqual(len(told), 2, done.stdout)
                self.assertTrue(all(str(late) in ranks for ranks in told), told)

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

    def test_where_spawned_processes_run(self):
        program = os.path.join(self.world.place, "spawn_hosts")
        subprocess.run([MPICC, "-Wall", "-Werror", os.path.join(HERE, "spawn_hosts.c"), "-o", program], check=True)

        def spawned(hosts, *words):
            done = self.run_job("-n", 2, "--host", hosts, program, *words)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            return sorted(re.findall(r"spawned on (\w+) with (\d)", done.stdout))
        # Ranks 0 and 1 leave one slot on h1 and two on h2.
        self.assertEqual(spawned("h1:3,h2:2", 3), [("h1", "1"), ("h2", "2"), ("h2", "2")])
        # Where there are no slots left, as many on each.
        self.assertEqual(spawned("h1,h2", 4), [("h1", "2")] * 2 + [("h2", "2")] * 2)
        self.assertEqual(spawned("h1,h2,h3", 1, "h3", 2), [("h3", "1")] * 2)
        # Each world has its own place to meet, where its first rank runs.
        done = self.run_job("-n", 2, "--host", "h1,h2,h3", program, 2, "h3", 2)
        met = re.findall(r"spawned .* at (.*) port (\d+)", done.stdout)
        self.assertEqual((len(met), {address for address, _ in met}), (4, {"10.213.7.3"}), done.stderr)
        self.assertEqual(sorted(met.count(each) for each in set(met)), [2, 2], met)
        done = self.run_job("-n", 2, "--host", "h1,h2", program, 1, "h7")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('rank 0 asked for processes on host "h7", and the job\'s hosts are h1, h2', done.stderr)
        # A host may have two names in the list.
        other = self.world.stand_in("other-name", text='#!/bin/sh\ntest $1 = alias && shift && set -- h2 "$@"\n'
                                                       f'exec {self.world.enter} "$@"\n')
        done = self.run_job("-n", 2, "--host", "h1,h2,alias", program, 1, "alias", ssh=other)
        self.assertEqual(re.findall(r"spawned on (\w+)", done.stdout), ["h2"], done.stderr)

    def test_a_process_is_spawned_in_place_of_one_whose_host_is_lost(self):
        program = os.path.join(self.world.place, "respawn")
        subprocess.run([MPICC, "-Wall", "-Werror", os.path.join(HERE, "respawn.c"), "-o", program], check=True)
        for words, options, told, said in (
                ((), (), "spawned on h1", ""),
                ((), ("--no-oversubscribe",), "not spawned", "2 run on 2 slots, and --no-oversubscribe"),
                (("h2",), (), "not spawned", 'processes on host "h2", which is lost')):
            self.world.forget_shells()
            process = self.start("-n", 3, "--on-death", "continue", *options, "--host", "h1,h2,h3", program, *words)
            begun = [process.stdout.readline() for _ in range(3)]
            self.assertEqual(sorted(begun), [f"rank {rank}\n" for rank in range(3)])
            for pid in self.world.shells("h2"):
                os.kill(pid, signal.SIGKILL)
            code, out, err = self.end_of(process)
            self.assertTrue(out.startswith(told), out + err)
            self.assertIn(said, err)
            self.assertEqual(code, 1)

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

    def test_who_waits_by_a_pulled_cable_is_in_no_deadlock(self):
        # The message that goes to and fro is lost on the way: each waits for the other, until the
        # cable is back.
        process, _ = self.rounds("ping", options=("--set", "wait_warn_s=1"))
        port = ("-n", self.world.space("sw"), "link", "set", "p2")
        self.addCleanup(self.world.ip, *port, "up")
        for _ in range(2):
            self.world.ip(*port, "down")
            time.sleep(3.5)
            self.world.ip(*port, "up")
            time.sleep(1.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        _, _, err = self.end_of(process)
        self.assertIn("has waited for", err)
        self.assertNotIn("deadlock", err)


if __name__ == "__main__":
    unittest.main()
