# tests/host_world.py: several hosts on one machine, for tests: namespaces with a network, a name,
# IPC and mounts (/dev/shm) of their own, joined by a virtual switch (or several, with an interface
# of each host at each), and a stand-in for ssh that enters them. Processes and /tmp are all hosts'
# alike, but of hosts that are `apart`: these number their processes themselves, see nobody else's,
# and have a /tmp of their own, in which only this world's folder is there. Everything is removed at
# the end.
#     host_world.py [--apart] COUNT COMMAND...    runs a command with POMONA_SSH set; HOSTS in it becomes h1,h2,...
# Ends with code 77 where this cannot be done: not Linux, not root.
import os
import shutil
import signal
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
exec nsenter --target $holder --net --uts --ipc --mount {more} --wd=. "$@"
"""
# Stands for ssh to launchers that name hosts by their addresses and give it options.
BY_ADDRESS = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    10.213.7.*) host=h${{1##*.}}; shift; break ;;
    esac
    shift
done
exec {enter} "$host" "$@"
"""
# A host that is apart: what stays in /tmp are the folders {kept}. Its process 1 waits for nobody
# who loses the parent, as in many containers.
APART = """mount -t tmpfs none /mnt && mkdir /mnt/was && mount --bind /tmp /mnt/was &&
mount -t tmpfs -o mode=1777 none /tmp && for folder in {kept}; do
    mkdir -p $folder && mount --bind /mnt/was/${{folder#/tmp/}} $folder || exit 1
done && umount -l /mnt/was && umount -l /mnt && """


def possible():
    return (os.uname().sysname == "Linux" and os.getuid() == 0 and shutil.which("ip") is not None
            and subprocess.run(["unshare", "--uts", "--net", "--ipc", "--mount", "true"], capture_output=True).returncode == 0)


TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TREE, "tests", "bench"))
from namespaces import keep_order, refused, shape_line  # noqa: E402,F401


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children_of(pid):
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def command_of(pid):
    return read(f"/proc/{pid}/comm").strip()


