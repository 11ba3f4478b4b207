#!/bin/sh
# tests/programs/rdma_abort.sh BUILD: a job over fake RDMA cables (tests/verbs) that ends by
# MPI_Abort.
# Goal: no rank leaves queue pairs, memory or domains in its devices, which some drivers keep until
# the power is switched off: neither who aborts, nor who waits in MPI, nor who computes. Method:
# errors_abort_busy on three "machines"; the devices tell what the dead have left.
if [ -z "$fabric" ]; then
    exec "$(dirname "$0")/rdma.sh" "$1" 3 1 "$0" "$@"
fi
here=$(dirname "$0")
"$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/errors_abort_busy.c" -o "$fabric/program" || exit 1
for run in 1 2 3; do
    # shellcheck disable=SC2086
    timeout 60 "$build/bin/mpirun" --oversubscribe -n 3 $through "$fabric/program" > "$fabric/out" 2>&1
    code=$?
    left=$("$build/tests/fake_verbs" "$fabric" left)
    if [ $code != 7 ] || [ "$left" != 0 ]; then
        echo "run $run: exit code $code (7 is right), $left left in devices"
        cat "$fabric/out"
        exit 1
    fi
done
