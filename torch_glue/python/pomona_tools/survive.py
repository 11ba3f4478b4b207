"""Keeps a rank's death from torchrun, so that the other ranks can go on without it.

    torchrun --nproc-per-node 4 -m pomona_tools.survive train.py ARGUMENTS
    torchrun --nproc-per-node 4 -m pomona_tools.survive -m package.train ARGUMENTS

torchrun ends all its workers as soon as one has failed, before the program can do anything
(pomona.failed_ranks, torch's shrink_group). Here each worker is this small process, which starts
the program as its child. If the program fails, this process stays until the programs of all ranks
have ended, and is then successful if any of them was. If none was, it fails as its own program
has, and torchrun starts all of them again where --max-restarts says so. The ranks tell each other
by torchrun's own store. A signal of torchrun reaches the program, too: torchrun sends it to the
worker's whole process group.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")
LOOK_EVERY = 0.5  # seconds
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ends:
    """How many ranks' programs have ended, and how many of them well; by torchrun's store, which no
    worker serves."""

    def __init__(self) -> None:
        dist: Any = importlib.import_module("torch.distributed")  # what it offers is not declared
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False,
                              timeout=timedelta(seconds=30))
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = dist.PrefixStore("pomona/survive/" + restart, store)

    def tell(self, well: bool) -> None:
        self.store.add("well", int(well))  # first: who sees all ends sees all of these
        self.store.add("ended", 1)

    def wait_for_all(self) -> bool:
        """Has any ended well?"""
        while self.store.add("ended", 0) < int(os.environ["WORLD_SIZE"]):
            time.sleep(LOOK_EVERY)
        return bool(self.store.add("well", 0) > 0)


def words_of(code: int) -> str:
    if code >= 0:
        return f"has ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def fail_like(code: int) -> int:
    """What torchrun is to see of this rank: its program's own end."""
    if code >= 0:
        return code
    if -code in ENDING:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code  # a signal that does not end a process


def run(command: list[str]) -> tuple[int, bool]:
    """The program's end, and whether torchrun wants this worker's."""
    stopped = []
    for number in ENDING:
        signal.signal(number, lambda number, frame: stopped.append(number))
    program = subprocess.Popen(command)  # in this process group
    return program.wait(), bool(stopped)


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    missing = [name for name in NEEDED if name not in os.environ]
    if missing or os.environ["TORCHELASTIC_USE_AGENT_STORE"] != "True":
        print("pomona_tools.survive: torchrun has not started this process, or keeps no store of its own ("
              f"{', '.join(missing) or 'TORCHELASTIC_USE_AGENT_STORE=False'}). Under Pomona's mpirun use "
              "--on-death continue", file=sys.stderr)
        return 2
    code, stopped = run([sys.executable, *arguments])
    if stopped:
        return fail_like(code)
    rank = os.environ["RANK"]
    try:
        ends = Ends()
        ends.tell(code == 0)
        if code == 0:
            return 0
        print(f"pomona_tools.survive: rank {rank}'s program {words_of(code)}; waiting for the other ranks",
              file=sys.stderr, flush=True)
        if ends.wait_for_all():
            print(f"pomona_tools.survive: the job has ended well without rank {rank}", file=sys.stderr, flush=True)
            return 0
    except Exception as error:  # noqa: BLE001: of whatever kind: the program's own end counts
        print(f"pomona_tools.survive: rank {rank}: torchrun's store: {error}", file=sys.stderr, flush=True)
    return fail_like(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
