// tests/unit/datatype_abi.cc: the MPI functions on datatypes, packing and operations, as users call
// them: results, contents in both forms, and the error class of every kind of wrong argument.
#include "tests/unit/abi_local.h"

#include <climits>
#include <cstring>
#include <string>
#include <vector>

namespace {

class DatatypeTest : public AbiLocal {};

TEST_F(DatatypeTest, sizes_and_extents) {
    MPI_Datatype type;
    EXPECT_OK(MPI_Type_vector(3, 2, 5, MPI_DOUBLE, &type));
    int size;
    MPI_Aint lb, extent;
    EXPECT_OK(MPI_Type_size(type, &size));
    EXPECT_OK(MPI_Type_get_extent(type, &lb, &extent));
    EXPECT_EQ(size, 48);
    EXPECT_EQ(extent, 96);
    EXPECT_OK(MPI_Type_get_true_extent(type, &lb, &extent));
    EXPECT_EQ(lb, 0);
    EXPECT_OK(MPI_Type_free(&type));
    EXPECT_EQ(type, MPI_DATATYPE_NULL);
    // A size that no int holds.
    EXPECT_OK(MPI_Type_contiguous(INT_MAX, MPI_DOUBLE, &type));
    EXPECT_OK(MPI_Type_size(type, &size));
    EXPECT_EQ(size, MPI_UNDEFINED);
    MPI_Count large;
    EXPECT_OK(MPI_Type_size_x(type, &large));
    EXPECT_EQ(large, MPI_Count{INT_MAX} * 8);
    EXPECT_OK(MPI_Type_free(&type));
}

struct Told {
    int combiner;
    std::vector<int> integers;
    std::vector<MPI_Aint> addresses;
    std::vector<MPI_Count> counts;
    std::vector<MPI_Datatype> types;
};

Told told(MPI_Datatype type) {
    MPI_Count n[4];
    Told made;
    EXPECT_OK(MPI_Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &made.combiner));
    made.integers.resize(n[0]);
    made.addresses.resize(n[1]);
    made.counts.resize(n[2]);
    made.types.resize(n[3]);
    EXPECT_OK(MPI_Type_get_contents_c(type, n[0], n[1], n[2], n[3], made.integers.data(),
                                      made.addresses.data(), made.counts.data(),
                                      made.types.data()));
    return made;
}

using Ints = std::vector<int>;
using Aints = std::vector<MPI_Aint>;
using Large = std::vector<MPI_Count>;

TEST_F(DatatypeTest, contents_of_the_int_forms) {
    MPI_Datatype type;
    int blocks[] = {1, 2}, offsets[] = {0, 4};
    MPI_Aint bytes[] = {8, 24};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
    auto expect = [&](int combiner, Ints integers, Aints addresses) {
        Told all = told(type);
        EXPECT_EQ(all.combiner, combiner);
        EXPECT_EQ(all.integers, integers);
        EXPECT_EQ(all.addresses, addresses);
        EXPECT_TRUE(all.counts.empty());
        int n[3], combiner_int;
        EXPECT_OK(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner_int));
        EXPECT_EQ(n[0], static_cast<int>(integers.size()));
        Ints again(integers.size());
        Aints again_addresses(addresses.size());
        std::vector<MPI_Datatype> olds(n[2]);
        EXPECT_OK(MPI_Type_get_contents(type, n[0], n[1], n[2], again.data(),
                                        again_addresses.data(), olds.data()));
        EXPECT_EQ(again, integers);
        EXPECT_EQ(olds, all.types);  // predefined ones here
        EXPECT_OK(MPI_Type_free(&type));
    };
    EXPECT_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    expect(MPI_COMBINER_CONTIGUOUS, {3}, {});
    EXPECT_OK(MPI_Type_vector(3, 2, -4, MPI_INT, &type));
    expect(MPI_COMBINER_VECTOR, {3, 2, -4}, {});
    EXPECT_OK(MPI_Type_create_hvector(3, 2, 40, MPI_INT, &type));
    expect(MPI_COMBINER_HVECTOR, {3, 2}, {40});
    EXPECT_OK(MPI_Type_indexed(2, blocks, offsets, MPI_INT, &type));
    expect(MPI_COMBINER_INDEXED, {2, 1, 2, 0, 4}, {});
    EXPECT_OK(MPI_Type_create_hindexed(2, blocks, bytes, MPI_INT, &type));
    expect(MPI_COMBINER_HINDEXED, {2, 1, 2}, {8, 24});
    EXPECT_OK(MPI_Type_create_indexed_block(2, 3, offsets, MPI_INT, &type));
    expect(MPI_COMBINER_INDEXED_BLOCK, {2, 3, 0, 4}, {});
    EXPECT_OK(MPI_Type_create_hindexed_block(2, 3, bytes, MPI_INT, &type));
    expect(MPI_COMBINER_HINDEXED_BLOCK, {2, 3}, {8, 24});
    EXPECT_OK(MPI_Type_create_struct(2, blocks, bytes, types, &type));
    expect(MPI_COMBINER_STRUCT, {2, 1, 2}, {8, 24});
    EXPECT_OK(MPI_Type_create_resized(MPI_INT, -4, 32, &type));
    expect(MPI_COMBINER_RESIZED, {}, {-4, 32});
    EXPECT_OK(MPI_Type_dup(MPI_INT, &type));
    expect(MPI_COMBINER_DUP, {}, {});
    int sizes[] = {4, 6}, subsizes[] = {2, 3}, starts[] = {1, 2};
    EXPECT_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type));
    expect(MPI_COMBINER_SUBARRAY, {2, 4, 6, 2, 3, 1, 2, MPI_ORDER_C}, {});
    int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, dargs[] = {2, 1}, grid[] = {2, 2};
    EXPECT_OK(MPI_Type_create_darray(4, 1, 2, sizes, kinds, dargs, grid, MPI_ORDER_FORTRAN, MPI_INT,
                                     &type));
    expect(MPI_COMBINER_DARRAY, {4, 1, 2, 4, 6, kinds[0], kinds[1], 2, 1, 2, 2, MPI_ORDER_FORTRAN},
           {});
}

