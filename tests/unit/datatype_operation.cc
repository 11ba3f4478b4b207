// tests/unit/datatype_operation.cc: operations: what is allowed, operand order, users' functions.
#include "mpi/object/datatype.h"
#include "mpi/object/operation.h"

#include <climits>
#include <gtest/gtest.h>

namespace pomona {
namespace {

Datatype& of(MPI_Datatype handle) { return Datatype::of(handle); }
bool allowed(MPI_Op op, MPI_Datatype type) { return Operation::of(op).check(of(type)).ok(); }

TEST(operation, combinations_of_the_standard) {
    EXPECT_TRUE(allowed(MPI_SUM, MPI_INT) && allowed(MPI_SUM, MPI_C_DOUBLE_COMPLEX));
    EXPECT_TRUE(allowed(MPI_MAX, MPI_DOUBLE) && allowed(MPI_MIN, MPI_AINT));
    EXPECT_TRUE(allowed(MPI_BAND, MPI_BYTE) && allowed(MPI_BXOR, MPI_UINT16_T));
    EXPECT_TRUE(allowed(MPI_LAND, MPI_C_BOOL) && allowed(MPI_LOR, MPI_LOGICAL));
    EXPECT_TRUE(allowed(MPI_MAXLOC, MPI_DOUBLE_INT) && allowed(MPI_MINLOC, MPI_2REAL));
    EXPECT_TRUE(allowed(MPI_REPLACE, MPI_CHAR) && allowed(MPI_NO_OP, MPI_WCHAR));
    EXPECT_TRUE(allowed(MPI_SUM, MPI_CHAR));  // beyond the standard, as elsewhere
    EXPECT_FALSE(allowed(MPI_SUM, MPI_WCHAR) || allowed(MPI_SUM, MPI_BYTE));
    EXPECT_FALSE(allowed(MPI_MAX, MPI_C_DOUBLE_COMPLEX) || allowed(MPI_MAX, MPI_LOGICAL));
    EXPECT_FALSE(allowed(MPI_BAND, MPI_FLOAT) || allowed(MPI_SUM, MPI_PACKED));
    EXPECT_FALSE(allowed(MPI_SUM, MPI_DOUBLE_INT) || allowed(MPI_MAXLOC, MPI_INT));
    auto derived = Datatype::contiguous(2, of(MPI_INT));
    EXPECT_FALSE(Operation::of(MPI_SUM).check(**derived).ok());
    EXPECT_TRUE(Operation::of(MPI_SUM).check(Datatype::bfloat16()).ok());
    EXPECT_TRUE(Operation::of(MPI_MAX).check(Datatype::float16()).ok());
}

TEST(operation, predefined_results) {
    int in[] = {1, -7, 100}, inout[] = {10, 20, 30};
    Operation::of(MPI_SUM).reduce(in, inout, 3, of(MPI_INT));
    EXPECT_EQ(inout[0], 11);
    EXPECT_EQ(inout[2], 130);
    struct Pair {
        double value;
        int index;
    } a[] = {{2, 5}, {1, 9}}, b[] = {{2, 3}, {4, 1}};
    Operation::of(MPI_MINLOC).reduce(a, b, 2, of(MPI_DOUBLE_INT));
    EXPECT_EQ(b[0].index, 3);  // of equal values the lower index
    EXPECT_EQ(b[1].value, 1);
    EXPECT_EQ(b[1].index, 9);
    char from[] = "new", to[] = "old";
    Operation::of(MPI_NO_OP).reduce(from, to, 3, of(MPI_CHAR));
    EXPECT_STREQ(to, "old");
    Operation::of(MPI_REPLACE).reduce(from, to, 3, of(MPI_CHAR));
    EXPECT_STREQ(to, "new");
}

// 2x2 matrices multiply in no other order.
void multiply(void* in, void* inout, int* length, MPI_Datatype* type) {
    EXPECT_NE(*type, MPI_DATATYPE_NULL);
    auto* a = static_cast<int(*)[4]>(in);
    auto* b = static_cast<int(*)[4]>(inout);
    for (int i = 0; i < *length; ++i) {
        int c[4] = {a[i][0] * b[i][0] + a[i][1] * b[i][2], a[i][0] * b[i][1] + a[i][1] * b[i][3],
                    a[i][2] * b[i][0] + a[i][3] * b[i][2], a[i][2] * b[i][1] + a[i][3] * b[i][3]};
        std::copy(c, c + 4, b[i]);
    }
}

TEST(operation, users_function_gets_lower_ranks_first) {
    auto op = Operation::user(&multiply, false);
    EXPECT_FALSE(op->commutative());
    auto matrix = Datatype::contiguous(4, of(MPI_INT));
    EXPECT_TRUE(op->check(**matrix).ok());
    int a[] = {1, 1, 0, 1}, b[] = {1, 0, 1, 1};
    op->reduce(a, b, 1, **matrix);
    EXPECT_EQ(std::vector<int>(b, b + 4), (std::vector<int>{2, 1, 1, 1}));
}

// Goal: counts beyond int reach a function of the int form in pieces, that of the _c form whole.
// Method: a type of no extent, so that no memory is touched.
MPI_Count total;
int calls;
void count_int(void*, void*, int* length, MPI_Datatype*) { total += *length, ++calls; }
void count_large(void*, void*, MPI_Count* length, MPI_Datatype*) { total += *length, ++calls; }

TEST(operation, large_counts) {
    auto nothing = Datatype::resized(of(MPI_INT), 0, 0);
    MPI_Count count = MPI_Count{INT_MAX} * 2 + 10;
    int memory = 0;
    total = calls = 0;
    Operation::user(&count_int, true)->reduce(&memory, &memory, count, **nothing);
    EXPECT_EQ(total, count);
    EXPECT_EQ(calls, 3);
    total = calls = 0;
    Operation::user(&count_large, true)->reduce(&memory, &memory, count, **nothing);
    EXPECT_EQ(total, count);
    EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace pomona
