! mpif_basic.f: mpif.h in fixed form, as programs since 1994 have it.
! Goal: point to point, collectives, requests, and constants by address, without explicit interfaces.
      program mpif_basic
      implicit none
      include 'mpif.h'
      integer ierr, rank, size, i, right, left, n, bad, total
      integer status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
      integer requests(2), values(8), got(8), sums(8), type, file
      double precision t, x(4)
      logical flag
      character*(MPI_MAX_PROCESSOR_NAME) name
      integer(kind=MPI_ADDRESS_KIND) address, tagub
      bad = 0
      call MPI_INIT(ierr)
      if (ierr .ne. MPI_SUCCESS) bad = bad + 1
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierr)
      call MPI_GET_PROCESSOR_NAME(name, n, ierr)
      if (n .lt. 1 .or. len_trim(name) .ne. n) bad = bad + 1
      t = MPI_WTIME()
      if (t .le. 0d0 .or. MPI_WTICK() .le. 0d0) bad = bad + 1
      right = mod(rank + 1, size)
      left = mod(rank + size - 1, size)
      do 10 i = 1, 8
        values(i) = 100 * rank + i
        got(i) = -1
 10   continue
      call MPI_IRECV(got, 8, MPI_INTEGER, left, 5, MPI_COMM_WORLD,
     &               requests(1), ierr)
      call MPI_ISEND(values, 8, MPI_INTEGER, right, 5, MPI_COMM_WORLD,
     &               requests(2), ierr)
      call MPI_WAITALL(2, requests, statuses, ierr)
      if (requests(1) .ne. MPI_REQUEST_NULL) bad = bad + 1
      if (statuses(MPI_SOURCE, 1) .ne. left) bad = bad + 1
      if (statuses(MPI_TAG, 1) .ne. 5) bad = bad + 1
      call MPI_GET_COUNT(statuses(1, 1), MPI_INTEGER, n, ierr)
      if (n .ne. 8) bad = bad + 1
      if (got(8) .ne. 100 * left + 8) bad = bad + 1
      call MPI_SENDRECV(values, 1, MPI_INTEGER, right, 6, got, 1,
     &     MPI_INTEGER, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE,
     &     ierr)
      if (got(1) .ne. 100 * left + 1) bad = bad + 1
      call MPI_ISEND(values, 1, MPI_INTEGER, right, 7, MPI_COMM_WORLD,
     &               requests(1), ierr)
      call MPI_RECV(got, 8, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG,
     &              MPI_COMM_WORLD, status, ierr)
      call MPI_WAIT(requests(1), MPI_STATUS_IGNORE, ierr)
      if (status(MPI_SOURCE) .ne. left) bad = bad + 1
      call MPI_IPROBE(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, flag,
     &                MPI_STATUS_IGNORE, ierr)
      if (flag) bad = bad + 1
! In place, and by absolute addresses.
      do 20 i = 1, 8
        sums(i) = i
 20   continue
      call MPI_ALLREDUCE(MPI_IN_PLACE, sums, 8, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, ierr)
      if (sums(8) .ne. 8 * size) bad = bad + 1
      x(1) = rank
      x(4) = 0
      if (rank .eq. 0) x(4) = 2.5d0
      call MPI_GET_ADDRESS(x(4), address, ierr)
      call MPI_TYPE_CREATE_HINDEXED(1, (/1/), (/address/),
     &     MPI_DOUBLE_PRECISION, type, ierr)
      call MPI_TYPE_COMMIT(type, ierr)
      call MPI_BCAST(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD, ierr)
      if (x(4) .ne. 2.5d0) bad = bad + 1
      call MPI_TYPE_FREE(type, ierr)
      if (type .ne. MPI_DATATYPE_NULL) bad = bad + 1
      call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, tagub, flag,
     &                       ierr)
      if (.not. flag .or. tagub .lt. 32767) bad = bad + 1
      file = 12345
      call MPI_FILE_OPEN(MPI_COMM_SELF, 'no such file', MPI_MODE_RDONLY,
     &                   MPI_INFO_NULL, file, ierr)
      if (ierr .eq. MPI_SUCCESS) bad = bad + 1
      if (file .ne. MPI_FILE_NULL) bad = bad + 1
      call PMPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_REDUCE(bad, total, 1, MPI_INTEGER, MPI_SUM, 0,
     &                MPI_COMM_WORLD, ierr)
      call MPI_FINALIZE(ierr)
      if (bad .ne. 0) print *, 'rank', rank, ': wrong', bad
      if (bad .ne. 0) stop 1
      end
