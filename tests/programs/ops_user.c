/* Goal: user-defined operations, commutative and not, on predefined and derived types, in every
 * collective that reduces (MPI-5.0 section 6.9.5): operands in rank order where the operation does
 * not commute. Method: 2x2 matrices modulo a prime (associative, not commutative); the product over
 * ranks in order is the reference.
 */
#include "coll_forms.h"

enum { prime = 9973 };
struct matrix { int a, b, c, d; };

static struct matrix times(struct matrix x, struct matrix y) {
    struct matrix z = {(x.a * y.a + x.b * y.c) % prime, (x.a * y.b + x.b * y.d) % prime,
                       (x.c * y.a + x.d * y.c) % prime, (x.c * y.b + x.d * y.d) % prime};
    return z;
}

static int calls, wrong_type;
static MPI_Datatype matrix_type;

static void multiply(void* in, void* inout, int* n, MPI_Datatype* type) {
    struct matrix *x = in, *y = inout;
    ++calls;
    if (*type != matrix_type) wrong_type = 1;
    for (int i = 0; i < *n; ++i) y[i] = times(x[i], y[i]);
}

static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
    int *x = in, *y = inout;
    (void)type;
    ++calls;
    for (int i = 0; i < *n; ++i) y[i] += x[i];
}

static struct matrix make(int rank, int i) {
    struct matrix m = {1 + (rank * 3 + i) % 7, 2 + (rank + i) % 5, rank % 3, 1 + i % 4};
    return m;
}

/* Product of ranks from first to last at index i. */
static struct matrix product(int first, int last, int i) {
    struct matrix m = make(first, i);
    for (int r = first + 1; r <= last; ++r) m = times(m, make(r, i));
    return m;
}

static int rank, size;

static void check_matrices(const struct matrix* found, int n, int first, int last, int shift) {
    int i;
    for (i = 0; i < n; ++i) {
        struct matrix e = product(first, last, i + shift);
        if (memcmp(&e, &found[i], sizeof e) != 0) break;
    }
    CHECK_EQ(n, i);
}

static void not_commutative(enum form f, int n, MPI_Op op, MPI_Comm comm) {
    size_t all = (size_t)n * size + 1;
    struct matrix *in = malloc(all * sizeof *in), *out = malloc(all * sizeof *out);
    MPI_Datatype t = matrix_type;
    int i, root;
    for (i = 0; i < n * size; ++i) in[i] = make(rank, i);
    CHECK_OK(do_allreduce(f, in, out, n, t, op, comm));
    check_matrices(out, n, 0, size - 1, 0);
    for (root = 0; root < size; ++root) {
        memset(out, 0, all * sizeof *out);
        CHECK_OK(do_reduce(f, in, out, n, t, op, root, comm));
        if (rank == root) check_matrices(out, n, 0, size - 1, 0);
    }
    CHECK_OK(do_scan(f, in, out, n, t, op, comm));
    check_matrices(out, n, 0, rank, 0);
    CHECK_OK(do_exscan(f, in, out, n, t, op, comm));
    if (rank > 0) check_matrices(out, n, 0, rank - 1, 0);
    CHECK_OK(do_reduce_scatter_block(f, in, out, n, t, op, comm));
    check_matrices(out, n, 0, size - 1, rank * n);
    memcpy(out, in, all * sizeof *out);
    CHECK_OK(do_allreduce(f, MPI_IN_PLACE, out, n, t, op, comm));
    check_matrices(out, n, 0, size - 1, 0);
    free(in);
    free(out);
}

static void commutative(enum form f, int n, MPI_Op op, MPI_Comm comm) {
    int *in = new_ints(n, 0), *out = new_ints(n, -9), *expected = new_ints(n, -9), i, r;
    for (i = 0; i < n; ++i) {
        in[i] = element(rank, 0, i);
        for (expected[i] = r = 0; r < size; ++r) expected[i] += element(r, 0, i);
    }
    CHECK_OK(do_allreduce(f, in, out, n, MPI_INT, op, comm));
    CHECK_INTS(expected, out, n, -9);
    free(in);
    free(out);
    free(expected);
}

static void queries(MPI_Op ordered, MPI_Op free_order) {
    int flag = -1, i;
    MPI_Op all[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR,
                    MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    CHECK_OK(MPI_Op_commutative(ordered, &flag));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Op_commutative(free_order, &flag));
    CHECK_EQ(1, flag);
    for (i = 0; i < 12; ++i) {
        CHECK_OK(MPI_Op_commutative(all[i], &flag));
        CHECK_EQ(1, flag);
    }
}

int main(int argc, char** argv) {
    static const int counts[] = {1, 2, 33, 1500};
    MPI_Op ordered, free_order;
    int kind, form, c;
    struct matrix x = {1, 2, 3, 4}, y = {5, 6, 7, 8}, z = times(x, y);
    start(&argc, &argv);
    CHECK_OK(MPI_Type_contiguous(4, MPI_INT, &matrix_type));
    CHECK_OK(MPI_Type_commit(&matrix_type));
    CHECK_OK(MPI_Op_create(multiply, 0, &ordered));
    CHECK_OK(MPI_Op_create(add, 1, &free_order));
    queries(ordered, free_order);
    CHECK_OK(MPI_Reduce_local(&x, &y, 1, matrix_type, ordered));
    CHECK_MEM(&z, &y, sizeof z);
    for (kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (form = 0; form < form_count; ++form) {
            for (c = 0; c < 4; ++c) {
                context("%s, %s, %d elements", comm_kind_names[kind], form_names[form], counts[c]);
                not_commutative((enum form)form, counts[c], ordered, comm);
                commutative((enum form)form, counts[c], free_order, comm);
            }
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK(calls > 0);
    CHECK_EQ(0, wrong_type);
    CHECK_OK(MPI_Op_free(&ordered));
    CHECK(ordered == MPI_OP_NULL);
    CHECK_OK(MPI_Op_free(&free_order));
    CHECK_OK(MPI_Type_free(&matrix_type));
    return finish();
}
