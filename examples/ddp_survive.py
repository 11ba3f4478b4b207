#!/usr/bin/env python3
"""DistributedDataParallel that loses a rank, and goes on with the others without a restart.

    mpirun -n 3 --on-death continue python examples/ddp_survive.py --kill 1:20

or by torchrun, which needs a word not to end the others,

    torchrun --nproc-per-node 3 -m pomona_tools.survive examples/ddp_survive.py --kill 1:20

or, without a launcher, as three processes with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

Rank 1 is killed in step 20. The others' collectives end with an error; all of them ask who has
died (pomona.failed_ranks), make the group anew without the dead (torch's shrink_group), take rank
0's weights, momentum and step number, and repeat the step in which it happened. Each step has one
global batch, of which every rank takes its share: the gradient is the same however many are left.

--save FILE keeps the state from which the survivors went on; --resume FILE starts there. Both runs
then end with the same weights, to the bit: the hash printed at the end is of all of them.
"""

import argparse
import hashlib
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pomona

BATCH = 60  # rows of all ranks together: divisible by 1 to 6


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", default="mpi", help="mpi or pomona (default: mpi)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kill", action="append", default=[], metavar="RANK:STEP",
                        help="this rank (as numbered then) kills itself in this step")
    parser.add_argument("--save", help="where the state goes from which survivors go on")
    parser.add_argument("--resume", help="start from such a state")
    return parser.parse_args()


def make_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))


class Training:
    """A network that learns what another one answers."""

    def __init__(self):
        self.teacher = make_model(1)
        self.model = make_model(2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step_number = 0
        self.losses = []
        self.network = DistributedDataParallel(self.model)

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "step": self.step_number, "losses": self.losses}

    def take(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step_number, self.losses = state["step"], list(state["losses"])

    def step(self):
        x = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(self.step_number))
        rank, size = dist.get_rank(), dist.get_world_size()
        with torch.no_grad():
            wanted = self.teacher(x)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.network(x[rank::size]), wanted[rank::size])
        loss.backward()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        self.optimizer.step()
        self.losses.append(mean.item())
        self.step_number += 1

    def recover(self):
        """By all that live, after an error. Others may die meanwhile: that is another error."""
        failed = pomona.failed_ranks()
        if not failed:
            raise RuntimeError("a collective failed, but no rank has died")
        dist.shrink_group(failed)
        # Some may have finished the step that others have not: rank 0's state counts.
        states = [self.state()]
        dist.broadcast_object_list(states, src=0)
        self.take(states[0])
        self.network = DistributedDataParallel(self.model)
        return failed


def kill_if_asked(args, step):
    now = [each for each in args.kill if each.endswith(f":{step}")]
    args.kill = [each for each in args.kill if each not in now]  # once, though the step is repeated
    if f"{dist.get_rank()}:{step}" in now:
        os.kill(os.getpid(), signal.SIGKILL)


def recover_until_it_works(training, args):
    while True:
        try:
            failed = training.recover()
        except dist.DistBackendError:
            continue  # one more has died
        break
    if dist.get_rank() == 0:
        print(f"step {training.step_number}: lost {failed}, going on with {dist.get_world_size()} ranks, "
              f"losses so far: {len(training.losses)}", flush=True)
        if args.save:
            torch.save(training.state(), args.save)


def main():
    args = parse_arguments()
    dist.init_process_group(args.backend)
    training = Training()
    if args.resume:
        training.take(torch.load(args.resume, weights_only=True))
    while training.step_number < args.steps:
        kill_if_asked(args, training.step_number)
        error = None
        try:
            training.step()
        except dist.DistBackendError as caught:
            error = str(caught).splitlines()[0]
        if error:
            recover_until_it_works(training, args)
    weights = hashlib.sha256()
    for parameter in training.model.parameters():
        weights.update(parameter.detach().numpy().tobytes())
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, loss {training.losses[0]:.5f} -> {training.losses[-1]:.5f}, "
              f"weights {weights.hexdigest()[:16]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
