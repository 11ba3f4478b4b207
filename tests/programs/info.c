/* Goal: info objects (MPI-5.0 chapter 10). Method: a key list with known order, values of the
 * greatest length, all inquiry forms, errors for missing keys.
 */
#include "check.h"

static void expect_value(MPI_Info info, const char* key, const char* value) {
    char text[MPI_MAX_INFO_VAL + 1];
    int flag = 0, length = -1;
    context("key %s", key);
    CHECK_OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, text, &flag));
    if (CHECK_EQ(1, flag)) CHECK_STR(value, text);
    CHECK_OK(MPI_Info_get_valuelen(info, key, &length, &flag));
    CHECK_EQ(1, flag);
    CHECK_EQ(strlen(value), length);
#if MPI_AT_LEAST(4, 0)
    length = (int)sizeof text;
    CHECK_OK(MPI_Info_get_string(info, key, &length, text, &flag));
    CHECK_EQ(1, flag);
    CHECK_EQ(strlen(value) + 1, length);
    CHECK_STR(value, text);
    length = 0;
    CHECK_OK(MPI_Info_get_string(info, key, &length, text, &flag));
    CHECK_EQ(strlen(value) + 1, length);
    length = 3;
    memset(text, 'x', sizeof text);
    CHECK_OK(MPI_Info_get_string(info, key, &length, text, &flag));
    CHECK_EQ(strlen(value) + 1, length);
    if (strlen(value) > 2) CHECK_EQ(2, strlen(text));
#endif
    context("");
}

#if MPI_AT_LEAST(4, 1)
/* What memory the library takes (MPI-5.0 section 12.4.3): no more than it does, whatever was asked
 * for. */
static void expect_kinds(MPI_Info used) {
    char kinds[201] = "";
    int flag = 0;
    CHECK_OK(MPI_Info_get(used, "mpi_memory_alloc_kinds", 200, kinds, &flag));
    CHECK_EQ(1, flag);
    CHECK(strstr(kinds, "mpi") && strstr(kinds, "system") && !strstr(kinds, "nonesuch"));
    CHECK_OK(MPI_Info_free(&used));
}

static void memory_kinds(void) {
    MPI_Info asked, used;
    MPI_Session session;
    MPI_Comm comm;
    MPI_Win win;
    CHECK_OK(MPI_Info_create(&asked));
    CHECK_OK(MPI_Info_set(asked, "mpi_memory_alloc_kinds", "system,nonesuch:device"));
    CHECK_OK(MPI_Comm_get_info(MPI_COMM_WORLD, &used));
    expect_kinds(used);
    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_SELF, asked, &comm));
    CHECK_OK(MPI_Comm_get_info(comm, &used));
    expect_kinds(used);
    CHECK_OK(MPI_Win_create(NULL, 0, 1, asked, comm, &win));
    CHECK_OK(MPI_Win_get_info(win, &used));
    expect_kinds(used);
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Session_init(asked, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Session_get_info(session, &used));
    expect_kinds(used);
    { /* nor what it was made with */
        int flag = 0;
        char text[8];
        MPI_Group group;
        CHECK_OK(MPI_Info_set(asked, "mpi_assert_no_any_tag", "true"));
        CHECK_OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
        CHECK_OK(MPI_Comm_create_from_group(group, "kinds", asked, MPI_ERRORS_RETURN, &comm));
        CHECK_OK(MPI_Comm_get_info(comm, &used));
        CHECK_OK(MPI_Info_get(used, "mpi_assert_no_any_tag", 7, text, &flag));
        CHECK(flag && strcmp(text, "true") == 0);
        expect_kinds(used);
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Group_free(&group));
    }
    CHECK_OK(MPI_Session_finalize(&session));
    CHECK_OK(MPI_Info_free(&asked));
}
#endif

int main(int argc, char** argv) {
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY], text[64], long_value[MPI_MAX_INFO_VAL];
    char long_key[MPI_MAX_INFO_KEY];
    int count = -1, flag = -1, i;
#if MPI_AT_LEAST(4, 0)
    /* Before MPI_Init the same is known as afterwards. */
    MPI_Info early;
    char processes[16] = "";
    int length = sizeof processes, known = 0;
    MPI_Info_create_env(argc, argv, &early);
    MPI_Info_get_string(early, "maxprocs", &length, processes, &known);
    MPI_Info_free(&early);
#endif
    start(&argc, &argv);
#if MPI_AT_LEAST(4, 0)
    if (known) CHECK_EQ(check_size, atoi(processes));
#endif
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(0, count);
    memset(long_value, 'v', sizeof long_value);
    long_value[sizeof long_value - 1] = '\0';
    memset(long_key, 'k', sizeof long_key);
    long_key[sizeof long_key - 1] = '\0';
    CHECK_OK(MPI_Info_set(info, "first", "one"));
    CHECK_OK(MPI_Info_set(info, "second", "two words, a = sign"));
    CHECK_OK(MPI_Info_set(info, "third", long_value));
    CHECK_OK(MPI_Info_set(info, long_key, "value of a long key"));
    CHECK_OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(4, count);
    expect_value(info, "first", "one");
    expect_value(info, "second", "two words, a = sign");
    expect_value(info, "third", long_value);
    expect_value(info, long_key, "value of a long key");
    CHECK_OK(MPI_Info_get(info, "missing", 60, text, &flag));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Info_get_valuelen(info, "missing", &i, &flag));
    CHECK_EQ(0, flag);
    if (!known_limit("MPICH")) { /* refuses to truncate */
        CHECK_OK(MPI_Info_get(info, "second", 3, text, &flag));
        CHECK_EQ(1, flag);
        CHECK_STR("two", text);
    }
    for (i = 0; i < 4; ++i) {
        CHECK_OK(MPI_Info_get_nthkey(info, i, key));
        CHECK_OK(MPI_Info_get_valuelen(info, key, &count, &flag));
        CHECK_EQ(1, flag);
    }
    CHECK_OK(MPI_Info_dup(info, &copy));
    for (i = 0; i < 4; ++i) {
        char other[MPI_MAX_INFO_KEY];
        CHECK_OK(MPI_Info_get_nthkey(info, i, key));
        CHECK_OK(MPI_Info_get_nthkey(copy, i, other));
        CHECK_STR(key, other);
    }
    CHECK_OK(MPI_Info_set(info, "first", "replaced"));
    expect_value(info, "first", "replaced");
    expect_value(copy, "first", "one");
    CHECK_OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(4, count);
    CHECK_OK(MPI_Info_delete(info, "second"));
    CHECK_OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(3, count);
    CHECK_CLASS(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "second"));
    CHECK_CLASS2(MPI_ERR_ARG, MPI_ERR_INFO_KEY, MPI_Info_get_nthkey(info, 3, key));
    CHECK(MPI_Info_set(info, "", "x") != MPI_SUCCESS);
    CHECK_OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL);
    CHECK_OK(MPI_Info_free(&copy));
    CHECK_OK(MPI_Info_get(MPI_INFO_ENV, "no such key", 60, text, &flag));
    CHECK_EQ(0, flag);
#if MPI_AT_LEAST(4, 0)
    CHECK_OK(MPI_Info_create_env(argc, argv, &info));
    CHECK_OK(MPI_Info_get_nkeys(info, &count));
    CHECK(count >= 0);
    CHECK_OK(MPI_Info_free(&info));
#endif
#if MPI_AT_LEAST(4, 1)
    memory_kinds();
#endif
    return finish();
}
