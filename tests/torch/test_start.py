"""Ways to start without mpirun: by hand, by torchrun, once and again after a worker's death."""

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import (FORKS, HERE, HOSTS, PATIENCE, PYTHON, ROOT, TOOLS, environment, free_port, in_forks, launch,
                      on_one_machine, python, variables)

PROGRAM = str(HERE / "ranks_start.py")
LIMIT = 150 * PATIENCE  # seconds, for what takes ten


def begun(commands, output, fresh):
    """The exit codes of processes, (command, environment) each, or [] if not all end in time."""
    if FORKS and not fresh:
        return in_forks(commands, output, LIMIT)
    with output.open("w") as out:
        ranks = [subprocess.Popen([PYTHON, *command], env=env, stdout=out, stderr=out) for command, env in commands]
    try:
        return [rank.wait(LIMIT) for rank in ranks]
    except subprocess.TimeoutExpired:
        return []
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def by_hand(size, *arguments, program=PROGRAM, fresh=False, **more):
    """The exit codes and what all have said. Nothing of the job is left in TMPDIR, unless a rank
    was killed, and no shared memory but that one's.

    fresh: each process imports torch itself, as a user's does; others have it from their parent.
    All print to one file: what one print writes has to go there at once.
    """
    on_one_machine("by hand, not by mpirun")
    with tempfile.TemporaryDirectory(prefix="pomona-start-") as folder:
        output = Path(folder, "output")
        commands = []
        for rank in range(size):
            each = {name: value.format(rank=rank, size=size) for name, value in more.items()}
            command = [str(program), *(a.format(folder=folder) for a in arguments)]
            commands.append((command, environment(TMPDIR=folder, PYTHONUNBUFFERED="", **each)))
        codes = begun(commands, output, fresh)
        text = output.read_text()
        assert codes, "no end\n" + text
        left = sorted(Path(folder).glob("pomona-*"))
        shared = [each for job in left for each in Path("/dev/shm").glob(f"pomona-{job.name.split('-')[2]}-*")]
        for each in shared:
            each.unlink(missing_ok=True)  # or swept by another job that has started
        killed = codes.count(-signal.SIGKILL)
        assert len(shared) <= killed, (shared, text)
        assert killed or not left, (left, text)
    return codes, text


def test_by_hand():
    """What the others rely on: codes, signals, exit handlers, and an end that does not come."""
    on_one_machine("by hand, not by mpirun")
    code = ("import atexit, os, sys, time\natexit.register(print, 'at exit', flush=True)\n"
            "[lambda: None, lambda: sys.exit(7), lambda: 1 // 0, lambda: os.kill(os.getpid(), 9), lambda: time.sleep(99)]"
            "[int(sys.argv[1])]()\n")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        codes = begun([(["-c", code, str(number)], environment()) for number in range(4)], output, fresh=False)
        text = output.read_text()
        assert codes == [0, 7, 1, -9] and text.count("at exit") == 3 and "ZeroDivisionError" in text, (codes, text)
        assert not FORKS or in_forks([(["-c", code, "4"], environment())], output, 0.5) == [], output.read_text()
        assert not FORKS or "in <lambda>" in output.read_text(), output.read_text()


