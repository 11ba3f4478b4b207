#!/usr/bin/env python3
"""cables.py: what share of the cables' rate collectives reach, in virtual time, as `ctest -R
sim_cable_shares` (tests/sim/cable_shares.cc) finds it: the same on every machine.

cables.py BUILD [--json FILE]

Prints the table of docs/thunderbolt.md: shares of the bound's pace of a vector of 16 MiB, and what
an allreduce of 8 bytes takes.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

COLLECTIVES = ["allreduce", "allgather", "reduce_scatter", "alltoall", "bcast", "reduce"]
LONG, SHORT = 16 << 20, 8


def measured(build):
    done = subprocess.run([f"{build}/tests/sim_cable_shares"], capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not rows:
        said = "\n".join(line for line in done.stdout.splitlines() if not line.startswith("{"))
        sys.exit(f"sim_cable_shares ended with {done.returncode}:\n{said}\n{done.stderr}")
    return rows


def table(rows):
    networks = list(dict.fromkeys((row["machines"], row["network"]) for row in rows))
    found = {(row["machines"], row["network"], row["collective"], row["bytes"]): row for row in rows}
    lines = ["| machines | " + " | ".join(COLLECTIVES) + " | allreduce of 8 B |",
             "| --- |" + " --- |" * (len(COLLECTIVES) + 1)]
    for machines, network in sorted(networks):
        cells = [found[machines, network, each, LONG] for each in COLLECTIVES]
        short = found[machines, network, "allreduce", SHORT]
        lines.append(f"| {machines}, {network.replace('_', ' ')} | "
                     + " | ".join(f"{cell['share']:.2f} {cell['algorithm']}" for cell in cells)
                     + f" | {short['us']:.1f} us, {1 / short['share']:.2f} times the bound |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = measured(args.build)
    if args.json:
        head = {"command": "cables.py BUILD --json docs/bench/cables.json",
                "model": {"message_us": 4.2, "gigabits": 75}}
        text = ",\n".join("  " + json.dumps(row) for row in rows)
        args.json.write_text(json.dumps(head)[:-1] + ",\n \"rows\": [\n" + text + "\n ]}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
