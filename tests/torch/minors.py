"""Compiles the extension against the headers of every minor version of torch that it is meant for.

    python3 tests/torch/minors.py --python PYTHON [--folder FOLDER] [--minors 2.10 2.15] [--jobs N]

Headers come out of torch's wheels, fetched by pip into FOLDER and not installed (of macOS, the
smallest: headers are the same but for a few lines). Every source file is compiled as in the build,
to the end of what a compiler checks; nothing is linked or run. What the headers say of MPS is
compared with the table in docs/torch.md (mps_headers.py). Exit code 77 where no wheel can be
had. --given FILE...: archives (zip, wheel) with torch/include and torch/version.py, in place of
pip's.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mps_headers

ROOT = Path(__file__).resolve().parent.parent.parent
GLUE = ROOT / "torch_glue"
PLATFORMS = "macosx_14_0_arm64", "macosx_11_0_arm64"


def load(name):
    """A module of the package, without the package: it would want a torch to run."""
    sys.path.insert(0, str(GLUE / "python"))
    package = type(sys)("pomona")
    package.__path__ = [str(GLUE / "python" / "pomona")]
    sys.modules.setdefault("pomona", package)
    spec = importlib.util.spec_from_file_location(f"pomona.{name}", GLUE / "python" / "pomona" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"pomona.{name}"] = module
    spec.loader.exec_module(module)
    return module


def minors_meant():
    bounds = load("_load")
    (major, first), (_, last) = bounds.OLDEST, bounds.NEWEST
    return [f"{major}.{minor}" for minor in range(first, last + 1)]


def wheel_of(minor, folder, python):
    """Of its newest patch release; None where pip has none. Limits that pip's settings name do not
    count."""
    target = folder / minor
    if not list(target.glob("*.whl")):
        command = [python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", target]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        version = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True,
                                 capture_output=True, check=True).stdout.strip()
        environment = {**os.environ, "PIP_CONSTRAINT": "", "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run([*command, "--python-version", version, f"torch=={minor}.*"], env=environment,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"torch {minor}: no wheel: {done.stderr.strip().splitlines()[-1:]}")
            return None
    return next(target.glob("*.whl"))


def unpack(archive, folder):
    """The folder of its package torch, with headers."""
    target = folder / (archive.stem + ".unpacked")
    if not (target / "torch" / "version.py").exists():
        with zipfile.ZipFile(archive) as file:
            wanted = [n for n in file.namelist() if n.startswith("torch/include/")]
            file.extractall(target, wanted)
            file.extract("torch/version.py", target)
    return target / "torch"


def compile_all(torch, python, pool):
    """What the compiler says of each file that it refuses."""
    told = subprocess.run([python, GLUE / "python" / "pomona" / "_build_flags.py", torch], capture_output=True,
                          text=True, check=True).stdout
    flags = dict(line.split("=", 1) for line in told.splitlines())
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}"]
    for include in (*flags["TORCH_INCLUDES"].split(";"), flags["PYTHON_INCLUDE"]):
        command += ["-isystem", include]

    def one(source):
        done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"{source.name}:\n{done.stderr[:3000]}"

    sources = sorted(GLUE.glob("*.cc"))
    refused = [words for words in pool.map(one, sources) if words]
    print(f"torch {flags['TORCH_VERSION']}: {len(sources) - len(refused)} of {len(sources)} files compiled", flush=True)
    minor = ".".join(flags["TORCH_VERSION"].split(".")[:2])
    return [*refused, *filter(None, [mps_headers.difference(minor, torch / "include")])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default=sys.executable, help="whose headers, and whose pip")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--minors", nargs="+", default=minors_meant())
    parser.add_argument("--given", nargs="+", type=Path, default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(args.jobs) as pool:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        archives = args.given or [wheel_of(minor, folder, args.python) for minor in args.minors]
        found = [archive for archive in archives if archive]
        if not found:
            print("skipped: no wheel of torch can be had")
            return 77
        refused = [words for archive in found for words in compile_all(unpack(archive, folder), args.python, pool)]
        print("\n".join(refused))
    return 1 if refused or len(found) < len(archives) else 0


if __name__ == "__main__":
    sys.exit(main())
