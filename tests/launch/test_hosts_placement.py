# tests/launch/test_hosts_placement.py: mpirun over several hosts: where ranks run, and what they
# are told. Their streams and ends: test_hosts.py.
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest

from hosts_case import Case
from launch_case import MPIRUN, PATIENCE

SHOW = ("sh", "-c", "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $POMONA_JOB_NODES")


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

    def test_this_host_by_its_addresses(self):
        # No ssh is needed to it.
        for address in ("10.213.7.1", "[fd00:7::1]:2"):
            done = subprocess.run(self.world.inside("h1", MPIRUN, "--ssh", "false", "-n", 2, "--host", address,
                                                    "hostname"),
                                  env=self.environment(), capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "h1\n" * 2, ""))

    def test_programs_on_hosts_of_their_own(self):
        done = self.run_job("-n", 1, "--host", "h2", *SHOW, ":", "-n", 3, "--host", "h1", *SHOW)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[2] for line in sorted(done.stdout.splitlines())], ["h2", "h1", "h1", "h1"])

    def test_this_host_by_another_name(self):
        # The stand-in stays on this host; all ranks have one node then.
        plain = self.world.stand_in("stay", text="#!/bin/sh\nshift\nexec sh -c \"$*\"\n")
        self.assertEqual([line.split()[1] for line in
                          self.lines("-n", 2, "--host", "localhost,alias", ssh=plain)],
                         ["0/2", "1/2"])

    def test_a_rankfile_names_a_host_in_two_ways(self):
        path = os.path.join(self.world.place, "ranks")
        with open(path, "w") as file:
            file.write(f"rank 0=localhost slot=0\nrank 1=h2 slot=0\nrank 2={socket.gethostname()} slot=0\n")
        here, there, again = (line.split()[2] for line in self.lines("--rankfile", path))
        self.assertEqual((here, there), (again, "h2"))

    @unittest.skipUnless(shutil.which("setpriv"), "needs setpriv")
    def test_this_host_as_another_user(self):
        # The stand-in stays here, as ssh to this host would, and becomes the user that is named.
        other = self.world.stand_in("as-nobody", text="#!/bin/sh\nshift\nexec setpriv --reuid 65534 --regid 65534 "
                                                      "--clear-groups env TMPDIR=/tmp HOME=/ sh -c \"$*\"\n")
        done = self.run_job("-n", 2, "--host", "localhost,nobody@localhost", "id", "-u", ssh=other, cwd="/")
        self.assertEqual(sorted(done.stdout.split()), ["0", "65534"], done.stderr)

    def test_a_working_directory_counts_from_where_mpirun_stands(self):
        place = os.path.join(self.world.place, "stands")
        os.makedirs(os.path.join(place, "inner"))
        done = self.run_job("-n", 2, "--wdir", "inner", "--host", "localhost,h2", "pwd", cwd=place)
        self.assertEqual(done.stdout.split(), 2 * [os.path.join(place, "inner")], done.stderr)

    def test_bindings_are_told_of_all_hosts(self):
        done = self.run_job("--report-bindings", "--bind-to", "core", "-n", 2, "--host", "h1,h2", "true")
        self.assertEqual(sorted(re.findall(r"rank (\d) on (h\d): bound to ", done.stderr)),
                         [("0", "h1"), ("1", "h2")], done.stderr)

    @unittest.skipUnless(shutil.which("taskset") and os.cpu_count() > 1, "needs taskset and two processors")
    def test_processors_of_another_host(self):
        # mpirun itself has one processor here, and holds no rank; the host has two.
        wide = self.world.stand_in("wide", begin="taskset -pc 0,1 $$ > /dev/null; ")
        alone = {"preexec_fn": lambda: os.sched_setaffinity(0, [0]), "ssh": wide}
        done = self.run_job("--report-bindings", "--cpu-set", 1, "-n", 1, "--host", "h2", "true", **alone)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 0 on h2: bound to processors 1", done.stderr)
        done = self.run_job("--cpu-set", 1, "-n", 2, "--host", "h2,localhost", "true", **alone)
        self.assertEqual(done.returncode, 1)
        self.assertIn("processor 1 is not one that mpirun may use", done.stderr)

    def test_what_the_ranks_see(self):
        env = self.environment(POMONA_EAGER_MAX="3K", MINE="x")
        done = self.run_job("-n", 2, "--host", "h1,h2", "-x", "MINE", "--set", "wait_warn_s=77",
                            "sh", "-c", "echo $MINE $POMONA_EAGER_MAX $POMONA_WAIT_WARN_S $PWD "
                            "$(test -e $POMONA_JOB_PARAMETERS && echo there)",
                            env=env, cwd=self.world.home)
        self.assertEqual(done.stdout, f"x 3K 77 {self.world.home} there\n" * 2, done.stderr)
        # MPICH's words.
        env = self.environment(MINE="x", OTHER="y z")
        for words, seen in ((("-genvlist", "MINE"), "x,"), (("-genvall",), "x,y z"), ((), ",")):
            done = self.run_job("-n", 1, *words, "--host", "h1", "sh", "-c", "echo $MINE,$OTHER,$HOME", env=env,
                                ssh=self.world.stand_in("bare", begin="unset MINE OTHER; HOME=/there; "))
            self.assertEqual(done.stdout, f"{seen},/there\n", done.stderr)
        # None of them, on this host and others, but what is said; and what a login has.
        env = self.environment(MINE="x", OTHER="y z", OMP_NUM_THREADS="3", POMONA_EAGER_MAX="3K")
        for words in (("-genvnone",), ("-envnone",)):
            done = self.run_job("-n", 2, *words, "-env", "MINE", "new", "--host", "h1,localhost", "sh", "-c",
                                "echo $MINE,$OTHER,$OMP_NUM_THREADS,$POMONA_EAGER_MAX,${PATH:+path},${HOME:+home},$WORLD_SIZE",
                                env=env, ssh=self.world.stand_in("bare", begin="unset MINE OTHER OMP_NUM_THREADS POMONA_EAGER_MAX; "))
            self.assertEqual((done.stdout, done.stderr), (2 * "new,,,,path,home,2\n", ""))
        # Without such a directory there: the one in which ssh begins, as ssh does.
        lost = os.path.join(self.world.place, "here-only")
        os.mkdir(lost)
        script = self.world.stand_in("elsewhere", begin=f"mount -t tmpfs none {lost} && "
                                     f"chmod 0 {lost} && setpriv --reuid 65534 -- true; ")
        done = self.run_job("-n", 1, "--host", "h1", "pwd", cwd=lost, ssh=script)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_folder_that_a_host_has_not(self):
        place = os.path.join(self.world.place, "work")
        folder = os.path.join(place, "project")
        os.makedirs(folder)
        shutil.copy("/bin/true", os.path.join(folder, "program"))
        hides = self.world.stand_in("hides", begin=f"test -e {folder} && mount -t tmpfs none {place}; ")
        told = f"the folder {folder}, in which mpirun was started, is not there"
        for words, code, text in ((("./program",), 127, f"host h2: ./program cannot be executed: there is no such file; {told}"),
                                  (("program",), 127, f"host h2: there is no program program in PATH; {told}"),
                                  (("cat", "data.txt"), 1, f"mpirun: h2: {told}, and processes run in {self.world.home} "
                                                           "instead: copy it, or name another by --wdir\n")):
            done = self.run_job("-n", 2, "--host", "localhost,h2", *words, cwd=folder, ssh=hides)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stderr.count(text), 1, done.stderr)
        # Nothing is said where nothing fails, or where the user has said another.
        done = self.run_job("-n", 1, "--host", "h2", "pwd", cwd=folder, ssh=hides)
        self.assertEqual((done.stdout, done.stderr), (self.world.home + "\n", ""))
        done = self.run_job("-n", 1, "--wdir", "/", "--host", "h2", "false", cwd=folder, ssh=hides)
        self.assertNotIn("was started", done.stderr)

    def test_master_port_is_free_where_rank_0_runs(self):
        # There all ports from which it is chosen first are taken, and few others are given.
        taken = ("import socket, sys\n"
                 "given = '/proc/sys/net/ipv4/ip_local_port_range'\n"
                 "before = open(given).read()\n"
                 "open(given, 'w').write('61000 61100')\n"
                 "all = []\n"
                 "for port in range(20000, 30000):\n"
                 "    all.append(socket.socket())\n"
                 "    all[-1].bind(('10.213.7.2', port))\n"
                 "print('taken', flush=True)\n"
                 "sys.stdin.read()\n"
                 "open(given, 'w').write(before)\n")
        holder = subprocess.Popen(self.world.inside("h2", "sh", "-c", 'ulimit -n 11000; exec "$@"', "sh",
                                                    sys.executable, "-c", taken),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(holder.stdout.readline(), "taken\n")
            done = self.run_job("-n", 2, "--host", "h2,h1", "sh", "-c", "echo $MASTER_PORT")
        finally:
            holder.communicate()
        ports = {int(line) for line in done.stdout.split()}
        self.assertEqual((done.returncode, len(ports)), (0, 1), done.stderr)
        self.assertTrue(61000 <= min(ports) <= 61100, ports)

    def test_the_program_found_here_is_tried_there(self):
        # In the PATH of mpirun alone, as in a Python environment that is active.
        folder = os.path.join(self.world.place, "bin")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(shutil.which("true"), os.path.join(folder, "only-here"))
        env = self.environment(PATH=folder + ":" + os.environ["PATH"])
        other = self.world.stand_in("path", begin="PATH=/usr/sbin:/usr/bin:/sbin:/bin; ")
        self.assertEqual(self.run_job("--host", "h1", "only-here", env=env, ssh=other).returncode, 0)

    def test_a_mistake_while_others_prepare(self):
        # h1 makes the job's directory at this moment; tearDown looks for it.
        path = os.path.join(self.world.place, "ranks")
        with open(path, "w") as file:
            file.write("rank 0=h1 slot=0\nrank 1=localhost slot=9999\n")
        for _ in range(8):
            done = self.run_job("-n", 2, "--host", "h1,localhost", "--rankfile", path, "true")
            self.assertEqual(done.returncode, 1)
            self.assertIn("9999", done.stderr)

    def test_a_core_that_another_host_lacks(self):
        # Its agent does not know the job's numbers of its ranks, and must not make one up.
        path = os.path.join(self.world.place, "ranks")
        with open(path, "w") as file:
            file.write("rank 0=h1 slot=0\nrank 1=h2 slot=9999\n")
        done = self.run_job("--rankfile", path, "true")
        self.assertIn("host h2: the rankfile gives a rank core 9999", done.stderr)

    def test_too_many_for_the_slots(self):
        done = self.run_job("-n", 3, "--no-oversubscribe", "--host", "h1,h2", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 slots", done.stderr)


if __name__ == "__main__":
    unittest.main()
