"""dead_host.py: how long after a host has vanished its peers are told, by link_grace_s.

dead_host.py BUILD [-r ROUNDS] [--grace SECONDS ...] [--json FILE]

Two network namespaces stand for two hosts, with a rank each (dead_host.c). One is made to vanish:
its process is stopped, and then nothing passes between the two any more, of which neither is told:
no FIN, no RST, no lost carrier. Measured from then on to the return of rank 0's MPI function with
the class MPIX_ERR_PROC_FAILED, while it waits for a message, exchanges small ones, or sends large
ones. Asked: within link_grace_s and two seconds. Linux and root.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import netns
from figures import keep
from paths import drop_all

HERE = Path(__file__).resolve().parent
LATER_MOST = 2  # seconds after link_grace_s


def await_file(path, running):
    end = time.monotonic() + 60
    while not path.exists():
        if time.monotonic() > end or running.poll() is not None:
            sys.exit(f"dead_host.c has not come to {path.name}")
        time.sleep(0.01)
    return int(path.read_text())


def vanish(build, link, program, mode, grace):
    """Seconds from the end of a host to the error of its peer."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = ",".join(link.addresses)
        ranks = [["-n", "1"] + link.inside(side, [program, mode, folder]) for side in (0, 1)]
        command = [str(Path(build) / "bin" / "mpirun"), "--bind-to", "none", "--set",
                   "transports=self,tcp", "--set", f"if_include={hosts}", "--set",
                   f"link_grace_s={grace}"]
        running = subprocess.Popen(command + ranks[0] + [":"] + ranks[1], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pid = await_file(Path(folder, "pid"), running)
        await_file(Path(folder, "begun"), running)
        time.sleep(0.2)
        os.kill(pid, signal.SIGSTOP)
        drop_all(link, 0)
        gone_at = time.monotonic()
        out, problems = running.communicate(timeout=grace + 60)
        drop_all(link, 0, False)
    try:
        said = json.loads(out)
    except ValueError:
        sys.exit(f"dead_host.c ended with {running.returncode}: {out}{problems}")
    if not said["failed"]:
        sys.exit(f"rank 0 was told something else: {problems}")
    return said["told_at"] - gone_at


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--grace", type=int, nargs="+", default=[1, 2, 5, 10])
    parser.add_argument("--json")
    options = parser.parse_args()
    if not netns.usable(print):
        sys.exit(77)
    rows, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch, netns.Link(scratch) as link:
        program = str(Path(scratch) / "dead_host")
        subprocess.run([str(Path(options.build) / "bin" / "mpicc"), "-O2",
                        str(HERE / "dead_host.c"), "-o", program], check=True)
        for grace in options.grace:
            for mode in ("waits", "talks", "sends"):
                took = [vanish(options.build, link, program, mode, grace)
                        for _ in range(options.rounds)]
                rows.append({"link_grace_s": grace, "rank_0": mode, "most_s": round(max(took), 3),
                             "median_s": round(statistics.median(took), 3),
                             "least_s": round(min(took), 3),
                             "in_time": max(took) <= grace + LATER_MOST})
                print(f"link_grace_s {grace}, rank 0 {mode}: told after {min(took):.2f} to "
                      f"{max(took):.2f} s", flush=True)
    if options.json:
        grace = " ".join(str(each) for each in options.grace)
        document = {"schema": 1, "tool": "dead_host.py", "rounds": options.rounds,
                    "command": f"dead_host.py BUILD -r {options.rounds} --grace {grace}",
                    "cores": os.cpu_count(), "load": [load, os.getloadavg()[0]],
                    "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}
        keep(document, options.json)
    return 0 if all(row["in_time"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