TEST_F(DatatypeTest, contents_of_the_large_forms) {
    MPI_Datatype type;
    MPI_Count sizes[] = {4, 6}, subsizes[] = {2, 3}, starts[] = {1, 2}, blocks[] = {1, 2};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
    auto expect = [&](int combiner, Ints integers, Large counts) {
        Told all = told(type);
        EXPECT_EQ(all.combiner, combiner);
        EXPECT_EQ(all.integers, integers);
        EXPECT_EQ(all.counts, counts);
        EXPECT_TRUE(all.addresses.empty());
        int n[4];
        EXPECT_EQ(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &n[3]), MPI_ERR_TYPE);
        EXPECT_OK(MPI_Type_free(&type));
    };
    EXPECT_OK(MPI_Type_vector_c(3, 2, 4, MPI_INT, &type));
    expect(MPI_COMBINER_VECTOR, {}, {3, 2, 4});
    EXPECT_OK(MPI_Type_create_struct_c(2, blocks, sizes, types, &type));
    expect(MPI_COMBINER_STRUCT, {}, {2, 1, 2, 4, 6});
    EXPECT_OK(MPI_Type_create_subarray_c(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type));
    expect(MPI_COMBINER_SUBARRAY, {2, MPI_ORDER_C}, {4, 6, 2, 3, 1, 2});
    int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, dargs[] = {2, 1}, grid[] = {2, 2};
    EXPECT_OK(
        MPI_Type_create_darray_c(4, 1, 2, sizes, kinds, dargs, grid, MPI_ORDER_C, MPI_INT, &type));
    expect(MPI_COMBINER_DARRAY, {4, 1, 2, kinds[0], kinds[1], 2, 1, 2, 2, MPI_ORDER_C}, {4, 6});
}

TEST_F(DatatypeTest, contents_outlive_what_they_came_from) {
    MPI_Datatype inner, outer;
    EXPECT_OK(MPI_Type_contiguous(3, MPI_INT, &inner));
    EXPECT_OK(MPI_Type_vector(2, 1, 2, inner, &outer));
    EXPECT_OK(MPI_Type_free(&inner));
    Told all = told(outer);
    EXPECT_OK(MPI_Type_free(&outer));
    ASSERT_EQ(all.types.size(), 1u);
    int size;
    EXPECT_OK(MPI_Type_size(all.types[0], &size));
    EXPECT_EQ(size, 12);
    EXPECT_EQ(told(all.types[0]).integers, Ints{3});
    EXPECT_OK(MPI_Type_free(&all.types[0]));
}

TEST_F(DatatypeTest, names) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    EXPECT_OK(MPI_Type_get_name(MPI_DOUBLE_INT, name, &length));
    EXPECT_STREQ(name, "MPI_DOUBLE_INT");
    EXPECT_EQ(length, 14);
    EXPECT_OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    EXPECT_STREQ(name, "MPI_DATATYPE_NULL");
    MPI_Datatype type;
    EXPECT_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    EXPECT_OK(MPI_Type_get_name(type, name, &length));
    EXPECT_EQ(length, 0);
    EXPECT_OK(MPI_Type_set_name(type, std::string(500, 'n').c_str()));
    EXPECT_OK(MPI_Type_get_name(type, name, &length));
    EXPECT_EQ(length, MPI_MAX_OBJECT_NAME - 1);
    EXPECT_OK(MPI_Type_free(&type));
}

