#!/usr/bin/env python3
"""Writes pomona/config.py, the dataclass of all parameters, from btl/base/params.def, and the words
that some of them are, from btl/base/params_words.def.

    generate_config.py btl/base/params.def btl/base/params_words.def OUTPUT
"""

import re
import sys
import textwrap

ROW = re.compile(r'PARAM\((\w+), (Size|Count|Flag|Text), (.+?), (own|same), "(.*)"\)')
WORDS = re.compile(r'PARAM_WORDS\((\w+), (".*")\)')
TYPES = {"Size": "int | str", "Count": "int", "Flag": "bool", "Text": "str"}

HEAD = '''"""The parameters of Pomona as a dataclass. Generated from btl/base/params.def; docs/parameters.md is the same."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What pomona.init() sets. None: as the environment (POMONA_NAME), mpirun --set, the file
    ~/.config/pomona.conf or the default say, in this order. Sizes are bytes, as a number or a text
    as "64K", "1M", "2G".
    """
'''


def field(name, kind, default, scope, text):
    notes = f"{text}. " + ("The same at all ranks. " if scope == "same" else "") + f"Default: {default}."
    words = textwrap.fill(f'"""{notes[0].upper()}{notes[1:]}"""', 100, initial_indent="    ",
                          subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return f"\n    {name}: {TYPES[kind]} | None = None\n{words}\n"


def main():
    table, words_table, output = sys.argv[1:]
    with open(table, encoding="utf-8") as file:
        lines = [line for line in file if line.startswith("PARAM(")]
    rows = [ROW.fullmatch(line.strip()) for line in lines]
    for line, row in zip(lines, rows):
        if row is None:
            sys.exit(f"{table}: generate_config.py does not understand this line: {line}")
    with open(words_table, encoding="utf-8") as file:
        words = WORDS.findall(file.read())
    with open(output, "w", encoding="utf-8") as file:
        file.write(HEAD + "".join(field(*row.groups()) for row in rows))
        file.write("\n\nTYPES = {\n" + "".join(f'    "{row[1]}": "{row[2]}",\n' for row in rows) + "}\n")
        file.write("\nWORDS = {\n" + "".join(f'    "{name}": ({listed}),\n' for name, listed in words) + "}\n")


if __name__ == "__main__":
    main()
