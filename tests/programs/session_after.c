/* Goal: a session that begins after MPI_Finalize either works, or is refused each time by the error
 * handler given to MPI_Session_init. Method: three tries behind MPI_Finalize.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 0)
int main(int argc, char** argv) {
    int rank;
    start(&argc, &argv);
    check_program = "session_after";
    CHECK_OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK_OK(MPI_Finalize());
    for (int i = 0; i < 3; ++i) {
        MPI_Session session = MPI_SESSION_NULL;
        int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        if (code == MPI_SUCCESS) CHECK_OK(MPI_Session_finalize(&session));
        else CHECK(session == MPI_SESSION_NULL);
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
