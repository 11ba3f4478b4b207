#!/bin/sh
# tests/programs/rdma_chain.sh BUILD: three hosts in a chain, whose cables carry RDMA too: the first
# and the last have neither a network nor a cable in common.
# Goal: what these two send each other goes by both RDMA cables, handed on by the rank between, also
# while its program computes; and what the cables lose is repaired by each link on the way. Method:
# three network namespaces (chain.sh), and two fake RDMA cables (tests/verbs), which count the bytes
# of each end; p2p_between, whose rank between does not call MPI, exchanges 2.4 MB each way. Linux,
# root; else skipped, code 77.
if [ -z "$fabric" ]; then
    [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] || exit 77
    RDMA_SHAPE=chain exec "$(dirname "$0")/rdma.sh" "$1" 3 1 "$0" "$@"
fi
. "$(dirname "$0")/hosts.sh"

# Cable $1 from host $2 to host $3.
join() {
    ip -n $3 link add $cable$1 type veth peer name $cable$1 netns $2 &&
        ip -n $2 link set $cable$1 up && ip -n $3 link set $cable$1 up &&
        give $2 $1 10.213.6$1.1/24 && give $3 $1 10.213.6$1.2/24
}
{ make_hosts $a $b $c && join 1 $a $b && join 2 $b $c; } 2> /dev/null || exit 77
export POMONA_IF_INCLUDE=10.213.0.0/16 POMONA_TRANSPORTS=self,rdma,tcp

run_chain() {
    # shellcheck disable=SC2086
    timeout 60 "$bin/mpirun" --bind-to none -n 1 ip netns exec $a $through "$@" : \
        -n 1 ip netns exec $b $through "$@" : -n 1 ip netns exec $c $through "$@" > "$folder/out" 2>&1
}
# Bytes that each end of each cable has sent, as words.
by_rdma() { "$build/tests/fake_verbs" "$fabric" counts | awk '{ printf "%s ", $6 }'; }

compile p2p_between.c
before=$(by_rdma)
POMONA_LOG=warn,btl=info run_chain "$folder/program" "$folder/done" ||
    fault "the rank between computes: exit code $?"
grep -q 'Rank 2.* is reached through rank 1' "$folder/out" || fault "the log does not name the way"
after=$(by_rdma)
echo "bytes by each end of both cables: $after"
# Most of it, at each of the four ends.
# shellcheck disable=SC2086
set -- $before $after
for end in 1 2 3 4; do
    sent=$(($5 - $1))
    [ $sent -gt 1500000 ] || fault "end $end of a cable sent $sent bytes"
    shift
done
"$build/tests/fake_verbs" "$fabric" "drop * * 20"
for program in p2p_order.c coll_all.c; do
    compile $program
    run_chain "$folder/program" || fault "$program: exit code $?"
done
exit $failed
