"""Starts Python programs with torch imported already, which costs each two seconds of a processor,
and four with what DistributedDataParallel imports.

A process of its own: each line of its input is a job as JSON, [PROCESSES, OUTPUT, SECONDS]; each
of the processes is [[PROGRAM, ARGUMENT...], ENVIRONMENT]. Its answer is a line of exit codes, or
"null" if not all have ended in time: those tell where each of their threads is. Each program runs
in a child of this process, which has no other thread, and ends as a program does: what is to be
done at Python's exit, and at C's, is done. OUTPUT takes what it prints.
"""

import faulthandler
import gc
import json
import os
import select
import signal
import sys
import tempfile
import time
import types
from pathlib import Path


def start(environment, output):
    """In a child: what a new process would have."""
    for number, path, how in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_APPEND)):
        opened = os.open(path, how)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    sys.path[1:1] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each not in sys.path]
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR may be another
    faulthandler.enable()


def ended(child, deadline):
    """The exit code, as subprocess has it, or None."""
    handle = os.pidfd_open(child)
    for signal_number, seconds in ((signal.SIGABRT, max(0, deadline - time.monotonic())), (signal.SIGKILL, 5)):
        if select.select([handle], [], [], seconds)[0]:
            break
        os.kill(child, signal_number)
        deadline = None
    os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if deadline else None


def wait(children, deadline):
    codes = [ended(child, deadline) for child in children]
    return None if None in codes else codes


def serve():
    """Returns in children only, with the words of one's command."""
    for line in sys.stdin:
        processes, output, seconds = json.loads(line)
        deadline, children = time.monotonic() + seconds, []
        for command, environment in processes:
            child = os.fork()
            if child == 0:
                start(environment, output)
                return command
            children.append(child)
        print(json.dumps(wait(children, deadline)), flush=True)
    sys.exit()


def run(program, *arguments):
    if program == "-c":
        program, source, arguments = "<string>", arguments[0], arguments[1:]
    else:
        source = Path(program).read_text(encoding="utf-8")
        sys.path[0] = str(Path(program).parent)
    sys.argv = [program, *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = program
    exec(compile(source, program, "exec"), main.__dict__)


import torch._dynamo

gc.collect()
gc.freeze()  # else each child's exit looks through all that torch has made, most of a second
run(*serve())
