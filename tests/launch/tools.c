/* tools.c: what tests of debuggers, of valgrind and of the queues run.
 *   tools            messages and collectives, without a mistake
 *   tools crash      rank 1 writes to address 8
 *   tools code N     ends with this code
 *   tools nest       rank 0 starts a program that calls MPI_Init, too
 *   tools queues GO  rank 0 waits with messages in all its queues, rank 2 computes outside MPI, until the file
 *                    GO is there */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

static void write_to(int* where) { *where = 1; }

static void good(void) {
    int n = 100000, next = (rank + 1) % size, last = (rank + size - 1) % size, sum = 0;
    char *out = calloc(1, n), *in = calloc(1, n);
    MPI_Comm half, other, both;
    MPI_Request requests[2];
    MPI_Datatype pairs;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Type_vector(10, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    for (int bytes = 1; bytes <= n; bytes *= 10) {
        MPI_Irecv(in, bytes, MPI_CHAR, last, 1, MPI_COMM_WORLD, requests);
        MPI_Isend(out, bytes, MPI_CHAR, next, 1, MPI_COMM_WORLD, requests + 1);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Sendrecv(out, 1, pairs, next, 2, in, 1, pairs, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(in, n, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Allgather(&sum, 1, MPI_INT, in, 1, MPI_INT, half);
    if (size > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 3, &other);
        MPI_Intercomm_merge(other, rank % 2, &both);
        MPI_Barrier(both);
        MPI_Comm_free(&both);
        MPI_Comm_free(&other);
    }
    MPI_Type_free(&pairs);
    MPI_Comm_free(&half);
    free(out), free(in);
    printf("sum %d\n", sum);
}

static void wait_for(const char* go) {
    while (access(go, F_OK) != 0) usleep(10000);
}

static void queues(const char* go) {
    static char small[64], large[1 << 20];
    MPI_Comm named;
    MPI_Request requests[4];
    char byte = 0; /* synchronous: it is here and not received */
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "named");
    if (rank == 0) {
        MPI_Irecv(small, 40, MPI_CHAR, 1, 11, MPI_COMM_WORLD, requests);
        MPI_Irecv(small, 41, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, named, requests + 1);
        MPI_Isend(large, sizeof large, MPI_CHAR, 1, 13, named, requests + 2);
        MPI_Issend(&byte, 1, MPI_CHAR, 1, 14, MPI_COMM_WORLD, requests + 3);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("%d\n", (int)getpid());
        fflush(stdout);
        MPI_Recv(small, 1, MPI_CHAR, 1, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(large, 12, MPI_CHAR, 1, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Send(small, 12, MPI_CHAR, 0, 12, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        wait_for(go);
        MPI_Send(small, 1, MPI_CHAR, 0, 15, MPI_COMM_WORLD);
        MPI_Send(small, 1, MPI_CHAR, 0, 11, MPI_COMM_WORLD);
        MPI_Send(small, 1, MPI_CHAR, 0, 16, named);
        MPI_Recv(large, sizeof large, MPI_CHAR, 0, 13, named, MPI_STATUS_IGNORE);
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        wait_for(go);
    }
    MPI_Comm_free(&named);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char* what = argc > 1 ? argv[1] : "good";
    if (strcmp(what, "crash") == 0 && rank == 1) write_to((int*)8);
    if (strcmp(what, "nest") == 0 && rank == 0) printf("nested: %d\n", WEXITSTATUS(system(argv[0])));
    if (strcmp(what, "good") == 0 || strcmp(what, "nest") == 0) good();
    if (strcmp(what, "queues") == 0) queues(argv[2]);
    MPI_Finalize();
    return strcmp(what, "code") == 0 ? atoi(argv[2]) : 0;
}
