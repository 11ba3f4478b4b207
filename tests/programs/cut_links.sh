#!/bin/sh
# tests/programs/cut_links.sh BUILD [PROGRAM...]: programs over a link that is cut again and again.
# Goal: two processes survive their connections. Method: two network namespaces joined by two virtual
# cables, a rank in each; while a program runs, all TCP connections between them are destroyed
# (ss --kill) and a cable is taken down and up, CUTS times (20) or until it ends, 50 ms apart. The
# programs check all that they get. Linux, root, ss with --kill; else skipped, code 77.
. "$(dirname "$0")/hosts.sh"
shift
[ $# -gt 0 ] || set -- p2p_large.c p2p_order.c coll_all.c
cuts=${CUTS:-20}

make_two_cables 10.213.2
command -v ss > /dev/null || exit 77
export POMONA_IF_INCLUDE=10.213.0.0/16

cut_all() {
    n=0
    while [ $n -lt "$cuts" ] && [ -e "$folder/running" ]; do
        case $((n % 4)) in
        0 | 2) ip netns exec $a ss -Htn --kill state established dst 10.213.0.0/16 >> "$folder/ended" 2> /dev/null ;;
        1) ip -n $a link set ${cable}1 down; sleep 0.05; ip -n $a link set ${cable}1 up ;;
        3) ip netns exec $b ss -Htn --kill state established dst 10.213.0.0/16 >> "$folder/ended" 2> /dev/null ;;
        esac
        n=$((n + 1))
        sleep 0.05
    done
    echo $n > "$folder/cuts"
}

for program in "$@"; do
    compile "$program"
    touch "$folder/running" "$folder/ended"
    cut_all &
    cutter=$!
    run "$folder/program"
    code=$?
    rm -f "$folder/running"
    wait $cutter
    echo "$program: exit code $code, $(cat "$folder/cuts") cuts"
    [ $code = 0 ] || fault "$program"
done
# The system may not let anybody end connections (CONFIG_INET_DIAG_DESTROY): then nothing was shown.
ended=$(wc -l < "$folder/ended")
echo "$ended connections were ended"
[ "$failed" = 0 ] && [ "$ended" = 0 ] && exit 77
exit $failed
