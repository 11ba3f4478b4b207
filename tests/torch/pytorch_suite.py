"""PyTorch's own distributed tests (shipped in its wheel) over Pomona; runs on every rank.

    mkdir -p /tmp/suite/barrier /tmp/suite/test_dir
    BACKEND=mpi WORLD_SIZE=3 TEMP_DIR=/tmp/suite mpirun -n 3 python tests/torch/pytorch_suite.py

With ACTUAL=mpi BACKEND=gloo the tests that are meant for gloo run too, on backend "mpi".
Needs the package expecttest. Rank 0 reports. Most tests ask for GPUs or NCCL and skip themselves;
their names and reasons are written to the file SKIPPED, if that is set.
"""

import io
import os
import sys
import unittest
import warnings
from datetime import timedelta

warnings.filterwarnings("ignore")
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.common_distributed import TEST_SKIPS  # noqa: E402
from torch.testing._internal.common_utils import TestCase  # noqa: E402
from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402

REASONS = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}


def left_out(name):
    """With ACTUAL: tests that ask for gloo by name."""
    by_name = name == "test_get_backend" or name.startswith("test_monitored_barrier_gloo")
    return "ACTUAL" in os.environ and by_name


class TestPomona(TestCase, suite.DistributedTest._DistTestBase):
    """The ranks exist already and share one group."""

    def _callTestMethod(self, method):
        try:
            method()
        except SystemExit as exit_:  # how its decorators skip: exit codes to a parent process
            raise unittest.SkipTest(REASONS.get(exit_.code, f"exit code {exit_.code}")) from None

    @property
    def world_size(self):
        return os.environ["WORLD_SIZE"]

    @property
    def rank(self):
        return dist.get_rank()


def main():
    dist.init_process_group(os.environ.get("ACTUAL", os.environ["BACKEND"]), timeout=timedelta(seconds=60))
    if dist.get_rank() == 0:
        suite.Barrier.init()  # empties its folder
    dist.barrier()
    names = sys.argv[1:] or unittest.defaultTestLoader.getTestCaseNames(TestPomona)
    tests = unittest.TestSuite(TestPomona(name) for name in names if not left_out(name))
    text = sys.stderr if os.environ.get("VERBOSE") and dist.get_rank() == 0 else io.StringIO()
    result = unittest.TextTestRunner(stream=text, verbosity=2).run(tests)
    failed = [str(test) for test, _ in result.failures + result.errors]
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, failed)
    if dist.get_rank() == 0:
        for test, trace in result.failures + result.errors:
            print(test, trace[-1500:], sep="\n")
        ran = result.testsRun - len(result.skipped)
        if "SKIPPED" in os.environ:
            with open(os.environ["SKIPPED"], "w", encoding="utf-8") as file:
                file.writelines(sorted(f"{test._testMethodName}: {why}\n" for test, why in result.skipped))
        print(f"{ran} tests ran, {len(result.skipped)} skipped, failed: {sum(map(len, gathered))}")
        for names in gathered:
            print("\n".join(names))
    sys.exit(1 if any(gathered) else 0)


if __name__ == "__main__":
    main()
