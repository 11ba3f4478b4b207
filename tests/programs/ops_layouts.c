/* Goal: reductions on datatypes whose elements reach into each other's extent: the true extent is
 * longer than the extent, which may be zero or negative (MPI-5.0 sections 5.1.7, 6.9.5). Method:
 * pairs (a, b) that stand for x -> a x + b, whose composition does not commute, with all a's in one
 * run and all b's in another; results are compared with the composition in rank order, and all
 * other bytes must stay.
 */
#include "coll_forms.h"

enum { prime = 9973, guard = -9 };
struct map { int a, b; };
/* Element i has its numbers at the ints `extent` * i + a and + b from the buffer's address. */
struct layout { const char* name; int extent, a, b; };

static struct layout now;
static MPI_Datatype type_now;
static int rank, size, wrong_type;

static struct map after(struct map x, struct map y) {
    struct map z = {x.a * y.a % prime, (x.a * y.b + x.b) % prime};
    return z;
}
static struct map make(int r, int i) {
    struct map m = {2 + (r * 5 + i) % 11, (r * 7 + i * 3) % 13};
    return m;
}
static struct map all_of(int first, int last, int i) {
    struct map m = make(first, i);
    for (int r = first + 1; r <= last; ++r) m = after(m, make(r, i));
    return m;
}

static struct map get(const int* buffer, int i) {
    struct map m = {buffer[now.extent * i + now.a], buffer[now.extent * i + now.b]};
    return m;
}
static void set(int* buffer, int i, struct map m) {
    buffer[now.extent * i + now.a] = m.a;
    buffer[now.extent * i + now.b] = m.b;
}
static void compose(void* in, void* inout, int* n, MPI_Datatype* type) {
    if (*type != type_now) wrong_type = 1;
    for (int i = 0; i < *n; ++i) set(inout, i, after(get(in, i), get(inout, i)));
}

/* Room for `most` elements of any layout on both sides of the address that is returned. */
static int reach(int most) { return 4 * most + 8; }
static int* new_elements(int most) { return new_ints(2 * reach(most), guard) + reach(most); }
static void free_elements(int* data, int most) { free(data - reach(most)); }

static void check_maps(int* out, int most, int n, int first, int last, int shift) {
    int* expected = new_elements(most);
    for (int i = 0; i < n; ++i) set(expected, i, all_of(first, last, i + shift));
    CHECK_INTS(expected - reach(most), out - reach(most), 2 * reach(most), guard);
    for (int i = -reach(most); i < reach(most); ++i) out[i] = guard;
    free_elements(expected, most);
}

static void reductions(enum form f, int n, MPI_Op op, MPI_Comm comm) {
    int most = n * size, root, i;
    int *in = new_elements(most), *out = new_elements(most);
    MPI_Datatype t = type_now;
    for (i = 0; i < most; ++i) set(in, i, make(rank, i));
    CHECK_OK(do_allreduce(f, in, out, n, t, op, comm));
    check_maps(out, most, n, 0, size - 1, 0);
    for (root = 0; root < size; ++root) {
        CHECK_OK(do_reduce(f, in, out, n, t, op, root, comm));
        if (rank == root) check_maps(out, most, n, 0, size - 1, 0);
    }
    CHECK_OK(do_scan(f, in, out, n, t, op, comm));
    check_maps(out, most, n, 0, rank, 0);
    CHECK_OK(do_exscan(f, in, out, n, t, op, comm));
    if (rank > 0) check_maps(out, most, n, 0, rank - 1, 0);
    CHECK_OK(do_reduce_scatter_block(f, in, out, n, t, op, comm));
    check_maps(out, most, n, 0, size - 1, rank * n);
    for (i = 0; i < n; ++i) set(out, i, get(in, i));
    CHECK_OK(do_allreduce(f, MPI_IN_PLACE, out, n, t, op, comm));
    check_maps(out, most, n, 0, size - 1, 0);
    free_elements(in, most);
    free_elements(out, most);
}

static void try_layout(enum form f, struct layout layout, int n, MPI_Op op, MPI_Comm comm) {
    int places[2] = {layout.a, layout.b};
    MPI_Datatype pair;
    context("%s, %d elements, %s", layout.name, n, form_names[f]);
    now = layout;
    CHECK_OK(MPI_Type_create_indexed_block(2, 1, places, MPI_INT, &pair));
    CHECK_OK(MPI_Type_create_resized(pair, 0, layout.extent * (MPI_Aint)sizeof(int), &type_now));
    CHECK_OK(MPI_Type_commit(&type_now));
    reductions(f, n, op, comm);
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Type_free(&type_now));
}

int main(int argc, char** argv) {
    static const int counts[] = {1, 2, 50, 3000};
    MPI_Op op;
    start(&argc, &argv);
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    for (int kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (int form = 0; form < form_count; ++form)
            for (int c = 0; c < 4; ++c) {
                int n = counts[c], all = n * size;
                struct layout layouts[] = {{"reaching up", 1, 0, all},
                                           {"reaching down", 1, 0, -all},
                                           {"with a hole each", 3, 0, 2},
                                           {"backwards", -1, 0, all},
                                           {"of no extent", 0, 0, 1}};
                for (int l = 0; l < 5; ++l)
                    if (layouts[l].extent != 0 || all == 1)
                        try_layout((enum form)form, layouts[l], n, op, comm);
            }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_EQ(0, wrong_type);
    CHECK_OK(MPI_Op_free(&op));
    return finish();
}
