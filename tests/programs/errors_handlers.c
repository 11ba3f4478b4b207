/* Goal: error handlers, classes, codes and strings (MPI-5.0 section 9.3 to 9.5). Method: a user
 * handler counts its calls; handlers are inherited, replaced, freed and compared; classes and codes
 * are added and removed.
 */
#include "check.h"

static int calls = 0, last_code = 0;
static MPI_Comm last_comm;

static void on_error(MPI_Comm* comm, int* code, ...) {
    ++calls;
    last_code = *code;
    last_comm = *comm;
}

static void user_handler(void) {
    MPI_Errhandler mine, found;
    MPI_Comm twin, half;
    int value = 0, code;
    context("user handler");
    CHECK_OK(MPI_Comm_create_errhandler(on_error, &mine));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Comm_set_errhandler(twin, mine));
    CHECK_OK(MPI_Comm_get_errhandler(twin, &found));
    CHECK(found == mine);
    CHECK_OK(MPI_Errhandler_free(&found));
    CHECK_OK(MPI_Errhandler_free(&mine));
    CHECK(mine == MPI_ERRHANDLER_NULL);
    code = MPI_Send(&value, 1, MPI_INT, check_size, 0, twin);
    /* The code given to the handler is the one the call returns; MPICH returns success. */
    CHECK_CLASS(MPI_ERR_RANK, last_code);
    CHECK_EQ(1, calls);
    if (!known_limit("MPICH")) CHECK_EQ(last_code, code);
    CHECK(last_comm == twin);
    CHECK_OK(MPI_Comm_call_errhandler(twin, MPI_ERR_OTHER));
    CHECK_EQ(2, calls);
    CHECK_EQ(MPI_ERR_OTHER, last_code);
    CHECK_OK(MPI_Comm_dup(twin, &half));
    MPI_Send(&value, 1, MPI_INT, 0, -5, half);
    CHECK_EQ(3, calls);
    CHECK_CLASS(MPI_ERR_TAG, last_code);
    CHECK(last_comm == half);
    CHECK_OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Send(&value, -1, MPI_INT, 0, 0, half));
    CHECK_EQ(3, calls);
    CHECK_OK(MPI_Comm_free(&half));
    CHECK_OK(MPI_Comm_free(&twin));
}

/* A request that fails calls the handler of its own communicator, MPI_COMM_SELF's too. */
static void requests_of_self(void) {
    MPI_Errhandler mine;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int sent[4] = {0}, received[2], form, index, outcount, indices[2];
    CHECK_OK(MPI_Comm_create_errhandler(on_error, &mine));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
    for (form = 0; form < 4; ++form) {
        int first_calls = calls;
        context("a failed request of MPI_COMM_SELF, form %d", form);
        last_comm = MPI_COMM_NULL;
        CHECK_OK(MPI_Isend(sent, 4, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]));
        CHECK_OK(MPI_Irecv(received, 2, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]));
        if (form != 1) CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        if (form == 0) MPI_Wait(&requests[1], &statuses[1]);
        else if (form == 1) MPI_Waitall(2, requests, statuses);
        else if (form == 2) MPI_Waitany(2, requests, &index, &statuses[1]);
        else MPI_Waitsome(2, requests, &outcount, indices, statuses);
        CHECK_EQ(first_calls + 1, calls);
        CHECK(last_comm == MPI_COMM_SELF);
        CHECK_CLASS(form & 1 ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE, last_code);
    }
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&mine));
}

static void predefined_handlers(void) {
    MPI_Errhandler found;
    MPI_Comm twin;
    context("predefined handlers");
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    CHECK(found == MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Errhandler_free(&found));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Comm_get_errhandler(twin, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Errhandler_free(&found));
    CHECK_OK(MPI_Comm_call_errhandler(twin, MPI_ERR_COMM));
#if MPI_AT_LEAST(4, 0)
    if (known_limit("MPICH Version:\t4.0") || known_limit("MPICH Version:      4.0")) return;
    CHECK_OK(MPI_Comm_set_errhandler(twin, MPI_ERRORS_ABORT));
    CHECK_OK(MPI_Comm_get_errhandler(twin, &found));
    CHECK(found == MPI_ERRORS_ABORT);
    CHECK_OK(MPI_Errhandler_free(&found));
#endif
    CHECK_OK(MPI_Comm_free(&twin));
}

