# tests/launch/test_hosts_cards.py: hosts with several interfaces, each at a switch of its own, that
# all carry messages. All pairs of ranks send each other numbered ones and check what they get
# (pairs.c), while a switch is cut, or where the last interface of a host is missing, firewalled or
# set otherwise. Bytes at the switches tell which interfaces were used. With POMONA_TEST_WHOLE=yes
# all of it runs with 8 hosts, and with 3 interfaces, too.
import contextlib
import os
import re
import shutil
import subprocess
import time
import unittest

from hosts_case import Case, HERE, MPICC

WHOLE = os.environ.get("POMONA_TEST_WHOLE") == "yes"
MUCH = 1 << 20    # bytes that a host has sent by an interface which is in use
LITTLE = 1 << 18  # and by one that is not: tries to connect, and what was on its way


class Talk:
    """A job of pairs.c with a rank on each host."""

    def __init__(self, case, *options):
        self.case, self.world, self.words = case, case.world, 0
        self.file = os.path.join(self.world.place, "asked")
        self.ask(-1)
        self.process = case.start("-n", case.hosts, "--host", self.world.names(), "--bind-to", "none", *options,
                                  case.program, self.file, case.bytes)
        case.addCleanup(self.process.communicate)
        case.addCleanup(self.process.terminate)

    def ask(self, number):
        with open(self.file + "~", "w") as file:
            file.write(str(number))
        os.replace(self.file + "~", self.file)

    def paths(self):
        """What MPIX_Link_paths says now: (rank, peer, the line's words) each; and the round."""
        self.words += 1
        self.ask(self.words)
        lines, rounds = [], []
        while len(rounds) < self.case.hosts:
            line = self.process.stdout.readline()
            if not line:
                self.case.fail(self.process.communicate()[1])
            number, rank, *rest = line.rstrip("\n").split("\t")
            self.case.assertEqual(int(number), self.words)
            if rest[0] == "round":
                rounds.append(int(rest[1]))
            else:
                lines.append((int(rank), int(rest[0]), rest[1:]))
        self.case.assertEqual(len(set(rounds)), 1)
        return lines, rounds[0]

    def sent(self):
        """Bytes that the switches have had of each host by each card: {(host, card): bytes}."""
        every = [(host, card) for host in range(1, self.case.hosts + 1) for card in self.world.cards]
        files = [f"/sys/class/net/{self.world.port(*each)}/statistics/rx_bytes" for each in every]
        done = subprocess.run(["ip", "netns", "exec", self.world.space("sw"), "cat", *files], check=True,
                              capture_output=True, text=True)
        return dict(zip(every, map(int, done.stdout.split())))

    def flows(self, *but):
        """Waits until all interfaces but these, (host, card) each, have carried much, and then once
        more: by these nothing goes the second time."""
        for turn in range(2 if but else 1):
            begin, deadline = self.sent(), time.monotonic() + self.case.patience
            while True:
                now = self.sent()
                gone = {each: now[each] - begin[each] for each in now}
                if all(gone[each] > MUCH for each in gone if each not in but):
                    break
                self.case.assertLess(time.monotonic(), deadline, (gone, but))
                self.case.assertIsNone(self.process.poll(), gone)
                time.sleep(0.1)
        for each in but:
            self.case.assertLess(gone[each], LITTLE, gone)

    def end(self):
        self.ask(0)
        code, out, err = self.case.end_of(self.process)
        self.case.assertEqual((code, sorted(out.splitlines())),
                              (0, [f"rank {rank}: all is well" for rank in range(self.case.hosts)]), err)
        return err


