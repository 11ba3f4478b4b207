#!/usr/bin/env python3
"""Draws the bytes that each rank has sent to each other one as a heat map.

Usage: trace_heat.py PICTURE.png, with the output of `pomona trace FILE --json` on standard input.
Called by `pomona trace FILE --heat PICTURE.png`; needs matplotlib.
"""
import json
import math
import sys


def unit_of(largest):
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    power = min(len(units) - 1, int(math.log(max(largest, 1), 1024)))
    return 1024 ** power, units[power]


def main():
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        sys.exit(f"pomona trace: {sys.executable} cannot draw: {error}; pip install matplotlib")
    sums = json.load(sys.stdin)
    size = 1 + max([sums["ranks"] - 1] + [max(p["from"], p["to"]) for p in sums["pairs"]])
    table = [[0.0] * size for _ in range(size)]
    for pair in sums["pairs"]:
        table[pair["from"]][pair["to"]] = pair["bytes"]
    scale, unit = unit_of(max(max(row) for row in table))
    figure, axes = plt.subplots(figsize=(6, 5), dpi=120)
    image = axes.imshow([[value / scale for value in row] for row in table], cmap="viridis")
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")
    axes.set_title("bytes sent")
    if size <= 16:
        axes.set_xticks(range(size))
        axes.set_yticks(range(size))
    figure.colorbar(image, label=unit)
    figure.tight_layout()
    figure.savefig(sys.argv[1], format="png")


if __name__ == "__main__":
    main()
