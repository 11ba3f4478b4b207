# tests/launch/test_slurm.py: jobs under a real Slurm (two nodes on this machine,
# ../slurm_world.py), by mpirun and by srun alone; and other launchers that mpirun becomes, on this
# machine and over two hosts. Needs what launch_case.py needs; POMONA_TEST_PRTERUN: PRRTE's prterun.
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import slurm_world
from host_world import HostCase
from hosts_case import NEEDS_PRTERUN, PRTERUN, prterun_environment
from launch_case import MPIRUN, NEEDS_OPEN_MPI, PATIENCE, PROBE, alive, clean_environment, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
MPICC = os.path.join(os.path.dirname(MPIRUN), "mpicc")
SHOW = ("sh", "-c", "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname)")
MISSING = slurm_world.missing()


@unittest.skipIf(MISSING, MISSING)
class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = slurm_world.SlurmWorld(2)
        cls.addClassCleanup(cls.slurm.close)
        cls.program = os.path.join(cls.slurm.place, "rounds")
        subprocess.run([MPICC, "-O1", os.path.join(HERE, "rounds.c"), "-o", cls.program], check=True)

    def words(self, *words, granted=("-N2", "--ntasks-per-node=2")):
        return self.slurm.world.inside("h1", "salloc", "-Q", *granted, *map(str, words))

    def run_job(self, *words, granted=("-N2", "--ntasks-per-node=2"), **kinds):
        if "input" not in kinds:
            kinds["stdin"] = subprocess.DEVNULL
        return subprocess.run(self.words(*words, granted=granted), capture_output=True, text=True,
                              timeout=PATIENCE,
                              env=self.slurm.environment(TMPDIR=self.slurm.world.temporary), **kinds)

    def test_srun_starts_programs_unchanged(self):
        done = self.run_job("srun", "--mpi=pmix", self.program, "once")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_job("srun", "--mpi=pmix", PROBE, "info")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(4):
            self.assertRegex(done.stdout, rf"rank={rank} size=4 local={rank % 2}/2 origin=PMIx .*"
                             "all=value of 0,value of 1,value of 2,value of 3\n")

    def test_srun_without_pmix_is_refused(self):
        done = self.run_job("srun", "--mpi=none", self.program, "once")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("use srun --mpi=pmix", done.stderr)

    def test_collectives_under_srun(self):
        # Two ranks on each of the two nodes: every collective, against what a loop computes.
        programs = os.path.join(HERE, "..", "programs")
        for name in ("coll_all", "coll_property"):
            program = os.path.join(self.slurm.place, name)
            subprocess.run([MPICC, "-O1", "-I", programs, os.path.join(programs, name + ".c"), "-o", program, "-lm"],
                           check=True)
            done = self.run_job("srun", "--mpi=pmix", "sh", "-c", f"echo rank $SLURM_PROCID on $(hostname); exec {program}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual([line for line in sorted(done.stdout.splitlines()) if line.startswith("rank ")],
                             ["rank 0 on h1", "rank 1 on h1", "rank 2 on h2", "rank 3 on h2"])

    def test_codes_under_srun(self):
        # Of a rank that leaves MPI in good order, of MPI_Abort, of a signal in the midst of a
        # barrier, where without the option Slurm may leave the others waiting.
        for words, codes, options in ((("exit", 9, 2), [9], ()), (("abort", 5, 2), [5], ()),
                                      (("die", int(signal.SIGKILL), 1), [137, 143], ("--kill-on-bad-exit=1",))):
            with self.subTest(words=words):
                done = self.run_job("srun", "--mpi=pmix", *options, PROBE, *words)
                self.assertIn(done.returncode, codes, done.stderr)

    def test_a_rank_is_killed_under_srun(self):
        # The others learn of it, whether or not Slurm ends them. Their memory goes with the next
        # job.
        for options in ((), ("--kill-on-bad-exit=1",)):
            with self.subTest(options=options):
                others = set(self.slurm.world.shared_memory())
                process = subprocess.Popen(
                    self.words("srun", "--mpi=pmix", *options, self.program), stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env=self.slurm.environment(TMPDIR=self.slurm.world.temporary))
                pids = [int(process.stdout.readline()) for _ in range(4)]
                files = set(self.slurm.world.shared_memory()) - others
                os.kill(pids[2], signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertNotEqual(process.returncode, 0, err)
                self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids)), err)
                if not options:
                    self.assertIn("The process has ended", err)
                self.assertTrue(files)
                done = self.run_job("srun", "--mpi=pmix", self.program, "once")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(files & set(self.slurm.world.shared_memory()), set())

    def test_mpirun_takes_the_hosts_and_slots_granted(self):
        done = self.run_job(MPIRUN, *SHOW)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["0 0/2 h1", "1 1/2 h1", "2 0/2 h2", "3 1/2 h2"], done.stderr)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.run_job(MPIRUN, "-n", 2, "--map-by", "node", *SHOW)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 0/1 h1", "1 0/1 h2"], done.stderr)
        done = self.run_job(MPIRUN, "-n", 1, "--host", "h2", *SHOW)
        self.assertEqual(done.stdout, "0 0/1 h2\n", done.stderr)
        done = self.run_job(MPIRUN, "-bootstrap", "slurm", self.program, "once")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_spawning_and_going_on_in_an_allocation(self):
        programs = os.path.join(HERE, "..", "programs")
        program = os.path.join(self.slurm.place, "spawn_basic")
        subprocess.run([MPICC, "-I", programs, os.path.join(programs, "spawn_basic.c"), "-o", program],
                       check=True)
        done = self.run_job(MPIRUN, "-n", 3, program)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        done = self.run_job(MPIRUN, "--on-death", "continue", "sh", "-c",
                            "test $RANK = 3 && kill -9 $$; sleep 0.3; echo end of $RANK")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"end of {n}" for n in range(3)])
        self.assertIn("the job goes on without it", done.stderr)
        done = self.run_job(MPIRUN, "--timeout", 1, "sleep", 600)
        self.assertEqual(done.returncode, 124, done.stderr)

    def test_mpirun_on_a_host_that_was_not_granted(self):
        # As on a login node: all ranks run on the host granted.
        done = self.run_job(MPIRUN, *SHOW, granted=("-N1", "-w", "h2", "-n", "2"))
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 0/2 h2", "1 1/2 h2"], done.stderr)

    def test_streams_and_codes(self):
        text = "".join(f"line {i}\n" for i in range(20000))
        done = self.run_job(MPIRUN, "--stdin", "all", "--map-by", "node", "-n", 2, "cat", input=text)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(2 * text.splitlines()))
        done = self.run_job(MPIRUN, "sh", "-c", "test $RANK = 3 && exit 7; exec sleep 600")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^mpirun: rank 3 \(pid \d+, sh\) on h2 exited with code 7")

    def test_mpirun_is_killed(self):
        process = subprocess.Popen(
            self.words("sh", "-c", f"echo $$; exec {MPIRUN} sh -c 'echo $$; exec sleep 600'"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.slurm.environment(TMPDIR=self.slurm.world.temporary))
        pids = [int(process.stdout.readline()) for _ in range(5)]
        os.kill(pids[0], signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids[1:])), pids)
        process.communicate(timeout=PATIENCE)

    def test_srun_carries_the_job_on_request(self):
        done = self.run_job(MPIRUN, "--launcher", "srun", "--set", "wait_warn_s=77", "-x", "MINE=x y",
                            "sh", "-c", "echo $SLURM_PROCID $PMIX_RANK $MINE $POMONA_WAIT_WARN_S")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{n} {n} x y 77" for n in range(4)],
                         done.stderr)
        done = self.run_job(MPIRUN, "--launcher", "srun", "-n", 3, self.program, "once")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_job(MPIRUN, "--launcher", "srun", PROBE, "exit", 9, 2)
        self.assertEqual(done.returncode, 9, done.stderr)
        done = self.run_job(MPIRUN, "--launcher", "srun", "--on-death", "continue", self.program)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--on-death continue needs --launcher own", done.stderr)


