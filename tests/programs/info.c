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
    return finish();
}
