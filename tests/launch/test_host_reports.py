# tests/launch/test_host_reports.py: what pomona doctor and pomona links say of hosts.
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

from hosts_case import Case
from launch_case import MPIRUN, PATIENCE

DOCTOR = os.path.join(os.path.dirname(MPIRUN), "pomona")


@unittest.skipUnless(os.path.exists(DOCTOR), "needs pomona")
class Doctor(Case):
    def doctor(self, *words, **changes):
        return subprocess.run([DOCTOR, "doctor", "--ssh", self.world.enter, *words], text=True,
                              capture_output=True, timeout=PATIENCE,
                              env=self.environment(XDG_CACHE_HOME=self.world.place, **changes),
                              stdin=subprocess.DEVNULL)

    def test_an_address_of_two_hosts_hurts_where_it_is_used(self):
        """A bridge of virtual machines may have the same everywhere, and what is left out, too:
        both are told, and nothing is wrong. Where a job would use them something is."""
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
            self.assertEqual([each["check"] for each in together if each["check"] == "together"],
                             ["together"] if done.returncode == 0 else [], together)
            return done.returncode, {each["text"].split()[0]: (each["state"], each["text"], each["mend"])
                                     for each in together if each["check"] == "addresses"}
        add("docker0", "172.17.0.1/16")
        add("br7", "172.18.0.1/16")
        add("eth0", "10.9.9.9/24")
        idle = "networks of the kind virtual are not used unless if_include names them"
        config = os.path.join(self.world.place, "left-out.conf")
        with open(config, "w") as file:
            file.write("if_exclude=10.9.9.9\n")
        code, said = found(POMONA_CONFIG=config)
        self.assertEqual((code, sorted(said)), (0, ["10.9.9.9", "172.17.0.1", "172.18.0.1"]))
        for address, name, why in (("172.17.0.1", "docker0", idle), ("172.18.0.1", "br7", idle),
                                   ("10.9.9.9", "eth0", "if_exclude=10.9.9.9")):
            text = f"{address} is one of h1 ({name}) and of h2 ({name}), and no job uses it: {why}"
            self.assertEqual(said[address][:2], ("ok", text))
            self.assertIn("another address", said[address][2])
        code, said = found()
        self.assertEqual((code, said["10.9.9.9"][:2]), (1, ("bad", "10.9.9.9 is one of h1 and of h2")))
        self.assertEqual(said["172.17.0.1"][0], "ok")
        code, said = found(POMONA_IF_INCLUDE="eth0,docker0", POMONA_IF_EXCLUDE="10.9.9.9")
        self.assertEqual((code, said["172.17.0.1"][:2]), (1, ("bad", "172.17.0.1 is one of h1 and of h2")))

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

    def words(self, name, cables):
        """Of pomona links, where there are these cables and faults."""
        fabric = os.path.join(self.world.place, "fabric_" + name)
        os.mkdir(fabric)
        with open(os.path.join(fabric, "cables"), "w") as file:
            file.write(cables)
        begin = f"POMONA_TEST_MACHINE=${{host#h}} POMONA_VERBS={VERBS} POMONA_TEST_FABRIC={fabric} "
        enter = self.world.stand_in(name, begin="export " + begin + "; ")
        return [DOCTOR, "links", "--ssh", enter, "--host", "h1,h2,h3"]

    def test_a_driver_that_hangs_is_named_and_others_are_used(self):
        words = self.words("hung", "cable 1 rdma_en2 2 rdma_en5\ncable 2 rdma_en3 3 rdma_en6\n"
                                   "hang 3 rdma_en6 ibv_query_gid\n")
        done = subprocess.run([*words, "--json"], text=True, capture_output=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        why = {each["name"]: each["why_not"] for host in report["hosts"] for each in host["devices"]}
        self.assertRegex(why["rdma_en6"], r"^the driver of rdma_en6 has not returned from ibv_query_gid for \d+ s")
        self.assertEqual([why[name] for name in ("rdma_en2", "rdma_en3", "rdma_en5")], [""] * 3)
        paths = {path["device"] for pair in report["pairs"] for path in pair["paths"] if path["device"]}
        self.assertEqual(paths, {"rdma_en2"}, done.stdout)

    def test_each_cable_is_a_path_and_each_other_device_says_why_not(self):
        words = self.words("cabled", "cable 1 rdma_en2 2 rdma_en5\ncable 2 rdma_en3 3 rdma_en6\n"
                                     "cable 1 rdma_en4 3 rdma_en7\nport 1 rdma_en4 down\n")
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


if __name__ == "__main__":
    unittest.main()
