#!/usr/bin/env python3
"""Trains a small network on scikit-learn's handwritten digits with DistributedDataParallel.

    mpirun -n 2 python examples/ddp_digits.py            # over Pomona
    python examples/ddp_digits.py                        # one process, the same global batch
    torchrun --nproc-per-node 2 examples/ddp_digits.py --backend gloo

Each step takes one global batch, of which every rank gets its share; so the result does not depend
on the number of ranks, which --check asserts by training once more in one process.
"""

import argparse
import json
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

try:
    import pomona  # noqa: F401 - registers backend "mpi"; torch does it alone if it is installed
except ImportError:
    pass

# The same sums in another order differ by float32's rounding: some 1e-7 after all steps, since the
# network is smooth and the learning rate moderate. (With ReLU and twice the rate training is
# chaotic: 1e-1.)
WEIGHT_TOLERANCE = 1e-4
ACCURACY_WANTED = 0.95


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", default="mpi", help="mpi, pomona or gloo (default: mpi)")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64, help="global batch, over all ranks")
    parser.add_argument("--out", default="ddp_digits_out", help="folder for plot and JSON")
    parser.add_argument("--check", action="store_true", help="compare with one process; assert accuracy")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser.parse_args()


def load_data():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    split = train_test_split(
        images, digits.target, test_size=0.25, random_state=0, stratify=digits.target
    )
    return [torch.from_numpy(np.ascontiguousarray(part)) for part in split]


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.GELU(),
        nn.Linear(64, 10),
    )


class CommunicationClock:
    """Times the all-reduces of DDP: from the gradient bucket's start to its end.

    `total` is the time with at least one under way; `exposed` is what is left of it after the
    backward pass, i.e. not hidden behind computation.
    """

    def __init__(self):
        self.total = self.exposed = 0.0
        self.intervals = []

    def hook(self, group, bucket):
        start = time.perf_counter()
        buffer = bucket.buffer().div_(dist.get_world_size(group))
        future = dist.all_reduce(buffer, group=group, async_op=True).get_future()

        def done(result):
            self.intervals.append((start, time.perf_counter()))
            return result.value()[0]

        return future.then(done)

    def end_step(self, backward_compute_end):
        covered = 0.0
        for start, end in sorted(self.intervals):
            start = max(start, covered)
            if end > start:
                self.total += end - start
                self.exposed += max(0.0, end - max(start, backward_compute_end))
            covered = max(covered, end)
        self.intervals.clear()


