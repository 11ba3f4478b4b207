/* Goal: a 2D Jacobi solver as many codes are written: Cartesian grid, halo exchange with column
 * types and sendrecv, a residual by allreduce. Method: the result on any number of ranks equals the
 * one of a sequential run to the last bit.
 */
#include "check.h"
#include <math.h>

enum { n = 48, sweeps = 120 };

static double start_value(int i, int j) { return (i == 0) + 0.5 * (j == n - 1) + 0.25 * (i == j); }

static void sequential(double* u) {
    double* next = malloc(sizeof(double) * n * n);
    for (int i = 0; i < n * n; ++i) u[i] = next[i] = start_value(i / n, i % n);
    for (int s = 0; s < sweeps; ++s) {
        for (int i = 1; i < n - 1; ++i) {
            for (int j = 1; j < n - 1; ++j) {
                next[i * n + j] = 0.25 * ((u[(i - 1) * n + j] + u[(i + 1) * n + j]) +
                                          (u[i * n + j - 1] + u[i * n + j + 1]));
            }
        }
        memcpy(u, next, sizeof(double) * n * n);
    }
    free(next);
}

int main(int argc, char** argv) {
    int dims[2] = {0, 0}, periods[2] = {0, 0}, at[2], up, down, left, right, s, i, j, rank;
    int rows, columns, row0, column0, width, bad = 0;
    double *u, *next, *reference, change = 0, all = 0, *t;
    MPI_Comm grid;
    MPI_Datatype column;
    start(&argc, &argv);
    MPI_Dims_create(check_size, 2, dims);
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid));
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    row0 = n * at[0] / dims[0], rows = n * (at[0] + 1) / dims[0] - row0;
    column0 = n * at[1] / dims[1], columns = n * (at[1] + 1) / dims[1] - column0;
    width = columns + 2;
    u = calloc((size_t)(rows + 2) * width, sizeof(double));
    next = calloc((size_t)(rows + 2) * width, sizeof(double));
    CHECK_OK(MPI_Type_vector(rows, 1, width, MPI_DOUBLE, &column));
    CHECK_OK(MPI_Type_commit(&column));
    for (i = 1; i <= rows; ++i) {
        for (j = 1; j <= columns; ++j) {
            u[i * width + j] = next[i * width + j] = start_value(row0 + i - 1, column0 + j - 1);
        }
    }
    for (s = 0; s < sweeps; ++s) {
        MPI_Sendrecv(u + width + 1, columns, MPI_DOUBLE, up, 1, u + (rows + 1) * width + 1, columns,
                     MPI_DOUBLE, down, 1, grid, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + rows * width + 1, columns, MPI_DOUBLE, down, 2, u + 1, columns, MPI_DOUBLE,
                     up, 2, grid, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + width + 1, 1, column, left, 3, u + width + columns + 1, 1, column, right, 3,
                     grid, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + width + columns, 1, column, right, 4, u + width, 1, column, left, 4, grid,
                     MPI_STATUS_IGNORE);
        for (change = 0, i = 1; i <= rows; ++i) {
            for (j = 1; j <= columns; ++j) {
                int gi = row0 + i - 1, gj = column0 + j - 1;
                if (gi == 0 || gj == 0 || gi == n - 1 || gj == n - 1) continue;
                next[i * width + j] = 0.25 * ((u[(i - 1) * width + j] + u[(i + 1) * width + j]) +
                                              (u[i * width + j - 1] + u[i * width + j + 1]));
                change = fmax(change, fabs(next[i * width + j] - u[i * width + j]));
            }
        }
        t = u, u = next, next = t;
        MPI_Allreduce(&change, &all, 1, MPI_DOUBLE, MPI_MAX, grid);
        CHECK(all >= change);
    }
    reference = malloc(sizeof(double) * n * n);
    sequential(reference);
    for (i = 1; i <= rows; ++i) {
        for (j = 1; j <= columns; ++j) {
            bad += u[i * width + j] != reference[(row0 + i - 1) * n + column0 + j - 1];
        }
    }
    CHECK_EQ(0, bad);
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    free(u), free(next), free(reference);
    return finish();
}
