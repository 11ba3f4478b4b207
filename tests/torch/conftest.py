"""How the ranks are launched.

POMONA_BUILD    build folder (default: build/release of the repository); gives bin/mpirun and python/pomona
POMONA_TOOLS    folder of mpirun and pomona, if it is not the build folder's bin
POMONA_MPIRUN   another launcher, e.g. "mpiexec.hydra"
POMONA_HOSTS    over so many hosts, which are network namespaces of this machine (root on Linux); what
                cannot is skipped, and so is what has two ranks where there are more hosts
PYTHON          Python with torch (default: the one that runs pytest)
TEST_PRELOAD    LD_PRELOAD of the ranks: the runtimes of sanitizers, which must come before Python
TEST_PATIENCE   factor of all time limits, for what runs slowly
TEST_FRESH      each process imports torch itself: debuggers, and mpirun's --stack-traces, see it
TEST_AGAIN      only what failed in the last run with the same cache_dir, if something did
"""

import contextlib
import functools
import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = Path(os.environ.get("POMONA_BUILD", ROOT / "build" / "release"))
TOOLS = Path(os.environ.get("POMONA_TOOLS", BUILD / "bin"))
PYTHON = os.environ.get("PYTHON", sys.executable)
PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))
PRELOADED = {"LD_PRELOAD": os.environ["TEST_PRELOAD"]} if "TEST_PRELOAD" in os.environ else {}
AGAIN = "TEST_AGAIN" in os.environ
STACKS_TIME = 60  # for the stacks of all ranks, and the end
HOSTS = int(os.environ.get("POMONA_HOSTS", "0"))
# Not where a library is in the way of fork() after `import torch` (Apple's, CUDA's, the thread
# sanitizer's), and not where ranks are to be started in another way.
FORKS = sys.platform == "linux" and not {
    "TEST_DEVICE", "TEST_FRESH", "POMONA_HOSTS", "POMONA_MPIRUN", "fabric"} & set(os.environ)


def pytest_collection_modifyitems(config, items):
    cache = getattr(config, "cache", None)  # "-p no:cacheprovider"
    failed = cache.get("cache/lastfailed", {}) if AGAIN and cache else {}
    if not failed:  # a run that was cut off leaves none
        return
    config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in failed])
    items[:] = [each for each in items if each.nodeid in failed]


class Outcome:
    def __init__(self, command, code, text):
        self.command, self.code, self.text = command, code, text

    def __str__(self):
        return f"exit code {self.code} of: {shlex.join(self.command)}\n{self.text[-6000:]}"


def launcher(ranks, env=None, options=()):
    """The words before a rank's program; `options` are our mpirun's."""
    given = os.environ.get("POMONA_MPIRUN")
    if HOSTS:
        handed = [word for name in env or {} for word in ("-x", name)]
        return [sys.executable, "-B", str(HERE.parent / "host_world.py"), str(HOSTS), str(TOOLS / "mpirun"),
                "--host", "HOSTS", "-n", str(ranks), *handed, *options]
    if given:
        return [*shlex.split(given), "-n", str(ranks)]
    through = os.environ["through"].split() if "fabric" in os.environ else []  # of tests/programs/rdma.sh
    return [str(TOOLS / "mpirun"), "--oversubscribe", "-n", str(ranks), *options, *through]


def address_of(rank):
    """Where a rank of a job with one rank on each host, or all on this machine, is reached."""
    return f"10.213.7.{rank + 1}" if HOSTS else "127.0.0.1"


def on_one_machine(why):
    """Of a test that says nothing about hosts, or cannot run on several."""
    if HOSTS:
        pytest.skip(f"POMONA_HOSTS: {why}")


