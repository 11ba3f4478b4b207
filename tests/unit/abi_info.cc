// tests/unit/abi_info.cc: info objects.
// Goal: the rules of MPI 5.0, chapter 10: order of keys, lengths, truncation, missing keys.
#include "tests/unit/abi_local.h"

namespace {

class InfoTest : public AbiLocal {
protected:
    void SetUp() override { EXPECT_OK(MPI_Info_create(&info)); }
    void TearDown() override {
        EXPECT_OK(MPI_Info_free(&info));
        EXPECT_EQ(info, MPI_INFO_NULL);
    }
    MPI_Info info = MPI_INFO_NULL;
};

TEST_F(InfoTest, keeps_values_and_order) {
    EXPECT_OK(MPI_Info_set(info, "zebra", "1"));
    EXPECT_OK(MPI_Info_set(info, "ant", "2"));
    EXPECT_OK(MPI_Info_set(info, "zebra", "3"));
    int keys = 0;
    EXPECT_OK(MPI_Info_get_nkeys(info, &keys));
    EXPECT_EQ(keys, 2);
    char key[MPI_MAX_INFO_KEY];
    EXPECT_OK(MPI_Info_get_nthkey(info, 0, key));
    EXPECT_STREQ(key, "zebra");
    EXPECT_OK(MPI_Info_get_nthkey(info, 1, key));
    EXPECT_STREQ(key, "ant");
    EXPECT_EQ(MPI_Info_get_nthkey(info, 2, key), MPI_ERR_ARG);
    char value[8];
    int flag = 0;
    EXPECT_OK(MPI_Info_get(info, "zebra", 7, value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_STREQ(value, "3");
    EXPECT_OK(MPI_Info_get(info, "bee", 7, value, &flag));
    EXPECT_FALSE(flag);
}

TEST_F(InfoTest, cuts_to_the_room_there_is) {
    EXPECT_OK(MPI_Info_set(info, "k", "abcdef"));
    char value[8] = "xxxxxxx";
    int flag = 0, length = 0;
    EXPECT_OK(MPI_Info_get(info, "k", 3, value, &flag));
    EXPECT_STREQ(value, "abc");
    length = 4;
    EXPECT_OK(MPI_Info_get_string(info, "k", &length, value, &flag));
    EXPECT_STREQ(value, "abc");
    EXPECT_EQ(length, 7);
    value[0] = 'q';
    length = 0;
    EXPECT_OK(MPI_Info_get_string(info, "k", &length, value, &flag));
    EXPECT_EQ(value[0], 'q');
    EXPECT_EQ(length, 7);
    EXPECT_OK(MPI_Info_get_valuelen(info, "k", &length, &flag));
    EXPECT_EQ(length, 6);
}

TEST_F(InfoTest, duplicates_are_independent) {
    EXPECT_OK(MPI_Info_set(info, "k", "old"));
    MPI_Info copy;
    EXPECT_OK(MPI_Info_dup(info, &copy));
    EXPECT_OK(MPI_Info_set(copy, "k", "new"));
    EXPECT_OK(MPI_Info_delete(info, "k"));
    int flag = 1;
    char value[8];
    EXPECT_OK(MPI_Info_get(info, "k", 7, value, &flag));
    EXPECT_FALSE(flag);
    EXPECT_OK(MPI_Info_get(copy, "k", 7, value, &flag));
    EXPECT_STREQ(value, "new");
    EXPECT_OK(MPI_Info_free(&copy));
}

TEST_F(InfoTest, wrong_arguments_have_their_classes) {
    std::string long_key(MPI_MAX_INFO_KEY, 'k'), long_value(MPI_MAX_INFO_VAL, 'v');
    EXPECT_EQ(MPI_Info_set(info, long_key.c_str(), "v"), MPI_ERR_INFO_KEY);
    EXPECT_OK(MPI_Info_set(info, long_key.c_str() + 1, "v"));
    EXPECT_EQ(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY);
    EXPECT_EQ(MPI_Info_set(info, nullptr, "v"), MPI_ERR_INFO_KEY);
    EXPECT_EQ(MPI_Info_set(info, "k", long_value.c_str()), MPI_ERR_INFO_VALUE);
    EXPECT_EQ(MPI_Info_set(info, "k", nullptr), MPI_ERR_INFO_VALUE);
    EXPECT_EQ(MPI_Info_delete(info, "none"), MPI_ERR_INFO_NOKEY);
    EXPECT_EQ(MPI_Info_set(MPI_INFO_NULL, "k", "v"), MPI_ERR_INFO);
    int keys;
    EXPECT_EQ(MPI_Info_get_nkeys(reinterpret_cast<MPI_Info>(MPI_COMM_WORLD), &keys), MPI_ERR_INFO);
    MPI_Info none = MPI_INFO_NULL, env = MPI_INFO_ENV;
    EXPECT_EQ(MPI_Info_free(&none), MPI_ERR_INFO);
    EXPECT_EQ(MPI_Info_free(&env), MPI_ERR_INFO);
    EXPECT_EQ(MPI_Info_set(MPI_INFO_ENV, "k", "v"), MPI_ERR_INFO);
}

TEST_F(InfoTest, environment_names_the_program) {
    char value[MPI_MAX_INFO_VAL];
    int flag = 0;
    EXPECT_OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", MPI_MAX_INFO_VAL - 1, value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_STREQ(value, "1");
    EXPECT_OK(MPI_Info_get(MPI_INFO_ENV, "command", MPI_MAX_INFO_VAL - 1, value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_NE(std::string(value).find("unit_abi"), std::string::npos) << value;
    char program[] = "prog", argument[] = "-x";
    char* words[] = {program, argument, nullptr};
    MPI_Info made;
    EXPECT_OK(MPI_Info_create_env(2, words, &made));
    EXPECT_OK(MPI_Info_get(made, "command", 20, value, &flag));
    EXPECT_STREQ(value, "prog");
    EXPECT_OK(MPI_Info_get(made, "argv", 20, value, &flag));
    EXPECT_STREQ(value, "-x");
    EXPECT_OK(MPI_Info_free(&made));
}

}  // namespace
