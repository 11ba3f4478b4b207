#!/bin/sh
# tests/fortran/run.sh BUILD SOURCE OPTIONS RANKS...: compiles a program with our mpifort, warnings
# being errors, and runs it on each number of ranks.
set -eu
build=$1 source=$2 options=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
files=$here/$source
if grep -q '^ *use check' "$here/$source"; then files="$here/check.f90 $files"; fi
# shellcheck disable=SC2086
"$build/bin/mpifort" -g $options $files -o program
for ranks; do
    echo "== $source on $ranks"
    "$build/bin/mpirun" --oversubscribe -n "$ranks" ./program
done
