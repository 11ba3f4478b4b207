#!/bin/sh
# tests/programs/nodes.sh RANKS PROGRAM [ARGS...]: a rank of our mpirun that believes in several
# machines, each of RANKS ranks: those of another "machine" it reaches by TCP alone. For run.py
# --through.
per=$1
shift
first=0
node=0
nodes=
while [ "$first" -lt "$POMONA_JOB_SIZE" ]; do
    count=$((POMONA_JOB_SIZE - first))
    [ "$count" -gt "$per" ] && count=$per
    nodes="$nodes${nodes:+,}${node}x$count"
    first=$((first + count))
    node=$((node + 1))
done
POMONA_JOB_NODES=$nodes
export POMONA_JOB_NODES
exec "$@"
