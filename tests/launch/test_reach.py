# tests/launch/test_reach.py: how mpirun reaches its hosts, through shells and ssh, and what is told
# where it cannot.
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from hosts_case import NEEDS_PRTERUN, Case, prterun_environment
from launch_case import MPIRUN, PATIENCE, PROBE


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
