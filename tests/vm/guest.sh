#!/usr/bin/env bash
# tests/vm/guest.sh BUILD PROGRAM:RANKS:TYPE...: in the guest, for rxe.sh.
build=$1
shift
here=$(dirname "$0")
packets() { cat /sys/class/infiniband/*/ports/1/hw_counters/sent_pkts | awk '{ sum += $1 } END { print sum }'; }
failed=0
for each; do
    IFS=: read -r name ranks type <<< "$each"
    before=$(packets) begin=$SECONDS
    # Three ranks on two emulated processors need 40 s for p2p_modes, 105 where others use the
    # host's, too: the limit is for what stands still. Then mpirun says what each rank waits for.
    POMONA_LOG=warn,btl=info "$build/bin/mpirun" --timeout "${RANK_SECONDS:-200}" --oversubscribe -n "$ranks" \
        --set transports=self,rdma,tcp --set "rdma_queue_pairs=$type" \
        "$here/../programs/nodes.sh" 1 "/tmp/shared/$name" > /tmp/out 2>&1
    code=$?
    sent=$(($(packets) - before))
    [ "$type" = rc ] && words='is reached by rdma.*, reliable' || words='is reached by rdma'
    paths=$(grep -c "$words" /tmp/out)
    echo "$each: exit code $code, $paths ends of paths, $sent packets, $((SECONDS - begin)) s"
    # Each two ranks, by each cable, at both ends.
    if [ $code != 0 ] || [ "$paths" -lt $((ranks * (ranks - 1))) ] || [ $sent -lt 1000 ]; then
        failed=1
        tail -n 30 /tmp/out
    fi
done
exit $failed
