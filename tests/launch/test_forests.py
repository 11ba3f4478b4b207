# tests/launch/test_forests.py: `pomona synthesize` and jobs that go by what it found, over hosts
# that are namespaces of this machine. The program (../bench/lanes.c) checks its results.
import json
import os
import re
import subprocess
import unittest

from hosts_case import Case, HERE, MPICC
from launch_case import MPIRUN, PATIENCE

POMONA = os.environ.get("POMONA_TEST_POMONA", "")
# All reach h1 at ten times the rate at which they reach each other: rings and trees by number do
# not suit.
NETWORK = {"hosts": [{"host": f"h{n}"} for n in range(1, 5)],
           "pairs": [{"hosts": [f"h{a}", f"h{b}"], "latency_us": 100,
                      "gigabits": 0.2 if a == 1 else 0.02}
                     for a in range(1, 5) for b in range(a + 1, 5)]}


@unittest.skipUnless(os.path.exists(POMONA), "needs pomona")
class Forests(Case):
    hosts = 4

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.network = os.path.join(cls.world.place, "network.json")
        with open(cls.network, "w") as file:
            json.dump(NETWORK, file)
        cls.program = os.path.join(cls.world.place, "lanes")
        subprocess.run([MPICC, os.path.join(HERE, "../bench/lanes.c"), "-o", cls.program], check=True)

    def cache(self, text=None):
        """A cache folder of the test's own, whose file of forests holds `text`."""
        folder = os.path.join(self.world.place, self.id())
        os.makedirs(os.path.join(folder, "pomona"), exist_ok=True)
        if text is not None:
            with open(os.path.join(folder, "pomona/forests"), "w") as file:
                file.write(text)
        return folder

    def synthesize(self, cache, *words):
        return subprocess.run([POMONA, "synthesize", *words, "--keep", "--network", self.network, "--links",
                               "built-in", "--tries", "100"], text=True, capture_output=True,
                              timeout=PATIENCE, env=self.environment(XDG_CACHE_HOME=cache))

    def collective(self, cache, name, size, *words, hosts="h1,h2,h3,h4", count=4):
        # The hosts' figures are not measured: estimates fit nothing that was written here.
        done = self.run_job("--host", hosts, "-n", count, "--set", "if_include=10.213.7.0/24", "--set",
                            "learn_links=no", "-x",
                            "POMONA_LOG=warn,coll=debug", *words, self.program, name, size, 1, "block",
                            env=self.environment(XDG_CACHE_HOME=cache))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def taken(self, log, name):
        return set(re.findall(rf"{name} of \d+ bytes on .*? goes by (\w+)", log))

    def test_a_job_goes_by_what_was_found(self):
        cache = self.cache()
        for name in ("allreduce", "allgather", "reduce_scatter", "bcast"):
            done = self.synthesize(cache, name, "256K")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, "times as quick; verified|not kept")
        with open(os.path.join(cache, "pomona/forests")) as file:
            text = file.read()
        self.assertEqual(text.count("network h1:1 h2:1 h3:1 h4:1\n"), 1, text)
        kept = set(re.findall("^([a-z_]+) [0-9]+[KM]?[.][.]", text, re.M))
        self.assertIn("allgather", kept)
        for name in kept - {"bcast"}:
            size = 256 << 10 if name == "allreduce" else 1 << 20
            log = self.collective(cache, name, size)
            self.assertIn("forest", self.taken(log, name), log)
        # The same, found again, stands once.
        self.synthesize(cache, "allgather", "256K")
        with open(os.path.join(cache, "pomona/forests")) as file:
            self.assertEqual(sorted(file), sorted(text.splitlines(True)))

    def test_other_hosts_and_sizes_do_not(self):
        forest = "network h1 h2 h3 h4\nallreduce 64K..1M: 3 (- 0 0 0), 1 (1 - 1 1)\n"
        cache = self.cache(forest)
        taken = self.taken(self.collective(cache, "allreduce", 256 << 10), "allreduce")
        self.assertIn("forest", taken)
        for name, size, words in (("allreduce", 4096, {}), ("allgather", 256 << 10, {}),
                                  ("allreduce", 256 << 10, {"hosts": "h1,h2,h3", "count": 3})):
            log = self.collective(cache, name, size, **words)
            self.assertNotIn("forest", self.taken(log, name), log)
        log = self.collective(cache, "allreduce", 256 << 10, "--set", "forests=none")
        self.assertNotIn("forest", self.taken(log, "allreduce"))

    def test_what_is_wrong_is_refused_with_a_sentence(self):
        head = "network h1 h2 h3 h4\n"
        for text, sentence in (
                (head + "allreduce: 1 (- 0 0)\n",
                 "Line 2: a tree names the parents of 3 ranks, but the network has 4"),
                (head + "allreduce: 1 (1 0 - 2)\n", "Line 2: rank 0 is on a ring of parents"),
                (head + "gigabits 0-1=90\nallreduce: 1 (- 0 0 0)\n",
                 "between 0 and 1 8 Gb/s are expected, and 90 were when they were made")):
            log = self.collective(self.cache(text), "allreduce", 65536, "--set", "links=net=30000:2500:1")
            self.assertIn(sentence, log)
            self.assertEqual(log.count(sentence), 1, log)
            self.assertNotIn("forest", self.taken(log, "allreduce"))

    def test_mistakes_of_the_command(self):
        cache = self.cache()
        for words, sentence in ((["alltoall"], "alltoall is not among those that are searched for"),
                                (["allreduce", "1X"], "1X is no size"),
                                (["bcast", "64K", "--root", "4"], "there are 4 ranks")):
            done = self.synthesize(cache, *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(sentence, done.stderr)
        odd = os.path.join(cache, "odd.json")
        with open(odd, "w") as file:
            file.write(json.dumps({"hosts": [{"host": "a b", "gigabits": 1}, {"host": "c", "gigabits": 1}]}))
        done = subprocess.run([POMONA, "synthesize", "allreduce", "1K", "--keep", "--network", odd], text=True,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--keep: 'a b' is not a host name", done.stderr)
        for path, why in (("/nosuch", "cannot be read: No such file"), ("/", "cannot be read: Is a directory"),
                          ("/dev/zero", "has more than 64 MiB")):
            done = subprocess.run([POMONA, "synthesize", "allreduce", "--network", path], text=True,
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{path} {why}", done.stderr)


if __name__ == "__main__":
    assert MPIRUN
    unittest.main()
