#!/bin/sh
# tests/torch/two_hosts.sh BUILD PYTHON: torchrun on two hosts, two processes on each; two by hand
# on each, which bring a store; with POMONA_TEST_WHOLE two agents, of which one is killed.
# Goal: ranks of several machines meet by torch's store, share memory where they can and go by the
# cable else, and each knows how long it waited for others, though the hosts' clocks differ.
# Method: two network namespaces with host names of their own, joined by a virtual cable, and where
# the kernel has namespaces of time, too, clocks 5000 s apart; ranks_start.py trains and checks
# sums. Linux, root; else skipped, code 77.
build=$1 python=$2
. "$(dirname "$0")/../programs/hosts.sh"
{ make_hosts && make_cable 1 && give $a 1 10.213.31.1/24 && give $b 1 10.213.31.2/24; } \
    2> /dev/null || exit 77
unshare -u true 2> /dev/null || exit 77
export PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
export POMONA_IF_INCLUDE=10.213.0.0/16

unshare -T --monotonic 5000 true 2> /dev/null && later="-T --monotonic 5000"

# A command on a host: its namespace, name, and the words.
on() {
    space=$1 name=$2 clock=
    shift 2
    [ "$space" = "$b" ] && clock=$later
    ip netns exec "$space" unshare -u $clock sh -c 'hostname "$0" && exec "$@"' "$name" timeout -s KILL 150 "$@"
}

# Both hosts' parts, `part SPACE NAME NUMBER`, at once; what they say comes to "$folder/out".
both() {
    $1 $a hosta 0 > "$folder/out.a" 2>&1 &
    first=$!
    $1 $b hostb 1 > "$folder/out.b" 2>&1 || failed=1
    wait $first || failed=1
    cat "$folder/out.a" "$folder/out.b" > "$folder/out"
}

said() { grep -o "$1" "$folder/out" | wc -l; }

static() {
    on "$1" "$2" "$python" -m torch.distributed.run --nnodes 2 --node-rank "$3" --nproc-per-node 2 \
        --master-addr 10.213.31.1 --master-port 29533 "$here/ranks_start.py" mpi train
}
both static
[ "$(said 'of 4, 2 on this machine: all passed')" = 4 ] || failed=1
[ "$(bytes $a 1)" -gt 100000 ] || failed=1
[ $failed = 0 ] || fault "torchrun on two hosts: $(bytes $a 1) bytes left the first by the cable"

sight() {
    on "$1" "$2" "$python" -m torch.distributed.run --nnodes 2 --node-rank "$3" --nproc-per-node 2 \
        --master-addr 10.213.31.1 --master-port 29536 "$here/ranks_sight.py" "$folder" test_waiting_and_moving
}
both sight
[ "$(said 'all of rank [0-3] passed')" = 4 ] || fault "metrics() on two hosts${later:+ with unlike clocks}"

by_hand() {
    on "$1" "$2" "$python" "$here/ranks_hosts.py" "$3" 10.213.31.1 29534 "$folder/store"
}
both by_hand
[ "$(said 'of 4: all passed')" = 8 ] || fault "by hand on two hosts, with stores"

# The agents notice by their own store that one is gone, and only then is the other's world smaller.
elastic() {
    on "$1" "$2" "$python" -m torch.distributed.run --nnodes 1:2 --nproc-per-node 1 --max-restarts 5 \
        --rdzv-backend c10d --rdzv-endpoint 10.213.31.1:29535 --local-addr "10.213.31.$(($3 + 1))" \
        --rdzv-conf "is_host=$((1 - $3)),last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3" \
        "$here/ranks_elastic.py" hostb "$folder/second"
}
kill_second() {
    while [ ! -e "$folder/second" ]; do sleep 0.1; done
    kill -KILL $(cat "$folder/second")
}
if [ "$POMONA_TEST_WHOLE" = yes ]; then
    elastic $a hosta 0 > "$folder/out.a" 2>&1 &
    first=$!
    elastic $b hostb 1 > "$folder/out.b" 2>&1 &
    second=$!
    kill_second &
    killer=$!
    wait $first || failed=1
    wait $second && failed=1
    kill $killer 2> /dev/null
    cat "$folder/out.a" "$folder/out.b" > "$folder/out"
    [ "$(said 'rank 0 of 1 after [1-5] restarts: all passed')" = 1 ] || failed=1
    [ $failed = 0 ] || fault "torchrun on two hosts, one of which was killed"
fi
exit $failed
