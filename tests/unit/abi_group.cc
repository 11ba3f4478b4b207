// tests/unit/abi_group.cc: groups as far as one process can make them.
// The arithmetic on larger groups is tested in tests/programs, with several ranks.
#include "tests/unit/abi_local.h"

namespace {

class GroupTest : public AbiLocal {
protected:
    void SetUp() override { EXPECT_OK(MPI_Comm_group(MPI_COMM_WORLD, &world)); }
    void TearDown() override { EXPECT_OK(MPI_Group_free(&world)); }
    MPI_Group world = MPI_GROUP_NULL;
};

TEST_F(GroupTest, size_rank_and_empty) {
    int size = -1, rank = -1;
    EXPECT_OK(MPI_Group_size(world, &size));
    EXPECT_OK(MPI_Group_rank(world, &rank));
    EXPECT_EQ(size, 1);
    EXPECT_EQ(rank, 0);
    EXPECT_OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
    EXPECT_OK(MPI_Group_rank(MPI_GROUP_EMPTY, &rank));
    EXPECT_EQ(size, 0);
    EXPECT_EQ(rank, MPI_UNDEFINED);
    EXPECT_EQ(MPI_Group_size(MPI_GROUP_NULL, &size), MPI_ERR_GROUP);
    EXPECT_EQ(MPI_Group_size(world, nullptr), MPI_ERR_ARG);
}

TEST_F(GroupTest, set_operations) {
    MPI_Group both, common, rest;
    EXPECT_OK(MPI_Group_union(world, MPI_GROUP_EMPTY, &both));
    EXPECT_OK(MPI_Group_intersection(world, MPI_GROUP_EMPTY, &common));
    EXPECT_OK(MPI_Group_difference(world, world, &rest));
    int result;
    EXPECT_OK(MPI_Group_compare(both, world, &result));
    EXPECT_EQ(result, MPI_IDENT);
    EXPECT_OK(MPI_Group_compare(common, world, &result));
    EXPECT_EQ(result, MPI_UNEQUAL);
    EXPECT_EQ(common, MPI_GROUP_EMPTY);
    EXPECT_EQ(rest, MPI_GROUP_EMPTY);
    EXPECT_OK(MPI_Group_free(&both));
    EXPECT_OK(MPI_Group_free(&common));
    EXPECT_EQ(common, MPI_GROUP_NULL);
}

TEST_F(GroupTest, inclusion_checks_its_ranks) {
    MPI_Group made;
    int zero[] = {0}, twice[] = {0, 0}, far[] = {1};
    EXPECT_OK(MPI_Group_incl(world, 1, zero, &made));
    EXPECT_OK(MPI_Group_free(&made));
    EXPECT_OK(MPI_Group_incl(world, 0, nullptr, &made));
    EXPECT_EQ(made, MPI_GROUP_EMPTY);
    EXPECT_EQ(MPI_Group_incl(world, 2, twice, &made), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Group_incl(world, 1, far, &made), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Group_excl(world, -1, zero, &made), MPI_ERR_ARG);
    EXPECT_OK(MPI_Group_excl(world, 1, zero, &made));
    EXPECT_EQ(made, MPI_GROUP_EMPTY);
    int range[][3] = {{0, 0, 1}}, still[][3] = {{0, 0, 0}}, beyond[][3] = {{0, 5, 1}};
    EXPECT_OK(MPI_Group_range_incl(world, 1, range, &made));
    EXPECT_OK(MPI_Group_free(&made));
    EXPECT_EQ(MPI_Group_range_incl(world, 1, still, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Group_range_excl(world, 1, beyond, &made), MPI_ERR_RANK);
}

TEST_F(GroupTest, ranks_translate) {
    int from[] = {0, MPI_PROC_NULL}, to[] = {9, 9}, far[] = {3};
    EXPECT_OK(MPI_Group_translate_ranks(world, 2, from, world, to));
    EXPECT_EQ(to[0], 0);
    EXPECT_EQ(to[1], MPI_PROC_NULL);
    EXPECT_OK(MPI_Group_translate_ranks(world, 1, from, MPI_GROUP_EMPTY, to));
    EXPECT_EQ(to[0], MPI_UNDEFINED);
    EXPECT_EQ(MPI_Group_translate_ranks(world, 1, far, world, to), MPI_ERR_RANK);
}

}  // namespace
