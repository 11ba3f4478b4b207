#!/usr/bin/env python3
"""Compiles and runs the conformance programs of this folder on an MPI library.

Reads programs.csv (name, ranks, timeout in seconds, needs, expect, arguments), compiles each
program with --mpicc into a build folder, runs it with each number of ranks under --mpirun, prints
one line a program and a closing line, and ends with code 1 when one failed. The same run works on
any MPI, which is how the programs themselves are proven:

    run.py --mpicc mpicc.mpich --mpirun mpiexec.mpich
    run.py --mpicc build/bin/mpicc --mpirun "build/bin/mpirun --oversubscribe" --only 'p2p_*' -j2
"""
import argparse
import collections
import concurrent.futures
import csv
import fnmatch
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIP_CODE = 77
FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
         "-Wno-unknown-warning-option", "-Wno-stringop-overflow", "-Wno-stringop-overread", "-pthread"]
# Ending of the source file -> language flags (mpicc compiles C, mpicxx C++).
LANGUAGES = {".c": ["-std=c11", "-D_GNU_SOURCE"], ".cc": ["-std=c++17"]}


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--mpicc", default="mpicc", help="C compiler wrapper")
    p.add_argument("--mpicxx", help="C++ compiler wrapper (default: beside mpicc)")
    p.add_argument("--mpirun", default="mpirun", help="launcher with its options, one string; {ranks} in it is their number")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN",
                   help="run programs whose name matches (shell pattern, repeatable)")
    p.add_argument("--ranks", help="run with these numbers of ranks instead, e.g. '2 4'")
    p.add_argument("-j", "--jobs", type=int, default=2, help="programs at the same time")
    p.add_argument("--build", help="build folder (default: a temporary one)")
    p.add_argument("--timeout-factor", type=float, default=1.0, help="multiply all timeouts")
    p.add_argument("--big", action="store_true", help="run programs that need much memory too")
    p.add_argument("--list", action="store_true", help="list the programs and stop")
    p.add_argument("--through", default="", metavar="COMMAND",
                   help="starts every rank's program, which follows it as arguments")
    p.add_argument("--hosts", type=int, metavar="COUNT",
                   help="over so many hosts, which are namespaces of this machine (Pomona's mpirun)")
    p.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    return p.parse_args()


def read_programs(patterns):
    with open(HERE / "programs.csv", newline="") as f:
        rows = [row for row in csv.DictReader(f)]
    listed = {row["name"] for row in rows}
    present = {p.stem for end in LANGUAGES for p in HERE.glob("*" + end)}
    # With a selection a program that is just being written does not stop the others; --list checks.
    if listed - present or (listed != present and not patterns):
        sys.exit("programs.csv and the folder differ: " + " ".join(sorted(listed ^ present)))
    if patterns:
        rows = [r for r in rows if any(fnmatch.fnmatch(r["name"], p) for p in patterns)]
        if not rows:
            sys.exit("No program matches " + " ".join(patterns))
    return rows


def probe(mpicc, folder):
    """Version of the standard and name of the library, as its headers say."""
    source = Path(folder) / "probe.c"
    source.write_text("#include <mpi.h>\n#define S(x) #x\n#define T(x) S(x)\n"
                      "#if defined(OPEN_MPI)\n#define L \"openmpi\"\n"
                      "#elif defined(MPICH_VERSION) || defined(MPICH_NUMVERSION)\n"
                      "#define L \"mpich\"\n#else\n#define L \"abi\"\n#endif\n"
                      "probe T(MPI_VERSION) T(MPI_SUBVERSION) L\n")
    command = shlex.split(mpicc) + ["-E", str(source)]
    text = subprocess.run(command, capture_output=True, text=True)
    match = re.search(r'probe\s+"(\d+)"\s+"(\d+)"\s+"(\w+)"', text.stdout)
    if not match:
        sys.exit(f"Cannot find out the version of MPI with: {shlex.join(command)}\n{text.stderr}")
    return (int(match[1]), int(match[2])), match[3]


def missing(row, version, library, options):
    """Why a program cannot run here, or None. needs: mpiX.Y, big, node (all ranks on
    one), unchecked (makes mistakes on purpose), !library, separated by blanks."""
    for need in row["needs"].split():
        if need.startswith("mpi"):
            major, minor = need[3:].split(".")
            if version < (int(major), int(minor)):
                return f"needs MPI {major}.{minor}"
        elif need == "big":
            if not options.big:
                return "needs --big"
        elif need == "node":
            if options.hosts:
                return "needs one host"
        elif need == "unchecked":
            if "POMONA_CHECK=1" in options.env:
                return "makes mistakes on purpose"
        elif need.startswith("!"):
            if library == need[1:]:
                return f"known limits of {library}"
        else:
            sys.exit(f"programs.csv: {row['name']}: unknown need {need}")
    return None


def run_command(command, seconds, environment):
    """Exit code and output; the whole process group dies with a timeout."""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        try:
            code = p.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = "timeout"
            for s in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(p.pid, s)
                    p.wait(timeout=2)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
        out.seek(0)
        return code, out.read().decode(errors="replace")


compiling = collections.defaultdict(threading.Lock)
compiled = {}


