// tests/unit/abi_tool.cc: the tool interface: parameters as control, counters as performance
// variables.
#include "tests/unit/abi_local.h"

#include <vector>

namespace {

class ToolTest : public AbiLocal {
protected:
    void SetUp() override {
        int provided = 0;
        ASSERT_EQ(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
    }
    void TearDown() override { EXPECT_OK(MPI_T_finalize()); }
};

TEST(ToolStart, nothing_works_before_it) {
    int count = 0;
    EXPECT_EQ(MPI_T_cvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    EXPECT_EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
}

TEST_F(ToolTest, every_control_variable_can_be_found_and_read) {
    int count = 0;
    EXPECT_OK(MPI_T_cvar_get_num(&count));
    ASSERT_GT(count, 10);
    for (int i = 0; i < count; ++i) {
        char name[128], text[256], value[1024];
        int name_length = sizeof name, text_length = sizeof text, verbosity, bind, scope,
            found = -1;
        MPI_Datatype type;
        MPI_T_enum values;
        EXPECT_OK(MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &values, text,
                                      &text_length, &bind, &scope));
        EXPECT_EQ(static_cast<size_t>(name_length), std::string(name).size() + 1);
        EXPECT_OK(MPI_T_cvar_get_index(name, &found));
        EXPECT_EQ(found, i);
        MPI_T_cvar_handle handle;
        int elements = 0;
        EXPECT_OK(MPI_T_cvar_handle_alloc(i, nullptr, &handle, &elements));
        EXPECT_EQ(elements, type == MPI_CHAR ? 1024 : 1);
        EXPECT_OK(MPI_T_cvar_read(handle, value));
        EXPECT_EQ(MPI_T_cvar_write(handle, value), MPI_T_ERR_CVAR_SET_NOT_NOW);
        EXPECT_OK(MPI_T_cvar_handle_free(&handle));
        EXPECT_EQ(handle, MPI_T_CVAR_HANDLE_NULL);
    }
    int index;
    EXPECT_EQ(MPI_T_cvar_get_index("POMONA_NO_SUCH", &index), MPI_T_ERR_INVALID_NAME);
    EXPECT_EQ(MPI_T_cvar_get_index("POMONA_SHM_FRAGMENT", &index), MPI_SUCCESS);
    MPI_T_cvar_handle handle;
    int elements;
    unsigned long long value = 0;
    EXPECT_OK(MPI_T_cvar_handle_alloc(index, nullptr, &handle, &elements));
    EXPECT_OK(MPI_T_cvar_read(handle, &value));
    EXPECT_GT(value, 0u);
    EXPECT_OK(MPI_T_cvar_handle_free(&handle));
}

TEST_F(ToolTest, names_are_cut_and_their_length_told) {
    char name[5];
    int length = sizeof name, needed = 0;
    EXPECT_OK(MPI_T_cvar_get_info(0, nullptr, &needed, nullptr, nullptr, nullptr, nullptr, nullptr,
                                  nullptr, nullptr));
    EXPECT_OK(MPI_T_cvar_get_info(0, name, &length, nullptr, nullptr, nullptr, nullptr, nullptr,
                                  nullptr, nullptr));
    EXPECT_STREQ(name, "POMO");
    EXPECT_EQ(length, needed);
    EXPECT_GT(needed, 5);
}

TEST_F(ToolTest, counters_count) {
    int index = -1, elements = 0;
    ASSERT_EQ(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_COUNTER, &index), MPI_SUCCESS);
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    EXPECT_OK(MPI_T_pvar_session_create(&session));
    EXPECT_OK(MPI_T_pvar_handle_alloc(session, index, nullptr, &handle, &elements));
    EXPECT_EQ(elements, 1);
    unsigned long long value = 77;
    EXPECT_OK(MPI_T_pvar_read(session, handle, &value));
    EXPECT_EQ(value, 0u);
    int sent = 1, got = 0;
    MPI_Sendrecv(&sent, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    EXPECT_OK(MPI_T_pvar_readreset(session, handle, &value));
    EXPECT_EQ(value, 1u);
    EXPECT_OK(MPI_T_pvar_read(session, handle, &value));
    EXPECT_EQ(value, 0u);
    EXPECT_EQ(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
    EXPECT_OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    EXPECT_EQ(MPI_T_pvar_read(session, MPI_T_PVAR_HANDLE_NULL, &value), MPI_T_ERR_INVALID_HANDLE);
    EXPECT_OK(MPI_T_pvar_session_free(&session));
    EXPECT_EQ(session, MPI_T_PVAR_SESSION_NULL);
}

TEST_F(ToolTest, categories_hold_every_variable_once) {
    int categories = 0, cvars = 0, pvars = 0, all_cvars, all_pvars;
    EXPECT_OK(MPI_T_category_get_num(&categories));
    EXPECT_OK(MPI_T_cvar_get_num(&all_cvars));
    EXPECT_OK(MPI_T_pvar_get_num(&all_pvars));
    for (int i = 0; i < categories; ++i) {
        int c = 0, p = 0, inner = 0;
        EXPECT_OK(MPI_T_category_get_info(i, nullptr, nullptr, nullptr, nullptr, &c, &p, &inner));
        cvars += c;
        pvars += p;
        std::vector<int> indices(c, -1);
        EXPECT_OK(MPI_T_category_get_cvars(i, c, indices.data()));
        for (int index : indices) EXPECT_GE(index, 0);
    }
    EXPECT_EQ(cvars, all_cvars);
    EXPECT_EQ(pvars, all_pvars);
    int index;
    EXPECT_OK(MPI_T_category_get_index("shm", &index));
    EXPECT_EQ(MPI_T_category_get_index("nothing", &index), MPI_T_ERR_INVALID_NAME);
}

TEST_F(ToolTest, there_are_no_events) {
    int count = -1;
    EXPECT_OK(MPI_T_event_get_num(&count));
    EXPECT_EQ(count, 0);
    EXPECT_OK(MPI_T_source_get_num(&count));
    EXPECT_EQ(count, 0);
    EXPECT_EQ(MPI_T_event_get_index("x", &count), MPI_T_ERR_INVALID_NAME);
    MPI_Count stamp;
    EXPECT_EQ(MPI_T_source_get_timestamp(0, &stamp), MPI_T_ERR_INVALID_INDEX);
}

}  // namespace
