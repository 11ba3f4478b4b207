/* Goal: a session that begins after MPI_Finalize either works, or is refused each time by the error
 * handler given to MPI_Session_init; in a process that is alone it works, also while it is the only
 * one, and after such sessions. Where a session has begun before MPI_Finalize ("kept"), it goes on,
 * and others may begin. Method: three tries behind MPI_Finalize, each with a communicator that
 * sends and reduces.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 0)
static void use(MPI_Session session, int number) {
    MPI_Group group;
    MPI_Comm comm;
    char tag[32];
    int one = 1, sum = 0, got = 0, flag = 0;
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    snprintf(tag, sizeof tag, "after %d", number);
    CHECK_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(check_size, sum);
    CHECK_OK(MPI_Sendrecv(&sum, 1, MPI_INT, check_rank, 3, &got, 1, MPI_INT, check_rank, 3, comm,
                          MPI_STATUS_IGNORE));
    CHECK_EQ(check_size, got);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_EQ(1, flag);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_free(&group));
}

int main(int argc, char** argv) {
    int rank;
    start(&argc, &argv);
    check_program = "session_after";
    CHECK_OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Session kept = MPI_SESSION_NULL;
    if (argc > 1) CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &kept));
    CHECK_OK(MPI_Finalize());
    if (argc > 1) {
        use(kept, -1);
        use(kept, -2);
        CHECK_OK(MPI_Session_finalize(&kept));
    }
    for (int i = 0; i < 3; ++i) {
        MPI_Session session = MPI_SESSION_NULL;
        int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        if (check_size == 1 || argc > 1) CHECK_OK(code);
        if (code == MPI_SUCCESS) {
            use(session, i);
            CHECK_OK(MPI_Session_finalize(&session));
        } else CHECK(session == MPI_SESSION_NULL);
    }
    if (check_failures) return 1;
    if (rank == 0) printf("ok session_after checks=%ld\n", check_count);
    return 0;
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
