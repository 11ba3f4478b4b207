# tests/host_world.py: several hosts on one machine, for tests: namespaces with a network, a name,
# IPC and mounts (/dev/shm) of their own, joined by a virtual switch, and a stand-in for ssh that
# enters them. Processes and /tmp are all hosts' alike. Everything is removed at the end.
#     host_world.py COUNT COMMAND...    runs a command with POMONA_SSH set; HOSTS in it becomes h1,h2,...
# Ends with code 77 where this cannot be done: not Linux, not root.
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ENTER = """#!/bin/sh
# Stands for ssh: HOST command. What it was started as is noted, so that tests can end it.
host=$1
shift
echo $$ >> {place}/shells-$host
cd {home} || exit 1
exec {into} $host {shell} -c "{begin}{last}$*"
"""
# HOST words...: runs them there, as this process.
INTO = """#!/bin/sh
holder=$(cat {place}/holder-$1) || exit 1
shift
exec nsenter --target $holder --net --uts --ipc --mount --wd=. "$@"
"""


def possible():
    return (os.uname().sysname == "Linux" and os.getuid() == 0 and shutil.which("ip") is not None
            and subprocess.run(["unshare", "--uts", "--net", "--ipc", "--mount", "true"], capture_output=True).returncode == 0)


class HostWorld:
    """Hosts h1, h2, ... with addresses 10.213.7.1, fd00:7::1, ...; `enter` stands for ssh."""

    def __init__(self, count):
        self.count = count
        self.tag = f"pomt{os.getpid()}"
        self.place = tempfile.mkdtemp(prefix="pomona-hosts-")
        self.home = os.path.join(self.place, "home")
        os.mkdir(self.home)
        self.temporary = os.path.join(self.place, "t")
        os.mkdir(self.temporary)
        self.holders = {}  # a process in each host's namespaces, which keeps them
        self.into = self.stand_in("into", text=INTO.format(place=self.place))
        self.enter = self.stand_in("enter")
        self.apart = self.stand_in("apart", last="")  # a process between, as ssh is one
        self.ip("netns", "add", self.tag + "sw")
        self.ip("-n", self.tag + "sw", "link", "add", "br0", "type", "bridge")
        self.ip("-n", self.tag + "sw", "link", "set", "br0", "up")
        for number in range(1, count + 1):
            space = self.space(f"h{number}")
            self.ip("netns", "add", space)
            self.ip("-n", space, "link", "set", "lo", "up")
            self.ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name",
                    f"p{number}", "netns", self.tag + "sw")
            self.ip("-n", self.tag + "sw", "link", "set", f"p{number}", "master", "br0", "up")
            self.ip("-n", space, "addr", "add", f"10.213.7.{number}/24", "dev", "eth0")
            subprocess.run(["ip", "netns", "exec", space, "sh", "-c",
                            "echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad"], check=False)
            self.ip("-n", space, "addr", "add", f"fd00:7::{number}/64", "dev", "eth0")
            self.ip("-n", space, "link", "set", "eth0", "up")
            self.hold(f"h{number}")

    def hold(self, host):
        holder = subprocess.Popen(
            ["ip", "netns", "exec", self.space(host), "unshare", "--uts", "--ipc", "--mount", "sh", "-c",
             f"hostname {host} && mount -t tmpfs none /dev/shm && echo held && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.holders[host] = holder
        if holder.stdout.readline() != "held\n":
            raise RuntimeError(f"the namespaces of {host} cannot be made")
        with open(os.path.join(self.place, "holder-" + host), "w") as file:
            file.write(str(holder.pid))

    def space(self, host):
        return self.tag + host

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def stand_in(self, name, shell="sh", begin="", last="exec ", text=None):
        path = os.path.join(self.place, name)
        with open(path, "w") as file:
            file.write(text if text is not None else ENTER.format(
                place=self.place, home=self.home, into=self.into, shell=shell, begin=begin, last=last))
        os.chmod(path, 0o755)
        return path

    def inside(self, host, *words):
        """The command line that runs words on a host."""
        return [self.into, host, *map(str, words)]

    def shared_memory(self):
        """What the hosts have of ours in /dev/shm."""
        return [f"{host}: {name}" for host, holder in self.holders.items()
                for name in os.listdir(f"/proc/{holder.pid}/root/dev/shm") if "pomona" in name]

    def names(self, count=None):
        return ",".join(f"h{number}" for number in range(1, (count or self.count) + 1))

    def shells(self, host):
        """Process numbers of the stand-ins for ssh that were started for this host."""
        try:
            with open(os.path.join(self.place, "shells-" + host)) as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def forget_shells(self):
        for name in os.listdir(self.place):
            if name.startswith("shells-"):
                os.unlink(os.path.join(self.place, name))

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
            holder.stdout.close()
        for name in [f"h{number}" for number in range(1, self.count + 1)] + ["sw"]:
            subprocess.run(["ip", "netns", "del", self.tag + name], capture_output=True)
        shutil.rmtree(self.place, ignore_errors=True)


class HostCase(unittest.TestCase):
    hosts = 3

    @classmethod
    def setUpClass(cls):
        if not possible():
            raise unittest.SkipTest("needs root on Linux, ip and network namespaces")
        cls.world = HostWorld(cls.hosts)
        cls.addClassCleanup(cls.world.close)

    def setUp(self):
        self.world.forget_shells()


def main(count, *command):
    if not possible():
        return 77
    world = HostWorld(int(count))
    try:
        return subprocess.run([word.replace("HOSTS", world.names()) for word in command],
                              env=dict(os.environ, POMONA_SSH=world.enter)).returncode
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
