/* Goal: wrong arguments give the standard's error class and leave the library usable
 * (MPI-5.0 section 9.4). Method: one call for each kind of mistake with MPI_ERRORS_RETURN; at the
 * end a collective still works.
 */
#include "check.h"

#include <stddef.h>
#include <stdint.h>

static int data[16], more[16];

static void messages(MPI_Comm c) {
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype loose;
    int n = 0;
    context("messages");
    CHECK_CLASS(MPI_ERR_COMM, MPI_Send(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Send(data, -1, MPI_INT, 0, 0, c));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Send(data, 1, MPI_DATATYPE_NULL, 0, 0, c));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Send(data, 1, MPI_INT, check_size, 0, c));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Send(data, 1, MPI_INT, -9, 0, c));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, c));
    CHECK_CLASS(MPI_ERR_TAG, MPI_Send(data, 1, MPI_INT, 0, -9, c));
    CHECK_CLASS(MPI_ERR_TAG, MPI_Send(data, 1, MPI_INT, 0, MPI_ANY_TAG, c));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 0, c));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Isend(data, -1, MPI_INT, 0, 0, c, &r));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Irecv(data, 1, MPI_INT, check_size, 0, c, &r));
    CHECK_CLASS(MPI_ERR_TAG, MPI_Irecv(data, 1, MPI_INT, 0, -9, c, &r));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Recv(NULL, 1, MPI_INT, 0, 0, c, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Probe(check_size, 0, c, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_COMM, MPI_Iprobe(0, 0, MPI_COMM_NULL, &n, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Send_init(data, 1, MPI_INT, check_size, 0, c, &r));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Recv_init(data, -1, MPI_INT, 0, 0, c, &r));
    CHECK_CLASS2(MPI_ERR_RANK, MPI_ERR_ARG,
                 MPI_Sendrecv(data, 1, MPI_INT, check_size, 0, more, 1, MPI_INT, 0, 0, c,
                              MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &loose));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Send(data, 1, loose, 0, 0, c));
    CHECK_OK(MPI_Type_free(&loose));
}