static const int classes[] = {
    MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM, MPI_ERR_RANK,
    MPI_ERR_REQUEST, MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_TOPOLOGY, MPI_ERR_DIMS,
    MPI_ERR_ARG, MPI_ERR_UNKNOWN, MPI_ERR_TRUNCATE, MPI_ERR_OTHER, MPI_ERR_INTERN, MPI_ERR_PENDING,
    MPI_ERR_IN_STATUS, MPI_ERR_ACCESS, MPI_ERR_AMODE, MPI_ERR_ASSERT, MPI_ERR_BAD_FILE,
    MPI_ERR_BASE, MPI_ERR_CONVERSION, MPI_ERR_DISP, MPI_ERR_DUP_DATAREP, MPI_ERR_FILE_EXISTS,
    MPI_ERR_FILE_IN_USE, MPI_ERR_FILE, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE,
    MPI_ERR_INFO, MPI_ERR_IO, MPI_ERR_KEYVAL, MPI_ERR_LOCKTYPE, MPI_ERR_NAME, MPI_ERR_NO_MEM,
    MPI_ERR_NOT_SAME, MPI_ERR_NO_SPACE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_PORT, MPI_ERR_QUOTA,
    MPI_ERR_READ_ONLY, MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_CONFLICT, MPI_ERR_RMA_RANGE,
    MPI_ERR_RMA_SHARED, MPI_ERR_RMA_SYNC, MPI_ERR_SERVICE, MPI_ERR_SIZE, MPI_ERR_SPAWN,
    MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_WIN};

static void class_strings(void) {
    char text[MPI_MAX_ERROR_STRING];
    int i, length, error_class;
    for (i = 0; i < (int)(sizeof classes / sizeof classes[0]); ++i) {
        context("class %d", classes[i]);
        CHECK(classes[i] > 0 && classes[i] <= MPI_ERR_LASTCODE);
        CHECK_OK(MPI_Error_class(classes[i], &error_class));
        CHECK_EQ(classes[i], error_class);
        memset(text, 'x', sizeof text);
        CHECK_OK(MPI_Error_string(classes[i], text, &length));
        CHECK(length > 0 && length < MPI_MAX_ERROR_STRING);
        CHECK_EQ(length, strnlen(text, sizeof text));
    }
    CHECK_OK(MPI_Error_class(MPI_SUCCESS, &error_class));
    CHECK_EQ(MPI_SUCCESS, error_class);
    CHECK_OK(MPI_Error_string(MPI_SUCCESS, text, &length));
}

static int last_used(void) {
    int *value = NULL, flag = 0;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    return flag ? *value : -1;
}

static void added(void) {
    int new_class = 0, code_one = 0, code_two = 0, code_three = 0;
    int error_class = 0, length = 0, before = last_used();
    char text[MPI_MAX_ERROR_STRING];
    context("added classes and codes");
    CHECK_OK(MPI_Add_error_class(&new_class));
    CHECK(new_class > MPI_ERR_LASTCODE);
    CHECK(last_used() >= before);
    CHECK_OK(MPI_Add_error_code(new_class, &code_one));
    CHECK_OK(MPI_Add_error_code(MPI_ERR_ARG, &code_two));
    CHECK(code_one != code_two && code_one > 0 && code_two > 0);
    CHECK(last_used() >= code_one || last_used() >= new_class);
    CHECK_OK(MPI_Error_class(code_one, &error_class));
    CHECK_EQ(new_class, error_class);
    CHECK_OK(MPI_Error_class(code_two, &error_class));
    CHECK_EQ(MPI_ERR_ARG, error_class);
    CHECK_OK(MPI_Error_class(new_class, &error_class));
    if (!known_limit("Open MPI")) CHECK_EQ(new_class, error_class);
    CHECK_OK(MPI_Add_error_string(new_class, "apples fell"));
    CHECK_OK(MPI_Add_error_string(code_one, "a red apple fell"));
    CHECK_OK(MPI_Error_string(new_class, text, &length));
    CHECK_STR("apples fell", text);
    CHECK_EQ(strlen("apples fell"), length);
    CHECK_OK(MPI_Error_string(code_one, text, &length));
    CHECK_STR("a red apple fell", text);
    CHECK_OK(MPI_Error_string(code_two, text, &length));
    CHECK_EQ(length, strlen(text));
    CHECK_OK(MPI_Add_error_code(new_class, &code_three));
    CHECK_OK(MPI_Add_error_string(code_three, "once"));
    CHECK_OK(MPI_Add_error_string(code_three, "another"));
    CHECK_OK(MPI_Error_string(code_three, text, &length));
    CHECK_STR("another", text);
    calls = 0;
    CHECK_CLASS(new_class, code_one);
#if MPI_AT_LEAST(4, 1)
    CHECK_OK(MPI_Remove_error_string(code_one));
    CHECK_OK(MPI_Error_string(code_one, text, &length));
    CHECK(strcmp(text, "a red apple fell") != 0);
    CHECK_OK(MPI_Remove_error_code(code_one));
    CHECK_OK(MPI_Remove_error_code(code_two));
    if (!known_limit("MPICH")) { /* counts the replaced string of code_three as in use */
        CHECK_OK(MPI_Remove_error_string(code_three));
        CHECK_OK(MPI_Remove_error_code(code_three));
        CHECK_OK(MPI_Remove_error_string(new_class));
        CHECK_OK(MPI_Remove_error_class(new_class));
    }
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(MPI_Remove_error_class(MPI_ERR_ARG) != MPI_SUCCESS);
#endif
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    predefined_handlers();
    user_handler();
    requests_of_self();
    class_strings();
    added();
    return finish();
}