def gone(process):
    """Whether it ends within some time."""
    for _ in range(1000):
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not FORKS, reason="each program runs in the process that was started for it")
def test_stand_ins(tmp_path):
    """What whoever starts ranks sees of them, where each runs in a child of another process: codes,
    signals either way, what it was given, and that nobody outlives the other."""
    (begin, *_), more = python(fresh=False)
    code = ("import os, signal, sys, time\n"
            "print(os.getpid(), os.getcwd(), sorted(os.sched_getaffinity(0)), os.environ['MINE'], sys.stdin.read(),\n"
            "      'torch' in sys.modules, flush=True)\n"
            "[lambda: None, lambda: sys.exit(7), lambda: 1 // 0, lambda: os.kill(os.getpid(), 9), lambda: time.sleep(99)]"
            "[int(sys.argv[1])]()\n")
    processors = sorted(os.sched_getaffinity(0))[:1]
    for how, sent, seen in ((0, None, 0), (1, None, 7), (2, None, 1), (3, None, -9), (4, signal.SIGTERM, -15),
                            (4, signal.SIGKILL, -9)):
        process = subprocess.Popen([begin, "-c", code, str(how)], cwd=tmp_path, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: os.sched_setaffinity(0, processors),
                                   env=environment(MINE="mine", **more))
        process.stdin.write("words")
        process.stdin.close()
        program, *given = process.stdout.readline().split(maxsplit=1)
        assert given == [f"{tmp_path} {processors} mine words True\n"] and int(program) != process.pid, given
        if sent:
            process.send_signal(sent)
        assert process.wait(LIMIT) == seen, (how, sent)
        assert gone(program), (how, sent)
        assert ("ZeroDivisionError" in process.stdout.read()) == (how == 2), how


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("backend", ["mpi", "pomona", "cpu:mpi"])
def test_environment(size, backend):
    codes, text = by_hand(size, backend, "train", fresh=(size, backend) == (2, "mpi"), **variables())
    assert codes == [0] * size and text.count("all passed") == size, text


@pytest.mark.parametrize("method", ["tcp://127.0.0.1:{port}", "file://{{folder}}/store"])
def test_method(method):
    """rank and world_size are arguments, as torch's documentation has it for every other
    backend."""
    method = method.format(port=free_port())
    codes, text = by_hand(2, "mpi", "train", method, THE_RANK="{rank}", THE_SIZE="{size}")
    assert codes == [0, 0] and text.count("all passed") == 2, text


def test_port_of_a_group_that_has_ended():
    codes, text = by_hand(2, "mpi", "port", f"tcp://127.0.0.1:{free_port()}", THE_RANK="{rank}", THE_SIZE="{size}")
    assert codes == [0, 0] and text.count("all passed") == 2, text


def test_tcp():
    codes, text = by_hand(2, "mpi", "train", **variables(), POMONA_TRANSPORTS="self,tcp")
    assert codes == [0, 0] and text.count("all passed") == 2, text


def test_beside_gloo():
    codes, text = by_hand(2, "mpi", "beside", **variables())
    assert codes == [0, 0] and text.count("all passed") == 2, text


@pytest.mark.parametrize("transports", ["self,shm", "self,tcp"])
def test_killed(transports):
    """Nobody but the other ranks sees that one dies: they get an error long before the timeout."""
    codes, text = by_hand(3, "mpi", "killed", **variables(), POMONA_TRANSPORTS=transports)
    assert codes[1] == -signal.SIGKILL and text.count("met: ") == 2, (codes, text)


def test_another_job_begins_when_rank_0_has_died():
    """It removes what jobs have left of which nobody lives; here two do."""
    codes, text = by_hand(3, "mpi", "swept", **variables(), TOOLS=str(TOOLS))
    assert codes == [-signal.SIGKILL, 0, 0] and text.count("met: ") == 2, (codes, text)


def test_pomona_top_beside_it():
    codes, text = by_hand(2, "mpi", "looked_at", **variables(), TOOLS=str(TOOLS))
    assert codes == [0, 0] and text.count("all passed") == 2, (codes, text)


@pytest.mark.parametrize("how, dead, transports", [("first", 0, "self,tcp"), ("train", 1, "self,shm")])
def test_survived(how, dead, transports):
    """The others train on without a launcher, too, also without rank 0, which served the store: at
    the end they have one process's weights."""
    codes, text = by_hand(3, how, program=HERE / "ranks_shrink.py", **variables(), POMONA_TRANSPORTS=transports)
    assert codes[dead] == -signal.SIGKILL and sorted(codes) == [-signal.SIGKILL, 0, 0], (codes, text)
    assert text.count("all passed") == 2, text


