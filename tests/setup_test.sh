#!/usr/bin/env bash
# tests/setup_test.sh: which packages are asked of which manager (tests/packages.sh), with stand-ins
# for dnf, pacman, apt, conda, sudo and id that write down how they are called.
set -eu -o pipefail
unset POMONA_INSTALL  # of a run of the tests that installs nothing
root=$(cd "$(dirname "$0")/.." && pwd -P)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
failed=0

# A machine: the tools that the scripts use, and stand-ins for these commands.
machine() {  # user-id commands...
    local tool
    rm -rf "${work:?}/bin" "$work/calls" "$work/build"
    mkdir -p "$work/bin"
    : > "$work/calls"
    for tool in bash awk tr cat cp dirname basename find grep ln mkdir readlink realpath rm sed tar env; do
        ln -s "$(command -v "$tool")" "$work/bin/$tool"
    done
    stand_in id "echo $1"
    stand_in uname "echo Linux"
    shift
    for tool; do stand_in "$tool" "echo \"$tool \$*\" >> '$work/calls'"; done
}
stand_in() {  # name body
    printf '#!/bin/bash\n%s\n' "$2" > "$work/bin/$1"
    chmod +x "$work/bin/$1"
}
provide() {  # purposes...; what it says and did go to files
    PATH=$work/bin POMONA_BUILD=$work/build/release bash -c \
        ". '$root/tests/setup.sh'
        provide_packages $*
        echo PREFIX \${CMAKE_PREFIX_PATH-}; echo PC \${PKG_CONFIG_PATH-}; echo CPATH \${CPATH-}" \
        < /dev/null > "$work/said" 2>&1 && code=0 || code=$?
}
expect() {  # case file pattern
    if ! grep -q -e "$3" "$work/$2"; then
        echo "FAILED: $1: no '$3' in what it $2:"
        sed 's/^/    /' "$work/$2"
        failed=1
    fi
}
expect_code() {  # case code
    if [ "$code" != "$2" ]; then echo "FAILED: $1 ended with $code"; sed 's/^/    /' "$work/said"; failed=1; fi
}

if awk '!/^#/ && NF != 6 { bad = 1; print "tests/packages.txt: " $0 } END { exit !bad }' "$root/tests/packages.txt"
then echo "FAILED: a row has not six columns"; failed=1; fi

machine 0 dnf
stand_in rpm '[ "$3" = hwloc-devel ]'
provide build
expect_code "Fedora, root" 0
expect "Fedora, root" calls '^dnf install -y .*libevent-devel .*cli11-devel'
if grep -q 'hwloc-devel\|gtest-devel' "$work/calls"; then
    echo "FAILED: Fedora: what is there, or only tests need, was installed"; failed=1
fi
provide build tests
expect "Fedora, tests" calls '^dnf install .*libevent-devel .*gtest-devel'

machine 1000 pacman-asked
stand_in pacman "case \$1 in -Q*) exit 1 ;; *) echo \"pacman \$*\" >> '$work/calls' ;; esac"
stand_in sudo '[ "$1" = -n ] && exit 0; "$@"'
provide build
expect_code "Arch, sudo" 0
expect "Arch, sudo" calls '^pacman -S --needed --noconfirm base-devel .*openpmix'

machine 1000 dnf
stand_in micromamba "mkdir -p '$work/build/conda'; echo \"micromamba \$*\" >> '$work/calls'"
stand_in rpm 'exit 1'
provide build
expect_code "Fedora, neither root nor sudo" 0
expect "Fedora, neither root nor sudo" calls '^micromamba create .* -p .*/build/conda -c conda-forge cxx-compiler .*openpmix'
expect "Fedora, neither root nor sudo" said 'PREFIX .*/build/conda'

machine 1000 dnf
stand_in rpm 'exit 1'
provide build
expect_code "Fedora, no way" 1
expect "Fedora, no way" said 'needs root or sudo. Ask for .dnf install .*hwloc-devel.*C++ compiler.*micromamba'

