#!/usr/bin/env bash
# tests/vm/guest_figures.sh BUILD ROUNDS: in the guest, for tests/bench/rxe.py: what the library
# does by itself, and what two ranks of Pomona do over it, in turns.
build=$1
here=$(dirname "$0")
bench() {
    "$build/bin/mpirun" --oversubscribe -n 2 --set "transports=$1" --set "rdma_crc=$2" "$here/../programs/nodes.sh" 1 \
        "$build/bin/mpi-bench" "${@:3}" > /dev/null 2> /tmp/errors || cat /tmp/errors
}
round=0
while [ $round -lt "$2" ]; do
    echo "round $round"
    "$build/tests/verbs_bench" rdma_en2 rdma_en2 "${EFFORT:-0.1}" credit || exit 1
    for how in rdma unchecked tcp; do
        list=self,rdma,tcp crc=auto
        case $how in
        tcp) list=self,tcp ;;
        unchecked) crc=none ;;
        esac
        bench $list $crc latency -q -s 1:8 --step 2 -t 2 --json "/tmp/shared/latency-$how-$round"
        bench $list $crc bandwidth -q -s 65536:4194304 --step 4 -t 2 --json "/tmp/shared/bandwidth-$how-$round"
    done
    round=$((round + 1))
done
