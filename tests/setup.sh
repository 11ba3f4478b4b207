# tests/setup.sh: sourced by examples/quickstart.sh and tests/run.sh: installs what is missing,
# makes a Python environment, configures and builds. A second run finds everything there. Places can
# be moved: POMONA_BUILD (default .build/release), POMONA_VENV (default .venv). POMONA_INSTALL=no
# installs nothing and says what is missing (--no-install of both commands). shellcheck shell=bash
set -eu -o pipefail
POMONA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
POMONA_BUILD=${POMONA_BUILD:-$POMONA_ROOT/.build/release}
POMONA_VENV=${POMONA_VENV:-$POMONA_ROOT/.venv}
TORCH_VERSION=2.13.0
PYTHON_PACKAGES="torch==$TORCH_VERSION numpy scikit-learn matplotlib tqdm pytest setuptools wheel expecttest mypy"
# Only tests use these, which are skipped without.
TEST_FRAMEWORKS="accelerate lightning"

say() { printf '\n==> %s\n' "$*"; }
fail() { printf '\nerror: %s\n' "$*" >&2; exit 1; }
# shellcheck source=tests/packages.sh
. "$POMONA_ROOT/tests/packages.sh"

# What apt alone offers, and only tests use: each is left out where it is not to be had.
apt_extras() {
    local wanted=() package runtime
    # A cluster of Slurm's on this machine; its tests are skipped where there are no packages.
    if apt-cache show slurm-wlm-basic-plugins > /dev/null 2>&1; then
        wanted+=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)
    fi
    # Counted instructions are compared with those of this system's compiler.
    if grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then wanted+=(valgrind); fi
    # The fuzzers' runtime, where it is a package of its own.
    runtime=libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev
    # clang-format-14 checks the sources' form; skipped where this version is not to be had.
    for package in "$runtime" clang-format-14; do
        if apt-cache show "$package" > /dev/null 2>&1; then wanted+=("$package"); fi
    done
    # The kernels' arm64 forms, under qemu.
    if [ "$(dpkg --print-architecture)" = amd64 ]; then
        wanted+=(g++-aarch64-linux-gnu qemu-user googletest)
    fi
    # The build for macOS; systems without this clang skip it.
    if apt-cache show clang-19 > /dev/null 2>&1; then
        wanted+=(clang-19 lld-19 llvm-19 libc++-19-dev libc++abi-19-dev googletest)
    fi
    apt_install ${wanted[@]+"${wanted[@]}"}
}
apt_install() {
    local missing
    missing=$(missing_packages apt "$@")
    # shellcheck disable=SC2086
    if [ -n "$missing" ]; then install_by apt $missing; fi
}

install_packages() {  # with "tests": also what only the tests need
    provide_packages build "$@"
    [ "$(find_manager)" = apt ] && [ "${POMONA_INSTALL-}" != no ] && may_install || return 0
    # Ubuntu 22.04's own g++ is 11.
    if [ -z "${CXX-}" ] && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ]; then
        apt_install g++-12
        export CC=gcc-12 CXX=g++-12
    fi
    if [ "${1-}" = tests ]; then apt_extras; fi
}

# The first Python 3 that torch has packages for.
find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3.10 python3; do
        if command -v "$candidate" > /dev/null &&
            "$candidate" -c 'import sys, venv, ensurepip
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2> /dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "No Python 3.10 to 3.14 with venv was found"
}

make_venv() {
    local stamp=$POMONA_VENV/packages.txt
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$PYTHON_PACKAGES" ]; then return; fi
    if [ "${POMONA_INSTALL-}" = no ]; then
        say "Nothing is installed (--no-install): $POMONA_VENV needs $PYTHON_PACKAGES"
        [ -x "$POMONA_VENV/bin/python" ] || fail "$POMONA_VENV is no Python environment; POMONA_VENV names another"
        return
    fi
    say "Making the Python environment $POMONA_VENV ($PYTHON_PACKAGES)"
    [ -x "$POMONA_VENV/bin/python" ] || "$(find_python)" -m venv "$POMONA_VENV"
    torch_for_cpu
    # shellcheck disable=SC2086
    "$POMONA_VENV/bin/pip" install --quiet --disable-pip-version-check $PYTHON_PACKAGES ||
        fail "Python's packages could not be fetched: $PYTHON_PACKAGES. On a machine without network bring" \
            "their wheels (pip download on one with it) and name the folder in PIP_FIND_LINKS, with PIP_NO_INDEX=1"
    printf '%s' "$PYTHON_PACKAGES" > "$stamp"
}

