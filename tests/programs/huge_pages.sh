#!/bin/sh
# tests/programs/huge_pages.sh BUILD: the parameter shm_huge_pages.
# Goal: shared memory gets huge pages where they are asked for and the system may give them, and
# none unasked.
# Method: a mount namespace whose /dev/shm may have them (Linux, root; else skipped, code 77); what
# the kernel counts, given or tried, before and after a job whose results are checked.
bin=$1/bin
unshare -m mount -t tmpfs -o huge=advise none /dev/shm 2>/dev/null || exit 77
pages() {
    awk '/^thp_file_(alloc|fallback) /{sum += $2; found = 1} END{if (!found) exit 1; print sum}' /proc/vmstat
}
pages > /dev/null || exit 77
failed=0
for asked in 1 0; do
    before=$(pages)
    POMONA_SHM_HUGE_PAGES=$asked timeout 60 unshare -m sh -c 'mount -t tmpfs -o huge=advise none /dev/shm && exec "$@"' sh \
        "$bin/mpirun" --oversubscribe -n 3 "$bin/mpi-bench" bandwidth allreduce -s 4:1M --step 64 -t 0.01 -q || failed=1
    got=$(($(pages) - before))
    echo "asked: $asked, huge pages: $got"
    if [ $asked = 1 ] && [ $got = 0 ]; then failed=1; fi
    if [ $asked = 0 ] && [ $got != 0 ]; then failed=1; fi
done
exit $failed
