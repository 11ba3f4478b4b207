#!/bin/sh
# tests/fortran/profiling.sh BUILD: a profiling library in C, loaded before MPI, sees what programs
# in Fortran call, by each of the three interfaces, once; one in Fortran stands in their place too.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > tool.c << 'END'
#include <mpi.h>
#include <stdio.h>
static int sends, barriers;
int MPI_Send(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    ++sends;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}
int MPI_Barrier(MPI_Comm comm) {
    ++barriers;
    return PMPI_Barrier(comm);
}
int MPI_Finalize(void) {
    printf("%d sends, %d barriers\n", sends, barriers);
    return PMPI_Finalize();
}
END
cat > program.f90 << 'END'
subroutine old()
  implicit none
  include 'mpif.h'
  integer ierr
  call MPI_SEND(ierr, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ierr)
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
end subroutine old
subroutine newer()
  use mpi
  implicit none
  integer :: ierr
  call MPI_Send(ierr, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ierr)
end subroutine newer
program program
  use mpi_f08
  implicit none
  integer(MPI_COUNT_KIND) :: n = 1
  call MPI_Init()
  call old()
  call newer()
  call MPI_Send(n, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD)
  call PMPI_Send(n, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()
end program program
END
"$build/bin/mpicc" -shared -fPIC tool.c -o libtool.so
"$build/bin/mpifort" -w program.f90 -o program
check() {
    [ "$1" = "3 sends, 2 barriers" ] || { echo "the tool says: $1"; exit 1; }
}
if [ "$(uname -s)" = Darwin ]; then
    check "$("$build/bin/mpirun" -n 1 env DYLD_INSERT_LIBRARIES="$folder/libtool.so" ./program)"
else
    check "$("$build/bin/mpirun" -n 1 env LD_PRELOAD="$folder/libtool.so" ./program)"
    # Linked too; the program itself names nothing of it.
    "$build/bin/mpifort" -w program.f90 -o linked -L. -Wl,-rpath,"$folder" -Wl,--no-as-needed -ltool
    check "$("$build/bin/mpirun" -n 1 ./linked)"
fi
# A tool in Fortran: the names by which mpif.h and the module mpi call, and those of mpi_f08.
cat > tool.f90 << 'END'
subroutine MPI_SEND(buf, count, datatype, dest, tag, comm, ierror)
  implicit none
  include 'mpif.h'
  integer :: buf(*), count, datatype, dest, tag, comm, ierror
  print '(a)', 'a send'
  call PMPI_SEND(buf, count, datatype, dest, tag, comm, ierror)
end subroutine MPI_SEND
subroutine MPI_Barrier_f08(comm, ierror)
  use mpi_f08, only: MPI_Comm, PMPI_Barrier
  implicit none
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  print '(a)', 'a barrier of mpi_f08'
  call PMPI_Barrier(comm, ierror)
end subroutine MPI_Barrier_f08
END
check_fortran() {
    said=$(printf '%s' "$1" | sort | uniq -c | tr -s ' \n' ' ')
    [ "$said" = " 1 a barrier of mpi_f08 2 a send " ] || { echo "the tool in Fortran says: $said"; exit 1; }
}
"$build/bin/mpifort" -w program.f90 tool.f90 -o together
check_fortran "$("$build/bin/mpirun" -n 1 ./together)"
if [ "$(uname -s)" != Darwin ]; then
    "$build/bin/mpifort" -w -shared -fPIC tool.f90 -o libftool.so
    check_fortran "$("$build/bin/mpirun" -n 1 env LD_PRELOAD="$folder/libftool.so" ./program)"
fi
