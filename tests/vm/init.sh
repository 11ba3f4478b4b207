#!/bin/busybox sh
# tests/vm/init.sh: the first process of the virtual machine (run.sh). The host's files are the
# guest's, under what fetch.sh has unpacked; whatever is written stays in memory, but for
# /tmp/shared, the host's folder. It runs /tmp/shared/guest.sh and says how that ended.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
fail() {
    echo "guest: $*"
    $b poweroff -f
}
while read -r module; do
    $b insmod "/modules/$module" || echo "guest: no module $module"
done < /modules/order
share() { # name folder options
    $b mkdir -p "$2"
    $b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$3" "$1" "$2" || fail "$1 is not mounted"
}
$b mount -t tmpfs memory /tmp
share host /host ro,cache=loose
share packages /tmp/packages ro,cache=loose
$b mkdir /tmp/upper /tmp/work
$b mount -t overlay -o lowerdir=/tmp/packages:/host,upperdir=/tmp/upper,workdir=/tmp/work root /new ||
    fail "there is no overlay"
for each in proc sys dev; do $b mount -o bind /$each /new/$each; done
$b ln -s /proc/self/fd /dev/fd
$b mkdir -p /dev/shm /dev/pts
$b mount -t tmpfs shm /dev/shm
$b mount -t devpts devpts /dev/pts
$b mount -t tmpfs tmp /new/tmp
$b mount -t tmpfs run /new/run
share shared /new/tmp/shared cache=none
$b ip link set lo up
$b chroot /new /bin/bash /tmp/shared/guest.sh < /dev/null
echo "guest: ended with $?"
$b poweroff -f
