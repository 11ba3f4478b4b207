#!/bin/sh
# tests/programs/chain.sh BUILD [PROGRAM...]: three hosts in a chain: the first and the last reach
# each other through the one between, which forwards no packets.
# Goal: programs run as on any network, also while the rank between computes, and the log says which
# way the messages go. Method: three network namespaces, $a - $b - $c, joined by two virtual cables
# of different networks, then of one (169.254/16), where addresses do not tell who stands between; a
# rank in each, then two, then two that share memory. The programs check all that they get. Linux,
# root; else skipped, code 77.
. "$(dirname "$0")/hosts.sh"
shift
[ $# -gt 0 ] || set -- p2p_order.c p2p_large.c coll_all.c rma_fence.c

# Cable $1 from host $2 to host $3.
join() {
    ip -n $3 link add $cable$1 type veth peer name $cable$1 netns $2 &&
        ip -n $2 link set $cable$1 up && ip -n $3 link set $cable$1 up
}
make() {
    make_hosts $a $b $c && join 1 $a $b && join 2 $b $c &&
        give $a 1 10.213.41.1/24 && give $b 1 10.213.41.2/24 &&
        give $b 2 10.213.42.2/24 && give $c 2 10.213.42.3/24
}
make 2> /dev/null || exit 77

# $1 ranks on each host; $second and $third: where those behind the first are.
second=$b third=$c
run_chain() {
    each=$1
    shift
    POMONA_TRANSPORTS=self,tcp timeout 110 "$bin/mpirun" --bind-to none \
        -n $each ip netns exec $a "$@" :  -n $each ip netns exec $second "$@" : \
        -n $each ip netns exec $third "$@" > "$folder/out" 2>&1
}

export POMONA_IF_INCLUDE=10.213.0.0/16
for program in "$@"; do
    compile "$program"
    case $program in  # only its first two ranks talk
    p2p_large.c) second=$c third=$b ;;
    *) second=$b third=$c ;;
    esac
    run_chain 1 "$folder/program" || fault "$program: exit code $?"
done
compile p2p_order.c
second=$b third=$c
run_chain 2 "$folder/program" || fault "two ranks on each host: exit code $?"

# Two ranks on each host that share its memory, as mpirun --host starts them.
make_enter
compile coll_all.c
POMONA_LOG=warn,coll=info POMONA_SSH=$folder/enter timeout 110 "$folder/enter" $a "$bin/mpirun" --bind-to none -n 6 \
    --host $a:2,$b:2,$c:2 "$folder/program" > "$folder/out" 2>&1 ||
    fault "two ranks that share memory on each host: exit code $?"
# Their addresses tell all of them alike what collectives cost.
way='Collectives on MPI_COMM_WORLD count on ways of up to 2 links'
[ "$(grep -c "$way" "$folder/out")" = 6 ] || fault "not all ranks know of the way through $b"
[ "$(grep "$way" "$folder/out" | sed 's/^[^:]*://' | sort -u | wc -l)" = 1 ] ||
    fault "ranks count on different ways"
! grep -q 'has not been reached' "$folder/out" || fault "a rank was missed at the end"
compile p2p_between.c
run_chain 1 "$folder/program" "$folder/done1" || fault "the rank between computes: exit code $?"
POMONA_LOG=info run_chain 1 "$folder/program" "$folder/done1" || fault "with a log: exit code $?"
grep -q 'Rank 2.* is reached through rank 1' "$folder/out" || fault "the log does not name the way"

# Addresses do not tell, but that the outer ones have one cable for two hosts does.
for space in $a $b $c; do
    ip -n $space addr flush dev ${cable}1 2> /dev/null
    ip -n $space addr flush dev ${cable}2 2> /dev/null
done
give $a 1 169.254.1.1/16
give $b 1 169.254.1.2/16
give $b 2 169.254.2.2/16
give $c 2 169.254.2.3/16
export POMONA_IF_INCLUDE=169.254.0.0/16
run_chain 1 "$folder/program" "$folder/done2" || fault "addresses of 169.254/16: exit code $?"
run_chain 1 "$folder/program" "$folder/done3" "at once" ||
    fault "addresses of 169.254/16, the rank between computes from the start: exit code $?"
exit $failed
