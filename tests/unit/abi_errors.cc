// tests/unit/abi_errors.cc: error handlers, classes, codes and texts; functions that are missing.
#include "tests/unit/abi_local.h"

namespace {

using ErrorTest = AbiLocal;

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    EXPECT_OK(MPI_Error_string(code, text, &length));
    EXPECT_EQ(std::string(text).size(), static_cast<size_t>(length));
    return text;
}

int handled_code = 0;
void handle(MPI_Comm* comm, int* code, ...) {
    EXPECT_NE(*comm, MPI_COMM_NULL);
    handled_code = *code;
}

void ignore(MPI_Session*, int*, ...) {}

TEST_F(ErrorTest, user_handlers_are_called) {
    MPI_Comm comm;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Errhandler mine, found;
    EXPECT_OK(MPI_Comm_create_errhandler(handle, &mine));
    EXPECT_OK(MPI_Comm_set_errhandler(comm, mine));
    EXPECT_OK(MPI_Comm_get_errhandler(comm, &found));
    EXPECT_EQ(found, mine);
    EXPECT_OK(MPI_Errhandler_free(&found));
    EXPECT_OK(MPI_Errhandler_free(&mine));
    EXPECT_EQ(mine, MPI_ERRHANDLER_NULL);
    // The communicator still has it.
    int value = 0;
    EXPECT_EQ(MPI_Send(&value, 1, MPI_INT, 7, 0, comm), MPI_ERR_RANK);
    EXPECT_EQ(handled_code, MPI_ERR_RANK);
    EXPECT_OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
    EXPECT_EQ(handled_code, MPI_ERR_OTHER);
    // Children inherit it.
    MPI_Comm child;
    EXPECT_OK(MPI_Comm_dup(comm, &child));
    EXPECT_OK(MPI_Comm_call_errhandler(child, MPI_ERR_TAG));
    EXPECT_EQ(handled_code, MPI_ERR_TAG);
    EXPECT_OK(MPI_Comm_free(&child));
    EXPECT_OK(MPI_Comm_free(&comm));
}

TEST_F(ErrorTest, handlers_fit_their_kind) {
    MPI_Errhandler session_handler;
    EXPECT_OK(MPI_Session_create_errhandler(ignore, &session_handler));
    EXPECT_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, session_handler), MPI_ERR_ERRHANDLER);
    EXPECT_OK(MPI_Errhandler_free(&session_handler));
    EXPECT_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    MPI_Errhandler found;
    EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    EXPECT_EQ(found, MPI_ERRORS_RETURN);
    EXPECT_OK(MPI_Errhandler_free(&found));
    EXPECT_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    EXPECT_EQ(found, MPI_ERRORS_RETURN);
}

TEST_F(ErrorTest, predefined_classes_have_texts) {
    for (int code = MPI_SUCCESS; code <= MPI_ERR_ABI; ++code) {
        int own_class = -1;
        EXPECT_OK(MPI_Error_class(code, &own_class));
        EXPECT_EQ(own_class, code);
        EXPECT_FALSE(text_of(code).empty()) << code;
    }
    int own_class;
    EXPECT_EQ(MPI_Error_class(1 << 20, &own_class), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Error_class(-1, &own_class), MPI_ERR_ARG);
    EXPECT_NE(text_of(MPI_T_ERR_INVALID_INDEX).find("MPI_T_ERR_INVALID_INDEX"), std::string::npos);
}

TEST_F(ErrorTest, texts_tell_what_was_wrong) {
    int value = 0;
    EXPECT_EQ(MPI_Send(&value, 1, MPI_INT, 7, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    std::string text = text_of(MPI_ERR_RANK);
    EXPECT_NE(text.find("MPI_Send"), std::string::npos) << text;
    EXPECT_NE(text.find("7"), std::string::npos) << text;
}

TEST_F(ErrorTest, users_add_and_remove_their_own) {
    int own_class, code, found = -1, flag = 0;
    int* last = nullptr;
    EXPECT_OK(MPI_Add_error_class(&own_class));
    EXPECT_GT(own_class, MPI_ERR_LASTCODE);
    EXPECT_OK(MPI_Add_error_code(own_class, &code));
    EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    ASSERT_TRUE(flag);
    EXPECT_EQ(*last, code);
    EXPECT_OK(MPI_Error_class(code, &found));
    EXPECT_EQ(found, own_class);
    EXPECT_EQ(text_of(code), "");
    EXPECT_OK(MPI_Add_error_string(code, "the goat ate it"));
    EXPECT_EQ(text_of(code), "the goat ate it");
    EXPECT_EQ(MPI_Add_error_string(MPI_ERR_RANK, "no"), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Add_error_code(code, &found), MPI_ERR_ARG) << "a code is no class";
    EXPECT_EQ(MPI_Remove_error_class(own_class), MPI_ERR_ARG) << "it has a code";
    EXPECT_EQ(MPI_Remove_error_code(code), MPI_ERR_ARG) << "it has a string";
    EXPECT_OK(MPI_Remove_error_string(code));
    EXPECT_OK(MPI_Remove_error_code(code));
    EXPECT_OK(MPI_Remove_error_class(own_class));
    EXPECT_EQ(MPI_Error_class(code, &found), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Remove_error_class(MPI_ERR_RANK), MPI_ERR_ARG);
}

}  // namespace
