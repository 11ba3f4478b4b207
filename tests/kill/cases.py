"""cases.py: what the kill tests share: going through named cases and telling which have failed."""
import fnmatch
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent


def compiled(mpicc, folder, name, *options):
    """NAME.c of this folder as a program, and the operations or scenarios that it lists."""
    program = f"{folder}/{name}"
    subprocess.run([mpicc, "-O1", *options, "-Wall", "-Wextra", "-Werror", "-o", program,
                    str(HERE / f"{name}.c")], check=True)
    return program, subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()


def go_through(cases, patterns):
    """Runs cases, (name, function that returns the faults as sentences), whose name fits one of the
    patterns, or all without patterns. The exit code: 1 where one failed, or none was run."""
    passed = failed = 0
    for name, case in cases:
        if patterns and not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        faults = case()
        print(("FAILED " if faults else "passed ") + name, flush=True)
        for fault in faults:
            print("    " + fault.replace("\n", "\n    "))
        failed += bool(faults)
        passed += not faults
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
