# tests/tidy/messages.py ROOT: every row of mpirun's table of messages is said somewhere, and its text stands
# nowhere else, so that docs/messages.md holds what is printed.
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]) / "pmix"
table = (root / "launch/messages.def").read_text()
sources = {path: path.read_text() for path in sorted(root.rglob("*.cc"))}
faults = []
rows = re.findall(r'^MESSAGE\((\w+),\s*((?:"[^"]*"\s*)+),', table, re.M)
for name, text in rows:
    if not any(f"messages::{name}" in source for source in sources.values()):
        faults.append(f"messages.def: nothing says {name}")
    begin = re.search(r'"([^"]*)"', text).group(1)[:40]
    for path, source in sources.items():
        if f'"{begin}' in source:
            faults.append(f"{path}: has the text of {name}; say messages::{name}")
print("\n".join(faults))
print(f"{len(rows)} messages, {len(faults)} faults")
sys.exit(1 if faults or not rows else 0)
