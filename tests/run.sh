#!/usr/bin/env bash
# tests/run.sh: sets up, builds and passes all tests. On a fresh machine this is the one command.
#   tests/run.sh                 everything that runs in minutes
#   tests/run.sh --slow          long fuzzing, big simulations, sanitizers too
#   tests/run.sh -R pattern      only tests whose name matches (any ctest option)
#   tests/run.sh --no-install    installs nothing, says what is missing
#   tests/run.sh --report FILE   also writes one file to send: machine, versions, doctor, results
. "$(dirname "$0")/setup.sh"
slow=no
report=
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --slow) slow=yes ;;
    --report) report=$2; shift ;;
    --no-install) export POMONA_INSTALL=no ;;
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    *) arguments+=("$1") ;;
    esac
    shift
done

if [ -n "$report" ]; then
    . "$POMONA_ROOT/tests/report.sh"
    ended() {
        local status=$?
        write_report "$POMONA_ROOT" "$POMONA_BUILD" $status "$report"
        say "The report is in $report: read it before you send it, it names the machine's addresses"
    }
    trap ended EXIT  # a run that fails early needs it most
    rm -f "$POMONA_BUILD/tests.log"
fi

install_packages tests
make_venv
add_frameworks
mkdir -p "$(dirname "$POMONA_BUILD")"
build -DPOMONA_TESTS=ON -DPOMONA_WERROR=ON

say "Testing"
log=$POMONA_BUILD/tests.log
status=0
# Many tests wait more than they compute: half as many again as there are cores, and two at least.
cores=$(getconf _NPROCESSORS_ONLN)
more=$(((cores + 1) / 2))
[ "$more" -ge 2 ] || more=2
run_ctest() {
    status=0
    "$CTEST" --test-dir "$POMONA_BUILD" --output-on-failure -j $((cores + more)) "$@" 2>&1 |
        tee -a "$log" || status=$?
}
: > "$log"
# Failures say nothing of the tests where a processor does not repeat its own results meanwhile:
# these run again, five times at most, when it has done so for ten seconds, or after a minute.
miscomputed=$POMONA_BUILD/processor.log
"$POMONA_BUILD/tests/processor_watch" > "$miscomputed" 2>&1 &
watch=$!
rm -rf "$POMONA_BUILD/tests/pytest"  # which cases have failed before
until_quiet() {
    local lines before=none
    for _ in 1 2 3 4 5 6; do
        lines=$(wc -l < "$miscomputed")
        if [ "$lines" = "$before" ]; then break; fi
        before=$lines
        sleep 10
    done
}
run_ctest ${arguments[@]+"${arguments[@]}"}
for again in 1 2 3 4 5; do
    if [ $status = 0 ] || [ ! -s "$miscomputed" ]; then break; fi
    say "A PROCESSOR OF THIS MACHINE IS FAULTY ($miscomputed); what has failed runs once more ($again)"
    head -n 5 "$miscomputed"
    until_quiet
    TEST_AGAIN=yes run_ctest --rerun-failed  # of those of torch only the cases that failed
done
# What depends on how much of a processor it gets beside others shows by a run with nothing else: it
# runs once more so, if little has failed, and is named whatever comes of it.
failed=$POMONA_BUILD/Testing/Temporary/LastTestsFailed.log
if [ $status != 0 ] && [ -s "$failed" ] && [ "$(wc -l < "$failed")" -le 5 ]; then
    names=$(sed 's/^[0-9]*://' "$failed" | tr '\n' ' ')
    say "Failed beside other tests, and runs once more by itself: $names"
    TEST_AGAIN=yes run_ctest --rerun-failed -j 1
    if [ $status = 0 ]; then
        say "PASSED BY ITSELF ONLY, its first failure is in $log: $names"
        if [ -n "${GITHUB_ACTIONS-}" ]; then echo "::warning::failed beside other tests: $names"; fi
    fi
fi
kill "$watch" 2> /dev/null || true
wait "$watch" 2> /dev/null || true
if [ $slow = yes ]; then
    "$POMONA_ROOT/tests/slow.sh" || status=$?
fi
exit $status
