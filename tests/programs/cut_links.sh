#!/bin/sh
# tests/programs/cut_links.sh BUILD [all | PROGRAM...]: programs over a link that is cut again and
# again; all: those of programs.csv that run on two ranks and are to end well, except those that
# spawn (the cables are not where new processes start) and those for POMONA_CHECK. Some of these end
# before anything is cut, which is told and no fault.
# Goal: two processes survive their connections. Method: two network namespaces joined by two
# virtual cables, a rank in each; while a program runs, all TCP connections between them are
# destroyed (ss --kill) and a cable is taken down and up, 50 ms apart, CUTS times (20) in all: a
# program that ends before is run again. The first cut comes as soon as there are connections: on a
# quick machine a program is over in less than 0.1 s. The programs check all that they get. Linux,
# root, ss with --kill; else skipped, code 77.
. "$(dirname "$0")/hosts.sh"
shift
[ $# -gt 0 ] || set -- p2p_large.c p2p_order.c coll_all.c p2p_persistent.c coll_persistent.c \
    comm_inter.c rma_locks.c io_random.c threads_multiple.c
whole=no
if [ "$1" = all ]; then
    whole=yes
    # shellcheck disable=SC2046
    set -- $(awk -F, 'NR > 1 && (" " $2 " ") ~ / 2 / && $1 !~ /^(spawn|check)_/ && $5 == "" {
        print $1 ".c" }' "$here/programs.csv")
fi
cuts=${CUTS:-20}

make_two_cables 10.213.2
command -v ss > /dev/null || exit 77
export POMONA_IF_INCLUDE=10.213.0.0/16

connected() { ip netns exec $a ss -Htn state established dst 10.213.0.0/16 2> /dev/null | grep -q .; }

cut_all() {  # $1: how often at most
    n=0
    until connected || [ ! -e "$folder/running" ]; do sleep 0.005; done
    while [ $n -lt "$1" ] && [ -e "$folder/running" ]; do
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
    [ -f "$here/$program" ] || program=${program%.c}.cc
    compile "$program"
    touch "$folder/ended"
    made=0 times=0 code=0
    while [ $code = 0 ] && [ $made -lt "$cuts" ] && [ $times -lt 100 ]; do
        touch "$folder/running"
        cut_all $((cuts - made)) &
        cutter=$!
        run "$folder/program"
        code=$?
        rm -f "$folder/running"
        wait $cutter
        made=$((made + $(cat "$folder/cuts")))
        times=$((times + 1))
    done
    echo "$program: run $times times, exit code $code, $made cuts"
    [ $code = 0 ] && { [ $made -ge "$cuts" ] || [ $whole = yes ]; } || fault "$program"
done
# The system may not let anybody end connections (CONFIG_INET_DIAG_DESTROY): then nothing was shown.
ended=$(wc -l < "$folder/ended")
echo "$ended connections were ended"
[ "$failed" = 0 ] && [ "$ended" = 0 ] && exit 77
exit $failed
