! mpi_errors.f90: the module mpi: what a handle is after a call that has made none. MPI leaves that to
! the library: ours gives the null handle, as C does, and MPICH leaves the variable as it was.
program mpi_errors
  use mpi
  use check
  implicit none
  integer :: file, comm, ierr
  call MPI_Init(ierr)
  file = 12345
  call MPI_File_open(MPI_COMM_SELF, 'no such file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  call that(ierr /= MPI_SUCCESS, 'a file that is not there')
  call equal(file, MPI_FILE_NULL, 'the file after an error')
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
  comm = 12345
  call MPI_Cart_create(MPI_COMM_SELF, 1, [2], [.false.], .false., comm, ierr)
  call that(ierr /= MPI_SUCCESS, 'a grid of too many ranks')
  call equal(comm, MPI_COMM_NULL, 'the communicator after an error')
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL, ierr)
  call MPI_Finalize(ierr)
  if (failed() /= 0) stop 1
end program mpi_errors
