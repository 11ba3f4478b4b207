# tests/launch/launch_case.py: what tests of mpirun share: where it is, what it needs, and jobs of
# probes (probe.cc). Needs POMONA_TEST_MPIRUN and POMONA_TEST_PROBE; ctest sets them.
import glob
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

MPIRUN = os.environ["POMONA_TEST_MPIRUN"]
PROBE = os.environ["POMONA_TEST_PROBE"]
PYTHON = sys.executable
for number in (signal.SIGHUP, signal.SIGINT):  # ignored if the tests run under nohup or in the background
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
PMIX = os.environ.get("POMONA_TEST_PMIX") != "no"
NEEDS_PMIX = unittest.skipUnless(PMIX, "built without OpenPMIx")
# Open MPI 4's mpirun ends without one, also where it needs none.
NEEDS_OPEN_MPI = unittest.skipUnless(PMIX and shutil.which("mpirun.openmpi") and shutil.which("ssh"),
                                     "needs OpenPMIx, Open MPI and ssh")
DEADLINE = 2.0   # from a rank's death to mpirun's end
PATIENCE = 30    # for what must not hang; never waited for when all is well


def clean_environment(**changes):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("PMIX_", "PMI_", "OMPI_", "POMONA_", "SLURM_"))
           and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
    env.update(changes)
    return env


def run(*words, input=None, env=None, cwd=None):
    return subprocess.run([MPIRUN, *map(str, words)], input=input, capture_output=True, text=True,
                          timeout=PATIENCE, env=env or clean_environment(), cwd=cwd,
                          stdin=subprocess.DEVNULL if input is None else None)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends while it is read
        if os.path.isdir("/proc/self"):
            return False
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Running:
    """A job of probes that has said "ready" on all ranks."""

    def __init__(self, count, *words, options=(), **kinds):
        self.process = subprocess.Popen(
            [MPIRUN, "-n", str(count), *options, PROBE, *map(str, words)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(),
            start_new_session=True, **kinds)
        self.pids = []
        for _ in range(count):
            word, self.tag, self.directory, pid = self.process.stdout.readline().split()
            assert word == "ready"
            self.pids.append(int(pid))

    def end(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def leftovers(self):
        left = [pid for pid in self.pids if alive(pid)]
        left += glob.glob(f"/dev/shm/pomona-{self.tag}-*")
        return left + ([self.directory] if os.path.exists(self.directory) else [])
