/* Goal: a session that cannot begin is refused each time, by the error handler given to
 * MPI_Session_init; none is said to have begun that cannot be used. Method: Pomona's variable of
 * the job is damaged; three tries. Other libraries do not read it.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 0)
int main(int argc, char** argv) {
    (void)argc;
    check_program = check_name_of(argv[0]);
    setenv("POMONA_JOB_SIZE", "none", 1);
    for (int i = 0; i < 3; ++i) {
        MPI_Session session = MPI_SESSION_NULL;
        int sets = 0;
        if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) {
            CHECK(session == MPI_SESSION_NULL);
            continue;
        }
        CHECK_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets));
        CHECK(sets >= 2);
        CHECK_OK(MPI_Session_finalize(&session));
    }
    if (check_failures) return 1;
    printf("ok session_refused checks=%ld\n", check_count);
    return 0;
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
