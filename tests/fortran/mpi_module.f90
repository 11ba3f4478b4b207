! mpi_module.f90: the module mpi: buffers of any type and rank, MPI-1's attributes, memory as an integer
! and as a C pointer, MPI_SIZEOF, status conversions, profiling names. It runs on MPICH's library too
! (tests/clients/recipes/mpich_abi.sh).
module old_functions
  use mpi
  implicit none
  integer :: deleted = 0
contains
  subroutine old_copy(comm, keyval, extra, in, out, flag, ierr)
    integer :: comm, keyval, extra, in, out, ierr
    logical :: flag
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) extra = -1
    out = in + extra
    flag = .true.
    ierr = MPI_SUCCESS
  end subroutine old_copy
  subroutine old_delete(comm, keyval, val, extra, ierr)
    integer :: comm, keyval, val, extra, ierr
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) extra = -1
    deleted = deleted + val
    ierr = MPI_SUCCESS
  end subroutine old_delete
  subroutine least(in, inout, len, type)
    integer :: len, type
    real :: in(len), inout(len)
    if (type == MPI_REAL) inout = min(in, inout)
  end subroutine least
end module old_functions

program mpi_module
  use mpi
  use old_functions
  use check
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, size, ierr, left, right, provided
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  call that(provided >= MPI_THREAD_SINGLE, 'thread level')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  call buffers()
  call operations()
  call attributes()
  call memory()
  call sizes()
  call conversions()
  call PMPI_Barrier(MPI_COMM_WORLD, ierr)
  call equal(ierr, MPI_SUCCESS, 'profiling name')
  call MPI_Finalize(ierr)
  if (failed() /= 0) stop 1
