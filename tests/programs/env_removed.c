/* Goal: programs of MPI-1 compile with mpi_removed.h and mean the same. Method: a structure
 * described by the removed functions, sent to oneself, and an error handler set by them; other
 * libraries' headers are not asked for these names.
 */
#include "check.h"

#ifdef MPI_ABI_VERSION
#include <mpi_removed.h>

static int calls;
static void count(MPI_Comm* comm, int* code, ...) {
    (void)comm;
    (void)code;
    ++calls;
}

static void datatypes(void) {
    struct pair { int key; double value; } out[3] = {{1, 0.5}, {2, 1.5}, {3, 2.5}}, in[3];
    int lengths[2] = {1, 1}, some[2] = {1, 2};
    MPI_Aint places[2], base, extent, low, high;
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, pair, row, spread;
    context("datatypes");
    CHECK_OK(MPI_Address(&out[0], &base));
    CHECK_OK(MPI_Address(&out[0].key, &places[0]));
    CHECK_OK(MPI_Address(&out[0].value, &places[1]));
    places[0] -= base;
    places[1] -= base;
    CHECK_OK(MPI_Type_struct(2, lengths, places, parts, &pair));
    CHECK_OK(MPI_Type_extent(pair, &extent));
    CHECK_EQ(sizeof out[0], extent);
    CHECK_OK(MPI_Type_commit(&pair));
    memset(in, 0, sizeof in);
    CHECK_OK(MPI_Sendrecv(out, 3, pair, 0, 1, in, 3, pair, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK(in[2].key == 3 && in[2].value == 2.5);
    CHECK_OK(MPI_Type_hvector(2, 1, 40, MPI_INT, &row));
    CHECK_OK(MPI_Type_lb(row, &low));
    CHECK_OK(MPI_Type_ub(row, &high));
    CHECK_EQ(0, low);
    CHECK_EQ(44, high);
    places[0] = -8;
    places[1] = 8;
    CHECK_OK(MPI_Type_hindexed(2, some, places, MPI_INT, &spread));
    CHECK_OK(MPI_Type_lb(spread, &low));
    CHECK_OK(MPI_Type_ub(spread, &high));
    CHECK_EQ(-8, low);
    CHECK_EQ(16, high);
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Type_free(&row));
    CHECK_OK(MPI_Type_free(&spread));
}

static void handlers(void) {
    MPI_Errhandler made, before;
    MPI_Handler_function* function = count;
    context("error handlers");
    CHECK_OK(MPI_Errhandler_create(function, &made));
    CHECK_OK(MPI_Errhandler_get(MPI_COMM_SELF, &before));
    CHECK_OK(MPI_Errhandler_set(MPI_COMM_SELF, made));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_SELF));
    CHECK_EQ(1, calls);
    CHECK_OK(MPI_Errhandler_set(MPI_COMM_SELF, before));
    CHECK_OK(MPI_Errhandler_free(&before));
    CHECK_OK(MPI_Errhandler_free(&made));
}
#endif

int main(int argc, char** argv) {
    start(&argc, &argv);
#ifdef MPI_ABI_VERSION
    datatypes();
    handlers();
    return finish();
#else
    return skip("not the standard ABI");
#endif
}
