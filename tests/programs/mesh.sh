#!/bin/sh
# tests/programs/mesh.sh BUILD: three hosts of which each two have a cable of their own.
# Goal: all ranks see that, and a long allreduce, allgather and reduce_scatter use all cables both
# ways, where a ring would leave each host's way back idle; of a bcast and a reduce half the vector
# goes by each cable of the root; and on a chain, without the third cable, allreduce and alltoall go
# by trees of the cables. Method: three network namespaces; the log tells what the communicator
# counts on and by which algorithm it goes, the interfaces' counters what each host sent by each of
# its cables. mpi-bench checks the results. Linux, root; else skipped, code 77.
. "$(dirname "$0")/hosts.sh"

# Cable $1 from host $2 to host $3, of a network of its own.
join() {
    ip -n $3 link add $cable$1 type veth peer name $cable$1 netns $2 &&
        ip -n $2 link set $cable$1 up && ip -n $3 link set $cable$1 up &&
        give $2 $1 10.213.5$1.1/24 && give $3 $1 10.213.5$1.2/24
}
{ make_hosts $a $b $c && join 1 $a $b && join 2 $b $c && join 3 $a $c; } 2> /dev/null || exit 77

make_enter
run_mesh() {
    POMONA_IF_INCLUDE=10.213.0.0/16 POMONA_LOG=warn,coll=debug POMONA_SSH=$folder/enter timeout 110 \
        "$folder/enter" $a "$bin/mpirun" --bind-to none -n 3 --host $a:1,$b:1,$c:1 "$@" \
        > "$folder/out" 2>&1
}

# Host $1 has sent at least a quarter of its bytes by each of its cables $2 and $3.
both_used() {
    first=$(($(bytes $1 $2) - $4)) second=$(($(bytes $1 $3) - $5))
    [ $((first * 3)) -ge $second ] && [ $((second * 3)) -ge $first ] && [ $first -gt 20000000 ] ||
        fault "$what: $1 sent $first and $second bytes by its two cables"
}

for what in allreduce allgather reduce_scatter; do
    a1=$(bytes $a 1) a3=$(bytes $a 3) b1=$(bytes $b 1) b2=$(bytes $b 2) c2=$(bytes $c 2) c3=$(bytes $c 3)
    run_mesh "$bin/mpi-bench" $what -s 4M:4M -r 20 || fault "$what: exit code $?"
    grep -q 'All results were checked and right' "$folder/out" || fault "$what was not checked"
    [ "$(grep -c 'MPI_COMM_WORLD count on a line for each two machines' "$folder/out")" = 3 ] ||
        fault "$what: not all ranks know of the cables"
    grep -q "$what of [0-9]* bytes on MPI_COMM_WORLD goes by direct" "$folder/out" ||
        fault "$what does not go by direct exchanges"
    both_used $a 1 3 $a1 $a3
    both_used $b 1 2 $b1 $b2
    both_used $c 2 3 $c2 $c3
done

# One rank's vector goes to all, and all ranks' to one, by trees that share no cable.
for what in bcast reduce; do
    a1=$(bytes $a 1) a3=$(bytes $a 3) b1=$(bytes $b 1) b2=$(bytes $b 2) c2=$(bytes $c 2)
    run_mesh --set $what=cables:segments=16 "$bin/mpi-bench" $what -s 4M:4M -r 20 ||
        fault "$what: exit code $?"
    grep -q 'All results were checked and right' "$folder/out" || fault "$what was not checked"
    grep -q "$what of [0-9]* bytes on MPI_COMM_WORLD goes by cables" "$folder/out" ||
        fault "$what does not go by trees of cables"
    if [ $what = reduce ]; then
        both_used $b 1 2 $b1 $b2
        continue
    fi
    both_used $a 1 3 $a1 $a3
    # Who sends all to both hands nothing on.
    sent=$((first + second)) on=$(($(bytes $b 2) - b2 + $(bytes $c 2) - c2))
    [ $((on * 5)) -gt $((sent * 4)) ] || fault "$what: $a sent $sent bytes, of which $on were handed on"
done

# What a ring does there is what the figures above are held against.
what='allreduce by a ring' a1=$(bytes $a 1) a3=$(bytes $a 3)
run_mesh --set allreduce=ring "$bin/mpi-bench" allreduce -s 4M:4M -r 20 || fault "$what: exit code $?"
first=$(($(bytes $a 1) - a1)) second=$(($(bytes $a 3) - a3))
[ $((first * 3)) -lt $second ] || [ $((second * 3)) -lt $first ] ||
    fault "$what: $first and $second bytes; counting them shows nothing"

# Without the third cable they are a chain, whose cables carry the vector once either way.
ip -n $a link del ${cable}3
for what in allreduce alltoall; do
    a1=$(bytes $a 1) c2=$(bytes $c 2)
    run_mesh --set $what=cables:segments=16 "$bin/mpi-bench" $what -s 4M:4M -r 20 ||
        fault "$what on a chain: exit code $?"
    grep -q 'All results were checked and right' "$folder/out" || fault "$what on a chain was not checked"
    [ "$(grep -c 'MPI_COMM_WORLD count on cables between some of the machines' "$folder/out")" = 3 ] ||
        fault "$what: not all ranks know of the chain"
    grep -q "$what of [0-9]* bytes on MPI_COMM_WORLD goes by cables" "$folder/out" ||
        fault "$what does not go by trees of cables"
    first=$(($(bytes $a 1) - a1)) second=$(($(bytes $c 2) - c2))
    [ $((first * 5)) -gt $((second * 4)) ] && [ $((second * 5)) -gt $((first * 4)) ] ||
        fault "$what on a chain: its ends sent $first and $second bytes"
done
run_mesh "$bin/mpi-bench" allreduce -s 4M:4M -r 20 || fault "allreduce on a chain: exit code $?"
grep -q 'allreduce of [0-9]* bytes on MPI_COMM_WORLD goes by cables' "$folder/out" ||
    fault "a chain's allreduce is not chosen"
exit $failed