def parent_of(pid):
    return int((read(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split() or [0, 0])[1])


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def inside_number(pid):
    """The number that a process has in its own namespace."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


class HostWorld:
    """Hosts h1, h2, ... with addresses 10.213.7.1, fd00:7::1, ...; `enter` stands for ssh. Each has
    so many cards: eth0 at the switch br0, eth1 at br1 with addresses 10.213.8.1, fd00:8::1, ..."""

    def __init__(self, count, apart=False, cards=1):
        self.count = count
        self.cards = range(cards)
        self.own_processes = apart
        self.tag = f"pomt{os.getpid()}"
        self.place = tempfile.mkdtemp(prefix="pomona-hosts-")
        self.home = os.path.join(self.place, "home")
        os.mkdir(self.home)
        self.temporary = os.path.join(self.place, "t")
        os.mkdir(self.temporary)
        self.holders = {}  # a process that keeps each host's namespaces
        self.first = {}    # and one in them
        self.into = self.stand_in("into", text=INTO.format(place=self.place, more="--pid" if apart else ""))
        self.enter = self.stand_in("enter")
        self.apart = self.stand_in("apart", last="")  # a process between, as ssh is one
        self.ip("netns", "add", self.tag + "sw")
        for card in self.cards:
            self.ip("-n", self.space("sw"), "link", "add", f"br{card}", "type", "bridge")
            self.ip("-n", self.space("sw"), "link", "set", f"br{card}", "up")
        for number in range(1, count + 1):
            space = self.space(f"h{number}")
            self.ip("netns", "add", space)
            self.ip("-n", space, "link", "set", "lo", "up")
            for card in self.cards:
                self.plug_in(number, card)
            self.hold(f"h{number}")
        keep_order(self.space("sw"), *(self.port(number, card) for number in range(1, count + 1) for card in self.cards))

    def plug_in(self, number, card):
        """An interface of a host, with addresses, and the cable from it to its switch."""
        space, name, port = self.space(f"h{number}"), f"eth{card}", self.port(number, card)
        self.ip("-n", space, "link", "add", name, "type", "veth", "peer", "name", port, "netns", self.space("sw"))
        self.ip("-n", self.space("sw"), "link", "set", port, "master", f"br{card}", "up")
        self.ip("-n", space, "addr", "add", f"{self.address(number, card)}/24", "dev", name)
        subprocess.run(["ip", "netns", "exec", space, "sh", "-c",
                        f"echo 0 > /proc/sys/net/ipv6/conf/{name}/accept_dad"], check=False)
        self.ip("-n", space, "addr", "add", f"fd00:{7 + card}::{number}/64", "dev", name)
        self.ip("-n", space, "link", "set", name, "up")
        keep_order(space, name)

    @staticmethod
    def port(number, card=0):
        """The end of a host's cable at the switch."""
        return f"p{number}" + (f"-{card}" if card else "")

    def switch(self, card, state):
        """Without power ("down") no interface at it has a carrier."""
        for number in range(1, self.count + 1):
            self.ip("-n", self.space("sw"), "link", "set", self.port(number, card), state)

    def shape(self, megabits, hosts=None, cards=None):
        """The cables of these hosts (numbers; else all) carry so many Mb/s, either way."""
        burst = max(128 << 10, megabits * 20)
        for number in hosts or range(1, self.count + 1):
            for card in self.cards if cards is None else cards:
                shape_line(self.space(f"h{number}"), f"eth{card}", megabits, burst)
                shape_line(self.space("sw"), self.port(number, card), megabits, burst)

    def steer(self, number, processor):
        """What this host sends and receives is seen to by this processor alone."""
        for card in self.cards:
            keep_order(self.space(f"h{number}"), f"eth{card}", processor=processor)
            keep_order(self.space("sw"), self.port(number, card), processor=processor)

    def hold(self, host):
        script = f"hostname {host} && mount -t tmpfs none /dev/shm && "
        more = []
        if self.own_processes:
            more = ["--pid", "--fork", "--kill-child", "--mount-proc"]
            build = os.path.dirname(os.path.dirname(os.environ.get("POMONA_TEST_MPIRUN", "")))
            script += APART.format(kept=" ".join(path for path in (self.place, TREE, build)
                                                 if path.startswith("/tmp/")))
        holder = subprocess.Popen(
            ["ip", "netns", "exec", self.space(host), "unshare", "--uts", "--ipc", "--mount", *more, "sh", "-c",
             f"{script} echo held && exec cat > /dev/null"],  # as long as we live
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.holders[host] = holder
        if holder.stdout.readline() != "held\n":
            raise RuntimeError(f"the namespaces of {host} cannot be made")
        # Of hosts that are apart the child is inside, as process 1.
        self.first[host] = children_of(holder.pid)[0] if self.own_processes else holder.pid
        with open(os.path.join(self.place, "holder-" + host), "w") as file:
            file.write(str(self.first[host]))

    def space(self, host):
        return self.tag + host

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    @staticmethod
    def address(number, card=0):
        """Of host h<number>."""
        return f"10.213.{7 + card}.{number}"

    def stand_in(self, name, shell="sh", begin="", last="exec ", text=None):
        path = os.path.join(self.place, name)
        with open(path, "w") as file:
            file.write(text if text is not None else ENTER.format(
                place=self.place, home=self.home, into=self.into, shell=shell, begin=begin, last=last))
        os.chmod(path, 0o755)
        return path

    def by_address(self):
        return self.stand_in("by-address", text=BY_ADDRESS.format(enter=self.apart))

    def inside(self, host, *words):
        """The command line that runs words on a host."""
        return [self.into, host, *map(str, words)]

    def shared_memory(self):
        """What the hosts have of ours in /dev/shm."""
        return self.entries("/dev/shm")

    def entries(self, folder):
        """What the hosts have of ours in a folder of their own."""
        return [f"{host}: {name}" for host, first in self.first.items()
                for name in os.listdir(f"/proc/{first}/root{folder}")
                if "pomona" in name and os.path.join(folder, name) != self.place]

    def processes(self):
        """Of hosts that are apart: all processes but the first, by the numbers they have here."""
        out = {host: [] for host in self.first}
        spaces = {os.readlink(f"/proc/{first}/ns/pid"): host for host, first in self.first.items()}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                host = spaces.get(os.readlink(f"/proc/{name}/ns/pid"))
                state = state_of(name)
            except OSError:
                continue  # it has just ended
            if host and state != "Z" and int(name) != self.first[host]:
                out[host].append(int(name))
        return out

    def outside(self, numbers):
        """The numbers that ranks have here, of those by which they know themselves. An agent on
        one host, or its watchdog, may have the number of a rank on another one."""
        if not self.own_processes:
            return numbers
        known = {}
        for pids in self.processes().values():
            for pid in pids:
                if command_of(pid) not in ("mpirun", "pomona-watchdog"):
                    known.setdefault(inside_number(pid), []).append(pid)
        return [known[number].pop() if known.get(number) else number for number in numbers]

    def host_of(self, pid):
        """By its network: which host a process is on."""
        there = os.stat(f"/proc/{pid}/ns/net").st_ino
        for host, first in self.first.items():
            if os.stat(f"/proc/{first}/ns/net").st_ino == there:
                return host
        return None

    def told(self, pid):
        """And the other way round."""
        return inside_number(pid)

    def names(self, count=None):
        return ",".join(f"h{number}" for number in range(1, (count or self.count) + 1))

    def shells(self, host):
        """Process numbers of the stand-ins for ssh that were started for this host; where one has
        become what it runs (nsenter's child, on hosts that are apart), that one's."""
        try:
            with open(os.path.join(self.place, "shells-" + host)) as file:
                shells = [int(line) for line in file]
        except FileNotFoundError:
            return []
        return [self.within(pid) for pid in shells]

    @staticmethod
    def within(pid):
        """What nsenter has started, if the process is one that has."""
        return children_of(pid)[0] if command_of(pid) == "nsenter" and children_of(pid) else pid

    @staticmethod
    def with_nsenter(pids):
        """Those processes, and each nsenter that waits for one of them."""
        parents = [parent_of(pid) for pid in pids]
        return [*pids, *(parent for parent in parents if command_of(parent) == "nsenter")]

    def forget_shells(self):
        for name in os.listdir(self.place):
            if name.startswith("shells-"):
                os.unlink(os.path.join(self.place, name))

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()
        for name in [f"h{number}" for number in range(1, self.count + 1)] + ["sw"]:
            subprocess.run(["ip", "netns", "del", self.tag + name], capture_output=True)
        shutil.rmtree(self.place, ignore_errors=True)


class HostCase(unittest.TestCase):
    hosts = 3
    apart, cards = False, 1  # see HostWorld

    @classmethod
    def setUpClass(cls):
        if not possible():
            raise unittest.SkipTest("needs root on Linux, ip and network namespaces")
        cls.world = HostWorld(cls.hosts, cls.apart, cls.cards)
        cls.addClassCleanup(cls.world.close)

    def setUp(self):
        self.world.forget_shells()


def main(*words):
    if not possible():
        return 77
    apart = words[0] == "--apart"
    count, *command = words[apart:]
    started = []

    def pass_on(*_):
        for process in started:
            process.terminate()
        if not started:
            sys.exit(143)

    signal.signal(signal.SIGTERM, pass_on)
    world = HostWorld(int(count), apart)
    try:
        started.append(subprocess.Popen([word.replace("HOSTS", world.names()) for word in command],
                                        # Other tests' hosts have the same names.
                                        env={"POMONA_LEARN_LINKS": "no", **os.environ, "POMONA_SSH": world.enter}))
        return started[0].wait()
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
