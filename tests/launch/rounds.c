/* tests/launch/rounds.c: sums over all ranks until something ends it, for test_hosts.py. Says its
 * process number after some rounds; when a sum fails and errors return (argument "return"), says
 * which error and goes on. Argument "once": one sum; "usr1": SIGUSR1 makes it exit with code 3;
 * "ping": instead of sums one message goes to and fro between ranks 0 and 1. */
#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void leave(int signal) {
    (void)signal;
    _exit(3);
}

static void ping(int rank) {
    int round, data = 0;
    for (round = 0; rank < 2; ++round) {
        if (rank == round % 2) MPI_Send(&data, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD);
        else MPI_Recv(&data, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (round == 20) printf("%d\n", (int)getpid()), fflush(stdout);
    }
    printf("%d\n", (int)getpid());
    fflush(stdout);
}

int main(int count, char** words) {
    int rank, size, round, code = 0, once = count > 1 && strcmp(words[1], "once") == 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count > 1 && strcmp(words[1], "return") == 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (count > 1 && strcmp(words[1], "usr1") == 0) signal(SIGUSR1, leave);
    if (count > 1 && strcmp(words[1], "ping") == 0) ping(rank);
    for (round = 0; code == 0; ++round) {
        double mine[1000], sum[1000];
        int i;
        for (i = 0; i < 1000; ++i) mine[i] = rank + i;
        code = MPI_Allreduce(mine, sum, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (i = 0; code == 0 && i < 1000; ++i)
            if (sum[i] != size * (size - 1) / 2 + (double)size * i) MPI_Abort(MPI_COMM_WORLD, 9);
        if (once && code == 0) return MPI_Finalize();
        if (round == 20) printf("%d\n", (int)getpid()), fflush(stdout);
    }
    MPI_Error_class(code, &code);
    printf("rank %d: %s\n", rank,
           code == MPIX_ERR_PROC_FAILED ? "a process has failed" : "another error");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
