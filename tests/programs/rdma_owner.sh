#!/bin/sh
# tests/programs/rdma_owner.sh BUILD: more ranks on each of two "machines" than queue pairs
# suffice for.
# Goal: those without any use another rank's, whose owner hands on what they send, and no device is
# asked for more than it has. Method: p2p_owner, which looks at a counter, over a fake RDMA cable
# (tests/verbs), which counts refusals.
if [ -z "$fabric" ]; then
    exec "$(dirname "$0")/rdma.sh" "$1" 2 8 "$0" "$@"
fi
RDMA_OWNER=1
export RDMA_OWNER
exec "$(dirname "$0")/rdma_many.sh" "$1" p2p_owner.c
