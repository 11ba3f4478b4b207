"""Sums whose bits depend on the summands alone (glue_sum=reproducible): ranks_reproducible.py, in
jobs of several sizes, by several algorithms and transports, whose digests are compared."""

import os
import re

import pytest
from conftest import BUILD, HERE, launch, launch_forks

ON = {"POMONA_GLUE_SUM": "reproducible"}
SHORT_PIECES = {"POMONA_GLUE_STAGE_BYTES": "3000"}
BY_TCP = {"POMONA_TRANSPORTS": "self,tcp"}
TRAINED = "trained weights"


def digests(outcome):
    assert outcome.code == 0, str(outcome)
    return dict(re.findall(r"^digest of (.*): (\w+)$", outcome.text, re.MULTILINE))


def of_job(ranks, env=None, *tests, begun=launch_forks):
    outcome = begun(ranks, HERE / "ranks_reproducible.py", *tests, env={**ON, **(env or {})}, timeout=500)
    assert "passed" in outcome.text and "Traceback" not in outcome.text, str(outcome)
    return digests(outcome)


@pytest.fixture(scope="module")
def usual():
    """Of four ranks, by shared memory and the library's own choice of algorithms."""
    return of_job(4)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_reproducible_with_fewer_ranks(usual, ranks):
    got = of_job(ranks)
    counts = range(1, ranks + 1)
    common = {TRAINED, *(f"{name} of {count}" for name in ("sums", "other sums") for count in counts)}
    assert common <= set(got) and {name: usual[name] for name in common} == {name: got[name] for name in common}


@pytest.mark.parametrize("env", [
    SHORT_PIECES,
    {**BY_TCP, **SHORT_PIECES},
    {"POMONA_ALLREDUCE": "ring", "POMONA_REDUCE": "chain", "POMONA_REDUCE_SCATTER": "ring"},
    {"POMONA_ALLREDUCE": "recursive_doubling", "POMONA_REDUCE": "binomial",
     "POMONA_REDUCE_SCATTER": "recursive_halving", **BY_TCP},
    {"POMONA_ALLREDUCE": "rabenseifner", "POMONA_REDUCE": "rabenseifner"},
    {"POMONA_ALLREDUCE": "double_tree:segments=4", "POMONA_REDUCE": "double_tree", **BY_TCP},
], ids=lambda env: ",".join(f"{name[7:]}={value}".lower() for name, value in env.items()))
def test_reproducible_by_each_way(usual, env):
    long = [] if SHORT_PIECES.items() <= env.items() else ["test_long"]  # not in thousands of pieces
    got = of_job(4, env, "test_bits_of_floats", *long)
    assert {f"sums of {count}" for count in range(1, 5)} <= set(got) and got.items() <= usual.items()


def test_reproducible_by_mpirun(usual):
    assert of_job(4, None, "test_long", "test_micro_batches", begun=launch).items() <= usual.items()


def test_not_reproducible_without():
    """Else the tests above would say nothing."""
    outcomes = [launch_forks(ranks, HERE / "ranks_reproducible.py", "order_matters") for ranks in (1, 3)]
    weights = [digests(outcome)["plainly " + TRAINED] for outcome in outcomes]
    assert "order matters: False" in outcomes[0].text and "order matters: True" in outcomes[1].text, str(outcomes[1])
    assert weights[0] != weights[1]


@pytest.mark.parametrize("ranks, mode", [(2, "seen"), (3, "apart")])
def test_reproducible_on_a_device(ranks, mode):
    """The device's operations as they are, where sums go as whole numbers through the host."""
    paths = [str(BUILD / "tests" / "python"), os.environ.get("PYTHONPATH", "")]
    env = {"FAKE_DEVICE": mode, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **ON}
    outcome = launch_forks(ranks, HERE / "ranks_device.py", env=env)
    assert outcome.code == 0 and "all " in outcome.text and "Traceback" not in outcome.text, str(outcome)


@pytest.mark.skipif("POMONA_MPIRUN" in os.environ, reason="Pomona's library compares it")
def test_reproducible_on_some_ranks_only(tmp_path):
    program = tmp_path / "unlike.py"
    program.write_text(
        "import os\n"
        "os.environ['POMONA_GLUE_SUM'] = ['fast', 'reproducible'][int(os.environ['PMIX_RANK'])]\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('mpi')\n")
    outcome = launch(2, program)
    assert outcome.code != 0 and "glue_sum" in outcome.text and "reproducible" in outcome.text, str(outcome)
