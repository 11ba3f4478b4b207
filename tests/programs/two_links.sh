#!/bin/sh
# tests/programs/two_links.sh BUILD: two hosts joined by two links, one TCP stream by each.
# Goal: both links carry large messages, both ways, and one stream goes by one link; without a word
# about streams there are as many as links. Method: two network namespaces and two pairs of virtual
# interfaces, whose counters of bytes are read (Linux, root; else skipped, code 77). The links are
# slower than the processors: else these are the limit, and one link may do as well as two.
. "$(dirname "$0")/hosts.sh"

make_two_cables 10.213.1
for link in 1 2; do
    for host in $a $b; do
        tc -n $host qdisc replace dev $cable$link root tbf rate 500mbit burst 128k latency 50ms ||
            exit 77
    done
done
export POMONA_IF_INCLUDE=10.213.0.0/16
export POMONA_TEST_SECONDS=1

compile p2p_large.c
for streams in 1 2 0; do
    first=$(bytes $a 1) second=$(bytes $a 2) back=$(bytes $b 2)
    POMONA_TCP_STREAMS=$streams run "$folder/program" || fault "$streams streams: exit code $?"
    first=$(($(bytes $a 1) - first)) second=$(($(bytes $a 2) - second)) back=$(($(bytes $b 2) - back))
    case $streams in
    1) [ $((first > second ? second : first)) -lt 100000 ] || fault "one stream went by both links" ;;
    *) [ "$first" -gt 1000000 ] && [ "$second" -gt 1000000 ] && [ "$back" -gt 1000000 ] ||
        fault "of two streams $first and $second bytes went by the links, $back came back by the second" ;;
    esac
done
exit $failed