TEST_F(DatatypeTest, pack_and_unpack) {
    MPI_Datatype column;
    int matrix[4][5], back[4][5] = {};
    for (int i = 0; i < 20; ++i) matrix[i / 5][i % 5] = i;
    EXPECT_OK(MPI_Type_vector(4, 1, 5, MPI_INT, &column));
    EXPECT_OK(MPI_Type_commit(&column));
    int size, position = 0;
    EXPECT_OK(MPI_Pack_size(1, column, MPI_COMM_WORLD, &size));
    EXPECT_GE(size, 16);
    std::vector<char> buffer(2 * size);
    EXPECT_OK(
        MPI_Pack(&matrix[0][2], 1, column, buffer.data(), 2 * size, &position, MPI_COMM_WORLD));
    EXPECT_OK(
        MPI_Pack(&matrix[0][0], 1, column, buffer.data(), 2 * size, &position, MPI_COMM_WORLD));
    EXPECT_EQ(position, 32);
    position = 0;
    EXPECT_OK(MPI_Unpack(buffer.data(), 32, &position, &back[0][2], 1, column, MPI_COMM_WORLD));
    EXPECT_OK(MPI_Unpack(buffer.data(), 32, &position, &back[0][0], 1, column, MPI_COMM_WORLD));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(back[i / 5][i % 5], i % 5 == 0 || i % 5 == 2 ? i : 0);
    EXPECT_EQ(MPI_Unpack(buffer.data(), 32, &position, &back[0][0], 1, column, MPI_COMM_WORLD),
              MPI_ERR_TRUNCATE);
    EXPECT_OK(MPI_Type_free(&column));
}

TEST_F(DatatypeTest, pack_external) {
    double numbers[] = {1.5, -2.25}, back[2] = {};
    char buffer[64];
    MPI_Aint size, position = 0;
    EXPECT_OK(MPI_Pack_external_size("external32", 2, MPI_DOUBLE, &size));
    EXPECT_EQ(size, 16);
    EXPECT_OK(MPI_Pack_external("external32", numbers, 2, MPI_DOUBLE, buffer, size, &position));
    EXPECT_EQ(position, 16);
    EXPECT_EQ(std::memcmp(buffer, "\x3f\xf8\0\0\0\0\0\0\xc0\x02", 10), 0);
    position = 0;
    EXPECT_OK(MPI_Unpack_external("external32", buffer, size, &position, back, 2, MPI_DOUBLE));
    EXPECT_EQ(back[1], -2.25);
    EXPECT_EQ(MPI_Pack_external("native", numbers, 2, MPI_DOUBLE, buffer, size, &position),
              MPI_ERR_ARG);
}

TEST_F(DatatypeTest, counts_of_a_status) {
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    MPI_Datatype pair;
    int blocks[] = {1, 1}, count;
    MPI_Aint offsets[] = {0, 8};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
    EXPECT_OK(MPI_Type_create_struct(2, blocks, offsets, types, &pair));
    EXPECT_OK(MPI_Status_set_elements(&status, pair, 3));
    EXPECT_OK(MPI_Get_elements(&status, pair, &count));
    EXPECT_EQ(count, 3);
    EXPECT_OK(MPI_Get_count(&status, pair, &count));
    EXPECT_EQ(count, MPI_UNDEFINED);
    EXPECT_OK(MPI_Status_set_elements_x(&status, pair, 4));
    EXPECT_OK(MPI_Get_count(&status, pair, &count));
    EXPECT_EQ(count, 2);
    // Bytes of a real message: one pair and the next one's integer.
    EXPECT_OK(MPI_Type_commit(&pair));
    char out[24] = {}, in[64];
    MPI_Request request;
    EXPECT_OK(MPI_Isend(out, 16, MPI_BYTE, 0, 7, MPI_COMM_SELF, &request));
    EXPECT_OK(MPI_Recv(in, 3, pair, 0, 7, MPI_COMM_SELF, &status));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Get_elements(&status, pair, &count));
    EXPECT_EQ(count, 3);
    EXPECT_OK(MPI_Get_count(&status, pair, &count));
    EXPECT_EQ(count, MPI_UNDEFINED);
    EXPECT_OK(MPI_Get_elements(&status, MPI_2INT, &count));
    EXPECT_EQ(count, 4);
    EXPECT_OK(MPI_Type_free(&pair));
}

