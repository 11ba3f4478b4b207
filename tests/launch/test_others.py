# tests/launch/test_others.py: processes that others than our mpirun start, and programs that know
# PMIx alone under our mpirun. Needs what launch_case.py needs.
import glob
import os
import re
import shutil
import subprocess
import unittest

from launch_case import NEEDS_OPEN_MPI, NEEDS_PMIX, PATIENCE, PROBE, clean_environment, run


class OtherLaunchers(unittest.TestCase):
    def test_alone(self):
        result = subprocess.run([PROBE, "info"], capture_output=True, text=True, timeout=PATIENCE,
                                env=clean_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rank=0 size=1 local=0/1 origin=singleton", result.stdout)

    def test_a_job_that_has_ended(self):
        env = clean_environment(POMONA_JOB_ID="gone", POMONA_JOB_RANK="0", POMONA_JOB_SIZE="1",
                                POMONA_JOB_NODES="0x1", POMONA_JOB_DIR="/tmp/pomona-gone")
        result = subprocess.run([PROBE, "info"], capture_output=True, text=True, timeout=PATIENCE, env=env)
        self.assertEqual(result.returncode, 77)
        self.assertIn("unset the POMONA_JOB_ variables", result.stderr)

    @NEEDS_OPEN_MPI
    def test_under_open_mpi(self):
        env = clean_environment(OMPI_MCA_rmaps_base_oversubscribe="1")
        result = subprocess.run(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3",
                                 PROBE, "info"], capture_output=True, text=True, timeout=PATIENCE,
                                env=env, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in range(3):
            self.assertIn(f"rank={rank} size=3 local={rank}/3 origin=PMIx", result.stdout)
        self.assertEqual(result.stdout.count("all=value of 0,value of 1,value of 2"), 3)
        directory = re.search(r"dir=(\S+)", result.stdout)[1]
        self.assertFalse(os.path.exists(directory))

    @NEEDS_OPEN_MPI
    def test_a_death_under_open_mpi_leaves_nothing(self):
        result = subprocess.run(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2",
                                 PROBE, "die", "9", "1"], capture_output=True, text=True,
                                timeout=PATIENCE, env=clean_environment(), stdin=subprocess.DEVNULL)
        self.assertNotEqual(result.returncode, 0)
        tag, directory = re.search(r"ready (\S+) (\S+)", result.stdout).groups()
        self.assertFalse(os.path.exists(directory), directory)
        for path in glob.glob(f"/dev/shm/pomona-{tag}-*"):
            os.unlink(path)  # the probe's; Open MPI cannot know of it

    @NEEDS_OPEN_MPI
    def test_under_open_mpi_started_by_a_rank_of_ours(self):
        result = run("-n", 1, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2",
                     PROBE, "info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("size=2"), 2)
        self.assertEqual(result.stdout.count("origin=PMIx"), 2)

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "MPICH is not installed")
    def test_under_hydra_it_refuses(self):
        result = subprocess.run(["mpiexec.hydra", "-n", "2", PROBE, "info"], capture_output=True,
                                text=True, timeout=PATIENCE, env=clean_environment(),
                                stdin=subprocess.DEVNULL)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("start it with Pomona's mpirun", result.stderr)


@NEEDS_PMIX
class PmixServer(unittest.TestCase):
    """Programs that only know PMIx: probes that do not see our own variables."""
    HIDDEN = ("env", "-u", "POMONA_JOB_ID", PROBE)

    def test_exchange(self):
        for count in (1, 4):
            result = run("-n", count, *self.HIDDEN, "info")
            self.assertEqual(result.returncode, 0, result.stderr)
            want = ",".join(f"value of {rank}" for rank in range(count))
            for rank in range(count):
                self.assertIn(f"rank={rank} size={count} local={rank}/{count} origin=PMIx",
                              result.stdout)
            self.assertEqual(result.stdout.count(f"all={want}\n"), count)
            directory = re.search(r"dir=(\S+)", result.stdout)[1]
            self.assertFalse(os.path.exists(os.path.dirname(directory)))

    def test_program_numbers(self):
        result = run("-n", 1, *self.HIDDEN, "info", ":", "-n", 1, *self.HIDDEN, "info")
        self.assertEqual(sorted(re.findall(r"rank=(\d).*app=(\d)", result.stdout)),
                         [("0", "0"), ("1", "1")])

    def test_threads_and_many_fences(self):
        self.assertEqual(run("-n", 3, *self.HIDDEN, "threads").returncode, 0)
        self.assertEqual(run("-n", 3, *self.HIDDEN, "fences", 50).returncode, 0)

    def nothing_left(self, result):
        names = re.findall(r"ready (\S+) ", result.stdout)
        self.assertEqual(len(names), 3, result.stdout)
        self.assertEqual(glob.glob(f"/dev/shm/pomona-{names[0]}-*"), [])

    def test_abort(self):
        result = run("-n", 3, *self.HIDDEN, "abort", 5, 1)
        self.nothing_left(result)
        self.assertEqual(result.returncode, 5)
        self.assertIn("rank 1 (pid", result.stderr)
        self.assertIn("ended the job with code 5: the test wants it", result.stderr)

    def test_exit_without_finalize_and_death(self):
        result = run("-n", 3, *self.HIDDEN, "nofinalize", 0, 2)
        self.assertEqual(result.returncode, 1)
        self.assertIn("without calling MPI_Finalize", result.stderr)
        self.nothing_left(result)
        result = run("-n", 3, *self.HIDDEN, "die", 9, 0)
        self.assertEqual(result.returncode, 137)
        self.nothing_left(result)

    def test_off_and_on(self):
        result = run("-n", 1, "--pmix", "off", "sh", "-c", "echo ${PMIX_NAMESPACE:-none}")
        self.assertEqual(result.stdout, "none\n")
        self.assertEqual(run("-n", 2, "--pmix", "on", *self.HIDDEN, "info").returncode, 0)


if __name__ == "__main__":
    unittest.main()
