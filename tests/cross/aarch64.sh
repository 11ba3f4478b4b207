#!/usr/bin/env bash
# tests/cross/aarch64.sh: the kernels' unit tests as an Arm program under qemu-user.
# Compiles with g++ for aarch64 (static), then runs with 16 KiB pages as macOS has them: once on
# a CPU with half-precision and bfloat16 instructions, once with half only, once with neither. Proves
# results, not speed. Needs g++-aarch64-linux-gnu, qemu-user and the sources of GoogleTest.
# Usage: tests/cross/aarch64.sh [build folder]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/.build/aarch64}
cxx=${CROSS_CXX:-aarch64-linux-gnu-g++}
qemu=${QEMU:-qemu-aarch64}
googletest=${GOOGLETEST_SOURCE:-/usr/src/googletest}
for need in "$cxx" "$qemu"; do
    command -v "$need" >/dev/null || { echo "skipped: $need is not installed"; exit 77; }
done
[ -d "$googletest/googletest" ] || { echo "skipped: no sources in $googletest"; exit 77; }

mkdir -p "$build"
launcher=$(command -v ccache || true)
common=(-std=c++20 -O3 -Wall -Wextra -Werror -ffp-contract=off -I"$root")
objects=()
compile() {  # source flags...
    local source=$1 object="$build/$(basename "$1").o"
    shift
    $launcher "$cxx" "${common[@]}" "$@" -c "$source" -o "$object"
    objects+=("$object")
}
for name in kernel isa portable avx2 avx512 avx512_fp16; do compile "$root/accel/$name.cc"; done
compile "$root/accel/neon_fp16.cc" -march=armv8.2-a+fp16
compile "$root/accel/neon_bf16.cc" -march=armv8.2-a+fp16+bf16
gtest=(-I"$googletest/googletest/include" -I"$googletest/googletest")
for name in accel_kernels accel_float16 accel_reduce_many; do
    compile "$root/tests/unit/$name.cc" "${gtest[@]}"
done
compile "$googletest/googletest/src/gtest-all.cc" "${gtest[@]}" -w
compile "$googletest/googletest/src/gtest_main.cc" "${gtest[@]}" -w
"$cxx" -static -o "$build/accel_kernels" "${objects[@]}" -lpthread

# The forms a CPU must be seen to have: a test of the wrong form would prove nothing.
run() {  # cpu expected-form forbidden-form
    local list
    list=$("$qemu" -cpu "$1" -p 16384 "$build/accel_kernels" --gtest_list_tests)
    [ -z "$2" ] || grep -q "$2_sum" <<<"$list" || { echo "$1: the form $2 is missing"; exit 1; }
    [ -z "$3" ] || ! grep -q "$3_sum" <<<"$list" || { echo "$1: has the form $3"; exit 1; }
    echo "aarch64 $1:"
    "$qemu" -cpu "$1" -p 16384 "$build/accel_kernels" --gtest_brief=1
}
run max neon_bf16 ""
run neoverse-n1 neon_fp16 neon_bf16
run cortex-a57 portable neon_fp16
