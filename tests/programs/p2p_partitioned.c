/* Goal: partitioned communication (MPI-5.0 chapter 4): partitions made ready in any order, arrival
 * tested one by one; a library without it says MPI_ERR_UNSUPPORTED_OPERATION. Method: a ring with
 * 16 partitions whose parts are ready in reverse; then one whose partitions are empty, which arrive
 * no earlier than they are ready all the same.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 0)
static void empty_partitions(int to, int from) {
    MPI_Request s, r;
    int round, i, flag;
    CHECK_OK(MPI_Psend_init(NULL, 4, 0, MPI_INT, to, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    CHECK_OK(MPI_Precv_init(NULL, 2, 0, MPI_INT, from, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    for (round = 0; round < 3; ++round) {
        context("empty partitions, round %d", round);
        CHECK_OK(MPI_Start(&r));
        CHECK_OK(MPI_Start(&s));
        for (i = 0; i < 2; ++i) {
            CHECK_OK(MPI_Parrived(r, i, &flag));
            CHECK_EQ(0, flag);
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_OK(MPI_Pready_range(0, 1, s));
        for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(r, 0, &flag));
        CHECK_OK(MPI_Parrived(r, 1, &flag));
        CHECK_EQ(0, flag);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_OK(MPI_Pready_range(2, 3, s));
        for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(r, 1, &flag));
        CHECK_OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(&s));
    CHECK_OK(MPI_Request_free(&r));
}

int main(int argc, char** argv) {
    enum { parts = 16, n = 300 };
    static int out[parts * n], in[parts * n];
    MPI_Request s = MPI_REQUEST_NULL, r = MPI_REQUEST_NULL;
    int round, i, flag, code, to, from, list[2];
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    code = MPI_Psend_init(out, parts, n, MPI_INT, to, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s);
    if (code != MPI_SUCCESS) {
        CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, code);
        return finish();
    }
    CHECK_OK(MPI_Precv_init(in, parts, n, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    for (round = 0; round < 5; ++round) {
        context("round %d", round);
        for (i = 0; i < parts * n; ++i) out[i] = round * 7 + check_rank + i, in[i] = -1;
        CHECK_OK(MPI_Start(&r));
        CHECK_OK(MPI_Start(&s));
        for (i = parts - 1; i >= 8; --i) CHECK_OK(MPI_Pready(i, s));
        CHECK_OK(MPI_Pready_range(2, 7, s));
        list[0] = 1, list[1] = 0;
        CHECK_OK(MPI_Pready_list(2, list, s));
        for (i = 0; i < parts; ++i) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(r, i, &flag));
        }
        CHECK_OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        for (i = 0; i < parts * n && in[i] == round * 7 + from + i; ++i) {
        }
        CHECK_EQ(parts * n, i);
    }
    CHECK_OK(MPI_Request_free(&s));
    CHECK_OK(MPI_Request_free(&r));
    if (!known_limit("MPICH Version:\t4.0")) empty_partitions(to, from); /* hangs there */
    return finish();
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
