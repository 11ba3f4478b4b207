/* Goal: bcast, gather, scatter and reduce in all forms, from every root, in place, with counts
 * around the places where algorithms change. Method: integers whose value tells rank, peer and
 * index; results compared with loops; a guard after each buffer; buffers of ranks where they are
 * not significant stay untouched.
 */
#include "coll_forms.h"

static const int counts[] = {0, 1, 2, 5, 64, 1001, 9973};
enum { count_kinds = sizeof counts / sizeof counts[0], guard = -77 };
static int rank, size;

static void bcast(enum form f, int n, int root, MPI_Comm comm) {
    int *data = new_ints(n, guard), *expected = new_ints(n, guard), i;
    for (i = 0; i < n; ++i) expected[i] = element(root, 0, i);
    if (rank == root) memcpy(data, expected, (size_t)n * sizeof(int));
    CHECK_OK(do_bcast(f, data, n, MPI_INT, root, comm));
    CHECK_INTS(expected, data, n, guard);
    free(data);
    free(expected);
}

static void gather(enum form f, int n, int root, int in_place, MPI_Comm comm) {
    int *all = new_ints((size_t)n * size, guard), *expected = new_ints((size_t)n * size, guard);
    int *mine = new_ints(n, guard), i, r;
    for (i = 0; i < n; ++i) mine[i] = element(rank, 0, i);
    if (rank == root) {
        for (r = 0; r < size; ++r) {
            for (i = 0; i < n; ++i) expected[r * n + i] = element(r, 0, i);
        }
        if (in_place) memcpy(all + rank * n, mine, (size_t)n * sizeof(int));
    }
    if (in_place && rank == root) {
        CHECK_OK(do_gather(f, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, root, comm));
    } else if (rank == root) {
        CHECK_OK(do_gather(f, mine, n, MPI_INT, all, n, MPI_INT, root, comm));
    } else {
        CHECK_OK(do_gather(f, mine, n, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, comm));
    }
    CHECK_INTS(expected, all, n * size, guard);
    free(all);
    free(expected);
    free(mine);
}

static void scatter(enum form f, int n, int root, int in_place, MPI_Comm comm) {
    int *all = new_ints((size_t)n * size, guard), *mine = new_ints(n, guard);
    int *expected = new_ints(n, guard), i, r;
    for (r = 0; r < size; ++r) {
        for (i = 0; i < n; ++i) all[r * n + i] = element(root, r, i);
    }
    for (i = 0; i < n; ++i) expected[i] = in_place && rank == root ? guard : element(root, rank, i);
    if (in_place && rank == root) {
        CHECK_OK(do_scatter(f, all, n, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm));
    } else if (rank == root) {
        CHECK_OK(do_scatter(f, all, n, MPI_INT, mine, n, MPI_INT, root, comm));
    } else {
        CHECK_OK(do_scatter(f, NULL, 0, MPI_DATATYPE_NULL, mine, n, MPI_INT, root, comm));
    }
    CHECK_INTS(expected, mine, n, guard);
    free(all);
    free(mine);
    free(expected);
}

static void reduce(enum form f, int n, int root, int in_place, MPI_Op op, MPI_Comm comm) {
    int *in = new_ints(n, guard), *out = new_ints(n, guard), *expected = new_ints(n, guard), i, r;
    for (i = 0; i < n; ++i) {
        in[i] = element(rank, 3, i);
        if (rank != root) continue;
        expected[i] = element(0, 3, i);
        for (r = 1; r < size; ++r) {
            int other = element(r, 3, i);
            expected[i] = op == MPI_SUM ? expected[i] + other
                                        : (expected[i] > other ? expected[i] : other);
        }
    }
    if (in_place && rank == root) {
        memcpy(out, in, (size_t)n * sizeof(int));
        CHECK_OK(do_reduce(f, MPI_IN_PLACE, out, n, MPI_INT, op, root, comm));
    } else {
        CHECK_OK(do_reduce(f, in, rank == root ? out : NULL, n, MPI_INT, op, root, comm));
    }
    CHECK_INTS(expected, out, n, guard);
    for (i = 0; i < n && in[i] == element(rank, 3, i); ++i) {
    }
    CHECK_EQ(n, i);
    free(in);
    free(out);
    free(expected);
}

int main(int argc, char** argv) {
    int kind, form, c, root, place;
    start(&argc, &argv);
    for (kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (form = 0; form < form_count; ++form) {
            for (c = 0; c < count_kinds; ++c) {
                for (root = 0; root < size; root += kind == 0 && c < 4 ? 1 : (size + 2) / 2) {
                    enum form f = (enum form)form;
                    int n = counts[c];
                    context("%s, %s, %d elements, root %d", comm_kind_names[kind],
                            form_names[form], n, root);
                    bcast(f, n, root, comm);
                    for (place = 0; place < 2; ++place) {
                        gather(f, n, root, place, comm);
                        scatter(f, n, root, place, comm);
                        reduce(f, n, root, place, MPI_SUM, comm);
                    }
                    reduce(f, n, root, 0, MPI_MAX, comm);
                }
            }
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return finish();
}
