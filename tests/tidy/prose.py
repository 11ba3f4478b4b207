#!/usr/bin/env python3
"""prose.py ROOT [--fix]: checks that prose has lines of at most 100 columns: README.md, docs, and
the comments and docstrings of sources (C++, C, Python, shell, CMake).

Code blocks, tables and words without a blank in them may be longer; generated pages are not looked
at, since their text stands in sources. Each line that is too long is printed, and the program exits
1; with --fix the paragraph or list item that it stands in is wrapped anew, in sources from that
line on.
"""
import ast
import pathlib
import re
import subprocess
import sys
import textwrap

MOST = 100
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
# "Goal: ..." begins a paragraph of its own in the first lines of a file.
KEYWORD = re.compile(r"[A-Z][a-z]+: ")
SOURCES = ["*.py", "*.sh", "*.c", "*.cc", "*.h", "*.cmake", "CMakeLists.txt", ".ci/run"]
CPP = {".cc", ".h"}


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


def page(lines):
    """The lines of a page of Markdown as they should be, and the numbers of those too long."""
    out, wrong = [], []
    for first, end, prose in blocks(lines):
        block = lines[first:end]
        long = [n for n, line in enumerate(block) if len(line) > MOST and " " in line.strip()]
        if prose and long and wrap(block) != block:
            wrong += [first + n for n in long]
            block = wrap(block)
        out += block
    return out, wrong


def docstrings(text):
    """The numbers of the lines within docstrings, and so those of a module's first string."""
    inside = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) \
                and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
            inside.update(range(body[0].lineno - 1, body[0].end_lineno))
    return inside


def prefixes(file, lines):
    """For each line the prefix that makes it prose of a comment ("    # "), or None."""
    strings = docstrings("\n".join(lines)) if file.suffix == ".py" else set()
    mark = re.compile(r"\s*// " if file.suffix in CPP else
                      r"\s*(?:/\*| \*) " if file.suffix == ".c" else r"\s*# ")
    open_comment = False
    for number, line in enumerate(lines):
        found = mark.match(line)
        if file.suffix == ".c":
            begins = line.lstrip().startswith("/*")
            found = found if begins or open_comment else None
            open_comment = (begins or open_comment) and "*/" not in line
        if number in strings:
            yield re.match(r"\s*", line).group(0) if line.strip() else None
        else:
            yield found.group(0) if found else None


def source(file, lines):
    """The same as page() for a source: a comment's paragraph is wrapped from its long line on."""
    marks = list(prefixes(file, lines))
    out, wrong, number = [], [], 0
    while number < len(lines):
        line, mark = lines[number], marks[number]
        text = line[len(mark):] if mark is not None else ""
        # Two blanks in a line make a table, or an example of code.
        if len(line) <= MOST or " " not in text or "  " in text or "://" in text:
            out.append(line)
            number += 1
            continue
        wrong.append(number)
        rest = mark.replace("/*", " *")
        item = ITEM.match(text)
        if item:
            rest += " " * len(item.group(0))
        end = number + 1
        words = [text]
        while end < len(lines) and marks[end] is not None and lines[end].startswith(rest):
            follows = lines[end][len(rest):]
            if not follows.strip() or follows.startswith(" ") or ITEM.match(follows) \
                    or KEYWORD.match(follows) or "  " in follows \
                    or follows.startswith(('"""', "*/", "|", "```")):
                break
            if len(lines[end]) > MOST:
                wrong.append(end)
            words.append(follows)
            end += 1
        # The end of a comment stays with its last word.
        text = " ".join(words).replace(" */", "\u00a0*/")
        out += [each.replace("\u00a0", " ") for each in
                textwrap.wrap(text, MOST, initial_indent=mark, subsequent_indent=rest,
                              break_long_words=False, break_on_hyphens=False)]
        number = end
    return out, wrong if out != lines else []


def main(root, fix):
    sources = subprocess.run(["git", "ls-files", *SOURCES], cwd=root, capture_output=True, text=True)
    wrong = 0
    for file in [root / "README.md", *sorted((root / "docs").rglob("*.md")),
                 *(root / name for name in sources.stdout.split())]:
        lines = file.read_text().splitlines()
        if file.suffix == ".md" and any(line.startswith("Generated") for line in lines[:5]):
            continue
        out, long = page(lines) if file.suffix == ".md" else source(file, lines)
        wrong += len(long)
        for number in long:
            print(f"{file.relative_to(root)}:{number + 1}: {len(lines[number])} columns")
        if fix and out != lines:
            file.write_text("\n".join(out) + "\n")
    print(f"{wrong} lines of prose are too long")
    return 0 if fix or wrong == 0 else 1


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--fix"]
    sys.exit(main(pathlib.Path(arguments[0]).resolve(), "--fix" in sys.argv))
