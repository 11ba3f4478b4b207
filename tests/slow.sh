#!/usr/bin/env bash
# tests/slow.sh: the tiers that take long: sanitizers over unit, property and simulation tests, ranks
# as threads under the thread sanitizer, and fuzzing (POMONA_FUZZ_SECONDS each, default 60).
# Called by `tests/run.sh --slow`; builds beside the release tree.
. "$(dirname "$0")/setup.sh"
find_cmake
builds=$(dirname "$POMONA_BUILD")
jobs=$(getconf _NPROCESSORS_ONLN)
status=0
for kind in address,undefined thread; do
    tree=$builds/${kind%%,*}
    say "Sanitizer: $kind"
    "$CMAKE" -S "$POMONA_ROOT" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DPOMONA_SANITIZE="$kind" > "$tree.log" 2>&1 || fail "CMake failed; see $tree.log"
    "$CMAKE" --build "$tree" -j "$jobs" > "$tree.build.log" 2>&1 || fail "The build failed; see $tree.build.log"
    "$CTEST" --test-dir "$tree" --output-on-failure -j "$jobs" -L 'unit|fuzz' || status=$?
done
if command -v clang++ > /dev/null; then
    tree=$builds/fuzz
    say "Fuzzing, ${POMONA_FUZZ_SECONDS:-60} s each"
    "$CMAKE" -S "$POMONA_ROOT" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DPOMONA_FUZZ=ON \
        -DPOMONA_SANITIZE=address,undefined > "$tree.log" 2>&1 || fail "CMake failed; see $tree.log"
    for source in "$POMONA_ROOT"/tests/fuzz/corpus/*/; do
        name=$(basename "$source")
        "$CMAKE" --build "$tree" -j "$jobs" --target "fuzz_$name" > "$tree.build.log" 2>&1 ||
            fail "The build failed; see $tree.build.log"
        mkdir -p "$tree/found/$name"
        "$(find "$tree" -name "fuzz_$name" -type f)" -max_total_time="${POMONA_FUZZ_SECONDS:-60}" \
            -print_final_stats=0 "$tree/found/$name" "$source" || status=$?
    done
fi
exit $status
