/* Goal: the forms with MPI_Count of point to point, datatypes, packing and queries behave as the
 * int forms, and hold sizes beyond int (MPI-5.0 section 19.2). Method: small messages through every
 * _c call; types of more than 2 GiB that only describe, never move, memory.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 0)
static int to, from;

static void messages(void) {
    int out[100], in[100], i, position_i = 0;
    MPI_Count n = 100, got = -1, position = 0, size = -1;
    MPI_Request r, s;
    MPI_Status status;
    MPI_Message m;
    char packed[600];
    for (i = 0; i < 100; ++i) out[i] = check_rank * 1000 + i;
#define RECEIVED()                                                     \
    do {                                                               \
        CHECK_OK(MPI_Get_count_c(&status, MPI_INT, &got));             \
        CHECK_EQ(100, got);                                            \
        for (i = 0; i < 100 && in[i] == from * 1000 + i; ++i) {        \
        }                                                              \
        CHECK_EQ(100, i);                                              \
        memset(in, 0, sizeof in);                                      \
    } while (0)
    context("irecv, send");
    CHECK_OK(MPI_Irecv_c(in, n, MPI_INT, from, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Send_c(out, n, MPI_INT, to, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&r, &status));
    RECEIVED();
    context("irecv, ssend");
    CHECK_OK(MPI_Irecv_c(in, n, MPI_INT, from, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Ssend_c(out, n, MPI_INT, to, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&r, &status));
    RECEIVED();
    context("isend, recv");
    CHECK_OK(MPI_Isend_c(out, n, MPI_INT, to, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Recv_c(in, n, MPI_INT, from, 1, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    RECEIVED();
    context("issend, mprobe, mrecv");
    CHECK_OK(MPI_Issend_c(out, n, MPI_INT, to, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Mprobe(from, 1, MPI_COMM_WORLD, &m, &status));
    CHECK_OK(MPI_Mrecv_c(in, n, MPI_INT, &m, &status));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    RECEIVED();
    context("isend, mprobe, imrecv");
    CHECK_OK(MPI_Isend_c(out, n, MPI_INT, to, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Mprobe(from, 1, MPI_COMM_WORLD, &m, &status));
    CHECK_OK(MPI_Imrecv_c(in, n, MPI_INT, &m, &s));
    CHECK_OK(MPI_Wait(&s, &status));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    RECEIVED();
    context("send_init, recv_init");
    CHECK_OK(MPI_Send_init_c(out, n, MPI_INT, to, 1, MPI_COMM_WORLD, &s));
    CHECK_OK(MPI_Recv_init_c(in, n, MPI_INT, from, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Start(&r));
    CHECK_OK(MPI_Start(&s));
    CHECK_OK(MPI_Wait(&r, &status));
    CHECK_OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    RECEIVED();
    CHECK_OK(MPI_Request_free(&r));
    CHECK_OK(MPI_Request_free(&s));
    context("sendrecv");
    CHECK_OK(MPI_Sendrecv_c(out, n, MPI_INT, to, 1, in, n, MPI_INT, from, 1, MPI_COMM_WORLD,
                            &status));
    RECEIVED();
    memcpy(in, out, sizeof in);
    CHECK_OK(MPI_Sendrecv_replace_c(in, n, MPI_INT, to, 1, from, 1, MPI_COMM_WORLD, &status));
    RECEIVED();
    context("pack");
    CHECK_OK(MPI_Pack_size_c(n, MPI_INT, MPI_COMM_WORLD, &size));
    CHECK(size >= 400);
    CHECK_OK(MPI_Pack_c(out, n, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD));
    CHECK_EQ(400, position);
    position = 0;
    CHECK_OK(MPI_Unpack_c(packed, 400, &position, in, n, MPI_INT, MPI_COMM_WORLD));
    CHECK_EQ(400, position);
    CHECK_MEM(out, in, sizeof in);
    CHECK_OK(MPI_Unpack(packed, 400, &position_i, in, 100, MPI_INT, MPI_COMM_WORLD));
    CHECK_EQ(400, position_i);
}

static void check_big(MPI_Datatype* t, MPI_Count size, MPI_Count extent, const char* what) {
    MPI_Count found = -1, lb = -1, true_lb = -1;
    MPI_Aint short_lb = -1, short_extent = -1;
    int small = 0;
    context("%s", what);
    CHECK_OK(MPI_Type_size_c(*t, &found));
    CHECK_EQ(size, found);
    CHECK_OK(MPI_Type_size_x(*t, &found));
    CHECK_EQ(size, found);
    CHECK_OK(MPI_Type_size(*t, &small));
    CHECK_EQ(size > 2147483647 ? MPI_UNDEFINED : size, small);
    CHECK_OK(MPI_Type_get_extent_c(*t, &lb, &found));
    CHECK_EQ(0, lb);
    CHECK_EQ(extent, found);
    CHECK_OK(MPI_Type_get_extent(*t, &short_lb, &short_extent));
    CHECK_EQ(extent, short_extent);
    CHECK_OK(MPI_Type_get_true_extent_c(*t, &true_lb, &found));
    CHECK_EQ(0, true_lb);
    CHECK_EQ(extent, found);
    CHECK_OK(MPI_Type_free(t));
}

static void big_types(void) {
    const MPI_Count giga = (MPI_Count)1 << 30;
    MPI_Count lengths[2] = {3 * giga, 1}, at[2] = {0, 5 * giga}, ints[2];
    MPI_Count ni = -1, na = -1, nl = -1, nt = -1, larges[1] = {0};
    MPI_Datatype t, u, parts[2] = {MPI_CHAR, MPI_INT}, got[1];
    MPI_Status s;
    MPI_Count count = -1;
    int small = -1, combiner = -1;
    (void)ints;
    CHECK_OK(MPI_Type_contiguous_c(3 * giga, MPI_INT, &t));
    CHECK_OK(MPI_Type_get_envelope_c(t, &ni, &na, &nl, &nt, &combiner));
    CHECK_EQ(MPI_COMBINER_CONTIGUOUS, combiner);
    CHECK_EQ(0, ni);
    CHECK_EQ(1, nl);
    CHECK_EQ(1, nt);
    CHECK_OK(MPI_Type_get_contents_c(t, ni, na, nl, nt, NULL, NULL, larges, got));
    CHECK_EQ(3 * giga, larges[0]);
    CHECK(got[0] == MPI_INT);
    check_big(&t, 12 * giga, 12 * giga, "contiguous");
    CHECK_OK(MPI_Type_vector_c(3, giga, 2 * giga, MPI_CHAR, &t));
    check_big(&t, 3 * giga, 5 * giga, "vector");
    CHECK_OK(MPI_Type_create_hvector_c(2, 1, 6 * giga, MPI_INT, &t));
    check_big(&t, 8, 6 * giga + 4, "hvector");
    CHECK_OK(MPI_Type_create_struct_c(2, lengths, at, parts, &t));
    check_big(&t, 3 * giga + 4, 5 * giga + 4, "struct");
    CHECK_OK(MPI_Type_create_hindexed_c(2, lengths, at, MPI_CHAR, &t));
    check_big(&t, 3 * giga + 1, 5 * giga + 1, "hindexed");
    CHECK_OK(MPI_Type_contiguous(1 << 30, MPI_INT, &u));
    CHECK_OK(MPI_Type_contiguous(4, u, &t));
    CHECK_OK(MPI_Type_free(&u));
    check_big(&t, 16 * giga, 16 * giga, "nested int forms");
    context("counts in a status");
    CHECK_OK(MPI_Status_set_elements_x(&s, MPI_INT, 5 * giga));
    CHECK_OK(MPI_Get_count_c(&s, MPI_INT, &count));
    CHECK_EQ(5 * giga, count);
    CHECK_OK(MPI_Get_elements_c(&s, MPI_INT, &count));
    CHECK_EQ(5 * giga, count);
    CHECK_OK(MPI_Get_elements(&s, MPI_INT, &small));
    CHECK_EQ(MPI_UNDEFINED, small);
}

static int calls = 0;
static void add(void* in, void* inout, MPI_Count* n, MPI_Datatype* type) {
    (void)type;
    ++calls;
    for (MPI_Count i = 0; i < *n; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

static void user_operation(void) {
    int in = check_rank + 1, out = 0;
    MPI_Op op;
    context("user operation with MPI_Count");
    CHECK_OK(MPI_Op_create_c(add, 1, &op));
    CHECK_OK(MPI_Allreduce_c(&in, &out, 1, MPI_INT, op, MPI_COMM_WORLD));
    CHECK_EQ(check_size * (check_size + 1) / 2, out);
    out = 4;
    CHECK_OK(MPI_Reduce_local_c(&in, &out, 1, MPI_INT, op));
    CHECK_EQ(5 + check_rank, out);
    CHECK(calls > 0);
    CHECK_OK(MPI_Op_free(&op));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    messages();
    big_types();
    user_operation();
    return finish();
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
