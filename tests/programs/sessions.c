/* Goal: the sessions model (MPI-5.0 section 11.3): sessions without MPI_Init, process sets
 * mpi://WORLD and mpi://SELF, groups and communicators from them, several sessions in turn.
 * Method: the program never calls MPI_Init; results are reduced over a session's communicator.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 0)
static int round_of(int number) {
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Group world, self;
    MPI_Comm comm, single;
    MPI_Info info;
    MPI_Errhandler handler;
    int n = -1, i, length, found_world = 0, found_self = 0, flag, sum, one = 1, rank, size, result;
    char name[MPI_MAX_PSET_NAME_LEN], text[64], tag[64];
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(session != MPI_SESSION_NULL);
    CHECK_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n));
    CHECK(n >= 2);
    for (i = 0; i < n; ++i) {
        length = 0;
        CHECK_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK(length > 0 && length <= MPI_MAX_PSET_NAME_LEN);
        length = sizeof name;
        CHECK_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        if (!known_limit("MPICH")) CHECK_EQ(strlen(name) + 1, length); /* unchanged there */
        found_world |= strcmp(name, "mpi://WORLD") == 0;
        found_self |= strcmp(name, "mpi://SELF") == 0;
    }
    CHECK(found_world && found_self);
    CHECK_OK(MPI_Session_get_info(session, &info));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://SELF", &self));
    CHECK_OK(MPI_Group_size(self, &size));
    CHECK_EQ(1, size);
    CHECK_OK(MPI_Group_size(world, &size));
    CHECK_OK(MPI_Group_rank(world, &rank));
    check_rank = rank;
    check_size = size;
    CHECK_OK(MPI_Session_get_pset_info(session, "mpi://WORLD", &info));
    CHECK_OK(MPI_Info_get(info, "mpi_size", 60, text, &flag));
    CHECK_EQ(1, flag);
    if (flag) CHECK_EQ(size, atoi(text));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Group_free(&world));
    CHECK(MPI_Group_from_session_pset(session, "no://such set", &world) != MPI_SUCCESS);
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    snprintf(tag, sizeof tag, "orchard %d", number);
    CHECK_OK(MPI_Comm_create_from_group(world, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Comm_rank(comm, &result));
    CHECK_EQ(rank, result);
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(size, sum);
    /* Errors go to the handler that was named; MPI_COMM_SELF's and MPI_COMM_WORLD's would end the
     * job. */
    CHECK_CLASS(MPI_ERR_GROUP, MPI_Comm_create_from_group(MPI_GROUP_NULL, "none", MPI_INFO_NULL,
                                                          MPI_ERRORS_RETURN, &single));
    CHECK_CLASS(MPI_ERR_GROUP,
                MPI_Intercomm_create_from_groups(MPI_GROUP_NULL, 0, MPI_GROUP_NULL, 0, "none",
                                                 MPI_INFO_NULL, MPI_ERRORS_RETURN, &single));
    CHECK_OK(MPI_Comm_create_from_group(self, "alone", MPI_INFO_NULL, MPI_ERRORS_RETURN, &single));
    CHECK_OK(MPI_Comm_size(single, &result));
    CHECK_EQ(1, result);
    CHECK_OK(MPI_Comm_get_errhandler(comm, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Errhandler_free(&handler));
    {
        long mine = check_failures, all = 1;
        CHECK_OK(MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, comm));
        result = all != 0;
    }
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Comm_free(&single));
    CHECK_OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL);
    CHECK_OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
    return result;
}

int main(void) {
    int flag = 1, bad;
    check_program = "sessions";
    MPI_Initialized(&flag);
    CHECK_EQ(0, flag);
    bad = round_of(1);
    bad |= round_of(2);
    if (bad || check_failures) return 1;
    if (check_rank == 0) printf("ok sessions checks=%ld\n", check_count);
    return 0;
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
