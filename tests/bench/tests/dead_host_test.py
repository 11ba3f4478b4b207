"""dead_host_test.py BUILD: dead_host.py runs, and what it prints and writes is well-formed.

How long anything took is not judged: dead_host.py's exit code says whether all was in time, and
must agree with what it wrote.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "dead_host.py"
MODES = ["waits", "talks", "sends"]


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "out.json")
        done = subprocess.run([sys.executable, "-B", str(TOOL), build, "-r", "1", "--grace", "1",
                               "--json", str(kept)], capture_output=True, text=True)
        if done.returncode == 77:
            print(done.stdout + done.stderr)
            return 77
        assert done.returncode in (0, 1) and kept.exists(), done.stdout + done.stderr
        document = json.loads(kept.read_text())
    said = re.findall(r"^link_grace_s 1, rank 0 (\w+): told after \d+\.\d\d to \d+\.\d\d s$",
                      done.stdout, re.M)
    assert said == MODES, done.stdout
    assert document["schema"] == 1 and document["tool"] == "dead_host.py", document
    assert document["rounds"] == 1 and document["cores"] > 0, document
    assert document["command"] == "dead_host.py BUILD -r 1 --grace 1", document
    rows = document["rows"]
    assert [(row["link_grace_s"], row["rank_0"]) for row in rows] == [(1, mode) for mode in MODES]
    for row in rows:
        assert 0 < row["least_s"] <= row["median_s"] <= row["most_s"], row
        assert isinstance(row["in_time"], bool), row
    assert done.returncode == (0 if all(row["in_time"] for row in rows) else 1), done.stdout
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
