// tests/cross/mixed_who.c: two ranks of different processors: each says which; int, double and 8-byte integers
// arrive exactly, and long double, whose formats differ, is refused by name and not converted.
#include <mpi.h>

#include <stdio.h>
#include <string.h>

#if defined(__aarch64__)
static const int arm = 1;
#else
static const int arm = 0;
#endif

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank, both[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allgather(&arm, 1, MPI_INT, both, 1, MPI_INT, MPI_COMM_WORLD);
    double tenth = rank ? 0 : 0.1;
    MPI_Bcast(&tenth, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    long long much = rank ? 0 : 0x123456789abcdef0;
    MPI_Bcast(&much, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    long double value = 1, sum = 0;
    char words[MPI_MAX_ERROR_STRING] = "";
    int length, code = MPI_Allreduce(&value, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) MPI_Error_string(code, words, &length);
    int good = both[0] == 0 && both[1] == 1 && tenth == 0.1 && much == 0x123456789abcdef0 &&
               code != MPI_SUCCESS;
    printf("rank %d of %s: %s; long double: %s\n", rank, arm ? "Arm" : "x86-64", good ? "good" : "BAD", words);
    fflush(stdout);
    MPI_Finalize();
    return !good;
}
