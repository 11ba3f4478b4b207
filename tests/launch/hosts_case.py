# tests/launch/hosts_case.py: what tests of mpirun over several hosts share. The hosts are
# namespaces of this machine (../host_world.py). Needs what launch_case.py needs.
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from host_world import HostCase, command_of  # noqa: F401
from launch_case import MPIRUN, PATIENCE, alive, clean_environment, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
MPICC = os.path.join(os.path.dirname(MPIRUN), "mpicc")
# PRRTE's launcher: no package of Debian has it, PyPI's wheel of Open MPI does.
PRTERUN = os.environ.get("POMONA_TEST_PRTERUN") or shutil.which("prterun")
NEEDS_PRTERUN = unittest.skipUnless(PRTERUN, "no prterun in PATH, nor named by POMONA_TEST_PRTERUN")


def prterun_environment(world):
    """Of a wheel, which was made for another folder than it is in."""
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(PRTERUN)))
    return clean_environment(TMPDIR=world.temporary, PATH=os.path.dirname(PRTERUN) + ":" + os.environ["PATH"],
                             PRTE_PREFIX=prefix, PMIX_PREFIX=prefix, PRTE_MCA_prte_if_include="eth0",
                             PMIX_MCA_ptl_tcp_if_include="eth0")


class Case(HostCase):
    patience = PATIENCE
    apart = os.environ.get("POMONA_TEST_APART") == "yes"

    def tearDown(self):
        # Here, or another test would find it and be blamed.
        self.nothing_left([])

    def environment(self, **changes):
        # These hosts are other ones in each test: what a job sees of their lines is not kept.
        return clean_environment(**{"TMPDIR": self.world.temporary, "XDG_CACHE_HOME": "/dev/null", **changes})

    def words(self, *words, ssh=None):
        return [MPIRUN, "--ssh", ssh or self.world.enter, *map(str, words)]

    def run_job(self, *words, ssh=None, env=None, **kinds):
        kinds.setdefault("stdin", subprocess.DEVNULL)
        if "input" in kinds:
            del kinds["stdin"]
        return subprocess.run(self.words(*words, ssh=ssh), capture_output=True, text=True,
                              timeout=self.patience, env=env or self.environment(), **kinds)

    def start(self, *words, ssh=None, **kinds):
        return subprocess.Popen(self.words(*words, ssh=ssh), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(), start_new_session=True, **kinds)

    def pids_of(self, process, count):
        return self.world.outside([int(process.stdout.readline()) for _ in range(count)])

    def nothing_left(self, pids):
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids)), pids)
        self.assertTrue(wait_until(lambda: not os.listdir(self.world.temporary)),
                        os.listdir(self.world.temporary))
        self.assertTrue(wait_until(lambda: not self.world.shared_memory()), self.world.shared_memory())
        if self.apart:
            self.assertTrue(wait_until(lambda: not any(self.world.processes().values())),
                            self.world.processes())
            self.assertTrue(wait_until(lambda: not self.world.entries("/tmp")), self.world.entries("/tmp"))

    def end_of(self, process):
        out, err = process.communicate(timeout=self.patience)
        return process.returncode, out, err

    def filtered(self, host, hook, what, card="eth0"):
        """Packets that come to a host or leave it by a card are dropped or rejected until the block
        ends."""
        table = ["nft", f"add table inet {hook}; add chain inet {hook} c {{ type filter hook {hook} priority 0; }}; "
                 f"add rule inet {hook} c {'iif' if hook == 'input' else 'oif'} {card} {what}"]
        subprocess.run(self.world.inside(host, *table), check=True)
        stack = contextlib.ExitStack()
        stack.callback(subprocess.run, self.world.inside(host, "nft", f"delete table inet {hook}"), check=True)
        return stack

    def stop_agent(self, host, seconds):
        """It stands still for so long."""
        shells = self.world.shells(host)
        for pid in shells:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        self.wake(shells)

    def wake(self, pids):
        """Stopped processes go on, those that are still there. nsenter stops with its child."""
        for pid in self.world.with_nsenter(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
