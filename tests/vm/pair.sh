#!/usr/bin/env bash
# tests/vm/pair.sh BUILD [PROGRAM:TYPE...]: programs on two virtual machines with a cable between
# them that loses packets. Goal: what is lost between two kernels, by RDMA and by TCP, costs no
# message. Method: a rank in each, mpirun in the first, whose ssh is far.sh; LOSS percent (1) of the
# packets of either direction are lost, and the programs check all that they get. Ends with 77 where
# there can be no such machine.
set -eu -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=$(cd "$1" && pwd -P)
shift
[ $# -gt 0 ] || set -- p2p_order:uc p2p_large:uc coll_all:uc p2p_order:rc p2p_large:rc coll_all:rc
machines=${POMONA_VM:-$build/../vm}
programs=$here/../programs
"$here/fetch.sh" "$machines"
SHARED=$(mktemp -d "${TMPDIR:-/tmp}/pomona-vm-XXXXXX")
trap 'touch "$SHARED/over"; wait; rm -rf "$SHARED"' EXIT
mkdir "$SHARED/1" "$SHARED/2"
for each; do
    name=${each%%:*}
    [ -e "$SHARED/1/$name" ] || "$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$programs" "$programs/$name.c" \
        -o "$SHARED/1/$name" -lm -pthread
    cp "$SHARED/1/$name" "$SHARED/2/$name"
done
export SECONDS_MOST=${SECONDS_MOST:-900} CABLES=1 LOSS=${LOSS:-1}
a=$SHARED/a b=$SHARED/b
END=2 NETWORK=$b:$a SHARED=$SHARED/2 "$here/run.sh" "$machines" "$here/guest_far.sh" "$LOSS" > "$SHARED/far" 2>&1 &
far=$!
code=0
END=1 NETWORK=$a:$b SHARED=$SHARED/1 "$here/run.sh" "$machines" "$here/guest_pair.sh" "$build" "$LOSS" "$@" || code=$?
touch "$SHARED/2/over"
wait $far || { echo "The other machine:"; cat "$SHARED/far"; }
exit $code
