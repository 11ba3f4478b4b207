"""Backend "mpi" on CUDA: what test_glue.py runs on the CPU and on stand-ins, where there is a GPU.

One GPU is enough: ranks share it; where there are several, each takes one. "peers": all_reduce by
memory that the devices read from each other, from the first byte on; "host": through host memory;
"default": as users have it.
"""

import os
import signal

import pytest
from conftest import HERE, launch
from test_glue import passed
from test_start import by_hand, variables

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
WAYS = {"default": {}, "peers": {"POMONA_GLUE_PEER_BYTES": "1"}, "host": {"POMONA_GLUE_PEER_BYTES": "0"}}
CUDA = {"TEST_DEVICE": "cuda", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


@pytest.mark.parametrize("ranks, way", [(2, "default"), (3, "peers"), (2, "host")])
def test_operations(ranks, way):
    passed(launch(ranks, HERE / "ranks_ops.py", timeout=300, env={**CUDA, **WAYS[way]}))


@pytest.mark.parametrize("ranks, env", [(2, {"PEERS": "1"}), (3, {"PEERS": "1"}), (4, {"PEERS": "1"}), (2, WAYS["host"]),
                                        (4, {"PEERS": "1", "MIXED": "1"}), (3, WAYS["default"])])
def test_streams(ranks, env):
    passed(launch(ranks, HERE / "ranks_device.py", timeout=300, env={"DEVICE": "cuda", **env}))


@pytest.mark.parametrize("way", ["default", "peers"])
def test_models(way):
    passed(launch(2, HERE / "ranks_models.py", timeout=300, env={**CUDA, **WAYS[way]}))
    passed(launch(2, HERE / "ranks_cuda.py", timeout=200, env={**CUDA, **WAYS[way]}))


@pytest.mark.parametrize("name, times", [("timeout", 1), ("timeout_of_future", 1), ("timeout_of_wait", 2), ("arguments", 2),
                                         ("abort", 1), ("abort_while_waiting", 1), ("stays_failed", 1),
                                         ("again_and_again", 2), ("leave_without_destroy", 2), ("leave_pending", 1)])
def test_errors(name, times):
    outcome = launch(2, HERE / "ranks_errors.py", name, timeout=100, env={**CUDA, **WAYS["peers"]})
    assert outcome.text.count("met:") == times, str(outcome)


@pytest.mark.parametrize("ranks", [2, 4])
def test_lengths(ranks):
    passed(launch(ranks, HERE / "ranks_device.py", "by_length", env={"DEVICE": "cuda", "PEERS": "1"}))


def test_late_rank():
    outcome = launch(3, HERE / "ranks_device.py", "late_rank", env={"DEVICE": "cuda", "PEERS": "1"}, timeout=60)
    assert outcome.text.count("met: a late rank") == 2, str(outcome)


@pytest.mark.parametrize("way", ["default", "peers"])
def test_killed(way):
    codes, text = by_hand(3, "mpi", "killed", **variables(), TEST_DEVICE="cuda", fresh=True, **WAYS[way])
    assert codes[1] == -signal.SIGKILL and text.count("met: ") == 2, (codes, text)
