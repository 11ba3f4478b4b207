#!/usr/bin/env bash
# tests/cross/mixed.sh: MPI programs whose ranks are of two processors: some are Arm programs under
# qemu-user, the others this machine's own.
# Every program of tests/programs is compiled twice (mixed_build.sh). Runs them on one machine,
# where both kinds share memory, and over two hosts (namespaces; root only), of which the second is
# the Arm one. On both mixed_types.c looks that both kinds run and that long double and wchar_t,
# whose formats differ, are refused by name. Programs that use these (ops_predefined, ops_pairs) are
# left out; coll_property has all other types. Needs g++-aarch64-linux-gnu, qemu-user, apt and
# network at the first run. 77: skipped.
# Usage: tests/cross/mixed.sh BUILD [FOLDER [PATTERN...]]; PATTERN chooses programs ('coll_*')
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
folder=${2:-$build/mixed}
patterns=("${@:3}")
[ ${#patterns[@]} -gt 0 ] || patterns=('coll_*' 'p2p_*' 'comm_*' 'types_*' ops_layouts ops_user 'rma_*' 'app_*' \
    'topo_*' 'requests_*' group sessions)
. "$root/tests/cross/mixed_build.sh"

run=(python3 "$root/tests/programs/run.py" --mpicc "$folder/bin/mpicc" --mpirun "$build/bin/mpirun --oversubscribe"
    --build "$folder/programs" --timeout-factor 6)
for pattern in "${patterns[@]}"; do run+=(--only "$pattern"); done
status=0
echo "One machine, odd ranks for Arm:"
"${run[@]}" --through "$folder/bin/start_by_rank" || status=1

"$folder/bin/mpicc" -Wall -Werror "$root/tests/cross/mixed_types.c" -o "$folder/mixed_types"
"$build/bin/mpirun" --oversubscribe -n 2 "$folder/bin/start_by_rank" "$folder/mixed_types" || status=1

echo "Two hosts, the second for Arm:"
python3 -B "$root/tests/host_world.py" 2 "$build/bin/mpirun" -n 2 --host HOSTS "$folder/bin/start_by_host" \
    "$folder/mixed_types" || { [ $? != 77 ] || { echo "skipped: needs root"; exit $status; }; status=1; }
"${run[@]}" --through "$folder/bin/start_by_host" --hosts 2 || status=1
exit $status
