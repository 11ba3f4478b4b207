"""mypy --strict over the package, as its users' checkers read it (py.typed)."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed: pip install mypy")
def test_the_package_is_typed(tmp_path):
    folder = BUILD / "python"
    tools = ROOT / "torch_glue" / "python" / "pomona_tools"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(folder / "pomona"), str(tools)],
        capture_output=True, text=True, check=False, timeout=500, cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
