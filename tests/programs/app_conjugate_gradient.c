/* Goal: a conjugate-gradient solver with non-blocking halo messages and dot products by allreduce,
 * as in miniFE and HPCG. Method: the solution of a 3D Poisson problem is known.
 */
#include "check.h"
#include <math.h>

enum { nx = 12, ny = 12, plane = nx * ny };
static int layers;

static double dot(const double* a, const double* b) {
    double mine = 0, sum = 0;
    for (int i = 0; i < layers * plane; ++i) mine += a[i] * b[i];
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* y = A x of the 7-point operator; x has a halo plane below and above. */
static void apply(double* x, double* y) {
    MPI_Request r[4];
    int below = check_rank > 0 ? check_rank - 1 : MPI_PROC_NULL;
    int above = check_rank < check_size - 1 ? check_rank + 1 : MPI_PROC_NULL;
    double* first = x + plane;
    MPI_Irecv(x, plane, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(first + layers * plane, plane, MPI_DOUBLE, above, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Isend(first, plane, MPI_DOUBLE, below, 2, MPI_COMM_WORLD, &r[2]);
    MPI_Isend(first + (layers - 1) * plane, plane, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &r[3]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    for (int k = 0; k < layers; ++k) {
        for (int j = 0; j < ny; ++j) {
            for (int i = 0; i < nx; ++i) {
                const double* c = first + k * plane + j * nx + i;
                double sum = 6 * c[0] - c[-plane] - c[plane];
                if (i > 0) sum -= c[-1];
                if (i < nx - 1) sum -= c[1];
                if (j > 0) sum -= c[-nx];
                if (j < ny - 1) sum -= c[nx];
                y[k * plane + j * nx + i] = sum;
            }
        }
    }
}

int main(int argc, char** argv) {
    int total = 24, n, i, steps, first;
    double *x, *r, *p, *q, *exact, rr, error = 0, worst = 0;
    start(&argc, &argv);
    first = total * check_rank / check_size;
    layers = total * (check_rank + 1) / check_size - first;
    n = layers * plane;
    x = calloc((size_t)n, 8), r = calloc((size_t)n, 8), q = calloc((size_t)n, 8);
    p = calloc((size_t)n + 2 * plane, 8), exact = calloc((size_t)n + 2 * plane, 8);
    for (i = 0; i < n; ++i) exact[plane + i] = sin(0.1 * (first * plane + i)) + 1;
    apply(exact, r);
    memcpy(p + plane, r, (size_t)n * 8);
    rr = dot(r, r);
    for (steps = 0; steps < 300 && rr > 1e-20; ++steps) {
        double alpha, next;
        apply(p, q);
        alpha = rr / dot(p + plane, q);
        for (i = 0; i < n; ++i) x[i] += alpha * p[plane + i], r[i] -= alpha * q[i];
        next = dot(r, r);
        for (i = 0; i < n; ++i) p[plane + i] = r[i] + next / rr * p[plane + i];
        rr = next;
    }
    CHECK(steps < 300);
    for (i = 0; i < n; ++i) error = fmax(error, fabs(x[i] - exact[plane + i]));
    MPI_Reduce(&error, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (check_rank == 0) CHECK(worst < 1e-8);
    free(x), free(r), free(p), free(q), free(exact);
    return finish();
}
