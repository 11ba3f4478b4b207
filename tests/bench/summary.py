#!/usr/bin/env python3
"""summary.py: kept results of `mpi-bench versus` as one Markdown table, and that table in the
README.

    summary.py results.json [more.json ...]                    prints the table
    summary.py --into README.md results.json [more.json ...]   puts it between the file's marks
    summary.py --check README.md results.json [more.json ...]  fails if the file says otherwise

A line per group that has a goal: the geometric mean and the worst row of the ratios to the best
peer. A group in several files is taken from the first one that has it.
"""

import argparse
import json
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compare import Cell, Goal, summarize  # noqa: E402

BEGIN = "<!-- figures: tests/bench/summary.py -->"
END = "<!-- end of figures -->"


def cells_of(group):
    return [Cell(group["name"], row["label"], row["bytes"], group["less_is_better"], row["values"])
            for row in group["rows"]]


def goal_text(goal, less):
    if not goal:
        return ""
    sign = "≤" if less else "≥"
    mean = f"mean {sign} {goal.mean:g}" if goal.mean is not None else ""
    worst = f"all {sign} {goal.worst:g}" if goal.worst is not None else ""
    return ", ".join(part for part in (mean, worst) if part)


def extent(group):
    labels = [row["label"] for row in group["rows"]]
    return labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"


def line_of(group, candidate):
    less = group["less_is_better"]
    goal = Goal(**group["goal"]) if group.get("goal") else None
    result = summarize(cells_of(group), candidate, goal)
    if not result:
        return None
    reached = {True: "reached", False: "missed", None: ""}[result["reached"]]
    case = f"{group['name']} {'↓' if less else '↑'}"
    return (f"| {case} | {extent(group)} | {result['mean']:.2f} | "
            f"{result['worst']:.2f} at {result['worst_at']} | {goal_text(goal, less)} | {reached} |")


def table(documents):
    lines = ["| case | rows | mean ratio | worst | goal | |", "| --- | --- | --- | --- | --- | --- |"]
    seen = set()
    for document in documents:
        if document.get("schema") != 1 or document.get("tool") != "mpi-bench versus":
            raise ValueError("not a result of mpi-bench versus")
        for group in document["groups"]:
            line = line_of(group, document["candidate"])
            if line and group.get("goal") and group["name"] not in seen:
                seen.add(group["name"])
                lines.append(line)
    peers = sorted({name for d in documents for name in d["libraries"] if name != d["candidate"]})
    machine = documents[0]["machine"]
    lines += ["", *wrapped(f"Peers: {', '.join(peers)}, and gloo where torch is named; the best of "
                           f"them in each row. {machine['cpu']}, {machine['cores']} cores, "
                           f"{machine['system']}."), ""]
    for document in documents:
        lines += wrapped(f"- `{document['command']}`: {document['repetitions']} repetitions, "
                         f"{document['date'][:10]}.", "  ")
    return "\n".join(lines)


def wrapped(text, indent=""):
    return textwrap.wrap(text, 100, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def placed(text, part):
    """The file's text with what stands between the marks replaced."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"needs one '{BEGIN}' and one '{END}'")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{part}\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--into", metavar="FILE", type=Path)
    parser.add_argument("--check", metavar="FILE", type=Path)
    parser.add_argument("json", nargs="+", type=Path)
    args = parser.parse_args()
    try:
        part = table([json.loads(path.read_text()) for path in args.json])
        if args.check:
            text = args.check.read_text()
            if placed(text, part) != text:
                return f"summary: {args.check} is older than the kept results; --into renews it"
        elif args.into:
            args.into.write_text(placed(args.into.read_text(), part))
        else:
            print(part)
    except (OSError, ValueError, KeyError) as error:
        return f"summary: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
