# tests/cross/mixed_build.sh: sourced by mixed.sh and mixed_collectives.sh: what jobs of two
# processors need, below $folder. Compiles the library for Arm with Debian's packages of that
# processor, unpacked there, and makes $folder/bin: mpicc and mpicxx, which compile each program
# twice, and start_by_rank and start_by_host, which start the one or the other. Reads $root (the
# source), $build (the release tree) and $folder. Exit code 77: something that it needs is missing.
# shellcheck shell=bash disable=SC2154
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
for need in aarch64-linux-gnu-g++ qemu-aarch64 apt-get ninja; do
    command -v "$need" > /dev/null || { echo "skipped: $need is not installed"; exit 77; }
done
[ "$(uname -m)" = x86_64 ] || { echo "skipped: this machine's processor is not x86-64"; exit 77; }

# Arm packages, without a word to this system's own lists: the headers, and the libraries that apt
# says they need.
arm=$folder/arm
if [ ! -e "$arm/.complete" ]; then
    mkdir -p "$folder/lists/partial" "$folder/packages" "$arm"
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$folder/lists"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    { "${apt[@]}" update && mapfile -t packages < <("${apt[@]}" install -s --no-install-recommends libhwloc-dev \
        libevent-dev libfmt-dev nlohmann-json3-dev libcli11-dev libssl-dev |
        sed -nE 's/^Inst ((lib(hwloc|event|fmt|cli11|ssl|udev)|nlohmann)[^ ]*) .*/\1/p') &&
        [ ${#packages[@]} -gt 6 ] && (cd "$folder/packages" && "${apt[@]}" download "${packages[@]}"); } ||
        { echo "skipped: Arm packages cannot be had"; exit 77; }
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$arm"; done
    touch "$arm/.complete"
fi

${CMAKE:-cmake} -S "$root" -B "$folder/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPOMONA_TESTS=OFF \
    -DCMAKE_TOOLCHAIN_FILE="$root/tests/cross/aarch64/toolchain.cmake" -DPOMONA_ARM="$arm" \
    -DPOMONA_PMIX=OFF -DPOMONA_PYTHON= -DPOMONA_WERROR=ON \
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
