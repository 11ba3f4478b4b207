# tests/launch/test_reach.py: how mpirun reaches its hosts, through shells and ssh, and what is told
# where it cannot; what pomona doctor and pomona links say of hosts.
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from hosts_case import NEEDS_PRTERUN, Case, prterun_environment
from test_launch import MPIRUN, PATIENCE, PROBE

DOCTOR = os.path.join(os.path.dirname(MPIRUN), "pomona")


@unittest.skipUnless(os.path.exists(DOCTOR), "needs pomona")
class Doctor(Case):
    def doctor(self, *words, **changes):
        return subprocess.run([DOCTOR, "doctor", "--ssh", self.world.enter, *words], text=True,
                              capture_output=True, timeout=PATIENCE,
                              env=self.environment(XDG_CACHE_HOME=self.world.place, **changes),
                              stdin=subprocess.DEVNULL)

    def test_an_address_of_two_hosts_hurts_where_it_is_used(self):
        """A bridge of virtual machines may have the same everywhere; what is left out, too."""
        def add(name, address):
            for host in ("h1", "h2"):
                space = ("-n", self.world.space(host))
                if name != "eth0":
                    self.world.ip(*space, "link", "add", name, "type", "bridge")
                    self.world.ip(*space, "link", "set", name, "up")
                    self.addCleanup(self.world.ip, *space, "link", "del", name)
                self.world.ip(*space, "address", "add", address, "dev", name)
                self.addCleanup(self.world.ip, *space, "address", "del", address, "dev", name)
        def found(**changes):
            done = self.doctor("--host", "h1,h2", "--json", **changes)
            together = json.loads(done.stdout)["together"]
            return done.returncode, [each["text"] for each in together if each["check"] == "addresses"]
        add("docker0", "172.17.0.1/16")
        add("br7", "172.18.0.1/16")
        self.assertEqual(found(), (0, []))
        add("eth0", "10.9.9.9/24")
        self.assertEqual(found(), (1, ["10.9.9.9 is one of h1 and of h2"]))
        self.assertEqual(found(POMONA_IF_EXCLUDE="10.9.9.9"), (0, []))

    def test_two_hosts_fit(self):
        done = self.doctor("--host", "h1,h2", "--json")
        report = json.loads(done.stdout)
        self.assertEqual([host["host"] for host in report["hosts"]], ["h1", "h2"])
        self.assertTrue(all(host["reached"] for host in report["hosts"]))
        self.assertEqual([os.path.basename(host["program"]) for host in report["hosts"]], ["pomona"] * 2)
        self.assertTrue(all(os.path.isabs(host["python_program"]) for host in report["hosts"]), report["hosts"])
        self.assertEqual([each["state"] for each in report["together"]], ["ok"], report["together"])
        self.assertEqual(report["links"]["pairs"][0]["hosts"], ["h1", "h2"])
        # What mpirun lays for the ranks' sake is no user's setting.
        paths = [each for host in report["hosts"] for each in host["findings"]
                 if each["check"] == "library path"]
        self.assertEqual([each["state"] for each in paths], ["ok"] * 2, paths)

    def test_a_variable_of_hosts_that_is_empty(self):
        for command in (["doctor"], ["links"], ["tune", "--links-only", "--dry-run"]):
            done = subprocess.run([DOCTOR, *command, "--host", ""], text=True, capture_output=True,
                                  timeout=PATIENCE, stdin=subprocess.DEVNULL,
                                  env=self.environment(XDG_CACHE_HOME=self.world.place))
            self.assertNotEqual(done.returncode, 0, command)
            self.assertIn("--host: it names no host", done.stderr)

    def test_a_host_that_is_not_there(self):
        done = self.doctor("--host", "h1,nosuch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nosuch: mpirun: host nosuch cannot be used", done.stdout)

    def test_packets_of_different_lengths(self):
        way = ("-n", self.world.space("h2"), "link", "set", "eth0", "mtu")
        self.world.ip(*way, "1400")
        try:
            done = self.doctor("--host", "h1,h2")
        finally:
            self.world.ip(*way, "1500")
            self.world.ip("-n", self.world.space("h2"), "addr", "replace", "fd00:7::2/64", "dev", "eth0")
        self.assertRegex(done.stdout, "eth0 of h2 has 1400, eth0 of h1 in the same network 1500")

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_firewall(self):
        def findings():
            done = subprocess.run(self.world.inside("h2", DOCTOR, "doctor"), text=True,
                                  capture_output=True, timeout=PATIENCE, env=self.environment(),
                                  stdin=subprocess.DEVNULL)
            return done.stdout
        self.assertIn("no rule keeps other hosts out", findings())
        table = "table inet t { chain c { type filter hook input priority 0; policy accept; " \
                "iifname lo accept; tcp dport 1024-65535 reject with tcp reset; }; }"
        subprocess.run(self.world.inside("h2", "nft", table), check=True)
        try:
            said = findings()
        finally:
            subprocess.run(self.world.inside("h2", "nft", "delete table inet t"), check=True)
        self.assertRegex(said, r"hint +firewall +inet t c: tcp dport 1024-65535 reject")
        self.assertIn("nft insert rule inet t c ip saddr NETWORK accept", said)

    def test_packets_that_a_card_drops(self):
        # The switch's end takes shorter packets, as a wrong setting there does.
        way = ("-n", self.world.space("sw"), "link", "set", "p3", "mtu")
        self.world.ip(*way, "1300")
        try:
            send = "import socket as s; c = s.socket(s.AF_INET, s.SOCK_DGRAM); " \
                   "c.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1); " \
                   "[c.sendto(bytes(1400), ('10.213.7.255', 9)) for _ in range(500)]"
            subprocess.run(self.world.inside("h3", sys.executable, "-c", send), check=True)
            done = subprocess.run(self.world.inside("h3", DOCTOR, "doctor"), text=True,
                                  capture_output=True, timeout=PATIENCE, env=self.environment(),
                                  stdin=subprocess.DEVNULL)
        finally:
            self.world.ip(*way, "1500")
        self.assertRegex(done.stdout, r"hint +network card +eth0 counts dropped packets: tx_dropped \d")

    def test_an_address_that_two_hosts_have(self):
        for host in ("h1", "h2"):
            self.world.ip("-n", self.world.space(host), "addr", "add", "10.99.0.1/24", "dev", "eth0")
        try:
            done = self.doctor("--host", "h1,h2")
        finally:
            for host in ("h1", "h2"):
                self.world.ip("-n", self.world.space(host), "addr", "del", "10.99.0.1/24", "dev",
                              "eth0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("10.99.0.1 is one of h1 and of h2", done.stdout)


@unittest.skipUnless(os.path.exists(DOCTOR), "needs pomona")
class Links(Case):
    """pomona links: what it finds, and what it remembers."""
    hosts = 2

    def links(self, *words, **changes):
        return subprocess.run([DOCTOR, "links", "--ssh", self.world.enter, *words], text=True,
                              capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(XDG_CACHE_HOME=self.world.place, **changes))

    def test_the_matrix_and_its_memory(self):
        done = self.links("--host", "h1,h2", "--json", "--forget")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual([host["host"] for host in report["hosts"]], ["h1", "h2"])
        used = [each for each in report["hosts"][0]["interfaces"] if each["used"]]
        self.assertIn("10.213.7.1/24", [each["address"] for each in used])
        self.assertTrue(all(each["mtu"] == 1500 for each in used), used)
        self.assertTrue(all(each["damaged_packets"] == 0 for each in used), used)
        (pair,) = report["pairs"]
        self.assertEqual(pair["hosts"], ["h1", "h2"])
        self.assertGreater(pair["gigabits"], 0)
        self.assertGreater(pair["latency_us"], 0)
        self.assertEqual(sum(path["first"] for path in pair["paths"]), 1, pair)
        self.assertEqual(pair["before"], [])
        # A link that gave a thousand times as much on another day.
        path = os.path.join(self.world.place, "pomona", "link-history")
        with open(path) as file:
            version, *hosts, _, latency, rate, by = file.read().split(" ", 6)
        with open(path, "w") as file:
            file.write(" ".join([version, *hosts, "2020-01-01", latency, str(float(rate) * 1000), by]))
        done = self.links("--host", "h1,h2")
        self.assertRegex(done.stdout, r"h1 - h2: .* us, .* Gb/s")
        self.assertRegex(done.stdout, r"gives .* Gb/s today, .* on 2020-01-01")

    def test_what_tune_measures_between_hosts_their_jobs_reckon_with(self):
        environment = self.environment(XDG_CACHE_HOME=os.path.join(self.world.place, "tuned"))
        def costs(*words):
            done = self.run_job("-n", 2, *words, DOCTOR, "info", env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [line for line in done.stdout.splitlines() if " links = " in line], done.stderr
        found, said = costs("-v", "--host", "h1,h2")
        self.assertEqual([line for line in found if "net=" in line], [])
        self.assertIn("those of h1 and h2 were never measured by --host", said)
        done = subprocess.run([DOCTOR, "tune", "--host", "h1,h2", "--ssh", self.world.enter,
                               "--links-only", "--force"], text=True, capture_output=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (net,) = set(re.findall(r"net=[0-9.:]+", done.stdout))
        self.assertEqual([net in line for line in costs("--host", "h1,h2")[0]], [True, True], net)
        self.assertEqual([line for line in costs("--host", "h1:2")[0] if "net=" in line], [])

    def test_tune_keeps_nothing_of_busy_hosts(self):
        cache = os.path.join(self.world.place, "busy")
        words = [DOCTOR, "tune", "--host", "h1,h2", "--ssh", self.world.enter, "--links-only"]
        kinds = {"text": True, "capture_output": True, "timeout": PATIENCE, "stdin": subprocess.DEVNULL,
                 "env": self.environment(XDG_CACHE_HOME=cache)}
        others = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.addCleanup(others.wait)
        self.addCleanup(others.kill)
        done = subprocess.run(words, **kinds)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"Host h1 was busy before the start: other programs used .* Nothing was kept")
        self.assertFalse(os.path.exists(os.path.join(cache, "pomona", "link-history")))
        done = subprocess.run([*words, "--force"], **kinds)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Host h2 was busy", done.stderr)
        self.assertTrue(os.path.exists(os.path.join(cache, "pomona", "link-history")))

    def test_tune_needs_two_hosts(self):
        done = subprocess.run([DOCTOR, "tune", "--host", "h1", "--ssh", self.world.enter], text=True, env=self.environment(),
                              capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("--host needs two hosts at least", done.stderr)

    def test_a_job_is_explained(self):
        done = self.run_job("-n", 2, "--explain", "--host", "h1,h2", "hostname",
                            env=self.environment(XDG_CACHE_HOME=self.world.place))
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["h1", "h2"]), done.stderr)
        self.assertRegex(done.stderr, r"h1 - h2: .* us, .* Gb/s")
        self.assertRegex(done.stderr, r"mpirun: rank 1 on h2: hostname")
        file = os.path.join(self.world.place, "explained.json")
        done = self.run_job("-n", 2, "--explain-json", file, "--host", "h1,h2", "hostname",
                            env=self.environment(XDG_CACHE_HOME=self.world.place))
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["h1", "h2"]), done.stderr)
        with open(file) as explained:
            self.assertEqual([each["hosts"] for each in json.load(explained)["pairs"]], [["h1", "h2"]])

    def test_interfaces_that_are_left_out(self):
        done = self.links("--host", "h1,h2", POMONA_IF_INCLUDE="10.213.7.0/24")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"fd00:7::1/64 .*not used: if_include=10.213.7.0/24")

    def test_no_interface_is_left(self):
        bench = os.path.join(os.path.dirname(MPIRUN), "mpi-bench")
        for variable, value in (("POMONA_IF_EXCLUDE", "eth0"), ("NCCL_SOCKET_IFNAME", "^eth0")):
            done = self.run_job("-n", 2, "--host", "h1,h2", bench, "latency", "-s", "8:8", "-t", "0.01",
                                env=self.environment(**{variable: value}))
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stderr, "if_exclude=eth0 leaves no interface by which other machines are reached; "
                                          "there are .*eth0 10.213.7.[12]")

    def test_what_gloo_and_nccl_were_told_of_networks(self):
        # A second network, which alone is wanted; mpirun hands these variables on.
        for host in ("h1", "h2"):
            self.world.ip("-n", self.world.space(host), "link", "add", "ib0", "type", "bridge")
            self.world.ip("-n", self.world.space(host), "addr", "add", "10.9.9.9/24", "dev", "ib0")
            self.world.ip("-n", self.world.space(host), "link", "set", "ib0", "up")
        try:
            for variable, value in (("GLOO_SOCKET_IFNAME", "eth0"), ("NCCL_SOCKET_IFNAME", "eth"),
                                    ("NCCL_SOCKET_IFNAME", "=eth0"), ("NCCL_SOCKET_IFNAME", "^ib")):
                done = self.links("--host", "h1,h2", "--json", **{variable: value})
                self.assertEqual(done.returncode, 0, done.stderr)
                for host in json.loads(done.stdout)["hosts"]:
                    by = {each["name"]: each for each in host["interfaces"]}
                    self.assertTrue(by["eth0"]["used"], (variable, value))
                    self.assertEqual(by["ib0"]["why_not"], f"{variable}={value}")
        finally:
            for host in ("h1", "h2"):
                self.world.ip("-n", self.world.space(host), "link", "del", "ib0")

    def test_a_host_that_is_not_there(self):
        done = self.links("--host", "h1,nosuch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("host nosuch cannot be used", done.stderr)


@unittest.skipUnless(os.path.exists(DOCTOR), "needs pomona")
@unittest.skipUnless(shutil.which("nft"), "needs nft")
class CutOff(Case):
    """Hosts that no packets of some others reach, though ssh does."""

    def cut(self, *pairs):
        """Each host of a pair drops what comes from the other one, by whatever address."""
        for host, other in [*pairs, *(reversed(pair) for pair in pairs)]:
            card = subprocess.run(self.world.inside(other, "cat", "/sys/class/net/eth0/address"),
                                  capture_output=True, text=True, check=True).stdout.strip()
            table = f"table inet cut {{ chain {other} {{ type filter hook input priority 0; ether saddr {card} drop; }}; }}"
            subprocess.run(self.world.inside(host, "nft", table), check=True)
            self.addCleanup(subprocess.run, self.world.inside(host, "nft", "delete chain inet cut " + other), check=True)

    def links(self, hosts, *words):
        start = time.monotonic()
        done = subprocess.run([DOCTOR, "links", "--ssh", self.world.enter, "--host", hosts, *words], text=True,
                              capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(XDG_CACHE_HOME=self.world.place))
        return done, time.monotonic() - start

    def test_the_matrix_tells_of_pairs_that_cannot_connect(self):
        self.cut(("h1", "h3"), ("h2", "h3"))
        done, took = self.links("h1,h2,h3")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^h1 - h2: .* us, .* Gb/s")
        for pair in ("h1 - h3", "h2 - h3"):
            self.assertRegex(done.stdout, rf"(?m)^{pair}: no connection: tcp 1, tried eth0 .*took too long.*\n"
                                          r"  -> .*a firewall.*pomona doctor")
        self.assertLess(took, 20)
        done, _ = self.links("h1,h2,h3", "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual([pair["hosts"] for pair in report["pairs"]], [["h1", "h2"]])
        self.assertEqual([pair["hosts"] for pair in report["unreached"]], [["h1", "h3"], ["h2", "h3"]])
        for pair in report["unreached"]:
            self.assertIn("took too long", pair["why"])
            self.assertIn("firewall", pair["mend"])

    def test_the_matrix_tells_of_hosts_that_ssh_cannot_reach(self):
        done, _ = self.links("h1,nosuch,h2,nowhere")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^h1 - h2: .* us, .* Gb/s")
        for name in ("nosuch", "nowhere"):
            self.assertRegex(done.stdout, rf"(?m)^{name}\n  cannot be used: .+")
            self.assertIn(f"{name} cannot be used: ", done.stderr)
        done, _ = self.links("h1,nosuch,h2", "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual([pair["hosts"] for pair in report["pairs"]], [["h1", "h2"]])
        self.assertEqual([host["host"] for host in report["lost"]], ["nosuch"])
        done, _ = self.links("nosuch,nowhere", "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual(sorted(host["host"] for host in report["lost"]), ["nosuch", "nowhere"])
        self.assertEqual(report["hosts"], [])
        done = subprocess.run([DOCTOR, "doctor", "--ssh", self.world.enter, "--host", "h1,nosuch,h2", "--json"],
                              text=True, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(XDG_CACHE_HOME=self.world.place))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["links"]["pairs"][0]["hosts"], ["h1", "h2"])

    def test_two_hosts_of_which_no_packet_reaches_the_other(self):
        self.cut(("h1", "h2"))
        done, took = self.links("h1,h2")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^h1 - h2: no connection: ")
        self.assertIn("h1 - h2 cannot connect", done.stderr)
        self.assertLess(took, 20)
        done = subprocess.run([DOCTOR, "doctor", "--ssh", self.world.enter, "--host", "h1,h2", "--json"], text=True,
                              capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=self.environment(XDG_CACHE_HOME=self.world.place))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["links"]["unreached"][0]["hosts"], ["h1", "h2"])

    def test_packets_that_are_dropped_however_short(self):
        def set_segments(most):
            for host in ("h1", "h2"):
                self.world.ip("-n", self.world.space(host), "link", "set", "eth0", "gso_max_segs", most)
        set_segments("1")
        self.addCleanup(set_segments, "65535")
        for host in ("h1", "h2"):
            table = "table inet long { chain c { type filter hook input priority 0; meta length > 450 drop; }; }"
            subprocess.run(self.world.inside(host, "nft", table), check=True)
            self.addCleanup(subprocess.run, self.world.inside(host, "nft", "delete table inet long"), check=True)
        start = time.monotonic()
        done = self.run_job("-n", 2, "--host", "h1,h2", "--set", "link_grace_s=5",
                            os.path.join(os.path.dirname(MPIRUN), "mpi-bench"), "allreduce", "-s", "256K:256K", "-q")
        self.assertNotIn(done.returncode, (0, 124))
        self.assertRegex(done.stderr, "Connections are made, but nothing that was sent has arrived for link_grace_s")
        self.assertLess(time.monotonic() - start, 60)

    def test_a_pair_that_goes_through_another_host(self):
        self.cut(("h2", "h3"))
        done, _ = self.links("h1,h2,h3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^h2 - h3: .* us, .* Gb/s, through h1\n(  .*\n)*"
                                      r"  no connection of their own: .*took too long.*\n(  .*\n)*  -> .*a firewall")


VERBS = os.path.join(os.path.dirname(MPIRUN), "..", "tests", "libpomona_fake_verbs.so")


@unittest.skipUnless(os.path.exists(DOCTOR) and os.path.exists(VERBS), "needs pomona and the fake verbs library")
class LinksByCables(Case):
    """pomona links where hosts have RDMA devices of the fake verbs library (../verbs): a cable
    from h1 to h2, one from h2 to h3, and one from h1 to h3 whose port is down at h1."""
    hosts = 3

    def test_each_cable_is_a_path_and_each_other_device_says_why_not(self):
        fabric = os.path.join(self.world.place, "fabric")
        os.mkdir(fabric)
        with open(os.path.join(fabric, "cables"), "w") as file:
            file.write("cable 1 rdma_en2 2 rdma_en5\ncable 2 rdma_en3 3 rdma_en6\n"
                       "cable 1 rdma_en4 3 rdma_en7\nport 1 rdma_en4 down\n")
        begin = f"POMONA_TEST_MACHINE=${{host#h}} POMONA_VERBS={VERBS} POMONA_TEST_FABRIC={fabric} "
        enter = self.world.stand_in("cabled", begin="export " + begin + "; ")
        words = [DOCTOR, "links", "--ssh", enter, "--host", "h1,h2,h3"]
        done = subprocess.run([*words, "--json"], text=True, capture_output=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        devices = {(host["host"], each["name"]): each for host in report["hosts"] for each in host["devices"]}
        self.assertEqual(len(devices), 6, done.stdout)
        self.assertGreater(len(devices["h1", "rdma_en2"]["addresses"]), 1)
        self.assertIn(devices["h1", "rdma_en2"]["address"], devices["h1", "rdma_en2"]["addresses"])
        self.assertEqual(devices["h1", "rdma_en4"]["state"], "down")
        self.assertIn("is down", devices["h1", "rdma_en4"]["why_not"])
        pairs = {tuple(pair["hosts"]): pair for pair in report["pairs"]}
        def cables(*hosts):
            return [(path["device"], path["peer_device"]) for path in pairs[hosts]["paths"] if path["device"]]
        self.assertEqual(cables("h1", "h2"), [("rdma_en2", "rdma_en5")], done.stdout)
        self.assertEqual(cables("h2", "h3"), [("rdma_en3", "rdma_en6")], done.stdout)
        self.assertEqual(cables("h1", "h3"), [], done.stdout)
        (cable,) = [path for path in pairs["h1", "h2"]["paths"] if path["device"]]
        self.assertEqual(cable["state"], "up")
        self.assertGreater(cable["round_trip_us"], 0)
        self.assertGreater(cable["gigabits"], 0)
        def why_not(*hosts):
            return {(each["host"], each["device"]): each["why_not"] for each in pairs[hosts]["devices_not_used"]}
        self.assertEqual(why_not("h1", "h2")["h2", "rdma_en3"], "its cable leads to h3")
        self.assertIn("is down", why_not("h1", "h2")["h1", "rdma_en4"])
        self.assertEqual(len(why_not("h1", "h3")), 4, done.stdout)
        done = subprocess.run(words, text=True, capture_output=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, env=self.environment())
        self.assertRegex(done.stdout, r"(?m)^  rdma_en2 .* RDMA, active +MTU \d+ +used with h2\n +and .+")
        self.assertRegex(done.stdout, r"(?m)^  up: rdma rdma_en2 .*, to rdma_en5 of h2 \(thunderbolt.*\)"
                                      r", round trip \d+ us, .* Gb/s$")
        self.assertRegex(done.stdout, r"(?m)^  not between them: rdma_en3 of h2: its cable leads to h3$")


class Reaching(Case):
    """What lies between mpirun and its agents."""

    def test_what_a_login_shell_prints(self):
        noisy = self.world.stand_in("noisy", begin="echo Welcome; echo warning >&2; ")
        done = self.run_job("-n", 1, "--host", "h1", "echo", "x", ssh=noisy)
        self.assertEqual((done.returncode, done.stdout), (0, "x\n"), done.stderr)

    def test_login_shells(self):
        for shell in ("fish", "tcsh", "zsh", "bash", "dash"):
            path = shutil.which(shell)
            if not path:
                continue
            with self.subTest(shell=shell):
                text = f"#!/bin/sh\nhost=$1\nshift\nexec {self.world.into} $host {path} -c \"$*\"\n"
                done = self.run_job("-n", 2, "--host", "h1,h2", "hostname",
                                    ssh=self.world.stand_in("login-" + shell, text=text))
                self.assertEqual(sorted(done.stdout.split()), ["h1", "h2"], done.stderr)

    def test_folders_with_odd_names(self):
        # Where Pomona stands, here and there, with whatever shell reads it there.
        folder = os.path.join(self.world.place, "Tim's \"new\" $HOME `code`! 100% \\ö\\041", "bin")
        os.makedirs(folder, exist_ok=True)
        program = shutil.copy(MPIRUN, folder)
        for shell in ("fish", "tcsh", "zsh", "bash", "dash"):
            path = shutil.which(shell)
            if not path:
                continue
            text = f"#!/bin/sh\nhost=$1\nshift\nexec {self.world.into} $host {path} -c \"$*\"\n"
            login = self.world.stand_in("odd-" + shell, text=text)
            for words in ([program], [MPIRUN, "--prefix", os.path.dirname(folder)]):
                done = subprocess.run([*words, "--ssh", login, "-n", "2", "--host", "h1,h2", "sh", "-c", "readlink /proc/$PPID/exe"],
                                      capture_output=True, text=True, timeout=PATIENCE, env=self.environment(PATH="/usr/bin:/bin"),
                                      stdin=subprocess.DEVNULL)
                self.assertEqual((done.returncode, done.stdout), (0, 2 * (program + "\n")), (shell, done.stderr))

    def test_failures_are_explained(self):
        for printed, code, mend in (("Host key verification failed.", 255, "ssh h1 true"),
                                    ("me@h1: Permission denied (publickey).", 255, "ssh-copy-id h1"),
                                    ("something else", 3, "ended with code 3: something else")):
            failing = self.world.stand_in("failing",
                                          text=f"#!/bin/sh\necho '{printed}' >&2\nexit {code}\n")
            done = self.run_job("-n", 1, "--host", "h1", "true", ssh=failing)
            self.assertEqual(done.returncode, 1)
            self.assertIn("host h1 cannot be used: ", done.stderr)
            self.assertIn(mend, done.stderr)

    def test_no_pomona_there(self):
        done = self.run_job("-n", 1, "--prefix", "/nowhere", "--host", "h1", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--prefix DIRECTORY", done.stderr)

    def test_only_another_librarys_mpirun_there(self):
        folder = os.path.join(self.world.place, "other-library")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "mpirun"), "w") as file:
            file.write("#!/bin/sh\n[ $1 = --version ] && echo 'mpirun (Other MPI) 9' && exit\n"
                       "echo \"unknown option $1\" >&2; exit 1\n")
        os.chmod(os.path.join(folder, "mpirun"), 0o755)
        there = self.world.stand_in("other-path", begin=f"PATH={folder}:/usr/bin:/bin; export PATH; ")
        subprocess.run(self.world.inside("h1", "mount", "--bind", "/dev/null", MPIRUN), check=True)
        try:
            done = self.run_job("-n", 1, "--host", "h1", "true", ssh=there)
        finally:
            subprocess.run(self.world.inside("h1", "umount", MPIRUN), check=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Pomona is not installed there", done.stderr)

    def test_a_prefix(self):
        prefix = os.path.join(self.world.place, "prefix")
        os.makedirs(os.path.join(prefix, "bin"), exist_ok=True)
        link = os.path.join(prefix, "bin", "mpirun")
        if not os.path.exists(link):
            os.symlink(MPIRUN, link)
        path = os.path.join(self.world.place, "prefixed")
        with open(path, "w") as file:
            file.write(f"h1 prefix={prefix}\nh2 prefix=/nowhere\n")
        self.assertEqual(self.run_job("--hostfile", path, "--host", "h1", "-n", 1, "hostname").stdout,
                         "h1\n")
        done = self.run_job("--hostfile", path, "-n", 2, "hostname")
        self.assertIn("host h2 cannot be used", done.stderr)

    def test_another_version(self):
        # A word of the same form with another version in it.
        other = self.world.stand_in("other", text="""#!/usr/bin/env python3
import struct, sys, time
def text(word): return struct.pack("<I", len(word)) + word
body = struct.pack("<I", 1) + text(b"0.0.9")
frame = struct.pack("<IB", len(body) + 1, 1) + body
sys.stdout.buffer.write(b"\\npomona-agent-speaks\\n" + frame)
sys.stdout.flush()
time.sleep(5)
""")
        done = self.run_job("-n", 1, "--host", "h1", "true", ssh=other)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"Pomona 0.0.9 stands there, and \d")

    def test_garbage_instead_of_an_agent(self):
        for text in ("cat /dev/urandom", "yes", "printf '\\npomona-agent-speaks\\n'; cat /dev/urandom"):
            garbage = self.world.stand_in("garbage", text=f"#!/bin/sh\n{text}\n")
            done = self.run_job("-n", 1, "--host", "h1", "true", ssh=garbage)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("host h1 cannot be used", done.stderr)

    def test_the_time_given_counts_while_hosts_are_reached(self):
        slow = self.world.stand_in("slow", text="#!/bin/sh\nexec sleep 600\n")
        begin = time.monotonic()
        done = self.run_job("--timeout", 1, "--host", "h1,h2", "true", ssh=slow)
        self.assertEqual(done.returncode, 124)
        self.assertIn("the time of 1 s given by --timeout is over; not reached yet: h1, h2", done.stderr)
        self.assertLess(time.monotonic() - begin, 5)

    def test_no_such_stand_in(self):
        done = self.run_job("-n", 1, "--host", "h1", "true", ssh="/nowhere/ssh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("see --ssh", done.stderr)

    def test_as_an_operator_of_kubernetes_starts_it(self):
        # Host names and the way to them come by variables for Open MPI; the first pod starts
        # slowly; no rank runs where mpirun does.
        tries = os.path.join(self.world.place, "tries")
        pods = self.world.stand_in("kubexec", text=f"""#!/bin/sh
[ "$1 $2" = "-o ConnectionAttempts=10" ] || exit 9
shift 2
echo x >> {tries}-$1
if [ $1 = h1 ] && [ $(wc -l < {tries}-$1) -lt 3 ]; then
    echo "ssh: Could not resolve hostname $1" >&2
    exit 255
fi
exec {self.world.enter} "$@"
""")
        path = os.path.join(self.world.place, "pods")
        for form, agent, list_of_hosts, more in (
                ("h{} slots=1\n", "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_args"),
                ("h{} slots=1\n", "PRTE_MCA_plm_ssh_agent", "PRTE_MCA_prte_default_hostfile", "PRTE_MCA_plm_ssh_args"),
                ("h{}:1\n", "HYDRA_LAUNCHER_EXEC", "HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS"),
                ("h{}:1\n", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_HOST_FILE",
                 "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")):
            with open(path, "w") as file:
                file.writelines(form.format(number) for number in (1, 2))
            pathlib.Path(tries + "-h1").unlink(missing_ok=True)
            done = subprocess.run([MPIRUN, "-n", "2", "hostname"], capture_output=True, text=True,
                                  timeout=PATIENCE, stdin=subprocess.DEVNULL,
                                  env=self.environment(
                                      **{agent: pods, list_of_hosts: path, more: "-o ConnectionAttempts=10"},
                                      KUBERNETES_SERVICE_HOST="10.0.0.1"))
            self.assertEqual((sorted(done.stdout.split()), done.stderr), (["h1", "h2"], ""), agent)
            with open(tries + "-h1") as file:
                self.assertEqual(file.read(), "x\n" * 3)

    def test_it_is_named_by_a_variable(self):
        done = subprocess.run([MPIRUN, "-n", "1", "--host", "h2", "hostname"], capture_output=True,
                              env=self.environment(POMONA_SSH=self.world.enter), text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual((done.stdout, done.stderr), ("h2\n", ""))


@unittest.skipUnless(shutil.which("sshd") and shutil.which("ssh-keygen"), "needs OpenSSH's server")
class RealSsh(Case):
    """OpenSSH on h2, with keys made for the test; mpirun runs on h1."""
    hosts = 2

    def setUp(self):
        super().setUp()
        place = self.world.place
        for name in ("host_key", "user_key"):
            if not os.path.exists(os.path.join(place, name)):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                                os.path.join(place, name)], check=True)
        os.makedirs("/run/sshd", exist_ok=True)
        config = os.path.join(place, "sshd_config")
        with open(config, "w") as file:
            file.write(f"Port 2222\nHostKey {place}/host_key\nPidFile none\nStrictModes no\n"
                       f"AuthorizedKeysFile {place}/user_key.pub\nPermitRootLogin yes\n"
                       "PasswordAuthentication no\nUsePAM no\n")
        self.server = self.sshd("h2", config)
        with open(os.path.join(place, "host_key.pub")) as file:
            key = file.read().split()[:2]
        with open(os.path.join(place, "known"), "w") as file:
            for name in ("[10.213.7.2]:2222", "[fd00:7::2]:2222", "[::1]:2222"):
                file.write(" ".join([name, *key]) + "\n")

    def sshd(self, host, config, *options):
        server = subprocess.Popen(
            self.world.inside(host, shutil.which("sshd"), "-D", "-e", "-f", config, *options),
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_server, server)
        self.assertIn("listening", server.stderr.readline())
        return server

    @staticmethod
    def end_server(server):
        server.terminate()
        server.wait()
        server.stderr.close()

    def ssh(self, known="known", key="user_key"):
        place = self.world.place
        return (f"ssh -p 2222 -i {place}/{key} -o IdentitiesOnly=yes -F none "
                f"-o UserKnownHostsFile={place}/{known}")

    def from_h1(self, *words, ssh=None):
        return self.world.inside("h1", *self.words(*words, ssh=ssh or self.ssh()))

    def run_from_h1(self, *words, ssh=None):
        return subprocess.run(self.from_h1(*words, ssh=ssh), capture_output=True, text=True,
                              timeout=PATIENCE, env=self.environment(), stdin=subprocess.DEVNULL)

    def test_ranks_on_both_ends(self):
        for host in ("10.213.7.2", "fd00:7::2", "root@10.213.7.2", "[fd00:7::2]:1"):
            done = self.run_from_h1("-n", 2, "--host", f"localhost:1,{host}", "hostname")
            self.assertEqual((sorted(done.stdout.split()), done.stderr), (["h1", "h2"], ""), host)

    @NEEDS_PRTERUN
    def test_prterun_goes_by_it(self):
        job = self.world.inside("h1", MPIRUN, "--launcher", "prterun", "--ssh", self.ssh(), "--host",
                                "10.213.7.1:1,10.213.7.2:1", "-n", "2", "sh", "-c", f"hostname; exec {PROBE} info")
        done = subprocess.run(job, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env=prterun_environment(self.world))
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in (0, 1):
            self.assertRegex(done.stdout, rf"rank={rank} size=2 local=0/1 origin=PMIx .*all=value of 0,value of 1\n")
            self.assertEqual(done.stdout.count(f"h{rank + 1}\n"), 1, done.stdout)

    def test_this_host_by_its_own_address(self):
        # ssh to ourselves, by the literals that need brackets: one host, whatever it is called.
        self.sshd("h1", os.path.join(self.world.place, "sshd_config"))
        for hosts, count in (("[::1]:1", 1), ("[::1]:1,[fd00:7::2]:1", 2), ("root@[::1]:2", 2)):
            done = self.run_from_h1("-n", count, "--host", hosts, "hostname")
            self.assertEqual((sorted(done.stdout.split()), done.stderr),
                             (["h1", "h2" if "," in hosts else "h1"][:count], ""), hosts)

    def test_a_host_with_another_key_than_before(self):
        # ssh then says, too, that its key could not be verified.
        with open(os.path.join(self.world.place, "user_key.pub")) as key, \
             open(os.path.join(self.world.place, "known-before"), "w") as known:
            known.write(" ".join(["[10.213.7.2]:2222", *key.read().split()[:2]]) + "\n")
        done = self.run_from_h1("-n", 1, "--host", "root@10.213.7.2", "true", ssh=self.ssh(known="known-before"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("its key is another than before. If that is right, forget the old one: "
                      "ssh-keygen -R 10.213.7.2\n", done.stderr)

    def test_another_user(self):
        # Who is not root there runs the ranks, and finds no way to root's directory.
        user = "nobody"
        done = self.run_from_h1("-n", 1, "--host", f"{user}@10.213.7.2", "id", "-un")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"host {user}@10.213.7.2 cannot be used", done.stderr)

    def test_login_shells_behind_it(self):
        # The user of h2 has another shell, which sshd starts without a terminal and with its PATH.
        passwd = os.path.join(self.world.place, "passwd")
        entry = pathlib.Path("/etc/passwd").read_text().splitlines()
        for shell in ("fish", "csh", "tcsh", "zsh"):
            path = shutil.which(shell)
            if not path:
                continue
            with self.subTest(shell=shell):
                pathlib.Path(passwd).write_text("\n".join(
                    ":".join([*line.split(":")[:-1], path]) if line.startswith("root:") else line
                    for line in entry) + "\n")
                subprocess.run(self.world.inside("h2", "mount", "--bind", passwd, "/etc/passwd"), check=True)
                try:
                    done = self.run_from_h1("-n", 2, "--host", "localhost:1,10.213.7.2", "sh", "-c",
                                            "echo $(hostname) $SHELL; tty; test -n \"$RANK\"")
                finally:
                    subprocess.run(self.world.inside("h2", "umount", "/etc/passwd"), check=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"h2 {path}\n", done.stdout)
                self.assertEqual(done.stdout.count("not a tty"), 2, done.stdout)

    def test_a_server_that_takes_few_at_once(self):
        # Many names lead to one sshd, as a gateway to a cluster does; what it drops comes again.
        config = os.path.join(self.world.place, "sshd_config")
        self.sshd("h2", config, "-p", "2224", "-o", "MaxStartups=2:100:2")
        count = 12
        names = [f"node{number}" for number in range(count)]
        client = os.path.join(self.world.place, "ssh_config")
        with open(client, "w") as file:
            file.write("Host node*\n HostName 10.213.7.2\n Port 2224\n HostKeyAlias [10.213.7.2]:2222\n")
        ssh = f"ssh -F {client} -i {self.world.place}/user_key -o IdentitiesOnly=yes " \
              f"-o UserKnownHostsFile={self.world.place}/known"
        done = self.run_from_h1("--host", ",".join(names), "hostname", ssh=ssh)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.split(), ["h2"] * count)

    def test_where_rank_0_is_reached(self):
        done = self.run_from_h1("-n", 2, "--host", "localhost,10.213.7.2", "sh", "-c",
                                "echo $MASTER_ADDR")
        self.assertEqual(done.stdout, "10.213.7.1\n" * 2, done.stderr)
        done = self.run_from_h1("-n", 2, "--host", "10.213.7.2,localhost", "sh", "-c",
                                "echo $MASTER_ADDR")
        self.assertEqual(done.stdout, "10.213.7.2\n" * 2, done.stderr)

    def test_keys_that_are_not_known(self):
        done = self.run_from_h1("-n", 1, "--host", "10.213.7.2", "true",
                                ssh=self.ssh(known="unknown"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ssh 10.213.7.2 true", done.stderr)
        done = self.run_from_h1("-n", 1, "--host", "10.213.7.2", "true",
                                ssh=self.ssh(key="host_key"))
        self.assertIn("ssh-copy-id 10.213.7.2", done.stderr)
        done = self.run_from_h1("-n", 1, "--host", "10.213.7.2", "true",
                                ssh=self.ssh().replace("2222", "2223"))
        self.assertIn("nothing listens for ssh there", done.stderr)

    def test_the_ssh_client_is_killed(self):
        process = subprocess.Popen(self.from_h1("-n", 2, "--host", "localhost,10.213.7.2",
                                                "sh", "-c", "echo $$; exec sleep 600"),
                                   stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment())
        pids = self.pids_of(process, 2)
        mpirun = process.pid  # unshare and sh have become it
        children = pathlib.Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
        clients = [int(pid) for pid in children
                   if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "ssh"]
        self.assertEqual(len(clients), 1)
        os.kill(clients[0], signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertIn("mpirun: host 10.213.7.2: the connection to it ended", err)
        self.nothing_left(pids)


if __name__ == "__main__":
    unittest.main()