#ifdef MPI_ABI_VERSION
/* Counts whose bytes would be none if they were taken modulo 2^64. */
static void huge(MPI_Comm c) {
    MPI_Count far = (MPI_Count)1 << 61, counts[64], each = far / check_size;
    MPI_Aint displs[64];
    MPI_Request r;
    MPI_Datatype apart;
    MPI_Comm ring;
    int i, periodic = 1, count = MPI_ERR_COUNT;
    context("huge");
    CHECK_CLASS(count, MPI_Send_c(data, far, MPI_LONG, 0, 0, c));
    CHECK_CLASS(count, MPI_Ssend_c(data, far, MPI_LONG, 0, 0, c));
    CHECK_CLASS(count, MPI_Bsend_c(data, far, MPI_LONG, 0, 0, c));
    CHECK_CLASS(count, MPI_Isend_c(data, far, MPI_LONG, 0, 0, c, &r));
    CHECK_CLASS(count, MPI_Send_init_c(data, far, MPI_LONG, 0, 0, c, &r));
    CHECK_CLASS(count, MPI_Recv_c(data, far, MPI_LONG, 0, 0, c, MPI_STATUS_IGNORE));
    CHECK_CLASS(count, MPI_Irecv_c(data, far, MPI_LONG, MPI_ANY_SOURCE, 0, c, &r));
    CHECK_CLASS(count, MPI_Sendrecv_c(data, far, MPI_LONG, 0, 0, more, 1, MPI_LONG, 0, 0, c, MPI_STATUS_IGNORE));
    CHECK_CLASS(count, MPI_Sendrecv_replace_c(data, far, MPI_LONG, 0, 0, 0, 0, c, MPI_STATUS_IGNORE));
    /* 4 bytes in each 2^40: the memory that they lie in. */
    CHECK_OK(MPI_Type_create_resized_c(MPI_INT, 0, (MPI_Count)1 << 40, &apart));
    CHECK_OK(MPI_Type_commit(&apart));
    CHECK_CLASS(count, MPI_Send_c(data, 1 << 24, apart, 0, 0, c));
    CHECK_OK(MPI_Type_free(&apart));
    CHECK_CLASS(count, MPI_Bcast_c(data, far, MPI_LONG, 0, c));
    CHECK_CLASS(count, MPI_Allreduce_c(data, more, far, MPI_LONG, MPI_SUM, c));
    CHECK_CLASS(count, MPI_Allreduce_c(MPI_IN_PLACE, more, far, MPI_LONG, MPI_SUM, c));
    CHECK_CLASS(count, MPI_Scan_c(data, more, far, MPI_LONG, MPI_SUM, c));
    CHECK_CLASS(count, MPI_Iallreduce_c(data, more, far, MPI_LONG, MPI_SUM, c, &r));
    /* Of all ranks together. */
    for (i = 0; i < 64; ++i) counts[i] = each, displs[i] = 0;
    CHECK_CLASS(count, MPI_Allgather_c(data, 1, MPI_LONG, more, each, MPI_LONG, c));
    CHECK_CLASS(count, MPI_Alltoall_c(data, each, MPI_LONG, more, each, MPI_LONG, c));
    CHECK_CLASS(count, MPI_Gather_c(data, 1, MPI_LONG, more, each, MPI_LONG, check_rank, c));
    CHECK_CLASS(count, MPI_Scatter_c(data, each, MPI_LONG, more, 1, MPI_LONG, check_rank, c));
    CHECK_CLASS(count, MPI_Reduce_scatter_block_c(data, more, each, MPI_LONG, MPI_SUM, c));
    CHECK_CLASS(count, MPI_Reduce_scatter_c(data, more, counts, MPI_LONG, MPI_SUM, c));
    CHECK_OK(MPI_Cart_create(c, 1, &check_size, &periodic, 0, &ring));
    CHECK_OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    CHECK_CLASS(count, MPI_Neighbor_alltoall_c(data, far / 2, MPI_LONG, more, far / 2, MPI_LONG, ring));
    CHECK_CLASS(count, MPI_Neighbor_allgather_c(data, 1, MPI_LONG, more, far / 2, MPI_LONG, ring));
    /* Nothing is in place among neighbors, also in a call that is known. */
    for (i = 0; i < 3; ++i)
        CHECK_OK(MPI_Neighbor_alltoall(data, 1, MPI_LONG, more, 1, MPI_LONG, ring));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(data, 1, MPI_LONG, MPI_IN_PLACE, 1, MPI_LONG, ring));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_LONG, more, 1, MPI_LONG, ring));
    CHECK_OK(MPI_Comm_free(&ring));
    counts[check_size - 1] = far;
    CHECK_CLASS(count, MPI_Allgatherv_c(data, 1, MPI_LONG, more, counts, displs, MPI_LONG, c));
    CHECK_CLASS(count, MPI_Alltoallv_c(data, counts, displs, MPI_LONG, more, counts, displs, MPI_LONG, c));
}

/* Displacements that would be none, or others, if their bytes were taken modulo 2^64. */
static void far_away(MPI_Comm c) {
    MPI_Count one[64];
    MPI_Aint near[64], far[64];
    int few[64], places[64], i, wrong = MPI_ERR_ARG;
    MPI_Datatype types[64], apart;
    MPI_Request r;
    context("far away");
    for (i = 0; i < 64; ++i) one[i] = few[i] = 1, near[i] = i, far[i] = i, types[i] = MPI_LONG, places[i] = i;
    far[check_size - 1] = (MPI_Aint)1 << 61;
    CHECK_CLASS(wrong, MPI_Alltoallv_c(data, one, far, MPI_LONG, more, one, near, MPI_LONG, c));
    CHECK_CLASS(wrong, MPI_Alltoallv_c(data, one, near, MPI_LONG, more, one, far, MPI_LONG, c));
    CHECK_CLASS(wrong, MPI_Allgatherv_c(data, 1, MPI_LONG, more, one, far, MPI_LONG, c));
    CHECK_CLASS(wrong, MPI_Gatherv_c(data, 1, MPI_LONG, more, one, far, MPI_LONG, check_rank, c));
    CHECK_CLASS(wrong, MPI_Scatterv_c(data, one, far, MPI_LONG, more, 1, MPI_LONG, check_rank, c));
    CHECK_CLASS(wrong, MPI_Ialltoallv_c(data, one, far, MPI_LONG, more, one, near, MPI_LONG, c, &r));
    far[check_size - 1] = -far[check_size - 1];
    CHECK_CLASS(wrong, MPI_Alltoallv_c(data, one, far, MPI_LONG, more, one, near, MPI_LONG, c));
    far[check_size - 1] = PTRDIFF_MAX;
    CHECK_CLASS(wrong, MPI_Alltoallw_c(data, one, far, types, more, one, near, types, c));
    /* A place of 32 bits, elements that are 2^40 bytes apart. */
    CHECK_OK(MPI_Type_create_resized_c(MPI_INT, 0, (MPI_Count)1 << 40, &apart));
    CHECK_OK(MPI_Type_commit(&apart));
    places[check_size - 1] = 1 << 24;
    CHECK_CLASS(wrong, MPI_Allgatherv(data, 1, MPI_INT, more, few, places, apart, c));
    CHECK_OK(MPI_Type_free(&apart));
}

