#!/bin/sh
# Packs with this library and with the system's MPICH and Open MPI, where installed, and prints the
# medians side by side. Usage: versus.sh BUILD_FOLDER
set -e
here=$(cd "$(dirname "$0")" && pwd)
build=${1:?usage: versus.sh BUILD_FOLDER}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/tests/pack_bench" > "$work/pomona"
names=pomona
for peer in mpich openmpi; do
    command -v "mpicxx.$peer" > /dev/null || continue
    "mpicxx.$peer" -std=c++17 -O2 "$here/pack_bench.cc" -o "$work/$peer.exe"
    "$work/$peer.exe" > "$work/$peer"
    names="$names $peer"
done
cd "$work"
awk '
FNR == 1 { files[++n] = FILENAME; next }
{ shape = substr($0, 1, 34); if (!(shape in seen)) { seen[shape] = 1; order[++m] = shape }
  split(substr($0, 35), f, " "); pack[FILENAME, shape] = f[2]; unpack[FILENAME, shape] = f[3]
  bytes[shape] = f[1]; if (FILENAME == "pomona") plain[shape] = f[4] }
END {
  printf "%-34s %9s %9s", "shape (pack | unpack, ns)", "bytes", "memcpy"
  for (i = 1; i <= n; ++i) printf " %20s", files[i]
  print ""
  for (k = 1; k <= m; ++k) { s = order[k]; printf "%-34s %9d %9d", s, bytes[s], plain[s]
    for (i = 1; i <= n; ++i) printf " %9d |%9d", pack[files[i], s], unpack[files[i], s]
    print "" } }' $names
