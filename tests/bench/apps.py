"""apps.py: programs that others wrote over the candidate and its peers (`mpi-bench versus --apps`).

Each is built for every library by its recipe of tests/clients (sources from Debian's packages),
runs with 2 and 4 ranks, and is judged by its own figure of merit. Repetitions are interleaved as in
versus.py, and the rows go through the same tables. Needs the project's source tree.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import peers
from compare import Goal, is_chosen

ROOT = Path(__file__).resolve().parent.parent.parent
CLIENTS = ROOT / "tests" / "clients"
BUILD_SECONDS = 1800


@dataclass
class App:
    """A program in a client's source folder, and what it prints of itself."""
    client: str
    name: str
    command: str          # in `folder`
    figures: dict         # what a row is called -> what it looks like in the output, one number
    unit: str
    less_is_better: bool
    prepare: str = None   # shell, before each run; {size} and {rows} are filled in
    folder: str = ""      # where it runs, in the source folder: there its input lies


WRITTEN = "hpccoutf.txt"
SIZES = {False: 2000, True: 500}  # of HPCC's matrix, by --quick
HPCC_INPUT = """sed -e '5s/.*/1 number/;6s/.*/{size} N/' -e '7s/.*/1 number/;8s/.*/64 NB/' \
    -e '10s/.*/1 number/;11s/.*/{rows} P/;12s/.*/2 Q/' _hpccinf.txt > hpccinf.txt; rm -f hpccoutf.txt"""


def hpcc(name, unit, less_is_better, **figures):
    patterns = {label.replace("_", " "): rf"^{key}=([\d.eE+-]+)" for label, key in figures.items()}
    return App("hpcc", name, "./hpcc", patterns, unit, less_is_better, HPCC_INPUT)


APPS = [
    hpcc("HPCC throughput", "TFlop/s HPL, GFlop/s FFT, GUP/s random access, else GB/s", False, HPL="HPL_Tflops",
         PTRANS="PTRANS_GBs", random_access="MPIRandomAccess_GUPs",
         random_access_LCG="MPIRandomAccess_LCG_GUPs", FFT="MPIFFT_Gflops",
         ring_in_order="NaturallyOrderedRingBandwidth_GBytes",
         ring_at_random="RandomlyOrderedRingBandwidth_GBytes",
         ping_pong="AvgPingPongBandwidth_GBytes"),
    hpcc("HPCC latency", "us", True, ping_pong="AvgPingPongLatency_usec",
         ring_in_order="NaturallyOrderedRingLatency_usec",
         ring_at_random="RandomlyOrderedRingLatency_usec"),
] + [
    App("fftw", "FFTW", f"mpi/mpi-bench -oestimate -s {problem}", {problem: r"``mflops'': ([\d.]+)"},
        "MFlop/s", False) for problem in ("1024", "65536", "256x256", "1024x1024", "64x64x64")
] + [
    # Of its 100 steps, without what comes before them.
    App("lammps", "LAMMPS", f"../src/lmp_mpi -in in.{problem} -log none", {problem: r" ([\d.]+) timesteps/s"},
        "timesteps/s", False, folder="bench") for problem in ("lj", "eam", "chain", "rhodo")
]


TAGS = ("apps",)


def group_name(app, ranks):
    return f"{app.name}, {ranks} ranks"


def compilers_of(library):
    return Path(library.mpicxx or Path(library.mpirun).parent / "mpicxx").parent


def word_of(library):
    """What tests/clients calls a library; Debian has several in one folder, told apart by name."""
    if library.kind == "pomona" or compilers_of(library) == Path("/usr/bin"):
        return library.kind
    return re.sub(r"[^\w.]+", "-", library.name)


def build(folder, library, client):
    """What is wrong, or nothing."""
    env = dict(library.environment("shm"), CLIENT_STEP="build",
               POMONA_BUILD=str(Path(library.mpirun).resolve().parent.parent))
    env.pop("POMONA_CLIENTS", None)  # no parameter of the library
    if word_of(library) != library.kind:
        env["CLIENT_COMPILERS"] = str(compilers_of(library))
    command = ["bash", "-eu", "-o", "pipefail", str(CLIENTS / "client.sh"), str(ROOT), client,
               str(folder), word_of(library)]
    (folder / word_of(library) / client).mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True,
                              timeout=BUILD_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"does not build in {BUILD_SECONDS} s"
    return (done.stdout + done.stderr).strip()[-400:] if done.returncode else None


def output_of(app, library, folder, ranks, args):
    """What a run printed, with the file that HPCC writes instead; or (None, why)."""
    source = folder / word_of(library) / app.client / "source"
    where = source / app.folder
    env = library.environment("shm")
    env.pop("POMONA_CLIENTS", None)
    path = source.parent / "library_path.txt"  # of what was unpacked for it, BLAS for one
    if path.exists() and path.read_text():
        env["LD_LIBRARY_PATH"] = path.read_text()
    if app.prepare:
        words = app.prepare.format(size=SIZES[args.quick], rows=ranks // 2)
        subprocess.run(["sh", "-c", words], cwd=where, check=True, timeout=60)
    launcher, *options = library.launch(ranks)
    command = [os.path.abspath(launcher), *options, *app.command.split()]  # it runs elsewhere
    try:
        done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True,
                              timeout=args.timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, f"no end within {args.timeout} s"
    if done.returncode:
        return None, (done.stderr + done.stdout)[-400:]
    written = where / WRITTEN
    text = done.stdout + (written.read_text() if app.client == "hpcc" else "")
    return text, None


def measure(args, run, libraries, Group, say, groups):
    """Runs the repetitions; adds the groups whose rows were recorded."""
    if not args.apps:
        return
    if not CLIENTS.is_dir():
        say("--apps: needs Pomona's source tree, whose tests/clients builds the programs")
        return
    folder = Path(os.environ.get("POMONA_CLIENTS") or peers.cache_folder() / "clients")
    folder.mkdir(parents=True, exist_ok=True)
    every = [(app, ranks) for app in APPS for ranks in (2, 4)
             if is_chosen(args, group_name(app, ranks), TAGS)]
    if not every:
        return say(f"--apps: no program matches --only {args.only} and --skip {args.skip}")
    built = {}
    for library in libraries:
        for client in dict.fromkeys(app.client for app, _ in every):
            say(f"building {client} for {library.name}")
            problem = build(folder, library, client)
            built[library.name, client] = problem is None
            if problem:
                run.failures.append(f"{library.name}: {client}: {problem}")
    for repetition in range(args.repeat):
        turn = repetition % len(libraries)
        for app, ranks in every:
            for library in libraries[turn:] + libraries[:turn]:
                if built[library.name, app.client]:
                    once(args, run, groups, Group, library, repetition, app, ranks, folder)


def once(args, run, groups, Group, library, repetition, app, ranks, folder):
    name = group_name(app, ranks)
    group = next((g for g in groups if g.name == name), None)
    if not group:
        group = Group(name, app.client, app.unit, ranks=ranks, less_is_better=app.less_is_better,
                      goal=Goal(None, 1.0), tags=TAGS)
        groups.append(group)
    text, problem = output_of(app, library, folder, ranks, args)
    if problem:
        run.fail(library, group, problem)
        return
    for at, (label, pattern) in enumerate(app.figures.items()):
        found = re.search(pattern, text, re.M)
        if not found:
            run.fail(library, group, f"prints no {label}")
            continue
        run.record(group, label, at, library, repetition, float(found[1]))
