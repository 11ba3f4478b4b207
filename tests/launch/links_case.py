# tests/launch/links_case.py: what tests of the files of `pomona tune` share: a folder for them, and
# what ranks read of them. Needs POMONA_TEST_MPIRUN and POMONA_TEST_POMONA; ctest sets them.
import os
import re
import subprocess
import tempfile
import unittest

MPIRUN = os.environ["POMONA_TEST_MPIRUN"]
POMONA = os.environ["POMONA_TEST_POMONA"]


class LinksCase(unittest.TestCase):
    patience = 180

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "pomona", "links")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("POMONA_")}
        self.environment.update(XDG_CACHE_HOME=self.folder.name, POMONA_CONFIG="/dev/null")

    def run_it(self, *words, preexec_fn=None, **changes):
        return subprocess.run([*words], capture_output=True, text=True, timeout=self.patience,
                              env={**self.environment, **changes}, stdin=subprocess.DEVNULL,
                              preexec_fn=preexec_fn)

    def machine(self):
        """This machine's name, as the doubt over a foreign file shows it."""
        done = self.run_it(POMONA, "tune", "--machine")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def keep(self, links, machine=None):
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        with open(self.file, "w") as file:
            file.write(f"pomona-links 1\nmachine {machine or self.machine()}\n"
                       f"date 2026-01-31\n{links}\n")

    def links_of_ranks(self, *options, **changes):
        """What `pomona info` says in each of two ranks: the parameter as a rank reads it."""
        done = self.run_it(MPIRUN, "-n", "2", *options, POMONA, "info", **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = done.stderr
        found = re.findall(r"^ *links = (.*)$", done.stdout, re.M)
        found = [re.sub(r",?crowd=2.00$", "", text) for text in found]  # a machine of one core
        return [text for text in found if text], done.stdout.count("parameters that differ")

    def head(self, *words, **changes):
        done = self.run_it(POMONA, "cost", "allreduce", "64K", "-n", "16", *words, **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        return lines[0], re.match(r" *[0-9.]+ us +(\w+)", lines[1])[1], done.stderr

    def rules(self, text, machine=None):
        """Keeps a file of rules."""
        path = os.path.join(os.path.dirname(self.file), "choices")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def choices_of_ranks(self, *options, **changes):
        done = self.run_it(MPIRUN, "-n", "2", *options, POMONA, "info", **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = done.stderr
        return re.findall(r"^ *choices = (.*)$", done.stdout, re.M)