TEST_F(DatatypeTest, finding_types) {
    MPI_Datatype type;
    int size;
    EXPECT_OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type));
    EXPECT_OK(MPI_Type_size(type, &size));
    EXPECT_EQ(size, 8);
    EXPECT_EQ(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 3, &type), MPI_ERR_ARG);
    EXPECT_OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type));
    EXPECT_EQ(type, MPI_DOUBLE_INT);
    EXPECT_OK(MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type));
    EXPECT_EQ(type, MPI_DATATYPE_NULL);
    EXPECT_OK(MPI_Type_create_f90_real(12, MPI_UNDEFINED, &type));
    Told all = told(type);
    EXPECT_EQ(all.combiner, MPI_COMBINER_F90_REAL);
    EXPECT_EQ(all.integers, (Ints{12, MPI_UNDEFINED}));
    EXPECT_EQ(MPI_Type_free(&type), MPI_ERR_TYPE);
    double a = 2, b = 3;
    EXPECT_OK(MPI_Reduce_local(&a, &b, 1, type, MPI_PROD));
    EXPECT_EQ(b, 6);
    EXPECT_EQ(MPI_Type_create_f90_real(99, 9, &type), MPI_ERR_ARG);
    EXPECT_OK(MPI_Type_create_f90_integer(9, &type));
    EXPECT_OK(MPI_Type_size(type, &size));
    EXPECT_EQ(size, 4);
}

void add_ints(void* in, void* inout, int* length, MPI_Datatype*) {
    for (int i = 0; i < *length; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

TEST_F(DatatypeTest, operations) {
    MPI_Op op;
    int commute, a[] = {1, 2}, b[] = {10, 20};
    EXPECT_OK(MPI_Op_create(add_ints, 1, &op));
    EXPECT_OK(MPI_Op_commutative(op, &commute));
    EXPECT_EQ(commute, 1);
    EXPECT_OK(MPI_Reduce_local(a, b, 2, MPI_INT, op));
    EXPECT_EQ(b[1], 22);
    EXPECT_OK(MPI_Op_free(&op));
    EXPECT_EQ(op, MPI_OP_NULL);
    op = MPI_SUM;
    EXPECT_EQ(MPI_Op_free(&op), MPI_ERR_OP);
    EXPECT_EQ(MPI_Reduce_local(a, b, 2, MPI_FLOAT, MPI_BAND), MPI_ERR_OP);
    EXPECT_EQ(MPI_Reduce_local(a, b, 2, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    uint16_t x = 0x3f80, y = 0x4000;  // 1 and 2 as bfloat16
    EXPECT_OK(MPI_Reduce_local(&x, &y, 1, MPIX_Type_bfloat16(), MPI_SUM));
    EXPECT_EQ(y, 0x4040);
}

TEST_F(DatatypeTest, wrong_arguments) {
    MPI_Datatype type, derived = MPI_INT;
    int one[] = {1}, negative[] = {-1}, position = 0, count;
    EXPECT_EQ(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Type_contiguous(1, MPI_INT, nullptr), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_indexed(1, negative, one, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_indexed(1, nullptr, one, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT_OK(MPI_Type_indexed(0, nullptr, nullptr, MPI_INT, &type));
    EXPECT_OK(MPI_Type_free(&type));
    int size[] = {4}, part[] = {3}, start[] = {2};
    EXPECT_EQ(MPI_Type_create_subarray(1, size, part, start, MPI_ORDER_C, MPI_INT, &type),
              MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_create_subarray(1, size, part, one, 99, MPI_INT, &type), MPI_ERR_ARG);
    int kind[] = {MPI_DISTRIBUTE_BLOCK}, grid[] = {2};
    EXPECT_EQ(MPI_Type_create_darray(2, 0, 1, size, kind, one, grid, MPI_ORDER_C, MPI_INT, &type),
              MPI_ERR_ARG);  // blocks of one do not hold four
    EXPECT_EQ(MPI_Type_create_darray(3, 0, 1, size, kind, size, grid, MPI_ORDER_C, MPI_INT, &type),
              MPI_ERR_ARG);  // the grid has two processes
    EXPECT_EQ(MPI_Type_free(&derived), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Type_get_contents(MPI_INT, 0, 0, 0, nullptr, nullptr, nullptr), MPI_ERR_TYPE);
    EXPECT_OK(MPI_Type_contiguous(2, MPI_INT, &derived));
    EXPECT_EQ(MPI_Type_get_contents(derived, 0, 0, 1, &count, nullptr, &type), MPI_ERR_ARG);
    char data[16];
    EXPECT_EQ(MPI_Pack(data, 1, derived, data, 16, &position, MPI_COMM_SELF), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Pack(data, -1, MPI_INT, data, 16, &position, MPI_COMM_SELF), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Pack(nullptr, 1, MPI_INT, data, 16, &position, MPI_COMM_SELF), MPI_ERR_BUFFER);
    EXPECT_EQ(MPI_Pack(data, 1, MPI_INT, data, 16, &position, MPI_COMM_NULL), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &count), MPI_ERR_ARG);
    EXPECT_OK(MPI_Type_free(&derived));
}

}  // namespace
