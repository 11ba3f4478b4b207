#!/usr/bin/env python3
"""Checks every Objective-C call of accel/ against selectors.txt: check_selectors.py SOURCE_ROOT.

Goal: a mistyped selector, a wrong result type or a missing argument is found where no Metal is (the
compiler sees strings and casts only). Method: each send<Result>(receiver, "selector", arguments...)
is taken apart; the table says what Metal has. What the table has and nobody calls is a fault too.
"""
import pathlib
import re
import sys


def split(text, begin, close):
    """Parts between commas of the outermost level, from `begin` to the closing character."""
    parts, depth, start, quoted, i = [], 0, begin, False, begin
    while True:
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            if c in "([{<":
                depth += 1
            elif c == close and depth == 0:
                parts.append(text[start:i].strip())
                return parts, i
            elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
                depth -= 1
            elif c == "," and depth == 0:
                parts.append(text[start:i].strip())
                start = i + 1
        i += 1


def calls(text):
    """(result, selector, number of arguments) of each call."""
    for found in re.finditer(r"\bsend<", text):
        result, end = split(text, found.end(), ">")
        if text[end + 1] != "(":
            continue
        arguments, _ = split(text, end + 2, ")")
        if len(arguments) >= 2 and arguments[1].startswith('"'):
            yield result[0], arguments[1].strip('"'), len(arguments) - 2


def faults(root):
    table = {}
    classes = set()
    for line in (root / "tests/metal/selectors.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, selector, result = line.split(" ", 2)
            classes.add(name)
            table[selector] = result
    called = set()
    for path in sorted((root / "accel").glob("*.cc")) + sorted((root / "accel").glob("*.h")):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for result, selector, count in calls(text):
            called.add(selector)
            if selector not in table:
                yield f"{path.name}: Metal has no {selector}"
            elif table[selector] != result.replace("objc::", ""):
                yield f"{path.name}: {selector} returns {table[selector]}, not {result}"
            if selector.count(":") != count:
                yield f"{path.name}: {selector} takes {selector.count(':')} arguments, not {count}"
        for name in re.findall(r'objc_getClass\("(\w+)"\)', text):
            if name not in classes:
                yield f"{path.name}: there is no class {name}"
    for selector in sorted(table.keys() - called):
        yield f"selectors.txt: nobody calls {selector}"


def main():
    root = pathlib.Path(sys.argv[1])
    # The parser sees what it must: a call with a nested one, templates, too many arguments.
    seen = sorted(calls('send<R<A, B>>(send<Id>(x, "alloc"), "a:b:", f(1, 2), c->d, e);'))
    assert seen == [("Id", "alloc", 0), ("R<A, B>", "a:b:", 3)], seen
    found = list(faults(root))
    print("\n".join(found) if found else "every call is one that Metal has")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
