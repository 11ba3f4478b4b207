# tests/launch/test_parameters.py: mpirun reads the configuration file once, and all ranks have what
# stood there then, with where it stood. Ranks are `pomona params` and `pomona info`, which read
# parameters as a rank does. Needs POMONA_TEST_MPIRUN and POMONA_TEST_POMONA; ctest sets them.
import json
import os
import re
import subprocess
import tempfile
import unittest

MPIRUN = os.environ["POMONA_TEST_MPIRUN"]
POMONA = os.environ["POMONA_TEST_POMONA"]


class Parameters(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.home = self.folder.name
        self.file = os.path.join(self.home, ".config", "pomona.conf")
        os.makedirs(os.path.dirname(self.file))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("POMONA_")}
        self.environment.update(HOME=self.home, XDG_CACHE_HOME=self.home)

    def write(self, text, path=None):
        with open(path or self.file, "w") as file:
            file.write(text)

    def run_it(self, *words, **changes):
        done = subprocess.run([MPIRUN, *words], capture_output=True, text=True, timeout=60,
                              env={**self.environment, **changes}, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = done.stderr
        return done.stdout

    def values(self, name, text):
        """(value, origin) of this parameter, as each rank has it."""
        found = re.findall(rf"^{name} +\w+ = (\S+?)(?:, from (.*))?$", text, re.M)
        return [(value, origin) for value, origin in found]

    def test_a_file_that_changes_makes_no_difference(self):
        self.write("nap_us=77\n")
        script = f'echo nap_us=$RANK > {self.file}; {POMONA} params'
        self.assertEqual(self.values("nap_us", self.run_it("-n", "2", "sh", "-c", script)),
                         [("77", f"{self.file}:1")] * 2)

    def test_a_file_that_is_made_later_makes_no_difference(self):
        script = f'echo nap_us=5 > {self.file}; {POMONA} params'
        values = self.values("nap_us", self.run_it("-n", "2", "sh", "-c", script))
        self.assertEqual([origin for _, origin in values], ["", ""])
        self.assertNotIn("5", [value for value, _ in values])

    def test_origins(self):
        self.write("# comment\n\nnap_us=77\nwait_warn_s=8\n")
        text = self.run_it("-n", "1", "--set", "nap_us=78", POMONA, "params", POMONA_EAGER_MAX="9K")
        self.assertEqual(self.values("nap_us", text), [("78", "mpirun --set")])
        self.assertEqual(self.values("wait_warn_s", text), [("8", f"{self.file}:4")])
        self.assertEqual(self.values("eager_max", text), [("9216", "POMONA_EAGER_MAX")])

    def test_what_one_program_is_given_wins(self):
        self.write("nap_us=77\n")
        text = self.run_it("-n", "1", "env", "POMONA_NAP_US=1", POMONA, "params",
                           ":", "-n", "1", "-x", "POMONA_NAP_US=2", POMONA, "params",
                           ":", "-n", "1", POMONA, "params")
        self.assertEqual(sorted(self.values("nap_us", text)),
                         [("1", "POMONA_NAP_US"), ("2", "POMONA_NAP_US"), ("77", f"{self.file}:1")])

    def test_another_file_for_one_program(self):
        """By -x mpirun reads it, once; by `env` the program does."""
        self.write("nap_us=77\n")
        other = os.path.join(self.home, "other.conf")
        self.write("nap_us=78\n", other)
        script = f'echo nap_us=5 > {other}; {POMONA} params'
        text = self.run_it("-n", "1", "-x", f"POMONA_CONFIG={other}", "sh", "-c", script,
                           ":", "-n", "1", POMONA, "params")
        self.assertEqual(sorted(self.values("nap_us", text)),
                         [("77", f"{self.file}:1"), ("78", f"{other}:1")])
        text = self.run_it("-n", "1", "env", f"POMONA_CONFIG={other}", POMONA, "params")
        self.assertEqual(self.values("nap_us", text), [("5", f"{other}:1")])

    def test_a_mistake_is_told_once(self):
        self.write("nap_uss=77\n")
        self.run_it("-n", "3", POMONA, "info", POMONA_EAGER_MAXX="1")
        self.assertEqual(self.said.count("did you mean nap_us?"), 1, self.said)
        self.assertEqual(self.said.count("did you mean eager_max?"), 1, self.said)

    def test_a_file_that_cannot_be_read(self):
        for path, why in (("/dev/zero", "has more than 64 MiB"), ("/", "cannot be read: Is a directory")):
            done = subprocess.run([POMONA, "params"], capture_output=True, text=True, timeout=60,
                                  env={**self.environment, "POMONA_CONFIG": path})
            self.assertEqual((done.returncode, done.stderr.count(f"{path} {why}")), (0, 1), done.stderr)

    def test_an_algorithm_that_cannot_serve_a_call_is_told_of(self):
        bench = os.path.join(os.path.dirname(MPIRUN), "mpi-bench")
        call = ("-n", "2", "--oversubscribe", "--set", "allreduce=cables", bench, "allreduce", "-q", "-s", "8:64",
                "-t", "0.001")
        self.run_it(*call, POMONA_LOG="warn,coll=info")
        said = re.findall(r"allreduce=cables has no schedule for \d+ bytes on .*: \w+ is used", self.said)
        self.assertEqual(len(said), 1, self.said)  # once
        self.run_it(*call)
        self.assertEqual(self.said, "")

    def test_a_job_that_has_ended(self):
        self.write("nap_us=77\n")
        done = subprocess.run([POMONA, "params"], capture_output=True, text=True, timeout=60,
                              env={**self.environment, "POMONA_JOB_PARAMETERS": "/gone/parameters-0"})
        self.assertEqual(self.values("nap_us", done.stdout), [("77", f"{self.file}:1")])
        self.assertIn("/gone/parameters-0", done.stderr)


class Commands(unittest.TestCase):
    def test_no_such_command(self):
        done = subprocess.run([POMONA, "inf"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("there is no command inf, did you mean info?; commands are: info", done.stderr)
        for words, said in ((), "which command?; commands are: info"), (("--nosuch",), "--nosuch"):
            done = subprocess.run([POMONA, *words], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(said, done.stderr)

    def test_wrong_choices_are_told_of(self):
        for form in ((), ("--json",)):
            for variable, value in (("POMONA_BCAST", "nosuch"), ("POMONA_CHOICES", "bcast: nosuch")):
                done = subprocess.run([POMONA, "params", *form], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, variable: value})
                self.assertEqual(done.returncode, 0)
                self.assertRegex(done.stderr, rf"(?m)^{variable}: .*bcast has no algorithm 'nosuch'")

    def test_programs_that_asked_for_json_get_it_where_a_command_fails(self):
        for words, code, why in (("doctor --nosuch", 2, "--nosuch"), ("doctor --host a:x", 2, "'x' is not a number"),
                                 ("links --host a:x", 2, "'x' is not a number"), ("links --nosuch", 2, "--nosuch"),
                                 ("params x", 2, "not expected: x"), ("counters x", 2, "not expected: x"),
                                 ("tune --host h1", 1, "two hosts at least"), ("tune --nosuch", 2, "--nosuch"),
                                 ("predict", 2, "give the model"), ("predict --cable x", 2, "--cable"),
                                 ("cost nosuch", 2, "no collective nosuch"), ("cost -n x", 2, "x"),
                                 ("cost allreduce x", 2, "x is no size"),
                                 ("cost allreduce 8 --links x", 1, "--links x: "),
                                 ("predict --links x", 1, "--links x: "), ("top 999999", 1, "999999"),
                                 ("trace /nosuch", 1, "no trace /nosuch"), ("trace /", 1, "/: it is a folder"),
                                 ("predict --model / --network /", 2, "/ cannot be read: Is a directory"),
                                 ("queues 999999", 1, "no rank of a job"),
                                 ("inf", 2, "no command inf, did you mean info")):
            plain = subprocess.run([POMONA, *words.split()], capture_output=True, text=True, timeout=60)
            self.assertEqual((plain.returncode, plain.stdout), (code, ""), words)
            done = subprocess.run([POMONA, *words.split(), "--json"], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (code, plain.stderr), words)
            self.assertIn(why, json.loads(done.stdout)["error"], words)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_is_told_of(self):
        for words in ([POMONA, "params"], [POMONA, "params", "--json"], [POMONA, "cost", "bcast"], [POMONA, "--help"],
                      [MPIRUN, "--help"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            name = os.path.basename(words[0])
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"{name}: standard output cannot be written: No space left on device\n"), words)

    def test_tables_for_programs(self):
        def report(*words):
            done = subprocess.run([POMONA, *words, "--json"], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "POMONA_CHOICES": "allreduce: 0.. linear"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            return json.loads(done.stdout)
        self.assertIn("ring", report("counters")["shm_ring_full"])
        self.assertEqual(report("params")["links"]["variable"], "POMONA_LINKS")
        cost = report("cost", "allreduce", "64K", "-n", "4")
        self.assertEqual((cost["collective"], cost["bytes"], cost["ranks"], cost["taken"]), ("allreduce", 65536, 4, "linear"))
        first, *_, last = cost["algorithms"]
        self.assertGreater(first["us"], 0)
        self.assertIn("needs", last)


if __name__ == "__main__":
    unittest.main(verbosity=1)
