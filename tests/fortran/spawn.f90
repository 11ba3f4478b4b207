! spawn.f90: a program that starts itself again, with arguments, by MPI_Comm_spawn and _spawn_multiple.
program spawn
  use mpi_f08
  use check
  implicit none
  type(MPI_Comm) :: parent, children
  integer :: rank, n, codes(3), found
  character(len=200) :: self, first, second
  character(len=8) :: argv(3), argvs(2, 2), same(1)
  character(len=200) :: commands(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_get_parent(parent)
  if (parent /= MPI_COMM_NULL) then
    call get_command_argument(1, first)
    call get_command_argument(2, second)
    n = 0
    if (first == 'one' .and. (second == 'two 2' .or. second == '')) n = 1
    if (first == 'other') n = 10
    call MPI_Reduce(n, found, 1, MPI_INTEGER, MPI_SUM, 0, parent)
    call MPI_Comm_disconnect(parent)
    call MPI_Finalize()
    stop
  end if
  call get_command_argument(0, self)
  argv = [character(len=8) :: ' one', 'two 2', '']
  codes = -1
  call MPI_Comm_spawn(self, argv, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, codes)
  call that(all(codes(1:2) == MPI_SUCCESS), 'error codes')
  call collect(2, 'two children with two arguments')
  call MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, &
      MPI_ERRCODES_IGNORE)
  call collect(0, 'a child without arguments')
  commands = self
  argvs(:, 1) = [character(len=8) :: 'one', 'other']
  argvs(:, 2) = ''
  call MPI_Comm_spawn_multiple(2, commands, argvs, [1, 2], [MPI_INFO_NULL, MPI_INFO_NULL], 0, &
      MPI_COMM_WORLD, children, codes)
  call that(all(codes == MPI_SUCCESS), 'error codes of several programs')
  call collect(21, 'several programs')
  same = ''
  call MPI_Comm_spawn(self, same, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, MPI_ERRCODES_IGNORE)
  call collect(0, 'an empty list of arguments')
  call MPI_Finalize()
  if (failed() /= 0) stop 1
contains
  subroutine collect(expected, what)
    integer, intent(in) :: expected
    character(len=*), intent(in) :: what
    integer :: root
    root = MPI_PROC_NULL
    if (rank == 0) root = MPI_ROOT
    found = -1
    call MPI_Reduce(n, found, 1, MPI_INTEGER, MPI_SUM, root, children)
    if (rank == 0) call equal(found, expected, what)
    call MPI_Comm_disconnect(children)
  end subroutine collect
end program spawn
