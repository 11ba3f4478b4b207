/* Goal: what MPI-5.0 added: the ABI's version and info, handle conversion to and from int, request
 * status of several requests, value-index types. Method: round trips for predefined and made
 * handles.
 */
#include "check.h"

#if MPI_AT_LEAST(5, 0)
static void versions(void) {
    int major = -1, minor = -1;
    MPI_Info info = MPI_INFO_NULL;
    context("versions");
    CHECK_OK(MPI_Abi_get_version(&major, &minor));
    CHECK_EQ(MPI_ABI_VERSION, major);
    CHECK_EQ(MPI_ABI_SUBVERSION, minor);
    CHECK_OK(MPI_Abi_get_info(&info));
    CHECK(info != MPI_INFO_NULL);
    CHECK_OK(MPI_Info_free(&info));
    CHECK_EQ(32, sizeof(MPI_Status));
    CHECK_EQ(sizeof(void*), sizeof(MPI_Comm));
    CHECK_EQ(8, sizeof(MPI_Count));
}

static void conversions(void) {
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Op op = MPI_SUM;
    MPI_Request request;
    int value = 0;
    context("predefined handles");
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK_EQ((intptr_t)MPI_COMM_WORLD, MPI_Comm_toint(MPI_COMM_WORLD));
    CHECK_EQ((intptr_t)MPI_INT, MPI_Type_toint(MPI_INT));
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Op_fromint(MPI_Op_toint(op)) == MPI_SUM);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(MPI_Info_fromint(MPI_Info_toint(MPI_INFO_ENV)) == MPI_INFO_ENV);
    CHECK(MPI_Request_fromint(MPI_Request_toint(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NULL)) == MPI_MESSAGE_NULL);
    CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    context("made handles");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
    CHECK_EQ(MPI_Comm_toint(comm), MPI_Comm_toint(comm));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    CHECK(MPI_Type_fromint(MPI_Type_toint(type)) == type);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    CHECK(MPI_Group_fromint(MPI_Group_toint(group)) == group);
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Info_create(&info));
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
    CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void statuses(void) {
    MPI_Request r[3];
    MPI_Status s[3];
    int values[3] = {0, 0, 0}, flag = 1, indx = -2, count = -2, indices[3], i, sent = 9;
    context("request_get_status of several");
    for (i = 0; i < 3; ++i) {
        CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, check_rank, i, MPI_COMM_WORLD, &r[i]));
    }
    CHECK_OK(MPI_Request_get_status_any(3, r, &indx, &flag, s));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Request_get_status_some(3, r, &count, indices, s));
    CHECK_EQ(0, count);
    CHECK_OK(MPI_Request_get_status_all(3, r, &flag, s));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Send(&sent, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status_any(3, r, &indx, &flag, s));
    CHECK_EQ(1, indx);
    CHECK_EQ(1, s[0].MPI_TAG);
    CHECK(r[1] != MPI_REQUEST_NULL);
    CHECK_OK(MPI_Request_get_status_some(3, r, &count, indices, s));
    CHECK_EQ(1, count);
    CHECK_EQ(1, indices[0]);
    CHECK_OK(MPI_Send(&sent, 1, MPI_INT, check_rank, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Send(&sent, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD));
    for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status_all(3, r, &flag, s));
    for (i = 0; i < 3; ++i) CHECK_EQ(i, s[i].MPI_TAG);
    CHECK_OK(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < 3; ++i) CHECK_EQ(9, values[i]);
}

static void pairs(void) {
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    context("value_index");
    CHECK_OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    CHECK(pair == MPI_DOUBLE_INT);
    CHECK_OK(MPI_Type_get_value_index(MPI_INT, MPI_INT, &pair));
    CHECK(pair == MPI_2INT);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    versions();
    conversions();
    statuses();
    pairs();
    return finish();
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 5.0");
}
#endif
