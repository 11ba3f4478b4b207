# tests/launch/test_strangers.py: mpirun's PMIx server answers this user's ranks and nobody else,
# and strangers that connect do not hold it up. A stranger knows all that other users of a machine
# can see: ports, the names of files, the form of PMIx's messages. And the job's key stands nowhere
# but in the memory of mpirun and its ranks. Needs POMONA_TEST_MPIRUN and POMONA_TEST_PROBE; ctest
# sets them.
import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from launch_case import NEEDS_PMIX

MPIRUN = os.environ["POMONA_TEST_MPIRUN"]
PROBE = os.environ["POMONA_TEST_PROBE"]
PATIENCE = 30  # for what must not hang; never waited for when all is well
WORKER = ("env", "-u", "POMONA_JOB_ID", PROBE)  # knows PMIx alone
# Connects, sends what stands in a file, and tells how many bytes came back.
STRANGER = """
import socket, sys
connection = socket.socket()
connection.settimeout(3)
try:
    connection.connect(("127.0.0.1", int(sys.argv[1])))
    connection.sendall(open(sys.argv[2], "rb").read())
    print(len(connection.recv(65536)))
except OSError as error:
    print(0, error)
"""


def clean_environment(**changes):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PMIX_", "PMI_", "OMPI_", "POMONA_"))}
    env.update(changes)
    return env


