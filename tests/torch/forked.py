"""`python -S forked.py [-u] PROGRAM ARGUMENT...`: this process is the program, for whoever has
started it; the program itself runs in a process that has imported torch already (forks.py), whose
socket TEST_FORKS names.

What this process has been given, the program gets: descriptors, environment, folder, processors,
and the signals that end it. It ends as the program has ended, by a code or by a signal, and is
outlived by nobody: where it is killed, so is the program.
"""

import json
import os
import resource
import signal
import socket
import sys

ENDING = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGABRT


def main(command):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["TEST_FORKS"])
    while command[0] == "-u":  # as all of them are
        command.pop(0)
    for number in ENDING:
        signal.signal(number, lambda number, _: connection.send(bytes([number])))
    processors = sorted(os.sched_getaffinity(0))
    words = json.dumps([command, dict(os.environ), os.getcwd(), processors]).encode() + b"\n"
    first = socket.send_fds(connection, [words], [0, 1, 2])
    connection.sendall(words[first:])
    for number in 0, 1, 2:  # whoever reads what the program prints sees its end
        os.close(number)
    answer = b""
    while not answer.endswith(b"\n"):
        more = connection.recv(64)
        if not more:
            os._exit(1)  # forks.py has gone
        answer += more
    code = int(answer)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main(sys.argv[1:])
