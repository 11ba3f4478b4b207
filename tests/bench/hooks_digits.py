#!/usr/bin/env python3
"""What communication hooks do to the loss and to the bytes: the digits example, once with each
hook.

    mpirun -n 2 python tests/bench/hooks_digits.py [--epochs 15] [--json docs/bench/hooks.json]

The same data, order and weights at the start each time. bytes: what a rank gives to collectives,
against its gradients in fp32. PowerSGD is PyTorch's own, whose bytes are counted from the record's
sizes.
"""

import argparse
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import pomona
import pomona.hooks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import ddp_digits  # noqa: E402
from figures import keep  # noqa: E402

HOOKS = {
    "none": None,
    "Fp16()": pomona.hooks.Fp16,
    "Bf16()": pomona.hooks.Bf16,
    "TopK(0.1)": lambda: pomona.hooks.TopK(0.1),
    "TopK(0.01)": lambda: pomona.hooks.TopK(0.01),
    "Int8()": pomona.hooks.Int8,
    "Reproducible()": pomona.hooks.Reproducible,
    "PowerSGD, rank 2": "power",
}


def register(network, hook):
    """What counts its bytes, or None."""
    if hook == "power":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10)
        network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif hook is not None:
        made = hook()
        network.register_comm_hook(None, made)
        return made
    return None


def train(hook, epochs, batch):
    rank, size = dist.get_rank(), dist.get_world_size()
    train_x, test_x, train_y, test_y = ddp_digits.load_data()
    model = ddp_digits.make_model()
    network = DistributedDataParallel(model, bucket_cap_mb=0.05)
    counter = register(network, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    plain = 4 * sum(parameter.numel() for parameter in model.parameters())
    pomona.metrics(reset=True)
    steps = 0
    for epoch in range(epochs):
        total = 0.0
        for chosen in ddp_digits.batches(len(train_x), batch, epoch):
            mine = chosen[rank::size]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(train_x[mine]), train_y[mine], reduction="sum")
            loss = loss * (size / len(chosen))
            loss.backward()
            optimizer.step()
            total += loss.item()
            steps += 1
        last = total / len(ddp_digits.batches(len(train_x), batch, epoch)) / size
    given = counter.bytes if counter else pomona.metrics()["all_reduce"]["bytes"]
    means = torch.tensor([last, ddp_digits.accuracy(model, test_x, test_y)])
    dist.all_reduce(means)
    loss, accuracy = (means / size).tolist()
    return {"loss": loss, "test_accuracy": accuracy, "bytes_share": given / (steps * plain)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", help="keep the results in this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    rows = {name: train(hook, args.epochs, args.batch) for name, hook in HOOKS.items()}
    if dist.get_rank() == 0:
        print("| hook | bytes against fp32 | training loss | test accuracy |\n| --- | --- | --- | --- |")
        for name, row in rows.items():
            print(f"| {name} | {row['bytes_share']:.2f} | {row['loss']:.4f} | {row['test_accuracy']:.1%} |")
        if args.json:
            content = {"ranks": dist.get_world_size(), "epochs": args.epochs, "hooks": rows}
            keep(content, args.json)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