def listening_ports(pid):
    """TCP ports on which this process listens, with their addresses."""
    ours = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            ours.add(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except OSError:
            pass
    found = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{name}") as table:
            for line in list(table)[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in ours:
                    address, port = words[1].split(":")
                    found.append((address, int(port, 16)))
    return found


def first_message(environment):
    """What a rank sends first to the server of its environment, taken by a listener of our own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        listener.settimeout(PATIENCE)
        uri = f"{environment['PMIX_NAMESPACE']}.0;tcp4://127.0.0.1:{listener.getsockname()[1]}"
        changed = {name: uri for name in environment if name.startswith("PMIX_SERVER_URI")}
        rank = subprocess.Popen([*WORKER, "info"], env={**environment, **changed},
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            connection, _ = listener.accept()
            message = b""
            with connection:
                connection.settimeout(1)
                try:
                    while part := connection.recv(65536):
                        message += part
                except TimeoutError:
                    pass
            return message
        finally:
            rank.kill()
            rank.wait()


@NEEDS_PMIX
@unittest.skipUnless(os.path.isdir("/proc/self/fd"), "needs /proc")
class Strangers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp", prefix="ps")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        os.chmod(self.temporary, 0o1777)
        self.go = os.path.join(self.folder, "go")

    def start(self, *options):
        """Ranks that print their environment, wait for a word of ours, and then exchange values."""
        script = f'tr "\\0" "\\n" < /proc/self/environ > {self.folder}/environment.$RANK;' \
                 f'mv {self.folder}/environment.$RANK {self.folder}/ready.$RANK;' \
                 f'while ! test -e {self.go}; do sleep 0.05; done; exec {" ".join(WORKER)} info'
        self.job = subprocess.Popen([MPIRUN, "-n", "2", *options, "sh", "-c", script],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True,
                                    env=clean_environment(TMPDIR=self.temporary))
        self.addCleanup(self.end)
        end = time.monotonic() + PATIENCE
        while not all(os.path.exists(f"{self.folder}/ready.{rank}") for rank in (0, 1)):
            self.assertLess(time.monotonic(), end, "the ranks do not start")
            time.sleep(0.02)
        with open(f"{self.folder}/ready.1") as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)

    def end(self):
        if self.job.poll() is None:
            self.job.send_signal(signal.SIGTERM)
        self.job.communicate(timeout=PATIENCE)

    def finish(self):
        with open(self.go, "w"):
            pass
        out, err = self.job.communicate(timeout=PATIENCE)
        self.assertEqual(self.job.returncode, 0, err)
        self.assertEqual(out.count("all=value of 0,value of 1\n"), 2, out)

    def ask(self, port, message, *prefix):
        """How many bytes the server answers to this message; `prefix` changes who asks."""
        path = os.path.join(self.folder, "message")
        with open(path, "wb") as file:
            file.write(message)
        os.chmod(path, 0o644)
        done = subprocess.run([*prefix, sys.executable, "-c", STRANGER, str(port), path],
                              capture_output=True, text=True, timeout=PATIENCE, cwd="/tmp")
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split()[0])

    def test_who_knows_all_but_the_secret_gets_no_answer(self):
        environment = self.start("--pmix", "on")
        name = environment["PMIX_NAMESPACE"]
        message = first_message(environment)
        self.assertIn(name.encode(), message)
        ports = listening_ports(self.job.pid)
        self.assertTrue(ports)
        for address, _ in ports:
            self.assertEqual(address, "0100007F", "not on loopback")
        # What a stranger sees is the name of the job's directory.
        seen, = (entry for entry in os.listdir(self.temporary) if entry.startswith("pomona-"))
        tag = seen.split("-")[2]
        self.assertTrue(name.startswith(tag))
        guess = tag + "".join("0" if c != "-" else c for c in name[len(tag):])
        forged = message.replace(name.encode(), guess.encode())
        nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        if not shutil.which("setpriv") or subprocess.run([*nobody, sys.executable, "-c", ""],
                                                         capture_output=True).returncode != 0:
            nobody = ()  # not root: the same user, who knows no more
        for _, port in ports:
            self.assertEqual(self.ask(port, forged, *nobody), 0, f"port {port} of {ports}")
        # The message itself is one that the server answers, at mpirun's port alone. (The rank's
        # place is taken now, so the job cannot end well.)
        answered = [port for _, port in ports if self.ask(port, message) > 0]
        self.assertEqual(len(answered), 1)

    def test_silent_and_talkative_strangers_hold_nobody_up(self):
        self.start("--pmix", "on")
        def stranger():
            connection = socket.socket()
            self.addCleanup(connection.close)
            return connection
        for _, port in listening_ports(self.job.pid):
            for _ in range(200):
                connection = stranger()
                connection.setblocking(False)
                connection.connect_ex(("127.0.0.1", port))
            for size in (1, 100, 200000):
                connection = stranger()
                connection.settimeout(1)
                try:
                    connection.connect(("127.0.0.1", port))
                    connection.sendall(b"\xff" * size)
                except OSError:
                    pass
        self.finish()

    def test_no_word_of_the_server_is_left_for_others(self):
        self.start("--pmix", "on")
        entry, = os.listdir(self.temporary)
        self.assertEqual(os.stat(os.path.join(self.temporary, entry)).st_mode & 0o777, 0o700)
        self.finish()
        self.assertEqual(os.listdir(self.temporary), [])


@unittest.skipUnless(os.path.isdir("/proc/self/fd"), "needs /proc")
class Key(unittest.TestCase):
    """The key of a job (pmix/job_key.h) is asked of mpirun by a rank, and then looked for."""

    def start(self, temporary):
        job = subprocess.Popen([MPIRUN, "-n", "2", PROBE, "key"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True, env=clean_environment(TMPDIR=temporary))
        keys, pids = {}, [job.pid]
        while len(pids) < 3:
            words = job.stdout.readline().split()
            self.assertTrue(words, "the job has ended")
            if words[0] == "key":
                keys[int(words[1])] = bytes.fromhex(words[2])
            else:
                pids.append(int(words[3]))
        self.assertEqual(set(keys), {0, 1})
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(len(keys[0]), 32)
        return job, pids, keys[0]

    def test_it_stands_in_no_argument_environment_or_file(self):
        found, seen = [], []
        for _ in range(2):
            with tempfile.TemporaryDirectory(dir="/tmp", prefix="pk") as temporary:
                job, pids, key = self.start(temporary)
                try:
                    places = {f"/proc/{pid}/{name}": pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
                              for pid in pids for name in ("environ", "cmdline")}
                    for folder in (temporary, "/dev/shm"):
                        for path in pathlib.Path(folder).rglob("*"):
                            places[f"the name {path}"] = os.fsencode(path)
                            if folder == temporary and path.is_file():
                                places[str(path)] = path.read_bytes()
                finally:
                    job.send_signal(signal.SIGTERM)
                    job.communicate(timeout=PATIENCE)
            seen.append(key)
            self.assertTrue(any(b"POMONA_JOB_ID" in each for each in places.values()))
            forms = (key, key.hex().encode(), base64.b64encode(key).rstrip(b"="),
                     base64.urlsafe_b64encode(key).rstrip(b"="))
            found += [place for place, content in places.items()
                      if any(form in content or form.upper() in content for form in forms)]
        self.assertEqual(found, [])
        self.assertNotEqual(*seen)


if __name__ == "__main__":
    unittest.main(verbosity=1)
