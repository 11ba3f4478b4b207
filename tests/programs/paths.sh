#!/bin/sh
# tests/programs/paths.sh BUILD [CASE...]: two hosts joined by all sorts of cables and addresses.
# Goal: two processes find the paths that there are and use them, whatever addresses say: IPv6
# alone, link-local IPv6 alone, cables without configuration (169.254/16), straight and crossed,
# addresses that both hosts have, three interfaces against two, a cable by which nothing gets
# through; and they listen at the chosen addresses and nowhere else. Method: two network namespaces
# (Linux, root; else skipped, code 77); large messages that are checked, counters of the cables'
# bytes, ss while the program runs.
. "$(dirname "$0")/hosts.sh"
shift
make_hosts 2> /dev/null && command -v ss > /dev/null || exit 77
compile p2p_large.c

clear_cables() {
    for space in $a $b; do
        for each in $(ip -n $space -o link show type veth | sed 's/^[0-9]*: \([^@:]*\).*/\1/'); do
            ip -n $space link del "$each" 2> /dev/null
        done
    done
}
no_ipv6() {
    for space in $a $b; do
        ip netns exec $space sh -c 'for each in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
            echo '$1' > $each; done'
    done
}

# Each of the addresses at which somebody listens on host $1, without the port.
listeners() { ip netns exec $1 ss -Hltn | awk '{print $4}' | sed 's/:[0-9]*$//'; }

# Runs the program with the interfaces $2; then cables $3... must have carried its data, and no
# others. The addresses that $a listened at are left in $folder/listened.
expect() {
    name=$1 include=$2
    shift 2
    for link in 1 2 3; do
        eval "before_$link=$(bytes $a $link 2> /dev/null || echo 0)"
        eval "back_$link=$(bytes $b $link 2> /dev/null || echo 0)"
    done
    : > "$folder/listened"
    touch "$folder/running"
    while [ -e "$folder/running" ]; do
        listeners $a >> "$folder/listened"
        sleep 0.02
    done &
    watcher=$!
    POMONA_IF_INCLUDE=$include run "$folder/program"
    code=$?
    rm "$folder/running"
    wait $watcher
    [ $code = 0 ] || fault "$name: exit code $code"
    for link in 1 2 3; do
        eval "out=\$((\$(bytes $a $link 2> /dev/null || echo 0) - before_$link))"
        eval "back=\$((\$(bytes $b $link 2> /dev/null || echo 0) - back_$link))"
        case " $* " in
        # Shares follow measured rates, which the processors give these cables, not the wire.
        *" $link "*) [ "$out" -gt 100000 ] && [ "$back" -gt 20000 ] ||
            fault "$name: cable $link carried only $out and $back bytes" ;;
        *) [ "$out" -lt 100000 ] && [ "$back" -lt 100000 ] ||
            fault "$name: cable $link carried $out and $back bytes" ;;
        esac
    done
    sort -u "$folder/listened" > "$folder/out2" && mv "$folder/out2" "$folder/listened"
}

# $a has listened at these addresses and at no others.
expect_listeners() {
    printf '%s\n' "$@" | sort -u > "$folder/right"
    cmp -s "$folder/right" "$folder/listened" ||
        fault "$name: listened at $(tr '\n' ' ' < "$folder/listened"), not at $*"
}

ipv6_only() {
    make_cable 1 && give $a 1 fd00:213::1/64 && give $b 1 fd00:213::2/64
    expect "IPv6 alone" fd00::/8 1
    expect_listeners '[fd00:213::1]'
}

# Which address is on which cable is found out by trying.
ipv6_link_local() {
    make_cable 1 && make_cable 2 51
    # The system gives the addresses a while after the cable.
    for space in $a $b $a $b; do
        for try in 1 2 3 4 5 6 7 8 9 10; do
            [ "$(ip -n $space -o -6 addr show scope link | wc -l)" = 2 ] || sleep 0.5
        done
    done
    POMONA_TEST_SECONDS=4
    expect "link-local IPv6" network 1 2
    [ "$(grep -c '^\[fe80::.*%ph' "$folder/listened")" = "$(grep -c . "$folder/listened")" ] ||
        fault "listened at $(cat "$folder/listened")"
}

