/* Goal: a 2D Fourier transform with a transpose by MPI_Alltoall between the two directions. Method:
 * a forward transform of a plane wave has one non-zero coefficient; the inverse returns the input.
 */
#include "check.h"
#include <complex.h>
#include <math.h>

static int n, rows;

/* Radix-2, in place; n is a power of two. */
static void transform(double complex* x, int sign) {
    for (int i = 1, j = 0; i < n; ++i) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int length = 2; length <= n; length <<= 1) {
        double angle = sign * 2 * 3.14159265358979323846 / length;
        for (int i = 0; i < n; i += length) {
            for (int k = 0; k < length / 2; ++k) {
                double complex w = cos(angle * k) + sin(angle * k) * I;
                double complex u = x[i + k], v = x[i + k + length / 2] * w;
                x[i + k] = u + v;
                x[i + k + length / 2] = u - v;
            }
        }
    }
}

static void transpose(double complex* x, double complex* out, double complex* in) {
    for (int r = 0; r < check_size; ++r) {
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < rows; ++j) {
                out[(r * rows + i) * rows + j] = x[j * n + r * rows + i];
            }
        }
    }
    CHECK_OK(MPI_Alltoall(out, rows * rows, MPI_C_DOUBLE_COMPLEX, in, rows * rows,
                          MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD));
    for (int r = 0; r < check_size; ++r) {
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < rows; ++j) x[i * n + r * rows + j] = in[(r * rows + i) * rows + j];
        }
    }
}

static void transform_2d(double complex* x, double complex* a, double complex* b, int sign) {
    for (int i = 0; i < rows; ++i) transform(x + (size_t)i * n, sign);
    transpose(x, a, b);
    for (int i = 0; i < rows; ++i) transform(x + (size_t)i * n, sign);
    transpose(x, a, b);
}

int main(int argc, char** argv) {
    double complex *x, *a, *b;
    double worst = 0, all = 0;
    int i, j, row;
    start(&argc, &argv);
    n = 64;
    if (n % check_size) return skip("ranks must divide 64");
    rows = n / check_size;
    x = malloc(sizeof *x * (size_t)(n * rows)), a = malloc(sizeof *x * (size_t)(n * rows));
    b = malloc(sizeof *x * (size_t)(n * rows));
    for (i = 0; i < rows; ++i) {
        row = check_rank * rows + i;
        for (j = 0; j < n; ++j) x[i * n + j] = cexp(2 * 3.14159265358979323846 * I * (5 * row + 9 * j) / n);
    }
    transform_2d(x, a, b, -1);
    for (i = 0; i < rows; ++i) {
        row = check_rank * rows + i;
        for (j = 0; j < n; ++j) {
            double expected = row == 5 && j == 9 ? (double)n * n : 0;
            worst = fmax(worst, cabs(x[i * n + j] - expected));
        }
    }
    transform_2d(x, a, b, 1);
    for (i = 0; i < rows; ++i) {
        row = check_rank * rows + i;
        for (j = 0; j < n; ++j) {
            double complex e = cexp(2 * 3.14159265358979323846 * I * (5 * row + 9 * j) / n);
            worst = fmax(worst, cabs(x[i * n + j] / ((double)n * n) - e));
        }
    }
    CHECK_OK(MPI_Allreduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    CHECK(all < 1e-8);
    free(x), free(a), free(b);
    return finish();
}
