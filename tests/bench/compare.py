"""compare.py: from repeated measurements of several libraries to ratios, marks and a table.

Idea: pure functions, no processes. A Cell holds one (case, size) with a list of values per library,
one value per repetition. Ratios are taken within a repetition, where both libraries met the same
machine, against the peer that is best in the median; the spread is the least and greatest ratio.
"""

import math
import re
import statistics
from dataclasses import dataclass, field


@dataclass
class Cell:
    group: str
    label: str                    # the size, or what else names the row
    bytes: int = 0
    less_is_better: bool = True
    values: dict = field(default_factory=dict)   # library name -> [value or None per repetition]
    limit: float = None           # the hardware's figure in the same unit
    limit_name: str = "limit"


def middle(values):
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None


def best_peer(cell, candidate):
    peers = {n: middle(v) for n, v in cell.values.items() if n != candidate}
    peers = {n: m for n, m in peers.items() if m is not None}
    if not peers:
        return None
    return (min if cell.less_is_better else max)(peers, key=peers.get)


@dataclass
class Ratio:
    median: float
    low: float
    high: float
    peer: str

    def verdict(self, less_is_better):
        """'ahead' or 'behind' only where the whole spread says so."""
        if less_is_better:
            return "ahead" if self.high <= 1.0 else "behind" if self.low > 1.0 else "even"
        return "ahead" if self.low >= 1.0 else "behind" if self.high < 1.0 else "even"


def ratio_of(cell, candidate):
    peer = best_peer(cell, candidate)
    if peer is None:
        return None
    pairs = [(mine, other) for mine, other in zip(cell.values.get(candidate, []), cell.values[peer])
             if mine is not None and other]
    if not pairs:
        return None
    ratios = [mine / other for mine, other in pairs]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios), peer)


def geometric_mean(values):
    values = [v for v in values if v and v > 0]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


@dataclass
class Goal:
    """What a group of rows is to reach: a geometric mean and a worst row, as ratios."""
    mean: float = None
    worst: float = None


def is_chosen(args, name, tags):
    """Whether --only and --skip take a group."""
    if args.only:
        wanted = [w.strip().lower() for w in re.split(r",(?! )", args.only)]
        if not any(w in tags or w in name.lower() for w in wanted):
            return False
    return not (args.skip and re.search(args.skip, name))


def summarize(cells, candidate, goal=None):
    """Geometric mean, worst row and whether the goal is reached; None without ratios."""
    rows = [(cell, ratio_of(cell, candidate)) for cell in cells]
    rows = [(cell, ratio) for cell, ratio in rows if ratio]
    if not rows:
        return None
    less = rows[0][0].less_is_better
    pick = max if less else min
    worst_cell, worst = pick(rows, key=lambda row: row[1].median)
    mean = geometric_mean([ratio.median for _, ratio in rows])
    reached = None
    if goal:
        fits = (lambda value, bound: value <= bound) if less else (lambda v, bound: v >= bound)
        reached = ((goal.mean is None or fits(mean, goal.mean))
                   and (goal.worst is None or fits(worst.median, goal.worst)))
    return {"mean": mean, "worst": worst.median, "worst_at": worst_cell.label,
            "behind": [c.label for c, r in rows if r.verdict(less) == "behind"],
            "reached": reached}


def show(value):
    if value is None:
        return "-"
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 1000 else 0
    return f"{value:.{digits}f}"


MARKS = {"ahead": "", "even": "  =", "behind": "  < behind"}


def table(title, cells, candidate, libraries, goal=None):
    """The lines of one group's table."""
    names = sorted(libraries, key=lambda name: name != candidate)
    width = max(12, *(len(n) + 2 for n in names))
    limit = next((cell.limit_name for cell in cells if cell.limit is not None), None)
    lines = ["", title]
    lines.append(f"{'':>12}" + "".join(f"{n:>{width}}" for n in names)
                 + (f"{limit:>16}" if limit else "") + "   ratio to the best peer")
    for cell in cells:
        line = f"{cell.label:>12}"
        line += "".join(f"{show(middle(cell.values.get(n, []))):>{width}}" for n in names)
        if limit:
            line += f"{show(cell.limit):>16}"
        ratio = ratio_of(cell, candidate)
        if ratio:
            line += (f"   {ratio.median:5.2f} [{ratio.low:.2f} .. {ratio.high:.2f}]"
                     + MARKS[ratio.verdict(cell.less_is_better)])
        lines.append(line)
    result = summarize(cells, candidate, goal)
    if result:
        text = f"geometric mean {result['mean']:.2f}, worst {result['worst']:.2f} " \
               f"at {result['worst_at']}"
        if goal:
            sign = "at most" if cells[0].less_is_better else "at least"
            wants = [f"mean {sign} {goal.mean:g}"] if goal.mean is not None else []
            wants += [f"each {sign} {goal.worst:g}"] if goal.worst is not None else []
            text += f"; goal: {', '.join(wants)}: {'reached' if result['reached'] else 'missed'}"
        lines.append(f"{'':>12}  {text}")
    return lines
