/* Goal: intercommunicators (MPI-5.0 section 7.6): create, merge, dup, split, queries, point to
 * point and every collective with its two-group meaning. Method: the world's even and odd ranks
 * face one another; values tell group and rank.
 */
#include "coll_forms.h"

static MPI_Comm local, inter;
static int side, rank, size, remote;

static int value(int group, int r, int i) { return group * 100000 + r * 100 + i + 1; }

static void queries(void) {
    int flag = 0, n = -1, result;
    MPI_Group mine, theirs, both;
    MPI_Comm twin;
    context("queries");
    CHECK_OK(MPI_Comm_test_inter(inter, &flag));
    CHECK_EQ(1, flag);
    CHECK_OK(MPI_Comm_size(inter, &n));
    CHECK_EQ(size, n);
    CHECK_OK(MPI_Comm_rank(inter, &n));
    CHECK_EQ(rank, n);
    CHECK_OK(MPI_Comm_remote_size(inter, &n));
    CHECK_EQ(remote, n);
    CHECK_OK(MPI_Comm_group(inter, &mine));
    CHECK_OK(MPI_Comm_remote_group(inter, &theirs));
    CHECK_OK(MPI_Group_size(theirs, &n));
    CHECK_EQ(remote, n);
    CHECK_OK(MPI_Group_intersection(mine, theirs, &both));
    CHECK_OK(MPI_Group_size(both, &n));
    CHECK_EQ(0, n);
    CHECK_OK(MPI_Group_free(&both));
    CHECK_OK(MPI_Group_free(&mine));
    CHECK_OK(MPI_Group_free(&theirs));
    CHECK_OK(MPI_Comm_dup(inter, &twin));
    CHECK_OK(MPI_Comm_compare(inter, twin, &result));
    CHECK_EQ(MPI_CONGRUENT, result);
    CHECK_OK(MPI_Comm_compare(inter, local, &result));
    CHECK_EQ(MPI_UNEQUAL, result);
    CHECK_OK(MPI_Comm_free(&twin));
}

static void messages(void) {
    int r, got = -1, mine = value(side, rank, 0);
    MPI_Status s;
    context("messages");
    for (r = 0; r < remote; ++r) {
        MPI_Request q;
        CHECK_OK(MPI_Isend(&mine, 1, MPI_INT, r, 3, inter, &q));
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, r, 3, inter, &s));
        CHECK_EQ(value(!side, r, 0), got);
        CHECK_EQ(r, s.MPI_SOURCE);
        CHECK_OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    }
}

static void merges(void) {
    MPI_Comm both;
    int high, r = -1, n = -1, first;
    for (high = 0; high < 2; ++high) {
        context("merge, odd side %s", high ? "low" : "high");
        CHECK_OK(MPI_Intercomm_merge(inter, side != high, &both));
        CHECK_OK(MPI_Comm_rank(both, &r));
        CHECK_OK(MPI_Comm_size(both, &n));
        CHECK_EQ(size + remote, n);
        first = (side != high) ? remote : 0;
        CHECK_EQ(first + rank, r);
        CHECK_OK(MPI_Comm_free(&both));
    }
}

/* What root means on this side for an operation rooted at rank 0 of the given side. */
static int root_here(int root_side) {
    if (side != root_side) return 0;
    return rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
}

