"""tests/metal/mutants.py: seeded mistakes in accel/reduce.metal must be caught.

Each mutant replaces one text by another. It is caught when its tests fail (tests/metal/run.cc),
or, for a lost address space, when clang refuses it. The unchanged source must pass first.
Usage: mutants.py SOURCE_ROOT BUILD_FOLDER CXX RUN_OBJECT LIBRARY... (linked behind the object)
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

MUTANTS = [
    ("a head too long", "single < shape.head ?", "single <= shape.head ?"),
    ("no guard for threads beyond the end",
     "if (single >= shape.count - 4 * shape.vectors) return;", ""),
    ("the guard one late", "single >= shape.count", "single > shape.count"),
    ("three of four", "k < 4; ++k", "k < 3; ++k"),
    ("vectors ignore the head", "uint at = shape.head + 4 * index;", "uint at = 4 * index;"),
    ("tail overlaps the vectors", "single + 4 * shape.vectors;", "single + 3 * shape.vectors;"),
    ("the first operand twice", "Op::of(first[at], second[at])", "Op::of(first[at], first[at])"),
    ("vectors take the first operand twice",
     "Op::of(T(x[k]), T(y[k]))", "Op::of(T(x[k]), T(x[k]))"),
    ("start of b forgotten", "second = b + shape.b_start", "second = b + shape.a_start"),
    ("start of out forgotten", "to = out + shape.out_start", "to = out"),
    ("bfloat16 rounds half up", "0x7fff + ((bits >> 16) & 1)", "0x8000"),
    ("bfloat16 truncates", "(bits + 0x7fff + ((bits >> 16) & 1)) >> 16", "bits >> 16"),
    ("bfloat16 NaN becomes infinity", "ushort((bits >> 16) | 0x40)", "ushort(0x7f80)"),
    ("min drops NaN", "if (float_nan(x) || float_nan(y)) return as_type<float>(x | y);", ""),
    ("max drops a NaN of b", "if (float_nan(x) || float_nan(y)) return as_type<float>((x",
     "if (float_nan(x)) return as_type<float>((x"),
    ("-0 and +0 alike", "float_key(x) < float_key(y) ? a : b", "a < b ? a : b"),
    ("halves compared as integers", "(bits & 0x7fff) ^ -1 : bits", "bits : bits"),
    ("half infinity for bfloat16", "Extremum16<Min, 0x7f80>", "Extremum16<Min, 0x7c00>"),
    ("max for min", "X(min, long, long, Min)", "X(min, long, long, Max)"),
    ("signed for unsigned", "static uint of(uint a, uint b) { return a < b ? a : b; }",
     "static uint of(uint a, uint b) { return int(a) < int(b) ? a : b; }"),
    ("64 bits cut to 32",
     "as_type<long>(as_type<ulong>(a) + as_type<ulong>(b))", "int(a) + int(b)"),
    ("or for exclusive or", "return uchar(a ^ b)", "return uchar(a | b)"),
    ("half sums in the wrong op", "half(float(a) * float(b))", "half(float(a) + float(b))"),
    ("address space of the first operand lost", "device const T* first", "const T* first"),
    ("address space of a vector lost", "reinterpret_cast<device const vec<T, 4>*>(second",
     "reinterpret_cast<const vec<T, 4>*>(second"),
    ("address space of the shape lost", "constant ReduceShape& shape, uint index) {\n    device",
     "ReduceShape& shape, uint index) {\n    device"),
]


def space_check(root, source):
    """True: clean; False: refused; None: no clang new enough to say."""
    x86 = ["-mavx512fp16"] if platform.machine() in ("x86_64", "AMD64") else []
    for clang in ("clang++", "clang++-19", "clang++-18", "clang++-17", "clang++-16"):
        if shutil.which(clang):
            done = subprocess.run(
                [clang, *x86, "-std=c++20", "-fsyntax-only", "-x", "c++",
                 "-DPOMONA_ADDRESS_SPACES", f"-I{root}/tests/metal", "-Wno-unknown-attributes", str(source)],
                capture_output=True, text=True)
            return done.returncode == 0
    return None


def passes_tests(root, folder, cxx, link, source):
    """Whether the source compiles and passes; a compile error is not what a mutant is for."""
    program = folder / "mutant"
    built = subprocess.run(
        [cxx, "-std=c++20", "-O1", "-ffp-contract=off", "-w", f"-I{root}", f"-I{root}/tests/metal",
         f'-DPOMONA_METAL_SOURCE="{source}"', f"{root}/tests/metal/kernels.cc", "-o", str(program),
         *link], capture_output=True, text=True)
    if built.returncode:
        return None
    try:
        ran = subprocess.run([str(program), "--gtest_brief=1"], capture_output=True, timeout=100,
                             env={**os.environ, "GTEST_FAIL_FAST": "1"})  # one failure is enough
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


def main():
    root, folder, cxx = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    link = [*sys.argv[4:], "-lgtest", "-lgtest_main", "-lpthread"]
    text = (root / "accel/reduce.metal").read_text()
    if passes_tests(root, folder, cxx, link, root / "accel/reduce.metal") is not True:
        print("the unchanged source does not pass its tests")
        return 1
    spaces = space_check(root, root / "accel/reduce.metal")
    if spaces is False:
        print("the unchanged source fails the check of address spaces")
        return 1
    missed = skipped = 0
    for name, old, new in MUTANTS:
        if text.count(old) == 0:
            print(f"stale  {name}: its text is not in the source any more")
            missed += 1
            continue
        source = folder / "mutant.metal"
        source.write_text(text.replace(old, new, 1))
        if name.startswith("address space"):
            verdict = space_check(root, source)
            skipped += verdict is None
        else:
            verdict = passes_tests(root, folder, cxx, link, source)
            if verdict is None:
                print(f"broken {name}: does not compile")
                missed += 1
                continue
        print({True: "MISSED", False: "caught", None: "skipped"}[verdict], "", name)
        missed += verdict is True
    print(f"{len(MUTANTS) - missed - skipped} of {len(MUTANTS)} mutants caught, {skipped} skipped")
    return 1 if missed else 0


sys.exit(main())
