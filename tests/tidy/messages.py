# tests/tidy/messages.py ROOT: every row of the two tables of messages, mpirun's and the library's,
# is said somewhere, and its text stands nowhere else, so that docs/messages.md holds what is
# printed. And what mpirun says with advice stands in the tables: a fault is a literal of its
# sources with a clause that begins as advice does ("; use fewer"), with a verb of need, or with a
# question. Advice in other words is not found. Pages of help are no messages.
import pathlib
import re
import sys

TABLES = ["pmix/launch/messages.def", "btl/base/messages.def"]
TEXT = r'"((?:[^"\\]|\\.)*)"'
MPIRUN = ["pmix/*.cc", "pmix/launch/*.cc", "pmix/launch/*.h", "mpi/tools/simulate*.cc"]
PAGES = ["pmix/launch/messages.cc", "pmix/launch/options_table.cc"]
ADVICE = re.compile(
    r"(?:[;:(]|, or) (?:-|(?:copy|did you|give|install|leave|mpirun|name|pomona|raise|see|set|start"
    r"|try|use|write)\b)|\b(?:needs?|use) (?:--|its)|\bmust (?!be)|\bmends?\b|\w\?"
)

root = pathlib.Path(sys.argv[1])
sources = {
    path: path.read_text()
    for folder in ["btl", "coll", "mpi", "pmix", "accel"]
    for path in sorted([*(root / folder).rglob("*.cc"), *(root / folder).rglob("*.h")])
}
faults, seen = [], {}
for table in TABLES:
    rows = re.findall(rf"^MESSAGE\((\w+),\s*((?:{TEXT}\s*)+),", (root / table).read_text(), re.M)
    if not rows:
        faults.append(f"{table}: has no rows")
    for name, text, *_ in rows:
        if name in seen:
            faults.append(f"{table}: {name} stands in {seen[name]} too")
        seen[name] = table
        if not any(f"messages::{name}" in source for source in sources.values()):
            faults.append(f"{table}: nothing says {name}")
        begin = re.search(TEXT, text).group(1)[:40]
        for path, source in sources.items():
            if f'"{begin}' in source:
                faults.append(f"{path}: has the text of {name}; say messages::{name}")
for path in sorted(path for pattern in MPIRUN for path in root.glob(pattern)):
    if path.relative_to(root).as_posix() in PAGES:
        continue
    # Without comments, and without characters that are quotation marks.
    source = re.sub(r"""^\s*(//|#).*|'\\?["']'""", "", sources[path], flags=re.M)
    for literal in re.finditer(rf"{TEXT}(?:\s*{TEXT})*", source):
        text = "".join(re.findall(TEXT, literal[0]))
        if ADVICE.search(text):
            faults.append(f"{path}: has advice outside of the tables: {text}")
print("\n".join(faults))
print(f"{len(seen)} messages, {len(faults)} faults")
sys.exit(1 if faults else 0)
