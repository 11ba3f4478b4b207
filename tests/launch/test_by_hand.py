# tests/launch/test_by_hand.py: programs without torch whose ranks are started one at a time, by
# RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, with no launcher: on one machine and on two hosts
# (namespaces). Needs what launch_case.py needs.
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from hosts_case import HERE, MPICC, Case
from launch_case import PATIENCE, clean_environment, wait_until

SECRET = "a secret of more than sixteen letters"


def setUpModule():
    global FOLDER, PROGRAM
    FOLDER = tempfile.mkdtemp(prefix="pomona-hand-")
    PROGRAM = os.path.join(FOLDER, "by_hand")
    subprocess.run([MPICC, os.path.join(HERE, "by_hand.c"), "-o", PROGRAM], check=True)


def tearDownModule():
    shutil.rmtree(FOLDER)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Ranks(contextlib.ExitStack):
    """Processes of one job; those that are left are killed at the end."""

    def __init__(self, size, what="sum", host="127.0.0.1", **more):
        super().__init__()
        self.size, self.what = size, what
        self.port = free_port()
        self.more = {"MASTER_ADDR": host, "TMPDIR": FOLDER, **more}

    def start(self, rank, before=(), **more):
        variables = {"RANK": rank, "WORLD_SIZE": self.size, "MASTER_PORT": self.port, **self.more, **more}
        environment = clean_environment(**{name: str(value) for name, value in variables.items()})
        process = subprocess.Popen([*before, PROGRAM, self.what], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        self.callback(self.clean, process)
        return process

    @staticmethod
    def clean(process):
        if process.returncode is None:
            process.kill()
            process.communicate()


def end_of(process, seconds=PATIENCE):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


class ByHand(unittest.TestCase):
    def ended_well(self, processes):
        """They are in the order of their ranks."""
        size = len(processes)
        for rank, process in enumerate(processes):
            code, out, err = end_of(process)
            self.assertEqual((code, out), (0, f"rank {rank} of {size}: {size * (size - 1) // 2}\n"), err)

    def refused(self, process, pattern, seconds=PATIENCE):
        code, out, err = end_of(process, seconds)
        self.assertNotIn(code, (0, None))
        self.assertEqual(out, "")
        self.assertRegex(err, pattern)
        return err

    def test_in_any_order(self):
        # By shared memory alone the ranks have no fence; by TCP they have one.
        for size, more in ((2, {}), (4, {}), (4, {"POMONA_TRANSPORTS": "self,tcp"}), (2, {"POMONA_JOB_SECRET": SECRET})):
            with self.subTest(size=size, **more), Ranks(size, **more) as ranks:
                started = [ranks.start(rank) for rank in range(size - 1, 0, -1)]
                time.sleep(1)  # some have tried in vain by now
                self.ended_well([ranks.start(0), *reversed(started)])
            with self.subTest(size=size, root="first", **more), Ranks(size, **more) as ranks:
                started = [ranks.start(rank) for rank in range(size - 1)]
                time.sleep(0.5)
                self.ended_well([*started, ranks.start(size - 1)])

    def test_a_name_and_more_variables(self):
        with Ranks(2, host="localhost", LOCAL_RANK=1, LOCAL_WORLD_SIZE=7) as ranks:
            self.ended_well([ranks.start(0), ranks.start(1)])

    def test_one_after_the_other_by_one_port(self):
        with Ranks(2) as ranks:
            for _ in range(3):
                self.ended_well([ranks.start(0), ranks.start(1)])

    def test_one_alone(self):
        with Ranks(1) as ranks:
            self.ended_well([ranks.start(0)])

    def test_another_secret(self):
        for other in ("another secret of as many letters", ""):
            with self.subTest(other=other), Ranks(2, POMONA_MEET_TIMEOUT_S=8) as ranks:
                stranger = ranks.start(1, POMONA_JOB_SECRET=other)
                root = ranks.start(0, POMONA_JOB_SECRET=SECRET)
                self.refused(stranger,
                             r"rank 1: at 127\.0\.0\.1 port \d+ .* is not rank 0 of this job: who answers there is not "
                             r"of this job; .* is POMONA_JOB_SECRET not the same")
                err = self.refused(root, r"rank 0: waits for rank 1 \(of 2 .*\) until 8 s are over .*; 1 connection was "
                                         r"refused, the last one \(.*127\.0\.0\.1\) left before it had proved")
                self.assertRegex(err, r"rank 0: rank 1 did not come within 8 s")

    def test_a_secret_that_is_none(self):
        with Ranks(2) as ranks:
            self.refused(ranks.start(0, POMONA_JOB_SECRET="short"),
                         r"POMONA_JOB_SECRET has 5 letters; it needs 16 at least")

    def test_somebody_else_at_the_port(self):
        def answer(listener, word):
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as one:
                        one.recv(1)
                        one.sendall(word)
        for word, pattern in ((b"220 smtp ready\r\n", "who answers there speaks something else"),
                              (b"", "somebody takes the connection and closes it")):
            with self.subTest(word=word), Ranks(2) as ranks, socket.create_server(("127.0.0.1", ranks.port)) as listener:
                thread = threading.Thread(target=answer, args=(listener, word))
                thread.start()
                try:
                    self.refused(ranks.start(1), r"rank 1: at .* is not rank 0 of this job: " + pattern, 3 * PATIENCE)
                    self.refused(ranks.start(0), r"rank 0 cannot listen at port \d+, .*: Address already in use; is another")
                finally:
                    listener.shutdown(socket.SHUT_RDWR)
                    thread.join()

    def test_somebody_silent_at_the_port(self):
        # As torch's store is.
        with Ranks(2) as ranks, socket.create_server(("127.0.0.1", ranks.port)):
            self.refused(ranks.start(1), r"(?s)rank 1: rank 0 is not reached yet at .*: somebody takes the connection and "
                                         r"says nothing; .*rank 1: at .* is not rank 0 of this job: somebody takes the "
                                         r"connection and says nothing; is it torch's store", 3 * PATIENCE)

    def test_strangers_come_to_rank_0(self):
        with Ranks(2) as ranks:
            root = ranks.start(0)
            for word in (b"", b"GET / HTTP/1.0\r\n\r\n", b"1mop" + b"\xff" * 200, b"1mop"):
                for attempt in range(100):
                    with contextlib.suppress(ConnectionRefusedError):
                        one = ranks.enter_context(socket.create_connection(("127.0.0.1", ranks.port)))
                        break
                    time.sleep(0.1)
                with contextlib.suppress(OSError):
                    one.sendall(word)  # and it stays
            self.ended_well([root, ranks.start(1)])

    def test_one_is_missing(self):
        with Ranks(4, POMONA_MEET_TIMEOUT_S=8) as ranks:
            other, root = ranks.start(1, POMONA_MEET_TIMEOUT_S=100), ranks.start(0)
            waits = r"waits for ranks 2, 3 \(of 4 that were started one at a time, .*\) until 8 s are over"
            self.refused(root, r"(?s)rank 0: " + waits + r".*rank 0: ranks 2, 3 did not come within 8 s")
            self.refused(other, r"(?s)rank 1: " + waits + r".*rank 1: ranks 2, 3 did not come within 8 s")

    def test_rank_0_is_missing(self):
        with Ranks(2, POMONA_MEET_TIMEOUT_S=7) as ranks:
            err = self.refused(ranks.start(1), r"rank 1: rank 0 is not reached yet at 127\.0\.0\.1 port \d+ .*: "
                                               r"Connection refused; it is tried until 7 s are over")
            self.assertRegex(err, r"rank 1: rank 0 was not reached at 127\.0\.0\.1 port \d+ within 7 s")

    def test_a_name_that_is_not_known(self):
        with Ranks(2, host="nobody.invalid", POMONA_MEET_TIMEOUT_S=1) as ranks:
            self.refused(ranks.start(1), r"rank 0 was not reached at nobody\.invalid port .*: its name is not known here")

    def test_a_number_twice(self):
        with Ranks(3) as ranks:
            root, both = ranks.start(0), [ranks.start(1), ranks.start(1)]
            self.assertTrue(wait_until(lambda: any(each.poll() is not None for each in both)))
            late, first = sorted(both, key=lambda each: each.poll() is None)
            self.refused(late, r"rank 1: a process came from .*127\.0\.0\.1 as rank 1, which is there already")
            self.ended_well([root, first, ranks.start(2)])

    def test_another_number_of_ranks(self):
        with Ranks(3, POMONA_MEET_TIMEOUT_S=3) as ranks:
            root = ranks.start(0)
            pattern = r"was started otherwise: rank 0 has WORLD_SIZE = 3 .*, rank {} has WORLD_SIZE = {}"
            self.refused(ranks.start(1, WORLD_SIZE=2), r"rank 1: rank 0 \(at .*\) " + pattern.format(1, 2))
            self.refused(ranks.start(3, WORLD_SIZE=4), r"rank 3: rank 0 \(at .*\) " + pattern.format(3, 4))
            self.refused(root, r"rank 0: rank 1 \(at .*\) " + pattern.format(1, 2))

    def test_one_that_ended_comes_again(self):
        with Ranks(3) as ranks:
            root = ranks.start(0)
            first = ranks.start(1)
            time.sleep(1)
            first.kill()
            first.communicate()
            self.ended_well([root, ranks.start(1), ranks.start(2)])

    def test_variables_that_do_not_fit(self):
        for change in ({"RANK": 2}, {"RANK": -1}, {"RANK": "one"}, {"WORLD_SIZE": "two"}, {"WORLD_SIZE": 5000},
                       {"MASTER_PORT": 0}, {"MASTER_PORT": 65536}, {"MASTER_ADDR": ""}):
            with self.subTest(**change), Ranks(2) as ranks:
                self.refused(ranks.start(1, **change), r"RANK=.* in the environment do not fit each other")

    def test_as_torchrun_does(self):
        with Ranks(2, TORCHELASTIC_RUN_ID="none", TORCHELASTIC_USE_AGENT_STORE="True") as ranks:
            self.refused(ranks.start(0), r"torchrun started this process as one of several, .* Pomona's mpirun, or "
                                         r"without torchrun, one at a time, with RANK")

    def test_one_ends_in_the_middle(self):
        for what, more in (("die", {}), ("die", {"POMONA_TRANSPORTS": "self,tcp"}), ("abort", {}),
                           ("abort", {"POMONA_TRANSPORTS": "self,tcp"})):
            with self.subTest(what, **more), Ranks(3, what, **more) as ranks:
                started = [ranks.start(rank) for rank in range(3)]
                codes = [end_of(process)[0] for process in started]
                self.assertEqual(codes[1], 7 if what == "abort" else -signal.SIGKILL)
                self.assertNotIn(codes[0], (0, None))
                self.assertNotIn(codes[2], (0, None))


class Hosts(Case):
    hosts = 2

    def ranks(self, **more):
        return Ranks(4, TMPDIR=self.world.temporary, host="10.213.7.1", POMONA_JOB_SECRET=SECRET, **more)

    def on(self, ranks, host, rank, **more):
        return ranks.start(rank, before=self.world.inside(host), **more)

    def test_two_ranks_on_each(self):
        for host in ("10.213.7.1", "fd00:7::1"):
            with self.subTest(host), self.ranks(MASTER_ADDR=host) as ranks:
                started = [self.on(ranks, f"h{1 + rank // 2}", rank) for rank in range(4)]
                for rank, process in enumerate(started):
                    code, out, err = end_of(process)
                    self.assertEqual((code, out), (0, f"rank {rank} of 4: 6\n"), err)

    def caches(self, of_h1, of_h2):
        """A cache folder for each host, with these files."""
        folders = []
        for host, files in (("h1", of_h1), ("h2", of_h2)):
            folder = os.path.join(self.world.place, f"{self.id()}-{host}")
            os.makedirs(os.path.join(folder, "pomona"), exist_ok=True)
            for name, text in files.items():
                with open(os.path.join(folder, "pomona", name), "w") as file:
                    file.write(text)
            folders.append(folder)
        return folders

    def test_files_that_differ_between_hosts_choose_for_nobody(self):
        """Where no launcher hands numbers out, the first rank's history of links counts for all,
        and no other file."""
        def history(latency, gigabits):
            return f"v1 h1 h2 2026-01-31 {latency} {gigabits} tcp\n"
        slow, quick = history(20000, 0.001), history(1, 100)
        name = "pomona-links 1\nmachine any\ndate 2026-01-31\nshm=1:2:3\n"
        taken = {}
        for first in (slow, quick):
            folders = self.caches({"link-history": first, "choices": "allreduce: linear\n", "links": name},
                                  {"link-history": quick if first is slow else slow,
                                   "choices": "allreduce: chain\n"})
            with self.ranks(POMONA_LOG="warn,coll=debug") as ranks:
                started = [self.on(ranks, f"h{1 + rank // 2}", rank, XDG_CACHE_HOME=folders[rank // 2])
                           for rank in range(4)]
                said = []
                for rank, process in enumerate(started):
                    code, out, err = end_of(process)
                    self.assertEqual((code, out), (0, f"rank {rank} of 4: 6\n"), err)
                    said.append(re.findall(r"allreduce of 4 bytes on MPI_COMM_WORLD goes by (\S+)", err))
                self.assertEqual(len(said[0]), 1, said)
                self.assertEqual(said, said[:1] * 4)
                self.assertNotIn(said[0][0], ("linear", "chain"))
                taken[first] = said[0][0]
        self.assertNotEqual(taken[slow], taken[quick])

    def test_choices_that_differ_between_hosts_are_refused(self):
        """A variable, or the configuration file of one host."""
        config = os.path.join(self.world.place, "pomona.conf")
        with open(config, "w") as file:
            file.write("choices = allreduce: linear\n")
        for name, value, where in (("choices", {"POMONA_CHOICES": "allreduce: linear"}, "POMONA_CHOICES"),
                                   ("choices", {"POMONA_CONFIG": config}, config),
                                   ("links", {"POMONA_LINKS": "net=1:2:3"}, "POMONA_LINKS"),
                                   ("forests", {"POMONA_FORESTS": "network 0 1"}, "POMONA_FORESTS"),
                                   ("shm_board", {"POMONA_SHM_BOARD": "7"}, "POMONA_SHM_BOARD"),
                                   ("allreduce", {"POMONA_ALLREDUCE": "ring"}, "POMONA_ALLREDUCE")):
            with self.subTest(name), self.ranks() as ranks:
                started = [self.on(ranks, f"h{1 + rank // 2}", rank, **(value if rank > 1 else {}))
                           for rank in range(4)]
                ends = [end_of(process) for process in started]
                self.assertTrue(all(code != 0 and out == "" for code, out, _ in ends), ends)
                self.assertTrue(any(name in err and where in err for _, _, err in ends), ends)
        # Who ends so leaves what the job had on its hosts to the next job, which sweeps it away.
        with self.ranks() as ranks:
            for process in [self.on(ranks, f"h{1 + rank // 2}", rank) for rank in range(4)]:
                self.assertEqual(end_of(process)[0], 0)

    def test_rank_0_is_on_another_host(self):
        with self.ranks(POMONA_MEET_TIMEOUT_S=7) as ranks:
            root, other = self.on(ranks, "h2", 0), self.on(ranks, "h1", 1)
            _, _, err = end_of(root)
            self.assertRegex(err, r"rank 0: waits for ranks 1 to 3 .*MASTER_ADDR 10\.213\.7\.1 is no address of this host")
            _, _, err = end_of(other)
            self.assertRegex(err, r"rank 1: rank 0 was not reached at 10\.213\.7\.1 port \d+ within 7 s .*: Connection refused")


if __name__ == "__main__":
    unittest.main()
