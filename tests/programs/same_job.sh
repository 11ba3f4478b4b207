#!/bin/sh
# tests/programs/same_job.sh BUILD: what ranks of one job prove to each other.
# Goal: ranks that were set differently end with a sentence that names both values and where each
# came from, instead of waiting for ever; a job within one machine's memory does not load libcrypto,
# one that uses TCP does (Linux). Method: programs that MPI_Init themselves, one of them with a
# variable of its own.
bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fault() {
    failed=1
    echo "$*"
    cat "$folder/out"
}

cat > "$folder/loads.c" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int sum = 0, one = 1, rank, size;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char line[4096];
    int loaded = 0;
    FILE* maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) loaded |= strstr(line, "libcrypto") != NULL;
    if (rank == 0) printf("sum %d of %d, libcrypto %s\n", sum, size, loaded ? "loaded" : "not loaded");
    MPI_Finalize();
    return 0;
}
END
"$bin/mpicc" "$folder/loads.c" -o "$folder/loads" || exit 1

run() { timeout 60 "$bin/mpirun" "$@" > "$folder/out" 2>&1; }

run -n 2 "$folder/loads" || fault "shared memory: exit code $?"
grep -q "sum 2 of 2, libcrypto not loaded" "$folder/out" || fault "shared memory: not as it should be"
run -n 3 --set transports=self,tcp "$folder/loads" || fault "TCP: exit code $?"
grep -q "sum 3 of 3" "$folder/out" || fault "TCP: not as it should be"
if [ -r /proc/self/maps ]; then
    grep -q "libcrypto loaded" "$folder/out" || fault "TCP: libcrypto is not there"
fi

for transports in self,shm self,tcp; do
    run -n 1 --set transports=$transports "$folder/loads" : -n 1 env POMONA_BCAST=linear "$folder/loads"
    code=$?
    [ $code != 0 ] && [ $code != 124 ] || fault "ranks set differently, $transports: exit code $code"
    grep -q "rank 0 has bcast = auto (built-in)" "$folder/out" &&
        grep -q "rank 1 has bcast = linear (POMONA_BCAST)" "$folder/out" ||
        fault "ranks set differently, $transports: the values are not named"
done
# Their rings stand elsewhere in memory that they share.
run -n 1 "$folder/loads" : -n 1 env POMONA_SHM_RING_SLOTS=64 "$folder/loads"
grep -q "rank 1 has shm_ring_slots = 64" "$folder/out" || fault "rings set differently: the values are not named"

echo bcast=ring > "$folder/conf"
POMONA_CONFIG=$folder/conf run -n 1 --set transports=self,tcp "$folder/loads" : \
    -n 1 env POMONA_BCAST=linear "$folder/loads"
grep -q "rank 0 has bcast = ring ($folder/conf:1)" "$folder/out" &&
    grep -q "rank 1 has bcast = linear (POMONA_BCAST)" "$folder/out" ||
    fault "ranks set differently: the file and its line are not named"
exit $failed
