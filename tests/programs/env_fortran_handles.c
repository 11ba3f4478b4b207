/* Goal: handles and statuses cross to Fortran's INTEGERs and back as C codes with Fortran parts do
 * it (MPI 5.0, 19.3.4, 19.3.5). Method: each kind of handle, predefined and made, there and back; a
 * status of a receive through all its forms; then used.
 */
#include "check.h"

static MPI_Comm from_fortran(const MPI_Fint* comm) { return MPI_Comm_f2c(*comm); }

static void check_handles(void) {
    MPI_Comm comm;
    MPI_Fint number = MPI_Comm_c2f(MPI_COMM_WORLD);
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    MPI_Fint (*convert)(MPI_Comm) = MPI_Comm_c2f;
    CHECK(from_fortran(&number) == MPI_COMM_WORLD);
    CHECK(convert(MPI_COMM_WORLD) == PMPI_Comm_c2f(MPI_COMM_WORLD));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    number = MPI_Comm_c2f(comm);
    CHECK(from_fortran(&number) == comm);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK(MPI_Type_f2c(MPI_Type_c2f(type)) == type);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    CHECK(MPI_Group_f2c(MPI_Group_c2f(group)) == group);
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Info_create(&info));
    CHECK(MPI_Info_f2c(MPI_Info_c2f(info)) == info);
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    number = MPI_Request_c2f(request);
    request = MPI_Request_f2c(number);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    CHECK(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NULL)) == MPI_MESSAGE_NULL);
    CHECK(MPI_Session_f2c(MPI_Session_c2f(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
}

static void check_statuses(void) {
    int sent[3] = {1, 2, 3}, received[4], count = 0;
    MPI_Status status, back;
    MPI_F08_status f08;
    MPI_Fint f[MPI_F_STATUS_SIZE];
    CHECK_OK(MPI_Sendrecv(sent, 3, MPI_INT, check_rank, 7, received, 4, MPI_INT, check_rank, 7,
                          MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Status_c2f(&status, f));
    CHECK_EQ(f[MPI_F_SOURCE], check_rank);
    CHECK_EQ(f[MPI_F_TAG], 7);
    CHECK_OK(MPI_Status_f2f08(f, &f08));
    memset(f, 0, sizeof f);
    CHECK_OK(MPI_Status_f082f(&f08, f));
    CHECK_OK(MPI_Status_f2c(f, &back));
    CHECK_OK(MPI_Get_count(&back, MPI_INT, &count));
    CHECK_EQ(count, 3);
    CHECK_OK(MPI_Status_c2f08(&back, &f08));
    CHECK_OK(MPI_Status_f082c(&f08, &status));
    CHECK_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 3);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    check_handles();
    check_statuses();
    return finish();
}
