! f08_files.f90: files with mpi_f08: views, offsets, collective, non-blocking, split, shared pointer.
program f08_files
  use mpi_f08
  use check
  implicit none
  integer :: rank, size, i
  character(len=*), parameter :: name = 'fortran_test.dat   '
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call whole()
  call views()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) call MPI_File_delete(name, MPI_INFO_NULL)
  call missing()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine whole()
    type(MPI_File) :: file
    type(MPI_Status) :: status
    type(MPI_Request) :: request
    type(MPI_Group) :: group
    integer, asynchronous :: out(8), in(8)
    integer(MPI_OFFSET_KIND) :: offset, bytes
    integer :: n, mode
    logical :: flag
    call MPI_File_open(MPI_COMM_WORLD, name, ior(MPI_MODE_RDWR, MPI_MODE_CREATE), MPI_INFO_NULL, file)
    call MPI_File_get_amode(file, mode)
    call equal(mode, ior(MPI_MODE_RDWR, MPI_MODE_CREATE), 'amode')
    call MPI_File_set_atomicity(file, .true.)
    call MPI_File_get_atomicity(file, flag)
    call that(flag, 'atomicity')
    call MPI_File_set_atomicity(file, .false.)
    call MPI_File_get_group(file, group)
    call MPI_Group_size(group, n)
    call equal(n, size, 'group')
    call MPI_Group_free(group)
    out = [(100 * rank + i, i = 1, 8)]
    offset = 4 * integer_bytes * rank
    ! A section, as in other calls.
    call MPI_File_write_at_all(file, offset, out(1:8:2), 4, MPI_INTEGER, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call equal(n, 4, 'written')
    call MPI_File_get_size(file, bytes)
    call that(bytes == 4 * integer_bytes * size, 'size')
    offset = 4 * integer_bytes * mod(rank + 1, size)
    in = -1
    call MPI_File_iread_at(file, offset, in(2:8:2), 4, MPI_INTEGER, request)
    call MPI_Wait(request, status)
    call that(all(in(2:8:2) == [(100 * mod(rank + 1, size) + i, i = 1, 8, 2)]), 'read at an offset')
    call equal(count(in == -1), 4, 'gaps')
    call MPI_File_seek(file, 0_MPI_OFFSET_KIND, MPI_SEEK_END)
    call MPI_File_get_position(file, offset)
    call that(offset == 4 * integer_bytes * size, 'position')
    in = -1
    call MPI_File_seek(file, int(integer_bytes, MPI_OFFSET_KIND), MPI_SEEK_SET)
    call MPI_File_read_all_begin(file, in, 1, MPI_INTEGER)
    call MPI_File_read_all_end(file, in, MPI_STATUS_IGNORE)
    call equal(in(1), 3, 'split collective read')
    call MPI_File_close(file)
    call that(file == MPI_FILE_NULL, 'a closed file')
  end subroutine whole
  subroutine views()
    type(MPI_File) :: file
    type(MPI_Datatype) :: every, etype, filetype
    integer(MPI_OFFSET_KIND) :: disp
    integer :: out(3), in(3)
    character(len=MPI_MAX_DATAREP_STRING) :: datarep
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, file)
    call MPI_File_set_size(file, 0_MPI_OFFSET_KIND)
    call MPI_Type_vector(3, 1, size, MPI_INTEGER, every)
    call MPI_Type_commit(every)
    disp = integer_bytes * rank
    call MPI_File_set_view(file, disp, MPI_INTEGER, every, 'native ', MPI_INFO_NULL)
    call MPI_File_get_view(file, disp, etype, filetype, datarep)
    call that(datarep == 'native' .and. disp == integer_bytes * rank .and. etype == MPI_INTEGER, 'view')
    call MPI_Type_free(filetype)
    out = [(10 * rank + i, i = 1, 3)]
    call MPI_File_write_all(file, out, 3, MPI_INTEGER, MPI_STATUS_IGNORE)
    disp = 0
    call MPI_File_set_view(file, disp, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_read_at(file, int(size, MPI_OFFSET_KIND), in, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
    call equal(in(1), 2, 'interleaved')
    call MPI_File_seek_shared(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
    call MPI_File_read_ordered(file, in, 3, MPI_INTEGER, MPI_STATUS_IGNORE)
    call that(all(in > 0), 'ordered')
    call MPI_Type_free(every)
    call MPI_File_close(file)
  end subroutine views
  subroutine missing()
    type(MPI_File) :: file
    integer :: ierror, class
    file%MPI_VAL = 12345
    call MPI_File_open(MPI_COMM_SELF, 'no such file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierror)
    call MPI_Error_class(ierror, class)
    call equal(class, MPI_ERR_NO_SUCH_FILE, 'a file that is not there')
    call that(file == MPI_FILE_NULL, 'no file after an error')
  end subroutine missing
end program f08_files
