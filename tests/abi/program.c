/* program.c: runs on any library of the standard ABI, whatever it was linked against.
 * Goal: a binary linked against another library (stub.c) works with ours. Method: calls of several
 * kinds, among them values returned through memory, callbacks and a large-count form; the exit code
 * is 2 under the stub, which shows that this test can fail. */
#include "mpi.h"

#include <stdio.h>
#include <string.h>

static int calls = 0;
static void handler(MPI_Comm* comm, int* code, ...)
{
    (void)comm;
    if (*code == MPI_ERR_RANK) ++calls;
}

int main(int argc, char** argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, size = -1, flag = 0, sent = 42, received = 0, count = 0;
    MPI_Count bytes = 0;
    MPI_Errhandler errhandler;
    MPI_Status status;
    MPI_Request request;
    MPI_Info info;
    char value[16] = "";

    MPI_Get_library_version(version, &length);
    if (strcmp(version, "stub") == 0) return puts("Running with the stub library"), 2;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
    MPI_Comm_size(MPI_COMM_SELF, &size);
    MPI_Irecv(&received, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &request);
    MPI_Send(&sent, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Type_size_c(MPI_DOUBLE, &bytes);
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "green");
    MPI_Info_get(info, "colour", 15, value, &flag);
    MPI_Info_free(&info);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, errhandler);
    MPI_Errhandler_free(&errhandler);
    MPI_Send(&sent, 1, MPI_INT, 99, 0, MPI_COMM_SELF);
    MPI_Finalize();
    printf("%s: size %d, received %d of tag %d, count %d, %d bytes, \"%s\", %d errors\n", version,
           size, received, status.MPI_TAG, count, (int)bytes, value, calls);
    return !(size == 1 && received == 42 && status.MPI_SOURCE == 0 && status.MPI_TAG == 7 &&
             count == 1 && bytes == 8 && flag && strcmp(value, "green") == 0 && calls == 1 &&
             request == MPI_REQUEST_NULL && info == MPI_INFO_NULL);
}
