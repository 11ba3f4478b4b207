! mpi_errors.f90: the module mpi: what a handle is after a call that has made none. MPI leaves that to
! the library: ours gives the null handle, as C does, and MPICH leaves the variable as it was.
program mpi_errors
  use mpi
  use check
  implicit none
  integer :: file, comm, request, keyval, pair, ierr
  integer :: counts(2), types(3), requests(2)
  logical :: over
  integer(MPI_ADDRESS_KIND) :: addresses(2)
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
  call MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, 0_MPI_ADDRESS_KIND, ierr)
  comm = 12345
  call MPI_Comm_idup(MPI_COMM_SELF, comm, request, ierr)
  call that(ierr /= MPI_SUCCESS, 'an attribute that refuses to be copied')
  call equal(comm, MPI_COMM_NULL, 'a duplicate after an error')
  comm = 12345
  call MPI_Comm_idup_with_info(MPI_COMM_SELF, MPI_INFO_NULL, comm, request, ierr)
  call that(ierr /= MPI_SUCCESS, 'the same with hints')
  call equal(comm, MPI_COMM_NULL, 'a duplicate with hints after an error')
  call MPI_Comm_delete_attr(MPI_COMM_SELF, keyval, ierr)
  call MPI_Comm_free_keyval(keyval, ierr)
  ! A number that no request has is no request that is complete.
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  request = 12345
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call that(ierr /= MPI_SUCCESS, 'a wait for what is no request')
  requests = [12345, MPI_REQUEST_NULL]
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call that(ierr /= MPI_SUCCESS, 'a wait for several')
  request = 0
  call MPI_Test(request, over, MPI_STATUS_IGNORE, ierr)
  call that(ierr /= MPI_SUCCESS, 'a test of what is no request')
  ! Of an array only what is given changes.
  call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierr)
  types = 12345
  call MPI_Type_get_contents(pair, 0, 0, 3, counts, addresses, types, ierr)
  call that(ierr /= MPI_SUCCESS, 'room for too few integers')
  call that(all(types == 12345), 'datatypes after an error')
  call MPI_Type_get_contents(pair, 2, 2, 3, counts, addresses, types, ierr)
  call that(ierr == MPI_SUCCESS, 'more room than it takes')
  call equal(types(1), MPI_INTEGER, 'the only datatype')
  call that(all(types(2:) == 12345), 'room behind it')
  call MPI_Type_free(pair, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL, ierr)
  call MPI_Finalize(ierr)
  if (failed() /= 0) stop 1
contains
  subroutine refuse(oldcomm, keyval, state, value, copy, flag, ierror)
    integer :: oldcomm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: state, value, copy
    logical :: flag
    copy = value
    flag = oldcomm == keyval .and. state /= 0
    ierror = MPI_ERR_OTHER
  end subroutine
end program mpi_errors
