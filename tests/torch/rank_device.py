"""The device of a rank in the tests that ranks run: TEST_DEVICE, on "cuda" one GPU for each rank
where there are several, as training has it."""

import os

import torch

DEVICE = os.environ.get("TEST_DEVICE", "cpu")


def take_gpu():
    """Makes this rank's GPU the current one; ranks share GPUs where there are fewer."""
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def take_device():
    """New tensors are on this rank's device."""
    if DEVICE == "cuda":
        take_gpu()
    torch.set_default_device(DEVICE)
