! f08_p2p.f90: point to point with the module mpi_f08.
! Goal: modes, probes, persistent requests, completion functions with indices from 1, large counts,
! messages matched by probes, optional ierror, statuses.
program f08_p2p
  use mpi_f08
  use check
  implicit none
  integer :: rank, size, right, left, ierr
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call equal(ierr, MPI_SUCCESS, 'ierror')
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  call blocking()
  call completion()
  call persistent()
  call matched()
  call large()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine blocking()
    real :: out(3), in(3)
    type(MPI_Status) :: status
    integer :: n
    logical :: flag
    out = [1.0, 2.0, 3.0] + rank
    call MPI_Sendrecv(out, 3, MPI_REAL, right, 1, in, 3, MPI_REAL, left, 1, MPI_COMM_WORLD, status)
    call that(all(abs(in - [1.0, 2.0, 3.0] - left) < 0.1), 'sendrecv')
    call equal(status%MPI_SOURCE, left, 'source')
    call equal(status%MPI_TAG, 1, 'tag')
    call MPI_Get_count(status, MPI_REAL, n)
    call equal(n, 3, 'count')
    call MPI_Test_cancelled(status, flag)
    call that(.not. flag, 'cancelled')
    call MPI_Sendrecv_replace(in, 3, MPI_REAL, left, 2, right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call that(all(abs(in - out) < 0.1), 'sendrecv_replace')
    if (size > 1) then
      if (mod(rank, 2) == 0 .and. rank + 1 < size) then
        call MPI_Ssend(out, 3, MPI_REAL, rank + 1, 3, MPI_COMM_WORLD)
      else if (mod(rank, 2) == 1) then
        call MPI_Probe(rank - 1, 3, MPI_COMM_WORLD, status)
        call MPI_Recv(in, 3, MPI_REAL, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        call that(abs(in(1) - rank) < 0.1, 'ssend')
      end if
    end if
  end subroutine blocking
  subroutine completion()
    integer, asynchronous :: in(4), out(4)
    type(MPI_Request) :: requests(8)
    type(MPI_Status) :: statuses(8), status
    integer :: i, index, done, indices(8), seen
    logical :: flag
    do i = 1, 4
      out(i) = 10 * rank + i
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i))
    end do
    call MPI_Request_get_status(requests(1), flag, MPI_STATUS_IGNORE)
    call MPI_Testall(0, requests, flag, MPI_STATUSES_IGNORE)
    call that(flag, 'testall of nothing')
    do i = 1, 4
      call MPI_Isend(out(i), 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(4 + i))
    end do
    call MPI_Waitall(4, requests(5:8), MPI_STATUSES_IGNORE)
    seen = 0
    call MPI_Waitany(4, requests(1:4), index, status)
    call that(index >= 1 .and. index <= 4, 'waitany counts from 1')
    call equal(status%MPI_TAG, index, 'waitany status')
    seen = 1
    do while (seen < 4)
      call MPI_Testsome(4, requests(1:4), done, indices, statuses)
      do i = 1, done
        call equal(statuses(i)%MPI_TAG, indices(i), 'testsome index')
      end do
      seen = seen + done
    end do
    call MPI_Waitsome(4, requests(1:4), done, indices, MPI_STATUSES_IGNORE)
    call equal(done, MPI_UNDEFINED, 'waitsome without requests')
    call MPI_Waitany(4, requests(1:4), index, MPI_STATUS_IGNORE)
    call equal(index, MPI_UNDEFINED, 'waitany without requests')
    call MPI_Testany(4, requests(1:4), index, flag, MPI_STATUS_IGNORE)
    call that(flag .and. index == MPI_UNDEFINED, 'testany without requests')
    call that(all([(requests(i) == MPI_REQUEST_NULL, i = 1, 8)]), 'requests are null')
    call that(.not. (requests(1) /= MPI_REQUEST_NULL), '/= of handles')
    call that(all(in == [(10 * left + i, i = 1, 4)]), 'received')
  end subroutine completion
  subroutine persistent()
    integer, asynchronous :: in, out
    type(MPI_Request) :: requests(2)
    logical :: flag
    integer :: round
    call MPI_Recv_init(in, 1, MPI_INTEGER, left, 9, MPI_COMM_WORLD, requests(1))
    call MPI_Send_init(out, 1, MPI_INTEGER, right, 9, MPI_COMM_WORLD, requests(2))
    do round = 1, 3
      out = 100 * round + rank
      call MPI_Startall(2, requests)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      flag = .false.
      do while (.not. flag)
        call MPI_Test(requests(2), flag, MPI_STATUS_IGNORE)
      end do
      call equal(in, 100 * round + left, 'persistent')
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine persistent
  subroutine matched()
    type(MPI_Message) :: message
    type(MPI_Status) :: status
    type(MPI_Request) :: request
    integer :: in(2)
    call MPI_Isend([rank, -rank], 2, MPI_INTEGER, right, 4, MPI_COMM_WORLD, request)
    call MPI_Mprobe(left, 4, MPI_COMM_WORLD, message, status)
    call MPI_Mrecv(in, 2, MPI_INTEGER, message, status)
    call that(message == MPI_MESSAGE_NULL, 'message')
    call equal(in(2), -left, 'mrecv')
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine matched
  subroutine large()
    integer(MPI_COUNT_KIND) :: n
    real(kind(1d0)) :: out(2), in(2)
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    out = rank
    n = 2
    call MPI_Isend(out, n, MPI_DOUBLE_PRECISION, right, 8, MPI_COMM_WORLD, request)
    call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, left, 8, MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n)
    call equal(n, 2, 'large count')
    call that(abs(in(2) - left) < 0.1, 'large')
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine large
end program f08_p2p
