/* Goal: collectives of several megabytes, where pipelines and segments are used. Method: doubles
 * whose sums are exact; every element compared; sizes that no power of two divides.
 *
 *     coll_large [DOUBLES]      of one size, for slow lines
 */
#include "coll_forms.h"
#include "counter.h"

static int rank, size;

static double value(int r, size_t i) { return (double)((i * 31 + (size_t)r * 17) % 4096); }

static void one(enum form f, int n) {
    size_t total = (size_t)n * size, i;
    double *in = malloc((total + 1) * sizeof(double)), *out = malloc((total + 1) * sizeof(double));
    int r, bad = 0, root = size / 2;
    context("%s, %d doubles", form_names[f], n);
    for (i = 0; i < total; ++i) in[i] = value(rank, i);
    out[n] = -1;
    CHECK_OK(do_allreduce(f, in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    for (i = 0; i < (size_t)n; ++i) {
        double sum = 0;
        for (r = 0; r < size; ++r) sum += value(r, i);
        bad += sum != out[i];
    }
    CHECK_EQ(0, bad);
    CHECK(out[n] == -1);
    CHECK_OK(do_reduce(f, in, out, n, MPI_DOUBLE, MPI_MAX, root, MPI_COMM_WORLD));
    if (rank == root) {
        for (bad = 0, i = 0; i < (size_t)n; ++i) {
            double best = 0;
            for (r = 0; r < size; ++r) best = value(r, i) > best ? value(r, i) : best;
            bad += best != out[i];
        }
        CHECK_EQ(0, bad);
    }
    for (i = 0; i < (size_t)n; ++i) out[i] = rank == root ? value(root, i + 5) : -1;
    CHECK_OK(do_bcast(f, out, n, MPI_DOUBLE, root, MPI_COMM_WORLD));
    for (bad = 0, i = 0; i < (size_t)n; ++i) bad += out[i] != value(root, i + 5);
    CHECK_EQ(0, bad);
    CHECK_OK(do_allgather(f, in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, MPI_COMM_WORLD));
    for (bad = 0, r = 0; r < size; ++r) {
        for (i = 0; i < (size_t)n; ++i) bad += out[r * (size_t)n + i] != value(r, i);
    }
    CHECK_EQ(0, bad);
    CHECK_OK(do_alltoall(f, in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, MPI_COMM_WORLD));
    for (bad = 0, r = 0; r < size; ++r) {
        for (i = 0; i < (size_t)n; ++i) {
            bad += out[r * (size_t)n + i] != value(r, (size_t)rank * n + i);
        }
    }
    CHECK_EQ(0, bad);
    CHECK_OK(do_reduce_scatter_block(f, in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    for (bad = 0, i = 0; i < (size_t)n; ++i) {
        double sum = 0;
        for (r = 0; r < size; ++r) sum += value(r, (size_t)rank * n + i);
        bad += sum != out[i];
    }
    CHECK_EQ(0, bad);
    free(in);
    free(out);
}

/* The further connections carry something, too: where others use the machine, one may look slow for
   a while, and is looked at again. */
static void all_connections_serve(void) {
    int more = 1, tries;
    for (tries = 0; tries < 100 && more; ++tries) {
        more = counter_now() <= 100000;
        CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, &more, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        if (more) one((enum form)0, 400003);
    }
    CHECK(counter_end() > 100000);
}

int main(int argc, char** argv) {
    int f, only;
    start(&argc, &argv);
    only = argc > 1 ? atoi(argv[1]) : 0;
    if (streams_asked()) counter_start("further_path_bytes");
    else if (reducing_asked()) counter_start("bytes_reduced_in_place");
    rank = check_rank;
    size = check_size;
    for (f = 0; f < form_count; ++f) {
        one((enum form)f, only ? only : 65537);
        if (!only) one((enum form)f, 400003);
    }
    if (streams_asked()) all_connections_serve();
    else if (reducing_asked()) CHECK(counter_end() > 4000000);
    return finish();
}