def compile_once(row, options, folder):
    """Rows of one program run at once: none starts it while another would write it."""
    name = row["name"]
    with compiling[name]:
        if name not in compiled:
            compiled[name] = compile_program(row, options, folder)
        return compiled[name]


def compile_program(row, options, folder):
    source = next(HERE / (row["name"] + end) for end in LANGUAGES
                  if (HERE / (row["name"] + end)).exists())
    target = Path(folder) / row["name"]
    newest = max(p.stat().st_mtime for p in [source, *HERE.glob("*.h")])
    if options.build and target.exists() and target.stat().st_mtime > newest:
        return target, None
    wrapper = options.mpicc if source.suffix == ".c" else options.mpicxx
    command = shlex.split(wrapper) + LANGUAGES[source.suffix] + FLAGS + [
        "-I", str(HERE), str(source), "-o", str(target), "-lm"]
    code, text = run_command(command, 120, None)
    text = "\n".join(text.splitlines()[:12])
    return target, None if code == 0 else f"{shlex.join(command)}\n{text}"


def judge(row, ranks, code, text):
    """None when the run is as expected, else what is wrong."""
    expect = row["expect"] or "ok"
    if code == "timeout":
        return "no end within its time"
    if expect == "ok":
        if code != 0:
            return f"exit code {code}"
        if not re.search(rf"^ok {re.escape(row['name'])} checks=[1-9]\d*$", text, re.M):
            return "no success line"
        return None
    kind, _, value = expect.partition("=")
    if kind == "fail":
        if code == 0:
            return "exit code 0 where a failure was due"
    elif kind == "exit":
        if code != int(value):
            return f"exit code {code}, expected {value}"
    else:
        return f"programs.csv: unknown expectation {expect}"
    return "continued where the job was to end" if "not reached" in text else None


def run_program(row, options, folder, environment):
    """(status, seconds, notes) of one program over all its numbers of ranks."""
    begin = time.monotonic()
    target, problem = compile_once(row, options, folder)
    if problem:
        return "FAILED", time.monotonic() - begin, "does not compile:\n" + problem
    checks, notes, skips = 0, [], 0
    ranks_list = (options.ranks or row["ranks"]).split()
    for ranks in ranks_list:
        launcher = options.mpirun.replace("{ranks}", ranks)
        command = shlex.split(launcher) + ["-n", ranks] + shlex.split(options.through)
        command += [str(target)] + row["args"].split()
        code, text = run_command(command, float(row["timeout"]) * options.timeout_factor,
                                 environment)
        if code == SKIP_CODE or re.search(rf"^skip {re.escape(row['name'])}", text, re.M):
            skips += 1
            continue
        wrong = judge(row, ranks, code, text)
        if wrong:
            tail = "\n".join("    " + line for line in text.splitlines()[-25:])
            notes.append(f"  {ranks} ranks: {wrong}: {shlex.join(command)}\n{tail}")
        found = re.search(r"checks=(\d+)", text)
        checks += int(found[1]) if found else 0
    seconds = time.monotonic() - begin
    if notes:
        return "FAILED", seconds, "\n".join(notes)
    if skips == len(ranks_list):
        return "skipped", seconds, "cannot run here"
    return "passed", seconds, f"ranks {' '.join(ranks_list)}, {checks} checks"


def main():
    options = parse_arguments()
    if not options.mpicxx:
        name = Path(options.mpicc).name.replace("mpicc", "mpicxx")
        options.mpicxx = str(Path(options.mpicc).with_name(name))
    rows = read_programs(options.only)
    if options.list:
        print("\n".join(f"{r['name']:28} ranks {r['ranks']}" for r in rows))
        return 0
    environment = dict(os.environ)
    environment.update(e.split("=", 1) for e in options.env)
    # Not what `pomona tune` has measured here, as in a quickstart: some programs look for what one
    # algorithm does.
    environment.setdefault("POMONA_LINKS", "built-in")
    environment.setdefault("POMONA_CHOICES", "none")
    environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    totals = {"passed": 0, "FAILED": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="pomona-programs-") as temporary:
        folder = options.build or temporary
        Path(folder).mkdir(parents=True, exist_ok=True)
        version, library = probe(options.mpicc, temporary)

        world = None
        if options.hosts:
            sys.path.insert(0, str(HERE.parent))
            import host_world
            if not host_world.possible():
                return SKIP_CODE
            world = host_world.HostWorld(options.hosts)
            environment.setdefault("POMONA_LEARN_LINKS", "no")  # other tests' hosts have the same names
            options.mpirun += f" --ssh {world.enter} --host {world.names()}"

        def work(row):
            reason = missing(row, version, library, options)
            if reason:
                return row, ("skipped", 0.0, reason)
            return row, run_program(row, options, folder, environment)

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for task in concurrent.futures.as_completed([pool.submit(work, r) for r in rows]):
                row, (status, seconds, notes) = task.result()
                totals[status] += 1
                if status == "FAILED":
                    print(f"{status} {row['name']:26} {seconds:6.1f} s\n{notes}", flush=True)
                else:
                    print(f"{status} {row['name']:26} {seconds:6.1f} s  {notes}", flush=True)
        if world:
            world.close()
    print(f"{totals['passed']} passed, {totals['FAILED']} failed, {totals['skipped']} skipped")
    return 1 if totals["FAILED"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
