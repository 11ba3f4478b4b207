"""The package: its version, its parameters (pomona.init), which torch it takes, `pomona doctor`'s
part."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BUILD, PYTHON, ROOT, launch

VERSION = re.search(r"project\(pomona VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def python(code, env=None):
    return launch(1, "-c", code, prefix=[], env=env)


def test_version_stands_once():
    told = subprocess.run([BUILD / "bin" / "pomona", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["pomona", VERSION]
    assert python("import pomona; print('is', pomona.__version__)").text.split() == ["is", VERSION]
    found = subprocess.run(["git", "-C", ROOT, "grep", "-lF", f'"{VERSION}"', "--", "*.toml", "torch_glue"],
                           capture_output=True, text=True, check=False)
    assert not found.stdout, found.stdout


def test_a_torch_that_is_not_known_is_refused():
    code = (
        "from pomona import _load\n"
        "for version in '2.10.0', '2.13.0+cpu', '2.15.1a0+git123': _load._check_version(version)\n"
        "for version in '2.9.1', '2.16.0', '3.0.0':\n"
        "    try: _load._check_version(version)\n"
        "    except RuntimeError as error: print('met', error)\n"
    )
    outcome = python(code)
    assert outcome.code == 0 and outcome.text.count("met") == 3, str(outcome)
    assert outcome.text.count("works with torch 2.10 to 2.15, and this is torch") == 3, str(outcome)


def test_doctor():
    outcome = launch(1, "-m", "pomona._doctor", prefix=[])
    assert outcome.code == 0, str(outcome)
    for line in (r"^torch +2\.", r"^extension +/.*_glue_torch2_", r"^MPI +Pomona " + VERSION,
                 r"^backends +mpi, pomona", r"^device +cpu"):
        assert re.search(line, outcome.text, re.M), (line, str(outcome))


def test_parameters_of_python(tmp_path):
    """Python goes over the environment, that over the file; what is in force is told at level
    info."""
    code = (
        "import logging, os, pomona, torch, torch.distributed as dist\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "told = pomona.init(pomona.Config(eager_max='2K'), bcast='binomial', shm_huge_pages=False)\n"
        "assert told['eager_max'] == ('2048', 'pomona.init()'), told['eager_max']\n"
        "assert told['spin_us'] == ('7', 'POMONA_SPIN_US'), told['spin_us']\n"
        "assert told['nap_us'].value == '70' and 'pomona.conf' in told['nap_us'].source, told['nap_us']\n"
        "assert told['accel'] == ('auto', 'built-in'), told['accel']\n"
        "dist.init_process_group('mpi'); x = torch.ones(2); dist.all_reduce(x)\n"
        "try: pomona.init(spin_us=1)\n"
        "except RuntimeError as error: print('met', error)\n"
    )
    path = tmp_path / "pomona.conf"
    path.write_text("nap_us=70\nglue_sum16=native\n")
    outcome = python(code, {"POMONA_SPIN_US": "7", "POMONA_EAGER_MAX": "9", "POMONA_CONFIG": str(path)})
    assert outcome.code == 0 and "met pomona.init: MPI runs already" in outcome.text, str(outcome)
    assert outcome.text.count("eager_max = 2048 (pomona.init())") == 2, str(outcome)  # init, and MPI's start


WRONG = {
    "pomona.init(eagermax=1)": "TypeError: pomona.init: there is no parameter eagermax, did you mean eager_max?",
    "pomona.init(eager_max='many')": "ValueError: pomona.init: eager_max: eager_max = \"many\" is ignored: Not a number",
    "pomona.init(bcast='nosuch')": "ValueError: pomona.init: bcast: ",
    "pomona.init(choices='bcast: nosuch')": "ValueError: pomona.init: choices: ",
    "pomona.init(progress='often')": "Expected none, thread or auto",
    "pomona.init(transports='self,foo')": "ValueError: pomona.init: transports: \"foo\" is no transport",
    "pomona.init(accel='gpu9')": "Expected auto, portable, vdsp or metal",
    "pomona.init(log='chatty')": "ValueError: pomona.init: log: \"chatty\" is neither a level nor a scope",
    "pomona.init(encrypt='sometimes')": "ValueError: pomona.init: encrypt: \"sometimes\" is no kind of interface",
    "pomona.init(if_include='10.0.0.0/99')": "ValueError: pomona.init: if_include: \"10.0.0.0/99\" is not a network",
    "pomona.init(if_exclude=',wifi')": "ValueError: pomona.init: if_exclude: \"\" names nothing",
    "pomona.init(spin_us=-1)": "ValueError: pomona.init: spin_us is a number from 0 on, not -1",
    "pomona.init(rma_shared=1)": "TypeError: pomona.init: rma_shared is True or False, not 1",
    "pomona.init(futures='later')": "ValueError: pomona.init: futures is ordered or inline, not 'later'",
    "pomona.init({'spin_us': 1})": "TypeError: pomona.init: a pomona.Config, or names with values, not {'spin_us': 1}",
    "pomona._settings.bytes_of('8589934592G')": "ValueError: more bytes than 63 bits can count",
    "pomona._backends.glue()": "ValueError: POMONA_GLUE_STAGE_BYTES=1 MB: not a number of bytes",
}


def test_wrong_parameters():
    lines = [f"try: {call}\nexcept Exception as error: print(f'{{type(error).__name__}}: {{error}}')" for call in WRONG]
    code = "import os, pomona\n" + "\n".join(lines) + "\nassert 'POMONA_EAGER_MAX' not in os.environ\n"
    outcome = python(code, {"POMONA_GLUE_STAGE_BYTES": "1 MB"})
    assert outcome.code == 0, str(outcome)
    for words in WRONG.values():
        assert words in outcome.text, (words, str(outcome))


def test_parameters_after_the_extension_is_loaded(tmp_path):
    """What the extension reads counts until MPI starts, whoever has loaded it before."""
    code = (
        "import os, pomona, torch, torch.distributed as dist\n"
        "assert pomona.metrics() == {}\n"
        f"pomona.init(futures='inline', glue_stage_bytes='1M', glue_record='{tmp_path}/rank_')\n"
        "given = []\n"
        "loaded = pomona._backends.glue()\n"
        "class Watched:\n"
        "    def __getattr__(self, name): return getattr(loaded, name)\n"
        "    def set_futures_inline(self, on): given.append(on)\n"
        "    def set_record_dumper(self, dumper): given.append(dumper.args)\n"
        "pomona._backends._state['glue'] = Watched()\n"
        "dist.init_process_group('mpi')\n"
        "print('met', os.environ['POMONA_GLUE_STAGE_BYTES'], given)\n"
    )
    outcome = python(code)
    assert f"met 1048576 [True, ('{tmp_path}/rank_',)]" in outcome.text, str(outcome)


def test_parameters_of_the_environment():
    """POMONA_FUTURES and the like are known to the library, which warned of them once."""
    code = "import torch, torch.distributed as dist, pomona; dist.init_process_group('mpi')"
    env = {"POMONA_FUTURES": "inline", "POMONA_GLUE_STAGE_BYTES": "1M", "POMONA_CACHE": "/nowhere"}
    outcome = python(code, env)
    assert outcome.code == 0 and "no parameter" not in outcome.text, str(outcome)
    outcome = python(code, {"POMONA_GLUE_STAGE_BYTE": "1M"})
    assert "did you mean glue_stage_bytes" in outcome.text, str(outcome)


# Programs after `def exit(status): sys.exit(status)`.
ENDS = (
    "pass",
    "exit(7)",
    "exit(0)",
    "exit('a sentence')",
    "raise ValueError",
    "try: exit(7)\nexcept SystemExit: pass",
    "try: exit(7)\nexcept ValueError: pass",
    "try: exit(7)\nfinally: print('ends')",
    "try: exit(7)\nexcept SystemExit: raise",
    "try: exit(7)\nexcept SystemExit: exit(0)",
    "def call():\n  try: exit(7)\n  except SystemExit: pass\ncall()",
    "def call():\n  try: exit(7)\n  except ValueError: pass\ncall()",
    "for status in 7, 0:\n  try: exit(status)\n  except SystemExit: continue",
    "with open('/dev/null'): exit(7)",
    "import threading\nthread = threading.Thread(target=exit, args=[7]); thread.start(); thread.join()",
    "import asyncio\nasync def main(): exit(7)\nasyncio.run(main())",
)


def test_ends_of_programs():
    """What is found where C's exit handlers are not told the exit code is what that code says."""
    start = (
        "import atexit, sys, _exit\n"
        "_exit.watch_exits()\n"
        "atexit.register(lambda: print('failed' if _exit.failed() else 'well'))\n"
        "def exit(status): sys.exit(status)\n"
    )
    for end in ENDS:
        done = subprocess.run([PYTHON, "-c", start + end], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": str(BUILD / "python" / "pomona")})
        assert done.stdout.split()[-1:] == ["failed" if done.returncode else "well"], (end, done)


def carried():
    """The sources that CMakeLists.txt puts into a wheel."""
    text = (ROOT / "torch_glue" / "CMakeLists.txt").read_text(encoding="utf-8")
    lists = [re.search(rf"set\(glue_{kind} ([^)]*)\)", text)[1].split() for kind in ("sources", "headers")]
    others = re.findall(r"install\(FILES (\$\{CMAKE_SOURCE_DIR\}[^)]*?)\s+DESTINATION src/(\S+)\)", text)
    assert others
    return ["torch_glue/" + name for names in lists for name in names] + [
        f"{folder}/{Path(file).name}" for files, folder in others for file in files.split()]


def package_for_another(folder):
    """A package as a wheel lays it out, whose extension is of a torch other than this one."""
    package = folder / "pomona"
    built = BUILD / "python" / "pomona"
    shutil.copytree(built, package, ignore=shutil.ignore_patterns("__pycache__"))
    (extension,) = package.glob("_glue_torch*")
    extension.rename(package / "_glue_torch2_0.so")
    for name in carried():
        target = package / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return next(built.glob("_glue_torch*"))


def test_a_wheel_carries_all_that_its_sources_include(tmp_path):
    package_for_another(tmp_path)
    sources = tmp_path / "pomona" / "src"
    included = {(file.parent, name) for file in sources.rglob("*.*")
                for name in re.findall(r'(?m)^#include "(\S+)"', file.read_text(encoding="utf-8"))}
    assert "mpi/include/mpi.h" in {name for _, name in included}
    assert not {name for folder, name in included if not any((each / name).exists() for each in (sources, folder))}


def use(folder, env):
    """The package in `folder`, before that of the build tree."""
    code = (
        f"import sys; sys.path.insert(0, '{folder}')\n"
        "import torch, torch.distributed as dist; dist.init_process_group('mpi')\n"
        "import pomona; print('is', pomona._backends.glue().__file__)\n"
    )
    return python(code, {"POMONA_CACHE": str(folder / "cache"), **env})


def test_compiled_ahead_of_the_first_use():
    """It says which extension is loaded, and nothing else."""
    outcome = launch(1, "-m", "pomona._compile", prefix=[])
    assert outcome.code == 0 and re.fullmatch(r"/\S+/_glue_torch\S+\.so\n", outcome.text), str(outcome)


def test_no_compiler_for_another_torch(tmp_path):
    package_for_another(tmp_path)
    outcome = use(tmp_path, {"PATH": str(tmp_path), "CXX": ""})
    assert outcome.code != 0 and "no C++ compiler found to build the torch extension" in outcome.text, str(outcome)
    assert "or set CXX" in outcome.text, str(outcome)


def test_compiled_for_another_torch(tmp_path):
    """Compiled at the first use, and taken from the cache at the second. The compiler is a stand-in
    that gives what the build made."""
    built = package_for_another(tmp_path)
    stand_in = tmp_path / "compiler"
    stand_in.write_text(
        "#!/bin/sh\nkind=$1\nfor last; do :; done\n"
        f'[ "$kind" = -shared ] && exec cp "{built}" "$last"\n'
        '[ "$kind" = -std=c++20 ] && exec touch "$last"\nexit 1\n'
    )
    stand_in.chmod(0o755)
    outcome = use(tmp_path, {"CXX": str(stand_in)})
    assert outcome.code == 0 and "compiling the torch extension for torch 2." in outcome.text, str(outcome)
    assert re.search(rf"^is {tmp_path}/cache/\S+/_glue.so$", outcome.text, re.M), str(outcome)
    assert not list((tmp_path / "cache").glob("*/*.o")), "objects are left"
    outcome = use(tmp_path, {"CXX": "/no/compiler"})
    assert outcome.code == 0 and "compiling" not in outcome.text, str(outcome)


@pytest.mark.skipif("POMONA_MPIRUN" in os.environ, reason="other launchers end jobs in their own way")
@pytest.mark.parametrize("prefix", [None, []])
def test_a_job_that_hangs_is_ended(prefix):
    """By these tests' own `launch`: it comes back, with what was printed."""
    start = time.time()
    with pytest.raises(pytest.fail.Exception, match="(?s)no end within 3.*it hangs"):
        launch(2, "-c", "import time; print('it hangs'); time.sleep(600)", prefix=prefix, timeout=3, fresh=True)
    assert time.time() - start < 40
