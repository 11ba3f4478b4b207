# tests/launch/test_dial_back.py: mpirun --dial-back: agents connect to mpirun, where what starts
# them passes standard input on and brings nothing back. mpirun runs on h1, agents on h2 and h3.
# Needs what launch_case.py needs.
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from hosts_case import Case
from launch_case import MPIRUN, PATIENCE, alive, wait_until

STARTER = """#!/bin/sh
# Stands for a batch system's starter: HOST command. It reads one line, keeps a copy for the test,
# and ends as soon as the agent runs, which has neither standard output nor standard error.
host=$1
shift
IFS= read -r letter
echo "$letter" > {place}/letter-$host
cd {home} || exit 1
agent() {{ {into} $host sh -c "$*"; }}
{start}
"""
DETACHED = 'echo "$letter" | agent "$@" >&- 2>&- &'


class DialBack(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.detached = cls.starter("detached", DETACHED)

    @classmethod
    def starter(cls, name, start):
        return cls.world.stand_in(name, text=STARTER.format(
            place=cls.world.place, home=cls.world.home, into=cls.world.into, start=start))

    def setUp(self):
        super().setUp()
        for host in ("h2", "h3"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.world.place, "letter-" + host))

    def words(self, *words, ssh=None):
        return self.world.inside("h1", MPIRUN, "--dial-back", 20, "--ssh", ssh or self.detached, *words)

    def letter(self, host):
        path = os.path.join(self.world.place, "letter-" + host)
        self.assertTrue(wait_until(lambda: os.path.exists(path) and os.path.getsize(path)))
        with open(path) as file:
            return file.read()

    def agent_with(self, letter, host="h2"):
        """An agent of its own with this invitation: its exit code and what it prints."""
        done = subprocess.run(self.world.inside(host, MPIRUN, "--pomona-agent-dials"), input=letter,
                              text=True, capture_output=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    def test_a_job(self):
        # Streams both ways, the environment, more than a pipe holds, and the exit code.
        lines = "".join(f"line {number} {'x' * 100}\n" for number in range(20000))
        done = self.run_job("--host", "h2,h3", "-x", "WORD=said", "sh", "-c",
                            'echo "$RANK of $WORLD_SIZE $WORD $(hostname)" >&2; cat; exit $((RANK * 3))',
                            input=lines)
        self.assertEqual(done.stdout, lines)
        self.assertEqual(sorted(line for line in done.stderr.splitlines() if "said" in line),
                         ["0 of 2 said h2", "1 of 2 said h3"])
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_the_secret_stands_in_no_argument(self):
        process = self.start("-n", 1, "--host", "h2", "sh", "-c",
                             "echo $$; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null "
                             "| tr '\\0' '\\n' | grep -c pomona-agent-dials; sleep 600")
        (pid,) = self.pids_of(process, 1)
        self.assertGreater(int(process.stdout.readline()), 0)  # so these are the processes meant
        secret = self.letter("h2").split()[2]
        self.assertEqual(len(secret), 64)
        for entry in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{entry}/{name}", "rb") as file:
                        self.assertNotIn(secret.encode(), file.read())
                except OSError:
                    pass  # ended meanwhile
        # Nor does mpirun listen any more: all have come.
        self.assertEqual(self.listening(process), [])
        process.terminate()
        self.end_of(process)
        self.nothing_left([pid])

    def listening(self, process):
        out = subprocess.run(self.world.inside("h1", "ss", "-Hltnp"), capture_output=True, text=True)
        return [line for line in out.stdout.splitlines() if f"pid={process.pid}," in line]

    def test_an_address_that_does_not_answer(self):
        # mpirun's IPv4 address comes first and leads nowhere from h2; its IPv6 address serves.
        way = ("10.213.7.1", "dev", "eth0")
        space = ("-n", self.world.space("h2"))
        self.world.ip(*space, "neigh", "replace", way[0], "lladdr", "02:00:00:00:00:99", *way[1:])
        try:
            done = self.run_job("-n", 1, "--host", "h2", "hostname")
        finally:
            self.world.ip(*space, "neigh", "del", *way)
        self.assertEqual((done.returncode, done.stdout), (0, "h2\n"), done.stderr)
        self.assertRegex(self.letter("h2"), r"^pomona-dial-back 1 [0-9a-f]{64} 1 \d+ 10\.213\.7\.1 \d+ fd00:7::1 \d+$")

    def test_strangers(self):
        # While mpirun waits for its agent: one with another secret, one that sends rubbish, and
        # more that say nothing than it has places. The agent then comes in.
        go = os.path.join(self.world.place, "go")
        wait = f"for i in $(seq 600); do test -e {go} && break; sleep 0.05; done"
        ssh = self.starter("waits", f"({wait}; {DETACHED[:-2]}) &")
        process = self.start("-n", 1, "--host", "h2", "hostname", ssh=ssh)
        words = self.letter("h2").split()
        wrong = [*words[:2], format(int(words[2], 16) ^ 1, "064x"), words[3], "1500", *words[5:]]
        code, said = self.agent_with(" ".join(wrong) + "\n")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"^pomona: mpirun was not reached within 2 s: 10\.213\.7\.1 port \d+: "
                               r"who answers is not of this job; fd00:7::1 port")
        crowd = subprocess.Popen(self.world.inside("h2", "python3", "-c", f"""
import socket, sys, time
all = [socket.create_connection(("10.213.7.1", {words[6]})) for _ in range(100)]
all[-1].sendall(b"GET / HTTP/1.1\\r\\n\\r\\n" * 50)
print("here", flush=True)
time.sleep(600)
"""), stdout=subprocess.PIPE, text=True)
        self.assertEqual(crowd.stdout.readline(), "here\n")
        self.assertIsNone(process.poll())
        with open(go, "w"):
            pass
        try:
            code, out, err = self.end_of(process)
        finally:
            crowd.kill()
            crowd.communicate()
            os.unlink(go)
        self.assertEqual((code, out), (0, "h2\n"), err)

    def test_who_is_not_mpirun(self):
        # The address that comes first belongs to another program, as docker0's would.
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            port = other.getsockname()[1]
        server = subprocess.Popen(self.world.inside("h2", "python3", "-c", f"""
import socket
server = socket.create_server(("127.0.0.1", {port}))
print("here", flush=True)
while True:
    server.accept()[0].sendall(b"220 ready " * 20)
"""), stdout=subprocess.PIPE, text=True)
        self.assertEqual(server.stdout.readline(), "here\n")
        ssh = self.starter("misleads", f'letter=$(echo "$letter" | sed "s/ 20000 / 20000 127.0.0.1 {port} /")\n'
                           + DETACHED)
        try:
            done = self.run_job("-n", 1, "--host", "h2", "hostname", ssh=ssh)
        finally:
            server.kill()
            server.communicate()
        self.assertEqual((done.returncode, done.stdout), (0, "h2\n"), done.stderr)

    def test_an_agent_that_never_comes(self):
        for what, start in (("ends", "exit 0"), ("stays", "exec sleep 600")):
            with self.subTest(starter=what):
                begun = time.monotonic()
                done = self.run_job("--dial-back", 2, "--host", "h2,h3", "hostname",
                                    ssh=self.starter(what, start))
                self.assertLess(time.monotonic() - begun, 15)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, r"mpirun: host h[23] cannot be used: its agent has not connected to "
                                              r"mpirun within 2 s; it was given 10\.213\.7\.1 port \d+, fd00:7::1 "
                                              r"port \d+; does a firewall let it there")
        done = self.run_job("-n", 1, "--host", "h2", "hostname",
                            ssh=self.starter("fails", "echo the queue is closed; exit 4"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with code 4: the queue is closed", done.stderr)

    def test_an_agent_that_is_told_nothing(self):
        for letter in ("", "pomona-dial-back 1 rubbish\n", "x" * 5000 + "\n"):
            code, said = self.agent_with(letter)
            self.assertEqual(code, 1)
            self.assertRegex(said, "^pomona: (Standard input ended before|What comes on standard input is no)")

    def test_ends(self):
        # mpirun is killed; an agent is killed; nobody is left anywhere.
        live = ("--silence", 2, "--host", "h2,h3", "sh", "-c", "echo $$; exec sleep 600")
        process = self.start(*live)
        pids = self.pids_of(process, 2)
        process.kill()
        process.communicate()
        self.nothing_left(pids)
        process = self.start(*live)
        pids = self.pids_of(process, 2)
        with open(f"/proc/{pids[0]}/status") as file:
            agent = int(re.search(r"^PPid:\s+(\d+)", file.read(), re.M).group(1))
        os.kill(agent, signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertRegex(err, r"mpirun: host h[23]: the connection to it ended.*; the job ends with code 1")
        self.nothing_left(pids)

    def test_a_host_that_vanishes(self):
        # Its cable is pulled: unlike the stand-in for ssh, these agents use it.
        process = self.start("--silence", 2, "--host", "h2,h3", "sh", "-c", "echo $$; exec sleep 600")
        pids = self.pids_of(process, 2)
        port = ("-n", self.world.space("sw"), "link", "set", "p2")
        self.world.ip(*port, "down")
        try:
            code, _, err = self.end_of(process)
            self.assertEqual(code, 1)
            self.assertRegex(err, r"mpirun: host h2: nothing was heard of it for \d s")
            # Its agent hears nothing either, and ends its rank by itself.
            self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids)), pids)
        finally:
            self.world.ip(*port, "up")
        self.nothing_left(pids)


if __name__ == "__main__":
    unittest.main()