class Others(unittest.TestCase):
    """Launchers that mpirun becomes, without Slurm."""

    def run_job(self, *words, **changes):
        return subprocess.run([MPIRUN, *map(str, words)], capture_output=True, text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=clean_environment(**changes))

    def test_what_is_not_installed(self):
        for name, mend in (("srun", "module"), ("prterun", "--launcher own")):
            done = self.run_job("--launcher", name, "true", PATH="/nowhere")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"there is no program {name} in PATH; .*{mend}")

    def test_an_unknown_launcher(self):
        done = self.run_job("--launcher", "prtrun", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean prterun", done.stderr)

    def test_the_variables_of_slurm_without_slurm(self):
        done = self.run_job("-n", 1, "echo", "x", PATH="/usr/bin" if not shutil.which("srun")
                            else self.without_srun(), SLURM_JOB_ID="1", SLURM_JOB_NODELIST="h[1-2]")
        self.assertEqual((done.returncode, done.stdout), (0, "x\n"))
        self.assertIn("there is no program srun here", done.stderr)

    def without_srun(self):
        place = self.enterContext(slurm_world.tempfile.TemporaryDirectory())
        os.symlink(shutil.which("echo"), os.path.join(place, "echo"))
        return place

    @NEEDS_OPEN_MPI
    def test_prterun_by_a_stand_in(self):
        # Open MPI's mpirun is another PMIx launcher whose options for numbers and variables have
        # PRRTE's names; it does not know the others.
        place = self.enterContext(slurm_world.tempfile.TemporaryDirectory())
        with open(os.path.join(place, "prterun"), "w") as file:
            file.write("#!/bin/sh\n[ \"$1\" = --allow-run-as-root ] && shift\n"
                       "[ \"$1 $2\" = '--map-by slot:OVERSUBSCRIBE' ] || exit 9\nshift 2\n"
                       "[ \"$1 $2\" = '--stdin 0' ] || exit 8\nshift 2\n"
                       "exec orterun --allow-run-as-root --oversubscribe \"$@\"\n")
        os.chmod(os.path.join(place, "prterun"), 0o755)
        done = self.run_job("--launcher", "prterun", "-n", 2, "-x", "MINE=x", "sh", "-c",
                            f"echo $MINE; exec {PROBE} info",
                            PATH=place + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("x\n"), 2)
        self.assertRegex(done.stdout, "rank=1 size=2 local=1/2 origin=PMIx .*value of 0,value of 1")

    @NEEDS_PRTERUN
    def test_prterun_starts_programs_unchanged(self):
        done = subprocess.run([PRTERUN, "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "-n", "3",
                               PROBE, "info"], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, env=clean_environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(3):
            self.assertRegex(done.stdout, f"rank={rank} size=3 local=./3 origin=PMIx "
                                          ".*value of 0,value of 1,value of 2")

    @NEEDS_PRTERUN
    def test_mpirun_becomes_prterun(self):
        path = os.path.dirname(PRTERUN) + ":" + os.environ["PATH"]
        done = self.run_job("--launcher", "prterun", "-n", 3, "-x", "MINE=x", "sh", "-c",
                            f"echo $MINE; exec {PROBE} info", PATH=path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("x\n"), 3)
        self.assertEqual(done.stdout.count("size=3"), 3, done.stdout)
        self.assertEqual(done.stdout.count("origin=PMIx"), 3, done.stdout)
        done = self.run_job("--launcher", "prterun", "-n", 2, "sh", "-c", "exit 5", PATH=path)
        self.assertEqual(done.returncode, 5)


class PrterunOverHosts(HostCase):
    """Two hosts, whose names nobody resolves: PRRTE is given their addresses, and a stand-in for
    ssh. Its servers, other than Slurm's, have what was published on other hosts only when asked."""
    hosts = 2
    names = "10.213.7.1:2,10.213.7.2:2"

    def run_job(self, *words):
        return subprocess.run(self.world.inside("h1", MPIRUN, "--launcher", "prterun", "--ssh", self.world.by_address(),
                                                "--host", self.names, *words),
                              capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=prterun_environment(self.world))

    @NEEDS_PRTERUN
    def test_a_job_over_two_hosts(self):
        program = os.path.join(self.world.home, "rounds")
        subprocess.run([MPICC, "-O1", os.path.join(HERE, "rounds.c"), "-o", program], check=True)
        done = self.run_job("-n", 4, "-x", "MINE=x", "sh", "-c", f"echo $MINE $(hostname); exec {program} once")
        self.assertEqual(done.returncode, 0, done.stderr)
        for host in ("h1", "h2"):
            self.assertEqual(done.stdout.count(f"x {host}\n"), 2, done.stdout)
        done = self.run_job("-n", 4, PROBE, "info")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(4):
            self.assertRegex(done.stdout, rf"rank={rank} size=4 local={rank % 2}/2 origin=PMIx .*"
                                          "all=value of 0,value of 1,value of 2,value of 3\n")

    @NEEDS_PRTERUN
    def test_its_end_is_the_jobs(self):
        done = self.run_job("-n", 4, "sh", "-c", "[ $(hostname) = h1 ] && exec sleep 60; exit 5")
        self.assertEqual(done.returncode, 5, done.stderr)


if __name__ == "__main__":
    unittest.main()
