# tests/slurm_world.py: a Slurm cluster on one machine, for tests: the hosts of host_world.py, with
# munged, slurmctld and a slurmd on each, of the system's packages. Everything is removed at the
# end.
#     slurm_world.py COUNT COMMAND...    runs a command on the first host, inside an allocation of all
# Ends with code 77 where this cannot be done, and says what is missing.
# Idea: each slurmd stands in a host's own namespaces, so it is a node like any other: its name is
# the host's, and its ports are nobody else's. Only munged's socket and the files are shared.
import os
import shutil
import subprocess
import sys
import tempfile
import time

from host_world import HostWorld, possible

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
PATIENCE = 60

CONFIG = """ClusterName=pomona
SlurmctldHost={first}(10.213.7.1)
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
TmpFS={place}/tmp-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=2
UnkillableStepTimeout=20
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def program(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def missing():
    """Why there can be no such cluster here; "" if there can."""
    if not possible():
        return "needs root on Linux, ip and network namespaces"
    packages = sorted(package for name, package in PROGRAMS.items() if not program(name))
    if packages:
        return "needs the packages " + " ".join(packages)
    with tempfile.NamedTemporaryFile("w") as config:
        config.write("ClusterName=none\nSlurmctldHost=localhost\n")
        config.flush()
        known = subprocess.run([program("srun"), "--mpi=list"], capture_output=True, text=True,
                               env=dict(os.environ, SLURM_CONF=config.name))
    if "pmix" not in known.stdout + known.stderr:
        return "Slurm has no PMIx plugin here (Debian: slurm-wlm-basic-plugins)"
    return ""


class SlurmWorld:
    def __init__(self, count, slots=4):
        self.world = HostWorld(count)
        self.place = self.world.place
        self.slots = slots
        self.daemons = []
        try:
            self.start(count)
        except BaseException:
            self.close()
            raise

    def start(self, count):
        os.mkdir(os.path.join(self.place, "state"))
        hosts = [f"h{number}" for number in range(1, count + 1)]
        nodes = "\n".join(f"NodeName={host} NodeAddr=10.213.7.{number} CPUs={self.slots} State=UNKNOWN"
                          for number, host in enumerate(hosts, 1))
        self.config = os.path.join(self.place, "slurm.conf")
        with open(self.config, "w") as file:
            file.write(CONFIG.format(first=hosts[0], place=self.place, nodes=nodes))
        with open(os.path.join(self.place, "cgroup.conf"), "w") as file:
            file.write("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        key = os.path.join(self.place, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(128))
        self.daemon(program("munged"), "--foreground", "--force", f"--key-file={key}",
                    *(f"--{what}={self.place}/munge.{name}" for what, name in
                      (("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"),
                       ("seed-file", "seed"))))
        self.wait(lambda: os.path.exists(os.path.join(self.place, "munge.socket")), "munged")
        self.daemon(*self.world.inside(hosts[0], program("slurmctld"), "-D", "-f", self.config))
        for host in hosts:
            os.mkdir(os.path.join(self.place, "tmp-" + host))
            self.daemon(*self.world.inside(host, program("slurmd"), "-D", "-N", host, "-f", self.config))
        self.wait(lambda: self.run("sinfo", "-h", "-o", "%T %D").stdout == f"idle {count}\n", "slurmd")

    def daemon(self, *words):
        with open(os.path.join(self.place, "daemons.log"), "a") as log:
            self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 env=self.environment(), start_new_session=True))

    def wait(self, done, what):
        end = time.monotonic() + PATIENCE
        while not done():
            dead = [each.args for each in self.daemons if each.poll() is not None]
            if time.monotonic() > end or dead:
                raise RuntimeError(f"{what} does not come up; ended: {dead}; {self.logs()}")
            time.sleep(0.05)

    def logs(self):
        out = ""
        for name in sorted(os.listdir(self.place)):
            if name.endswith(".log"):
                with open(os.path.join(self.place, name), errors="replace") as file:
                    out += f"\n--- {name}\n" + file.read()[-2000:]
        return out

    def environment(self, **changes):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("SLURM_", "PMIX_", "PMI_", "POMONA_", "OMPI_"))}
        kept.update(SLURM_CONF=os.path.join(self.place, "slurm.conf"), **changes)
        return kept

    def run(self, *words, environment=None, **kinds):
        """A command on the first host."""
        kinds.setdefault("timeout", PATIENCE)
        return subprocess.run(self.world.inside("h1", *words), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env=environment or self.environment(), **kinds)

    def close(self):
        for each in reversed(self.daemons):
            each.terminate()
        for each in reversed(self.daemons):
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        self.world.close()


def main(count, *command):
    why = missing()
    if why:
        print("slurm_world: " + why)
        return 77
    world = SlurmWorld(int(count))
    try:
        return subprocess.run(world.world.inside("h1", "salloc", "-Q", f"-N{count}", "--ntasks-per-node=2", *command),
                              env=world.environment(), stdin=subprocess.DEVNULL).returncode
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
