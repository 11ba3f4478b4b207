/* Goal: generalized requests (MPI-5.0 section 13.2): query, free and cancel callbacks, completion
 * from another place, mixing with ordinary requests. Method: callbacks note their calls.
 */
#include "check.h"

static int queries, frees, cancels, cancel_complete;

static int on_query(void* extra, MPI_Status* status) {
    ++queries;
    MPI_Status_set_elements(status, MPI_INT, *(int*)extra);
    MPI_Status_set_cancelled(status, cancels > 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = 33;
    return MPI_SUCCESS;
}

static int on_free(void* extra) {
    (void)extra;
    ++frees;
    return MPI_SUCCESS;
}

static int on_cancel(void* extra, int complete) {
    (void)extra;
    ++cancels;
    cancel_complete = complete;
    return MPI_SUCCESS;
}

static int fail_query(void* extra, MPI_Status* status) {
    on_query(extra, status);
    return MPI_ERR_BUFFER;
}

static int fail_free(void* extra) {
    on_free(extra);
    return MPI_ERR_NO_MEM;
}

static int fail_cancel(void* extra, int complete) {
    on_cancel(extra, complete);
    return MPI_ERR_OTHER;
}

/* What the callbacks return is what the completing call returns. */
static void callback_errors(void) {
    MPI_Request r;
    MPI_Status s;
    int extra = 5, flag = 0;
    context("errors of the callbacks");
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    frees = 0;
    CHECK_OK(MPI_Grequest_start(fail_query, on_free, on_cancel, &extra, &r));
    CHECK_OK(MPI_Grequest_complete(r));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Wait(&r, &s));
    if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
    CHECK_OK(MPI_Grequest_start(on_query, fail_free, on_cancel, &extra, &r));
    CHECK_OK(MPI_Grequest_complete(r));
    CHECK_CLASS(MPI_ERR_NO_MEM, MPI_Test(&r, &flag, &s));
    CHECK_EQ(2, frees);
    CHECK_OK(MPI_Grequest_start(on_query, on_free, fail_cancel, &extra, &r));
    CHECK_CLASS(MPI_ERR_OTHER, MPI_Cancel(&r));
    CHECK_OK(MPI_Grequest_complete(r));
    CHECK_OK(MPI_Wait(&r, &s));
    CHECK_EQ(3, frees);
}

int main(int argc, char** argv) {
    MPI_Request r, mixed[2];
    MPI_Status s, both[2];
    int extra = 5, flag = 1, count = -1, value = 1, got = 0;
    start(&argc, &argv);
    context("complete and wait");
    CHECK_OK(MPI_Grequest_start(on_query, on_free, on_cancel, &extra, &r));
    CHECK_OK(MPI_Test(&r, &flag, &s));
    CHECK_EQ(0, flag);
    CHECK_EQ(0, queries);
    CHECK_OK(MPI_Grequest_complete(r));
    CHECK_OK(MPI_Wait(&r, &s));
    CHECK(r == MPI_REQUEST_NULL);
    CHECK_EQ(1, queries);
    CHECK_EQ(1, frees);
    CHECK_EQ(33, s.MPI_TAG);
    CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
    CHECK_EQ(5, count);
    context("cancel");
    CHECK_OK(MPI_Grequest_start(on_query, on_free, on_cancel, &extra, &r));
    CHECK_OK(MPI_Cancel(&r));
    CHECK_EQ(1, cancels);
    CHECK_EQ(0, cancel_complete);
    CHECK_OK(MPI_Grequest_complete(r));
    CHECK_OK(MPI_Wait(&r, &s));
    CHECK_OK(MPI_Test_cancelled(&s, &flag));
    CHECK(flag);
    CHECK_EQ(2, frees);
    context("with an ordinary request");
    CHECK_OK(MPI_Grequest_start(on_query, on_free, on_cancel, &extra, &mixed[0]));
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD, &mixed[1]));
    CHECK_OK(MPI_Testall(2, mixed, &flag, both));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Grequest_complete(mixed[0]));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD));
    CHECK_OK(MPI_Waitall(2, mixed, both));
    CHECK_EQ(33, both[0].MPI_TAG);
    CHECK_EQ(2, both[1].MPI_TAG);
    CHECK_EQ(3, frees);
    context("request_free before completion");
    CHECK_OK(MPI_Grequest_start(on_query, on_free, on_cancel, &extra, &r));
    {
        MPI_Request keep = r;
        CHECK_OK(MPI_Request_free(&r));
        CHECK_EQ(3, frees);
        CHECK_OK(MPI_Grequest_complete(keep));
        CHECK_EQ(4, frees);
    }
    callback_errors();
    return finish();
}
