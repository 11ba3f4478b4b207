# mpich_abi: programs of one library of the standard ABI on another: what MPICH's wrapper for the
# ABI has compiled runs on our library, and what ours has compiled, in C, C++ and Fortran, on
# MPICH's.
about="Binaries of MPICH 5 for the standard ABI on Pomona, and the other way round"
source=wheel:mpich==5.0.2
tier=short
own="tests/programs tests/fortran"
programs="app_halo3d app_pi app_sample_sort coll_all coll_v types_random rma_fence rma_locks p2p_modes p2p_persistent
    requests_generalized topo_neighbor io_basic"
build() {
    local name here=$root/tests/programs
    cat > version.c << 'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, rank, size;
    MPI_Init(&argc, &argv);
    MPI_Get_library_version(version, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) printf("rank %d runs on %.20s\n", rank, version);
    return MPI_Finalize();
}
END
    mkdir theirs ours
    "$venv/bin/mpicc_abi" version.c -o theirs/version
    mpicc version.c -o ours/version
    for name in $programs; do
        if [ -f "$here/$name.c" ]; then
            "$venv/bin/mpicc_abi" -O1 "$here/$name.c" -o "theirs/$name" -lm
            mpicc -O1 "$here/$name.c" -o "ours/$name" -lm
        else
            "$venv/bin/mpicxx_abi" -O1 "$here/$name.cc" -o "theirs/$name"
            mpicxx -O1 "$here/$name.cc" -o "ours/$name"
        fi
    done
    mpifort "$root"/tests/fortran/check.f90 "$root/tests/fortran/mpi_module.f90" -o ours/mpi_module
}
tests() {
    local name
    linked ours/*
    LD_LIBRARY_PATH=$POMONA_BUILD/lib linked theirs/*
    expect "version, on Pomona" 'rank 1 runs on Pomona' mpirun -n 2 theirs/version
    for name in $programs; do
        expect "$name, on Pomona" "^ok $name checks=[1-9][0-9]*" mpirun -n 4 "theirs/$name"
    done
    local mpich="env LD_LIBRARY_PATH=$venv/lib $venv/bin/mpiexec"
    expect "version, on MPICH" 'rank 1 runs on MPICH' $mpich -n 2 ours/version
    for name in $programs; do
        expect "$name, on MPICH" "^ok $name checks=[1-9][0-9]*" $mpich -n 2 "ours/$name"
    done
    expect "Fortran, on MPICH" '' $mpich -n 2 ours/mpi_module
}
