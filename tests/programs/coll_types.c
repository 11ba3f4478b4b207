/* Goal: collectives with derived datatypes: different types of one signature on the two sides,
 * resized extents for columns, user operations on derived types (MPI-5.0 section 6.1). Method:
 * matrices distributed by columns and rows, compared element by element.
 */
#include "coll_forms.h"

enum { rows = 13, guard = -77 };
static int rank, size;

/* Column type of a rows x width matrix, extent of one int. */
static MPI_Datatype column(int width) {
    MPI_Datatype strided, out;
    CHECK_OK(MPI_Type_vector(rows, 1, width, MPI_INT, &strided));
    CHECK_OK(MPI_Type_create_resized(strided, 0, sizeof(int), &out));
    CHECK_OK(MPI_Type_commit(&out));
    CHECK_OK(MPI_Type_free(&strided));
    return out;
}

/* Columns of the root's matrix go to the ranks as contiguous ints, and back. */
static void columns(enum form f, MPI_Comm comm) {
    int *matrix = new_ints(rows * size, guard), *mine = new_ints(rows, guard);
    int *again = new_ints(rows * size, guard), i, r;
    MPI_Datatype col = column(size);
    for (i = 0; i < rows; ++i) {
        for (r = 0; r < size; ++r) matrix[i * size + r] = element(r, 0, i);
    }
    CHECK_OK(do_scatter(f, matrix, 1, col, mine, rows, MPI_INT, 0, comm));
    for (i = 0; i < rows && mine[i] == element(rank, 0, i); ++i) {
    }
    CHECK_EQ(rows, i);
    CHECK_OK(do_gather(f, mine, rows, MPI_INT, again, 1, col, size - 1, comm));
    if (rank == size - 1) CHECK_INTS(matrix, again, rows * size, guard);
    for (i = 0; i < rows * size; ++i) again[i] = guard;
    CHECK_OK(do_allgather(f, mine, rows, MPI_INT, again, 1, col, comm));
    CHECK_INTS(matrix, again, rows * size, guard);
    CHECK_OK(MPI_Type_free(&col));
    free(matrix);
    free(mine);
    free(again);
}

/* Transpose of a matrix whose rows are spread: alltoall of blocks, strided out, contiguous in. */
static void transpose(enum form f, MPI_Comm comm) {
    enum { block = 4 };
    int width = block * size, i, j, bad = 0;
    int *mine = new_ints((size_t)block * width, guard), *out = new_ints((size_t)block * width, guard);
    MPI_Datatype strided, tile, in_tile;
    for (i = 0; i < block; ++i) {
        for (j = 0; j < width; ++j) mine[i * width + j] = (rank * block + i) * 1000 + j;
    }
    /* A tile read by columns. */
    CHECK_OK(MPI_Type_vector(block, 1, width, MPI_INT, &strided));
    CHECK_OK(MPI_Type_create_hvector(block, 1, sizeof(int), strided, &tile));
    CHECK_OK(MPI_Type_free(&strided));
    CHECK_OK(MPI_Type_create_resized(tile, 0, block * sizeof(int), &strided));
    CHECK_OK(MPI_Type_free(&tile));
    CHECK_OK(MPI_Type_commit(&strided));
    /* A tile written by rows. */
    CHECK_OK(MPI_Type_vector(block, block, width, MPI_INT, &tile));
    CHECK_OK(MPI_Type_create_resized(tile, 0, block * sizeof(int), &in_tile));
    CHECK_OK(MPI_Type_free(&tile));
    CHECK_OK(MPI_Type_commit(&in_tile));
    CHECK_OK(do_alltoall(f, mine, 1, strided, out, 1, in_tile, comm));
    for (i = 0; i < block; ++i) {
        for (j = 0; j < width; ++j) bad += out[i * width + j] != j * 1000 + rank * block + i;
    }
    CHECK_EQ(0, bad);
    CHECK_EQ(guard, out[block * width]);
    CHECK_OK(MPI_Type_free(&strided));
    CHECK_OK(MPI_Type_free(&in_tile));
    free(mine);
    free(out);
}

/* Broadcast of every other element to contiguous ones. */
static void bcast(enum form f, MPI_Comm comm) {
    enum { n = 3001 };
    int *data = new_ints(2 * n, guard), i, bad = 0, root = size / 2;
    MPI_Datatype strided;
    CHECK_OK(MPI_Type_vector(n, 1, 2, MPI_INT, &strided));
    CHECK_OK(MPI_Type_commit(&strided));
    if (rank == root) {
        for (i = 0; i < n; ++i) data[2 * i] = element(root, 1, i);
        CHECK_OK(do_bcast(f, data, 1, strided, root, comm));
    } else if (rank % 2) {
        CHECK_OK(do_bcast(f, data, 1, strided, root, comm));
    } else {
        CHECK_OK(do_bcast(f, data, n, MPI_INT, root, comm));
    }
    for (i = 0; i < n; ++i) {
        int there = rank == root || rank % 2 ? data[2 * i] : data[i];
        bad += there != element(root, 1, i);
    }
    CHECK_EQ(0, bad);
    CHECK_EQ(guard, rank == root || rank % 2 ? data[1] : data[n]);
    CHECK_OK(MPI_Type_free(&strided));
    free(data);
}

struct point { double x; int weight; };
static void add_points(void* in, void* inout, int* n, MPI_Datatype* type) {
    struct point *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *n; ++i) {
        b[i].x += a[i].x;
        b[i].weight += a[i].weight;
    }
}

/* A struct with padding, reduced by a user operation. */
static void structs(enum form f, MPI_Comm comm) {
    enum { n = 700 };
    struct point in[n], out[n];
    MPI_Datatype type, parts[2] = {MPI_DOUBLE, MPI_INT};
    int lengths[2] = {1, 1}, i, r, bad = 0;
    MPI_Aint at[2] = {0, sizeof(double)};
    MPI_Op op;
    CHECK_OK(MPI_Type_create_struct(2, lengths, at, parts, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Op_create(add_points, 1, &op));
    for (i = 0; i < n; ++i) {
        in[i].x = rank * 0.5 + i;
        in[i].weight = rank + i;
    }
    CHECK_OK(do_allreduce(f, in, out, n, type, op, comm));
    for (i = 0; i < n; ++i) {
        double x = 0;
        int weight = 0;
        for (r = 0; r < size; ++r) x += r * 0.5 + i, weight += r + i;
        bad += out[i].x != x || out[i].weight != weight;
    }
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char** argv) {
    int kind, f;
    start(&argc, &argv);
    for (kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (f = 0; f < form_count; ++f) {
            context("%s, %s", comm_kind_names[kind], form_names[f]);
            columns((enum form)f, comm);
            transpose((enum form)f, comm);
            bcast((enum form)f, comm);
            structs((enum form)f, comm);
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return finish();
}
