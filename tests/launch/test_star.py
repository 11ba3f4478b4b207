# tests/launch/test_star.py: as many hosts as mpirun serves, at once, and one more. The hosts are
# namespaces of this machine, with one rank each.
import os
import subprocess
import unittest

from hosts_case import Case, HERE, MPICC

MOST = 64  # docs/launchers.md promises so many


class Star(Case):
    hosts = MOST + 1
    patience = 240  # so many processes on a machine of few cores, which may have other work

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.join(cls.world.place, "rounds")
        subprocess.run([MPICC, os.path.join(HERE, "rounds.c"), "-o", cls.program], check=True)

    def test_they_sum(self):
        # Ranks of one machine's cores, which think that each has its own.
        done = self.run_job("--host", self.world.names(MOST), "--set", "spin_us=0", self.program, "once")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_each_has_one_rank(self):
        done = self.run_job("--host", self.world.names(MOST), "sh", "-c", "echo $RANK $(hostname)")
        self.assertEqual(done.stderr, "")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"{rank} h{rank + 1}" for rank in range(MOST)))

    def test_one_fails_and_all_end(self):
        process = self.start("--host", self.world.names(MOST), "sh", "-c",
                             'echo $$; test $RANK = 40 && read x < fifo && exit 7; exec sleep 600',
                             cwd=self.fifo())
        pids = self.pids_of(process, MOST)
        with open(os.path.join(self.world.home, "fifo"), "w") as file:
            file.write("go\n")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 7, err)
        self.assertIn("rank 40", err)
        self.nothing_left(pids)

    def fifo(self):
        os.mkfifo(os.path.join(self.world.home, "fifo"))
        return self.world.home

    def test_one_more_is_refused(self):
        done = self.run_job("--host", self.world.names(), "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{MOST + 1} hosts were named, and mpirun starts processes on {MOST} at most; in a "
                      "batch system let its own starter carry the job", done.stderr)


if __name__ == "__main__":
    unittest.main()
