// tests/unit/abi_env.cc: versions, names, clock, memory, handle numbers, status fields.
#include "tests/unit/abi_local.h"

#include <chrono>
#include <cstring>
#include <thread>

// One test asks for more memory than there is, on purpose; AddressSanitizer reads this.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace {

using EnvironmentTest = AbiLocal;

TEST_F(EnvironmentTest, versions_and_names) {
    int major = 0, minor = -1, length = 0;
    EXPECT_OK(MPI_Get_version(&major, &minor));
    EXPECT_EQ(major, 5);
    EXPECT_EQ(minor, 0);
    EXPECT_OK(MPI_Abi_get_version(&major, &minor));
    EXPECT_EQ(major, 1);
    EXPECT_EQ(minor, 0);
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    EXPECT_OK(MPI_Get_library_version(text, &length));
    EXPECT_EQ(std::strlen(text), static_cast<size_t>(length));
    EXPECT_EQ(std::string(text).rfind("Pomona", 0), 0u);
    EXPECT_OK(MPI_Get_processor_name(text, &length));
    EXPECT_EQ(std::strlen(text), static_cast<size_t>(length));
    EXPECT_GT(length, 0);
    EXPECT_EQ(MPI_Get_version(nullptr, &minor), MPI_ERR_ARG);
}

TEST_F(EnvironmentTest, time_moves_forward) {
    double before = MPI_Wtime();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_GE(MPI_Wtime() - before, 0.019);
    EXPECT_GT(MPI_Wtick(), 0);
    EXPECT_LT(MPI_Wtick(), 0.01);
}

TEST_F(EnvironmentTest, memory_is_aligned) {
    void* memory = nullptr;
    EXPECT_OK(MPI_Alloc_mem(100, MPI_INFO_NULL, &memory));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::memset(memory, 1, 100);
    EXPECT_OK(MPI_Free_mem(memory));
    MPI_Info info;
    EXPECT_OK(MPI_Info_create(&info));
    EXPECT_OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
    EXPECT_OK(MPI_Alloc_mem(1, info, &memory));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    EXPECT_OK(MPI_Free_mem(memory));
    EXPECT_OK(MPI_Info_free(&info));
    EXPECT_EQ(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Alloc_mem(PTRDIFF_MAX - 4096, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM);
    char array[8];
    MPI_Aint base = reinterpret_cast<MPI_Aint>(array);
    EXPECT_EQ(MPI_Aint_add(base, 3), base + 3);
    EXPECT_EQ(MPI_Aint_diff(base + 3, base), 3);
}

TEST_F(EnvironmentTest, handles_become_numbers_and_back) {
    EXPECT_EQ(MPI_Comm_toint(MPI_COMM_WORLD), 0x101);
    EXPECT_EQ(MPI_Comm_fromint(0x102), MPI_COMM_SELF);
    EXPECT_EQ(MPI_Type_toint(MPI_INT), 0x209);
    EXPECT_EQ(MPI_Request_fromint(0x180), MPI_REQUEST_NULL);
    MPI_Info first, second;
    EXPECT_OK(MPI_Info_create(&first));
    EXPECT_OK(MPI_Info_create(&second));
    int one = MPI_Info_toint(first), two = MPI_Info_toint(second);
    EXPECT_GE(one, 0x400);
    EXPECT_NE(one, two);
    EXPECT_EQ(MPI_Info_toint(first), one);
    EXPECT_EQ(MPI_Info_fromint(one), first);
    EXPECT_EQ(MPI_Info_fromint(two), second);
    EXPECT_EQ(MPI_Info_fromint(1 << 28), MPI_INFO_NULL);
    EXPECT_EQ(MPI_Group_fromint(-5), MPI_GROUP_NULL);
    EXPECT_OK(MPI_Info_free(&first));
    EXPECT_OK(MPI_Info_free(&second));
}

TEST_F(EnvironmentTest, status_fields) {
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    EXPECT_OK(MPI_Status_set_source(&status, 3));
    EXPECT_OK(MPI_Status_set_tag(&status, 4));
    EXPECT_OK(MPI_Status_set_error(&status, MPI_ERR_TAG));
    int value = 0, flag = 0;
    EXPECT_OK(MPI_Status_get_source(&status, &value));
    EXPECT_EQ(value, 3);
    EXPECT_OK(MPI_Status_get_tag(&status, &value));
    EXPECT_EQ(value, 4);
    EXPECT_OK(MPI_Status_get_error(&status, &value));
    EXPECT_EQ(value, MPI_ERR_TAG);
    EXPECT_EQ(status.MPI_SOURCE, 3);
    EXPECT_OK(MPI_Status_set_cancelled(&status, 1));
    EXPECT_OK(MPI_Test_cancelled(&status, &flag));
    EXPECT_TRUE(flag);
    EXPECT_EQ(MPI_Status_set_tag(MPI_STATUS_IGNORE, 1), MPI_ERR_ARG);
}

TEST_F(EnvironmentTest, abi_and_hardware_information) {
    MPI_Info info;
    char value[16];
    int flag = 0, keys = 0;
    EXPECT_OK(MPI_Abi_get_info(&info));
    EXPECT_OK(MPI_Info_get(info, "mpi_count_size", 15, value, &flag));
    EXPECT_TRUE(flag);
    EXPECT_STREQ(value, "8");
    EXPECT_OK(MPI_Info_free(&info));
    EXPECT_OK(MPI_Get_hw_resource_info(&info));
    EXPECT_OK(MPI_Info_get_nkeys(info, &keys));
    EXPECT_GT(keys, 1);
    EXPECT_OK(MPI_Info_free(&info));
    int yes = 1, no = 0, read_yes = -1, read_no = -1, set = -1;
    EXPECT_OK(MPI_Abi_get_fortran_booleans(4, &read_yes, &read_no, &set));
    EXPECT_EQ(set, 0);
    EXPECT_OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    EXPECT_OK(MPI_Abi_get_fortran_booleans(4, &read_yes, &read_no, &set));
    EXPECT_EQ(set, 1);
    EXPECT_EQ(read_yes, 1);
    EXPECT_EQ(read_no, 0);
    EXPECT_EQ(MPI_Abi_set_fortran_booleans(4, &yes, &no), MPI_ERR_ABI);
}

}  // namespace
