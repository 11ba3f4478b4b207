! f08_sections.f90: sections with gaps as buffers, in blocking, non-blocking and persistent calls.
! Goal: a section arrives where it belongs, and what stands between its elements stays as it was.
! Method: sections of one, two and three dimensions, strides below zero, parts of a section, derived
! datatypes, receive sides of gathers, reductions; the gaps hold -1.
program f08_sections
  use mpi_f08
  use check
  implicit none
  integer :: rank, size, right, left, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  call that(MPI_SUBARRAYS_SUPPORTED, 'MPI_SUBARRAYS_SUPPORTED')
  call ring_of_vectors()
  call planes()
  call odd_parts()
  call made_types()
  call gathers()
  call reductions()
  call persistent()
  call windows()
  call misfits()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine ring_of_vectors()
    integer, asynchronous :: a(20), b(30)
    type(MPI_Request) :: requests(2)
    a = [(100 * rank + i, i = 1, 20)]
    b = -1
    call MPI_Irecv(b(1:30:3), 10, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(20:2:-2), 10, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call that(all(b(1:30:3) == [(100 * left + i, i = 20, 2, -2)]), 'vector')
    call that(all(b(2:30:3) == -1) .and. all(b(3:30:3) == -1), 'gaps of the vector')
    b = -1
    call MPI_Sendrecv(a(1:19:2), 10, MPI_INTEGER, right, 2, b(30:3:-3), 10, MPI_INTEGER, left, 2, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call that(all(b(30:3:-3) == [(100 * left + i, i = 1, 19, 2)]), 'sendrecv')
    call equal(count(b == -1), 20, 'gaps after sendrecv')
  end subroutine ring_of_vectors
  subroutine planes()
    real, asynchronous :: cube(6, 5, 4), got(6, 5, 4)
    type(MPI_Request) :: request
    integer :: j, k
    do k = 1, 4
      do j = 1, 5
        do i = 1, 6
          cube(i, j, k) = 100 * i + 10 * j + k + 1000 * rank
        end do
      end do
    end do
    got = -1
    call MPI_Isend(cube(2:6:2, 1:5:2, 2:4), 27, MPI_REAL, right, 3, MPI_COMM_WORLD, request)
    call MPI_Recv(got(2:6:2, 1:5:2, 2:4), 27, MPI_REAL, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call that(all(abs(got(2:6:2, 1:5:2, 2:4) - 1000 * left &
        - (cube(2:6:2, 1:5:2, 2:4) - 1000 * rank)) < 0.5), 'cube')
    call equal(count(got < -0.5), 120 - 27, 'gaps of the cube')
    ! A plane, to contiguous memory; a broadcast of a row.
    got = -1
    call MPI_Sendrecv(cube(3, :, :), 20, MPI_REAL, right, 4, got, 20, MPI_REAL, left, 4, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call that(abs(got(2, 1, 1) - (321 + 1000 * left)) < 0.5, 'plane')
    call MPI_Bcast(cube(4, :, 2), 5, MPI_REAL, 0, MPI_COMM_WORLD)
    call that(abs(cube(4, 5, 2) - 452) < 0.5, 'row by bcast')
    call that(abs(cube(3, 5, 2) - (352 + 1000 * rank)) < 0.5, 'beside the row')
  end subroutine planes
  subroutine odd_parts()
    ! Fewer elements than the section has: whole columns, and a part of one.
    integer :: a(5, 5), b(5, 5), n
    a = reshape([(i, i = 1, 25)], [5, 5])
    do n = 0, 9
      b = -1
      call MPI_Sendrecv(a(1:5:2, 1:5:2), n, MPI_INTEGER, rank, 5, b(1:5:2, 1:5:2), n, MPI_INTEGER, &
          rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call equal(count(b /= -1), n, 'a part of a section')
      call that(all(b == -1 .or. b == a), 'elements of a part')
    end do
  end subroutine odd_parts
  subroutine made_types()
    type(MPI_Datatype) :: pair, spread, far
    integer(MPI_ADDRESS_KIND) :: zero, apart
    integer :: a(12), b(12)
    a = [(i, i = 1, 12)]
    b = -1
    ! Two INTEGERs are one element of neither: copied.
    call MPI_Type_contiguous(2, MPI_INTEGER, pair)
    call MPI_Type_commit(pair)
    call MPI_Sendrecv(a(1:11:2), 3, pair, rank, 6, b(1:11:2), 3, pair, rank, 6, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE)
    call that(all(b(1:11:2) == a(1:11:2)) .and. all(b(2:12:2) == -1), 'pairs')
    ! Elements 1 and 3 of what the section is in the order of its elements.
    b = -1
    call MPI_Type_vector(2, 1, 2, MPI_INTEGER, spread)
    call MPI_Type_commit(spread)
    call MPI_Sendrecv(a(1:11:2), 1, spread, rank, 7, b(2:12:2), 1, spread, rank, 7, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE)
    call equal(b(2), 1, 'first of a vector')
    call equal(b(6), 5, 'second of a vector')
    call equal(count(b == -1), 10, 'rest of a vector')
    ! Elements 1 and 4; the second element's extent ends far behind the section.
    b = -1
    zero = 0
    apart = 3 * integer_bytes
    call MPI_Type_create_resized(MPI_INTEGER, zero, apart, far)
    call MPI_Type_commit(far)
    call MPI_Sendrecv(a(1:8:2), 2, far, rank, 8, b(5:12:2), 2, far, rank, 8, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE)
    call equal(b(5), 1, 'first of far ones')
    call equal(b(11), 7, 'second of far ones')
    call equal(count(b == -1), 10, 'rest of far ones')
    call MPI_Type_free(pair)
    call MPI_Type_free(spread)
    call MPI_Type_free(far)
  end subroutine made_types
  subroutine gathers()
    integer, allocatable, asynchronous :: all_of(:, :)
    integer, asynchronous :: mine(6)
    type(MPI_Request) :: request
    allocate (all_of(4, 3 * size))
    mine = [(10 * rank + i, i = 1, 6)]
    all_of = -1
    call MPI_Allgather(mine(1:6:2), 3, MPI_INTEGER, all_of(2, :), 3, MPI_INTEGER, MPI_COMM_WORLD)
    call that(all(all_of(2, :) == [(10 * ((i - 1) / 3) + 1 + 2 * mod(i - 1, 3), i = 1, 3 * size)]), &
        'allgather')
    call that(all(all_of(1, :) == -1), 'beside the allgather')
    all_of = -1
    call MPI_Iallgather(mine(1:6:2), 3, MPI_INTEGER, all_of(2, :), 3, MPI_INTEGER, MPI_COMM_WORLD, &
        request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call that(all(all_of(2, :) == [(10 * ((i - 1) / 3) + 1 + 2 * mod(i - 1, 3), i = 1, 3 * size)]), &
        'iallgather')
    call equal(count(all_of == -1), 9 * size, 'gaps of the iallgather')
    if (rank == 0) all_of(3, :) = [(i, i = 1, 3 * size)]
    call MPI_Scatter(all_of(3, :), 3, MPI_INTEGER, mine(2:6:2), 3, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call that(all(mine(2:6:2) == [3 * rank + 1, 3 * rank + 2, 3 * rank + 3]), 'scatter')
  end subroutine gathers
  subroutine reductions()
    integer, asynchronous :: a(9), b(9)
    type(MPI_Request) :: request
    logical :: flag
    a = [(i, i = 1, 9)]
    b = -1
    call MPI_Allreduce(a(1:9:2), b(1:9:2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call that(all(b(1:9:2) == size * a(1:9:2)) .and. all(b(2:8:2) == -1), 'allreduce')
    b = -1
    call MPI_Iallreduce(a(1:9:2), b(9:1:-2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    flag = .false.
    do while (.not. flag)
      call MPI_Test(request, flag, MPI_STATUS_IGNORE)
    end do
    call that(all(b(9:1:-2) == size * a(1:9:2)) .and. all(b(2:8:2) == -1), 'iallreduce')
    call MPI_Allreduce(MPI_IN_PLACE, a(2:8:2), 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    call that(all(a == [(i, i = 1, 9)]), 'in place')
  end subroutine reductions
  subroutine persistent()
    integer, asynchronous :: a(6), b(6)
    type(MPI_Request) :: requests(3)
    integer :: round
    b = -1
    call MPI_Send_init(a(1:5:2), 3, MPI_INTEGER, right, 8, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(b(1:5:2), 3, MPI_INTEGER, left, 8, MPI_COMM_WORLD, requests(2))
    call MPI_Allreduce_init(a(1:5:2), b(2:6:2), 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
        MPI_INFO_NULL, requests(3))
    do round = 1, 3
      a = round
      a(1) = 10 * round + rank
      call MPI_Startall(3, requests)
      call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
      call that(all(b(1:5:2) == [10 * round + left, round, round]), 'persistent receive')
      call that(all(b(4:6:2) == size * round), 'persistent allreduce')
    end do
    do i = 1, 3
      call MPI_Request_free(requests(i))
    end do
  end subroutine persistent
  subroutine windows()
    integer, asynchronous :: mine(4), origin(8), result(8)
    type(MPI_Win) :: win
    integer(MPI_ADDRESS_KIND) :: bytes, zero
    mine = [(1000 * rank + i, i = 1, 4)]
    origin = [(i, i = 1, 8)]
    result = -1
    bytes = 4 * integer_bytes
    zero = 0
    call MPI_Win_create(mine, bytes, integer_bytes, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_fence(0, win)
    call MPI_Get(result(1:7:2), 4, MPI_INTEGER, right, zero, 4, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call that(all(result(1:7:2) == [(1000 * right + i, i = 1, 4)]), 'get')
    call equal(count(result == -1), 4, 'gaps of the get')
    call MPI_Accumulate(origin(8:2:-2), 4, MPI_INTEGER, right, zero, 4, MPI_INTEGER, MPI_SUM, win)
    call MPI_Win_fence(0, win)
    call that(all(mine == [(1000 * rank + i + 10 - 2 * i, i = 1, 4)]), 'accumulate')
    call MPI_Win_free(win)
  end subroutine windows
  subroutine misfits() ! told by function, argument and numbers of elements
    integer, asynchronous :: a(10), b(10)
    type(MPI_Request) :: request
    type(MPI_Datatype) :: below, wide
    integer :: code, position
    a = 0
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
    call MPI_Send(a(1:9:2), 7, MPI_INTEGER, 0, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Send: buf is a section of 5 elements, and the call needs 7')
    call MPI_Irecv(a(1:9:2), 9, MPI_INTEGER, 0, 0, MPI_COMM_SELF, request, code)
    call tells(code, 'MPI_Irecv: buf is a section of 5 elements, and the call needs 9')
    call MPI_Sendrecv(a(1:9:2), 5, MPI_INTEGER, 0, 0, b(1:9:4), 5, MPI_INTEGER, 0, 0, &
        MPI_COMM_SELF, MPI_STATUS_IGNORE, code)
    call tells(code, 'MPI_Sendrecv: recvbuf is a section of 3 elements, and the call needs 5')
    call MPI_Type_vector(3, 1, 4, MPI_INTEGER, wide)
    call MPI_Type_commit(wide)
    call MPI_Send(a(1:9:2), 1, wide, 0, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Send: buf is a section of 5 elements, and the call needs 9')
    call MPI_Type_create_hvector(2, 1, int(-4, MPI_ADDRESS_KIND), MPI_INTEGER, below)
    call MPI_Type_commit(below)
    call MPI_Send(a(1:9:2), 1, below, 0, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Send: buf is a section, and the datatype begins before it')
    call MPI_Type_free(wide)
    call MPI_Type_free(below)
    call MPI_Send(a(1:9:2), 5, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF, code)
    call equal(code, MPI_SUCCESS, 'a section that fits')
    ! Sections that are copied.
    call MPI_Allreduce(a(1:9:2), b, 7, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Allreduce: sendbuf is a section of 5 elements, and the call needs 7')
    call MPI_Reduce(a, b(1:9:4), 4, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Reduce: recvbuf is a section of 3 elements, and the call needs 4')
    call MPI_Iscan(a(1:9:2), b(1:9:2), 6, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, request, code)
    call tells(code, 'MPI_Iscan: sendbuf is a section of 5 elements, and the call needs 6')
    call MPI_Reduce_local(a(1:9:2), b, 6, MPI_INTEGER, MPI_SUM, code)
    call tells(code, 'MPI_Reduce_local: inbuf is a section of 5 elements, and the call needs 6')
    call MPI_Reduce_scatter(a(1:9:2), b, [8], MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Reduce_scatter: sendbuf is a section of 5 elements, and the call needs 8')
    call MPI_Reduce_scatter_block(a, b(1:9:4), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Reduce_scatter_block: recvbuf is a section of 3 elements, and the call needs 4')
    call MPI_Gather(a, 6, MPI_INTEGER, b(1:9:2), 6, MPI_INTEGER, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Gather: recvbuf is a section of 5 elements, and the call needs 6')
    call MPI_Gatherv(a, 2, MPI_INTEGER, b(1:9:2), [2], [4], MPI_INTEGER, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Gatherv: recvbuf is a section of 5 elements, and the call needs 6')
    call MPI_Iallgather(a, 6, MPI_INTEGER, b(1:9:2), 6, MPI_INTEGER, MPI_COMM_SELF, request, code)
    call tells(code, 'MPI_Iallgather: recvbuf is a section of 5 elements, and the call needs 6')
    call MPI_Scatter(a(1:9:2), 6, MPI_INTEGER, b, 6, MPI_INTEGER, 0, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Scatter: sendbuf is a section of 5 elements, and the call needs 6')
    call MPI_Alltoall(a(1:9:2), 6, MPI_INTEGER, b, 6, MPI_INTEGER, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Alltoall: sendbuf is a section of 5 elements, and the call needs 6')
    call MPI_Alltoallv(a, [3], [0], MPI_INTEGER, b(1:9:2), [3], [4], MPI_INTEGER, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Alltoallv: recvbuf is a section of 5 elements, and the call needs 7')
    call MPI_Alltoallw(a(1:9:2), [6], [0], [MPI_INTEGER], b, [6], [0], [MPI_INTEGER], MPI_COMM_SELF, code)
    call tells(code, 'MPI_Alltoallw: sendbuf is a section of 5 elements, and the call needs 6')
    position = 0
    call MPI_Pack(b, 5, MPI_INTEGER, a(1:9:2), 6 * storage_size(a) / 8, position, MPI_COMM_SELF, code)
    call tells(code, 'MPI_Pack: outbuf is a section of 5 elements, and the call needs 6')
    ! What fits, also at the end of a section, and what means nothing at this process.
    a = [(i, i = 1, 10)]
    b = -1
    call MPI_Gatherv(a, 2, MPI_INTEGER, b(1:9:2), [2], [3], MPI_INTEGER, 0, MPI_COMM_SELF, code)
    call equal(code, MPI_SUCCESS, 'a block at the end of a section')
    call that(all(b == [-1, -1, -1, -1, -1, -1, 1, -1, 2, -1]), 'its elements')
    call MPI_Reduce_scatter_block(MPI_IN_PLACE, b(1:9:2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, code)
    call equal(code, MPI_SUCCESS, 'in place')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    if (rank == 0) then
      call MPI_Reduce(a, b, 10, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, code)
    else
      call MPI_Reduce(a, b(1:9:4), 10, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, code)
    end if
    call equal(code, MPI_SUCCESS, 'a section that only the root would use')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL)
  end subroutine misfits
  subroutine tells(code, words)
    integer, intent(in) :: code
    character(len=*), intent(in) :: words
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: length, error_class
    call MPI_Error_class(code, error_class)
    call equal(error_class, MPI_ERR_BUFFER, words)
    call MPI_Error_string(code, text, length)
    call that(index(text(1:length), words) > 0, words // ' is not in: ' // text(1:length))
  end subroutine tells
end program f08_sections
