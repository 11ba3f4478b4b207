# tests/launch/test_links.py: the costs of links on their way from the file of `pomona tune` through
# mpirun to the ranks, and which of several sources counts. No figure here was measured: the file is
# written by hand. Needs what links_case.py needs.
import os
import re
import unittest

from links_case import MPIRUN, POMONA, LinksCase

DEAR_LATENCY = "shm=9000000:9000000:0.001,tcp=9000000:9000000:0.001,copy=0.01,reduce=0.01"
DEAR_BYTES = "shm=1:1:1000,tcp=1:1:1000,copy=0.01,reduce=0.01"


class Links(LinksCase):
    def test_mpirun_hands_the_measured_ones_to_all_ranks(self):
        self.keep(DEAR_BYTES)
        self.assertEqual(self.links_of_ranks(), ([DEAR_BYTES] * 2, 2))
        self.assertEqual(self.said, "")

    def test_mpirun_says_how_many_ranks_share_a_core(self):
        ranks, alone = 2, None
        if hasattr(os, "sched_setaffinity"):
            alone = lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        else:
            ranks = 2 * os.cpu_count()
        words = [MPIRUN, "-n", str(ranks), POMONA, "info"]
        done = self.run_it(*words, preexec_fn=alone)
        self.assertEqual(done.stdout.count(" links = crowd=2.00\n"), ranks, done.stdout)
        self.keep(DEAR_BYTES)
        done = self.run_it(*words, preexec_fn=alone)
        self.assertEqual(done.stdout.count(f" links = {DEAR_BYTES},crowd=2.00\n"), ranks, done.stdout)
        # What the user says holds as it is.
        done = self.run_it(*words[:3], "--set", f"links={DEAR_BYTES}", *words[3:], preexec_fn=alone)
        self.assertEqual(done.stdout.count(f" links = {DEAR_BYTES}\n"), ranks, done.stdout)

    def test_what_an_outer_mpirun_handed_on_is_not_what_the_user_says(self):
        self.keep(DEAR_BYTES)
        inner = ["env", "XDG_CACHE_HOME=/dev/null", MPIRUN, "-n", "1", POMONA, "info"]
        done = self.run_it(MPIRUN, "-n", "1", *inner)
        self.assertEqual((done.returncode, done.stdout.count("links =")), (0, 0), done.stdout)
        done = self.run_it(MPIRUN, "-n", "1", "--set", "links=built-in", *inner)
        self.assertEqual(done.stdout.count("links = built-in"), 1, done.stdout + done.stderr)

    def test_without_a_file_there_is_nothing_to_hand_on(self):
        self.assertEqual(self.links_of_ranks(), ([], 2))
        self.assertFalse(os.path.exists(self.file))

    def test_what_the_user_says_comes_first(self):
        self.keep(DEAR_BYTES)
        self.assertEqual(self.links_of_ranks("--set", "links=built-in")[0], ["built-in"] * 2)
        self.assertEqual(self.links_of_ranks(POMONA_LINKS=DEAR_LATENCY)[0], [DEAR_LATENCY] * 2)
        config = os.path.join(self.folder.name, "config")
        with open(config, "w") as file:
            file.write("links = shm=1:2:3\n")
        self.assertEqual(self.links_of_ranks(POMONA_CONFIG=config)[0], ["shm=1:2:3"] * 2)
        self.assertEqual(self.links_of_ranks("--set", "links=")[0], [DEAR_BYTES] * 2)

    def test_the_file_of_another_machine_is_not_taken(self):
        self.keep(DEAR_BYTES, machine="Some other processor, 8 hardware threads, Linux x86_64")
        self.assertEqual(self.links_of_ranks(), ([], 2))
        self.assertIn("built-in estimates", self.head()[0])
        self.assertEqual(self.said, "")
        self.links_of_ranks("--verbose")
        self.assertIn("measured on another machine", self.said)

    def test_costs_tell_of_boards_where_ranks_have_them(self):
        def first(*words, **changes):
            done = self.run_it(POMONA, "cost", "allreduce", "8", "-n", "2", *words, **changes)
            return re.match(r" *[0-9.]+ us +(\w+)", done.stdout.splitlines()[1])[1]
        self.assertEqual(first(), "board")
        self.assertNotEqual(first(POMONA_SHM_BOARD="0"), "board")
        self.assertNotEqual(first("--machine", "tcp"), "board")

    def test_a_damaged_file_is_told_of_and_ignored(self):
        self.keep(DEAR_BYTES)
        with open(self.file, "a") as file:
            file.write("more\n")
        self.assertEqual(self.links_of_ranks(), ([], 2))
        self.assertIn(f"{self.file} is ignored", self.said)
        self.assertIn("does not parse", self.head()[2])

    def test_no_cache_folder_is_no_error(self):
        for changes in ({"XDG_CACHE_HOME": "/dev/null"}, {"XDG_CACHE_HOME": "", "HOME": ""},
                        {"XDG_CACHE_HOME": "/proc/1/nowhere"}):
            self.assertEqual(self.links_of_ranks(**changes), ([], 2))
            self.assertEqual(self.said, "")

    def test_malformed_costs_are_told_of_and_ignored(self):
        head, _, said = self.head(POMONA_LINKS="shm=1:2")
        self.assertIn("built-in estimates", head)
        self.assertIn("shm takes L:o:G", said)
        # Who names them there and then wants these, and no others.
        done = self.run_it(POMONA, "cost", "allreduce", "64K", "--links", "shm=1:2")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("shm takes L:o:G", done.stderr)

    def test_cost_says_whose_costs_it_reckons_with(self):
        self.assertIn("costs of links: built-in estimates", self.head()[0])
        self.keep(DEAR_LATENCY)
        head, by_latency, _ = self.head()
        self.assertIn("measured on this machine on 2026-01-31", head)
        head, by_bytes, _ = self.head("--links", DEAR_BYTES)
        self.assertIn("costs of links: given", head)
        self.assertNotEqual(by_latency, by_bytes)
        self.assertEqual(self.head(POMONA_LINKS=DEAR_BYTES)[1], by_bytes)

    def test_mpirun_hands_the_rules_to_all_ranks(self):
        self.rules("# mine\nallreduce: 0..4K board # small\nmachine somewhere else\nbcast: chain\n")
        self.assertEqual(self.choices_of_ranks(), [";allreduce: 0..4K board"] * 2)
        self.assertEqual(self.said, "")
        # What the user says comes first; an inner mpirun reads its own file.
        self.assertEqual(self.choices_of_ranks("--set", "choices=none"), ["none"] * 2)
        inner = ["env", "XDG_CACHE_HOME=/dev/null", MPIRUN, "-n", "1", POMONA, "info"]
        done = self.run_it(MPIRUN, "-n", "1", *inner)
        self.assertEqual((done.returncode, done.stdout.count("choices =")), (0, 0), done.stdout)

    def test_rules_are_explained_and_mistakes_told_with_their_line(self):
        path = self.rules("\nallreduce on level host: 64K.. linear\n")
        cost = [POMONA, "cost", "allreduce", "64K", "-n", "4"]
        self.assertIn(f"line 2 of {path} counts: allreduce on level host: 64K.. linear\n"
                      "  linear is taken", self.run_it(*cost).stdout)
        self.assertNotIn("counts", self.run_it(*cost, "--machine", "tcp").stdout)
        self.assertIn("POMONA_CHOICES counts",
                      self.run_it(*cost, POMONA_CHOICES="allreduce: tree").stdout)
        self.rules("# mine\n\nallreduce: 0..4K bord\n")
        self.assertIn("Line 3: allreduce has no algorithm 'bord' (did you mean board?)",
                      self.run_it(*cost).stderr)
        self.rules("allreduce: board; bcast: board\n")
        self.assertEqual(self.choices_of_ranks(), [])
        self.assertIn("is ignored: A line has characters that belong to no rule", self.said)


if __name__ == "__main__":
    unittest.main()
