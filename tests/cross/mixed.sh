#!/usr/bin/env bash
# tests/cross/mixed.sh: MPI programs whose ranks are of two processors: some are Arm programs under
# qemu-user, the others this machine's own.
# The library is compiled for Arm with Debian's packages of that processor, unpacked into the build
# folder; every program of tests/programs is compiled twice. Runs them on one machine, where both
# kinds share memory, and over two hosts (namespaces; root only), of which the second is the Arm
# one. On both mixed_who.c looks that both kinds run and that long double, whose formats differ, is
# refused by name. Programs that use it (ops_predefined, ops_pairs) are left out. Needs
# g++-aarch64-linux-gnu, qemu-user, apt and network at the first run. 77: skipped.
# Usage: tests/cross/mixed.sh BUILD [FOLDER [PATTERN...]]; PATTERN chooses programs ('coll_*')
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
folder=${2:-$root/.build/mixed}
patterns=("${@:3}")
[ ${#patterns[@]} -gt 0 ] || patterns=('coll_*' 'p2p_*' 'comm_*' 'types_*' ops_layouts ops_user 'rma_*' 'app_*' \
    'topo_*' 'requests_*' group sessions)
packages=(libhwloc-dev libhwloc15 libevent-dev libevent-core-2.1-7 libevent-pthreads-2.1-7 libevent-2.1-7 \
    libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev libssl3 libssl-dev libudev1)
for need in aarch64-linux-gnu-g++ qemu-aarch64 apt-get ninja; do
    command -v "$need" > /dev/null || { echo "skipped: $need is not installed"; exit 77; }
done

# Arm packages, without a word to this system's own lists.
arm=$folder/arm
if [ ! -e "$arm/.complete" ]; then
    mkdir -p "$folder/lists/partial" "$folder/packages" "$arm"
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$folder/lists"
        -o APT::Sandbox::User=root)
    "${apt[@]}" update && (cd "$folder/packages" && "${apt[@]}" download "${packages[@]}") ||
        { echo "skipped: Arm packages cannot be had"; exit 77; }
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$arm"; done
    touch "$arm/.complete"
fi

launcher=$(command -v ccache || true)
${CMAKE:-cmake} -S "$root" -B "$folder/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPOMONA_TESTS=OFF \
    -DCMAKE_TOOLCHAIN_FILE="$root/tests/cross/aarch64/toolchain.cmake" -DPOMONA_ARM="$arm" \
    -DPOMONA_PMIX=OFF -DPOMONA_PYTHON= -DPOMONA_WERROR=ON -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
    -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1 > "$folder/cmake.log" 2>&1 ||
    { tail -n 30 "$folder/cmake.log"; exit 1; }
ninja -C "$folder/tree" -j "${POMONA_JOBS:-$(getconf _NPROCESSORS_ONLN)}" mpi_abi > "$folder/build.log" 2>&1 ||
    { grep -E -A8 'error:|FAILED' "$folder/build.log" | head -n 40; exit 1; }

# mpicc for both: the second program stands beside the first.
mkdir -p "$folder/bin"
for pair in mpicc:gcc mpicxx:g++; do
    cat > "$folder/bin/${pair%:*}" << END
#!/bin/sh
"$build/bin/${pair%:*}" "\$@" || exit
case "\$*" in *"-E "*) exit ;; esac
for word; do [ "\$last" != -o ] || target=\$word; last=\$word; done
exec aarch64-linux-gnu-${pair#*:} -I"$folder/tree/include" -I"$root/mpi/include" "\$@" -o "\$target.arm" \\
    -L"$folder/tree/lib" -lmpi_abi -Wl,-rpath-link,"$arm/usr/lib/aarch64-linux-gnu"
END
done
# Starts a rank's program, or its Arm form: of odd ranks, or of all on the second host.
for choice in 'rank:$((POMONA_JOB_RANK % 2)) = 0' 'host:$POMONA_JOB_HOST = h1'; do
    cat > "$folder/bin/start_by_${choice%%:*}" << END
#!/bin/sh
[ ${choice#*:} ] && exec "\$@"
program=\$1
shift
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E \\
    LD_LIBRARY_PATH="$folder/tree/lib:$arm/usr/lib/aarch64-linux-gnu" "\$program.arm" "\$@"
END
done
chmod +x "$folder"/bin/*

run=(python3 "$root/tests/programs/run.py" --mpicc "$folder/bin/mpicc" --mpirun "$build/bin/mpirun --oversubscribe"
    --build "$folder/programs" --timeout-factor 6)
for pattern in "${patterns[@]}"; do run+=(--only "$pattern"); done
status=0
echo "One machine, odd ranks for Arm:"
"${run[@]}" --through "$folder/bin/start_by_rank" || status=1

"$folder/bin/mpicc" -Wall -Werror "$root/tests/cross/mixed_who.c" -o "$folder/who"
refused() { # of mixed_who.c's two ranks
    cat "$folder/who.txt"
    [ "$(grep -c ': good; long double: .*MPI_LONG_DOUBLE' "$folder/who.txt")" = 2 ] || status=1
}
"$build/bin/mpirun" --oversubscribe -n 2 "$folder/bin/start_by_rank" "$folder/who" > "$folder/who.txt" 2>&1 || status=1
refused

echo "Two hosts, the second for Arm:"
python3 -B "$root/tests/host_world.py" 2 "$build/bin/mpirun" -n 2 --host HOSTS "$folder/bin/start_by_host" \
    "$folder/who" > "$folder/who.txt" 2>&1 || { [ $? != 77 ] || { echo "skipped: needs root"; exit $status; }; }
refused
"${run[@]}" --through "$folder/bin/start_by_host" --hosts 2 || status=1
exit $status
