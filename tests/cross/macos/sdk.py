#!/usr/bin/env python3
"""Makes a macOS SDK to compile and link against on Linux: sdk.py FOLDER [--torch].

No file of Apple's SDK is needed. Darwin's open-source headers and libSystem's list of symbols come
from the wheel `ziglang`, libc++'s headers from clang's package; the other libraries are stubs
(.tbd) that name what Pomona may call and no more, so that a mistyped or unexpected name fails to
link.
  FOLDER/sdk       what -isysroot names        FOLDER/prefix  stands for /opt/homebrew
  FOLDER/cxx       libc++'s configuration      FOLDER/torch   the real macOS wheel (--torch)
A second run finds everything there.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ZIGLANG = "ziglang==0.17.0"
LLVM = pathlib.Path("/usr/lib/llvm-19")
LIBCXX_HEADERS = LLVM / "include/c++/v1"
TORCH_PLATFORM = "macosx_14_0_arm64"

# Libraries of the system and of Homebrew, by the name dyld looks for; stubs.txt lists their
# symbols.
LIBRARIES = {
    "objc": ("sdk/usr/lib/libobjc.tbd", "/usr/lib/libobjc.A.dylib"),
    "Accelerate": ("sdk/System/Library/Frameworks/Accelerate.framework/Accelerate.tbd",
                   "/System/Library/Frameworks/Accelerate.framework/Versions/A/Accelerate"),
    "hwloc": ("prefix/lib/libhwloc.tbd", "/opt/homebrew/opt/hwloc/lib/libhwloc.15.dylib"),
    "event_core": ("prefix/lib/libevent_core.tbd",
                   "/opt/homebrew/opt/libevent/lib/libevent_core-2.1.7.dylib"),
    "event_pthreads": ("prefix/lib/libevent_pthreads.tbd",
                       "/opt/homebrew/opt/libevent/lib/libevent_pthreads-2.1.7.dylib"),
    "pmix": ("prefix/lib/libpmix.tbd", "/opt/homebrew/opt/pmix/lib/libpmix.2.dylib"),
}


def fail(text):
    """77: what ctest takes as skipped."""
    print(f"skipped: {text}")
    sys.exit(77)


def put(path, data):
    """Writes a file unless it is there already: a new date would mean a new build."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def download(requirement, into, *options):
    into.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                           "--disable-pip-version-check", "-d", into, *options, requirement],
                          capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"pip cannot download {requirement}: {done.stderr.strip()[-300:]}")
    return next(into.glob("*.whl"))


def unpack(wheel, wanted):
    """Files of a wheel: wanted(name) gives where each goes, or None."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            target = None if name.endswith("/") else wanted(name)
            if target is not None:
                put(target, archive.read(name))


def write_stub(path, install_name, symbols):
    """A text-based library: what the linker needs to know of a dynamic one."""
    names = ", ".join(f"'{name}'" for name in sorted(symbols))
    put(path, ("--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\n"
               f"install-name: '{install_name}'\nexports:\n"
               f"  - targets: [ arm64-macos ]\n    symbols: [ {names} ]\n...\n").encode())


def system(folder):
    """Darwin's headers and libSystem."""
    sdk = folder / "sdk"
    marker = "ziglang/lib/libc/"

    def place(name):
        rest = name.removeprefix(marker)
        if rest == name:
            return None
        for headers in ("include/any-macos-any/", "include/any-darwin-any/"):
            if rest.startswith(headers):
                return sdk / "usr/include" / rest.removeprefix(headers)
        return folder / "download/libSystem.tbd" if rest == "darwin/libSystem.tbd" else None

    unpack(download(ZIGLANG, folder / "download/zig"), place)
    # Architectures that clang-19 has not heard of go; libm and others are libSystem's old names.
    stub = re.sub(r",\s*arm64e\.\w+-\w+", "", (folder / "download/libSystem.tbd").read_text())
    for name in ("libSystem", "libm", "libpthread", "libdl"):
        put(sdk / f"usr/lib/{name}.tbd", stub.encode())
    version = {"MinimalDisplayName": "26.1", "Version": "26.1", "MaximumDeploymentTarget": "26.1.99"}
    (sdk / "SDKSettings.json").write_text(json.dumps(version))


def libcxx(folder):
    """libc++: Debian's exports, of which macOS has the same; one more that int64_t spells apart."""
    names = {"__ZNSt3__120__libcpp_atomic_waitEPVKvx"}
    for library in ("libc++.so.1", "libc++abi.so.1"):
        out = subprocess.run([LLVM / "bin/llvm-nm", "-D", "--defined-only", LLVM / "lib" / library],
                             check=True, capture_output=True, text=True).stdout
        for line in out.splitlines():
            name = line.split()[-1].split("@")[0]
            if name.startswith(("_Z", "__cxa", "__gxx", "__dynamic_cast")):
                names.add("_" + name)
    write_stub(folder / "sdk/usr/lib/libc++.tbd", "/usr/lib/libc++.1.dylib", names)
    # Debian's configuration switches off what each macOS version lacks; that is wanted here.
    site = (LIBCXX_HEADERS / "__config_site").read_text().splitlines()
    wanted = [line for line in site if "NO_VENDOR_AVAILABILITY" not in line]
    put(folder / "cxx/__config_site", ("\n".join(wanted) + "\n").encode())
    # Newer math.h leaves these two to the compiler's float.h, which has them from clang 20 on.
    put(folder / "cxx/float.h", FLOAT_H)


