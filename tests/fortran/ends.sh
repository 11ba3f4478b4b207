#!/bin/sh
# tests/fortran/ends.sh BUILD: what a program in Fortran has printed, and written to a file of its
# own, is there after MPI_Abort and after an error that ends the job; standard output is a file,
# into which the library of gfortran writes when its buffer is full, or when it is told to.
set -eu
build=$1
case $("$build/bin/mpifort" --version | head -n 1) in
*GNU*) ;;
*) echo "only gfortran's library can be told to write"; exit 0 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > program.f90 << 'END'
program program
  use mpi
  implicit none
  character(8) :: how
  integer :: ierr
  call get_command_argument(1, how)
  print '(a)', 'printed before'
  call MPI_Init(ierr)
  open(unit=10, file='unit10')
  write(10, '(a)') 'written'
  print '(a)', 'printed after'
  if (how == 'abort') call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
  call MPI_Bcast(ierr, -1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
end program program
END
"$build/bin/mpifort" program.f90 -o program
for how in abort error; do
    rm -f unit10 printed
    "$build/bin/mpirun" -n 1 sh -c 'exec ./program "$0" > printed' $how 2> told && code=0 || code=$?
    [ $code != 0 ] || { echo "$how: the job ended well"; exit 1; }
    printf 'printed before\nprinted after\n' | cmp - printed || { echo "$how: lost what was printed"; exit 1; }
    echo written | cmp - unit10 || { echo "$how: lost what was written"; exit 1; }
done
