"""How the ranks are launched.

POMONA_BUILD    build folder (default: build/release of the repository); gives bin/mpirun and python/pomona
POMONA_TOOLS    folder of mpirun and pomona, if it is not the build folder's bin
POMONA_MPIRUN   another launcher, e.g. "mpiexec.hydra"
POMONA_HOSTS    over so many hosts, which are network namespaces of this machine (root on Linux)
PYTHON          Python with torch (default: the one that runs pytest)
TEST_PRELOAD    LD_PRELOAD of the ranks: the runtimes of sanitizers, which must come before Python
TEST_PATIENCE   factor of all time limits, for what runs slowly
TEST_AGAIN      only what failed in the last run with the same cache_dir, if something did
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
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
    hosts = os.environ.get("POMONA_HOSTS")
    if hosts:
        handed = [word for name in env or {} for word in ("-x", name)]
        return [sys.executable, "-B", str(HERE.parent / "host_world.py"), hosts, str(TOOLS / "mpirun"),
                "--host", "HOSTS", "-n", str(ranks), *handed, *options]
    if given:
        return [*shlex.split(given), "-n", str(ranks)]
    through = os.environ["through"].split() if "fabric" in os.environ else []  # of tests/programs/rdma.sh
    return [str(TOOLS / "mpirun"), "--oversubscribe", "-n", str(ranks), *options, *through]


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


def launch(ranks, *program, timeout=120, env=None, prefix=None):
    """Runs a Python program on `ranks` ranks. One that does not end in time has failed: our mpirun
    tells who waits for whom and where each rank is, and ends it on all hosts."""
    own = prefix is None and "POMONA_MPIRUN" not in os.environ
    watched = ["--timeout", str(timeout * PATIENCE), "--stack-traces"] if own else []
    command = [*(launcher(ranks, env, watched) if prefix is None else prefix), PYTHON, *map(str, program)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **PRELOADED, **(env or {})}
    timeout *= PATIENCE
    if "POMONA_HOSTS" in os.environ:
        environment.setdefault("GLOO_SOCKET_IFNAME", "eth0")  # the hosts' names are not known to gloo
    if (BUILD / "python" / "pomona").is_dir():
        paths = [str(BUILD / "python"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )
    try:
        text, _ = process.communicate(timeout=timeout + (STACKS_TIME if own else 0))
    except subprocess.TimeoutExpired:
        pytest.fail(f"no end within {timeout} s: {shlex.join(command)}\n{ended(process)[-12000:]}")
    if own and process.returncode == 124:
        pytest.fail(f"no end within {timeout} s: {shlex.join(command)}\n{text[-12000:]}")
    if process.returncode == 77 and "POMONA_HOSTS" in os.environ:  # of host_world.py
        pytest.skip("hosts as namespaces need root on Linux")
    return Outcome(command, process.returncode, text)
