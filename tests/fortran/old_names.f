! old_names.f: procedures that MPI 3.0 removed, which old programs call.
      subroutine handler(comm, code)
      integer comm, code, seen
      common /handled/ seen
      if (comm .ge. 0 .and. code .ne. 0) seen = seen + 1
      end
      program old_names
      implicit none
      include 'mpif.h'
      integer ierr, extent, low, high, made, other, rank, errhandler
      integer lengths(2), places(2), types(2), seen, bad
      integer sent(8), got(8), i
      common /handled/ seen
      external handler
      bad = 0
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_TYPE_EXTENT(MPI_DOUBLE_PRECISION, extent, ierr)
      if (extent .ne. 8) bad = bad + 1
      lengths(1) = 2
      lengths(2) = 1
      places(1) = 0
      places(2) = 16
      types(1) = MPI_INTEGER
      types(2) = MPI_DOUBLE_PRECISION
      call MPI_TYPE_STRUCT(2, lengths, places, types, made, ierr)
      call MPI_TYPE_LB(made, low, ierr)
      call MPI_TYPE_UB(made, high, ierr)
      if (low .ne. 0 .or. high .ne. 24) bad = bad + 1
      call MPI_TYPE_FREE(made, ierr)
      call MPI_TYPE_HVECTOR(2, 1, 8, MPI_INTEGER, made, ierr)
      call MPI_TYPE_HINDEXED(2, lengths, places, MPI_INTEGER, other,
     &                       ierr)
      call MPI_TYPE_COMMIT(made, ierr)
      call MPI_TYPE_COMMIT(other, ierr)
      do i = 1, 8
        sent(i) = i
        got(i) = 0
      end do
      call MPI_SENDRECV(sent, 1, other, rank, 1, got, 3, MPI_INTEGER,
     &     rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      if (got(3) .ne. 5) bad = bad + 1
      call MPI_SENDRECV(sent, 1, made, rank, 1, got, 2, MPI_INTEGER,
     &     rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      if (got(2) .ne. 3) bad = bad + 1
      call MPI_TYPE_FREE(made, ierr)
      call MPI_TYPE_FREE(other, ierr)
      seen = 0
      call MPI_ERRHANDLER_CREATE(handler, errhandler, ierr)
      call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, errhandler, ierr)
      call MPI_SEND(sent, 1, MPI_INTEGER, -5, 0, MPI_COMM_WORLD, ierr)
      if (seen .ne. 1 .or. ierr .eq. MPI_SUCCESS) bad = bad + 1
      call MPI_ERRHANDLER_GET(MPI_COMM_WORLD, made, ierr)
      if (made .ne. errhandler) bad = bad + 1
      call MPI_FINALIZE(ierr)
      if (bad .ne. 0) print *, 'wrong', bad
      if (bad .ne. 0) stop 1
      end
