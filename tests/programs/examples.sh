#!/bin/sh
# tests/programs/examples.sh MPICC MPIRUN FOLDER: compiles every example in C of FOLDER and runs it
# on 1, 2 and 4 ranks. An example fails by its exit code; hello must also print one line a rank.
set -eu
mpicc=$1 mpirun=$2 folder=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in "$folder"/*.c; do
    name=$(basename "$source" .c)
    "$mpicc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "$source" -o "$work/$name" -lm
    for ranks in 1 2 4; do
        # Loses a rank, which the exit code says, and goes on.
        if [ "$name" = survive ] && [ $ranks -gt 1 ]; then
            code=0
            "$mpirun" --oversubscribe -n $ranks --on-death continue "$work/$name" \
                > "$work/out" 2>&1 || code=$?
            if [ $code != 137 ] || ! grep -q "pi is 3.14159265.*of which $((ranks - 1)) are left" \
                "$work/out"; then
                echo "survive on $ranks ranks ended with $code and printed:"
                cat "$work/out"
                exit 1
            fi
        elif ! "$mpirun" --oversubscribe -n $ranks "$work/$name" > "$work/out" 2>&1; then
            echo "$name failed on $ranks ranks:"
            cat "$work/out"
            exit 1
        fi
        if [ "$name" = hello ] && [ "$(grep -c '^Hello from rank' "$work/out")" != $ranks ]; then
            echo "hello on $ranks ranks printed:"
            cat "$work/out"
            exit 1
        fi
        echo "ok $name on $ranks ranks"
    done
done
