! f08_windows.f90: one-sided communication with mpi_f08: fences, locks, atomics, requests, shared memory.
program f08_windows
  use mpi_f08
  use check
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, size, left, right, i
  integer(MPI_ADDRESS_KIND), parameter :: zero = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  call locked()
  call posted()
  call shared()
  call attached()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine locked()
    type(MPI_Win) :: win
    type(c_ptr) :: pointer
    integer, pointer :: memory(:)
    integer, asynchronous :: got(4), before, compared
    type(MPI_Request) :: requests(2)
    integer(MPI_ADDRESS_KIND) :: bytes, value
    logical :: flag
    bytes = 4 * integer_bytes
    call MPI_Win_allocate(bytes, integer_bytes, MPI_INFO_NULL, MPI_COMM_WORLD, pointer, win)
    call c_f_pointer(pointer, memory, [4])
    memory = 0
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
    call that(flag .and. value == 4 * integer_bytes, 'MPI_WIN_SIZE')
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
    call that(flag .and. value == transfer(pointer, value), 'MPI_WIN_BASE')
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
    call that(flag .and. value == integer_bytes, 'MPI_WIN_DISP_UNIT')
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock_all(0, win)
    call MPI_Fetch_and_op(1, before, MPI_INTEGER, 0, zero, MPI_SUM, win)
    call MPI_Win_flush(0, win)
    call that(before >= 0 .and. before < size, 'fetch_and_op')
    call MPI_Accumulate([5, 6], 2, MPI_INTEGER, right, 1_MPI_ADDRESS_KIND, 2, MPI_INTEGER, MPI_SUM, win)
    call MPI_Rput(rank, 1, MPI_INTEGER, right, 3_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, requests(1))
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call MPI_Win_unlock_all(win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win)
    call MPI_Rget(got, 4, MPI_INTEGER, 0, zero, 4, MPI_INTEGER, win, requests(2))
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
    call MPI_Win_unlock(0, win)
    call that(all(got == [size, 5, 6, size - 1]), 'rget')
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)
    call MPI_Compare_and_swap(-1, size, compared, MPI_INTEGER, 0, zero, win)
    call MPI_Win_unlock(0, win)
    call that(compared == size .or. compared == -1, 'compare_and_swap')
    call MPI_Win_free(win)
    call that(win == MPI_WIN_NULL, 'a freed window')
  end subroutine locked
  subroutine posted()
    type(MPI_Win) :: win
    type(MPI_Group) :: world, to, from
    integer, asynchronous :: memory(2)
    integer(MPI_ADDRESS_KIND) :: bytes
    memory = -1
    bytes = 2 * integer_bytes
    call MPI_Win_create(memory, bytes, integer_bytes, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Comm_group(MPI_COMM_WORLD, world)
    call MPI_Group_incl(world, 1, [right], to)
    call MPI_Group_incl(world, 1, [left], from)
    call MPI_Win_post(from, 0, win)
    call MPI_Win_start(to, 0, win)
    call MPI_Put(rank, 1, MPI_INTEGER, right, zero, 1, MPI_INTEGER, win)
    call MPI_Win_complete(win)
    call MPI_Win_wait(win)
    call MPI_F_sync_reg(memory)
    call equal(memory(1), left, 'put between post and wait')
    call MPI_Group_free(world)
    call MPI_Group_free(to)
    call MPI_Group_free(from)
    call MPI_Win_free(win)
  end subroutine posted
  subroutine shared()
    type(MPI_Comm) :: node
    type(MPI_Win) :: win
    type(c_ptr) :: pointer
    integer, pointer :: mine(:), theirs(:)
    integer(MPI_ADDRESS_KIND) :: bytes, other
    integer :: unit, me, n
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, me)
    call MPI_Comm_size(node, n)
    bytes = 3 * integer_bytes
    call MPI_Win_allocate_shared(bytes, integer_bytes, MPI_INFO_NULL, node, pointer, win)
    call c_f_pointer(pointer, mine, [3])
    mine = [(10 * me + i, i = 1, 3)]
    call MPI_Win_fence(0, win)
    call MPI_Win_shared_query(win, mod(me + 1, n), other, unit, pointer)
    call that(other == 3 * integer_bytes .and. unit == integer_bytes, 'shared_query')
    call c_f_pointer(pointer, theirs, [3])
    call equal(theirs(3), 10 * mod(me + 1, n) + 3, 'shared memory')
    call MPI_Win_fence(0, win)
    call MPI_Win_free(win)
    call MPI_Comm_free(node)
  end subroutine shared
  subroutine attached()
    type(MPI_Win) :: win
    integer, asynchronous :: memory(4), got
    integer(MPI_ADDRESS_KIND) :: bytes, place, places(size)
    memory = 7 * rank
    bytes = 4 * integer_bytes
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_attach(win, memory, bytes)
    call MPI_Get_address(memory(2), place)
    call MPI_Allgather(place, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD)
    call MPI_Win_fence(0, win)
    call MPI_Get(got, 1, MPI_INTEGER, right, places(right + 1), 1, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call equal(got, 7 * right, 'attached memory')
    call MPI_Win_detach(win, memory)
    call MPI_Win_free(win)
  end subroutine attached
end program f08_windows
