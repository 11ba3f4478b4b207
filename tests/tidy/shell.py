"""shell.py ROOT: what shell scripts call by a name with an underscore is a function of theirs.

A shell finds out that a function is gone when it comes to call it, and where a failure means
"skip this" nobody sees it. Names without an underscore may be programs of the system; functions
count for all scripts, since they source each other.
"""

import re
import subprocess
import sys
from pathlib import Path

DEFINED = re.compile(r"^\s*(?:function\s+)?([a-z][a-z0-9_]*)\s*\(\)", re.M)
BEFORE = r"(?:^|[;&|({!]|\b(?:then|else|do|if|while|until|elif)\b)"
CALLED = re.compile(rf"{BEFORE}[ \t]*([a-z]+(?:_[a-z0-9]+)+)(?=[\s;&|]|$)", re.M)
PATTERN = re.compile(r"^[ \t]*[\w.*|?-]+\)", re.M)  # of case
PROGRAMS = {"sw_vers"}  # of systems


def is_script(path):
    if path.suffix in (".sh", ".in"):
        return True
    try:
        first = path.open(encoding="utf-8").readline()
    except (UnicodeDecodeError, OSError):
        return False
    return bool(re.match(r"#!.*\b(ba)?sh\b", first))


def code_of(text):
    """Without comments, here-documents, what stands in quotes and in lists, and patterns."""
    text = re.sub(r"<<-?\s*['\"]?(\w+)['\"]?([^\n]*)\n.*?\n\s*\1\n", r"\2\n", text, flags=re.S)
    out, inside = [], [""]  # inside: quotes and lists, the innermost last
    at = 0
    while at < len(text):
        here, two = text[at], text[at:at + 2]
        quoted = inside[-1] == '"'
        if here == "\\":
            at += 1
            here = " " if text[at:at + 1] == "\n" else "Q"
        elif here == "'" and not quoted:
            at = text.find("'", at + 1)
            here = "Q"
        elif here == '"':
            inside.pop() if quoted else inside.append('"')
            here = "Q"
        elif two in ("$(", "=(") and not (quoted and two == "=("):
            inside.append(two)
            here, at = "(" if two == "$(" else "", at + 1
        elif here == "(" and not quoted:
            inside.append("(")
        elif here == ")" and not quoted and inside[-1]:
            inside.pop()
        elif here == "#" and not quoted and (at == 0 or text[at - 1] in " \t\n;("):
            at = text.find("\n", at)
            here = "\n"
        elif quoted or inside[-1] == "=(":
            here = "Q" if here != "\n" else " "
        out.append(here)
        at += 1
        if at == 0:
            break  # a quote or a comment that nothing ends
    return PATTERN.sub("", "".join(out))


def main():
    root = Path(sys.argv[1])
    names = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True,
                           text=True).stdout.split("\n")
    scripts = {name: (root / name).read_text() for name in names
               if name and (root / name).is_file() and is_script(root / name)}
    defined = set(PROGRAMS)
    for text in scripts.values():
        defined.update(DEFINED.findall(text))
    faults = 0
    for name, text in scripts.items():
        for found in CALLED.finditer(code_of(text)):
            if found.group(1) not in defined:
                print(f"{name}: {found.group(1)} is called, and no script defines it")
                faults += 1
    print(f"{len(scripts)} scripts, {faults} faults")
    return faults != 0 or not scripts


if __name__ == "__main__":
    sys.exit(main())