add_frameworks() {
    local stamp=$POMONA_VENV/frameworks.txt
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$TEST_FRAMEWORKS" ]; then return; fi
    if [ "${POMONA_INSTALL-}" = no ]; then return; fi
    say "Adding $TEST_FRAMEWORKS"
    # shellcheck disable=SC2086
    if "$POMONA_VENV/bin/pip" install --quiet --disable-pip-version-check "torch==$TORCH_VERSION" $TEST_FRAMEWORKS; then
        printf '%s' "$TEST_FRAMEWORKS" > "$stamp"
    else
        say "They could not be fetched: their tests are skipped"
    fi
}

# On Linux the common wheel of torch brings gigabytes of CUDA; where no NVIDIA device is, the build
# for CPUs does. uv knows where PyTorch keeps it. Without it, or when it finds nothing, pip takes
# the common one.
torch_for_cpu() {
    [ "$(uname -s)" = Linux ] && [ ! -e /dev/nvidiactl ] || return 0
    # A wheel that pip finds on this machine's own disk is as good.
    if "$POMONA_VENV/bin/pip" download --quiet --no-deps --no-index -d "$POMONA_VENV/wheel" \
        "torch==$TORCH_VERSION" > /dev/null 2>&1; then
        rm -r "$POMONA_VENV/wheel"
        return
    fi
    "$POMONA_VENV/bin/pip" install --quiet --disable-pip-version-check uv || return 0
    UV_HTTP_TIMEOUT=20 "$POMONA_VENV/bin/uv" pip install --quiet --python "$POMONA_VENV/bin/python" \
        --torch-backend=cpu "torch==$TORCH_VERSION" || true
}

# CMake 3.22 or later; older systems get it from PyPI.
find_cmake() {
    local version
    version=$(cmake --version 2> /dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    # shellcheck disable=SC2086
    if [ -n "$version" ] && { set -- $version; [ "$1" -gt 3 ] || [ "$2" -ge 22 ]; }; then
        CMAKE=cmake CTEST=ctest
        return
    fi
    [ -x "$POMONA_VENV/bin/cmake" ] || "$POMONA_VENV/bin/pip" install --quiet --disable-pip-version-check cmake
    CMAKE=$POMONA_VENV/bin/cmake CTEST=$POMONA_VENV/bin/ctest
}

build() {  # extra CMake options
    find_cmake
    local jobs
    jobs=$(getconf _NPROCESSORS_ONLN)
    # A tree that is configured with the same options is only built.
    local options="$* $POMONA_VENV"
    if [ ! -f "$POMONA_BUILD/build.ninja" ] ||
        [ "$(cat "$POMONA_BUILD/options.txt" 2> /dev/null)" != "$options" ]; then
        say "Configuring $POMONA_BUILD"
        "$CMAKE" -S "$POMONA_ROOT" -B "$POMONA_BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DPOMONA_PYTHON="$POMONA_VENV/bin/python" "$@" > "$POMONA_BUILD.log" 2>&1 ||
            { tail -n 30 "$POMONA_BUILD.log"; fail "CMake failed; the whole output is in $POMONA_BUILD.log"; }
        printf '%s' "$options" > "$POMONA_BUILD/options.txt"
    fi
    say "Building in $POMONA_BUILD ($jobs jobs)"
    if [ -t 1 ]; then "$CMAKE" --build "$POMONA_BUILD" -j "$jobs"
    else "$CMAKE" --build "$POMONA_BUILD" -j "$jobs" > "$POMONA_BUILD.build.log" 2>&1 ||
        {
            grep -E -A8 'error|FAILED' "$POMONA_BUILD.build.log" | head -n 60
            fail "The build failed; the whole output is in $POMONA_BUILD.build.log"
        }
    fi
}
