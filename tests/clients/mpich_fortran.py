#!/usr/bin/env python3
"""Runs the Fortran programs of MPICH's test suite (f77, f90, f08) with our mpifort and mpirun.

Usage: mpich_fortran.py BUILD [--work FOLDER] [FOLDER OF THE SUITE...]
Source: Debian's source package mpich (test/mpi), fetched by apt from where the system's packages
come, into the work folder, from which nothing is kept. What fails by the suite's own fault, or
since MPI has changed, is listed below with the reason; anything else that fails, and anything
listed that passes, is an error.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Where this system has its packages from, asked of apt.
SOURCE_LINE = "deb-src $(REPO_URI) $(CODENAME) $(COMPONENT)"
NEWER = "wants MPI 4 or older"
REMOVED = "uses constants that MPI 3.0 has removed"
EXPECTED = {
    "f77/datatype/typecntsf": REMOVED,
    "f77/datatype/allctypesf": REMOVED,
    "f90/datatype/allctypesf90": REMOVED,
    "f08/datatype/allctypesf08": REMOVED,
    "f77/init/baseenvf": NEWER,
    "f90/init/baseenvf90": NEWER,
    "f08/init/baseenvf90": NEWER,
    "f77/rma/aintf": "declares MPI_AINT_ADD, which mpif.h declares (in Open MPI too)",
    "f90/coll/alltoallvf90": "passes arrays of datatypes to MPI_ALLTOALLV",
    "f90/coll/split_typef90": "passes arrays of datatypes to MPI_ALLTOALLV",
    "f90/profile/profile1f90": "a procedure named MPI_SEND uses the module mpi",
    "f08/pt2pt/greqf08": "wants an INTENT(IN) argument to change",
    "f08/io/c2f2ciof90": "its C part does not compile (errs is not declared)",
    "f08/spawn/spawnargvf90": "wants leading blanks of arguments kept; f77 and f90 want them stripped",
    "f08/spawn/spawnargvf03": "wants leading blanks of arguments kept; f77 and f90 want them stripped",
}


def apt(work, *arguments):
    parts, lists = work / "parts", work / "lists"
    parts.mkdir(exist_ok=True)
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    lines = subprocess.run(["apt-get", "indextargets", "--format", SOURCE_LINE,
                            "Created-By: Packages", "Origin: Debian"],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    if not lines:
        sys.exit("the suite is taken from Debian's packages, which this system has not")
    (parts / "source.list").write_text("".join(line + "\n" for line in sorted(set(lines))))
    subprocess.run(["apt-get", "-qq", "-o", "Dir::Etc::SourceList=/dev/null",
                    "-o", f"Dir::Etc::SourceParts={parts}", "-o", f"Dir::State::Lists={lists}",
                    *arguments], cwd=work, check=True, stderr=subprocess.DEVNULL)


def prepare(work, build, environment):
    """The configured suite, with what its programs share."""
    if not list(work.glob("mpich_*.orig.tar.xz")):
        apt(work, "update")
        apt(work, "source", "--download-only", "mpich")
    archive = next(work.glob("mpich_*.orig.tar.xz"))
    if not list(work.glob("mpich-*/test/mpi")):
        subprocess.run(["tar", "xf", archive.name], cwd=work, check=True)
    suite = next(work.glob("mpich-*/test/mpi"))

    def run(*command):
        with open(work / "log", "a") as log:
            subprocess.run(command, cwd=suite, env=environment, check=True, stdout=log, stderr=log)
    if not (suite / "config.status").exists():
        flags = "-fallow-argument-mismatch -w"
        run("./configure", "--enable-fortran=all", "--disable-cxx", f"--with-mpi={build}", "CC=mpicc",
            "F77=mpif77", "FC=mpif90", f"FFLAGS={flags}", f"FCFLAGS={flags}")
    # Its own check for mpi_f08 counts only inside MPICH's build.
    makefile = suite / "util/Makefile"
    text = makefile.read_text()
    for name in ("am_libmtest_f08_la_OBJECTS", "libmtest_f08_la_SOURCES", "am_libmtest_f08_la_rpath"):
        text = text.replace("#" + name, name)
    makefile.write_text(text)
    run("make", "-s", "-C", "util", "libmtest_f77.la", "libmtest_f90.la", "libmtest_f08.la")
    run("make", "-s", "-C", "dtpools")
    return suite


def programs(suite, folders):
    for top in folders:
        for testlist in sorted((suite / top).rglob("testlist")):
            for line in testlist.read_text().splitlines():
                words = line.split("#")[0].split()
                if len(words) >= 2 and words[1].isdigit():
                    yield testlist.parent, words[0], words[1]


def passes(folder, name, ranks, mpirun, environment):
    if subprocess.run(["make", "-s", name], cwd=folder, env=environment, capture_output=True).returncode:
        return "does not compile"
    try:
        found = subprocess.run([mpirun, "--oversubscribe", "-n", ranks, "./" + name], cwd=folder,
                               env=environment, capture_output=True, text=True, timeout=120,
                               stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "did not end"
    good = found.returncode == 0 and "No Errors" in found.stdout
    return "" if good else (found.stdout + found.stderr).strip()[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("folders", nargs="*", default=["f77", "f90", "f08"])
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    bin_folder = (options.build / "bin").resolve()
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        suite = prepare(work, options.build.resolve(), environment)
        good = known = wrong = 0
        for folder, name, ranks in programs(suite, options.folders):
            full = f"{folder.relative_to(suite)}/{name}"
            fault = passes(folder, name, ranks, bin_folder / "mpirun", environment)
            if bool(fault) != (full in EXPECTED):
                wrong += 1
                print(f"{full} on {ranks}: {fault or 'passes, and is listed as failing'}", flush=True)
            elif fault:
                known += 1
                print(f"{full}: fails, as it must: {EXPECTED[full]}", flush=True)
            else:
                good += 1
    print(f"{good} pass, {known} fail for known reasons, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
