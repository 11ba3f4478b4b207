#!/bin/sh
# tests/torch/two_hosts.sh BUILD PYTHON: torchrun on two hosts, two processes on each.
# Goal: ranks of several machines meet by torch's store, share memory where they can and go by the
# cable else. Method: two network namespaces with host names of their own, joined by a virtual
# cable; ranks_start.py trains and checks sums. Linux, root; else skipped, code 77.
build=$1 python=$2
. "$(dirname "$0")/../programs/hosts.sh"
{ make_hosts && make_cable 1 && give $a 1 10.213.31.1/24 && give $b 1 10.213.31.2/24; } \
    2> /dev/null || exit 77
unshare -u true 2> /dev/null || exit 77
export PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
export POMONA_IF_INCLUDE=10.213.0.0/16

# One host's part: its namespace, name and number.
start() {
    ip netns exec "$1" unshare -u sh -c 'hostname "$0" && shift 0 && exec "$@"' "$2" timeout 150 \
        "$python" -m torch.distributed.run --nnodes 2 --node-rank "$3" --nproc-per-node 2 \
        --master-addr 10.213.31.1 --master-port 29533 "$here/ranks_start.py" mpi train
}
start $a hosta 0 > "$folder/out.a" 2>&1 &
first=$!
start $b hostb 1 > "$folder/out.b" 2>&1 || failed=1
wait $first || failed=1
cat "$folder/out.a" "$folder/out.b" > "$folder/out"
[ "$(grep -o 'of 4, 2 on this machine: all passed' "$folder/out" | wc -l)" = 4 ] || failed=1
[ "$(bytes $a 1)" -gt 100000 ] || failed=1
[ $failed = 0 ] || fault "torchrun on two hosts: $(bytes $a 1) bytes left the first by the cable"
exit $failed
