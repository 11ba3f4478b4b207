# tests/setup.sh: sourced by examples/quickstart.sh and tests/run.sh: installs what is missing, makes a
# Python environment, configures and builds. A second run finds everything there.
# Places can be moved: POMONA_BUILD (default .build/release), POMONA_VENV (default .venv).
# shellcheck shell=bash
set -eu -o pipefail
POMONA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
POMONA_BUILD=${POMONA_BUILD:-$POMONA_ROOT/.build/release}
POMONA_VENV=${POMONA_VENV:-$POMONA_ROOT/.venv}
TORCH_VERSION=2.13.0
PYTHON_PACKAGES="torch==$TORCH_VERSION numpy scikit-learn matplotlib tqdm pytest setuptools wheel"

say() { printf '\n==> %s\n' "$*"; }
fail() { printf '\nerror: %s\n' "$*" >&2; exit 1; }
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo > /dev/null; then sudo "$@"
    else fail "$* needs root; run it yourself, or install sudo"; fi
}

# Installs those of the Debian packages named that are not there, and says which.
apt_install() {
    local missing=() package
    for package; do
        [ "$(dpkg-query -W -f '${Status}' "$package" 2> /dev/null)" = "install ok installed" ] ||
            missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "Installing by apt: ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" > /dev/null
}

brew_install() {
    local missing=() formula
    for formula; do brew list --versions "$formula" > /dev/null 2>&1 || missing+=("$formula"); done
    [ ${#missing[@]} = 0 ] && return
    say "Installing by Homebrew: ${missing[*]}"
    brew install --quiet "${missing[@]}"
}

install_packages() {  # with "tests": also what only the tests need
    case $(uname -s) in
    Linux)
        command -v apt-get > /dev/null ||
            fail "This script knows apt (Debian, Ubuntu) and Homebrew; tests/setup.sh lists the packages"
        apt_install build-essential cmake ninja-build pkg-config ccache libhwloc-dev libevent-dev libpmix-dev \
            libssl-dev libfmt-dev nlohmann-json3-dev libcli11-dev python3 python3-dev python3-venv
        # Ubuntu 22.04's own g++ is 11.
        if [ -z "${CXX-}" ] && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ]; then
            apt_install g++-12
            export CC=gcc-12 CXX=g++-12
        fi
        if [ "${1-}" = tests ]; then
            apt_install libgtest-dev libgmock-dev libbenchmark-dev openmpi-bin iproute2 nftables procps gdb clang gfortran
            # A cluster of Slurm's on this machine; its tests are skipped where there are no packages.
            if apt-cache show slurm-wlm-basic-plugins > /dev/null 2>&1; then
                apt_install slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
            fi
            # Counted instructions are compared with those of this system's compiler.
            if grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then apt_install valgrind; fi
            # The fuzzers' runtime, where it is a package of its own.
            local runtime
            runtime=libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev
            if apt-cache show "$runtime" > /dev/null 2>&1; then apt_install "$runtime"; fi
            # The check of the sources' form; skipped where this version is not to be had.
            if apt-cache show clang-format-14 > /dev/null 2>&1; then apt_install clang-format-14; fi
            # The kernels' arm64 forms, under qemu.
            if [ "$(dpkg --print-architecture)" = amd64 ]; then
                apt_install g++-aarch64-linux-gnu qemu-user googletest
            fi
            # The build for macOS; systems without this clang skip it.
            if apt-cache show clang-19 > /dev/null 2>&1; then
                apt_install clang-19 lld-19 llvm-19 libc++-19-dev libc++abi-19-dev googletest
            fi
        fi ;;
    Darwin)
        command -v brew > /dev/null || fail "Homebrew is missing; see https://brew.sh"
        brew_install cmake ninja pkgconf ccache hwloc libevent pmix openssl@3 fmt nlohmann-json cli11 python@3.12
        if [ "${1-}" = tests ]; then brew_install googletest google-benchmark gcc; fi ;;
    *) fail "Pomona runs on Linux and macOS" ;;
    esac
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
    say "Making the Python environment $POMONA_VENV ($PYTHON_PACKAGES)"
    [ -x "$POMONA_VENV/bin/python" ] || "$(find_python)" -m venv "$POMONA_VENV"
    # shellcheck disable=SC2086
    "$POMONA_VENV/bin/pip" install --quiet --disable-pip-version-check $PYTHON_PACKAGES
    printf '%s' "$PYTHON_PACKAGES" > "$stamp"
}

# CMake 3.25 or later; older systems get it from PyPI.
find_cmake() {
    local version
    version=$(cmake --version 2> /dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    # shellcheck disable=SC2086
    if [ -n "$version" ] && { set -- $version; [ "$1" -gt 3 ] || [ "$2" -ge 25 ]; }; then
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
