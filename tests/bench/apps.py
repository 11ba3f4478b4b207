"""apps.py: programs that others wrote over the candidate and its peers (`mpi-bench versus --apps`).

Each is built for every library by its recipe of tests/clients (sources from Debian's packages, or
of a public repository), runs with 2 and 4 ranks (those that want a cube or a square of ranks: with
such), and is judged by its own figure of merit, if it finds its own results right. Repetitions are
interleaved as in versus.py, and the rows go through the same tables. Needs the project's source
tree.
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
    command: str          # in `folder`; {ranks}, {rows} (half of them) and {size} are filled in
    figures: dict         # what a row is called -> what it looks like in the output, one number
    unit: str
    less_is_better: bool
    prepare: str = None   # shell, before each run; filled in likewise
    folder: str = ""      # where it runs, in the source folder: there its input lies
    written: str = None   # the file that it writes its figures to (a glob), read after its output
    proof: str = None     # what it prints if its results are right
    ranks: tuple = (2, 4)


SIZES = {False: 2000, True: 500}  # of HPCC's matrix, by --quick
HPCC_INPUT = """sed -e '5s/.*/1 number/;6s/.*/{size} N/' -e '7s/.*/1 number/;8s/.*/64 NB/' \
    -e '10s/.*/1 number/;11s/.*/{rows} P/;12s/.*/2 Q/' _hpccinf.txt > hpccinf.txt; rm -f hpccoutf.txt"""


def hpcc(name, unit, less_is_better, **figures):
    patterns = {label.replace("_", " "): rf"^{key}=([\d.eE+-]+)" for label, key in figures.items()}
    return App("hpcc", name, "./hpcc", patterns, unit, less_is_better, HPCC_INPUT, written="hpccoutf.txt")


def npb(program, size, ranks=(2, 4)):
    return App("npb", "NPB", f"bin/{program}.{size}.{{ranks}}",
               {f"{program.upper()} {size}": r"Mop/s total *= *([\d.]+)"}, "Mop/s", False,
               proof=r"Verification *= *SUCCESSFUL", ranks=ranks)


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
] + [
    # By what each sends: sums and transposed vectors; one alltoall; short messages down a
    # wavefront; halos of all sizes; one alltoallv; faces along lines of ranks.
    npb("cg", "A"), npb("ft", "A"), npb("lu", "W"), npb("mg", "A"), npb("is", "B"),
    npb("bt", "W", (4,)), npb("sp", "W", (4,)),
    App("lulesh", "LULESH", "./lulesh2.0 -s 12 -i 200", {"FOM": r"FOM *= *([\d.]+)"}, "zones/s", False,
        proof=r"MaxRelDiff *= *[\d.]+e-1\d", ranks=(8,)),
    App("comd", "CoMD", "./CoMD-mpi -x 20 -y 20 -z 20 -i {rows} -j 2 -k 1 -N 50",
        {"Lennard-Jones": r"^loop +1 +([\d.]+)"}, "s", True, proof="no atoms lost"),
    # It gives no time where a sum of its blocks is not as before.
    App("miniamr", "miniAMR", "./miniAMR.x --npx 2 --npy {rows} --npz 1 --num_refine 4 --max_blocks 3000 "
        "--nx 8 --ny 8 --nz 8 --num_vars 4 --num_tsteps 10 --num_objects 1 "
        "--object 2 0 -0.95 -0.95 -0.95 0.04 0.04 0.04 1.7 1.7 1.7 0.0 0.0 0.0",
        {"refined": r"^Summary: .* time ([\d.]+)"}, "s", True, proof=r"^Summary: .* time 0*\.?0*[1-9]"),
    App("hpcg", "HPCG", "./xhpcg --nx=16 --ny=16 --nz=16 --rt=2",
        {"rating": r"VALID with a GFLOP/s rating of[:=] *([\d.]+)"}, "GFlop/s", False,
        "rm -f HPCG-Benchmark*.txt hpcg2*.txt", written="HPCG-Benchmark*.txt"),
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
    sizes = {"size": SIZES[args.quick], "ranks": ranks, "rows": ranks // 2}
    if app.prepare:
        subprocess.run(["sh", "-c", app.prepare.format(**sizes)], cwd=where, check=True, timeout=60)
    program, *arguments = app.command.format(**sizes).split()
    launcher, *options = library.launch(ranks)
    command = [os.path.abspath(launcher), *options, program, *arguments]  # it runs elsewhere
    try:
        done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True,
                              timeout=args.timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, f"no end within {args.timeout} s"
    if done.returncode and not (where / program).exists():  # a library without Fortran
        return None, f"{program} was not built"
    if done.returncode:
        return None, (done.stderr + done.stdout)[-400:]
    written = where.glob(app.written) if app.written else []
    text = done.stdout + "".join(path.read_text() for path in written)
    if app.proof and not re.search(app.proof, text, re.M):
        return None, f"does not say '{app.proof}' of its results: {text[-400:]}"
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
    every = [(app, ranks) for app in APPS for ranks in app.ranks
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
