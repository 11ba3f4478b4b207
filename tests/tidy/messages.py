# tests/tidy/messages.py ROOT: every row of the two tables of messages, mpirun's and the library's,
# is said somewhere, and its text stands nowhere else, so that docs/messages.md holds what is
# printed.
import pathlib
import re
import sys

TABLES = ["pmix/launch/messages.def", "btl/base/messages.def"]
TEXT = r'"((?:[^"\\]|\\.)*)"'

root = pathlib.Path(sys.argv[1])
sources = {
    path: path.read_text()
    for folder in ["btl", "coll", "mpi", "pmix", "accel"]
    for path in sorted((root / folder).rglob("*.cc"))
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
print("\n".join(faults))
print(f"{len(seen)} messages, {len(faults)} faults")
sys.exit(1 if faults else 0)
