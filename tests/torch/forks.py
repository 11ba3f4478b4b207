"""Starts Python programs with torch imported already, which costs each two seconds of a processor,
and four with what DistributedDataParallel imports.

A process of its own. Each line of its input is a job as JSON, [PROCESSES, OUTPUT, SECONDS]; each
of the processes is [[PROGRAM, ARGUMENT...], ENVIRONMENT]. Its answer is a line of exit codes, or
"null" if not all have ended in time: those tell where each of their threads is. OUTPUT takes what
the programs print. By the socket that the command line names it stands in for processes that
somebody else has started (forked.py).

Each program runs in a child of this process, which has no other thread, and ends as a program
does: what is to be done at Python's exit, and at C's, is done.
"""

import faulthandler
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import time
import types
from pathlib import Path


def start(environment, descriptors):
    """In a child: what a new process would have; `descriptors` are its first three."""
    for number, opened in enumerate(descriptors):
        os.dup2(opened, number)
        os.close(opened)
    sys.path[1:1] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each not in sys.path]
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout.reconfigure(write_through=bool(environment.get("PYTHONUNBUFFERED")))
    sys.executable = environment.get("PYTHON_EXEC", sys.executable)  # torchrun's: what it starts, and so on
    tempfile.tempdir = None  # TMPDIR may be another
    faulthandler.enable()
    if "TEST_STACKS" in environment:
        # A child that the program forks lacks this thread, and would wait for it at its end.
        os.register_at_fork(before=faulthandler.cancel_dump_traceback_later)
        faulthandler.dump_traceback_later(float(environment["TEST_STACKS"]))


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


class StandIns:
    """The programs of processes that were started elsewhere, each with its connection. What a
    process has is its program's: what it prints to, its environment, folder and processors, the
    signals that it gets; and its program's end is its own, either way."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.children = {}  # what tells of its end: (child, connection)

    def descriptors(self):
        return [self.listener, *self.children, *(connection for _, connection in self.children.values())]

    def begin(self):
        """Returns the command in a child, None in this process."""
        connection = self.listener.accept()[0]
        words, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        while not words.endswith(b"\n"):
            more = connection.recv(1 << 16)
            if not more:
                break
            words += more
        if not words.endswith(b"\n") or len(descriptors) != 3:  # it was killed meanwhile
            connection.close()
            for each in descriptors:
                os.close(each)
            return None
        child = os.fork()
        if child == 0:
            self.close()
            connection.close()
            command, environment, folder, processors = json.loads(words)
            start(environment, descriptors)
            os.chdir(folder)
            os.sched_setaffinity(0, processors)
            return command
        for each in descriptors:
            os.close(each)
        self.children[os.pidfd_open(child)] = child, connection
        return None

    def close(self):
        self.listener.close()
        for handle, (_, connection) in self.children.items():
            os.close(handle)
            connection.close()

    def go_on(self, ready):
        for handle, (child, connection) in list(self.children.items()):
            if handle in ready:
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                try:
                    connection.sendall(b"%d\n" % code)
                except OSError:
                    pass  # it has gone as well
                connection.close()
                os.close(handle)
                del self.children[handle]
            elif connection in ready:
                try:
                    signals = connection.recv(64)
                except ConnectionError:
                    signals = b""
                for number in signals or [signal.SIGKILL]:
                    os.kill(child, number)

    def end(self):
        for child, _ in self.children.values():
            os.kill(child, signal.SIGKILL)


def serve():
    """Returns in children only, with the words of one's command."""
    stand_ins = StandIns(sys.argv[1])
    while True:
        ready = select.select([sys.stdin, *stand_ins.descriptors()], [], [])[0]
        stand_ins.go_on(ready)
        if stand_ins.listener in ready:
            command = stand_ins.begin()
            if command:
                return command
        if sys.stdin not in ready:
            continue
        line = sys.stdin.readline()
        if not line:
            stand_ins.end()
            sys.exit()
        processes, output, seconds = json.loads(line)
        deadline, children = time.monotonic() + seconds, []
        for command, environment in processes:
            child = os.fork()
            if child == 0:
                stand_ins.close()
                opened = os.open(output, os.O_WRONLY | os.O_APPEND)
                start(environment, [os.open(os.devnull, os.O_RDONLY), opened, os.dup(opened)])
                return command
            children.append(child)
        print(json.dumps(wait(children, deadline)), flush=True)


def run(program, *arguments):
    if program == "-m":
        sys.argv = list(arguments)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
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
