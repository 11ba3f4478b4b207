#!/usr/bin/env bash
# tests/vm/rxe.sh BUILD [PROGRAM:RANKS:TYPE...]: programs over RDMA devices of Linux's kernel
# (rdma_rxe).
# Goal: what tests/verbs pretends holds with a verbs library and a driver that others wrote: both
# types of queue pairs, two cables, messages that are lost without a posted receive. Method: a small
# virtual machine (run.sh) in which each rank believes in a machine of its own; the programs check
# all that they get, and most of their bytes must have gone by the devices. Ends with 77 where there
# can be no such machine.
set -eu -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=$(cd "$1" && pwd -P)
shift
[ $# -gt 0 ] || set -- p2p_order:2:uc coll_all:3:uc p2p_order:4:rc
programs=$here/../programs
SHARED=$(mktemp -d "${TMPDIR:-/tmp}/pomona-vm-XXXXXX")
export SHARED
trap 'rm -rf "$SHARED"' EXIT
"$here/fetch.sh" "${POMONA_VM:-$build/../vm}"
for each; do
    name=${each%%:*}
    [ -e "$SHARED/$name" ] || "$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$programs" "$programs/$name.c" \
        -o "$SHARED/$name" -lm -pthread
done
"$here/run.sh" "${POMONA_VM:-$build/../vm}" "$here/guest.sh" "$build" "$@"
