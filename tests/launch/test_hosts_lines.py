# tests/launch/test_hosts_lines.py: hosts whose lines carry 1, 10 and 40 Gb/s, alike and unlike ones
# in one job: collectives, short and long, that check all that they get, and what `pomona links`
# says of the rates, which is never more than a line carries. How much of it machines reach is no
# subject of tests: tests/bench/hosts.py. POMONA_TEST_WHOLE=yes: all numbers of hosts by all lines.
import json
import os
import subprocess
import unittest

from hosts_case import Case, HERE, MPICC
from launch_case import PATIENCE

WHOLE = os.environ.get("POMONA_TEST_WHOLE") == "yes"
POMONA = os.environ.get("POMONA_TEST_POMONA", "")
PROGRAMS = os.path.join(HERE, "..", "programs")
# A bucket that has filled up while nobody sent gives so much more of a message that is long enough
# to take a line 60 ms: 20 bytes for each Mb/s, 128 KiB at least, at either end of the cable.
ABOVE = 1.1


@unittest.skipUnless(os.path.exists(POMONA), "needs pomona")
class Lines(Case):
    hosts = 4

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("coll_property", "coll_large"):
            subprocess.run([MPICC, "-O1", "-D_GNU_SOURCE", "-I", PROGRAMS, os.path.join(PROGRAMS, name + ".c"), "-lm",
                            "-o", os.path.join(cls.world.place, name)], check=True)

    def rates(self, count):
        """Gb/s of each pair of the first hosts, by what `pomona links` says."""
        done = subprocess.run([POMONA, "links", "--ssh", self.world.enter, "--host", self.world.names(count), "--json", "--forget"],
                              text=True, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(XDG_CACHE_HOME=self.world.place))
        self.assertEqual(done.returncode, 0, done.stderr)
        pairs = {tuple(pair["hosts"]): pair["gigabits"] for pair in json.loads(done.stdout)["pairs"]}
        self.assertEqual(len(pairs), count * (count - 1) // 2)
        return pairs

    def checked(self, count):
        for name, *words in (("coll_property",), ("coll_large", "65537")):
            done = self.run_job("-n", count, "--host", self.world.names(count), "--bind-to", "none",
                                os.path.join(self.world.place, name), *words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"ok {name} checks=", done.stdout)

    def within(self, pairs, line):
        """line(host, peer): what the cables between two allow."""
        for pair, rate in pairs.items():
            self.assertGreater(rate, 0, pairs)
            self.assertLess(rate, ABOVE * line(*(int(host[1:]) for host in pair)), pairs)

    def test_lines_alike(self):
        for gigabits, counts in ((1, (4,)), (10, (2,)), (40, (4,))):
            self.world.shape(1000 * gigabits)
            for count in (2, 4) if WHOLE else counts:
                with self.subTest(gigabits=gigabits, hosts=count):
                    self.within(self.rates(count), lambda *_: gigabits)
                    self.checked(count)

    def test_unlike_lines(self):
        # Two hosts at 10 Gb/s and two at 1; the first alone at 1, which asks for all.
        for slow in ((3, 4), (1,))[:2 if WHOLE else 1]:
            self.world.shape(10_000)
            self.world.shape(1000, hosts=slow)
            with self.subTest(slow=slow):
                self.within(self.rates(4), lambda *pair: 1 if set(pair) & set(slow) else 10)
                self.checked(4)


if __name__ == "__main__":
    unittest.main()
