"""PyTorch's own distributed tests (pytorch_suite.py) on 3 ranks, with backend "mpi".

Some of them here; all with POMONA_SUITE=whole (tests/slow.sh torch): first those that know "mpi",
then those that know gloo. Which are skipped, and why, is kept in suite_mpi.txt and suite_gloo.txt,
and checked.
"""

import importlib.util
import os
import re
from pathlib import Path

import pytest
from conftest import HERE, launch

WHOLE = os.environ.get("POMONA_SUITE") == "whole"
# Of each kind of operation the test that asks for most.
SOME = """test_DistributedDataParallelCPU test_all_gather_full_group test_all_reduce_full_group_sum
    test_all_reduce_sum_async test_all_to_all_single_unequal_split_group test_ddp_logging_data_cpu
    test_DistributedDataParallelCPU_grad_is_view test_gather_group test_get_future test_isend test_reduce_group_sum
    test_scatter_group test_send_recv_any_source test_send_recv_with_tag test_static_graph_api_cpu""".split()

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
    return outcome.text, (folder / "skipped.txt").read_text().splitlines()


@needs_expecttest
@pytest.mark.parametrize("ranks", [3, 4])
def test_some(tmp_path, ranks):
    text, skipped = run(tmp_path, SOME, {"BACKEND": "mpi"}, ranks)
    assert not skipped and f"{len(SOME)} tests ran, 0 skipped" in text, text[-2000:]


@needs_expecttest
@pytest.mark.skipif(not WHOLE, reason="minutes: POMONA_SUITE=whole")
@pytest.mark.parametrize("known_as", ["mpi", "gloo"])
def test_all(tmp_path, known_as):
    """What torch's version in tests/setup.sh skips is what is kept; another version may have other
    tests."""
    also = {"ACTUAL": "mpi"} if known_as == "gloo" else {}
    _, skipped = run(tmp_path, [], {"BACKEND": known_as, **also})
    kept = [line for line in (HERE / f"suite_{known_as}.txt").read_text().splitlines() if not line.startswith("#")]
    assert skipped == kept


def test_others():
    """The modules of the wheel that hold tests are known: a newer torch may ship some that
    apply."""
    folder = Path(importlib.util.find_spec("torch").origin).parent / "testing" / "_internal" / "distributed"
    found = {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")
             if re.search(r"^\s+def test_", path.read_text(), re.MULTILINE)}
    lines = (HERE / "suite_others.txt").read_text().splitlines()
    assert found - {"distributed_test"} == {line.split(":")[0] for line in lines if not line.startswith("#")}
