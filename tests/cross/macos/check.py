#!/usr/bin/env python3
"""Checks what was built for macOS: check.py FILE...

Goal: what dyld would refuse, or a Mac's user would stumble over, is found on Linux. Method: the
output of LLVM's tools is read for each file:
- arm64, minimum version 14.0, an ad-hoc code signature (arm64 runs nothing without);
- libraries it loads: the system's, Homebrew's and @rpath/libmpi_abi.1.dylib, by rules.txt;
- undefined symbols: each bound to a library; looked up at run time only where rules.txt says;
- names newer than macOS 14 (rules.txt) are weak imports;
- libmpi_abi: its install name, and the ABI's symbols (tests/abi/symbols.py): MPI_ weak, PMPI_
  strong.
"""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LLVM = pathlib.Path("/usr/lib/llvm-19/bin")
INSTALL_NAME = "@rpath/libmpi_abi.1.dylib"


def read_rules():
    rules, current = {}, None
    for line in (HERE / "rules.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            current = rules.setdefault(line.strip("[]"), [])
        elif line:
            current.append(line)
    return rules


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def load_commands(path):
    """[(command, {key: value})] of a Mach-O file, and the flags of its header."""
    text = run(LLVM / "llvm-objdump", "--macho", "--private-headers", path)
    commands = []
    for block in re.split(r"^Load command \d+$", text, flags=re.M)[1:]:
        fields = dict(re.findall(r"^ *(\w+) +(.+?)(?: \(offset \d+\))?$", block, flags=re.M))
        commands.append((fields.get("cmd", ""), fields))
    return commands, text.split("Load command")[0]


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def form(path, rules):
    """What every file must have."""
    commands, header = load_commands(path)
    kinds = [command for command, _ in commands]
    if "ARM64" not in header:
        yield "is not for arm64"
    versions = [f.get("minos") for command, f in commands if command == "LC_BUILD_VERSION"]
    if versions != ["14.0"]:
        yield f"has the minimum version {versions}, not 14.0"
    if "LC_CODE_SIGNATURE" not in kinds:
        yield "is not signed"
    for command, fields in commands:
        if command in ("LC_LOAD_DYLIB", "LC_LOAD_WEAK_DYLIB", "LC_REEXPORT_DYLIB"):
            if not matches(fields["name"], rules["libraries"]):
                yield f"loads {fields['name']}"
    loads_ours = any(fields.get("name") == INSTALL_NAME for command, fields in commands
                     if command == "LC_LOAD_DYLIB")
    if loads_ours and "LC_RPATH" not in kinds and not matches(path.name, rules["no rpath"]):
        yield f"loads {INSTALL_NAME} and has no rpath"


def undefined(path, rules):
    """Every undefined symbol has a library; new ones are weak imports."""
    flat = rules["looked up at run time"]
    for line in run(LLVM / "llvm-nm", "-m", "-u", path).splitlines():
        found = re.match(r" +\(undefined\) (.*?)external (\S+) \((.*)\)", line)
        if not found:
            yield f"has a line that nm does not explain: {line.strip()}"
            continue
        kind, name, origin = found.groups()
        allowed = [rule.split()[1] for rule in flat if fnmatch.fnmatchcase(path.name, rule.split()[0])]
        if not origin.startswith("from ") and not matches(name, allowed):
            yield f"needs {name}, which no library is named for ({origin})"
        if matches(name, rules["newer than macOS 14"]) and "weak" not in kind:
            yield f"needs {name}, which macOS 14.0 lacks, and does not import it weakly"


def library(path):
    """What libmpi_abi must have besides."""
    commands, header = load_commands(path)
    names = [fields["name"] for command, fields in commands if command == "LC_ID_DYLIB"]
    if names != [INSTALL_NAME]:
        yield f"has the install name {names}, not {INSTALL_NAME}"
    if "WEAK_DEFINES" not in header:
        yield "has no weak definitions, which programs of other ABI libraries look for"
    symbols = HERE.parent.parent / "abi/symbols.py"
    done = subprocess.run([sys.executable, symbols, path], capture_output=True, text=True,
                          env={**os.environ, "NM": str(LLVM / "llvm-nm")})
    if done.returncode != 0:
        yield from (done.stdout + done.stderr[-500:]).splitlines()


def check(path, rules):
    faults = [*form(path, rules), *undefined(path, rules)]
    # The stub library of tests/abi is by design less.
    if re.match(r"libmpi_abi(\.|_faulty)", path.name) and path.parent.name != "stub":
        faults += library(path)
    return faults


def is_mach_o(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\xcf\xfa\xed\xfe"


def main():
    rules = read_rules()
    files = [pathlib.Path(argument) for argument in sys.argv[1:]]
    files = [path for path in files if not path.is_symlink() and is_mach_o(path)]
    if not files:
        sys.exit("check.py: no file to check")
    count = 0
    for path in files:
        for fault in check(path, rules):
            print(f"{path.name} {fault}")
            count += 1
    print(f"{len(files)} files for macOS checked, {count} faults")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
