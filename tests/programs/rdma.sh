#!/bin/sh
# tests/programs/rdma.sh BUILD MACHINES PER COMMAND...: runs COMMAND where each two of MACHINES
# "machines" are joined by a fake RDMA cable (tests/verbs), with $fabric, a folder of them, and
# $through, what starts a rank, in its environment; PER ranks on each machine. RDMA_SHAPE=chain:
# only neighbours are joined, ring: and the ends, star: each with the first, gap: all but the first
# two; all others use TCP. RDMA_CABLES: so many between each two (1). RDMA_FAULTS: more lines of
# what there is. A command that passes has failed where hardly anything went by the cables, less
# than RDMA_LEAST (100) messages: all of these would pass by TCP as well; and where something was
# destroyed before what stood on it.
build=$1 machines=$2 per=$3
shift 3
fabric=$(mktemp -d "${TMPDIR:-/tmp}/pomona-rdma-XXXXXX")
trap 'rm -rf "$fabric"' EXIT
a=0
while [ $a -lt "$machines" ]; do
    b=$((a + 1))
    while [ $b -lt "$machines" ]; do
        joined=0
        case $RDMA_SHAPE in
        chain | ring) [ $((b - a)) != 1 ] || joined=1 ;;
        star) [ $a != 0 ] || joined=1 ;;
        gap) [ $((a + b)) = 1 ] || joined=1 ;;
        *) joined=1 ;;
        esac
        [ "$RDMA_SHAPE" != ring ] || [ $((b - a + 1)) != "$machines" ] || joined=1
        cable=$((joined * ${RDMA_CABLES:-1}))
        while [ $cable -gt 0 ]; do
            further=$([ $cable = 1 ] || echo "_$cable")
            echo "cable $a rdma_en$b$further $b rdma_en$a$further" >> "$fabric/cables"
            cable=$((cable - 1))
        done
        b=$((b + 1))
    done
    a=$((a + 1))
done
[ -z "$RDMA_FAULTS" ] || echo "$RDMA_FAULTS" >> "$fabric/cables"
POMONA_VERBS=$(ls "$build"/tests/libpomona_fake_verbs.*)
POMONA_TEST_FABRIC=$fabric
through="$(dirname "$0")/machine.sh $per"
export build fabric through POMONA_VERBS POMONA_TEST_FABRIC
"$@" || exit
counts=$("$build"/tests/fake_verbs "$fabric" counts)
messages=$(echo "$counts" | awk '{ sum += $4 } END { print sum }')
[ "${messages:-0}" -ge "${RDMA_LEAST:-100}" ] || { echo "rdma.sh: only ${messages:-no} messages went by RDMA"; exit 1; }
if echo "$counts" | grep -v ' too_early 0 '; then
    echo "rdma.sh: something was destroyed before what stood on it"
    exit 1
fi
