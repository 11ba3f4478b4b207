#!/bin/sh
# tests/programs/little_memory.sh BUILD: jobs whose /dev/shm is small, as containers' are.
# Goal: where shared memory runs out, an error that says so at every size; never SIGBUS, never a
# hang.
# Method: a mount namespace with a /dev/shm of each size (Linux, root; else skipped, code 77).
bin=$1/bin
unshare -m mount -t tmpfs -o size=64k none /dev/shm 2>/dev/null || exit 77
failed=0
# Pages that a rank takes as it begins, one after the other: each may be the one that is not there.
for size in 8k 12k 16k 20k 24k 28k 32k 36k 40k 44k 48k 52k; do
    text=$(timeout 60 unshare -m sh -c 'mount -t tmpfs -o size=$0 none /dev/shm && exec "$@"' $size \
        "$bin/mpirun" --oversubscribe -n 2 "$bin/mpi-bench" barrier -t 0.01 -q 2>&1)
    code=$?
    case $code:$text in
    0:* | 124:* | *signal* | *"no end"*) good= ;;
    *"enlarge /dev/shm"*) good=yes ;;
    *) good= ;;
    esac
    if [ -z "$good" ]; then
        failed=1
        echo "two ranks with $size: code $code: $text"
    fi
done
for size in 8k 8k 8k 32k 128k 384k 1m 3m 6m 64m; do
    text=$(timeout 60 unshare -m sh -c 'mount -t tmpfs -o size=$0 none /dev/shm && exec "$@"' $size \
        "$bin/mpirun" --oversubscribe -n 4 "$bin/mpi-bench" alltoall allreduce bcast -s 4:256K --step 8 -t 0.01 -q 2>&1)
    code=$?
    case $code:$size in
    0:8k | 0:32k) good= ;;  # not even the rings' heads fit
    0:*) good=yes ;;
    124:* | *:64m) good= ;;
    *) case $text in *signal* | *"no end"*) good= ;; *"enlarge /dev/shm"*) good=yes ;; *) good= ;; esac ;;
    esac
    # Nobody has ended.
    if printf '%s\n' "$text" | grep 'enlarge /dev/shm' | grep -q PROC_FAILED; then good=; fi
    if [ -z "$good" ]; then
        failed=1
        echo "with $size: code $code: $text"
    fi
done
exit $failed
