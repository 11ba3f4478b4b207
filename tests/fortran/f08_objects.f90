! f08_objects.f90: strings, infos, groups, topologies, datatypes, sessions with mpi_f08.
! Goal: characters lose and gain blanks, logicals and arrays of handles arrive, constants that are known
! by their address work, results in arrays have the indices that the standard says.
program f08_objects
  use mpi_f08
  use check
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, size, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call strings()
  call infos()
  call groups()
  call grids()
  call graphs()
  call types()
  call kinds()
  call packing()
  call pieces()
  call sessions()
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine strings()
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=4) :: short
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    integer :: length, major, minor
    type(MPI_Comm) :: comm
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_set_name(comm, '  two blanks before   ')
    call MPI_Comm_get_name(comm, name, length)
    call that(name == '  two blanks before' .and. length == 19, 'a name')
    call MPI_Comm_get_name(comm, short, length)
    call that(short == '  tw', 'a name cut off')
    call MPI_Comm_free(comm)
    call MPI_Type_get_name(MPI_REAL, name, length)
    call that(name == 'MPI_REAL', 'the name of MPI_REAL')
    call MPI_Get_library_version(version, length)
    call that(length > 0 .and. len_trim(version) == length, 'the version of the library')
    call MPI_Get_version(major, minor)
    call equal(major, MPI_VERSION, 'the version')
    call about_fortran()
  end subroutine strings
  subroutine about_fortran()
    logical :: yes, no, is_set
    type(MPI_Info) :: info
    character(len=8) :: value
    yes = .false.
    no = .true.
    call MPI_Abi_get_fortran_booleans(storage_size(yes) / 8, yes, no, is_set)
    call that(is_set .and. yes .and. .not. no, 'the logicals that MPI knows')
    call MPI_Abi_get_fortran_info(info)
    call MPI_Info_get(info, 'mpi_integer_size', 8, value, is_set)
    call that(is_set .and. value == char(48 + integer_bytes), 'the size of INTEGER that MPI knows')
    call MPI_Info_free(info)
  end subroutine about_fortran
  subroutine infos()
    type(MPI_Info) :: info, copied
    character(len=20) :: value
    character(len=MPI_MAX_INFO_KEY) :: key
    integer :: length
    logical :: flag
    call MPI_Info_create(info)
    call MPI_Info_set(info, ' color ', '  deep blue  ')
    call MPI_Info_get(info, 'color', 20, value, flag)
    call that(flag .and. value == 'deep blue', 'a value')
    call MPI_Info_get(info, 'shape', 20, value, flag)
    call that(.not. flag, 'a key that is not there')
    call MPI_Info_get_valuelen(info, 'color', length, flag)
    call equal(length, 9, 'the length of a value')
    length = 0
    call MPI_Info_get_string(info, 'color', length, value, flag)
    call equal(length, 9, 'the length asked for')
    call MPI_Info_get_string(info, 'color', length, value, flag)
    call that(flag .and. value == 'deep blue', 'the string')
    call MPI_Info_get_nthkey(info, 0, key)
    call that(key == 'color', 'the first key')
    call MPI_Info_dup(info, copied)
    call MPI_Info_delete(info, 'color')
    call MPI_Info_get_nkeys(info, length)
    call equal(length, 0, 'keys left')
    call MPI_Info_get_nkeys(copied, length)
    call equal(length, 1, 'keys of the copy')
    call MPI_Info_free(info)
    call MPI_Info_free(copied)
    call that(info == MPI_INFO_NULL, 'a freed info')
  end subroutine infos
  subroutine groups()
    type(MPI_Group) :: world, even
    type(MPI_Comm) :: comm
    integer :: ranges(3, 1), n, found(1), result
    call MPI_Comm_group(MPI_COMM_WORLD, world)
    ranges(:, 1) = [0, size - 1, 2]
    call MPI_Group_range_incl(world, 1, ranges, even)
    call MPI_Group_size(even, n)
    call equal(n, (size + 1) / 2, 'every other rank')
    call MPI_Group_translate_ranks(even, 1, [n - 1], world, found)
    call equal(found(1), 2 * (n - 1), 'a translated rank')
    call MPI_Comm_create(MPI_COMM_WORLD, even, comm)
    call that((comm == MPI_COMM_NULL) .eqv. (mod(rank, 2) == 1), 'a communicator of even ranks')
    if (comm /= MPI_COMM_NULL) call MPI_Comm_free(comm)
    call MPI_Group_compare(world, world, result)
    call equal(result, MPI_IDENT, 'comparison')
    call MPI_Group_free(even)
    call MPI_Group_free(world)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, comm)
    call MPI_Comm_size(comm, n)
    call equal(n, (size + 1 - mod(rank, 2)) / 2, 'split')
    call MPI_Comm_free(comm)
  end subroutine groups
  subroutine grids()
    type(MPI_Comm) :: grid, line
    integer :: dims(2), coords(2), from, to, n, other
    logical :: periods(2)
    dims = 0
    call MPI_Dims_create(size, 2, dims)
    call equal(product(dims), size, 'dims_create')
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., grid)
    dims = -1
    call MPI_Cart_get(grid, 2, dims, periods, coords)
    call that(periods(1) .and. .not. periods(2), 'periods')
    call MPI_Cart_rank(grid, coords, other)
    call equal(other, rank, 'cart_rank')
    ! Directions count from 0, in Fortran too.
    call MPI_Cart_shift(grid, 0, 1, from, to)
    call MPI_Cart_rank(grid, [modulo(coords(1) + 1, dims(1)), coords(2)], other)
    call equal(to, other, 'cart_shift')
    call MPI_Cart_sub(grid, [.false., .true.], line)
    call MPI_Comm_size(line, n)
    call equal(n, dims(2), 'cart_sub')
    call MPI_Topo_test(line, n)
    call equal(n, MPI_CART, 'topology')
    call MPI_Comm_free(line)
    call MPI_Comm_free(grid)
  end subroutine grids
  subroutine graphs()
    type(MPI_Comm) :: graph
    integer :: into, out, sources(2), targets(2), from_weights(2), to_weights(2), left, right
    logical :: weighted
    left = mod(rank + size - 1, size)
    right = mod(rank + 1, size)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], &
        MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, into, out, weighted)
    call that(into == 1 .and. out == 1 .and. .not. weighted, 'without weights')
    call MPI_Dist_graph_neighbors(graph, 2, sources, MPI_UNWEIGHTED, 2, targets, MPI_UNWEIGHTED)
    call that(sources(1) == left .and. targets(1) == right, 'neighbors')
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [rank], [1], [right], [5], MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, into, out, weighted)
    call that(weighted, 'with weights')
    call MPI_Dist_graph_neighbors(graph, 2, sources, from_weights, 2, targets, to_weights)
    call equal(to_weights(1), 5, 'a weight')
    call MPI_Comm_free(graph)
    ! MPI-1's graph: the last of each node's edges, counted from the first node.
    call MPI_Graph_create(MPI_COMM_WORLD, size, [(i, i = 1, size)], [(mod(i + 1, size), i = 0, size - 1)], &
        .false., graph)
    call MPI_Graph_neighbors(graph, rank, 2, targets)
    call equal(targets(1), right, 'a neighbor in a graph')
    call MPI_Comm_free(graph)
  end subroutine graphs
  subroutine types()
    type, bind(C) :: particle
      real(c_double) :: x(3)
      integer(c_int) :: id
      character(kind=c_char) :: tag(4)
    end type particle
    type(particle) :: mine(2), yours(2)
    type(MPI_Datatype) :: made, resized, again
    integer(MPI_ADDRESS_KIND) :: places(3), first, second, lb, extent
    integer :: n, combiner, addresses, datatypes, integers(4)
    type(MPI_Datatype) :: contained(3)
    call MPI_Get_address(mine(1)%x, places(1))
    call MPI_Get_address(mine(1)%id, places(2))
    call MPI_Get_address(mine(1)%tag, places(3))
    first = places(1)
    places = places - first
    call MPI_Get_address(mine(2)%x, second)
    call MPI_Type_create_struct(3, [3, 1, 4], places, [MPI_DOUBLE_PRECISION, MPI_INTEGER4, &
        MPI_CHARACTER], made)
    call MPI_Type_create_resized(made, 0_MPI_ADDRESS_KIND, second - first, resized)
    call MPI_Type_commit(resized)
    call MPI_Type_get_extent(resized, lb, extent)
    call that(extent == storage_size(mine) / 8, 'extent')
    mine%id = [rank, rank + 1]
    do i = 1, 2
      mine(i)%x = i + 0.5d0
      mine(i)%tag = ['a', 'b', 'c', 'd']
    end do
    call MPI_Sendrecv(mine, 2, resized, mod(rank + 1, size), 1, yours, 2, resized, &
        mod(rank + size - 1, size), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call equal(yours(2)%id, mod(rank + size - 1, size) + 1, 'a structure')
    call that(yours(1)%tag(4) == 'd' .and. abs(yours(2)%x(3) - 2.5d0) < 1d-9, 'its other parts')
    call MPI_Type_get_envelope(made, n, addresses, datatypes, combiner)
    call that(n == 4 .and. addresses == 3 .and. datatypes == 3 .and. combiner == MPI_COMBINER_STRUCT, &
        'envelope')
    call MPI_Type_get_contents(made, 4, 3, 3, integers, places, contained)
    call that(integers(1) == 3 .and. contained(2) == MPI_INTEGER4, 'contents')
    call MPI_Type_dup(resized, again)
    call MPI_Type_free(again)
    call MPI_Type_free(resized)
    call MPI_Type_free(made)
    call MPI_Type_create_subarray(2, [4, 6], [2, 3], [1, 2], MPI_ORDER_FORTRAN, MPI_REAL, made)
    call MPI_Type_size(made, n)
    call equal(n, 24, 'subarray')
    call MPI_Type_free(made)
  end subroutine types
  subroutine kinds()
    integer, parameter :: long = selected_real_kind(12, 200), short = selected_real_kind(5), &
        far = selected_int_kind(15)
    type(MPI_Datatype) :: made
    real(long) :: x, total
    integer :: n
    call MPI_Type_create_f90_real(12, 200, made)
    x = 1.5_long
    call MPI_Allreduce(x, total, 1, made, MPI_SUM, MPI_COMM_WORLD)
    call that(abs(total - 1.5_long * size) < 1e-9_long, 'type_create_f90_real')
    call MPI_Type_create_f90_integer(15, made)
    call MPI_Type_size(made, n)
    call equal(n, storage_size(1_far) / 8, 'type_create_f90_integer')
    call MPI_Type_create_f90_complex(5, MPI_UNDEFINED, made)
    call MPI_Type_size(made, n)
    call equal(n, 2 * storage_size(1.0_short) / 8, 'type_create_f90_complex')
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, made)
    call MPI_Type_size(made, n)
    call equal(n, 8, 'type_match_size')
    call MPI_Sizeof(x, n)
    call equal(n, 8, 'sizeof')
    call MPI_Type_size(MPI_DOUBLE_PRECISION, n)
    call equal(n, storage_size(1d0) / 8, 'the size of MPI_DOUBLE_PRECISION')
  end subroutine kinds
  subroutine packing()
    character(len=200) :: bytes
    integer :: position, numbers(3), n
    integer(MPI_ADDRESS_KIND) :: place, room
    real :: x(6)
    position = 0
    call MPI_Pack([1, 2, 3], 3, MPI_INTEGER, bytes, 200, position, MPI_COMM_WORLD)
    x = [1.0, -1.0, 2.0, -1.0, 3.0, -1.0]
    call MPI_Pack(x(1:6:2), 3, MPI_REAL, bytes, 200, position, MPI_COMM_WORLD)
    call equal(position, 3 * integer_bytes + 12, 'the packed length')
    call MPI_Pack_size(3, MPI_INTEGER, MPI_COMM_WORLD, n)
    call that(n >= 12, 'pack_size')
    position = 0
    x = 0
    call MPI_Unpack(bytes, 200, position, numbers, 3, MPI_INTEGER, MPI_COMM_WORLD)
    call MPI_Unpack(bytes, 200, position, x(2:6:2), 3, MPI_REAL, MPI_COMM_WORLD)
    call equal(numbers(3), 3, 'unpacked')
    call that(all(abs(x - [0.0, 1.0, 0.0, 2.0, 0.0, 3.0]) < 0.1), 'unpacked to a section')
    place = 0
    room = 200
    call MPI_Pack_external('external32', numbers, 3, MPI_INTEGER, bytes, room, place)
    call that(place == 3 * integer_bytes .and. bytes(integer_bytes:integer_bytes) == char(1), 'external32')
    place = 0
    numbers = 0
    call MPI_Unpack_external('external32 ', bytes, room, place, numbers, 3, MPI_INTEGER)
    call that(all(numbers == [1, 2, 3]), 'from external32')
  end subroutine packing
  subroutine pieces()
    ! Memory that lies apart, by absolute addresses from MPI_BOTTOM.
    integer, target :: a, b(5)
    integer(MPI_ADDRESS_KIND) :: places(2)
    type(MPI_Datatype) :: made
    type(MPI_Status) :: status
    call MPI_Get_address(a, places(1))
    call MPI_Get_address(b(3), places(2))
    call MPI_Type_create_hindexed_block(2, 1, places, MPI_INTEGER, made)
    call MPI_Type_commit(made)
    a = 10 * rank
    b = 0
    b(3) = 10 * rank + 3
    call MPI_Sendrecv_replace(MPI_BOTTOM, 1, made, mod(rank + 1, size), 5, mod(rank + size - 1, size), &
        5, MPI_COMM_WORLD, status)
    call MPI_F_sync_reg(a)
    call MPI_F_sync_reg(b)
    call equal(a, 10 * mod(rank + size - 1, size), 'from MPI_BOTTOM')
    call equal(b(3), 10 * mod(rank + size - 1, size) + 3, 'from MPI_BOTTOM, the other')
    call MPI_Type_free(made)
  end subroutine pieces
  subroutine sessions()
    type(MPI_Session) :: session
    type(MPI_Group) :: group
    type(MPI_Comm) :: comm
    integer :: n, length
    character(len=MPI_MAX_PSET_NAME_LEN) :: name
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
    call MPI_Session_get_num_psets(session, MPI_INFO_NULL, n)
    call that(n >= 1, 'process sets')
    length = 0
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call that(length > 0, 'the length of a name')
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call equal(len_trim(name), length, 'a process set')
    call MPI_Group_from_session_pset(session, 'mpi://WORLD', group)
    call MPI_Comm_create_from_group(group, 'tests', MPI_INFO_NULL, MPI_ERRORS_RETURN, comm)
    call MPI_Comm_size(comm, n)
    call equal(n, size, 'a communicator of a session')
    call MPI_Comm_free(comm)
    call MPI_Group_free(group)
    call MPI_Session_finalize(session)
  end subroutine sessions
end program f08_objects
