// tests/unit/abi_widen.cc: the generated int forms against the large-count forms they call.
#include "tests/unit/abi_local.h"

#include <climits>
#include <vector>

namespace {

using WidenTest = AbiLocal;

TEST_F(WidenTest, what_does_not_fit_an_int_is_undefined) {
    MPI_Datatype large;
    EXPECT_OK(MPI_Type_contiguous_c(MPI_Count{1} << 33, MPI_BYTE, &large));
    int size = 0;
    MPI_Count wide = 0;
    EXPECT_OK(MPI_Type_size(large, &size));
    EXPECT_EQ(size, MPI_UNDEFINED);
    EXPECT_OK(MPI_Type_size_c(large, &wide));
    EXPECT_EQ(wide, MPI_Count{1} << 33);
    MPI_Aint lb = -1, extent = 0;
    EXPECT_OK(MPI_Type_get_extent(large, &lb, &extent));
    EXPECT_EQ(extent, MPI_Aint{1} << 33);
    EXPECT_OK(MPI_Pack_size(1, large, MPI_COMM_SELF, &size));
    EXPECT_EQ(size, MPI_UNDEFINED);
    MPI_Status status{};
    EXPECT_OK(MPI_Status_set_elements_c(&status, MPI_BYTE, MPI_Count{INT_MAX} + 1));
    EXPECT_OK(MPI_Get_count(&status, MPI_BYTE, &size));
    EXPECT_EQ(size, MPI_UNDEFINED);
    EXPECT_OK(MPI_Type_free(&large));
}

TEST_F(WidenTest, null_results_are_reported) {
    EXPECT_EQ(MPI_Type_size(MPI_INT, nullptr), MPI_ERR_ARG);
}

TEST_F(WidenTest, positions_go_in_and_out) {
    int values[] = {1, 2, 3}, back[] = {0, 0, 0}, position = 0;
    char packed[64];
    EXPECT_OK(MPI_Pack(values, 2, MPI_INT, packed, sizeof packed, &position, MPI_COMM_SELF));
    int middle = position;
    EXPECT_OK(MPI_Pack(values + 2, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_SELF));
    EXPECT_GT(position, middle);
    int end = position;
    position = 0;
    EXPECT_OK(MPI_Unpack(packed, end, &position, back, 3, MPI_INT, MPI_COMM_SELF));
    EXPECT_EQ(position, end);
    EXPECT_EQ(back[2], 3);
}

// More entries than fit the buffer on the stack.
TEST_F(WidenTest, long_arrays_are_widened_whole) {
    constexpr int kCount = 1000;
    std::vector<int> lengths(kCount, 1), places(kCount);
    for (int i = 0; i < kCount; ++i) places[i] = 2 * i;
    MPI_Datatype type;
    EXPECT_OK(MPI_Type_indexed(kCount, lengths.data(), places.data(), MPI_INT, &type));
    int size = 0;
    MPI_Aint lb, extent;
    EXPECT_OK(MPI_Type_size(type, &size));
    EXPECT_EQ(size, 4 * kCount);
    EXPECT_OK(MPI_Type_get_extent(type, &lb, &extent));
    EXPECT_EQ(extent, 4 * (2 * kCount - 1));
    EXPECT_OK(MPI_Type_free(&type));
    EXPECT_EQ(MPI_Type_indexed(-1, lengths.data(), places.data(), MPI_INT, &type), MPI_ERR_COUNT);
}

TEST_F(WidenTest, vector_collectives_take_their_lengths_from_the_communicator) {
    int sent = 5, got = 0, one[] = {1}, zero[] = {0};
    EXPECT_OK(MPI_Allgatherv(&sent, 1, MPI_INT, &got, one, zero, MPI_INT, MPI_COMM_SELF));
    EXPECT_EQ(got, 5);
    got = 0;
    EXPECT_OK(MPI_Alltoallv(&sent, one, zero, MPI_INT, &got, one, zero, MPI_INT, MPI_COMM_SELF));
    EXPECT_EQ(got, 5);
    EXPECT_OK(MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, &got, one, zero,
                            MPI_INT, MPI_COMM_SELF));
    EXPECT_EQ(MPI_Allgatherv(&sent, 1, MPI_INT, &got, one, zero, MPI_INT, MPI_COMM_NULL),
              MPI_ERR_COMM);
}

}  // namespace
