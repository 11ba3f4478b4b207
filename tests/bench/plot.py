#!/usr/bin/env python3
"""plot.py: draws what mpi-bench and `mpi-bench versus` wrote as JSON: log-log, a line a library.

    plot.py -o FOLDER results.json [more.json ...]     one PNG per case
    plot.py -o FILE.png results.json [more.json ...]   one picture of all cases

Several files of mpi-bench are laid over each other by the library they name; of several files of
versus, the first that has a case gives it.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

BANDWIDTH_CASES = ("bandwidth", "bibandwidth")
LINE = {"linewidth": 1.6, "markersize": 4}
MARKERS = "osD^vPX*"


def short(version):
    import peers
    return peers.short_name(version)


def series_of(document):
    """{title: {"unit": ..., "lines": {library: [(bytes, value)]}}} of one JSON document."""
    if document.get("schema") != 1:
        raise ValueError("not a result of mpi-bench, or of a newer one")
    if document["tool"] == "mpi-bench versus":
        return versus_series(document)
    out = {}
    name = short(document["library"])
    for row in document["rows"]:
        if "bytes" not in row or "p50_us" not in row or row["bytes"] == 0:
            continue
        bandwidth = row["case"] in BANDWIDTH_CASES
        title = f"{row['case']}, {document['ranks']} ranks"
        unit = "GB/s" if bandwidth else "time, us"
        value = row["algorithm_gbs"] if bandwidth else row["p50_us"]
        plot = out.setdefault(title, {"unit": unit, "lines": {}})
        plot["lines"].setdefault(name, []).append((row["bytes"], value))
    return out


def versus_series(document):
    out = {}
    for group in document["groups"]:
        cells = [cell for cell in group["rows"] if cell["bytes"] > 0]
        if len(cells) < 2:
            continue
        lines = {}
        for cell in cells:
            for name, values in cell["values"].items():
                known = [v for v in values if v is not None]
                if known:
                    lines.setdefault(name, []).append((cell["bytes"], statistics.median(known)))
            if cell.get("limit") is not None:
                lines.setdefault("limit", []).append((cell["bytes"], cell["limit"]))
        out[group["name"]] = {"unit": group["unit"], "lines": lines}
    return out


def merge(documents):
    plots = {}
    for document in documents:
        for title, plot in series_of(document).items():
            if title in plots and document["tool"] == "mpi-bench versus":
                continue
            into = plots.setdefault(title, {"unit": plot["unit"], "lines": {}})
            for name, points in plot["lines"].items():
                into["lines"].setdefault(name, []).extend(points)
    for plot in plots.values():
        for points in plot["lines"].values():
            points.sort()
    return plots


def size_label(value, _position=None):
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if value >= 1 << shift:
            return f"{value / (1 << shift):g}{unit}"
    return f"{value:g}"


def draw_axes(axes, title, plot):
    from matplotlib.ticker import FuncFormatter, LogLocator
    for i, (name, points) in enumerate(plot["lines"].items()):
        sizes, values = zip(*points)
        if name == "limit":
            axes.plot(sizes, values, color="0.55", linestyle="--", label=name, linewidth=1.2)
        else:
            axes.plot(sizes, values, marker=MARKERS[i % len(MARKERS)], label=name, **LINE)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=4, numticks=14))
    axes.xaxis.set_major_formatter(FuncFormatter(size_label))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = axes.get_ylim()
    few = high / low < 30  # less than two powers of ten: label the steps between, too
    axes.yaxis.set_minor_formatter(FuncFormatter(
        lambda value, _: f"{value:g}" if few and f"{value:e}"[0] in "235" else ""))
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("message size, bytes")
    axes.set_ylabel(plot["unit"])
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)


def draw(plots, target):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    target = Path(target)
    made = []
    if target.suffix.lower() in (".png", ".svg", ".pdf"):
        columns = min(3, len(plots))
        rows = math.ceil(len(plots) / columns)
        figure, grid = plt.subplots(rows, columns, figsize=(5.2 * columns, 3.9 * rows),
                                    squeeze=False)
        spots = list(grid.flat)
        for axes, (title, plot) in zip(spots, plots.items()):
            draw_axes(axes, title, plot)
        for axes in spots[len(plots):]:
            axes.set_visible(False)
        made.append(save(figure, target))
    else:
        target.mkdir(parents=True, exist_ok=True)
        for title, plot in plots.items():
            figure, axes = plt.subplots(figsize=(6.4, 4.4))
            draw_axes(axes, title, plot)
            name = "".join(c if c.isalnum() else "-" for c in title).replace("--", "-")
            made.append(save(figure, target / f"{name}.png"))
    return made


def save(figure, path):
    import matplotlib.pyplot as plt
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", required=True, help="a PNG file, or a folder")
    parser.add_argument("--only", metavar="PART", action="append",
                        help="only cases with this in their title; may be given again")
    parser.add_argument("json", nargs="+", help="files written with --json")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    try:
        plots = merge([json.loads(Path(name).read_text()) for name in args.json])
    except (OSError, ValueError, KeyError) as error:
        return f"plot: {error}"
    if args.only:
        plots = {title: plot for part in args.only for title, plot in plots.items() if part in title}
    if not plots:
        return "plot: nothing to draw: no results with message sizes, or none of those asked for"
    try:
        made = draw(plots, args.output)
    except ImportError as error:
        return f"plot: {error}; install it with: pip install matplotlib"
    for path in made:
        print(f"plot: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
