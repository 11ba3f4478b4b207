#!/bin/sh
# tests/fortran/wrapper.sh BUILD: mpifort under all its names: what it answers, without a compiler,
# with options that change the sizes of types, and with a compiler whose modules nobody has made
# yet.
bin=$1/bin
failed=0
wrong() { echo "wrong: $*"; failed=1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# No compiler: one sentence that says so.
said=$(POMONA_FC=no-such-fortran "$bin/mpifort" x.f90 2>&1) && wrong "a compiler that is not there is no error"
case $said in *"no-such-fortran was not found"*) ;; *) wrong "without a compiler: $said" ;; esac

compiler=$("$bin/mpifort" -showme:command)
command -v "$compiler" > /dev/null || exit $failed
[ "$("$bin/mpifort" -show x.f90 -o x)" = "$("$bin/mpif90" x.f90 -o x -show)" ] || wrong "-show as last argument"
case $("$bin/mpif77" -show) in *"$compiler "*-lmpi_abi_fortran*-lmpi_abi) ;; *) wrong "-show" ;; esac
said=$("$bin/mpifort" -fdefault-integer-8 x.f90 2>&1) && wrong "-fdefault-integer-8 is taken"
case $said in *"INTEGERs of 4 bytes"*) ;; *) wrong "-fdefault-integer-8: $said" ;; esac

# A user whose compiler has no modules yet: made once, in the user's cache, and found again.
cat > program.f90 << 'END'
program program
  use mpi_f08
  implicit none
  real :: x
  integer :: bytes
  call MPI_Sizeof(x, bytes)
  if (bytes /= storage_size(x) / 8) stop 1
  call MPI_Init()
  call MPI_Type_size(MPI_REAL, bytes)
  if (bytes /= storage_size(x) / 8) stop 2
  call MPI_Finalize()
end program program
END
export XDG_CACHE_HOME="$folder/cache"
"$bin/mpifort" program.f90 -o plain && ./plain || wrong "a program"
[ -d "$folder/cache" ] && wrong "modules are made that are there already"
# The size of REAL is asked of the compiler in use, with its options.
"$bin/mpifort" -fdefault-real-8 program.f90 -o wide && ./wide || wrong "-fdefault-real-8"
set -- "$folder"/cache/pomona/modules/*
[ -f "$1/mpi_f08.mod" ] || wrong "no modules in the cache: $*"
"$bin/mpifort" -fdefault-real-8 program.f90 -o wide || wrong "modules in the cache"
[ $# = 1 ] || wrong "several modules in the cache: $*"
# Another compiler, where there is one.
for other in gfortran-11 flang-19; do
    command -v $other > /dev/null || continue
    POMONA_FC=$other "$bin/mpifort" program.f90 -o other && ./other || wrong "$other"
done
exit $failed
