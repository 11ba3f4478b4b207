"""handover.py: is the machine as it mostly is? Told by what a bare cache line takes between two
cores.

Idea: a virtual machine's cores are moved by its host for seconds at a time, from neighbours to
cores that share no cache: a line then takes five times as long, and whichever library runs at that
moment looks slow. So a handover is measured before and after every run, which costs a tenth of a
second; a run does not begin until it is as usual, and one that it was not usual after is taken
again. All libraries are treated alike. `usual` is the median of all that were seen, so a machine
that is always slow, or that has one core, passes.
"""

import json
import statistics
import subprocess
import time

# Between machine states there is a factor of three and more, within one a tenth or two.
ODD_TIMES = 1.8
FIRST = 9        # samples before anything is judged
PAUSE = 0.3      # seconds between looks while it is odd


class Handover:
    def __init__(self, program, report, tries=4, patience=5.0, take=None, sleep=time.sleep):
        """`program`: mpi-bench; `report`: a scratch file. `tries`: runs of one measurement at most;
        1 takes every run as it comes. `patience`: seconds to wait for the usual state."""
        self.program, self.report, self.tries, self.patience = program, report, tries, patience
        self.take, self.sleep = take or self.measure, sleep
        self.seen = []
        self.again = 0    # runs taken again
        self.odd = 0      # runs that were kept although the machine was odd to the last

    def measure(self):
        """Microseconds of half a round trip, or None where there are no two cores."""
        command = [self.program, "limits", "handover", "-t", "0.005", "--json", str(self.report)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=30)
            rows = json.loads(self.report.read_text())["rows"] if done.returncode == 0 else []
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
            return None
        return rows[0]["p50_us"] if rows else None

    def usual(self):
        return statistics.median(self.seen) if self.seen else None

    def sample(self):
        value = self.take()
        if value is not None:
            self.seen.append(value)
        return value

    def is_odd(self):
        value = self.sample()
        return value is not None and len(self.seen) > FIRST and value > ODD_TIMES * self.usual()

    def wait(self):
        """Until the machine is as usual, or patience ends."""
        left = self.patience
        while self.is_odd() and left > 1e-9:
            self.sleep(PAUSE)
            left -= PAUSE

    def guard(self, run):
        """The result of run(), taken again where the machine was odd after it."""
        if self.tries <= 1:
            return run()
        while len(self.seen) < FIRST and self.sample() is not None:
            pass
        for attempt in range(self.tries):
            self.wait()
            result = run()
            if not self.is_odd():
                return result
            if attempt + 1 < self.tries:
                self.again += 1
        self.odd += 1
        return result

    def summary(self):
        """For JSON; None where nothing was measured."""
        if not self.seen:
            return None
        return {"usual_us": self.usual(), "least_us": min(self.seen), "most_us": max(self.seen),
                "runs_again": self.again, "runs_odd": self.odd}
