#!/bin/sh
# tests/programs/rdma_shapes.sh BUILD [SHAPE:MACHINES...]: collectives over RDMA cables that do not
# join each two machines: a chain, a ring, a star, a mesh with a gap. tests/slow.sh has more of
# them.
# Goal: they are right whatever is joined, by the algorithms that are chosen (up to five machines)
# and by trees of the cables, and each end of each cable sends something. Method: a rank on each of
# 3 to 8 "machines" with fake RDMA cables (tests/verbs), which count what each end sends; the cables
# are described by the parameter `links`, since addresses do not tell here.
here=$(dirname "$0")
if [ -z "$fabric" ]; then
    build=$1
    shift
    [ $# -gt 0 ] || set -- chain:3 ring:4 star:5 gap:4 chain:8
    programs=$(mktemp -d "${TMPDIR:-/tmp}/pomona-shapes-XXXXXX")
    trap 'rm -rf "$programs"' EXIT
    export programs
    for program in coll_all coll_property; do
        "$build/bin/mpicc" -O1 -D_GNU_SOURCE -I "$here" "$here/$program.c" -o "$programs/$program" -lm -pthread || exit 1
    done
    failed=0
    for each in "$@"; do
        RDMA_SHAPE=${each%:*} "$here/rdma.sh" "$build" "${each#*:}" 1 "$0" "$build" || failed=1
    done
    exit $failed
fi

machines=$(awk '/^cable/ { if ($2 > most) most = $2; if ($4 > most) most = $4 } END { print most + 1 }' "$fabric/cables")
links=$(awk '/^cable/ { printf "%s%s-%s=15000:2500:0.11:cable", (NR > 1 ? "," : ""), $2, $4 }' "$fabric/cables")
run() {
    # shellcheck disable=SC2086
    timeout 60 "$build/bin/mpirun" --oversubscribe -n "$machines" --set "links=$links" "$@" $through \
        "$programs/$program" > "$fabric/out" 2>&1
    code=$?
    [ $code = 0 ] || { echo "$RDMA_SHAPE of $machines: $program $*: exit code $code"; tail -n 30 "$fabric/out"; exit 1; }
}
program=coll_all
[ "$machines" -gt 5 ] || run
program=coll_property
export POMONA_LOG=warn,coll=debug
run --set bcast=cables --set reduce=cables --set allreduce=cables --set allgather=cables \
    --set reduce_scatter=cables --set alltoall=cables
for what in bcast reduce allreduce allgather reduce_scatter alltoall; do
    grep -q "$what of [0-9]* bytes on .* goes by cables" "$fabric/out" ||
        { echo "$RDMA_SHAPE of $machines: $what does not go by trees of the cables"; exit 1; }
done
idle=$("$build/tests/fake_verbs" "$fabric" counts | awk '$4 < 10')
[ -z "$idle" ] || { echo "$RDMA_SHAPE of $machines: hardly used: $idle"; exit 1; }
