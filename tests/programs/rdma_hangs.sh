#!/bin/sh
# tests/programs/rdma_hangs.sh BUILD: jobs over a fake RDMA cable (tests/verbs) whose driver does
# not return from a call.
# Goal: whether it hangs when a job starts, when ranks are joined or when they end, the job ends as
# it should, and its user is told once which device and which call that was; `pomona doctor` and
# `pomona links` tell it too. Method: p2p_order on two "machines", and a device that hangs on one of
# them.
if [ -z "$fabric" ]; then
    RDMA_LEAST=1 exec "$(dirname "$0")/rdma.sh" "$1" 2 1 "$0" "$@"
fi
here=$(dirname "$0")
fail() {
    echo "$1"
    cat "$fabric/out"
    exit 1
}
"$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/p2p_order.c" -o "$fabric/program" || exit 1
for call in ibv_get_device_list ibv_open_device ibv_create_qp ibv_modify_qp ibv_destroy_qp ibv_dereg_mr; do
    # On a busy machine a job may be over by TCP before its ranks come to the call.
    for attempt in 1 2 3; do
        "$build/tests/fake_verbs" "$fabric" hang 1 '*' $call
        # shellcheck disable=SC2086
        timeout 60 "$build/bin/mpirun" --oversubscribe -n 2 $through "$fabric/program" > "$fabric/out" 2>&1
        code=$?
        [ $code = 0 ] || fail "$call: exit code $code"
        told=$(grep -c "has not returned from $call for [0-9]* s" "$fabric/out")
        # A device is given longer to open than this job takes.
        if [ "$told" = 1 ] || [ $call = ibv_open_device ]; then break; fi
        if [ "$told" != 0 ] || [ $attempt = 3 ]; then fail "$call: told $told times"; fi
    done
done
export POMONA_TEST_MACHINE=1
# Both ask the same question.
for tool in doctor:ibv_get_device_list doctor:ibv_open_device doctor:ibv_close_device links:ibv_query_port; do
    call=${tool#*:}
    "$build/tests/fake_verbs" "$fabric" hang 1 '*' "$call"
    timeout 60 "$build/bin/pomona" "${tool%:*}" > "$fabric/out" 2>&1
    code=$?
    [ $code -lt 124 ] || fail "$tool: exit code $code"
    grep -q "has not returned from $call for [0-9]* s" "$fabric/out" || fail "$tool: not told"
done
