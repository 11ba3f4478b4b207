"""torch_versus.py: torch.distributed over the candidate against gloo (`mpi-bench versus --torch`).

Both run torch_bench.py with two ranks: gloo's are started here, the candidate's by its mpirun.
Repetitions are interleaved as in versus.py, and the rows go through the same tables. The package
`pomona` must be importable by --python (installed, or its build folder in PYTHONPATH).
"""

import json
import os
import socket
import subprocess
from pathlib import Path

import peers
from compare import Goal

SCRIPT = Path(__file__).resolve().parent / "torch_bench.py"
GLOO = "gloo"


class Gloo:
    name, version, source = GLOO, "torch's own", "torch"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_gloo(command, timeout):
    """Two processes as torchrun would start them; what the first failing one said, or nothing."""
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="2")
    ranks = [subprocess.Popen(command, env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for rank in range(2)]
    try:
        said = [rank.communicate(timeout=timeout)[0] for rank in ranks]
    except subprocess.TimeoutExpired:
        return f"no end within {timeout} s"
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    return next((text[-400:] for rank, text in zip(ranks, said) if rank.returncode != 0), None)


def candidate_environment(library):
    env = library.environment("shm")
    built = Path(library.mpirun).resolve().parent.parent / "python"
    if (built / "pomona").is_dir():  # a build tree
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(built), env.get("PYTHONPATH")]))
    return env


def run_candidate(library, command, timeout):
    try:
        done = subprocess.run(library.launch(2) + command, env=candidate_environment(library),
                              capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"no end within {timeout} s"
    return (done.stderr + done.stdout)[-400:] if done.returncode != 0 else None


def measure(args, run, libraries, Group, say, groups):
    """Runs the repetitions; adds the groups whose rows were recorded."""
    if not args.torch:
        return
    if peers.output_of([args.python, "-c", "import torch"], 120) is None:
        say(f"--torch: {args.python} has no torch; name one that has with --python")
        return
    candidate = libraries[0]
    probe = subprocess.run([args.python, "-c", "import importlib.util as u, sys; "
                            "sys.exit(u.find_spec('pomona') is None)"],
                           env=candidate_environment(candidate), check=False)
    if candidate.kind == "pomona" and probe.returncode != 0:
        say(f"--torch: {args.python} has no package pomona: install it with pip, or set PYTHONPATH")
        return
    report = Path(run.scratch) / "torch.json"
    sizes = "4,16384,4194304" if args.quick else "4,256,4096,16384,65536,262144,1048576,4194304"
    models = "small" if args.quick else "small,large"
    common = [args.python, str(SCRIPT), "--sizes", sizes, "-t", str(args.time),
              "--ddp-models", models, "--json", str(report)]
    for repetition in range(args.repeat):
        turns = [(Gloo, lambda c: run_gloo(c, args.timeout), GLOO)]
        if candidate.kind == "pomona":
            turns.append((candidate, lambda c: run_candidate(candidate, c, args.timeout), "mpi"))
        for library, start, backend in turns[::-1 if repetition % 2 else 1]:
            report.unlink(missing_ok=True)
            problem = start(common + ["--backend", backend])
            if problem or not report.exists():
                run.failures.append(f"{library.name}: torch: {problem or 'no result'}")
                continue
            for row in json.loads(report.read_text())["rows"]:
                record(run, groups, Group, library, repetition, row, args.statistic)


def record(run, groups, Group, library, repetition, row, statistic):
    ddp = row["case"].startswith("ddp")
    name = "torch DDP, 2 ranks" if ddp else f"torch {row['case']}, 2 ranks"
    group = next((g for g in groups if g.name == name), None)
    if not group:
        goal = Goal(None, 0.35) if row["case"] == "all_reduce" else None
        group = Group(name, row["case"], "us", goal=goal, tags=("torch",))
        groups.append(group)
    size = 0 if ddp else row["bytes"]
    label = row["case"][4:] if ddp else f"{size} B"
    run.record(group, label, size, library, repetition, row[f"{statistic}_us"])
