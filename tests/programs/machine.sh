#!/bin/sh
# tests/programs/machine.sh RANKS PROGRAM [ARGS...]: a rank of our mpirun that believes in several
# machines, each of RANKS ranks (nodes.sh), and sees the fake RDMA devices of its own (tests/verbs).
# For run.py --through.
POMONA_TEST_MACHINE=$((POMONA_JOB_RANK / $1))
export POMONA_TEST_MACHINE
exec "$(dirname "$0")/nodes.sh" "$@"
