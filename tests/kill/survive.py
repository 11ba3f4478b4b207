#!/usr/bin/env python3
"""Survivors of a death go on: each scenario of survivor.c and left_waiting.c under mpirun
--on-death continue.

Goal: no hang, the right error classes, a job whose exit code says that a rank was killed. Method: all
ranks but those killed must print "survived", and mpirun must end with 137 (128 + SIGKILL), or 0 where
nobody dies.

Usage: survive.py MPICC MPIRUN [PATTERN of "scenario transport"]...
"""
import fnmatch
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

RANKS = 6
LEFT = {"revoke": 6, "last_two": 2}
DEADLINE = 60  # for what takes a second
HERE = pathlib.Path(__file__).parent
# Options of mpirun, and what starts each rank. "mixed" are two nodes of three ranks.
TRANSPORTS = {"shm": ([], []), "tcp": (["--set", "transports=self,tcp"], []),
              "mixed": ([], ["sh", str(HERE.parent / "programs/nodes.sh"), "3"])}


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
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        scenarios = []
        for source in ("survivor", "left_waiting"):
            program = f"{folder}/{source}"
            subprocess.run([mpicc, "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o",
                            program, str(HERE / f"{source}.c")], check=True)
            listed = subprocess.run([program], check=True, capture_output=True, text=True)
            scenarios += [(program, each) for each in listed.stdout.split()]
        for transport, (options, starter) in TRANSPORTS.items():
            for program, scenario in scenarios:
                name = f"{scenario} {transport}"
                if patterns and not any(fnmatch.fnmatch(name, p) for p in patterns):
                    continue
                faults = run([mpirun, "-n", str(RANKS), "--oversubscribe", "--on-death", "continue",
                              *options, *starter, program, scenario], scenario)
                print(("FAILED " if faults else "passed ") + name, flush=True)
                for fault in faults:
                    print("    " + fault.replace("\n", "\n    "))
                failed += bool(faults)
                passed += not faults
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