def environment(**more):
    """Of a process that finds the package that was built."""
    here = {name: value for name, value in os.environ.items()
            if name not in ("POMONA_HOSTS", "POMONA_TOOLS")}  # no parameters
    here = {**here, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **PRELOADED, **more}
    if (BUILD / "python" / "pomona").is_dir():
        paths = [str(BUILD / "python"), here.get("PYTHONPATH", "")]
        here["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return here


@functools.cache
def forks():
    """The process of forks.py, which ends when its input does."""
    folder = tempfile.mkdtemp(prefix="pomona-forks-")
    process = subprocess.Popen([PYTHON, str(HERE / "forks.py"), f"{folder}/socket"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=environment())
    process.folder = folder
    script = Path(folder, "python")
    script.write_text(f"#!/bin/sh\nexec {shlex.quote(PYTHON)} -S {shlex.quote(str(HERE / 'forked.py'))} \"$@\"\n")
    script.chmod(0o755)
    assert in_forks([], Path(folder, "output"), 60, process) == []  # it listens now
    return process


def pytest_sessionfinish():
    if forks.cache_info().currsize:
        forks().stdin.close()
        forks().wait(60)
        shutil.rmtree(forks().folder)


def in_forks(commands, output, seconds, process=None):
    """The exit codes of processes, (command, environment) each; [] if one does not end in time."""
    output.touch()
    process = process or forks()
    process.stdin.write(json.dumps([commands, str(output), seconds]) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, f"{HERE / 'forks.py'} has ended: {process.wait()}"
    return json.loads(answer) or []


def free_port():
    """Of those that the system gives to nobody by itself: not even to a connection that another
    program opens before this port is used."""
    while True:
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", random.randrange(20000, 32768)))
            except OSError:
                continue
            return one.getsockname()[1]


def variables():
    return {"RANK": "{rank}", "WORLD_SIZE": "{size}", "LOCAL_RANK": "{rank}", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port())}


def ended(process):
    """What a job has printed that is ended now: politely, then all that is left of its session."""
    process.terminate()
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=10)[0]  # mpirun's watchdog and agents see to its ranks
    except subprocess.TimeoutExpired as still:
        return (still.output or b"").decode(errors="replace") + "\n(somebody still holds its output)"


def python(fresh, env=None):
    """The words that start a Python program, and what is to be in its environment. Unless it is to
    be `fresh`, it has torch from another process, which has imported it once for all tests
    (forked.py), and so has each Python that it starts, if it is torchrun."""
    if fresh or not FORKS or any(name.startswith("TORCH") for name in env or {}):  # torch looks at these early
        return [PYTHON], {}
    script = f"{forks().folder}/python"
    return [script], {"TEST_FORKS": f"{forks().folder}/socket", "PYTHON_EXEC": script}


def launch(ranks, *program, timeout=120, env=None, prefix=None, fresh=False):
    """Runs a Python program on `ranks` ranks. One that does not end in time has failed: our mpirun
    tells who waits for whom and where each rank is, and ends it on all hosts.

    fresh: each rank imports torch itself, as a user's does.
    """
    if prefix == []:
        on_one_machine("mpirun does not start it")
    elif ranks < min(HOSTS, 3):
        on_one_machine("too few ranks for so many hosts")
    started, more = python(fresh or prefix == [], env)
    if more:
        more["TEST_STACKS"] = str(0.95 * timeout * PATIENCE)  # mpirun would look at the wrong process
    own = prefix is None and "POMONA_MPIRUN" not in os.environ
    watched = ["--timeout", str(timeout * PATIENCE), *([] if more else ["--stack-traces"])] if own else []
    command = [*(launcher(ranks, env, watched) if prefix is None else prefix), *started, *map(str, program)]
    whole = environment(**more, **(env or {}))
    timeout *= PATIENCE
    if HOSTS:
        whole.setdefault("GLOO_SOCKET_IFNAME", "eth0")  # the hosts' names are not known to gloo
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=whole, start_new_session=True
    )
    try:
        text, _ = process.communicate(timeout=timeout + (STACKS_TIME if own else 0))
    except subprocess.TimeoutExpired:
        pytest.fail(f"no end within {timeout} s: {shlex.join(command)}\n{ended(process)[-12000:]}")
    if own and process.returncode == 124:
        pytest.fail(f"no end within {timeout} s: {shlex.join(command)}\n{text[-12000:]}")
    if process.returncode == 77 and HOSTS:  # of host_world.py
        pytest.skip("hosts as namespaces need root on Linux")
    return Outcome(command, process.returncode, text)


def launch_forks(ranks, *program, timeout=120, env=None):
    """As launch(), at a fraction of its cost, for what is alike whoever has started the ranks: each
    file of ranks runs under mpirun, too."""
    if not FORKS:
        return launch(ranks, *program, timeout=timeout, env=env)
    shared, command = variables(), list(map(str, program))
    commands = []
    for rank in range(ranks):
        own = {name: value.format(rank=rank, size=ranks) for name, value in shared.items()}
        commands.append((command, environment(**own, **(env or {}))))
    with tempfile.TemporaryDirectory(prefix="pomona-forks-") as folder:
        output = Path(folder, "output")
        codes = in_forks(commands, output, timeout * PATIENCE)
        text = output.read_text(errors="replace")
    if not codes:
        pytest.fail(f"no end within {timeout * PATIENCE} s: {shlex.join(command)}\n{text[-12000:]}")
    first = next((code for code in codes if code), 0)
    return Outcome(command, first if first >= 0 else 128 - first, text)
