#!/usr/bin/env bash
# tests/report_test.sh: the report of tests/run.sh, for builds that are played.
# Goal: one file tells what failed, at whatever stage, and holds no name of a person. Method: build
# folders made here, whose programs are scripts.
# shellcheck source=tests/report.sh
set -eu -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/report.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder/home/somebody
build=$HOME/pomona/build
mkdir -p "$build/bin"
report=$folder/report.txt
fail() { echo "report_test: $*"; cat "$report"; exit 1; }
has() { grep -q -- "$1" "$report" || fail "no '$1'"; }
lacks() { ! grep -q -- "$1" "$report" || fail "'$1' should not be there"; }

# CMake failed: nothing is built.
echo "CMake Error: Could NOT find hwloc in $HOME/lib" > "$build.log"
write_report "$here/.." "$build" 1 "$report"
has 'exit status 1'
has 'Could NOT find hwloc in ~/lib'
has 'was not built'
has 'did not run'
has "^$(uname -srm)\$"
has '^cmake: '
lacks somebody

# The compiler failed: the error is there though it is far from the log's end.
{ echo 'btl/tcp/socket.cc:5:9: error: no member named x'; seq 1000; } > "$build.build.log"
write_report "$here/.." "$build" 1 "$report"
has 'error: no member named x'
has '^1000$'

# All is built; a test failed.
printf '#!/bin/sh\necho "pomona $1 says so"\n[ "$1" != doctor ]\n' > "$build/bin/pomona"
chmod +x "$build/bin/pomona"
echo '  17 - port (Failed)' > "$build/tests.log"
write_report "$here/.." "$build" 8 "$report"
has 'pomona info says so'
has 'pomona doctor says so'
has '17 - port (Failed)'
lacks 'was not built'

# run.sh writes it however it ends: here without a build tool.
mkdir "$folder/none"
for tool in bash dirname sed uname id date grep head tail basename cat mkdir getconf; do
    ln -s "$(command -v $tool)" "$folder/none/$tool"
done
if PATH=$folder/none POMONA_BUILD=$folder/other/build POMONA_VENV=$folder/venv \
    "$BASH" "$here/run.sh" --report "$folder/early.txt" > "$folder/out.txt" 2>&1; then
    fail "run.sh ended well without tools"
fi
report=$folder/early.txt
[ -s "$report" ] || { cat "$folder/out.txt"; echo "report_test: run.sh wrote no report"; exit 1; }
has 'exit status 1'
has 'did not run'
echo "the report holds what it should"
