/* Goal: barrier, allreduce, allgather, alltoall, reduce_scatter_block, reduce_scatter, scan and
 * exscan in all forms, in place, with counts around the places where algorithms change. Method:
 * integers whose value tells rank, peer and index; results compared with loops; a guard after each
 * buffer; send buffers stay as they were.
 */
#include "coll_forms.h"

static const int counts[] = {0, 1, 2, 5, 64, 1001, 9973};
enum { count_kinds = sizeof counts / sizeof counts[0], guard = -77 };
static int rank, size;

static void allreduce(enum form f, int n, int in_place, MPI_Comm comm) {
    int *in = new_ints(n, guard), *out = new_ints(n, guard), *expected = new_ints(n, guard), i, r;
    for (i = 0; i < n; ++i) {
        in[i] = element(rank, 1, i);
        for (expected[i] = r = 0; r < size; ++r) expected[i] += element(r, 1, i);
    }
    if (in_place) {
        CHECK_OK(do_allreduce(f, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, comm));
        CHECK_INTS(expected, in, n, guard);
    } else {
        CHECK_OK(do_allreduce(f, in, out, n, MPI_INT, MPI_SUM, comm));
        CHECK_INTS(expected, out, n, guard);
        for (i = 0; i < n && in[i] == element(rank, 1, i); ++i) {
        }
        CHECK_EQ(n, i);
    }
    free(in);
    free(out);
    free(expected);
}

static void allgather(enum form f, int n, int in_place, MPI_Comm comm) {
    int *in = new_ints(n, guard), *out = new_ints((size_t)n * size, guard);
    int *expected = new_ints((size_t)n * size, guard), i, r;
    for (i = 0; i < n; ++i) in[i] = element(rank, 2, i);
    for (r = 0; r < size; ++r) {
        for (i = 0; i < n; ++i) expected[r * n + i] = element(r, 2, i);
    }
    if (in_place) {
        memcpy(out + rank * n, in, (size_t)n * sizeof(int));
        CHECK_OK(do_allgather(f, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, n, MPI_INT, comm));
    } else {
        CHECK_OK(do_allgather(f, in, n, MPI_INT, out, n, MPI_INT, comm));
    }
    CHECK_INTS(expected, out, n * size, guard);
    free(in);
    free(out);
    free(expected);
}

static void alltoall(enum form f, int n, int in_place, MPI_Comm comm) {
    size_t total = (size_t)n * size;
    int *in = new_ints(total, guard), *out = new_ints(total, guard);
    int *expected = new_ints(total, guard), i, r;
    for (r = 0; r < size; ++r) {
        for (i = 0; i < n; ++i) {
            in[r * n + i] = element(rank, r, i);
            expected[r * n + i] = element(r, rank, i);
        }
    }
    if (in_place) {
        memcpy(out, in, total * sizeof(int));
        CHECK_OK(do_alltoall(f, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, n, MPI_INT, comm));
    } else {
        CHECK_OK(do_alltoall(f, in, n, MPI_INT, out, n, MPI_INT, comm));
    }
    CHECK_INTS(expected, out, total, guard);
    free(in);
    free(out);
    free(expected);
}

static void reduce_scatter_block(enum form f, int n, int in_place, MPI_Comm comm) {
    size_t total = (size_t)n * size;
    int *in = new_ints(total, guard), *out = new_ints(n, guard), *expected = new_ints(n, guard);
    int i, r;
    for (i = 0; i < (int)total; ++i) in[i] = element(rank, 4, i);
    for (i = 0; i < n; ++i) {
        for (expected[i] = r = 0; r < size; ++r) expected[i] += element(r, 4, rank * n + i);
    }
    if (in_place) {
        CHECK_OK(do_reduce_scatter_block(f, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, comm));
        CHECK_MEM(expected, in, (size_t)n * sizeof(int));
        CHECK_EQ(guard, in[total]);
    } else {
        CHECK_OK(do_reduce_scatter_block(f, in, out, n, MPI_INT, MPI_SUM, comm));
        CHECK_INTS(expected, out, n, guard);
    }
    free(in);
    free(out);
    free(expected);
}

static void scans(enum form f, int n, int in_place, int exclusive, MPI_Comm comm) {
    int *in = new_ints(n, guard), *out = new_ints(n, guard), *expected = new_ints(n, guard), i, r;
    for (i = 0; i < n; ++i) {
        in[i] = element(rank, 5, i);
        for (expected[i] = r = 0; r < rank + !exclusive; ++r) expected[i] += element(r, 5, i);
    }
    if (in_place) memcpy(out, in, (size_t)n * sizeof(int));
    if (exclusive) {
        CHECK_OK(do_exscan(f, in_place ? MPI_IN_PLACE : in, out, n, MPI_INT, MPI_SUM, comm));
    } else {
        CHECK_OK(do_scan(f, in_place ? MPI_IN_PLACE : in, out, n, MPI_INT, MPI_SUM, comm));
    }
    /* The result of exscan is undefined on rank 0. */
    if (!exclusive || rank > 0) CHECK_INTS(expected, out, n, guard);
    CHECK_EQ(guard, out[n]);
    free(in);
    free(out);
    free(expected);
}

/* Messages sent before the barrier can be probed after it. */
static void barrier(enum form f, MPI_Comm comm) {
    int r, flag, token = 1;
    MPI_Request* sends = malloc((size_t)size * sizeof(MPI_Request));
    for (r = 0; r < size; ++r) CHECK_OK(MPI_Isend(&token, 1, MPI_INT, r, 9, comm, &sends[r]));
    CHECK_OK(do_barrier(f, comm));
    for (r = 0; r < size; ++r) {
        int value = 0;
        for (flag = 0; !flag;) CHECK_OK(MPI_Iprobe(r, 9, comm, &flag, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, r, 9, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(1, value);
    }
    CHECK_OK(MPI_Waitall(size, sends, MPI_STATUSES_IGNORE));
    free(sends);
}

int main(int argc, char** argv) {
    int kind, form, c, place;
    start(&argc, &argv);
    for (kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (form = 0; form < form_count; ++form) {
            for (c = 0; c < count_kinds; ++c) {
                for (place = 0; place < 2; ++place) {
                    enum form f = (enum form)form;
                    int n = counts[c];
                    context("%s, %s, %d elements%s", comm_kind_names[kind], form_names[form], n,
                            place ? ", in place" : "");
                    allreduce(f, n, place, comm);
                    allgather(f, n, place, comm);
                    alltoall(f, n, place, comm);
                    reduce_scatter_block(f, n, place, comm);
                    scans(f, n, place, 0, comm);
                    scans(f, n, place, 1, comm);
                }
            }
            barrier((enum form)form, comm);
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return finish();
}
