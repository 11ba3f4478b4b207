#!/bin/sh
# tests/programs/cut_rdma.sh BUILD [PROGRAM...]: programs over fake RDMA cables that fail again and
# again.
# Goal: what a cable, a port, a device or the registration of memory does in mid-job moves messages
# to TCP and back, and neither loses nor doubles any. Method: ranks on 2 to 4 "machines", joined by
# fake cables (tests/verbs); while a program runs in a loop, faults come and go, 40 ms each, FAULTS
# of them (24). The programs check all that they get; at the end messages must have gone by RDMA
# again.
if [ -z "$fabric" ]; then
    exec "$(dirname "$0")/rdma.sh" "$1" 4 1 "$0" "$@"
fi
shift
[ $# -gt 0 ] || set -- p2p_large.c:2 p2p_order.c:2 coll_large.c:3 coll_all.c:4
faults=${FAULTS:-24}
here=$(dirname "$0")
failed=0

tell() { "$build/tests/fake_verbs" "$fabric" "$@"; }
both() { # on and off, as words of a fault
    tell "$1"
    sleep 0.04
    tell "$2"
    sleep 0.04
}
under() { # likewise, and a cable is pulled and plugged in between
    tell "$1"
    both "pull * *" "plug * *"
    tell "$2"
    sleep 0.04
}
disturb() {
    n=0
    while [ $n -lt "$faults" ]; do
        case $((n % 6)) in
        0) both "pull * *" "plug * *" ;;
        1) both "port 1 * down" "port 1 * up" ;;
        2) both "lose 0 *" "find 0 *" ;;
        3) both "stall * * on" "stall * * off" ;;
        # What keeps a path from being made anew: one that stands does not feel it.
        4) under "regions * * off" "regions * * on" ;;
        5) under "gids * * off" "gids * * on" ;;
        esac
        n=$((n + 1))
    done
    rm -f "$fabric/disturbed"
}
messages() { tell counts | awk '{ sum += $4 } END { print sum }'; }

for each in "$@"; do
    program=${each%:*} ranks=${each#*:}
    "$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/$program" -o "$fabric/program" -lm -pthread || exit 1
    touch "$fabric/disturbed"
    disturb &
    disturber=$!
    runs=0 code=0
    while [ $code = 0 ] && { [ -e "$fabric/disturbed" ] || [ $runs = 0 ]; }; do
        # shellcheck disable=SC2086
        timeout 60 "$build/bin/mpirun" --oversubscribe -n "$ranks" $through "$fabric/program" > "$fabric/out" 2>&1
        code=$?
        runs=$((runs + 1))
    done
    wait $disturber
    before=$(messages) after=$before calm=0
    # A short program may be over before its devices are open, which takes long on a busy machine.
    while [ $code = 0 ] && [ "$after" -le "$before" ] && [ $calm -lt 20 ]; do
        # shellcheck disable=SC2086
        timeout 60 "$build/bin/mpirun" --oversubscribe -n "$ranks" $through "$fabric/program" > "$fabric/out" 2>&1
        code=$?
        after=$(messages)
        calm=$((calm + 1))
    done
    echo "$each: exit code $code, $runs runs among $faults faults, $calm without, in which" \
        "$((after - before)) messages went by RDMA"
    if [ $code != 0 ] || [ "$after" -le "$before" ]; then
        failed=1
        tail -n 30 "$fabric/out"
    fi
done
exit $failed
