#!/usr/bin/env bash
# tests/cross/aarch64.sh: tests of kernels and wire code as Arm programs under qemu-user.
# Compiles with g++ for aarch64 (static), then runs with 16 KiB pages as macOS has them. Kernels:
# once on a CPU with half-precision and bfloat16 instructions, once with half only, once with
# neither. Wire code: frames, addresses, parameters, rings and packed datatypes, with the mutated
# inputs of tests/fuzz. Checksums: by products in vectors, compiled as for any Arm (the processor is
# asked at run time) and as for a Mac's. Proves results, not speed, nor the weak order of memory.
# Needs g++-aarch64-linux-gnu, qemu-user and the sources of GoogleTest.
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
export CCACHE_BASEDIR=$root  # other clones' objects are as good
common=(-std=c++20 -Wall -Wextra -Werror -ffp-contract=off -I"$root")
compile() {  # source flags...: prints the object
    local source=$1 object
    object=$build/$(basename "$(dirname "$source")")_$(basename "$source").o
    shift
    $launcher "$cxx" "${common[@]}" "$@" -c "$source" -o "$object" >&2
    echo "$object"
}
several() {  # flags -- sources...
    local flags=() source
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    for source; do compile "$source" "${flags[@]}"; done
}
library() {  # name objects...
    rm -f "$build/$1"
    "${cxx%g++}ar" qc "$build/$1" "${@:2}"
}
gtest=(-I"$googletest/googletest/include" -I"$googletest/googletest")
mapfile -t objects < <(several -O0 -w "${gtest[@]}" -- "$googletest"/googletest/src/gtest-all.cc \
    "$googletest"/googletest/src/gtest_main.cc)
library libgtest.a "${objects[@]}"
cd "$root"
mapfile -t objects < <(several -O3 -- accel/{kernel,isa,portable,avx2,avx512,avx512_fp16}.cc
    compile accel/neon_fp16.cc -O3 -march=armv8.2-a+fp16
    compile accel/neon_bf16.cc -O3 -march=armv8.2-a+fp16+bf16)
library libaccel.a "${objects[@]}"
mapfile -t objects < <(several -O3 "${gtest[@]}" -- tests/unit/accel_{kernels,float16,reduce_many}.cc)
"$cxx" -static -o "$build/accel_kernels" "${objects[@]}" "$build/libaccel.a" "$build/libgtest.a" -lpthread

mapfile -t objects < <(several -O1 -- btl/base/{advice,check,counters,format,log,named_file,params,params_handed}.cc \
    btl/tcp/{interfaces,ip}.cc mpi/object/datatype*.cc)
library libwire.a "${objects[@]}"
wire=("$build/libwire.a" "$build/libaccel.a")
mapfile -t objects < <(several -O1 "${gtest[@]}" -- tests/unit/btl_base.cc tests/property/datatype_random.cc)
"$cxx" -static -o "$build/wire" "${objects[@]}" "${wire[@]}" "$build/libgtest.a" -lpthread
checksum_test=$(compile tests/verbs/crc32c_test.cc -O1 "${gtest[@]}")
mapfile -t objects < <(several -O1 -- btl/rdma/copiers.cc btl/base/{thread_role,word_wait}.cc)
objects+=("$checksum_test" "$build/libgtest.a" -lpthread)
"$cxx" -static -o "$build/checksum" "$(compile btl/rdma/crc32c.cc -O2)" "${objects[@]}"
"$cxx" -static -o "$build/checksum_mac" "$(compile btl/rdma/crc32c.cc -O2 -march=armv8.4-a+crypto+sha3)" "${objects[@]}"
replay=$(compile tests/fuzz/replay.cc -O1)
for name in wire shm_ring; do
    "$cxx" -static -o "$build/replay_$name" "$replay" "$(compile tests/fuzz/$name.cc -O1)" "${wire[@]}"
done

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

echo "aarch64 wire code:"
emulator=("$qemu" -cpu neoverse-n1 -p 16384)
"${emulator[@]}" "$build/wire" --gtest_brief=1
for name in wire shm_ring; do "${emulator[@]}" "$build/replay_$name" tests/fuzz/corpus/$name 20000; done

echo "aarch64 checksums:"
export POMONA_CRC_FORM="products of 128 bits"
"${emulator[@]}" "$build/checksum" --gtest_brief=1
"$qemu" -cpu max -p 16384 "$build/checksum_mac" --gtest_brief=1
