/* tests/launch/unlike_check.h: what unlike.c and unlike_hosts.c have in common: a rank that finds
 * something wrong says where, and ends the job. */
#include <mpi.h>
#include <stdio.h>

static int rank;

#define CHECK(good)                                                                                \
    do {                                                                                           \
        if (!(good)) {                                                                             \
            printf("rank %d, line %d: " #good "\n", rank, __LINE__);                               \
            fflush(stdout);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)
