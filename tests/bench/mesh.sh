#!/bin/sh
# tests/bench/mesh.sh BUILD [MEGABITS [mesh|chain [COLLECTIVE]]]: an allreduce over all cables of a
# mesh, or of a chain, against a ring; or a bcast or a reduce, by trees of the cables, against two
# binary trees: three hosts (network namespaces) of which each two, or neighbours, have a cable of
# their own, of MEGABITS (500) each way. Prints the microseconds of both, of 4 and 16 MiB, in three
# rounds. Linux, root.
. "$(dirname "$0")/../programs/hosts.sh"
rate=${2:-500} network=${3:-mesh} what=${4:-allreduce}

# Cable $1 from host $2 to host $3, of a network of its own.
join() {
    ip -n $3 link add $cable$1 type veth peer name $cable$1 netns $2
    for space in $2 $3; do
        ip -n $space link set $cable$1 up
        tc -n $space qdisc add dev $cable$1 root tbf rate ${rate}mbit burst 128k latency 50ms
    done
    give $2 $1 10.213.5$1.1/24 && give $3 $1 10.213.5$1.2/24
}
make_hosts $a $b $c && join 1 $a $b && join 2 $b $c || exit 77
ways='cables ring'
[ "$network" = chain ] || { join 3 $a $c && ways='direct ring'; } || exit 77
[ "$what" = allreduce ] || ways='cables double_tree'
make_enter
export POMONA_IF_INCLUDE=10.213.0.0/16 POMONA_SSH=$folder/enter
for round in 1 2 3; do
    for way in $ways; do
        "$folder/enter" $a "$bin/mpirun" --bind-to none --set $what=$way -n 3 --host $a:1,$b:1,$c:1 \
            "$bin/mpi-bench" $what -s 4M:16M --step 4 -t 0.6 > "$folder/out" 2>&1 ||
            fault "$way: exit code $?"
        awk -v way=$way '/ MiB / { print way, $1, $2, $3 }' "$folder/out"
    done
done
exit $failed
