#!/usr/bin/env python3
"""many_ranks.py: memory of a rank among many ranks of one machine, stage by stage (many_ranks.c).

Usage: many_ranks.py MPICC MPIRUN RANKS [LABEL]; prints JSON. Linux only.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main(mpicc, mpirun, ranks, label="now"):
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/many_ranks"
        subprocess.run([mpicc, "-O2", "-o", program, str(source)], check=True)
        done = subprocess.run([mpirun, "-n", ranks, "--oversubscribe", program], check=True,
                              capture_output=True, text=True, timeout=900)
    stages = [json.loads(line) for line in done.stdout.splitlines()]
    command = f"tests/bench/many_ranks.py mpicc mpirun {ranks} {label}"
    print(json.dumps({"command": command, "label": label, "cores": os.cpu_count(),
                      "stages": stages}, indent=1))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
