#!/bin/sh
# tests/programs/full_memory.sh BUILD: a /dev/shm that fills up while a job runs.
# Goal: the first operation that finds no memory says so at every rank, as MPI_ERR_NO_MEM; nobody
# is said to have failed, nothing hangs or meets SIGBUS; messages name their peer and tag.
# Method: a mount namespace with a small /dev/shm (Linux, root; else skipped, code 77), which rank 0
# fills after MPI_Init; then each operation as the job's first.
bin=$1/bin
unshare -m mount -t tmpfs -o size=64k none /dev/shm 2> /dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/full.c" << 'END'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char page[4096];
static void fill(void) {
    FILE* file = fopen("/dev/shm/fill", "w");
    setvbuf(file, NULL, _IONBF, 0);
    while (fwrite(page, 1, sizeof page, file) == sizeof page) {}
    fclose(file);
}
static void wait_for(const char* name) {
    while (access(name, F_OK) != 0) usleep(1000);
}
int main(int argc, char** argv) {
    int n = atoi(argv[2]), rank, size, error = 0, class = 0, length, i;
    char *a, *b, text[MPI_MAX_ERROR_STRING] = "";
    MPI_Win window;
    MPI_Comm comm;
    MPI_Request request;
    void* memory;
    (void)argc;
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    a = calloc((size_t)(n * size), 1), b = calloc((size_t)(n * size), 1);
    /* Nobody else is in MPI_Init any more. */
    sprintf(text, "/dev/shm/up%d", rank), fclose(fopen(text, "w"));
    for (i = 0; i < size && rank == 0; ++i) sprintf(text, "/dev/shm/up%d", i), wait_for(text);
    text[0] = 0;
    if (rank == 0) fill(), fclose(fopen("/dev/shm/now", "w"));
    wait_for("/dev/shm/now");
    switch (argv[1][0]) {
    case 'a': error = MPI_Allreduce(a, b, n, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD); break;
    case 'b': error = MPI_Bcast(a, n, MPI_CHAR, 0, MPI_COMM_WORLD); break;
    case 't': error = MPI_Alltoall(a, n, MPI_CHAR, b, n, MPI_CHAR, MPI_COMM_WORLD); break;
    case 'g': error = MPI_Gather(a, n, MPI_CHAR, b, n, MPI_CHAR, 0, MPI_COMM_WORLD); break;
    case 'm': error = MPI_Barrier(MPI_COMM_WORLD); break;
    case 'w': error = MPI_Win_allocate(n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window); break;
    case 's': error = MPI_Win_allocate_shared(n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window); break;
    case 'c': error = MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm); break;
    case 'p':
        if (rank == 0) error = MPI_Send(a, n, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        if (rank == 1) error = MPI_Recv(b, n, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 'i':
        if (rank == 0) MPI_Isend(a, n, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
        if (rank == 1) MPI_Irecv(b, n, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
        if (rank < 2) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case 'n':
        MPI_Iallreduce(a, b, n, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD, &request);
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    }
    if (error != MPI_SUCCESS) MPI_Error_class(error, &class), MPI_Error_string(error, text, &length);
    fprintf(stderr, "rank %d: %s%s\n", rank,
            class == MPI_ERR_NO_MEM ? "no memory: " : class == MPI_SUCCESS ? "passed" : "WRONG: ", text);
    MPI_Finalize();
    return 0;
}
END
"$bin/mpicc" "$folder/full.c" -o "$folder/full" || exit 1
failed=0
for what in a b t g m w s c p i n; do
    for bytes in 64 200000; do
        text=$(timeout 60 unshare -m sh -c 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"' sh \
            "$bin/mpirun" --oversubscribe -n 3 "$folder/full" $what $bytes 2>&1)
        code=$?
        said=$(printf '%s\n' "$text" | grep -c '^rank .: no memory: .*enlarge /dev/shm')
        if [ $code != 0 ] || [ "$said" = 0 ] || printf '%s\n' "$text" | grep -q 'WRONG\|ended)\|signal\|PROC_FAILED\|peer -\|tag -' ||
            { [ $what = p ] || [ $what = i ]; } && ! printf '%s\n' "$text" | grep -q '(rank 0, peer 1, tag 7)'; then
            failed=1
            echo "$what, $bytes bytes: $text"
        fi
    done
done
exit $failed
