/* trace_app.c: what tests/bench/trace_cost.py measures: a Jacobi iteration on strips of a grid that
 * is closed to a ring, as an application has it (halo rows, a norm every 10th sweep), and messages
 * of 8 bytes, which are nothing but calls. Rank 0 prints seconds of both: of the clock, then of its
 * processor. One rank is its own neighbour, so its processor's time tells what calls cost also on a
 * machine that is busy with something else. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 512, ROWS = 256, SWEEPS = 1000, TURNS = 200000 };

struct Times {
    double wall, cpu;
};
static struct Times now(void) {
    return (struct Times){MPI_Wtime(), (double)clock() / CLOCKS_PER_SEC};
}
static struct Times since(struct Times start) {
    struct Times end = now();
    return (struct Times){end.wall - start.wall, end.cpu - start.cpu};
}

static struct Times jacobi(int rank, int size) {
    double* old = calloc((ROWS + 2) * WIDTH, sizeof *old);
    double* new = calloc((ROWS + 2) * WIDTH, sizeof *new);
    int up = (rank + size - 1) % size, down = (rank + 1) % size;
    for (int i = 0; i < WIDTH; ++i) old[i] = new[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    struct Times start = now();
    double norm = 0, all = 0;
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        MPI_Request requests[4];
        MPI_Irecv(old, WIDTH, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, requests);
        MPI_Irecv(old + (ROWS + 1) * WIDTH, WIDTH, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, requests + 1);
        MPI_Isend(old + WIDTH, WIDTH, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, requests + 2);
        MPI_Isend(old + ROWS * WIDTH, WIDTH, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, requests + 3);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        norm = 0;
        for (int y = 1; y <= ROWS; ++y)
            for (int x = 1; x < WIDTH - 1; ++x) {
                double* at = old + y * WIDTH + x;
                double value = 0.25 * (at[-1] + at[1] + at[-WIDTH] + at[WIDTH]);
                norm += (value - *at) * (value - *at);
                new[y * WIDTH + x] = value;
            }
        if (sweep % 10 == 0)
            MPI_Allreduce(&norm, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        double* other = old;
        old = new, new = other;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    struct Times out = since(start);
    free(old), free(new);
    return out;
}

static struct Times messages(int rank, int size) {
    char out[8] = {0}, in[8];
    MPI_Barrier(MPI_COMM_WORLD);
    struct Times start = now();
    for (int i = 0; i < TURNS; ++i)
        MPI_Sendrecv(out, 8, MPI_CHAR, (rank + 1) % size, 3, in, 8, MPI_CHAR, (rank + size - 1) % size, 3,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct Times whole = since(start);
    return (struct Times){whole.wall / TURNS, whole.cpu / TURNS};
}

int main(int argc, char** argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct Times app = jacobi(rank, size), each = messages(rank, size);
    if (rank == 0) printf("%.9f %.9f %.9f %.9f\n", app.wall, app.cpu, each.wall, each.cpu);
    MPI_Finalize();
    return 0;
}
