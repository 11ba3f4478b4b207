#!/usr/bin/env python3
"""Tests of what choices.py makes of its times, which are made up here."""
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import choices  # noqa: E402


def made_up(statistic, prices, times):
    args = SimpleNamespace(ranks=[2], collectives=["bcast"], statistic=statistic)
    one = choices.Choices(args)
    one.explained = lambda ranks, collective, size: (prices, None)
    one.times = {(2, "bcast", 8, name): values if isinstance(values, dict) else {"same": values}
                 for name, values in times.items()}
    return one.rows()


class Rows(unittest.TestCase):
    PRICES = [("chain", 1.0), ("tree", 2.0), ("ring", 3.0)]
    TIMES = {"auto": [9, 11, 10], "chain": [30, 31, 4], "tree": [5, 100, 5], "ring": [50, 40, 60]}

    def test_the_choice_is_the_cheapest_and_its_own_runs_count_for_it(self):
        row, = made_up("p50", self.PRICES, self.TIMES)
        self.assertEqual((row["choice"], row["best"]), ("chain", "tree"))
        self.assertEqual(row["us"], {"chain": 10.5, "tree": 5, "ring": 50})  # 9 11 10 30 31 4
        self.assertEqual(row["ratio"], 2.1)
        self.assertEqual(row["model_us"], {"chain": 1.0, "tree": 2.0, "ring": 3.0})

    def test_least_times(self):
        row, = made_up("min", self.PRICES, self.TIMES)
        self.assertEqual((row["best"], row["ratio"]), ("chain", 1.0))

    def test_a_choice_has_to_do_for_both_kinds_of_data(self):
        row, = made_up("p50", self.PRICES, {"chain": {"same": [4], "fresh": [9]}, "tree": {"same": [2], "fresh": [32]},
                                            "ring": {"same": [16], "fresh": [4]}, "auto": {"same": [4]}})
        self.assertEqual(row["us"], {"chain": 6, "tree": 8, "ring": 8})
        self.assertEqual((row["best"], row["ratio"]), ("chain", 1.0))
        self.assertEqual(row["us_by_data"]["tree"], {"same": 2, "fresh": 32})

    def test_sizes_that_were_not_run_are_left_out(self):
        self.assertEqual(made_up("p50", self.PRICES, {}), [])

    def test_prices_are_read_from_the_table_of_pomona_cost(self):
        lines = ["allreduce of 8 bytes among 4 ranks, costs of links: given",
                 "       1.24 us  ring:segments=16               ring_reduce + ...",
                 "       2.00 us  linear                         a + n * b",
                 "             -  hierarchical         not here: needs levels"]
        found = [choices.ROW.match(line) for line in lines]
        self.assertEqual([row and (row[2], row[1]) for row in found],
                         [None, ("ring", "1.24"), ("linear", "2.00"), None])


class Hosts(unittest.TestCase):
    """Each rank, and the packets of each host, have a processor."""

    def placed(self, processors, ranks, hosts):
        with tempfile.TemporaryDirectory() as place:
            steered = {}
            world = SimpleNamespace(count=hosts, place=place, home=place, enter="enter", steer=steered.__setitem__,
                                    inside=lambda host, *words: list(words))
            one = choices.Choices(SimpleNamespace(bin="bin"), world)
            one.processors = processors
            words = one.on_hosts(ranks, hosts, ["mpirun"])
            lines = Path(words[words.index("--rankfile") + 1]).read_text().splitlines()
        return lines, steered, words

    def test_one_rank_on_each_host(self):
        lines, steered, words = self.placed([4, 6], 2, 2)
        self.assertEqual(lines, ["rank 0=h1 slot=4", "rank 1=h2 slot=6"])
        self.assertEqual(steered, {1: 4, 2: 6})
        self.assertEqual(words[words.index("--host") + 1], "h1:1,h2:1")

    def test_fewer_processors_than_ranks(self):
        lines, steered, words = self.placed([0, 1], 4, 2)
        self.assertEqual(lines, ["rank 0=h1 slot=0", "rank 1=h1 slot=1", "rank 2=h2 slot=0", "rank 3=h2 slot=1"])
        self.assertEqual(steered, {1: 0, 2: 0})
        self.assertEqual(words[words.index("--host") + 1], "h1:2,h2:2")

    def test_the_network_that_prices_are_asked_for(self):
        with tempfile.TemporaryDirectory() as place:
            world = SimpleNamespace(count=3, place=place, home=place)
            one = choices.Choices(SimpleNamespace(bin="bin", rate=2500), world)
            one.latencies = {6: 31.5}
            network = json.loads(Path(one.network(6)).read_text())
        self.assertEqual(network["hosts"], [{"host": name, "ranks": 2} for name in ("h1", "h2", "h3")])
        self.assertEqual([pair["hosts"] for pair in network["pairs"]], [["h1", "h2"], ["h1", "h3"], ["h2", "h3"]])
        self.assertEqual({(pair["latency_us"], pair["gigabits"]) for pair in network["pairs"]}, {(31.5, 2.5)})


if __name__ == "__main__":
    unittest.main()