# With a compiler the manager's own packages are unpacked: files below usr, as Fedora and Arch lay
# them out, in an archive that tar knows.
mkdir -p "$work"/content/usr/{include/python3.12,lib/pkgconfig,lib64/pkgconfig}
echo 'prefix=/usr' | tee "$work"/content/usr/lib/pkgconfig/hwloc.pc > "$work/content/usr/lib64/pkgconfig/hwloc.pc"
echo 'libdir=/usr/lib64' >> "$work/content/usr/lib64/pkgconfig/hwloc.pc"
touch "$work/content/.PKGINFO"
tar -cf "$work/archive" -C "$work/content" usr .PKGINFO
expect_unpacked() {  # case, folder of libraries
    local root=$work/build/packages/usr
    expect_code "$1" 0
    expect "$1" said "PREFIX $root"
    expect "$1" said "PC $root/$2/pkgconfig"
    expect "$1" said "CPATH $root/include:$root/include/python3.12"
    if ! grep -q "^prefix=$root\$" "$root/$2/pkgconfig/hwloc.pc"; then
        echo "FAILED: $1: hwloc.pc names another place"; failed=1
    fi
}
for_unpacking() {  # manager
    machine 1000 "$1"
    stand_in c++ ':'
    stand_in bsdtar 'exec tar "$@"'
}
for_unpacking dnf
stand_in rpm 'exit 1'
stand_in dnf "echo \"dnf \$*\" >> '$work/calls'; cp '$work/archive' hwloc-devel.rpm"
provide build tests
expect_unpacked "Fedora, a compiler" lib64
expect "Fedora, a compiler" calls '^dnf download .*--resolve .*--destdir=. cmake .*hwloc-devel .*cli11-devel.* gtest-devel'
if grep -q ' gcc-c++ \| make \| gdb \| python3 ' "$work/calls"; then
    echo "FAILED: Fedora, a compiler: fetched what cannot be used from there"; failed=1
fi
if ! grep -q "libdir=$work/build/packages/usr/lib64" "$work/build/packages/usr/lib64/pkgconfig/hwloc.pc"; then
    echo "FAILED: Fedora, a compiler: hwloc.pc names the system's lib64"; failed=1
fi
: > "$work/calls"
provide build tests
expect_unpacked "Fedora, once more" lib64
if [ -s "$work/calls" ]; then echo "FAILED: Fedora, once more: fetched again: $(cat "$work/calls")"; failed=1; fi
stand_in dnf 'exit 1'
rm -r "$work/build"
provide build
expect_code "Fedora, a compiler, no network" 1
expect "Fedora, a compiler, no network" said 'Does this machine reach its package servers.*--no-install'

for_unpacking pacman
stand_in pacman "echo \"pacman \$*\" >> '$work/calls'
case \$1 in -Sp) echo 'https://mirror/hwloc.pkg.tar.zst
https://mirror/fmt.pkg.tar.zst' ;; *) exit 1 ;; esac"
stand_in curl "echo \"curl \$*\" >> '$work/calls'; cp '$work/archive' \"\$(basename \"\${!#}\")\""
tar -cf "$work/archive" --exclude lib64 -C "$work/content" usr .PKGINFO
provide build
expect_unpacked "Arch, a compiler" lib
expect "Arch, a compiler" calls '^pacman -Sp --noconfirm cmake .*hwloc .*cli11'
expect "Arch, a compiler" calls '^curl .* https://mirror/fmt.pkg.tar.zst'
if [ -e "$work/build/packages/.PKGINFO" ]; then echo "FAILED: Arch: pacman's own files were unpacked"; failed=1; fi
stand_in pacman 'exit 1'
rm -r "$work/build"
provide build
expect_code "Arch, a compiler, no lists" 1
expect "Arch, a compiler, no lists" said 'Does this machine reach its package servers.*--no-install'

machine 0 none
provide build
expect_code "no manager" 1
expect "no manager" said 'No package manager that this script knows'

machine 0 dnf
stand_in rpm 'exit 1'
stand_in dnf 'exit 1'
provide build
expect_code "no network" 1
expect "no network" said 'Does this machine reach its package servers.*--no-install'

machine 0 dnf
stand_in rpm 'exit 1'
POMONA_INSTALL=no provide build
expect_code "--no-install" 0
expect "--no-install" said 'Missing here: .*hwloc-devel'
if [ -s "$work/calls" ]; then echo "FAILED: --no-install installed: $(cat "$work/calls")"; failed=1; fi

[ $failed = 0 ] && echo "all as expected"
exit $failed
