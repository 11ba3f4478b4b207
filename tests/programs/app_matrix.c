/* Goal: matrix product on a grid of processes with row and column communicators made by
 * MPI_Comm_split, broadcasting blocks (SUMMA). Method: each element compared with its formula.
 */
#include "check.h"

int main(int argc, char** argv) {
    enum { b = 20 };
    int dims[2] = {0, 0}, row, column, k, i, j, l, panels, bad = 0, n;
    double a[b * b], bb[b * b], c[b * b] = {0}, pa[b * b], pb[b * b];
    MPI_Comm rows, columns;
    start(&argc, &argv);
    CHECK_OK(MPI_Dims_create(check_size, 2, dims));
    row = check_rank / dims[1], column = check_rank % dims[1];
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, row, column, &rows));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, column, row, &columns));
    /* A is (dims0 b) x (panels b), B is (panels b) x (dims1 b); panels are dealt round robin. */
    panels = 6;
    n = panels * b;
    for (k = 0; k < panels; ++k) {
        for (i = 0; i < b; ++i) {
            for (j = 0; j < b; ++j) {
                a[i * b + j] = (row * b + i) + (k * b + j);
                bb[i * b + j] = (k * b + i) - (column * b + j);
            }
        }
        if (column == k % dims[1]) memcpy(pa, a, sizeof pa);
        if (row == k % dims[0]) memcpy(pb, bb, sizeof pb);
        CHECK_OK(MPI_Bcast(pa, b * b, MPI_DOUBLE, k % dims[1], rows));
        CHECK_OK(MPI_Bcast(pb, b * b, MPI_DOUBLE, k % dims[0], columns));
        for (i = 0; i < b; ++i) {
            for (l = 0; l < b; ++l) {
                for (j = 0; j < b; ++j) c[i * b + j] += pa[i * b + l] * pb[l * b + j];
            }
        }
    }
    for (i = 0; i < b; ++i) {
        for (j = 0; j < b; ++j) {
            double sum = 0;
            for (k = 0; k < n; ++k) {
                sum += ((double)(row * b + i) + k) * ((double)k - (column * b + j));
            }
            bad += c[i * b + j] != sum;
        }
    }
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Comm_free(&rows));
    CHECK_OK(MPI_Comm_free(&columns));
    return finish();
}
