#!/usr/bin/env bash
# tests/vm/fetch.sh FOLDER: what the small virtual machine of tests/vm consists of, from Debian's or
# Ubuntu's packages: QEMU, a kernel with its modules, and libibverbs. Nothing is installed: packages
# that the system does not have are unpacked in FOLDER, once. Ends with 77, and a word, where they
# are not to be had.
#   FOLDER/root     unpacked packages, which the guest sees over the host's files
#   FOLDER/kernel   /boot of a kernel
#   FOLDER/modules  those of its modules that the guest loads, and their order
#   FOLDER/initrd   modules and what starts in the guest (init.sh)
set -eu -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
without() { echo "No virtual machine: $*"; exit 77; }

[ "${POMONA_INSTALL-}" != no ] || [ -e "$1/initrd" ] || without "nothing is to be fetched (POMONA_INSTALL=no)"
[ "$(uname -sm)" = "Linux x86_64" ] || without "it is made for Linux on x86-64"
for each in apt-get apt-cache dpkg-deb dpkg-query; do
    command -v $each > /dev/null || without "there is no $each"
done
mkdir -p "$1"
cd "$1"
folder=$PWD
exec 9> lock
flock 9

TOOLS="qemu-system-x86 busybox-static kmod cpio iproute2 libibverbs1 ibverbs-providers"
MODULES="virtio_pci 9p 9pnet_virtio overlay virtio_net crc32_generic ib_uverbs rdma_rxe dummy sch_netem"

unpack() {  # folder package...: as they would be installed, on a system whose /lib is /usr/lib
    local to=$1 each
    shift
    rm -rf archives
    mkdir -p archives "$to/usr/lib" "$to/usr/bin" "$to/usr/sbin"
    for each in lib bin sbin; do [ -e "$to/$each" ] || ln -s usr/$each "$to/$each"; done
    (cd archives && apt-get download -qq "$@" 2> ../download.log) ||
        without "packages could not be fetched: $(tail -n 1 download.log)"
    for each in archives/*.deb; do
        dpkg-deb --fsys-tarfile "$each" | tar -x --keep-directory-symlink -C "$to"
    done
    rm -r archives
}

missing_tools() {
    local each missing=
    for each in $TOOLS; do
        [ "$(dpkg-query -W -f '${Status}' "$each" 2> /dev/null)" = "install ok installed" ] ||
            missing="$missing $each"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt-get install -s -qq --no-install-recommends $missing 2> download.log |
        awk '$1 == "Inst" { print $2 }'
}

# The packages of the kernel that the system's own name stands for, in which rdma_rxe is.
kernel_packages() {
    local image
    for image in linux-image-amd64 linux-image-virtual; do
        image=$(apt-cache depends "$image" 2> /dev/null |
            awk '$2 ~ /^linux-image-[0-9]/ { print $2; exit }' || true)
        [ -n "$image" ] || continue
        echo "$image"
        for image in "${image/image/modules}" "${image/image/modules-extra}"; do
            [ -z "$(apt-cache show "$image" 2> /dev/null || true)" ] || echo "$image"
        done
        return
    done
}

# Its names are links to /bin/kmod, which is not there.
module_tool() { (exec -a "$1" kmod "${@:2}"); }

# All others, 400 MB of them, go.
take_modules() {
    local version each name
    version=$(ls kernel/usr/lib/modules)
    rm -rf modules
    mkdir modules
    module_tool depmod -b "$folder/kernel" "$version"
    for each in $MODULES; do
        module_tool modprobe -d "$folder/kernel" -S "$version" --show-depends "$each" 2> /dev/null || true
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r each; do
        name=$(basename "$each")
        cp "$each" "modules/$name"
        echo "$name" >> modules/order
    done
    grep -q rdma_rxe modules/order || without "the kernel $version has no rdma_rxe"
    rm -r kernel/usr
}

make_initrd() {
    local tree=initrd.tree
    rm -rf $tree
    mkdir -p $tree/bin $tree/proc $tree/sys $tree/dev $tree/host $tree/new $tree/tmp
    cp "$(command -v busybox)" $tree/bin/busybox
    cp -r modules $tree/modules
    cp "$here/init.sh" $tree/init
    chmod +x $tree/init
    (cd $tree && find . | cpio -o -H newc --quiet | gzip -1) > initrd.new
    rm -r $tree
    mv initrd.new initrd
}

if [ ! -e tools ]; then
    tools=$(missing_tools) || without "packages are not known here: $(tail -n 1 download.log)"
    mkdir -p root
    # shellcheck disable=SC2086
    [ -z "$tools" ] || unpack root $tools
    touch tools
fi
export PATH=$folder/root/usr/sbin:$folder/root/usr/bin:$PATH:/usr/sbin:/sbin
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ ! -e kernel/whole ]; then
    rm -rf kernel
    packages=$(kernel_packages)
    [ -n "$packages" ] || without "there is no package of a kernel"
    # shellcheck disable=SC2086
    unpack kernel $packages
    take_modules
    touch kernel/whole
    rm -f initrd
fi
if [ ! -e initrd ] || [ "$here/init.sh" -nt initrd ]; then make_initrd; fi
