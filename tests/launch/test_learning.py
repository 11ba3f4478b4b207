# tests/launch/test_learning.py: what jobs see of the lines between their hosts, and what later jobs
# reckon with then. The hosts are namespaces of this machine, whose lines are shaped. Needs what
# test_hosts.py needs, and POMONA_TEST_POMONA.
import json
import os
import re
import subprocess
import unittest

from hosts_case import Case, HERE, MPICC
from host_world import shape_line
from launch_case import PATIENCE

POMONA = os.environ.get("POMONA_TEST_POMONA", "")


@unittest.skipUnless(os.path.exists(POMONA), "needs pomona")
class Learning(Case):
    hosts = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.join(cls.world.place, "line_load")
        subprocess.run([MPICC, os.path.join(HERE, "line_load.c"), "-o", cls.program], check=True)

    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.world.place, self.id())
        self.history = os.path.join(self.cache, "pomona", "link-history")
        self.kinds = {"env": self.environment(XDG_CACHE_HOME=self.cache)}

    def shape(self, megabits):
        for host in ("h1", "h2"):
            shape_line(self.world.space(host), "eth0", megabits, 20_000)

    def load(self, mebibytes, *words, ranks=2, code=0, hosts="h1,h2"):
        """A job that moves so much from each rank of h1; what mpirun says."""
        done = self.run_job("--host", hosts, "-n", ranks, "--set", "if_include=10.213.7.0/24", *words,
                            self.program, mebibytes, code, **self.kinds)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def handed(self):
        """What the next job's ranks have as costs between the hosts, in Gb/s; None: an estimate."""
        done = self.run_job("--host", "h1,h2", "-n", 2, POMONA, "info", **self.kinds)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.findall(r" links = .*?net=([0-9.]+):([0-9.]+):([0-9.]+)", done.stdout)
        self.assertIn(len(found), (0, 2), done.stdout)
        self.assertEqual(len(set(found)), min(len(found), 1))
        return 8 / float(found[0][2]) if found else None

    def kept(self):
        if not os.path.exists(self.history):
            return []
        with open(self.history) as file:
            return file.read().splitlines()

    def close(self, rate, expected):
        self.assertIsNotNone(rate, self.kept())
        self.assertLess(abs(rate / expected - 1), 0.25, self.kept())

    def test_a_job_tells_the_next_one_and_two_mend_what_has_become_wrong(self):
        self.shape(100)
        self.assertIsNone(self.handed())
        # Nothing is kept that is not wanted, or of jobs that fail or send little.
        self.load(16, "--set", "learn_links=no")
        self.load(16, code=3)
        self.load(1)
        self.assertEqual(self.kept(), [])
        said = self.load(16)
        self.assertNotIn("line between", said)
        (line,) = self.kept()
        self.assertRegex(line, r"^v2 h1 h2 \d{4}-\d\d-\d\d [0-9.]+ [0-9.]+ job \d+ tcp ")
        latency = float(line.split()[4])
        self.assertGreater(latency, 1)
        self.assertLess(latency, 20_000)
        self.close(self.handed(), 0.095)
        # About the same again changes nothing.
        self.load(16)
        self.assertEqual(self.kept(), [line])
        # A slower line: believed when a second job has seen it, too.
        self.shape(25)
        said = self.load(16)
        self.assertNotIn("line between", said)
        self.close(self.handed(), 0.095)
        self.assertEqual([each.split()[6] for each in self.kept()], ["job", "doubt"])
        self.load(16, "--set", "learn_links=no")
        self.close(self.handed(), 0.095)
        said = self.load(16)
        self.assertRegex(said, r"mpirun: the line between h1 and h2 carried 0\.02\d Gb/s, 0\.(09|1)\d* were expected; "
                               "later jobs reckon with that")
        self.close(self.handed(), 0.0238)
        # A quicker one at once.
        self.shape(400)
        said = self.load(64)
        self.assertRegex(said, r"carried 0\.\d+ Gb/s, 0\.02\d were expected")
        self.close(self.handed(), 0.38)
        report = self.links()
        self.assertEqual([each["source"] for each in report["pairs"][0]["before"]], ["job"] * 3)
        self.assertRegex(report["pairs"][0]["jobs"], r"^0\.\d+ Gb/s in a job on ")
        # What measures keeps its own figures, and no job's.
        self.assertEqual([each.split()[0] for each in self.kept()], ["v2"] * 3 + ["v1"])

    def links(self):
        done = subprocess.run([POMONA, "links", "--ssh", self.world.enter, "--host", "h1,h2", "--json"],
                              text=True, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              **self.kinds)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_ranks_of_one_host_share_its_line(self):
        self.shape(100)
        processors = os.cpu_count() or 1
        if processors < 2:
            self.skipTest("two ranks of a host would share the only processor")
        self.load(16, ranks=4, hosts="h1:2,h2:2")
        self.close(self.handed(), 0.095)

    def test_crowded_hosts_tell_nothing(self):
        self.shape(400)
        many = 2 * (os.cpu_count() or 1)
        self.load(16, ranks=2 * many, hosts=f"h1:{many},h2:{many}")
        self.assertEqual(self.kept(), [])

    def test_a_folder_that_cannot_be_written_is_no_error(self):
        self.shape(400)
        self.kinds = {"env": self.environment(XDG_CACHE_HOME="/dev/null")}
        self.assertEqual(self.load(16), "")


if __name__ == "__main__":
    unittest.main()
