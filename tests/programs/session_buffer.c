/* Goal: buffers of sessions, communicators and the process (MPI-5.0 section 3.6): which one a
 * buffered send takes, that a full one is told, attach, detach, flush. Method: buffers of room for
 * one message; the size of what still fits tells which was used.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 1)
enum { bytes = 1000, room = bytes + MPI_BSEND_OVERHEAD };
static char of_session[room], of_comm[room], of_process[room], data[bytes];

/* Whether a message fits now; it is received again. */
static int fits(MPI_Comm comm) {
    int code = MPI_Bsend(data, bytes, MPI_CHAR, 0, 1, comm);
    if (code == MPI_SUCCESS)
        CHECK_OK(MPI_Recv(data, bytes, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE));
    else CHECK_CLASS(MPI_ERR_BUFFER, code);
    return code == MPI_SUCCESS;
}

static void attach_and_detach(MPI_Session session) {
    void* found;
    MPI_Count large;
    MPI_Request request;
    int size;
    context("attach and detach");
    CHECK_OK(MPI_Session_attach_buffer(session, of_session, room));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Session_attach_buffer(session, of_session, room));
    CHECK_OK(MPI_Session_flush_buffer(session));
    CHECK_OK(MPI_Session_iflush_buffer(session, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Session_detach_buffer(session, &found, &size));
    CHECK(found == of_session);
    CHECK_EQ(room, size);
    CHECK_OK(MPI_Session_attach_buffer_c(session, of_session, room));
    CHECK_OK(MPI_Session_detach_buffer_c(session, &found, &large));
    CHECK(found == of_session);
    CHECK_EQ(room, large);
    CHECK_OK(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0));
    CHECK_OK(MPI_Session_detach_buffer(session, &found, &size));
    CHECK(found == MPI_BUFFER_AUTOMATIC);
}

/* The communicator's goes before the session's, and that before the process's. */
static void precedence(MPI_Session session, MPI_Comm comm, MPI_Comm other) {
    void* found;
    int size;
    context("precedence");
    CHECK(!fits(comm));
    CHECK_OK(MPI_Buffer_attach(of_process, room));
    CHECK(fits(comm));
    CHECK_OK(MPI_Session_attach_buffer(session, of_session, 1)); /* too small for anything */
    CHECK(!fits(comm));
    CHECK(fits(other)); /* of another session */
    CHECK_OK(MPI_Comm_attach_buffer(comm, of_comm, room));
    CHECK(fits(comm));
    CHECK_OK(MPI_Comm_detach_buffer(comm, &found, &size));
    CHECK(found == of_comm);
    CHECK(!fits(comm));
    CHECK_OK(MPI_Session_detach_buffer(session, &found, &size));
    CHECK_EQ(1, size);
    CHECK(fits(comm));
    CHECK_OK(MPI_Buffer_detach(&found, &size));
    CHECK(found == of_process);
    CHECK(!fits(comm));
}

int main(void) {
    MPI_Session session, second;
    MPI_Group self, part;
    MPI_Comm comm, copy, other;
    int zero = 0;
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return 1;
    check_program = check_name_of(__FILE__);
    check_rank = 0, check_size = 1;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
    attach_and_detach(session);
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://SELF", &self));
    CHECK_OK(MPI_Group_incl(self, 1, &zero, &part)); /* still of the session */
    CHECK_OK(MPI_Comm_create_from_group(part, "one", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Group_free(&part));
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Group_from_session_pset(second, "mpi://SELF", &self));
    CHECK_OK(MPI_Comm_create_from_group(self, "two", MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    precedence(session, comm, other);
    precedence(session, copy, other);
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Comm_free(&other));
    CHECK_OK(MPI_Session_finalize(&second));
    CHECK_OK(MPI_Session_finalize(&session));
    if (check_failures == 0) printf("ok %s checks=%ld\n", check_program, check_count);
    return check_failures != 0;
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.1");
}
#endif