FLOAT_H = b"""#pragma once
#include_next <float.h>
#if !defined(INFINITY)
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#endif
"""


def stubs(folder):
    """stubs.txt: `[library]`, then a C name a line."""
    symbols, current = {}, None
    for line in (HERE / "stubs.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            current = symbols.setdefault(line.strip("[]"), [])
        elif line:
            current.append("_" + line)
    for library, names in symbols.items():
        path, install_name = LIBRARIES[library]
        write_stub(folder / path, install_name, names)


def prefix(folder):
    """Homebrew's part: headers of the same packages on this system (portable C and header-only
    C++)."""
    prefix = folder / "prefix"
    include = prefix / "include"
    system_include = pathlib.Path("/usr/include")
    multiarch = system_include / (sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu")
    for source in (system_include / "hwloc", multiarch / "hwloc", system_include / "event2",
                   multiarch / "event2", system_include / "openssl", multiarch / "openssl",
                   system_include / "nlohmann", system_include / "CLI"):
        if source.exists():
            shutil.copytree(source, include / source.name, dirs_exist_ok=True)
    shutil.copy2(system_include / "hwloc.h", include)
    # torch carries the newer fmt that Homebrew has, too.
    newer = folder / "torch/torch/include/fmt"
    shutil.rmtree(include / "fmt", ignore_errors=True)
    shutil.copytree(newer if newer.exists() else system_include / "fmt", include / "fmt")
    pmix = pathlib.Path(subprocess.run(["pkg-config", "--variable=includedir", "pmix"], check=True,
                                       capture_output=True, text=True).stdout.strip())
    for header in pmix.glob("pmix*.h"):
        shutil.copy2(header, include)
    packages = prefix / "lib/pkgconfig"
    packages.mkdir(parents=True, exist_ok=True)
    for name, library, version in (("hwloc", "hwloc", "2.11.0"), ("pmix", "pmix", "5.0.0"),
                                   ("libevent_core", "event_core", "2.1.12"),
                                   ("libevent_pthreads", "event_pthreads", "2.1.12")):
        (packages / f"{name}.pc").write_text(
            f"prefix={prefix}\nName: {name}\nDescription: stub\nVersion: {version}\n"
            f"Libs: -L{prefix}/lib -l{library}\nCflags: -I{include}\n")
    for name, target in (("nlohmann_json", "nlohmann_json::nlohmann_json"),
                         ("CLI11", "CLI11::CLI11"), ("fmt", "fmt::fmt")):
        config = prefix / "lib/cmake" / name / f"{name}Config.cmake"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"if(NOT TARGET {target})\n  add_library({target} INTERFACE IMPORTED)\n"
                          f"  set_target_properties({target} PROPERTIES "
                          f'INTERFACE_INCLUDE_DIRECTORIES "{include}")\nendif()\n')
    config = prefix / "lib/cmake/GTest/GTestConfig.cmake"
    config.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "gtest.cmake", config)


def torch(folder, version):
    """The real wheel, unpacked."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    wheel = download(f"torch=={version}", folder / f"download/torch-{version}-{python}",
                     "--only-binary=:all:", "--platform", TORCH_PLATFORM, "--python-version", python)
    home = folder / "torch"

    def place(name):
        keep = name.startswith(("torch/include/", "torch/version.py")) or name.endswith(".dylib")
        return home / name if keep else None

    unpack(wheel, place)
    prefix(folder)  # once more, with torch's fmt


def torch_answers(folder, version):
    """A Python that answers for the wheel (torch_glue/CMakeLists.txt); the folder may have
    moved."""
    home, python = folder / "torch", f"{sys.version_info[0]}.{sys.version_info[1]}"
    answer = {"TORCH_INCLUDES": f"{home}/torch/include;{home}/torch/include/torch/csrc/api/include",
              "TORCH_LIB_DIR": f"{home}/torch/lib", "TORCH_VERSION": version,
              "PYTHON_INCLUDE": sysconfig.get_path("include"),
              "EXT_SUFFIX": f".cpython-{python.replace('.', '')}-darwin.so"}
    script = folder / "python"
    script.write_text("#!/bin/sh\ncat <<'END'\n" +
                      "".join(f'set({name} "{value}")\n' for name, value in answer.items()) + "END\n")
    script.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--torch", metavar="VERSION", help="the torch wheel too")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if not LIBCXX_HEADERS.exists():
        fail("libc++'s headers are missing; install libc++-19-dev and libc++abi-19-dev")
    folder.mkdir(parents=True, exist_ok=True)
    recipe = "".join((HERE / name).read_text() for name in ("sdk.py", "stubs.txt", "gtest.cmake"))
    stamp = folder / "recipe"
    if not stamp.exists() or stamp.read_text() != recipe:
        for step in (system, libcxx, stubs, prefix):
            step(folder)
        stamp.write_text(recipe)
    torch_stamp = folder / "torch/version"
    if arguments.torch and not (torch_stamp.exists() and torch_stamp.read_text() == arguments.torch):
        torch(folder, arguments.torch)
        torch_stamp.write_text(arguments.torch)
    if arguments.torch:
        torch_answers(folder, arguments.torch)


if __name__ == "__main__":
    main()
