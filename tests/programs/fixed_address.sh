#!/bin/sh
# tests/programs/fixed_address.sh BUILD: a program that is linked to a fixed address.
# Goal: handles of objects below 4 GiB, where such a program has its heap, are told from garbage.
# Method: errors_arguments.c, which makes objects and gives wrong handles, compiled so.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1/bin/mpicc" -O1 -no-pie -fno-pie -D_GNU_SOURCE -o "$folder/program" \
    "$(dirname "$0")/errors_arguments.c" || exit 1
timeout 60 "$1/bin/mpirun" --oversubscribe -n 2 "$folder/program"