static void rooted(enum form f, int n, int from) {
    int *data = new_ints((size_t)n * (remote + 1), -5), *expected = new_ints((size_t)n * (remote + 1), -5);
    int *mine = new_ints((size_t)n * (remote + 1), -5), root = root_here(from), i, r;
    context("%s, %d elements, root on side %d", form_names[f], n, from);
    /* bcast: from the root to all of the other side */
    for (i = 0; i < n; ++i) {
        if (root == MPI_ROOT) data[i] = value(side, 0, i);
        if (root == MPI_ROOT) expected[i] = data[i];
        if (side != from) expected[i] = value(from, 0, i);
    }
    CHECK_OK(do_bcast(f, data, n, MPI_INT, root, inter));
    CHECK_INTS(expected, data, n, -5);
    /* gather: from all of the other side to the root */
    for (i = 0; i < n; ++i) mine[i] = value(side, rank, i);
    CHECK_OK(do_gather(f, mine, n, MPI_INT, data, n, MPI_INT, root, inter));
    if (root == MPI_ROOT) {
        for (r = 0; r < remote; ++r) {
            for (i = 0; i < n; ++i) expected[r * n + i] = value(!from, r, i);
        }
        CHECK_INTS(expected, data, n * remote, -5);
    }
    /* scatter */
    for (r = 0; r < remote; ++r) {
        for (i = 0; i < n; ++i) mine[r * n + i] = value(from, r, i);
    }
    CHECK_OK(do_scatter(f, mine, n, MPI_INT, data, n, MPI_INT, root, inter));
    if (side != from) {
        for (i = 0; i < n; ++i) expected[i] = value(from, rank, i);
        CHECK_MEM(expected, data, (size_t)n * sizeof(int));
    }
    /* reduce: sum over the other side */
    for (i = 0; i < n; ++i) mine[i] = value(side, rank, i);
    CHECK_OK(do_reduce(f, mine, data, n, MPI_INT, MPI_SUM, root, inter));
    if (root == MPI_ROOT) {
        for (i = 0; i < n; ++i) {
            for (expected[i] = r = 0; r < remote; ++r) expected[i] += value(!side, r, i);
        }
        CHECK_MEM(expected, data, (size_t)n * sizeof(int));
    }
    free(data);
    free(expected);
    free(mine);
}

/* Arguments that are not significant are not looked at (MPI-5.0 sections 6.4, 6.9.1): no buffer of
 * the root's group but the root's is, and what the root sends is not. */
static MPI_Datatype gapped;

static void add_gapped(void* in, void* inout, int* n, MPI_Datatype* type) {
    (void)type;
    for (int i = 0; i < *n; ++i) ((int*)inout)[2 * i] += ((int*)in)[2 * i];
}

static void insignificant(enum form f, int n, int from) {
    int *mine = new_ints(2 * (size_t)n, -5), *sums = new_ints(2 * (size_t)n, -5);
    int *expected = new_ints(2 * (size_t)n, -5), root = root_here(from), i, r;
    MPI_Op op;
    CHECK_OK(MPI_Op_create(add_gapped, 1, &op));
    context("%s, %d elements with gaps, root on side %d", form_names[f], n, from);
    for (i = 0; i < n; ++i) {
        if (root == MPI_ROOT || side != from) expected[2 * i] = value(from, 0, i);
        if (root == MPI_ROOT) mine[2 * i] = expected[2 * i];
    }
    CHECK_OK(do_bcast(f, mine, n, gapped, root, inter));
    CHECK_INTS(expected, mine, 2 * n, -5);
    if (root == MPI_PROC_NULL) {
        CHECK_OK(do_bcast(f, NULL, n, MPI_DATATYPE_NULL, root, inter));
        CHECK_OK(do_reduce(f, NULL, NULL, 0, MPI_BYTE, MPI_SUM, root, inter));
        CHECK_OK(do_reduce(f, NULL, NULL, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, root, inter));
        CHECK_OK(do_gather(f, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, NULL, 0, MPI_BYTE, root, inter));
        CHECK_OK(do_scatter(f, NULL, 0, MPI_BYTE, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root, inter));
    } else if (root == MPI_ROOT) {
        int *wide = new_ints((size_t)remote * n, -5);
        CHECK_OK(do_bcast(f, mine, n, gapped, root, inter));
        CHECK_OK(do_reduce(f, NULL, sums, n, gapped, op, root, inter));
        for (i = 0; i < n; ++i)
            for (expected[2 * i] = r = 0; r < remote; ++r) expected[2 * i] += value(!side, r, i);
        CHECK_INTS(expected, sums, 2 * n, -5);
        CHECK_OK(do_reduce(f, MPI_IN_PLACE, sums, n, gapped, op, root, inter));
        CHECK_INTS(expected, sums, 2 * n, -5);
        CHECK_OK(do_gather(f, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, wide, n, MPI_INT, root, inter));
        CHECK_OK(do_scatter(f, wide, n, MPI_INT, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root, inter));
        free(wide);
    } else {
        CHECK_OK(do_bcast(f, mine, n, gapped, root, inter));
        for (i = 0; i < n; ++i) mine[2 * i] = value(side, rank, i);
        CHECK_OK(do_reduce(f, mine, NULL, n, gapped, op, root, inter));
        CHECK_OK(do_reduce(f, mine, NULL, n, gapped, op, root, inter));
        CHECK_OK(do_gather(f, mine, n, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, root, inter));
        CHECK_OK(do_scatter(f, NULL, -1, MPI_DATATYPE_NULL, mine, n, MPI_INT, root, inter));
    }
    CHECK_OK(MPI_Op_free(&op));
    free(mine);
    free(sums);
    free(expected);
}

