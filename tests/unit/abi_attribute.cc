// tests/unit/abi_attribute.cc: attributes of communicators and datatypes.
#include "tests/unit/abi_local.h"

#include <vector>

namespace {

using AttributeTest = AbiLocal;

std::vector<int> deleted;  // keyvals in the order of their deletion
int refuse = MPI_SUCCESS;

int copy_plus_one(MPI_Comm, int, void* extra, void* in, void* out, int* flag) {
    *static_cast<int*>(extra) += 1;
    *static_cast<char**>(out) = static_cast<char*>(in) + 1;
    *flag = 1;
    return MPI_SUCCESS;
}
int remember(MPI_Comm, int keyval, void*, void*) {
    deleted.push_back(keyval);
    return refuse;
}
int remember_type(MPI_Datatype, int keyval, void*, void*) {
    deleted.push_back(keyval);
    return MPI_SUCCESS;
}

TEST_F(AttributeTest, duplicates_copy_as_the_keyval_says) {
    int copies = 0, dropped, shared, counted, flag;
    EXPECT_OK(
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &dropped, nullptr));
    EXPECT_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &shared, nullptr));
    EXPECT_OK(MPI_Comm_create_keyval(copy_plus_one, remember, &counted, &copies));
    MPI_Comm comm, copy;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    char memory[4];
    for (int keyval : {dropped, shared, counted})
        EXPECT_OK(MPI_Comm_set_attr(comm, keyval, memory));
    EXPECT_OK(MPI_Comm_dup(comm, &copy));
    char* value = nullptr;
    EXPECT_OK(MPI_Comm_get_attr(copy, dropped, &value, &flag));
    EXPECT_FALSE(flag);
    EXPECT_OK(MPI_Comm_get_attr(copy, shared, &value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_EQ(value, memory);
    EXPECT_OK(MPI_Comm_get_attr(copy, counted, &value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_EQ(value, memory + 1);
    EXPECT_EQ(copies, 1);
    deleted.clear();
    EXPECT_OK(MPI_Comm_free(&copy));
    EXPECT_EQ(deleted, std::vector<int>{counted});
    EXPECT_OK(MPI_Comm_free(&comm));
    EXPECT_EQ(deleted.size(), 2u);
    for (int* keyval : {&dropped, &shared, &counted}) {
        EXPECT_OK(MPI_Comm_free_keyval(keyval));
        EXPECT_EQ(*keyval, MPI_KEYVAL_INVALID);
    }
}

TEST_F(AttributeTest, deletion_goes_backwards_and_may_be_refused) {
    int first, second;
    EXPECT_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, remember, &first, nullptr));
    EXPECT_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, remember, &second, nullptr));
    MPI_Comm comm;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    EXPECT_OK(MPI_Comm_set_attr(comm, second, nullptr));
    EXPECT_OK(MPI_Comm_set_attr(comm, first, nullptr));
    deleted.clear();
    EXPECT_OK(MPI_Comm_set_attr(comm, first, &comm));
    EXPECT_EQ(deleted, std::vector<int>{first}) << "replacing deletes the old value";
    refuse = MPI_ERR_OTHER;
    EXPECT_EQ(MPI_Comm_delete_attr(comm, first), MPI_ERR_OTHER);
    EXPECT_EQ(MPI_Comm_free(&comm), MPI_ERR_OTHER);
    EXPECT_NE(comm, MPI_COMM_NULL);
    refuse = MPI_SUCCESS;
    deleted.clear();
    EXPECT_OK(MPI_Comm_free(&comm));
    EXPECT_EQ(deleted, (std::vector<int>{first, second}));
    EXPECT_OK(MPI_Comm_free_keyval(&first));
    EXPECT_OK(MPI_Comm_free_keyval(&second));
}

TEST_F(AttributeTest, a_freed_keyval_lives_on_in_its_attributes) {
    int keyval, flag;
    EXPECT_OK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &keyval, nullptr));
    MPI_Comm comm, copy;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    EXPECT_OK(MPI_Attr_put(comm, keyval, &flag));
    int number = keyval;
    EXPECT_OK(MPI_Keyval_free(&keyval));
    EXPECT_OK(MPI_Comm_dup(comm, &copy));
    void* value = nullptr;
    EXPECT_OK(MPI_Attr_get(copy, number, &value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_OK(MPI_Comm_free(&copy));
    EXPECT_OK(MPI_Comm_free(&comm));
}

TEST_F(AttributeTest, predefined_ones_can_be_read_only) {
    int* value = nullptr;
    int flag = 0;
    EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    ASSERT_TRUE(flag);
    EXPECT_GE(*value, 32767);
    EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_WTIME_IS_GLOBAL, &value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_EQ(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, value), MPI_ERR_KEYVAL);
    EXPECT_EQ(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_ERR_KEYVAL);
    EXPECT_EQ(MPI_Comm_set_attr(MPI_COMM_WORLD, 123456, value), MPI_ERR_KEYVAL);
    EXPECT_EQ(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL);
}

TEST_F(AttributeTest, datatypes_have_their_own) {
    int keyval, comm_keyval, flag;
    EXPECT_OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, remember_type, &keyval, nullptr));
    EXPECT_OK(
        MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &comm_keyval, nullptr));
    MPI_Datatype type, copy;
    EXPECT_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    EXPECT_EQ(MPI_Type_set_attr(type, comm_keyval, nullptr), MPI_ERR_KEYVAL);
    EXPECT_OK(MPI_Type_set_attr(type, keyval, &flag));
    EXPECT_OK(MPI_Type_dup(type, &copy));
    void* value = nullptr;
    EXPECT_OK(MPI_Type_get_attr(copy, keyval, &value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_EQ(value, &flag);
    deleted.clear();
    EXPECT_OK(MPI_Type_free(&copy));
    EXPECT_OK(MPI_Type_free(&type));
    EXPECT_EQ(deleted, (std::vector<int>{keyval, keyval}));
    EXPECT_OK(MPI_Type_free_keyval(&keyval));
    EXPECT_OK(MPI_Comm_free_keyval(&comm_keyval));
}

}  // namespace
