#!/bin/sh
# tests/programs/cut_links.sh BUILD [PROGRAM...]: programs over a link that is cut again and again.
# Goal: two processes survive their connections. Method: two network namespaces joined by two virtual
# cables, a rank in each; while a program runs, all TCP connections between them are destroyed
# (ss --kill) and a cable is taken down and up, CUTS times (20) or until it ends, 50 ms apart. The
# programs check all that they get. Linux, root, ss with --kill; else skipped, code 77.
bin=$1/bin
shift
[ $# -gt 0 ] || set -- p2p_large.c p2p_order.c coll_all.c
cuts=${CUTS:-20}
here=$(dirname "$0")
tag=$$
a=pomc${tag}a b=pomc${tag}b
hosts=10.213.27.1,10.213.27.2,10.213.28.1,10.213.28.2
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
        ip link add pc$tag-$link netns $a type veth peer name pc$tag-$link netns $b || return 1
        for side in 1 2; do
            space=$a
            [ $side = 2 ] && space=$b
            ip -n $space addr add 10.213.$((26 + link)).$side/24 dev pc$tag-$link &&
                ip -n $space link set pc$tag-$link up && ip -n $space link set lo up || return 1
        done
    done
}
make 2>/dev/null || exit 77
command -v ss > /dev/null || exit 77

cut_all() {
    n=0
    while [ $n -lt "$cuts" ] && [ -e "$folder/running" ]; do
        case $((n % 4)) in
        0 | 2) ip netns exec $a ss -Htn --kill state established dst 10.213.0.0/16 >> "$folder/ended" 2> /dev/null ;;
        1) ip -n $a link set pc$tag-1 down; sleep 0.05; ip -n $a link set pc$tag-1 up ;;
        3) ip netns exec $b ss -Htn --kill state established dst 10.213.0.0/16 >> "$folder/ended" 2> /dev/null ;;
        esac
        n=$((n + 1))
        sleep 0.05
    done
    echo $n > "$folder/cuts"
}

failed=0
for program in "$@"; do
    "$bin/mpicc" -I "$here" "$here/$program" -lm -o "$folder/program" || exit 1
    touch "$folder/running" "$folder/ended"
    cut_all &
    cutter=$!
    POMONA_TRANSPORTS=self,tcp POMONA_TCP_INTERFACES=$hosts POMONA_TCP_STREAMS=2 timeout 110 \
        "$bin/mpirun" --bind-to none -n 1 ip netns exec $a "$folder/program" : \
        -n 1 ip netns exec $b "$folder/program" > "$folder/out" 2>&1
    code=$?
    rm -f "$folder/running"
    wait $cutter
    echo "$program: exit code $code, $(cat "$folder/cuts") cuts"
    [ $code = 0 ] || { failed=1; tail -n 20 "$folder/out"; }
done
# The system may not let anybody end connections (CONFIG_INET_DIAG_DESTROY): then nothing was shown.
ended=$(wc -l < "$folder/ended")
echo "$ended connections were ended"
[ "$failed" = 0 ] && [ "$ended" = 0 ] && exit 77
exit $failed