unconfigured() {
    no_ipv6 1
    make_cable 1 && make_cable 2
    give $a 1 169.254.1.1/16 && give $b 1 169.254.1.2/16
    give $a 2 169.254.2.1/16 && give $b 2 169.254.2.2/16
    POMONA_TEST_SECONDS=2
    expect "two cables of 169.254/16" network 1 2
    expect_listeners 169.254.1.1%${cable}1 169.254.2.1%${cable}2
}

# The first interface of one is joined to the second of the other.
crossed() {
    no_ipv6 1
    make_cable 1 60 && make_cable 2 50
    give $a 1 169.254.1.1/16 && give $b 1 169.254.1.2/16
    give $a 2 169.254.2.1/16 && give $b 2 169.254.2.2/16
    POMONA_TEST_SECONDS=4
    expect "crossed cables of 169.254/16" network 1 2
}

# As docker0 on every host; it comes first.
alike() {
    no_ipv6 1
    for space in $a $b; do
        ip -n $space link add ${cable}0 index 40 type veth peer name ${cable}0x
        ip -n $space addr add 172.17.0.1/16 dev ${cable}0
        ip -n $space link set ${cable}0 up
    done
    make_cable 1 70
    give $a 1 10.213.31.1/24 && give $b 1 10.213.31.2/24
    expect "an address that both have" network 1
    expect_listeners 172.17.0.1 10.213.31.1
}

three_and_two() {
    no_ipv6 1
    make_cable 1 && make_cable 2
    give $a 1 10.213.31.1/24 && give $b 1 10.213.31.2/24
    give $a 2 10.213.32.1/24 && give $b 2 10.213.32.2/24
    ip -n $a link add ${cable}3 index 30 type veth peer name ${cable}3x
    ip -n $a addr add 10.213.33.1/24 dev ${cable}3
    ip -n $a link set ${cable}3 up
    expect "three interfaces and two" network 1 2
    expect_listeners 10.213.31.1 10.213.32.1 10.213.33.1
}

# Nothing that is sent by the first cable arrives: nobody has the hardware address that it is sent
# to.
dropped() {
    no_ipv6 1
    make_cable 1 && make_cable 2
    give $a 1 10.213.31.1/24 && give $b 1 10.213.31.2/24
    give $a 2 10.213.32.1/24 && give $b 2 10.213.32.2/24
    ip -n $a neigh replace 10.213.31.2 lladdr 02:00:00:00:00:77 dev ${cable}1 nud permanent
    ip -n $b neigh replace 10.213.31.1 lladdr 02:00:00:00:00:77 dev ${cable}1 nud permanent
    expect "a cable that drops all" network 2
}

# What is named, and what is not, on a host with both.
excluded() {
    no_ipv6 1
    make_cable 1 && make_cable 2
    give $a 1 10.213.31.1/24 && give $b 1 10.213.31.2/24
    give $a 2 10.213.32.1/24 && give $b 2 10.213.32.2/24
    export POMONA_IF_EXCLUDE=10.213.31.0/24
    expect "an interface left out" network 2
    unset POMONA_IF_EXCLUDE
    expect_listeners 10.213.32.1
    POMONA_IF_INCLUDE=10.213.300.0/24 run "$folder/program" && fault "a word that means nothing was taken"
    grep -q 'if_include: "10.213.300.0/24" is not a network' "$folder/out" ||
        fault "the word that means nothing is not named"
    POMONA_IF_INCLUDE=eth77 run "$folder/program" && fault "an interface that is not there was taken"
    grep -q "No interface that is up is one of if_include=eth77" "$folder/out" ||
        fault "the interface that is not there is not named"
}

[ $# -gt 0 ] || set -- ipv6_only ipv6_link_local unconfigured crossed alike three_and_two dropped excluded
for case in "$@"; do
    clear_cables
    no_ipv6 0
    export POMONA_TEST_SECONDS=1
    "$case"
done
exit $failed
