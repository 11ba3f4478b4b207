# tests/launch/test_predict.py: `pomona predict` from the command line: files, hosts that it
# measures itself, what it says of mistakes, and the plot. Needs POMONA_TEST_POMONA; ctest sets it.
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import host_world  # noqa: E402

POMONA = os.environ["POMONA_TEST_POMONA"]
NETWORK = {"hosts": [{"host": "a", "gigabits": 1}, {"host": "b", "gigabits": 1}]}


class Predict(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.network = self.keep("network.json", json.dumps(NETWORK))

    def keep(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_it(self, *words, before=(), **changes):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("POMONA_")}
        environment.update(XDG_CACHE_HOME=self.folder.name, POMONA_CONFIG="/dev/null", **changes)
        return subprocess.run([*before, POMONA, "predict", *map(str, words)], capture_output=True, text=True,
                              timeout=120, env=environment, stdin=subprocess.DEVNULL)

    def good(self, *words, **changes):
        done = self.run_it(*words, **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_sizes_on_a_described_cluster(self):
        # 100 MB, which either line carries once: 0.8 s, and a little for the messages.
        out = json.loads(self.good("--network", self.network, "--parameters", "25e6", "--compute", "300", "--json"))
        self.assertAlmostEqual(out["computing_s"], 0.3, places=6)
        self.assertTrue(0.8 <= out["communication_s"] < 0.85, out["communication_s"])
        self.assertAlmostEqual(out["hidden"], 0)  # one bucket, ready at the end
        text = self.good("--network", self.network, "--parameters", "10x2.5e6", "--compute", "300", "--cable", "10")
        for word in ("a step takes", "accumulate 4 batches", "buckets of 100 MiB", "compression Int8", "a second cable",
                     "cables of 10 Gb/s", "one host more", "one host less", "allreduce"):
            self.assertIn(word, text)
        self.assertIn("No computing time", self.good("--network", self.network, "--parameters", "25e6"))
        self.assertIn("FSDP2", self.good("--network", self.network, "--parameters", "4x1e6", "--fsdp2"))

    def test_the_files_that_jobs_choose_by_count(self):
        """As in a job: forests of these hosts before rules, rules before costs."""
        words = ("--network", self.network, "--parameters", "25e6", "--json")
        before = json.loads(self.good(*words))
        self.assertEqual(before["chosen_by"], "")
        os.mkdir(os.path.join(self.folder.name, "pomona"))
        choices = self.keep("pomona/choices", "# mine\nallreduce on level net: linear\n")
        ruled = json.loads(self.good(*words))
        self.assertEqual(ruled["collectives"][0]["algorithm"], "linear")
        self.assertEqual(ruled["chosen_by"], f"rules of {choices}")
        self.assertIn(f"Chosen by rules of {choices}.\n", self.good(*words[:-1]))
        self.assertEqual(json.loads(self.good(*words, POMONA_CHOICES="none")), before)
        self.assertEqual(json.loads(self.good(*words, POMONA_ALLREDUCE="ring"))["collectives"][0]["algorithm"][:4],
                         "ring")
        # Of other hosts nothing is used; what is out of date is told of.
        line = "allreduce 0.. segment=64K: 1 (- 0)\n"
        self.keep("pomona/forests", "network a b c\ngigabits 0-1=1\nallreduce 0..: 1 (- 0 0)\n")
        self.assertEqual(json.loads(self.good(*words)), ruled)
        forests = self.keep("pomona/forests", "network b a\ngigabits 0-1=1\n" + line)
        grown = json.loads(self.good(*words))
        self.assertEqual(grown["collectives"][0]["algorithm"].split(":")[0], "forest")
        self.assertEqual(grown["chosen_by"], f"rules of {choices}, forests of {forests}")
        self.keep("pomona/forests", "network b a\ngigabits 0-1=8\n" + line)
        done = self.run_it(*words)
        self.assertEqual(json.loads(done.stdout), ruled)
        self.assertIn("run pomona synthesize again", done.stderr)
        # A mistake is told once, with the file and the line.
        self.keep("pomona/choices", "allreduce: rnig\n")
        done = self.run_it(*words)
        self.assertEqual(json.loads(done.stdout), before)
        self.assertEqual(done.stderr.count(f"{choices} is ignored: Line 1: allreduce has no algorithm 'rnig'"), 1,
                         done.stderr)

    def test_cost_on_a_described_network(self):
        def cost(*words):
            environment = {k: v for k, v in os.environ.items() if not k.startswith("POMONA_")}
            environment.update(XDG_CACHE_HOME=self.folder.name, POMONA_CONFIG="/dev/null")
            return subprocess.run([POMONA, "cost", *words], capture_output=True, text=True, timeout=60,
                                  env=environment)
        slow = {"hosts": [{"host": name} for name in "abc"],
                "pairs": [{"hosts": ["a", "b"], "gigabits": 10}, {"hosts": ["a", "c"], "gigabits": 0.1},
                          {"hosts": ["b", "c"], "gigabits": 0.1}]}
        path = self.keep("slow.json", json.dumps(slow))
        out = json.loads(cost("allreduce", "1MiB", "--network", path, "--json").stdout)
        self.assertEqual((out["ranks"], out["bytes"]), (3, 1 << 20))
        # The line of c carries the vector in and out, 84 ms at least.
        best = min(row["us"] for row in out["algorithms"] if "us" in row)
        self.assertGreater(best, 83e3)
        predicted = json.loads(self.good("--network", path, "--parameters", 1 << 18, "--json"))
        self.assertEqual(predicted["collectives"][0]["algorithm"].split(":")[0], out["taken"])
        self.assertAlmostEqual(predicted["communication_s"], best * 1e-6, delta=0.2 * best * 1e-6)
        self.assertIn(path, cost("allreduce", "1MiB", "--network", path).stdout.splitlines()[0])
        self.assertEqual(cost("allreduce", "1MiB", "--network", "/none.json").returncode, 2)
        self.assertNotEqual(cost("allreduce", "--network", path, "-n", "4").returncode, 0)

    def test_mistakes_get_a_sentence(self):
        for words, said in (
                (("--network", self.network), "--model FILE"),
                (("--parameters", "25e6"), "--network FILE"),
                (("--parameters", "many", "--network", self.network), "25e6"),
                (("--parameters", "25e6", "--network", "/none.json"), "/none.json cannot be read: No such file"),
                (("--parameters", "25e6", "--network", "/dev/zero"), "/dev/zero has more than 64 MiB"),
                (("--model", "/dev/zero", "--network", self.network), "/dev/zero has more than 64 MiB"),
                (("--model", "/", "--network", self.network), "/ cannot be read: Is a directory"),
                (("--parameters", "25e6", "--network", self.keep("bad.json", "{")), "no JSON: line 1, column 2"),
                (("--parameters", "25e6", "--network",
                  self.keep("bad3.json", '{"hosts": [{"host": "a"}], "pairs": {"a": 1}}')), '"pairs" is a list'),
                (("--model", self.keep("bad4.json", '{"events": [{"compute_s": 1, "update": "x"}]}'), "--network",
                  self.network), "events[0] is none of"),
                (("--model", self.keep("bad2.json", "{}"), "--network", self.network), "pomona.predict.Recorder"),
                (("--parameters", "25e6", "--network", self.network, "--save-network", "/none/x"), "cannot be written")):
            done = self.run_it(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.stderr)
            self.assertTrue(done.stderr.startswith("pomona predict: "), done.stderr)

    def test_plot(self):
        picture = os.path.join(self.folder.name, "p.png")
        words = ("--network", self.network, "--compute", "20", "--plot", picture, "--python")
        without = self.keep("python", "#!/bin/sh\necho no module >&2\nexit 1\n")
        os.chmod(without, 0o755)
        # It does not read what it is told, neither a little nor more than a pipe holds.
        for many in ("4x1e6", "3000x1e6"):
            done = self.run_it(*words, without, "--parameters", many)
            self.assertEqual(done.returncode, 2)
            self.assertIn("-m pip install matplotlib", done.stderr)
        words = (*words[:2], "--parameters", "4x1e6", *words[2:])
        there = subprocess.run([sys.executable, "-c", "import matplotlib"], capture_output=True).returncode == 0
        if not there:
            self.skipTest("no matplotlib")
        self.good(*words, sys.executable)
        with open(picture, "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")

    @unittest.skipUnless(host_world.possible(), "needs root on Linux, ip and network namespaces")
    def test_hosts_are_measured(self):
        world = host_world.HostWorld(2)
        self.addCleanup(world.close)
        kept = os.path.join(self.folder.name, "measured.json")
        words = ("--host", "h1:2,h2", "--ssh", world.enter, "--parameters", "1e6", "--json")
        out = json.loads(self.good(*words, "--save-network", kept, before=world.inside("h1")))
        self.assertEqual((out["hosts"], out["ranks"]), (2, 3))
        again = json.loads(self.good("--network", kept, "--parameters", "1e6", "--json"))
        self.assertEqual(again["step_s"], out["step_s"])

    @unittest.skipUnless(host_world.possible(), "needs root on Linux, ip and network namespaces")
    def test_cables_of_measured_hosts(self):
        """Addresses tell which hosts have a cable, as they tell jobs: a chain of three."""
        world = host_world.HostWorld(3)
        self.addCleanup(world.close)
        for name, ends in (("cab1", ("h1", "h2")), ("cab2", ("h2", "h3"))):
            world.ip("-n", world.space(ends[0]), "link", "add", name, "type", "veth", "peer", "name", name,
                     "netns", world.space(ends[1]))
            for number, host in enumerate(ends):
                world.ip("-n", world.space(host), "addr", "add", f"10.4.{name[-1]}.{number + 1}/24", "dev", name)
                world.ip("-n", world.space(host), "link", "set", name, "up")
        kept = os.path.join(self.folder.name, "cables.json")
        words = ("--host", "h1,h2,h3", "--ssh", world.enter, "--parameters", "1e6", "--json", "--save-network", kept)
        for excluded, expected in (("eth0", [("h1", "h2"), ("h2", "h3")]), ("cab1,cab2", [])):
            self.good(*words, POMONA_IF_EXCLUDE=excluded)
            with open(kept) as file:
                pairs = json.load(file)["pairs"]
            self.assertEqual([tuple(pair["hosts"]) for pair in pairs if pair["cable"]], expected, pairs)


if __name__ == "__main__":
    unittest.main()
