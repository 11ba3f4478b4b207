// faulty_allreduce.cc: an MPI_Allreduce that spoils element 17 on rank 1, through the profiling
// interface. Linked into a copy of mpi-bench, whose verification must find and name it.
#include "../bench_mpi.h"

#if defined(__GNUC__)
#define EXPORTED __attribute__((visibility("default")))
#else
#define EXPORTED
#endif

extern "C" EXPORTED int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type,
                                      MPI_Op op, MPI_Comm comm) {
    int code = PMPI_Allreduce(send, receive, count, type, op, comm), rank = 0;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 1 && count > 17 && type == MPI_FLOAT) static_cast<float*>(receive)[17] += 1;
    return code;
}
