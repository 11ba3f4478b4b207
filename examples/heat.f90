! examples/heat.f90: heat spreads through a plate, as in heat.c, in Fortran with the module mpi_f08.
! The edges of a rank's block are sections of its array: rows have gaps in memory, and go as they are.
!
!   mpifort heat.f90 -o heat
!   mpirun -n 4 ./heat
program heat
  use mpi_f08
  implicit none
  integer, parameter :: height = 24, width = 72, steps_max = 20000
  type(MPI_Comm) :: grid
  integer :: rank, size, dims(2), place(2), up, down, left, right
  integer :: first_row, first_column, rows, columns, step
  double precision, allocatable :: t(:, :), next(:, :)
  double precision :: change, warmth

  call MPI_Init()
  call make_block()
  do step = 1, steps_max
    call exchange_edges()
    call advance()
    call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, grid)
    if (change < 1d-4) exit
  end do
  call MPI_Reduce(sum(t(1:rows, 1:columns)), warmth, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, grid)
  if (rank == 0) print '(i0,a,i0,a,f6.2)', size, ' ranks, ', step, ' steps, mean temperature ', &
      warmth / (height * width)
  call MPI_Comm_free(grid)
  call MPI_Finalize()
contains
  ! This rank's part of the plate, with a frame of one cell for the neighbours' edges.
  subroutine make_block()
    call MPI_Comm_size(MPI_COMM_WORLD, size)
    dims = 0
    call MPI_Dims_create(size, 2, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .true., grid)
    call MPI_Comm_rank(grid, rank)
    call MPI_Cart_coords(grid, rank, 2, place)
    call MPI_Cart_shift(grid, 0, 1, up, down)
    call MPI_Cart_shift(grid, 1, 1, left, right)
    first_row = height * place(1) / dims(1)
    rows = height * (place(1) + 1) / dims(1) - first_row
    first_column = width * place(2) / dims(2)
    columns = width * (place(2) + 1) / dims(2) - first_column
    allocate (t(0:rows + 1, 0:columns + 1), source=0d0)
    if (first_row == 0) t(1, :) = 100  ! the plate's upper edge stays hot, the others cold
    next = t
  end subroutine make_block

  ! Each edge goes to its neighbour; ranks at the border have MPI_PROC_NULL there.
  subroutine exchange_edges()
    call MPI_Sendrecv(t(1, 1:columns), columns, MPI_DOUBLE_PRECISION, up, 0, t(rows + 1, 1:columns), &
        columns, MPI_DOUBLE_PRECISION, down, 0, grid, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(t(rows, 1:columns), columns, MPI_DOUBLE_PRECISION, down, 1, t(0, 1:columns), &
        columns, MPI_DOUBLE_PRECISION, up, 1, grid, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(t(1:rows, 1), rows, MPI_DOUBLE_PRECISION, left, 2, t(1:rows, columns + 1), &
        rows, MPI_DOUBLE_PRECISION, right, 2, grid, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(t(1:rows, columns), rows, MPI_DOUBLE_PRECISION, right, 3, t(1:rows, 0), &
        rows, MPI_DOUBLE_PRECISION, left, 3, grid, MPI_STATUS_IGNORE)
  end subroutine exchange_edges

  ! One step; the greatest change in this block.
  subroutine advance()
    integer :: row, column
    do column = 1, columns
      do row = 1, rows
        if (first_row + row == 1 .or. first_row + row == height) cycle
        if (first_column + column == 1 .or. first_column + column == width) cycle
        next(row, column) = (t(row - 1, column) + t(row + 1, column) + t(row, column - 1) + &
            t(row, column + 1)) / 4
      end do
    end do
    change = maxval(abs(next(1:rows, 1:columns) - t(1:rows, 1:columns)))
    t(1:rows, 1:columns) = next(1:rows, 1:columns)
  end subroutine advance
end program heat
