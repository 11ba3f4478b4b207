! mixed.f90: mpif.h, the module mpi and mpi_f08 in one program, which pass handles, statuses and
! constants to each other; and a Fortran library that stands between the program and MPI.
subroutine with_include(comm, good)
  implicit none
  include 'mpif.h'
  integer :: comm, ierr, n, status(MPI_STATUS_SIZE), sums
  logical :: good
  call MPI_COMM_SIZE(comm, n, ierr)
  sums = 1
  call MPI_ALLREDUCE(MPI_IN_PLACE, sums, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
  good = sums == n
  call MPI_SENDRECV(n, 1, MPI_INTEGER, MPI_PROC_NULL, 0, n, 1, MPI_INTEGER, MPI_PROC_NULL, 0, comm, &
      MPI_STATUS_IGNORE, ierr)
  call MPI_PROBE(MPI_PROC_NULL, 0, comm, status, ierr)
  good = good .and. status(MPI_SOURCE) == MPI_PROC_NULL .and. ierr == MPI_SUCCESS
end subroutine with_include

subroutine with_mpi(comm, good)
  use mpi
  implicit none
  integer :: comm, ierr, n, sums
  logical :: good
  call MPI_Comm_size(comm, n, ierr)
  sums = 2
  call MPI_Allreduce(MPI_IN_PLACE, sums, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
  good = sums == 2 * n
end subroutine with_mpi

! A profiling library: MPI's procedure by its external name, PMPI's inside.
subroutine MPI_BARRIER(comm, ierror)
  implicit none
  integer, intent(in) :: comm
  integer :: ierror, calls
  common /counted/ calls
  calls = calls + 1
  call PMPI_BARRIER(comm, ierror)
end subroutine MPI_BARRIER

subroutine barriers(comm)
  use mpi
  implicit none
  integer :: comm, ierr
  call MPI_Barrier(comm, ierr)
  call MPI_Barrier(comm, ierr)
end subroutine barriers

program mixed
  use mpi_f08
  use check
  implicit none
  type(MPI_Comm) :: comm
  logical :: good
  integer :: calls
  common /counted/ calls
  interface
    subroutine with_include(comm, good)
      integer :: comm
      logical :: good
    end subroutine with_include
    subroutine with_mpi(comm, good)
      integer :: comm
      logical :: good
    end subroutine with_mpi
    subroutine barriers(comm)
      integer :: comm
    end subroutine barriers
  end interface
  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call with_include(comm%MPI_VAL, good)
  call that(good, 'mpif.h')
  call with_mpi(comm%MPI_VAL, good)
  call that(good, 'module mpi')
  calls = 0
  call barriers(comm%MPI_VAL)
  call equal(calls, 2, 'calls that a profiling library has seen')
  call PMPI_Barrier(comm)
  call MPI_Comm_free(comm)
  call MPI_Finalize()
  if (failed() /= 0) stop 1
end program mixed
