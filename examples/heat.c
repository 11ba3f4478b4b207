/* examples/heat.c: heat spreads through a plate. The plate is cut into blocks, one a rank;
 * neighbours exchange the edges of their blocks in each step, and a global maximum tells when
 * nothing changes any more. The end shows the temperatures as a picture of characters.
 *
 *   mpicc heat.c -o heat -lm
 *   mpirun -n 4 ./heat
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { height = 24, width = 72, steps_max = 20000 };

/* This rank's block with a frame of one cell for the neighbours' edges. */
struct block {
    MPI_Comm grid;
    MPI_Datatype column;
    int up, down, left, right;
    int first_row, first_column, rows, columns;
};

static int at(const struct block* b, int row, int column) { return row * (b->columns + 2) + column; }

/* Top edge hot, the other edges cold, the same on every number of ranks. */
static int is_fixed(int row, int column) {
    return row == 0 || column == 0 || row == height - 1 || column == width - 1;
}
static double fixed_value(int row) { return row == 0 ? 100 : 0; }

static void make_block(struct block* b) {
    int size, rank, dims[2] = {0, 0}, periods[2] = {0, 0}, place[2];
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &b->grid);
    MPI_Comm_rank(b->grid, &rank);
    MPI_Cart_coords(b->grid, rank, 2, place);
    MPI_Cart_shift(b->grid, 0, 1, &b->up, &b->down);
    MPI_Cart_shift(b->grid, 1, 1, &b->left, &b->right);
    b->first_row = height * place[0] / dims[0];
    b->rows = height * (place[0] + 1) / dims[0] - b->first_row;
    b->first_column = width * place[1] / dims[1];
    b->columns = width * (place[1] + 1) / dims[1] - b->first_column;
    MPI_Type_vector(b->rows, 1, b->columns + 2, MPI_DOUBLE, &b->column);
    MPI_Type_commit(&b->column);
}

/* Each edge goes to its neighbour; ranks at the border have MPI_PROC_NULL there. */
static void exchange_edges(const struct block* b, double* t) {
    MPI_Sendrecv(&t[at(b, 1, 1)], b->columns, MPI_DOUBLE, b->up, 0, &t[at(b, b->rows + 1, 1)],
                 b->columns, MPI_DOUBLE, b->down, 0, b->grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&t[at(b, b->rows, 1)], b->columns, MPI_DOUBLE, b->down, 1, &t[at(b, 0, 1)],
                 b->columns, MPI_DOUBLE, b->up, 1, b->grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&t[at(b, 1, 1)], 1, b->column, b->left, 2, &t[at(b, 1, b->columns + 1)], 1,
                 b->column, b->right, 2, b->grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&t[at(b, 1, b->columns)], 1, b->column, b->right, 3, &t[at(b, 1, 0)], 1, b->column,
                 b->left, 3, b->grid, MPI_STATUS_IGNORE);
}

/* One step; the greatest change in this block. */
static double step(const struct block* b, const double* old, double* new) {
    double change = 0;
    for (int i = 1; i <= b->rows; ++i) {
        for (int j = 1; j <= b->columns; ++j) {
            int here = at(b, i, j), row = b->first_row + i - 1, column = b->first_column + j - 1;
            if (is_fixed(row, column)) {
                new[here] = fixed_value(row);
            } else {
                new[here] = 0.25 * (old[at(b, i - 1, j)] + old[at(b, i + 1, j)] +
                                    old[at(b, i, j - 1)] + old[at(b, i, j + 1)]);
            }
            change = fmax(change, fabs(new[here] - old[here]));
        }
    }
    return change;
}

/* Rank 0 collects all blocks by adding plates that are zero outside each rank's block. */
static void show(const struct block* b, const double* t) {
    static const char shades[] = " .:-=+*#%@";
    double *mine = calloc(height * width, sizeof(double)), *plate = calloc(height * width, 8);
    int rank;
    for (int i = 1; i <= b->rows; ++i) {
        for (int j = 1; j <= b->columns; ++j) {
            mine[(b->first_row + i - 1) * width + b->first_column + j - 1] = t[at(b, i, j)];
        }
    }
    MPI_Reduce(mine, plate, height * width, MPI_DOUBLE, MPI_SUM, 0, b->grid);
    MPI_Comm_rank(b->grid, &rank);
    for (int i = 0; rank == 0 && i < height; ++i) {
        for (int j = 0; j < width; ++j) putchar(shades[(int)(plate[i * width + j] * 0.0999)]);
        putchar('\n');
    }
    free(mine);
    free(plate);
}

int main(int argc, char** argv) {
    struct block b;
    int rank, size, steps = 0;
    double change = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    make_block(&b);
    double* old = calloc((size_t)(b.rows + 2) * (b.columns + 2), sizeof(double));
    double* new = calloc((size_t)(b.rows + 2) * (b.columns + 2), sizeof(double));
    double begin = MPI_Wtime();
    step(&b, old, new); /* sets the fixed edges */
    while (change > 1e-2 && steps < steps_max) {
        double* turn = old;
        old = new;
        new = turn;
        exchange_edges(&b, old);
        double mine = step(&b, old, new);
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, b.grid);
        ++steps;
    }
    show(&b, new);
    MPI_Comm_rank(b.grid, &rank);
    if (rank == 0) {
        printf("%d ranks, %d steps, last change %.2g, %.3f s\n", size, steps, change,
               MPI_Wtime() - begin);
    }
    free(old);
    free(new);
    MPI_Type_free(&b.column);
    MPI_Comm_free(&b.grid);
    MPI_Finalize();
    return change > 1e-2;
}