static void all_to_all(enum form f, int n) {
    int both = size + remote;
    int *in = new_ints((size_t)n * both, -5), *out = new_ints((size_t)n * both, -5);
    int *expected = new_ints((size_t)n * both, -5), i, r, k;
    context("%s, %d elements", form_names[f], n);
    for (i = 0; i < n; ++i) in[i] = value(side, rank, i);
    CHECK_OK(do_allreduce(f, in, out, n, MPI_INT, MPI_SUM, inter));
    for (i = 0; i < n; ++i) {
        for (expected[i] = r = 0; r < remote; ++r) expected[i] += value(!side, r, i);
    }
    CHECK_MEM(expected, out, (size_t)n * sizeof(int));
    CHECK_OK(do_allgather(f, in, n, MPI_INT, out, n, MPI_INT, inter));
    for (r = 0; r < remote; ++r) {
        for (i = 0; i < n; ++i) expected[r * n + i] = value(!side, r, i);
    }
    CHECK_MEM(expected, out, (size_t)(n * remote) * sizeof(int));
    for (r = 0; r < remote; ++r) {
        for (i = 0; i < n; ++i) in[r * n + i] = value(side, rank, 10 * r + i);
    }
    CHECK_OK(do_alltoall(f, in, n, MPI_INT, out, n, MPI_INT, inter));
    for (r = 0; r < remote; ++r) {
        for (i = 0; i < n; ++i) expected[r * n + i] = value(!side, r, 10 * rank + i);
    }
    CHECK_MEM(expected, out, (size_t)(n * remote) * sizeof(int));
    /* reduce_scatter_block: both sides' vectors have the same length, n * size * remote here. */
    {
        int part = n * remote, total = n * size * remote;
        int *v = new_ints(total, 0), *w = new_ints(part, -5), *e = new_ints(part, -5);
        for (k = 0; k < total; ++k) v[k] = value(side, rank, k);
        for (k = 0; k < part; ++k) {
            for (e[k] = r = 0; r < remote; ++r) e[k] += value(!side, r, rank * part + k);
        }
        CHECK_OK(do_reduce_scatter_block(f, v, w, part, MPI_INT, MPI_SUM, inter));
        CHECK_INTS(e, w, part, -5);
        free(v), free(w), free(e);
    }
    CHECK_OK(do_barrier(f, inter));
    free(in);
    free(out);
    free(expected);
}

static void splits(void) {
    MPI_Comm part;
    int n = -1, color = rank % 2, expected = remote / 2 + (color == 0 && remote % 2);
    context("split");
    CHECK_OK(MPI_Comm_split(inter, color, 0, &part));
    if (expected == 0) {
        if (part != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&part));
        return;
    }
    CHECK_OK(MPI_Comm_remote_size(part, &n));
    CHECK_EQ(expected, n);
    CHECK_OK(MPI_Comm_rank(part, &n));
    CHECK_EQ(rank / 2, n);
    CHECK_OK(MPI_Comm_free(&part));
}

int main(int argc, char** argv) {
    int f;
    start(&argc, &argv);
    side = check_rank % 2;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, check_rank, &local));
    CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, !side, 12, &inter));
    MPI_Comm_rank(local, &rank);
    MPI_Comm_size(local, &size);
    remote = check_size - size;
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    queries();
    messages();
    merges();
    for (f = 0; f < form_count; ++f) {
        for (int n = 1; n <= 1000; n *= 10) {
            rooted((enum form)f, n, 0);
            rooted((enum form)f, n, 1);
            insignificant((enum form)f, n, 0);
            insignificant((enum form)f, n, 1);
            if (n <= 100) all_to_all((enum form)f, n);
        }
    }
    splits();
    CHECK_OK(MPI_Type_free(&gapped));
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&local));
    return finish();
}