contains
  subroutine buffers()
    integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), requests(2), n, i, all_of(size)
    real :: cube(2, 3, 4), got(2, 3, 4)
    character(len=6) :: text, word
    complex(kind(1d0)) :: z, w
    logical :: flags(3), there(3)
    type :: particle
      sequence
      double precision :: x
      integer :: kind, id
    end type particle
    type(particle) :: mine, yours
    cube = rank
    got = -1
    call MPI_Sendrecv(cube, 24, MPI_REAL, right, 1, got, 24, MPI_REAL, left, 1, MPI_COMM_WORLD, status, ierr)
    call that(all(abs(got - left) < 0.1), 'an array of rank 3')
    call equal(status(MPI_SOURCE), left, 'MPI_SOURCE')
    ! A section with gaps: the compiler makes it contiguous for the call.
    got = -1
    call MPI_Sendrecv(cube(1, :, :), 12, MPI_REAL, right, 1, got(2, :, :), 12, MPI_REAL, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call that(all(abs(got(2, :, :) - left) < 0.1) .and. all(abs(got(1, :, :) + 1) < 0.1), 'a section')
    text = 'rank' // char(48 + rank)
    call MPI_Isend(text, 6, MPI_CHARACTER, right, 2, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Irecv(word, 6, MPI_CHARACTER, left, 2, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Waitall(2, requests, statuses, ierr)
    call that(word == 'rank' // char(48 + left), 'characters')
    call MPI_Get_elements(statuses(:, 2), MPI_CHARACTER, n, ierr)
    call equal(n, 6, 'elements')
    z = cmplx(rank, -1, kind(1d0))
    call MPI_Allreduce(z, w, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
    call that(abs(w - cmplx(size * (size - 1) / 2, -size, kind(1d0))) < 1d-9, 'a complex')
    flags = [.true., .false., rank == 0]
    call MPI_Allreduce(flags, there, 3, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
    call that(there(1) .and. .not. there(2), 'logicals')
    mine = particle(rank + 0.5d0, rank, 7)
    n = 8 + 2 * integer_bytes
    call MPI_Sendrecv(mine, n, MPI_BYTE, right, 3, yours, n, MPI_BYTE, left, 3, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE, ierr)
    call that(yours%kind == left .and. yours%id == 7, 'a derived type')
    ! Scalars where the arrays mean nothing.
    all_of = [(10 * rank + i, i = 0, size - 1)]
    call MPI_Alltoallv(MPI_IN_PLACE, 0, 0, MPI_DATATYPE_NULL, all_of, [(1, i = 1, size)], &
        [(i, i = 0, size - 1)], MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call that(all(all_of == [(10 * i + rank, i = 0, size - 1)]), 'alltoallv in place')
    call MPI_Waitany(2, requests, i, MPI_STATUS_IGNORE, ierr)
    call equal(i, MPI_UNDEFINED, 'waitany of nothing')
  end subroutine buffers
  subroutine operations()
    integer :: op
    real :: x(2), y(2)
    call MPI_Op_create(least, .true., op, ierr)
    x = [real(rank), real(-rank)]
    call MPI_Allreduce(x, y, 2, MPI_REAL, op, MPI_COMM_WORLD, ierr)
    call that(abs(y(1)) < 0.1 .and. abs(y(2) + size - 1) < 0.1, 'an operation')
    call MPI_Op_free(op, ierr)
    call equal(op, MPI_OP_NULL, 'a freed operation')
  end subroutine operations
  subroutine attributes()
    integer :: keyval, comm, copied, val
    logical :: flag
    call MPI_Comm_dup(MPI_COMM_SELF, comm, ierr)
    call MPI_Keyval_create(old_copy, old_delete, keyval, 100, ierr)
    call MPI_Attr_put(comm, keyval, 5, ierr)
    call MPI_Comm_dup(comm, copied, ierr)
    call MPI_Attr_get(copied, keyval, val, flag, ierr)
    call that(flag, 'a copied attribute')
    call equal(val, 105, 'its value')
    call MPI_Attr_delete(comm, keyval, ierr)
    call MPI_Comm_free(copied, ierr)
    call equal(deleted, 110, 'deleted attributes')
    call MPI_Keyval_free(keyval, ierr)
    call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, val, flag, ierr)
    call that(flag .and. val >= 32767, 'MPI_TAG_UB')
    call MPI_Comm_free(comm, ierr)
  end subroutine attributes
  subroutine memory()
    integer(MPI_ADDRESS_KIND) :: bytes, place, other
    type(c_ptr) :: pointer
    double precision, pointer :: x(:)
    integer :: win, i
    bytes = 80
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, pointer, ierr)
    call c_f_pointer(pointer, x, [10])
    x = [(i, i = 1, 10)]
    call MPI_Free_mem(x, ierr)
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, place, ierr)
    call that(place /= 0, 'memory as an integer')
    call c_f_pointer(transfer(place, pointer), x, [10])
    x(1) = 1
    call MPI_Get_address(x, other, ierr)
    call that(other == place, 'MPI_GET_ADDRESS')
    other = MPI_Aint_add(place, 8_MPI_ADDRESS_KIND)
    call that(MPI_Aint_diff(other, place) == 8, 'MPI_AINT_DIFF')
    call MPI_Free_mem(x, ierr)
    call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, pointer, win, ierr)
    call c_f_pointer(pointer, x, [10])
    x = -1
    call MPI_Win_fence(0, win, ierr)
    call MPI_Put(dble(rank), 1, MPI_DOUBLE_PRECISION, right, 2_MPI_ADDRESS_KIND, 1, &
        MPI_DOUBLE_PRECISION, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call that(abs(x(3) - left) < 0.1, 'put')
    call MPI_Win_free(win, ierr)
  end subroutine memory
  subroutine sizes()
    integer :: n
    double precision :: x(5)
    logical :: flag
    integer(8) :: big
    call MPI_Sizeof(x, n, ierr)
    call equal(n, 8, 'MPI_SIZEOF of an array')
    call MPI_Sizeof(flag, n, ierr)
    call equal(n, integer_bytes, 'MPI_SIZEOF of a logical')
    call MPI_Sizeof(big, n, ierr)
    call equal(n, 8, 'MPI_SIZEOF of an integer')
    call MPI_Type_size(MPI_INTEGER, n, ierr)
    call equal(n, storage_size(n) / 8, 'the size of MPI_INTEGER')
    call that(MPI_ADDRESS_KIND == c_intptr_t .and. MPI_OFFSET_KIND == 8, 'kinds')
  end subroutine sizes
  subroutine conversions()
    integer :: status(MPI_STATUS_SIZE), n
    type(MPI_Status) :: f08
    call MPI_Sendrecv(n, 1, MPI_INTEGER, rank, 9, n, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, status, ierr)
    call MPI_Status_f2f08(status, f08, ierr)
    call equal(f08%MPI_TAG, 9, 'MPI_STATUS_F2F08')
    status = 0
    call MPI_Status_f082f(f08, status, ierr)
    call MPI_Get_count(status, MPI_INTEGER, n, ierr)
    call equal(n, 1, 'MPI_STATUS_F082F')
  end subroutine conversions
end program mpi_module
