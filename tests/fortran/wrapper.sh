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
for name in mpifort mpif77 mpif90; do
    runs="$compiler $("$bin/$name" -showme:compile)"
    links=$("$bin/$name" -showme:link)
    [ "$("$bin/$name" -c x.f90 -show)" = "$runs -c x.f90" ] || wrong "$name -c x.f90 -show"
    [ "$("$bin/$name" --showme x.f90)" = "$runs x.f90 $links" ] || wrong "$name --showme x.f90"
    [ "$("$bin/$name" x.f90 -compile-info)" = "$runs" ] || wrong "$name -compile-info"
    [ "$("$bin/$name" -link_info)" = "$compiler $links" ] || wrong "$name -link_info"
done
case $("$bin/mpifort" -fdefault-integer-8 x.f90 -show) in
*-fdefault-integer-8*-lmpi_abi_fortran_integer8*) ;; *) wrong "-fdefault-integer-8: $("$bin/mpifort" -fdefault-integer-8 -show)" ;;
esac
said=$("$bin/mpifort" -finteger-4-integer-8 x.f90 2>&1) && wrong "-finteger-4-integer-8 is taken"
case $said in *"take -fdefault-integer-8"*) ;; *) wrong "-finteger-4-integer-8: $said" ;; esac
for option in -freal-4-real-8 -freal-8-real-16 -fdefault-real-10 -fsecond-underscore; do
    said=$("$bin/mpifort" -c x.f90 $option 2>&1) && wrong "$option is taken"
    case $said in "mpifort: "*"$option"*"; take -fdefault-real-"* | *"$option"*"leave it out") ;; *) wrong "$option: $said" ;; esac
done

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
  call MPI_Type_size(MPI_2REAL, bytes)
  if (bytes /= storage_size(x) / 4) stop 3
  call MPI_Finalize()
end program program
END
export XDG_CACHE_HOME="$folder/cache"
"$bin/mpifort" program.f90 -o plain && ./plain || wrong "a program"
[ -d "$folder/cache" ] && wrong "modules are made that are there already"
said=$(POMONA_FC=$compiler ./plain 2>&1)
[ -z "$said" ] || wrong "with POMONA_FC set a program says: $said"
# The size of REAL is asked of the compiler in use, with its options.
"$bin/mpifort" -fdefault-real-8 program.f90 -o wide && ./wide || wrong "-fdefault-real-8"
set -- "$folder"/cache/pomona/modules/*
[ -f "$1/mpi_f08.mod" ] || wrong "no modules in the cache: $*"
"$bin/mpifort" -fdefault-real-8 program.f90 -o wide || wrong "modules in the cache"
[ $# = 1 ] || wrong "several modules in the cache: $*"
# Another compiler, where there is one.
# The two modules, and those for INTEGERs of 8 bytes too.
cat > modules.f90 << 'END'
program modules
  call old()
  call new()
contains
  subroutine old()
    use mpi
    integer :: ierr, rank
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    if (rank /= 0) stop 1
  end subroutine old
  subroutine new()
    use mpi_f08
    integer :: all_of
    call MPI_Allreduce(7, all_of, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (all_of /= 7) stop 2
    call MPI_Finalize()
  end subroutine new
end program modules
END
for other in gfortran-11 gfortran-13 gfortran-14 flang-19 flang-new-19 flang-22 flang-new-22; do
    command -v $other > /dev/null || continue
    POMONA_FC=$other "$bin/mpifort" program.f90 -o other && ./other || wrong "$other"
    for option in -O0 -fdefault-integer-8; do
        POMONA_FC=$other "$bin/mpifort" $option modules.f90 -o other && ./other || wrong "$other $option"
    done
done
exit $failed
