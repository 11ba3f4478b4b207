#!/usr/bin/env python3
"""prose.py ROOT [--fix]: checks that prose in README.md and docs has lines of at most 100 columns.

Code blocks, tables and words without a blank in them may be longer; generated pages are not looked
at, since their text stands in sources. Each line that is too long is
printed, and the program exits 1; with --fix the paragraph or list item that it stands in is wrapped
anew.
"""
import pathlib
import re
import sys
import textwrap

MOST = 100
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")


def blocks(lines):
    """Yields (first, end, is prose) for each paragraph or list item, and for what lies between."""
    first, fenced = 0, False
    for number, line in enumerate(lines + [""]):
        fence = line.lstrip().startswith("```")
        whole = not line.strip() or line.lstrip().startswith(("|", "#", "!", ">", "<!--"))
        if fence or fenced or whole or ITEM.match(line):
            if first < number:
                yield first, number, True
            first = number
        if fence or fenced or whole:
            if number < len(lines):
                yield number, number + 1, False
            first = number + 1
        fenced ^= fence


def wrap(lines):
    begin = ITEM.match(lines[0])
    indent = " " * len(begin.group(0)) if begin else re.match(r"\s*", lines[0]).group(0)
    text = " ".join(line.strip() for line in lines)
    if begin:
        text = text[len(begin.group(0).strip()):].strip()
    return textwrap.wrap(text, MOST, initial_indent=begin.group(0) if begin else indent,
                         subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def main(root, fix):
    wrong = 0
    for file in [root / "README.md"] + sorted((root / "docs").rglob("*.md")):
        lines = file.read_text().splitlines()
        if any(line.startswith("Generated") for line in lines[:5]):
            continue
        out = []
        for first, end, prose in blocks(lines):
            block = lines[first:end]
            long = [n for n, line in enumerate(block) if len(line) > MOST and " " in line.strip()]
            if prose and long and wrap(block) != block:
                wrong += len(long)
                for n in long:
                    print(f"{file.relative_to(root)}:{first + n + 1}: {len(block[n])} columns")
                block = wrap(block)
            out += block
        if fix and out != lines:
            file.write_text("\n".join(out) + "\n")
    print(f"{wrong} lines of prose are too long")
    return 0 if fix or wrong == 0 else 1


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--fix"]
    sys.exit(main(pathlib.Path(arguments[0]).resolve(), "--fix" in sys.argv))
