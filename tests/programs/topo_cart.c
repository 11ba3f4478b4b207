/* Goal: Cartesian topologies (MPI-5.0 section 8.5): create, get, rank, coords, shift, sub, map,
 * dims_create, topology inquiry, inheritance by dup. Method: row-major arithmetic by hand.
 */
#include "check.h"

static void dims_create(void) {
    int n, d, i;
    for (n = 1; n <= 60; ++n) {
        for (d = 1; d <= 4; ++d) {
            int dims[4] = {0, 0, 0, 0}, product = 1;
            context("dims_create of %d in %d", n, d);
            CHECK_OK(MPI_Dims_create(n, d, dims));
            for (i = 0; i < d; ++i) {
                product *= dims[i];
                if (i > 0) CHECK(dims[i - 1] >= dims[i]);
            }
            CHECK_EQ(n, product);
        }
    }
    {
        int fixed[3] = {0, 3, 0}, square[2] = {0, 0}, two[2] = {0, 0};
        context("dims_create with a fixed dimension");
        CHECK_OK(MPI_Dims_create(12, 3, fixed));
        CHECK_EQ(2, fixed[0]);
        CHECK_EQ(3, fixed[1]);
        CHECK_EQ(2, fixed[2]);
        CHECK_OK(MPI_Dims_create(36, 2, square));
        CHECK_EQ(6, square[0]);
        CHECK_EQ(6, square[1]);
        CHECK_OK(MPI_Dims_create(6, 2, two));
        CHECK_EQ(3, two[0]);
        CHECK_EQ(2, two[1]);
        /* Of equal spreads (20 x 18 x 14 too) the one with the greatest small factors. */
        fixed[0] = fixed[1] = fixed[2] = 0;
        CHECK_OK(MPI_Dims_create(5040, 3, fixed));
        CHECK_EQ(21, fixed[0]);
        CHECK_EQ(16, fixed[1]);
        CHECK_EQ(15, fixed[2]);
        fixed[0] = 5, fixed[1] = 0, fixed[2] = 0;
        CHECK(MPI_Dims_create(12, 3, fixed) != MPI_SUCCESS);
    }
}

/* A grid of rows x columns over the first rows * columns ranks, periodic in the columns. */
static void grid(int rows, int columns) {
    int dims[2] = {rows, columns}, periods[2] = {0, 1}, n = rows * columns;
    int got_dims[2], got_periods[2], coords[2], rank, size, kind, i, j, from, to, k, ndims;
    MPI_Comm cart, twin, sub;
    context("grid of %dx%d", rows, columns);
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart));
    if (check_rank >= n) {
        CHECK(cart == MPI_COMM_NULL);
        return;
    }
    CHECK_OK(MPI_Comm_rank(cart, &rank));
    CHECK_OK(MPI_Comm_size(cart, &size));
    CHECK_EQ(check_rank, rank);
    CHECK_EQ(n, size);
    CHECK_OK(MPI_Topo_test(cart, &kind));
    CHECK_EQ(MPI_CART, kind);
    CHECK_OK(MPI_Cartdim_get(cart, &ndims));
    CHECK_EQ(2, ndims);
    CHECK_OK(MPI_Cart_get(cart, 2, got_dims, got_periods, coords));
    for (k = 0; k < 2; ++k) {
        CHECK_EQ(dims[k], got_dims[k]);
        CHECK_EQ(periods[k], got_periods[k]);
    }
    i = rank / columns, j = rank % columns;
    CHECK_EQ(i, coords[0]);
    CHECK_EQ(j, coords[1]);
    for (k = 0; k < n; ++k) {
        int there = -1;
        CHECK_OK(MPI_Cart_coords(cart, k, 2, coords));
        CHECK_EQ(k / columns, coords[0]);
        CHECK_EQ(k % columns, coords[1]);
        coords[1] += columns * (k - 1);
        CHECK_OK(MPI_Cart_rank(cart, coords, &there));
        CHECK_EQ(k, there);
    }
    for (k = -2; k <= 2; ++k) {
        CHECK_OK(MPI_Cart_shift(cart, 0, k, &from, &to));
        CHECK_EQ(i + k >= 0 && i + k < rows ? (i + k) * columns + j : MPI_PROC_NULL, to);
        CHECK_EQ(i - k >= 0 && i - k < rows ? (i - k) * columns + j : MPI_PROC_NULL, from);
        CHECK_OK(MPI_Cart_shift(cart, 1, k, &from, &to));
        CHECK_EQ(i * columns + ((j + k) % columns + columns) % columns, to);
        CHECK_EQ(i * columns + ((j - k) % columns + columns) % columns, from);
    }
    CHECK_OK(MPI_Comm_dup(cart, &twin));
    CHECK_OK(MPI_Topo_test(twin, &kind));
    CHECK_EQ(MPI_CART, kind);
    CHECK_OK(MPI_Comm_free(&twin));
    for (k = 0; k < 4; ++k) {
        int keep[2] = {k & 1, k >> 1}, expected_size = (keep[0] ? rows : 1) * (keep[1] ? columns : 1);
        int expected_rank = keep[0] && keep[1] ? rank : keep[0] ? i : keep[1] ? j : 0;
        CHECK_OK(MPI_Cart_sub(cart, keep, &sub));
        CHECK_OK(MPI_Comm_rank(sub, &from));
        CHECK_OK(MPI_Comm_size(sub, &to));
        CHECK_EQ(expected_rank, from);
        CHECK_EQ(expected_size, to);
        CHECK_OK(MPI_Cartdim_get(sub, &ndims));
        CHECK_EQ(keep[0] + keep[1], ndims);
        CHECK_OK(MPI_Comm_free(&sub));
    }
    CHECK_OK(MPI_Comm_free(&cart));
}

int main(int argc, char** argv) {
    int rows, columns, kind = 0, none[1] = {0}, rank = -5, dims[1], periods[1] = {1};
    MPI_Comm point;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Topo_test(MPI_COMM_WORLD, &kind));
    CHECK_EQ(MPI_UNDEFINED, kind);
    dims_create();
    for (rows = 1; rows <= check_size; ++rows) {
        for (columns = 1; rows * columns <= check_size; ++columns) grid(rows, columns);
    }
    context("grid of no dimensions");
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 0, none, none, 0, &point));
    if (check_rank == 0) {
        CHECK(point != MPI_COMM_NULL);
        CHECK_OK(MPI_Cartdim_get(point, &kind));
        CHECK_EQ(0, kind);
        CHECK_OK(MPI_Comm_free(&point));
    } else {
        CHECK(point == MPI_COMM_NULL);
    }
    context("wrong arguments");
    dims[0] = check_size + 1;
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &point) != MPI_SUCCESS);
    CHECK_CLASS(MPI_ERR_TOPOLOGY, MPI_Cart_rank(MPI_COMM_WORLD, none, &rank));
    dims[0] = check_size;
    CHECK_OK(MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &rank));
    CHECK(rank >= 0 && rank < check_size);
    return finish();
}
