#!/bin/sh
# tests/fortran/find_package.sh BUILD CMAKE: a project with find_package(MPI COMPONENTS C Fortran)
# and our wrappers in PATH builds and runs, on nothing but our library.
set -eu
build=$1 cmake=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.22)
project(found LANGUAGES C Fortran)
find_package(MPI REQUIRED COMPONENTS C Fortran)
if(NOT MPI_Fortran_HAVE_F90_MODULE OR NOT MPI_Fortran_HAVE_F08_MODULE OR NOT MPI_Fortran_HAVE_F77_HEADER)
  message(FATAL_ERROR "mpi: ${MPI_Fortran_HAVE_F90_MODULE}, mpi_f08: ${MPI_Fortran_HAVE_F08_MODULE}, "
    "mpif.h: ${MPI_Fortran_HAVE_F77_HEADER}")
endif()
add_executable(found main.f90 part.c)
target_link_libraries(found PRIVATE MPI::MPI_Fortran MPI::MPI_C)
END
cat > main.f90 << 'END'
program found
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    integer(c_int) function size_in_c(comm) bind(C)
      import c_int
      integer(c_int), value :: comm
    end function size_in_c
  end interface
  integer :: n
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  if (size_in_c(MPI_COMM_WORLD%MPI_VAL) /= n) stop 1
  print '(a,i0)', 'ranks: ', n
  call MPI_Finalize()
end program found
END
cat > part.c << 'END'
#include <mpi.h>
int size_in_c(MPI_Fint comm) {
    int size = -1;
    MPI_Comm_size(MPI_Comm_f2c(comm), &size);
    return size;
}
END
compiler=$("$build/bin/mpifort" -showme:command)
PATH=$build/bin:$PATH "$cmake" -S . -B b -DCMAKE_Fortran_COMPILER="$compiler" > log 2>&1 &&
    "$cmake" --build b >> log 2>&1 || { cat log; exit 1; }
[ "$("$build/bin/mpirun" --oversubscribe -n 2 b/found | sort -u)" = "ranks: 2" ]
# No other MPI library came along.
! ldd b/found | grep -E 'libmpi\.|libmpi_mpifh|libmpich' || exit 1