@pytest.mark.parametrize("store", ["tcp", "file"])
def test_spawned(store, tmp_path):
    """torch.multiprocessing.spawn; each process brings a store. So does the one that spawns, a
    HashStore."""
    place = tmp_path / "store" if store == "file" else free_port()
    outcome = launch(1, HERE / "ranks_spawn.py", store, place, prefix=[])
    assert outcome.code == 0 and outcome.text.count("all passed") == 3, str(outcome)


def torchrun(*options, how="train", backend="mpi", program=PROGRAM, fresh=False):
    """fresh: it and each worker import torch themselves, as a user's do."""
    on_one_machine("by torchrun, not by mpirun; two_hosts.sh has that")
    started, more = python(fresh)
    how = [how] if isinstance(how, str) else how
    command = [*started, "-m", "torch.distributed.run", "--nproc-per-node", "2", *options, program, backend, *how]
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=LIMIT,
                          check=False)


@pytest.mark.parametrize("options", [["--standalone"], ["--master-port", "{port}"]])
def test_torchrun(options):
    done = torchrun(*(option.format(port=free_port()) for option in options), fresh=options == ["--standalone"])
    assert done.returncode == 0 and done.stdout.count("all passed") == 2, done.stdout + done.stderr


def test_torchrun_restarts():
    """A worker is killed: torchrun starts all of them once more, and they find each other again."""
    done = torchrun("--standalone", "--max-restarts", "1", how="restarted")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall("all passed", done.stdout)) == 2, done.stdout + done.stderr


def survive(count, *program, restarts=0, fresh=False):
    """By torchrun, which would end the others where one fails."""
    on_one_machine("by torchrun, not by mpirun")
    started, more = python(fresh)
    command = [*started, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count),
               "--max-restarts", str(restarts), "-m", "pomona_tools.survive", *map(str, program)]
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=LIMIT,
                          check=False)


@pytest.mark.parametrize("dead", [0, 1])
def test_torchrun_goes_on(dead, tmp_path):
    """Without a rank that was killed, in the same processes: what the others arrive at is, to the
    bit, what a job of their number does that starts from where they went on."""
    example, state = ROOT / "examples" / "ddp_survive.py", tmp_path / "state.pt"
    lost = survive(3, example, "--kill", f"{dead}:20", "--save", state, fresh=dead == 1)
    assert lost.returncode == 0, lost.stdout + lost.stderr
    assert f"step 20: lost [{dead}], going on with 2 ranks" in lost.stdout, lost.stdout
    assert f"rank {dead}'s program was ended by SIGKILL; waiting" in lost.stderr, lost.stderr
    assert f"the job has ended well without rank {dead}" in lost.stderr, lost.stderr
    if dead == 0:
        done = survive(2, example, "--resume", state)
        assert done.returncode == 0 and not re.search("survive: rank", done.stderr), done.stdout + done.stderr
        resumed = done.stdout
    else:
        codes, resumed = by_hand(2, "--resume", str(state), program=example, **variables())
        assert codes == [0, 0], resumed
    ends = [re.findall("(?m)^2 ranks, loss .*", text) for text in (lost.stdout, resumed)]
    assert len(ends[0]) == 1 and ends[0] == ends[1], ends


def test_torchrun_restarts_what_does_not_go_on():
    """Where the others fail as well, torchrun sees each rank's own end, and starts all again."""
    done = survive(2, PROGRAM, "mpi", "restarted", restarts=1)
    assert done.returncode == 0 and len(re.findall("all passed", done.stdout)) == 2, done.stdout + done.stderr
    done = survive(2, "-c", "import sys; sys.exit(5)")
    assert done.returncode == 1 and "exitcode  : 5" in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("missing, method", [(0, "file"), (1, "file"), (1, "env")])
