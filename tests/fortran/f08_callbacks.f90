! f08_callbacks.f90: functions of the program that MPI calls, with mpi_f08.
! Goal: operations see the buffers, the length and the datatype; attributes are copied and deleted by
! the functions given, with their extra state; error handlers get the object and the code; generalized
! requests ask for their status.
module functions
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: copies = 0, deletions = 0, handled = 0, class_seen = 0, queries = 0, frees = 0, cancels = 0
  integer :: type_bytes = 0
contains
  ! 2x2 matrix products: the order matters.
  subroutine product_of(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:, :, :), b(:, :, :)
    integer :: i
    call MPI_Type_size(datatype, type_bytes)
    call c_f_pointer(invec, a, [2, 2, len])
    call c_f_pointer(inoutvec, b, [2, 2, len])
    do i = 1, len
      b(:, :, i) = matmul(a(:, :, i), b(:, :, i))
    end do
  end subroutine product_of
  subroutine large_sum(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    if (datatype == MPI_INTEGER) b = a + b
  end subroutine large_sum
  subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    if (comm_keyval == MPI_KEYVAL_INVALID .or. oldcomm == MPI_COMM_NULL) extra_state = -1
    copies = copies + 1
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine copy
  subroutine delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    if (comm_keyval == MPI_KEYVAL_INVALID .or. comm == MPI_COMM_NULL) extra_state = -1
    deletions = deletions + int(attribute_val)
    ierror = MPI_SUCCESS
  end subroutine delete
  subroutine comm_handler(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    if (comm == MPI_COMM_WORLD .or. comm == MPI_COMM_SELF) handled = handled + 1
    call MPI_Error_class(error_code, class_seen)
  end subroutine comm_handler
  subroutine win_handler(win, error_code)
    type(MPI_Win) :: win
    integer :: error_code
    if (win /= MPI_WIN_NULL) handled = handled + 1
    call MPI_Error_class(error_code, class_seen)
  end subroutine win_handler
  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    queries = queries + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .false.)
    call MPI_Status_set_source(status, 3)
    call MPI_Status_set_tag(status, 4)
    ierror = MPI_SUCCESS
  end subroutine query
  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    frees = frees + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine release
  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (.not. complete) cancels = cancels + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine cancel
end module functions

program f08_callbacks
  use mpi_f08
  use functions
  use check
  implicit none
  integer :: rank, size
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call operations()
  call attributes()
  call handlers()
  call generalized()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine operations()
    type(MPI_Op) :: op
    type(MPI_Datatype) :: matrix
    type(MPI_Request) :: request
    integer :: mine(2, 2, 3), all_of(2, 2, 3), expected(2, 2), r, sums(2)
    logical :: commutes
    call MPI_Type_contiguous(4, MPI_INTEGER, matrix)
    call MPI_Type_commit(matrix)
    call MPI_Op_create(product_of, .false., op)
    call MPI_Op_commutative(op, commutes)
    call that(.not. commutes, 'commutative')
    mine = spread(reshape([1, rank, 1, rank + 1], [2, 2]), 3, 3)
    expected = reshape([1, 0, 0, 1], [2, 2])
    do r = 0, size - 1
      expected = matmul(expected, reshape([1, r, 1, r + 1], [2, 2]))
    end do
    call MPI_Allreduce(mine, all_of, 3, matrix, op, MPI_COMM_WORLD)
    call that(all(all_of(:, :, 3) == expected), 'an operation of the program')
    if (size > 1) call equal(type_bytes, 4 * integer_bytes, 'the datatype that the operation sees')
    all_of = 0
    call MPI_Iallreduce(mine, all_of, 3, matrix, op, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call that(all(all_of(:, :, 1) == expected), 'an operation of the program, non-blocking')
    call MPI_Op_free(op)
    call that(op == MPI_OP_NULL, 'a freed operation')
    call MPI_Type_free(matrix)
    call MPI_Op_create_c(large_sum, .true., op)
    call MPI_Allreduce([rank, 1], sums, 2, MPI_INTEGER, op, MPI_COMM_WORLD)
    call that(all(sums == [size * (size - 1) / 2, size]), 'an operation with large counts')
    call MPI_Op_free(op)
  end subroutine operations
  subroutine attributes()
    type(MPI_Comm) :: first, second
    integer :: key, copied_key, lost_key
    integer(MPI_ADDRESS_KIND) :: value, extra
    logical :: flag
    extra = 1000
    call MPI_Comm_dup(MPI_COMM_SELF, first)
    call MPI_Comm_create_keyval(copy, delete, key, extra)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, copied_key, extra)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, lost_key, extra)
    call MPI_Comm_get_attr(first, key, value, flag)
    call that(.not. flag, 'no attribute')
    value = 7
    call MPI_Comm_set_attr(first, key, value)
    value = -(2_MPI_ADDRESS_KIND**40)
    call MPI_Comm_set_attr(first, copied_key, value)
    call MPI_Comm_set_attr(first, lost_key, value)
    call MPI_Comm_dup(first, second)
    call equal(copies, 1, 'copies')
    call MPI_Comm_get_attr(second, key, value, flag)
    call that(flag, 'the copy')
    call equal(value, 1007, 'the copied value')
    call MPI_Comm_get_attr(second, copied_key, value, flag)
    call that(flag .and. value == -(2_MPI_ADDRESS_KIND**40), 'MPI_COMM_DUP_FN')
    call MPI_Comm_get_attr(second, lost_key, value, flag)
    call that(.not. flag, 'MPI_COMM_NULL_COPY_FN')
    call MPI_Comm_delete_attr(first, key)
    call equal(deletions, 7, 'a deleted attribute')
    call MPI_Comm_free(second)
    call equal(deletions, 1014, 'attributes of a freed communicator')
    call MPI_Comm_free(first)
    call MPI_Comm_free_keyval(key)
    call equal(key, MPI_KEYVAL_INVALID, 'a freed keyval')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
    call that(flag .and. value >= 32767, 'MPI_TAG_UB')
  end subroutine attributes
  subroutine handlers()
    type(MPI_Errhandler) :: handler, found
    type(MPI_Win) :: win
    integer :: memory(1), ierror, length
    integer(MPI_ADDRESS_KIND) :: bytes
    character(len=MPI_MAX_ERROR_STRING) :: text
    call MPI_Comm_create_errhandler(comm_handler, handler)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler)
    call MPI_Comm_get_errhandler(MPI_COMM_WORLD, found)
    call that(found == handler, 'the error handler that was set')
    call MPI_Send(memory, 1, MPI_INTEGER, size, 0, MPI_COMM_WORLD, ierror)
    call equal(handled, 1, 'calls of the error handler')
    call equal(class_seen, MPI_ERR_RANK, 'its error class')
    call that(ierror /= MPI_SUCCESS, 'ierror')
    call MPI_Error_string(ierror, text, length)
    call that(length > 0 .and. len_trim(text) == length, 'the error string')
    call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_TAG)
    call equal(class_seen, MPI_ERR_TAG, 'a handler that is called')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    call MPI_Errhandler_free(handler)
    bytes = 4
    call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_create_errhandler(win_handler, handler)
    call MPI_Win_set_errhandler(win, handler)
    call MPI_Win_call_errhandler(win, MPI_ERR_DISP)
    call equal(class_seen, MPI_ERR_DISP, 'a handler of a window')
    call MPI_Win_free(win)
    call MPI_Errhandler_free(handler)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine handlers
  subroutine generalized()
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: n
    logical :: flag
    extra = 5
    call MPI_Grequest_start(query, release, cancel, extra, request)
    call MPI_Test(request, flag, status)
    call that(.not. flag, 'not complete yet')
    call MPI_Cancel(request)
    call equal(cancels, 5, 'cancelled')
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call equal(queries, 1, 'queries')
    call equal(frees, 5, 'frees')
    call MPI_Get_count(status, MPI_INTEGER, n)
    call equal(n, 5, 'the count of a generalized request')
    call equal(status%MPI_SOURCE, 3, 'its source')
    call MPI_Status_get_tag(status, n)
    call equal(n, 4, 'its tag')
  end subroutine generalized
end program f08_callbacks
