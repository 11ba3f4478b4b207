#!/usr/bin/env bash
# tests/cross/macos.sh: builds Pomona for arm64 macOS 14 on Linux and checks the result.
# Compiles with -Werror and links against stubs that name what may be used (macos/sdk.py); checks
# versions, install names, exported and undefined symbols and signatures (macos/check.py). Without
# optimization, which would only cost time. Nothing built here has run: see docs/macos.md for what
# that leaves open.
# Usage: tests/cross/macos.sh [--torch|--all] [build folder]
#   the library and the command-line programs; --torch: the torch extension too, against PyTorch's own
#   macOS package; --all: that and all tests. Needs clang-19, lld-19, llvm-19,
#   libc++-19-dev, libc++abi-19-dev, libgtest-dev, and network at the first run. 77: skipped.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/cross/macos
tests=OFF torch_too=no
case "${1-}" in
--all) tests=ON torch_too=yes; shift ;;
--torch) torch_too=yes; shift ;;
esac
build=${1:-$root/.build/macos}
llvm=/usr/lib/llvm-19/bin
for need in "$llvm/clang++" "$llvm/ld64.lld" "$llvm/llvm-nm" "$llvm/llvm-install-name-tool"; do
    [ -x "$need" ] || { echo "skipped: $need is not installed"; exit 77; }
done
[ -d /usr/src/googletest ] || { echo "skipped: no sources in /usr/src/googletest"; exit 77; }

torch=$(sed -n 's/^TORCH_VERSION=//p' "$root/tests/setup.sh")
python=${PYTHON:-python3}
options=(-DPOMONA_PYTHON=)
"$python" "$here/sdk.py" "$build/kit"
if [ $torch_too = yes ]; then
    if "$python" "$here/sdk.py" "$build/kit" --torch "$torch"; then
        options=(-DPOMONA_PYTHON="$build/kit/python")
    else
        echo "The torch extension is left out."
    fi
fi
# The check finds faults: a library that has them all.
"$llvm/clang" -target arm64-apple-macos13 -isysroot "$build/kit/sdk" -fuse-ld=lld -dynamiclib \
    -install_name /wrong/libmpi_abi.1.dylib -undefined dynamic_lookup -Wl,-no_adhoc_codesign \
    "$here/faulty.c" -o "$build/libmpi_abi_faulty.dylib"
faults=$("$python" "$here/check.py" "$build/libmpi_abi_faulty.dylib" || true)
for fault in "minimum version \['13.0'\]" "is not signed" "install name" "no weak definitions" \
    "needs _no_library_has_this" "does not import it weakly" "MPI_Recv is not exported"; do
    grep -q "$fault" <<< "$faults" || { echo "check.py does not see: $fault"; exit 1; }
done

configure() {  # groups of files that are not compiled together (macos/quick.cmake)
    ${CMAKE:-cmake} -S "$root" -B "$build/tree" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DPOMONA_WERROR=ON \
        -DCMAKE_C_FLAGS_DEBUG=-O0 -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DPOMONA_MACOS="$build/kit" -DPOMONA_TESTS=$tests \
        -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" -DCMAKE_PROJECT_pomona_INCLUDE="$here/quick.cmake" \
        "${options[@]}" -DPOMONA_APART="$1" > "$build/cmake.log" 2>&1 || { tail -n 30 "$build/cmake.log"; exit 1; }
}
targets=(all)
[ $torch_too = yes ] || targets=(mpi_abi mpi_abi_fortran mpirun pomona)
compile() {
    ${NINJA:-ninja} -C "$build/tree" -k 0 -j "${POMONA_JOBS:-$(getconf _NPROCESSORS_ONLN)}" "${targets[@]}" \
        > "$build/build.log" 2>&1
}
configure ""
if ! compile; then
    # Files that cannot be compiled together are no mistake: what has failed so, each by itself.
    apart=$(sed -n 's|^FAILED: .*/Unity/unity_\(.*\)_cxx\.cxx.*|\1|p' "$build/build.log" | sort -u | paste -sd ';')
    if [ -n "$apart" ]; then
        echo "Compiled by themselves, as they do not fit together (macos/apart.txt would save time): $apart"
        configure "$apart"
        compile
    else
        false
    fi || { grep -E -A8 "error:|FAILED" "$build/build.log" | head -n 80; tail -n 3 "$build/build.log"; exit 1; }
fi

list=("$build"/tree/lib/*.dylib "$build"/tree/bin/*)
if [ $torch_too = yes ]; then
    while IFS= read -r file; do list+=("$file"); done < <(find "$build/tree" \
        -type f \( -perm -u+x -o -name '*.so' \) ! -path '*/CMakeFiles/*' ! -path '*/bin/*' \
        ! -path "*/tree/lib/*")
fi
"$python" "$here/check.py" "${list[@]}"
