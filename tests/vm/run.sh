#!/usr/bin/env bash
# tests/vm/run.sh FOLDER COMMAND...: runs COMMAND in a small virtual machine that has RDMA devices
# by software (rdma_rxe), sees the host's files, and loses what is written but in /tmp/shared; ends
# as COMMAND does, or with 77 where there can be no such machine (fetch.sh, which makes FOLDER). The
# devices are CABLES (2) of rdma_en2, rdma_en3, ...: each is both ends of one cable, at 169.254.2.1,
# 169.254.3.1, ...
#   SHARED               the host's folder that is /tmp/shared; without it one for this run
#   SECONDS_MOST (240)   after which the machine is ended
#   NETWORK              OWN:PEER, two sockets' paths: a network with another such machine, in which the first cable
#                        goes to it; this one's address ends in END (1 or 2), and COMMAND finds it as $END
set -eu -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
mkdir -p "$1"
folder=$(cd "$1" && pwd -P)
shift
"$here/fetch.sh" "$folder" || exit $?
export PATH=$folder/root/usr/sbin:$folder/root/usr/bin:$PATH:/usr/sbin:/sbin
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

shared=${SHARED-}
if [ -z "$shared" ]; then
    shared=$(mktemp -d "${TMPDIR:-/tmp}/pomona-vm-XXXXXX")
    trap 'rm -rf "$shared"' EXIT
fi
{
    printf 'export HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin END=%q\n' "${END:-1}"
    printf 'cables=%q linked=%q\n' "${CABLES:-2}" "${NETWORK:+yes}"
    cat "$here/devices.sh"
    printf 'cd %q\n' "$PWD"
    printf '%q ' "$@"
} > "$shared/guest.sh"

network=()
if [ -n "${NETWORK-}" ]; then
    network=(-netdev "dgram,id=cable,local.type=unix,local.path=${NETWORK%%:*},remote.type=unix,remote.path=${NETWORK##*:}"
        -device "virtio-net-pci,netdev=cable,host_mtu=4300,mac=52:54:00:00:00:0${END:-1}")
fi
# The processor is emulated: that works in virtual machines, too.
timeout -k 5 "${SECONDS_MOST:-240}" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max \
    -smp 2 -m 1024 -L "$folder/root/usr/share/seabios" -L "$folder/root/usr/share/qemu" -L /usr/share/seabios \
    -nodefaults -no-user-config -no-reboot -display none -serial stdio \
    -kernel "$folder"/kernel/boot/vmlinuz-* -initrd "$folder/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on" "${network[@]}" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$folder/root,mount_tag=packages,security_model=none,readonly=on" \
    -virtfs "local,path=$shared,mount_tag=shared,security_model=none" \
    < /dev/null 2> "$shared/qemu" | sed -u 's/\r$//' | tee "$shared/console" || true
code=$(sed -n 's/^guest: ended with //p' "$shared/console" | tail -n 1)
[ -n "$code" ] || { echo "The virtual machine has not come to its end:"; cat "$shared/qemu"; }
exit "${code:-1}"