@unittest.skipUnless(os.path.exists(MPICC), "needs mpicc")
class Cards(Case):
    """The last card is the odd one."""
    hosts, cards = 4, 2
    # The cables are slower than the processors, else one does as well as two; messages are long
    # enough for both.
    megabits, bytes = 200, 1 << 18
    short = None  # the names of tests that run without POMONA_TEST_WHOLE; None: all

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.join(cls.world.place, "pairs")
        subprocess.run([MPICC, "-O1", "-Wall", "-Wextra", "-Werror", os.path.join(HERE, "pairs.c"), "-o", cls.program],
                       check=True)
        cls.world.shape(cls.megabits)

    def setUp(self):
        super().setUp()
        if not WHOLE and self.short is not None and self._testMethodName not in self.short:
            self.skipTest("of so many hosts and cards: POMONA_TEST_WHOLE=yes (tests/slow.sh hosts)")
        self.last = self.cards - 1
        self.card = f"eth{self.last}"

    def tearDown(self):
        self.doCleanups()  # a job that goes on
        super().tearDown()

    def here(self, number, *words):
        self.world.ip("-n", self.world.space(f"h{number}"), *words)

    def all_hosts(self, card):
        return [(host, card) for host in range(1, self.hosts + 1)]

    @contextlib.contextmanager
    def cut(self, card, dark):
        """A switch without power takes the carrier from all its cards; or it stands still, and what
        is sent is lost."""
        def set_to(state):
            if dark:
                self.world.switch(card, state)
            else:
                self.world.ip("-n", self.world.space("sw"), "link", "set", f"br{card}", state)
        set_to("down")
        try:
            yield
        finally:
            set_to("up")

    def test_switches_are_cut_and_come_back(self):
        talk = Talk(self)
        talk.flows()
        # On a busy machine a path whose piece was late is made again.
        everything = self.hosts * (self.hosts - 1) * self.cards
        for _ in range(25):
            lines, _ = talk.paths()
            up = {(rank, peer, words[6].split()[2]) for rank, peer, words in lines if words[1:2] == ["up"]}
            if len(up) == everything:
                break
            time.sleep(0.2)
        self.assertEqual(len(up), everything, lines)
        for card in self.world.cards if WHOLE or self.short is None else self.world.cards[:1]:
            with self.cut(card, dark=card % 2 == 0):
                talk.flows(*self.all_hosts(card))
            talk.flows()
        self.assertEqual(talk.end(), "")

    def without(self, number, *options):
        """A job in which one host's last card carries nothing, and all others do."""
        talk = Talk(self, *options)
        talk.flows((number, self.last))
        return talk

    def test_a_host_without_it(self):
        self.here(2, "link", "set", self.card, "down")
        try:
            self.assertEqual(self.without(2).end(), "")
        finally:
            self.here(2, "link", "set", self.card, "up")
            self.here(2, "addr", "add", f"fd00:{7 + self.last}::2/64", "dev", self.card)

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_host_whose_firewall_closes_it(self):
        # From the start; and while the job runs, until it opens again.
        with self.filtered("h2", "input", "drop", self.card):
            self.without(2).end()
        talk = Talk(self)
        talk.flows()
        for what in ("reject", "drop"):
            with self.filtered("h2", "input", what, self.card):
                talk.flows((2, self.last))
            talk.flows()
        talk.end()

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_a_host_whose_firewall_rejects_connections(self):
        with self.filtered("h2", "input", "tcp flags & (syn | ack) == syn reject with tcp reset", self.card), \
                self.filtered("h2", "output", "tcp flags & (syn | ack) == syn reject with tcp reset", self.card):
            self.without(2).end()

    def test_an_address_that_all_have(self):
        # As docker0; at a switch that they share, too, it leads nowhere.
        every = range(1, self.hosts + 1)
        for number in every:
            self.here(number, "addr", "flush", "dev", self.card)
            self.here(number, "addr", "add", "172.17.0.1/16", "dev", self.card)
        try:
            talk = Talk(self)
            talk.flows(*self.all_hosts(self.last))
            self.assertEqual(talk.end(), "")
        finally:
            for number in every:
                self.here(number, "addr", "flush", "dev", self.card)
                self.give_addresses(number, self.last)

    def give_addresses(self, number, card):
        self.here(number, "addr", "add", f"{self.world.address(number, card)}/24", "dev", f"eth{card}")
        self.here(number, "addr", "add", f"fd00:{7 + card}::{number}/64", "dev", f"eth{card}")

    def test_a_host_that_knows_no_ipv4(self):
        for card in self.world.cards:
            self.here(2, "addr", "del", f"{self.world.address(2, card)}/24", "dev", f"eth{card}")
        try:
            talk = Talk(self)
            talk.flows()
            lines, _ = talk.paths()
            there = {words[6].split()[5] for rank, peer, words in lines if peer == 1 and words[1:2] == ["up"]}
            self.assertEqual(there, {f"fd00:{7 + card}::2" for card in self.world.cards}, lines)
            self.assertEqual(talk.end(), "")
        finally:
            for card in self.world.cards:
                self.here(2, "addr", "add", f"{self.world.address(2, card)}/24", "dev", f"eth{card}")

    def test_packets_too_long_for_the_switch(self):
        # Those of two hosts, which the switch drops in silence; without segments of the system's
        # own. What these two send each other by this card goes by another one, or in shorter
        # packets; all others' connections agree on less.
        pair = (2, 3)

        def set_cards(mtu, segments):
            for number in pair:
                self.here(number, "link", "set", self.card, "mtu", mtu, "gso_max_segs", segments)
        set_cards("9000", "1")
        try:
            talk = Talk(self)
            talk.flows()
            deadline = time.monotonic() + self.patience
            while not any(rank + 1 in pair and peer + 1 in pair and re.search(r"went by another path|packets of \d+ bytes", " ".join(words))
                          for rank, peer, words in talk.paths()[0]):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            talk.flows()
            talk.end()
        finally:
            set_cards("1500", "65535")


    def test_long_packets_that_one_switch_drops(self):
        # As above, of all hosts' last cards alone. What a connection there does not bring goes by
        # the other card, long before the system ends it, which takes half a minute here.
        def set_cards(mtu, segments):
            for number in range(1, self.hosts + 1):
                self.here(number, "link", "set", self.card, "mtu", mtu, "gso_max_segs", segments)
        set_cards("9000", "1")
        try:
            talk = Talk(self, "--set", "heartbeat_s=10")
            talk.flows()
            err = talk.end()
            self.assertRegex(err, f"rank [0-9] by {self.card} .* packets of more than 1200 bytes are avoided")
            self.assertNotIn("500 bytes", err)  # those get through
        finally:
            set_cards("1500", "65535")


class EightHosts(Cards):
    hosts, megabits, bytes = 8, 100, 1 << 17
    short = ("test_switches_are_cut_and_come_back",)


class ThreeCards(Cards):
    cards = 3
    short = ("test_switches_are_cut_and_come_back",)


if __name__ == "__main__":
    unittest.main()
