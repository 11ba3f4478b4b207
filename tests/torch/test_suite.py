"""PyTorch's own distributed tests (pytorch_suite.py) on 3 and 4 ranks, with backend "mpi".

First those that know "mpi", then those that know gloo, and of these on 8 ranks what asks for so
many. Which are skipped, and why, is kept in suite_mpi.txt and suite_gloo.txt, and checked. Over
hosts (POMONA_HOSTS) only some.
"""

import importlib.util
import os
import re
from pathlib import Path

import pytest
from conftest import HERE, launch
from rank_tests import TORCH

OVER_HOSTS = "POMONA_HOSTS" in os.environ
# Whose tests are listed: another version may have other ones.
LISTED = (2, 13)
# Of each kind of operation the test that asks for most.
SOME = """test_DistributedDataParallelCPU test_all_gather_full_group test_all_reduce_full_group_sum
    test_all_reduce_sum_async test_all_to_all_single_unequal_split_group test_ddp_logging_data_cpu
    test_DistributedDataParallelCPU_grad_is_view test_gather_group test_get_future test_isend test_reduce_group_sum
    test_scatter_group test_send_recv_any_source test_send_recv_with_tag test_static_graph_api_cpu""".split()

# Of groups with some of the ranks those that SOME has not.
GROUPS = """test_all_gather_group test_all_reduce_group_max test_all_reduce_group_min test_all_reduce_group_product
    test_all_reduce_group_sum test_barrier_full_group test_barrier_group test_broadcast_group test_reduce_group_max
    test_reduce_group_min test_reduce_group_product""".split()

needs_expecttest = pytest.mark.skipif(
    not importlib.util.find_spec("expecttest"), reason="expecttest is not installed: pip install expecttest"
)


def run(folder, names, env, ranks=3):
    for part in "barrier", "test_dir":
        (folder / part).mkdir()
    everything = {"WORLD_SIZE": str(ranks), "TEMP_DIR": str(folder), "SKIPPED": str(folder / "skipped.txt"), **env}
    outcome = launch(ranks, HERE / "pytorch_suite.py", *names, env=everything, timeout=1500)
    # Some tests of monitored_barrier let it time out: then MPI_Finalize is left out, which mpirun
    # tells.
    assert "failed: 0" in outcome.text and "Traceback" not in outcome.text, str(outcome)
    return outcome.text, [plain(line) for line in (folder / "skipped.txt").read_text().splitlines()]


def plain(line):
    """A test and why it is skipped, whatever the order of a set's words and the number of ranks."""
    line = re.sub(r"\{(.*?)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", line)
    return re.sub(r"Need at least \d+ CUDA devices", "Need more CUDA devices", line)


def kept(known_as, ranks):
    """The tests that are skipped, and why. Some lines are for a number of ranks."""
    lines = [line.split(": ", 1) for line in (HERE / f"suite_{known_as}.txt").read_text().splitlines()
             if not line.startswith("#")]
    found = [(name, re.fullmatch(r"(?:on (\d) ranks: )?(.*)", why)) for name, why in lines]
    return sorted(f"{name}: {why[2]}" for name, why in found if why[1] in (None, str(ranks)))


@needs_expecttest
@pytest.mark.skipif(not OVER_HOSTS, reason="they are among all")
@pytest.mark.parametrize("ranks, names", [(3, SOME), (4, SOME + GROUPS)])
def test_some(tmp_path, ranks, names):
    text, skipped = run(tmp_path, names, {"BACKEND": "mpi"}, ranks)
    assert not skipped and f"{len(names)} tests ran, 0 skipped" in text, text[-2000:]


@needs_expecttest
@pytest.mark.skipif(OVER_HOSTS, reason="minutes")
@pytest.mark.parametrize("known_as", ["mpi", "gloo"])
@pytest.mark.parametrize("ranks", [3, 4])
def test_all(tmp_path, ranks, known_as):
    also = {"ACTUAL": "mpi"} if known_as == "gloo" else {}
    text, skipped = run(tmp_path, [], {"BACKEND": known_as, **also}, ranks)
    assert int(re.search(r"(\d+) tests ran", text)[1]) > 80, text[-2000:]
    if TORCH == LISTED:
        assert skipped == kept(known_as, ranks)


@needs_expecttest
@pytest.mark.skipif(OVER_HOSTS, reason="minutes")
def test_those_of_eight_ranks(tmp_path):
    wanted = [line.split(":")[0] for line in kept("gloo", 4) if "small world size" in line]
    _, skipped = run(tmp_path, wanted, {"BACKEND": "gloo", "ACTUAL": "mpi"}, 8)
    if TORCH == LISTED:
        assert len(wanted) > 20 and all(line.endswith(": CUDA is not available.") for line in skipped), skipped


def test_others():
    """The modules of the wheel that hold tests are known: a newer torch may ship some that
    apply."""
    folder = Path(importlib.util.find_spec("torch").origin).parent / "testing" / "_internal" / "distributed"
    found = {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")
             if re.search(r"^\s+def test_", path.read_text(), re.MULTILINE)}
    lines = (HERE / "suite_others.txt").read_text().splitlines()
    assert found - {"distributed_test"} == {line.split(":")[0] for line in lines if not line.startswith("#")}
