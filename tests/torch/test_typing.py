"""The package as its users see it: mypy --strict, as their checkers read it (py.typed), and
docstrings."""

import ast
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


PUBLIC = ("__init__", "hooks", "predict", "recovery", "sight", "_settings")


def public(body):
    return [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_"]


def without_docstring(tree):
    """Public functions, classes and methods; but for methods that another class of the file
    explains."""
    classes = [node for node in public(tree.body) if isinstance(node, ast.ClassDef)]
    methods = [(one.name, node) for one in classes for node in public(one.body)]
    explained = {node.name for _, node in methods if ast.get_docstring(node)}
    yield from (node.name for node in public(tree.body) if not ast.get_docstring(node))
    yield from (f"{name}.{node.name}" for name, node in methods if node.name not in explained)


@pytest.mark.parametrize("module", PUBLIC)
def test_what_is_public_is_explained(module):
    tree = ast.parse((ROOT / "torch_glue" / "python" / "pomona" / f"{module}.py").read_text())
    assert ast.get_docstring(tree) and not list(without_docstring(tree))
