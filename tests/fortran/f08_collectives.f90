! f08_collectives.f90: every collective kind with mpi_f08, blocking, non-blocking and persistent.
program f08_collectives
  use mpi_f08
  use check
  implicit none
  integer :: rank, size, i, j
  type(MPI_Comm) :: world
  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, world)
  call MPI_Comm_rank(world, rank)
  call MPI_Comm_size(world, size)
  call rooted()
  call to_all()
  call vectors()
  call reductions()
  call nonblocking()
  call kept()
  call neighbors()
  call MPI_Comm_free(world)
  call that(world == MPI_COMM_NULL, 'a freed communicator is null')
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine rooted()
    integer :: mine(2), all_of(2 * size), root
    character(len=5) :: text
    complex :: z
    logical :: yes
    root = size - 1
    text = 'other'
    if (rank == root) text = 'hello'
    call MPI_Bcast(text, 5, MPI_CHARACTER, root, world)
    call that(text == 'hello', 'bcast of characters')
    z = cmplx(rank, 1)
    call MPI_Bcast(z, 1, MPI_COMPLEX, root, world)
    call that(abs(z - cmplx(root, 1)) < 1e-6, 'bcast of a complex')
    yes = rank == root
    call MPI_Bcast(yes, 1, MPI_LOGICAL, root, world)
    call that(yes, 'bcast of a logical')
    mine = [rank, -rank]
    all_of = -7
    call MPI_Gather(mine, 2, MPI_INTEGER, all_of, 2, MPI_INTEGER, root, world)
    if (rank == root) call that(all(all_of(1:2 * size:2) == [(i, i = 0, size - 1)]), 'gather')
    if (rank == root) then
      all_of = [(i, i = 1, 2 * size)]
      call MPI_Scatter(all_of, 2, MPI_INTEGER, MPI_IN_PLACE, 2, MPI_INTEGER, root, world)
      mine = all_of(2 * root + 1:2 * root + 2)
    else
      call MPI_Scatter(all_of, 2, MPI_INTEGER, mine, 2, MPI_INTEGER, root, world)
    end if
    call that(all(mine == [2 * rank + 1, 2 * rank + 2]), 'scatter')
    call MPI_Barrier(world)
  end subroutine rooted
  subroutine to_all()
    integer :: mine(size), got(size), wide(2, size)
    mine = [(100 * rank + i, i = 1, size)]
    call MPI_Alltoall(mine, 1, MPI_INTEGER, got, 1, MPI_INTEGER, world)
    call that(all(got == [(100 * i + rank + 1, i = 0, size - 1)]), 'alltoall')
    call MPI_Allgather([rank, rank + 1], 2, MPI_INTEGER, wide, 2, MPI_INTEGER, world)
    call that(all(wide(2, :) == [(i, i = 1, size)]), 'allgather')
    wide(:, rank + 1) = [5, rank]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, wide, 2, MPI_INTEGER, world)
    call that(all(wide(1, :) == 5), 'allgather in place')
  end subroutine to_all
  subroutine vectors()
    integer :: counts(size), displs(size), mine(size + 1), got(size * (size + 1)), expected
    type(MPI_Datatype) :: types(size)
    counts = [(i, i = 1, size)]
    displs = [(i * (size + 1), i = 0, size - 1)]
    mine = rank + 1
    got = 0
    call MPI_Allgatherv(mine, rank + 1, MPI_INTEGER, got, counts, displs, MPI_INTEGER, world)
    expected = 0
    do i = 1, size
      expected = expected + i * i
    end do
    call equal(sum(got), expected, 'allgatherv')
    got = 0
    call MPI_Gatherv(mine, rank + 1, MPI_INTEGER, got, counts, displs, MPI_INTEGER, 0, world)
    if (rank == 0) call equal(sum(got), expected, 'gatherv')
    mine = 0
    call MPI_Scatterv(got, counts, displs, MPI_INTEGER, mine, rank + 1, MPI_INTEGER, 0, world)
    call equal(sum(mine), (rank + 1)**2, 'scatterv')
    ! Everyone sends the same to each other; displacements of the w form are bytes.
    counts = 1
    displs = [(i, i = 0, size - 1)]
    mine(1:size) = [(100 * rank + i, i = 1, size)]
    got = -1
    call MPI_Alltoallv(mine, counts, displs, MPI_INTEGER, got, counts, displs, MPI_INTEGER, world)
    call that(all(got(1:size) == [(100 * i + rank + 1, i = 0, size - 1)]), 'alltoallv')
    types = MPI_INTEGER
    got = -1
    displs = integer_bytes * displs
    call MPI_Alltoallw(mine, counts, displs, types, got, counts, displs, types, world)
    call that(all(got(1:size) == [(100 * i + rank + 1, i = 0, size - 1)]), 'alltoallw')
  end subroutine vectors
  subroutine reductions()
    integer :: n, m
    integer :: many(size), pair(2), most(2), counts(size)
    double precision :: x(3), y(3)
    logical :: ours, all_of
    call MPI_Reduce(rank, n, 1, MPI_INTEGER, MPI_SUM, 0, world)
    if (rank == 0) call equal(n, size * (size - 1) / 2, 'reduce')
    n = rank
    if (rank == size - 1) then
      call MPI_Reduce(MPI_IN_PLACE, n, 1, MPI_INTEGER, MPI_MAX, size - 1, world)
      call equal(n, size - 1, 'reduce in place')
    else
      call MPI_Reduce(n, m, 1, MPI_INTEGER, MPI_MAX, size - 1, world)
    end if
    x = [1d0, 2d0, 3d0]
    call MPI_Allreduce(x, y, 3, MPI_DOUBLE_PRECISION, MPI_PROD, world)
    call that(abs(y(2) - 2d0**size) < 1d-6, 'allreduce')
    ours = rank == 0
    call MPI_Allreduce(ours, all_of, 1, MPI_LOGICAL, MPI_LOR, world)
    call that(all_of, 'logical or')
    call MPI_Allreduce(ours, all_of, 1, MPI_LOGICAL, MPI_LAND, world)
    call that(all_of .eqv. size == 1, 'logical and')
    pair = [10 - rank, rank]
    if (integer_bytes == 8) then
      call that(MPI_2INTEGER == MPI_DATATYPE_NULL, 'no pair of INTEGERs of 8 bytes')
    else
      call MPI_Allreduce(pair, most, 1, MPI_2INTEGER, MPI_MINLOC, world)
      call that(all(most == [11 - size, size - 1]), 'minloc')
    end if
    call MPI_Scan(1, n, 1, MPI_INTEGER, MPI_SUM, world)
    call equal(n, rank + 1, 'scan')
    n = -1
    call MPI_Exscan(1, n, 1, MPI_INTEGER, MPI_SUM, world)
    if (rank > 0) call equal(n, rank, 'exscan')
    many = [(i, i = 1, size)]
    counts = 1
    call MPI_Reduce_scatter(many, n, counts, MPI_INTEGER, MPI_SUM, world)
    call equal(n, size * (rank + 1), 'reduce_scatter')
    call MPI_Reduce_scatter_block(many, n, 1, MPI_INTEGER, MPI_SUM, world)
    call equal(n, size * (rank + 1), 'reduce_scatter_block')
    n = 3
    call MPI_Reduce_local(4, n, 1, MPI_INTEGER, MPI_SUM)
    call equal(n, 7, 'reduce_local')
  end subroutine reductions
  subroutine nonblocking()
    type(MPI_Request) :: requests(8)
    type(MPI_Comm) :: copied
    integer, asynchronous :: n, sums, got(size), mine(size), all_of(size), gathered(size), scanned
    integer :: other
    integer(MPI_COUNT_KIND) :: counts(size)
    integer(MPI_ADDRESS_KIND) :: displs(size)
    type(MPI_Datatype) :: types(size)
    n = 0
    if (rank == 0) n = 42
    mine = [(100 * rank + i, i = 1, size)]
    counts = 1
    displs = [(integer_bytes * i, i = 0, size - 1)]
    types = MPI_INTEGER
    call MPI_Ibcast(n, 1, MPI_INTEGER, 0, world, requests(1))
    call MPI_Iallreduce(mine(1), sums, 1, MPI_INTEGER, MPI_SUM, world, requests(2))
    call MPI_Ialltoallw(mine, counts, displs, types, got, counts, displs, types, world, requests(3))
    types = MPI_DATATYPE_NULL  ! where the standard lets the arrays go, the library has kept its own
    call MPI_Iallgather(mine(1), 1, MPI_INTEGER, all_of, 1, MPI_INTEGER, world, requests(4))
    call MPI_Igather(mine(1), 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, 0, world, requests(5))
    call MPI_Iscan(mine(1), scanned, 1, MPI_INTEGER, MPI_SUM, world, requests(6))
    call MPI_Ibarrier(world, requests(7))
    call MPI_Comm_idup(world, copied, requests(8))
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
    call equal(n, 42, 'ibcast')
    call equal(sums, size + 50 * size * (size - 1), 'iallreduce')
    call that(all(got == [(100 * i + rank + 1, i = 0, size - 1)]), 'ialltoallw')
    call that(all(all_of == [(100 * i + 1, i = 0, size - 1)]), 'iallgather')
    call MPI_Comm_size(copied, other)
    call equal(other, size, 'idup')
    call MPI_Comm_free(copied)
  end subroutine nonblocking
  subroutine kept()
    type(MPI_Request) :: request
    integer, asynchronous :: n, s
    call MPI_Allreduce_init(n, s, 1, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, request)
    do j = 1, 3
      n = j
      call MPI_Start(request)
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      call equal(s, j * size, 'persistent allreduce')
    end do
    call MPI_Request_free(request)
  end subroutine kept
  subroutine neighbors()
    type(MPI_Comm) :: ring
    integer :: got(2), sent(2), expected(2), counts(2)
    integer(MPI_ADDRESS_KIND) :: displs(2)
    type(MPI_Datatype) :: types(2)
    expected = [mod(rank + size - 1, size), mod(rank + 1, size)]
    call MPI_Cart_create(world, 1, [size], [.true.], .false., ring)
    call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring)
    call that(all(got == expected), 'neighbor_allgather')
    sent = rank
    call MPI_Neighbor_alltoall(sent, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring)
    call that(all(got == expected), 'neighbor_alltoall')
    got = -1
    counts = 1
    displs = [0, integer_bytes]
    types = MPI_INTEGER
    call MPI_Neighbor_alltoallw(sent, counts, displs, types, got, counts, displs, types, ring)
    call that(all(got == expected), 'neighbor_alltoallw')
    call MPI_Comm_free(ring)
  end subroutine neighbors
end program f08_collectives
