/* tests/launch/link_paths.c: MPIX_Link_paths says how another process is reached, in as many bytes
 * as there is room for, and refuses ranks that are not there; for test_hosts.py. Rank 0 prints what
 * it is told. */
#include <mpix.h>
#include <stdio.h>
#include <string.h>

#define CHECK(what) \
    if (!(what)) printf("line %d: %s\n", __LINE__, #what), fflush(stdout), MPI_Abort(MPI_COMM_WORLD, 9)

int main(int argc, char** argv) {
    int rank, size, word = 1, whole, length;
    char text[4096], part[5];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Sendrecv_replace(&word, 1, MPI_INT, (rank + 1) % size, 0, (rank + size - 1) % size, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    length = 0;
    CHECK(MPIX_Link_paths(MPI_COMM_WORLD, (rank + 1) % size, NULL, &length) == MPI_SUCCESS);
    CHECK(length > 1);
    length = sizeof text;
    CHECK(MPIX_Link_paths(MPI_COMM_WORLD, (rank + 1) % size, text, &length) == MPI_SUCCESS);
    whole = length;
    CHECK((int)strlen(text) + 1 == whole && text[whole - 2] == '\n');
    length = sizeof part;
    CHECK(MPIX_Link_paths(MPI_COMM_WORLD, (rank + 1) % size, part, &length) == MPI_SUCCESS);
    CHECK(length > (int)sizeof part && strlen(part) == 4 && strncmp(part, text, 4) == 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPIX_Link_paths(MPI_COMM_WORLD, size, text, &length) != MPI_SUCCESS);
    CHECK(MPIX_Link_paths(MPI_COMM_WORLD, -1, text, &length) != MPI_SUCCESS);
    CHECK(MPIX_Link_paths(MPI_COMM_WORLD, 0, text, NULL) != MPI_SUCCESS);
    if (rank == 0) fputs(text, stdout);
    MPI_Finalize();
    return 0;
}
