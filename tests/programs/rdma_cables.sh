#!/bin/sh
# tests/programs/rdma_cables.sh BUILD: large collectives over two cables between the same two
# "machines".
# Goal: each machine sends a fair part of its bytes by each of its cables, sums are made where their
# parts arrive, and all is right. Method: two ranks, two fake RDMA cables (tests/verbs) of the same
# modest rate, which count bytes; coll_large looks at a counter.
if [ -z "$fabric" ]; then
    RDMA_CABLES=2 RDMA_FAULTS="rate * * 400" exec "$(dirname "$0")/rdma.sh" "$1" 2 1 "$0" "$@"
fi
here=$(dirname "$0")
"$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/coll_large.c" -o "$fabric/program" -lm -pthread || exit 1
# shellcheck disable=SC2086
timeout 100 "$build/bin/mpirun" --oversubscribe -n 2 --set transports=self,rdma,tcp $through \
    "$fabric/program" > "$fabric/out" 2>&1
code=$?
counts=$("$build/tests/fake_verbs" "$fabric" counts)
echo "exit code $code"
echo "$counts"
if [ $code != 0 ]; then
    tail -n 30 "$fabric/out"
    exit 1
fi
# Of what a machine sends by RDMA at least a fifth by either cable.
echo "$counts" | awk '{ bytes[NR] = $6; sum[$1] += $6; machine[NR] = $1 }
    END { for (i in bytes) if (bytes[i] < 1e7 || bytes[i] < sum[machine[i]] / 5) failed = 1; exit failed || NR != 4 }'
