#!/usr/bin/env bash
# tests/run.sh: sets up, builds and passes all tests. On a fresh machine this is the one command.
#   tests/run.sh                 everything that runs in minutes
#   tests/run.sh --slow          long fuzzing, big simulations, sanitizers too
#   tests/run.sh -R pattern      only tests whose name matches (any ctest option)
#   tests/run.sh --report FILE   also writes one file with machine, versions and results to send
. "$(dirname "$0")/setup.sh"
slow=no
report=
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --slow) slow=yes ;;
    --report) report=$2; shift ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    *) arguments+=("$1") ;;
    esac
    shift
done

install_packages tests
make_venv
mkdir -p "$(dirname "$POMONA_BUILD")"
build -DPOMONA_TESTS=ON

say "Testing"
log=$POMONA_BUILD/tests.log
status=0
"$CTEST" --test-dir "$POMONA_BUILD" --output-on-failure -j "$(getconf _NPROCESSORS_ONLN)" \
    ${arguments[@]+"${arguments[@]}"} 2>&1 | tee "$log" || status=$?
if [ $slow = yes ]; then
    "$POMONA_ROOT/tests/slow.sh" || status=$?
fi
if [ -n "$report" ]; then
    {
        commit=$(git -C "$POMONA_ROOT" rev-parse --short HEAD 2> /dev/null)
        echo "Pomona test report, $(date -u +%Y-%m-%dT%H:%M:%SZ), commit $commit"
        uname -a
        "$POMONA_BUILD/bin/pomona" info
        cat "$log"
    } > "$report"
    say "The report is in $report"
fi
exit $status
