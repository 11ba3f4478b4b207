#!/bin/sh
# tests/programs/rdma_many.sh BUILD [PROGRAM...]: more ranks on each of two "machines" than queue
# pairs suffice for.
# Goal: none is asked for that a device does not have, some of the ranks use theirs, the others TCP,
# and all is right. Method: programs on 2 times 8 ranks over a fake RDMA cable (tests/verbs), which
# counts refusals.
if [ -z "$fabric" ]; then
    exec "$(dirname "$0")/rdma.sh" "$1" 2 8 "$0" "$@"
fi
shift
[ $# -gt 0 ] || set -- coll_all.c p2p_order.c
here=$(dirname "$0")
for program in "$@"; do
    "$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/$program" -o "$fabric/program" -lm -pthread || exit 1
    # shellcheck disable=SC2086
    timeout 200 "$build/bin/mpirun" --oversubscribe -n 16 $through "$fabric/program" > "$fabric/out" 2>&1
    code=$?
    counts=$("$build/tests/fake_verbs" "$fabric" counts)
    echo "$program: exit code $code"
    echo "$counts"
    if [ $code != 0 ]; then
        tail -n 30 "$fabric/out"
        exit 1
    fi
    echo "$counts" | awk '{ if ($4 == 0 || $NF != 0) failed = 1 } END { exit failed }' || exit 1
done