def batches(count, batch, epoch):
    """The global batches of an epoch: the same on every rank and for every number of ranks."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
    return [order[i : i + batch] for i in range(0, count - batch + 1, batch)]


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def train(args, rank, size, group_used, show):
    """Returns the trained model and what happened in each epoch."""
    train_x, test_x, train_y, test_y = load_data()
    model = make_model()
    network = DistributedDataParallel(model, bucket_cap_mb=0.05) if group_used else model
    clock = CommunicationClock()
    if group_used:
        network.register_comm_hook(None, clock.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    history = []
    bar = progress_bar(args, len(batches(len(train_x), args.batch, 0))) if show else None
    for epoch in range(args.epochs):
        start = time.perf_counter()
        clock.total = clock.exposed = 0.0
        loss_sum, steps = 0.0, 0
        for batch in batches(len(train_x), args.batch, epoch):
            mine = batch[rank::size]
            optimizer.zero_grad()
            # The mean over the global batch, whatever the shares: DDP averages over the ranks.
            loss = nn.functional.cross_entropy(network(train_x[mine]), train_y[mine], reduction="sum")
            loss = loss * (size / len(batch))
            compute_end = [0.0]
            first = next(model.parameters())
            handle = first.register_hook(lambda g: compute_end.__setitem__(0, time.perf_counter()))
            loss.backward()
            handle.remove()
            clock.end_step(compute_end[0])
            optimizer.step()
            loss_sum += loss.item()
            steps += 1
            if bar is not None:
                bar.update()
        seconds = time.perf_counter() - start
        mean_loss = torch.tensor([loss_sum / steps / size])
        if group_used:
            dist.all_reduce(mean_loss)
        history.append(
            {
                "epoch": epoch + 1,
                "loss": mean_loss.item(),
                "test_accuracy": accuracy(model, test_x, test_y),
                "seconds": seconds,
                "communication_seconds": clock.total,
                "exposed_communication_seconds": clock.exposed,
            }
        )
        if show:
            report(bar, history[-1])
    if bar is not None:
        bar.close()
    return model, history


def progress_bar(args, steps):
    if args.quiet:
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=args.epochs * steps, unit="step", file=sys.stderr, leave=False,
                mininterval=0.5)


def report(bar, row):
    text = (
        f"epoch {row['epoch']:3d}   loss {row['loss']:.4f}   test accuracy {row['test_accuracy']:.2%}   "
        f"{row['seconds'] * 1e3:6.0f} ms, communicating {row['communication_seconds'] * 1e3:5.0f} ms, "
        f"of it not hidden {row['exposed_communication_seconds'] * 1e3:4.0f} ms"
    )
    if bar is not None:
        bar.write(text, file=sys.stdout)
    else:
        print(text, flush=True)


def save(args, size, history):
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "ddp_digits.json"), "w", encoding="utf-8") as file:
        json.dump({"backend": args.backend, "ranks": size, "epochs": history}, file, indent=1)
    written = ["ddp_digits.json"]
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return written
    figure, left = pyplot.subplots(figsize=(6, 4))
    epochs = [row["epoch"] for row in history]
    left.semilogy(epochs, [row["loss"] for row in history], "C0", label="training loss")
    left.set(xlabel="epoch", ylabel="training loss", title=f"digits, {size} ranks, {args.backend}")
    right = left.twinx()
    right.plot(epochs, [100 * row["test_accuracy"] for row in history], "C1", label="test accuracy")
    right.set_ylabel("test accuracy, %")
    lines = left.lines + right.lines
    left.legend(lines, [line.get_label() for line in lines], loc="center right")
    figure.tight_layout()
    figure.savefig(os.path.join(args.out, "ddp_digits.png"), dpi=120)
    return [*written, "ddp_digits.png"]


def check(args, model, history):
    """One process with the same global batches must arrive at the same weights."""
    alone, _ = train(args, rank=0, size=1, group_used=False, show=False)
    difference = max(
        (a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters())
    )
    best = history[-1]["test_accuracy"]
    print(f"check: largest difference of a weight to one process: {difference:.2e} "
          f"(allowed {WEIGHT_TOLERANCE:.0e}); test accuracy {best:.2%} (wanted {ACCURACY_WANTED:.0%})")
    if difference > WEIGHT_TOLERANCE or best < ACCURACY_WANTED:
        raise SystemExit("check failed")


def main():
    args = parse_arguments()
    launched = "RANK" in os.environ or "PMI_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ
    torch.set_num_threads(1)  # small layers: threads would only get in each other's way
    if launched:
        dist.init_process_group(backend=args.backend)
    rank, size = (dist.get_rank(), dist.get_world_size()) if launched else (0, 1)
    if rank == 0:
        print(f"training on {size} rank{'s' * (size > 1)}, "
              f"backend {args.backend if launched else 'none (one process)'}", flush=True)
    start = time.perf_counter()
    model, history = train(args, rank, size, launched, show=rank == 0)
    seconds = time.perf_counter() - start
    if rank == 0:
        communication = sum(row["communication_seconds"] for row in history)
        exposed = sum(row["exposed_communication_seconds"] for row in history)
        print(f"{seconds:.1f} s in all; communication {communication:.2f} s, of which {exposed:.2f} s were "
              f"not hidden behind computation; test accuracy {history[-1]['test_accuracy']:.2%}")
        if args.check:
            check(args, model, history)
        written = save(args, size, history)
        print("written:", ", ".join(os.path.join(args.out, name) for name in written))
    if launched:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
