#!/usr/bin/env bash
# tests/cross/mixed_collectives.sh: every algorithm of the collectives in jobs of two processors.
# Odd ranks are Arm programs under qemu-user, the others this machine's own (mixed_build.sh). Each
# job runs other cases of tests/programs/coll_property.c with one algorithm of each collective
# forced, until all of coll/catalog.def had their turn: over TCP on the loopback, in shared memory,
# and as if each two ranks, one of either kind, were a machine. mixed_types.c looks that types
# whose formats differ are refused by name. Needs g++-aarch64-linux-gnu, qemu-user, apt and network
# at the first run. 77: skipped.
# Usage: tests/cross/mixed_collectives.sh BUILD [FOLDER [SEEDS-OF-A-JOB]]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
folder=${2:-$build/mixed}
seeds=${3:-200}
. "$root/tests/cross/mixed_build.sh"

names=()
declare -A rows=()
while read -r collective row; do
    case $collective in neighbor | exscan) continue ;; esac  # one algorithm; those of scan
    [ -n "${rows[$collective]-}" ] || names+=("$collective")
    rows[$collective]+="$row "
done < <(sed -n 's/^ALGORITHM(\([a-z_]*\), \([a-z_0-9]*\),.*/\1 \2/p' "$root/coll/catalog.def")
most=0
for collective in "${names[@]}"; do
    read -ra list <<< "${rows[$collective]}"
    [ ${#list[@]} -le $most ] || most=${#list[@]}
done
[ "$most" -gt 1 ] || { echo "no algorithms were found in coll/catalog.def"; exit 1; }

status=0
"$folder/bin/mpicc" -std=gnu11 -O1 "$root/tests/programs/coll_property.c" -o "$folder/coll_property"
"$folder/bin/mpicc" "$root/tests/cross/mixed_types.c" -o "$folder/mixed_types"
"$build/bin/mpirun" --oversubscribe -n 2 "$folder/bin/start_by_rank" "$folder/mixed_types" || status=1
checks=0
job() {  # what it is, variables..., --, options of mpirun and what starts the ranks
    local settings=("${@:2}") command=() out
    while [ "${settings[0]}" != -- ]; do command+=("${settings[0]}"); settings=("${settings[@]:1}"); done
    command=(env ${command[@]+"${command[@]}"} "${forced[@]}" "$build/bin/mpirun" --oversubscribe "${settings[@]:1}"
        "$folder/bin/start_by_rank" "$folder/coll_property" "$first" "$seeds")
    if out=$("${command[@]}" 2>&1) && [[ $out =~ ^"ok coll_property checks="([0-9]+)$ ]]; then
        checks=$((checks + BASH_REMATCH[1]))
    else
        printf '%s:\n%s\nrepeat: %s\n' "$1" "$out" "${command[*]}"
        status=1
    fi
}
for ((i = 0; i < most; ++i)); do
    forced=()
    for collective in "${names[@]}"; do
        read -ra list <<< "${rows[$collective]}"
        forced+=("POMONA_${collective^^}=${list[i % ${#list[@]}]}")
    done
    first=$((1 + 3 * i * seeds))
    job "TCP" POMONA_TRANSPORTS=self,tcp -- -n 4
    first=$((first + seeds))
    job "shared memory" -- -n 5
    first=$((first + seeds))
    job "machines of two ranks" -- -n 6 "$root/tests/programs/nodes.sh" 2
done
echo "$((3 * most)) jobs, $checks checks"
exit $status
