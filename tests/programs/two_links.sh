#!/bin/sh
# tests/programs/two_links.sh BUILD: two hosts joined by two links, one TCP stream by each.
# Goal: both links carry large messages, both ways, and one stream goes by one link. Method: two network
# namespaces and two pairs of virtual interfaces, whose counters of bytes are read; a rank in each
# namespace (Linux, root; else skipped, code 77).
bin=$1/bin
tag=$$
a=pomt${tag}a b=pomt${tag}b
hosts=10.213.17.1,10.213.17.2,10.213.18.1,10.213.18.2
folder=$(mktemp -d)
leave() {
    ip netns del $a 2>/dev/null
    ip netns del $b 2>/dev/null
    rm -rf "$folder"
}
trap leave EXIT

make() {
    ip netns add $a && ip netns add $b || return 1
    for link in 1 2; do
        ip link add pt$tag-$link netns $a type veth peer name pt$tag-$link netns $b || return 1
        for side in 1 2; do
            space=$a
            [ $side = 2 ] && space=$b
            ip -n $space addr add 10.213.$((16 + link)).$side/24 dev pt$tag-$link &&
                ip -n $space link set pt$tag-$link up && ip -n $space link set lo up || return 1
        done
    done
}
make 2>/dev/null || exit 77

# Bytes that left side $1 by link $2.
bytes() { ip netns exec $1 cat /sys/class/net/pt$tag-$2/statistics/tx_bytes; }

# Both ranks run a program, each in its namespace.
run() {
    POMONA_TRANSPORTS=self,tcp POMONA_TCP_INTERFACES=$hosts timeout 60 "$bin/mpirun" --bind-to none \
        -n 1 ip netns exec $a "$@" : -n 1 ip netns exec $b "$@" > "$folder/out" 2>&1
}

failed=0
fault() {
    failed=1
    echo "$*"
    cat "$folder/out"
}

"$bin/mpicc" -I "$(dirname "$0")" "$(dirname "$0")/p2p_large.c" -o "$folder/p2p_large" || exit 1
for streams in 1 2; do
    first=$(bytes $a 1) second=$(bytes $a 2) back=$(bytes $b 2)
    POMONA_TCP_STREAMS=$streams run "$folder/p2p_large" || fault "$streams streams: exit code $?"
    first=$(($(bytes $a 1) - first)) second=$(($(bytes $a 2) - second)) back=$(($(bytes $b 2) - back))
    case $streams in
    1) [ $((first > second ? second : first)) -lt 100000 ] || fault "one stream went by both links" ;;
    2) [ "$first" -gt 1000000 ] && [ "$second" -gt 1000000 ] && [ "$back" -gt 1000000 ] ||
        fault "of two streams $first and $second bytes went by the links, $back came back by the second" ;;
    esac
done
exit $failed
