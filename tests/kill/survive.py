#!/usr/bin/env python3
"""Survivors of a death go on: each scenario of survivor.c and left_waiting.c under mpirun
--on-death continue; where tests/programs/rdma.sh has made fake RDMA cables, of owner_gone.c.

Goal: no hang, the right error classes, a job whose exit code says that a rank was killed. Method:
all ranks but those killed must print "survived", and mpirun must end with 137 (128 + SIGKILL), or 0
where nobody dies.

Usage: survive.py MPICC MPIRUN [PATTERN of "scenario transport"]...
"""
import functools
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

from cases import HERE, compiled, go_through

RANKS = 6
PROGRAMS = "survivor", "left_waiting"
LEFT = {"revoke": 6, "last_two": 2, "stopped": 8, "unplugged": 8}
DEADLINE = 60  # for what takes a second
# Options of mpirun, and what starts each rank. "mixed" are two nodes of three ranks.
TRANSPORTS = {"shm": ([], []), "tcp": (["--set", "transports=self,tcp"], []),
              "mixed": ([], ["sh", str(HERE.parent / "programs/nodes.sh"), "3"])}
THROUGH = shlex.split(os.environ.get("through", ""))
if THROUGH:
    RANKS, PROGRAMS, TRANSPORTS = 8, ("owner_gone",), {"rdma": ([], THROUGH)}


def run(command, scenario):
    """The faults found, as sentences."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    try:
        text, _ = job.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return ["the job did not end; output:\n" + job.communicate()[0]]
    faults = []
    left = LEFT.get(scenario, RANKS - 1)
    survived = len(re.findall(r"^survived \d+$", text, re.M))
    if survived != left:
        faults.append(f"{survived} ranks survived instead of {left}")
    expected = 0 if left == RANKS else 128 + signal.SIGKILL
    if job.returncode != expected:
        faults.append(f"the exit code is {job.returncode} instead of {expected}")
    if expected and "the job goes on without it" not in text:
        faults.append("mpirun does not say that the job goes on")
    return faults + ["output:\n" + text] if faults else []


def main(mpicc, mpirun, *patterns):
    def cases(programs):
        for transport, (options, starter) in TRANSPORTS.items():
            command = [mpirun, "-n", str(RANKS), "--oversubscribe", "--on-death", "continue", *options,
                       *starter]
            for program, scenarios in programs:
                yield from ((f"{scenario} {transport}",
                             functools.partial(run, [*command, program, scenario], scenario))
                            for scenario in scenarios)

    with tempfile.TemporaryDirectory() as folder:
        programs = [compiled(mpicc, folder, name, "-D_GNU_SOURCE")
                    for name in PROGRAMS]
        return go_through(cases(programs), patterns)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
