#!/bin/sh
# tests/programs/rdma_ends.sh BUILD: jobs over fake RDMA cables (tests/verbs) that end by MPI_Abort,
# and by exit without MPI_Finalize.
# Goal: no rank leaves queue pairs, memory or domains in its devices, which some drivers keep until
# the power is switched off: neither who ends the job, nor who waits in MPI, nor who computes.
# Method: errors_abort_busy and errors_exit on three "machines"; the devices tell what the dead have
# left.
if [ -z "$fabric" ]; then
    exec "$(dirname "$0")/rdma.sh" "$1" 3 1 "$0" "$@"
fi
here=$(dirname "$0")
for each in errors_abort_busy:7 errors_exit:3; do
    program=${each%:*} right=${each#*:}
    "$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/$program.c" -o "$fabric/program" || exit 1
    for run in 1 2 3; do
        # shellcheck disable=SC2086
        timeout 60 "$build/bin/mpirun" --oversubscribe -n 3 $through "$fabric/program" > "$fabric/out" 2>&1
        code=$?
        left=$("$build/tests/fake_verbs" "$fabric" left)
        if [ $code != "$right" ] || [ "$left" != 0 ]; then
            echo "$program, run $run: exit code $code ($right is right), $left left in devices"
            cat "$fabric/out"
            exit 1
        fi
    done
done