/* Handles that no call has given: small, negative, without memory behind, or of another library
 * (MPICH's old MPI_COMM_WORLD was the number 0x44000000). */
static void garbage(void) {
    static const uintptr_t values[] = {0x3ff,      0x1234567,          0x44000000,
                                       0xdeadbeef, 0x12345678deadbee8, (uintptr_t)-1,
                                       (uintptr_t)-8, (uintptr_t)1 << 47};
    size_t i;
    int n = 0;
    context("garbage");
    for (i = 0; i < sizeof values / sizeof values[0]; ++i) {
        MPI_Request request = (MPI_Request)values[i];
        CHECK_CLASS(MPI_ERR_COMM, MPI_Comm_size((MPI_Comm)values[i], &n));
        CHECK_CLASS(MPI_ERR_COMM, MPI_Send(data, 1, MPI_INT, 0, 0, (MPI_Comm)values[i]));
        CHECK_CLASS(MPI_ERR_TYPE, MPI_Send(data, 1, (MPI_Datatype)values[i], 0, 0, MPI_COMM_WORLD));
        CHECK_CLASS(MPI_ERR_REQUEST, MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_GROUP, MPI_Group_size((MPI_Group)values[i], &n));
    }
}
#endif

static void requests(void) {
    MPI_Request r = MPI_REQUEST_NULL, bad;
    int value = 0, other = 0;
    context("requests");
    CHECK_CLASS(MPI_ERR_REQUEST, MPI_Start(&r));
    CHECK_CLASS(MPI_ERR_REQUEST, MPI_Request_free(&r));
    CHECK_CLASS(MPI_ERR_REQUEST, MPI_Cancel(&r));
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 9, MPI_COMM_WORLD, &bad));
    CHECK_CLASS(MPI_ERR_REQUEST, MPI_Start(&bad));
    CHECK_OK(MPI_Send(&other, 1, MPI_INT, check_rank, 9, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&bad, MPI_STATUS_IGNORE));
    CHECK_CLASS2(MPI_ERR_COUNT, MPI_ERR_ARG, MPI_Waitall(-1, &r, MPI_STATUSES_IGNORE));
}

static void collectives(MPI_Comm c) {
    context("collectives");
    CHECK_CLASS(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
    CHECK_CLASS(MPI_ERR_ROOT, MPI_Bcast(data, 1, MPI_INT, check_size, c));
    CHECK_CLASS(MPI_ERR_ROOT, MPI_Bcast(data, 1, MPI_INT, -1, c));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Bcast(data, -1, MPI_INT, 0, c));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Bcast(data, 1, MPI_DATATYPE_NULL, 0, c));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Bcast(NULL, 1, MPI_INT, 0, c));
    CHECK_CLASS(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_INT, MPI_OP_NULL, c));
    CHECK_CLASS(MPI_ERR_ROOT, MPI_Reduce(data, more, 1, MPI_INT, MPI_SUM, -7, c));
    CHECK_CLASS(MPI_ERR_ROOT, MPI_Gather(data, 1, MPI_INT, more, 1, MPI_INT, check_size + 3, c));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Alltoall(data, 1, MPI_INT, more, 1, MPI_DATATYPE_NULL, c));
    if (known_limit("MPICH")) return; /* stops at an assertion */
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Allreduce(data, more, -4, MPI_INT, MPI_SUM, c));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Scan(data, more, -1, MPI_INT, MPI_SUM, c));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Allgather(data, -1, MPI_INT, more, 1, MPI_INT, c));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Allreduce(data, more, 1, MPI_DATATYPE_NULL, MPI_SUM, c));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, c));
    CHECK_CLASS(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_DOUBLE, MPI_BAND, c));
}

