# tests/vm/devices.sh: in the guest (run.sh): a network device and an RDMA device for each cable.
# shellcheck shell=sh disable=SC2154
ulimit -l unlimited
hostname "vm$END"
first=2
if [ -n "$linked" ]; then
    other=$(basename "$(ls -d /sys/class/net/*/device | head -n 1 | xargs dirname)")
    ip link set "$other" name en2
    ip addr add "169.254.2.$END/24" dev en2
    ip link set en2 mtu 4200 up
    rdma link add rdma_en2 type rxe netdev en2 || exit 98
    first=3
fi
n=$first
while [ "$n" -le $((1 + cables)) ]; do
    ip link add "en$n" type dummy
    ip addr add "169.254.$n.1/24" dev "en$n"
    ip link set "en$n" mtu 4200 up
    rdma link add "rdma_en$n" type rxe netdev "en$n" || exit 98
    n=$((n + 1))
done
