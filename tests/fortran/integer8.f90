! integer8.f90: what INTEGERs of 8 bytes make different: counts beyond 2**31, what datatypes were made
! of, arrays that C has as int, values that no int can hold.
program integer8
  use mpi_f08
  use check
  implicit none
  integer :: rank, size, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call equal(integer_bytes, 8, 'bytes of an INTEGER')
  call counts()
  call contents()
  call arrays()
  call too_large()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine counts()
    type(MPI_Datatype) :: made
    type(MPI_Status) :: status
    integer, parameter :: far = 3000000000
    integer :: n
    call MPI_Type_contiguous(far, MPI_CHARACTER, made)
    call MPI_Type_size(made, n)
    call equal(n, far, 'a size beyond 2**31')
    call MPI_Type_free(made)
    call MPI_Status_set_elements(status, MPI_CHARACTER, far)
    call MPI_Get_count(status, MPI_CHARACTER, n)
    call equal(n, far, 'a count beyond 2**31')
  end subroutine counts
  subroutine contents()
    type(MPI_Datatype) :: made
    integer(MPI_ADDRESS_KIND), parameter :: places(2) = [8, 40]
    call MPI_Type_vector(2, 3, 5, MPI_INTEGER, made)
    call holds(made, MPI_COMBINER_VECTOR, [2, 3, 5], [integer ::], 'vector')
    call MPI_Type_create_hvector(2, 3, places(2), MPI_INTEGER, made)
    call holds(made, MPI_COMBINER_HVECTOR, [2, 3], [40], 'hvector')
    call MPI_Type_create_hindexed(2, [1, 2], places, MPI_INTEGER, made)
    call holds(made, MPI_COMBINER_HINDEXED, [2, 1, 2], [8, 40], 'hindexed')
    call MPI_Type_create_hindexed_block(2, 3, places, MPI_INTEGER, made)
    call holds(made, MPI_COMBINER_HINDEXED_BLOCK, [2, 3], [8, 40], 'hindexed_block')
    call MPI_Type_create_struct(2, [1, 2], places, [MPI_INTEGER, MPI_REAL], made)
    call holds(made, MPI_COMBINER_STRUCT, [2, 1, 2], [8, 40], 'struct')
    call MPI_Type_create_resized(MPI_INTEGER, places(1), places(2), made)
    call holds(made, MPI_COMBINER_RESIZED, [integer ::], [8, 40], 'resized')
    call MPI_Type_create_subarray(2, [4, 6], [2, 3], [1, 2], MPI_ORDER_C, MPI_INTEGER, made)
    call holds(made, MPI_COMBINER_SUBARRAY, [2, 4, 6, 2, 3, 1, 2, MPI_ORDER_C], [integer ::], 'subarray')
    call MPI_Type_create_darray(2, 1, 2, [4, 6], [MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE], &
        [MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG], [2, 1], MPI_ORDER_FORTRAN, MPI_INTEGER, made)
    call holds(made, MPI_COMBINER_DARRAY, [2, 1, 2, 4, 6, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE, &
        MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG, 2, 1, MPI_ORDER_FORTRAN], [integer ::], 'darray')
  end subroutine contents
  subroutine holds(made, combiner, integers, addresses, what)
    type(MPI_Datatype) :: made
    integer, intent(in) :: combiner, integers(:), addresses(:)
    character(len=*), intent(in) :: what
    integer :: n, a, d, found, got(20)
    integer(MPI_ADDRESS_KIND) :: places(20)
    type(MPI_Datatype) :: types(20)
    call MPI_Type_get_envelope(made, n, a, d, found)
    call equal(found, combiner, what)
    call equal(n, ubound(integers, 1), what // ': integers')
    call equal(a, ubound(addresses, 1), what // ': addresses')
    call MPI_Type_get_contents(made, n, a, d, got, places, types)
    call that(all(got(1:n) == integers), what // ': their values')
    call that(all(places(1:a) == addresses), what // ': the addresses')
    call that(types(1) == MPI_INTEGER, what // ': the datatype')
    call MPI_Type_free(made)
  end subroutine holds
  subroutine arrays()
    type(MPI_Comm) :: graph
    type(MPI_Request) :: requests(3)
    type(MPI_Status) :: statuses(3)
    integer, asynchronous :: got(3)
    integer :: into, out, sources(2), destinations(2), weights(2), out_weights(2), n, places(3)
    integer :: left, right, dims(2), coords(2)
    logical :: weighted, periods(2)
    left = mod(rank + size - 1, size)
    right = mod(rank + 1, size)
    call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [rank], [2], [right, left], [5, 6], MPI_INFO_NULL, &
        .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, into, out, weighted)
    call that(into == 2 .and. out == 2 .and. weighted, 'neighbours')
    call MPI_Dist_graph_neighbors(graph, 2, sources, weights, 2, destinations, out_weights)
    call that(sum(weights) == 11 .and. sum(destinations) == left + right, 'weights')
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], &
        MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED)
    call that(sources(1) == left .and. destinations(1) == right, 'a graph without weights')
    call MPI_Comm_free(graph)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, [size, 1], [.true., .false.], .false., graph)
    call MPI_Cart_get(graph, 2, dims, periods, coords)
    call that(all(dims == [size, 1]) .and. periods(1) .and. .not. periods(2), 'a grid')
    call MPI_Cart_rank(graph, coords, n)
    call equal(n, rank, 'a rank by its coordinates')
    call MPI_Comm_free(graph)
    do i = 1, 3
      call MPI_Irecv(got(i), 1, MPI_INTEGER, left, 10 + i, MPI_COMM_WORLD, requests(i))
    end do
    do i = 1, 3
      call MPI_Send(rank + i, 1, MPI_INTEGER, right, 10 + i, MPI_COMM_WORLD)
    end do
    i = 0
    do while (i < 3)
      call MPI_Waitsome(3, requests, n, places, statuses)
      call that(all(statuses(1:n)%MPI_TAG == 10 + places(1:n)), 'tags of some')
      call that(all(statuses(1:n)%MPI_SOURCE == left), 'sources of some')
      i = i + n
    end do
    call that(all(got == [left + 1, left + 2, left + 3]), 'received')
  end subroutine arrays
  subroutine too_large()
    integer :: ierror, class
    ! Not rank 0, which 2**32 would be if its upper half were cut off.
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Send(rank, 1, MPI_INTEGER, 4294967296, 1, MPI_COMM_WORLD, ierror)
    call MPI_Error_class(ierror, class)
    call equal(class, MPI_ERR_RANK, 'a rank beyond 2**31')
  end subroutine too_large
end program integer8
