#!/bin/sh
# tests/launch/pmpi.sh BUILD: a profiling library in C, loaded before MPI and linked before it, sees
# each call of a program once, and calls what it stands for by its PMPI_ name; a program calls PMPI_
# names past it. For Fortran: tests/fortran/profiling.sh.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > tool.c << 'END'
#include <mpi.h>
#include <stdio.h>
static int sends, bytes, reductions;
int MPI_Send(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    int size;
    PMPI_Type_size(type, &size);
    ++sends, bytes += count * size;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}
int MPI_Send_c(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    ++sends;
    return PMPI_Send_c(buf, count, type, dest, tag, comm);
}
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    ++reductions;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("%d sends, %d bytes, %d reductions\n", sends, bytes, reductions);
    return PMPI_Finalize();
}
END
cat > program.c << 'END'
#include <mpi.h>
int main(int argc, char** argv) {
    int rank, n[4] = {1, 2, 3, 4}, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) MPI_Send(n, 4, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Send_c(n, 4, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 0) PMPI_Send(n, 4, MPI_INT, 1, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && i < 3; ++i) MPI_Recv(n, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(n, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
END
"$build/bin/mpicc" -shared -fPIC tool.c -o libtool.so
"$build/bin/mpicc" program.c -o program
check() {
    [ "$1" = "2 sends, 16 bytes, 1 reductions" ] || { echo "the tool says: $1"; exit 1; }
}
if [ "$(uname -s)" = Darwin ]; then
    check "$("$build/bin/mpirun" -n 2 env DYLD_INSERT_LIBRARIES="$folder/libtool.so" ./program)"
else
    check "$("$build/bin/mpirun" -n 2 -x LD_PRELOAD="$folder/libtool.so" ./program)"
fi
"$build/bin/mpicc" program.c -o linked -L. -Wl,-rpath,"$folder" -ltool
check "$("$build/bin/mpirun" -n 2 ./linked)"
# Compiled into the program itself.
"$build/bin/mpicc" program.c tool.c -o together
check "$("$build/bin/mpirun" -n 2 ./together)"