/* MPI_REPLACE and MPI_NO_OP are for one-sided accesses only (MPI-5.0 section 12.3.4). */
static void one_sided_operations(MPI_Comm c) {
    MPI_Op ops[2] = {MPI_REPLACE, MPI_NO_OP};
    MPI_Request r;
    int i, k, counts[64];
    for (i = 0; i < 64; ++i) counts[i] = i == 0;
    for (k = 0; k < 2; ++k) {
        MPI_Op op = ops[k];
        context("operation %d of 2 that is for windows only", k + 1);
        CHECK_CLASS(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_INT, op, c));
        CHECK_CLASS(MPI_ERR_OP, MPI_Reduce(data, more, 1, MPI_INT, op, 0, c));
        CHECK_CLASS(MPI_ERR_OP, MPI_Scan(data, more, 1, MPI_INT, op, c));
        CHECK_CLASS(MPI_ERR_OP, MPI_Exscan(data, more, 1, MPI_INT, op, c));
        CHECK_CLASS(MPI_ERR_OP, MPI_Reduce_scatter_block(data, more, 1, MPI_INT, op, c));
        if (check_size <= 64)
            CHECK_CLASS(MPI_ERR_OP, MPI_Reduce_scatter(data, more, counts, MPI_INT, op, c));
        CHECK_CLASS(MPI_ERR_OP, MPI_Iallreduce(data, more, 1, MPI_INT, op, c, &r));
        CHECK_CLASS(MPI_ERR_OP, MPI_Iscan(data, more, 1, MPI_INT, op, c, &r));
        CHECK_CLASS(MPI_ERR_OP, MPI_Reduce_local(data, more, 1, MPI_INT, op));
#if MPI_AT_LEAST(4, 0)
        CHECK_CLASS(MPI_ERR_OP, MPI_Allreduce_init(data, more, 1, MPI_INT, op, c, MPI_INFO_NULL, &r));
        CHECK_CLASS(MPI_ERR_OP, MPI_Reduce_init(data, more, 1, MPI_INT, op, 0, c, MPI_INFO_NULL, &r));
#endif
        CHECK_OK(MPI_Op_commutative(op, &i));
    }
}

static void objects(MPI_Comm c) {
    MPI_Datatype t = MPI_DATATYPE_NULL;
    MPI_Group g, h;
    MPI_Comm out;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Op op = MPI_SUM;
    int n = 0, list[2] = {0, 0}, high[1] = {check_size}, key = MPI_KEYVAL_INVALID;
    context("objects");
    CHECK_CLASS(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_NULL, &n));
    CHECK_CLASS(MPI_ERR_COMM, MPI_Comm_dup(MPI_COMM_NULL, &out));
    CHECK_CLASS2(MPI_ERR_COMM, MPI_ERR_ARG, MPI_Comm_free(&(MPI_Comm){MPI_COMM_NULL}));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Type_commit(&t));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Type_free(&t));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &t));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Type_size(MPI_DATATYPE_NULL, &n));
    t = MPI_INT;
    CHECK_CLASS(MPI_ERR_TYPE, MPI_Type_free(&t));
    CHECK_CLASS(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &n));
    CHECK_OK(MPI_Comm_group(c, &g));
    if (!known_limit("MPICH")) {
        CHECK_CLASS(MPI_ERR_RANK, MPI_Group_incl(g, 2, list, &h));
        CHECK_CLASS(MPI_ERR_ARG, MPI_Comm_split(c, -9, 0, &out));
        CHECK_CLASS(MPI_ERR_COMM, MPI_Comm_remote_size(c, &n));
    }
    CHECK_CLASS(MPI_ERR_RANK, MPI_Group_incl(g, 1, high, &h));
    CHECK_OK(MPI_Group_free(&g));
    CHECK_CLASS2(MPI_ERR_INFO, MPI_ERR_ARG, MPI_Info_free(&info));
    CHECK_CLASS(MPI_ERR_OP, MPI_Op_free(&op));
    CHECK_CLASS(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&key));
    CHECK_CLASS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(c, MPI_KEYVAL_INVALID, NULL));
    CHECK_CLASS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(c, &n));
    CHECK_CLASS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(c, &n, &key));
}

int main(int argc, char** argv) {
    MPI_Comm twin;
    int one = 1, sum = 0;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    messages(twin);
#ifdef MPI_ABI_VERSION
    garbage();
    huge(twin);
    far_away(twin);
#endif
    requests();
    collectives(twin);
    one_sided_operations(twin);
    objects(twin);
    context("still usable");
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin));
    CHECK_EQ(check_size, sum);
    CHECK_OK(MPI_Comm_free(&twin));
    return finish();
}
