/* tests/cross/mixed_types.c: two ranks of different processors: x86-64 the first, Arm the second.
 * int, double and integers of 8 bytes arrive exactly. Types whose formats differ, and one that
 * holds such a type, are refused by name in messages and in every collective, at both ranks.
 */
#include <mpi.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static int rank, failures;

static void check(int good, const char* what, const char* words) {
    if (good) return;
    ++failures;
    printf("rank %d: %s: %s\n", rank, what, words);
}

/* Is it refused, with the type's name in the sentence? */
static void refused(int code, const char* call, const char* type) {
    char text[MPI_MAX_ERROR_STRING] = "it was not refused", what[100];
    int length, class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class), MPI_Error_string(code, text, &length);
    snprintf(what, sizeof what, "%s of %s", call, type);
    check(class == MPI_ERR_TYPE && strstr(text, type) && strstr(text, "rank 0") &&
              strstr(text, "rank 1"),
          what, text);
}

static void every_call(MPI_Datatype type, MPI_Op op, const char* name) {
    static char in[256], out[256];
    int peer = 1 - rank;
    MPI_Comm all = MPI_COMM_WORLD;
    if (rank == 0) {
        refused(MPI_Send(in, 1, type, peer, 0, all), "MPI_Send", name);
        refused(MPI_Recv(out, 1, type, peer, 0, all, MPI_STATUS_IGNORE), "MPI_Recv", name);
    } else {
        refused(MPI_Recv(out, 1, type, peer, 0, all, MPI_STATUS_IGNORE), "MPI_Recv", name);
        refused(MPI_Send(in, 1, type, peer, 0, all), "MPI_Send", name);
    }
    refused(MPI_Bcast(in, 1, type, 0, all), "MPI_Bcast", name);
    refused(MPI_Gather(in, 1, type, out, 1, type, 0, all), "MPI_Gather", name);
    refused(MPI_Scatter(in, 1, type, out, 1, type, 0, all), "MPI_Scatter", name);
    refused(MPI_Allgather(in, 1, type, out, 1, type, all), "MPI_Allgather", name);
    refused(MPI_Alltoall(in, 1, type, out, 1, type, all), "MPI_Alltoall", name);
    if (op == MPI_OP_NULL) return;
    refused(MPI_Reduce(in, out, 1, type, op, 0, all), "MPI_Reduce", name);
    refused(MPI_Allreduce(in, out, 1, type, op, all), "MPI_Allreduce", name);
    refused(MPI_Reduce_scatter_block(in, out, 1, type, op, all), "MPI_Reduce_scatter_block", name);
    refused(MPI_Scan(in, out, 1, type, op, all), "MPI_Scan", name);
    refused(MPI_Exscan(in, out, 1, type, op, all), "MPI_Exscan", name);
}

struct pair {
    int number;
    long double real;
};

int main(int argc, char** argv) {
#if defined(__aarch64__)
    const int arm = 1;
#else
    const int arm = 0;
#endif
    int kinds[2], lengths[2] = {1, 1};
    double tenth = 0.1, got = 0;
    long long much = 0x123456789abcdef0, more = 0;
    MPI_Aint places[2] = {offsetof(struct pair, number), offsetof(struct pair, real)};
    MPI_Datatype types[2] = {MPI_INT, MPI_LONG_DOUBLE}, pair;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allgather(&arm, 1, MPI_INT, kinds, 1, MPI_INT, MPI_COMM_WORLD);
    check(kinds[0] == 0 && kinds[1] == 1, "processors", "they are not x86-64 and Arm");
    if (rank == 0) got = tenth, more = much;
    MPI_Bcast(&got, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&more, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    check(got == tenth && more == much, "numbers",
          "a double or a long long did not arrive as it was sent");
    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    every_call(MPI_LONG_DOUBLE, MPI_SUM, "MPI_LONG_DOUBLE");
    every_call(MPI_C_LONG_DOUBLE_COMPLEX, MPI_SUM, "MPI_C_LONG_DOUBLE_COMPLEX");
    every_call(MPI_LONG_DOUBLE_INT, MPI_MAXLOC, "MPI_LONG_DOUBLE_INT");
    every_call(MPI_WCHAR, MPI_OP_NULL, "MPI_WCHAR");
    every_call(pair, MPI_OP_NULL, "MPI_LONG_DOUBLE");
    if (failures == 0) printf("rank %d of %s: good\n", rank, arm ? "Arm" : "x86-64");
    fflush(stdout);
    MPI_Finalize();
    return failures != 0;
}