def test_a_rank_that_never_comes(missing, method):
    """It ends before all have met, and the store tells nobody: the others hear its number at the
    end of their time, as an exception that a program can take."""
    method = {"file": "file://{folder}/store", "env": "env://"}[method]
    code = ("import datetime, os, sys, torch.distributed as dist\n"
            "rank = int(os.environ['MINE'])\n"
            f"if rank == {missing}: sys.exit(0)\n"
            "try: dist.init_process_group('mpi', init_method=sys.argv[1], rank=rank, world_size=3,\n"
            "                             timeout=datetime.timedelta(seconds=4))\n"
            "except dist.DistBackendError as error: print('met:', str(error).splitlines()[0], flush=True)\n")
    codes, text = by_hand(3, code, method, program="-c", MINE="{rank}", **variables())
    assert codes == [0, 0, 0], text
    words = "(?m)^met: Rank [012] of 3: MPI_Init_thread failed: .*" + (
        "Rank 0 has not answered in the program's table in time" if missing == 0 else
        "(?:A rank has not come to the program's table in time .*rank 1|Rank 0 has not answered)")
    assert len(re.findall(words, text)) == 2, text
    assert missing == 0 or "A rank has not come" in text, text


def test_nobody_but_torchrun():
    on_one_machine("by hand, not by mpirun")
    done = subprocess.run([PYTHON, "-m", "pomona_tools.survive", "-c", "pass"], env=environment(), check=False,
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2 and "torchrun has not started this process" in done.stderr, done.stderr


@pytest.mark.parametrize("backend", ["mpi", "pomona"])
def test_again_by_torchrun(backend):
    done = torchrun("--standalone", how="again", backend=backend)
    assert done.returncode == 0 and done.stdout.count("all passed") == 2, done.stdout + done.stderr


@pytest.mark.parametrize("backend, how", [("mpi", "untold"), ("pomona", "untold")])
def test_again_by_mpirun(backend, how):
    """Also where the launcher tells torch nothing: MPI gives rank and store each time."""
    outcome = launch(2, PROGRAM, backend, how)
    assert outcome.code == 0 and outcome.text.count("all passed") == 2, str(outcome)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("backend", ["mpi", "pomona"])
def test_late_by_mpirun(backend, late, tmp_path):
    """What the first call of some ranks has left in vain is no word of the second."""
    outcome = launch(3, HERE / "ranks_late.py", backend, late, tmp_path)
    assert outcome.code == 0 and outcome.text.count("all passed") == 3, str(outcome)
    assert outcome.text.count("met: ") == 2, str(outcome)
    if HOSTS and backend == "mpi":  # of "pomona" torch's store may be the first to give up
        told = re.findall(r"(?m)^met: .*: these have not called MPI_Init within 1 s: ranks? ([\d, and]+) \(", outcome.text)
        assert len(told) == 2 and all(str(late) in ranks for ranks in told), str(outcome)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("backend, method", [("mpi", "tcp"), ("mpi", "file"), ("pomona", "file")])
def test_late_by_hand(backend, method, late):
    """The same where MPI itself cannot start yet: that is an error, and no end of the process."""
    method = {"tcp": f"tcp://127.0.0.1:{free_port()}", "file": "file://{folder}/store"}[method]
    codes, text = by_hand(2, backend, str(late), "{folder}", method, program=HERE / "ranks_late.py",
                          THE_RANK="{rank}", THE_SIZE="{size}")
    assert codes == [0, 0] and text.count("all passed") == 2 and text.count("met: ") == 1, (codes, text)


@pytest.mark.parametrize("late", [0, 1])
def test_late_by_torchrun(late, tmp_path):
    """Whose store does not wait for the workers."""
    done = torchrun("--standalone", how=[str(late), str(tmp_path)], program=str(HERE / "ranks_late.py"))
    assert done.returncode == 0 and done.stdout.count("all passed") == 2, done.stdout + done.stderr
    assert "met: " in done.stdout, done.stdout
