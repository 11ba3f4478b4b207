# tests/programs/hosts.sh: for other scripts (". hosts.sh BUILD"): two network namespaces stand for
# two hosts, $a and $b (three: $c), joined by virtual cables that a script makes; all goes away at
# its end. A script ends with code 77 (skipped) where this cannot be done: not Linux, not root.
bin=$1/bin
here=$(dirname "$0")
tag=$$
a=pomh${tag}a b=pomh${tag}b c=pomh${tag}c
folder=$(mktemp -d)
failed=0
leave() {
    ip netns del $a 2> /dev/null
    ip netns del $b 2> /dev/null
    ip netns del $c 2> /dev/null
    rm -rf "$folder"
}
trap leave EXIT

# Those of $a, $b, $c that are named, else the first two.
make_hosts() {
    for space in ${*:-$a $b}; do
        ip netns add $space && ip -n $space link set lo up || return 1
        # Addresses of IPv6 are used at once.
        ip netns exec $space sh -c 'for each in all default; do
            echo 0 > /proc/sys/net/ipv6/conf/$each/accept_dad; done' || return 1
    done
}

# Cable $1, whose ends are both called $cable$1; $2: the number (order) of the interface at $b.
cable=ph$tag-
make_cable() {
    ip -n $b link add $cable$1 ${2:+index $2} type veth peer name $cable$1 netns $a &&
        ip -n $a link set $cable$1 up && ip -n $b link set $cable$1 up
}

# Gives the end of cable $2 at host $1 the address $3.
give() { ip -n $1 addr add $3 dev $cable$2; }

# Both hosts and cables 1 and 2 between them; cable N has the addresses PREFIXN.1 and PREFIXN.2,
# where PREFIX is $1 (10.213.2 for 10.213.21.1 and so on). Skips the script where this cannot be
# done.
make_two_cables() {
    {
        make_hosts && for link in 1 2; do
            make_cable $link && give $a $link $1$link.1/24 && give $b $link $1$link.2/24 || exit 77
        done
    } 2> /dev/null || exit 77
}

# "$folder/enter HOST COMMAND..." stands for ssh: runs the command on a host, under its name.
make_enter() {
    cat > "$folder/enter" <<'END'
#!/bin/sh
host=$1
shift
exec ip netns exec $host unshare --uts sh -c "hostname $host; exec $*"
END
    chmod +x "$folder/enter"
}

# Bytes that left host $1 by cable $2.
bytes() { ip netns exec $1 cat /sys/class/net/$cable$2/statistics/tx_bytes; }

# Compiles $1 of this folder to $folder/program.
compile() {
    case $1 in
    *.cc) "$bin/mpicxx" -std=c++17 -I "$here" "$here/$1" -o "$folder/program" ;;
    *) "$bin/mpicc" -std=c11 -D_GNU_SOURCE -I "$here" "$here/$1" -lm -o "$folder/program" ;;
    esac || exit 1
}

# Both ranks run a program, each on its host.
run() {
    POMONA_TRANSPORTS=self,tcp timeout 110 "$bin/mpirun" --bind-to none \
        -n 1 ip netns exec $a "$@" : -n 1 ip netns exec $b "$@" > "$folder/out" 2>&1
}

fault() {
    failed=1
    echo "$*"
    tail -n 20 "$folder/out"
}

[ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] || exit 77
