"""What fake_device.cc offers, on CUDA: ranks_device.py runs with it where DEVICE=cuda.

A device is late by a kernel that spins; a gate is such a kernel, and opens by itself.
"""

import torch

apart = True
name = "cuda"
LATE = 200_000  # clock cycles, about 0.1 ms
GATE = 600_000_000
streams = {0: torch.cuda.default_stream()}
current = 0


def to(tensor):
    return tensor.cuda()


def values(tensor):
    return tensor.cpu()


def add_later(tensor, number):
    torch.cuda._sleep(LATE)
    tensor.add_(number)


def set_stream(number):
    global current
    before, current = current, number
    if number not in streams:
        streams[number] = torch.cuda.Stream()
    streams[number].wait_stream(streams[before])  # the stand-in's tensors are made at once
    torch.cuda.set_stream(streams[number])
    return before


def close_gate():
    torch.cuda._sleep(GATE)


def open_gate():
    pass


def synchronised():
    return 0


def spoiled():
    return 0
