# tests/launch/test_tune.py: `pomona tune` measures this machine and keeps what it found. Figures
# are the machine's matter; only their shape is looked at. Most of a minute on a quiet machine goes
# to the algorithms, and several where others use it. Needs what links_case.py needs.
import json
import os
import re
import signal
import subprocess
import time
import unittest

from links_case import POMONA, LinksCase


class Tune(LinksCase):
    patience = 600

    def test_nothing_is_kept_of_a_busy_machine(self):
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                for _ in range(os.cpu_count())]
        try:
            done = self.run_it(POMONA, "tune")
        finally:
            for each in busy:
                each.kill()
                each.wait()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("Nothing was kept", done.stderr)
        self.assertIn("--force", done.stderr)
        self.assertFalse(os.path.exists(self.file))

    def test_links_alone(self):
        done = self.run_it(POMONA, "tune", "--dry-run", "--json", "--links-only")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(self.file))
        found = json.loads(done.stdout)
        measured = found["links_measured"]
        self.assertEqual([each["link"] for each in measured[:2]], ["shm", "tcp"])
        for each in measured:
            self.assertGreater(each["G_ns"], 0)
            self.assertGreater(each["L_ns"] + 2 * each["o_ns"], 0)
            self.assertEqual((each["sizes"][0]["bytes"], each["sizes"][-1]["bytes"]), (8, 16 << 20))

    def test_it_measures_fits_and_keeps(self):
        path = self.rules("scan: linear\n")
        done = self.run_it(POMONA, "tune", "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path) as file:
            kept = file.read()
        self.assertTrue(kept.startswith("scan: linear\n# measured by pomona tune, this machine"), kept)
        self.assertEqual(set(self.choices_of_ranks()), {";".join(
            "" if line[0] == "#" or line.startswith("machine ") else line
            for line in kept.splitlines()).rstrip(";")})
        self.assertEqual(self.said, "")
        links = re.search(r"^links=(.*)$", done.stdout, re.M)[1]
        self.assertEqual(self.links_of_ranks()[0], [links] * 2)
        self.assertIn("measured on this machine", self.head()[0])
        before = os.stat(self.file)
        done = self.run_it(POMONA, "tune", "--once")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(os.stat(self.file).st_ino, before.st_ino)

    def test_it_says_when_it_cannot_keep_them(self):
        done = self.run_it(POMONA, "tune", "--force", "--links-only", XDG_CACHE_HOME="/dev/null")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Cannot write the file of measured figures", done.stderr)
        self.assertIn("links=shm=", done.stdout)

    def test_what_it_started_ends_with_it(self):
        for way in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(way.name):
                tune = subprocess.Popen([POMONA, "tune", "--force", "--links-only", "--dry-run"],
                                        env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(tune.wait)
                self.addCleanup(tune.kill)
                # mpirun and both ranks, which stop here and so end for no other reason.
                self.wait_until(lambda: len(self.descendants(tune.pid, "tune --rank")) >= 3)
                for pid, command in self.descendants(tune.pid, "tune --rank").items():
                    if "mpirun" not in command:
                        os.kill(pid, signal.SIGSTOP)
                started = self.descendants(tune.pid)
                self.addCleanup(self.kill_all, started)
                tune.send_signal(way)
                tune.wait()
                self.wait_until(lambda: not self.alive(started))

    def wait_until(self, reached, seconds=60):
        end = time.monotonic() + seconds
        while not reached():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    @staticmethod
    def processes():
        """(parent, command) of each, by its number."""
        done = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,command="], capture_output=True, text=True)
        found = {}
        for line in done.stdout.splitlines():
            pid, parent, command = line.split(None, 2)
            found[int(pid)] = int(parent), command
        return found

    def descendants(self, root, words=""):
        """Those below it whose commands have these words: {number: command}."""
        all_of_them = self.processes()
        below = {root}
        for _ in all_of_them:
            more = {pid for pid, (parent, _) in all_of_them.items() if parent in below} - below
            if not more:
                break
            below |= more
        return {pid: all_of_them[pid][1] for pid in below - {root} if words in all_of_them[pid][1]}

    def alive(self, started):
        now = self.processes()
        return [pid for pid, command in started.items() if pid in now and now[pid][1] == command]

    def kill_all(self, started):
        for pid in self.alive(started):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
