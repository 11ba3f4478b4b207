#!/usr/bin/env bash
# tests/vm/guest_pair.sh BUILD LOSS PROGRAM:TYPE...: in the first of two guests, for pair.sh.
build=$1 loss=$2
shift 2
here=$(dirname "$0")
tc qdisc add dev en2 root netem loss "$loss%"
until busybox nc -w 1 169.254.2.2 7000 < /dev/null > /dev/null 2>&1; do sleep 0.5; done
lost() { tc -s qdisc show dev en2 | sed -n 's/.*dropped \([0-9]*\).*/\1/p'; }
failed=0
for each; do
    IFS=: read -r name type <<< "$each"
    before=$(lost) begin=$SECONDS
    POMONA_LOG=warn,btl=info timeout 300 "$build/bin/mpirun" --host vm1,vm2 -n 2 --ssh "$here/far.sh" \
        --set "rdma_queue_pairs=$type" "/tmp/shared/$name" > /tmp/out 2>&1
    code=$?
    paths=$(grep -c 'is reached by rdma' /tmp/out)
    echo "$each: exit code $code, $paths ends of paths, $(($(lost) - before)) packets lost here, $((SECONDS - begin)) s"
    if [ $code != 0 ] || [ "$paths" -lt 2 ]; then
        failed=1
        tail -n 30 /tmp/out
    fi
done
exit $failed
