/* Goal: all group functions (MPI-5.0 section 7.3). Method: groups built from known lists, compared
 * with set arithmetic done by hand on those lists.
 */
#include "check.h"

static MPI_Group world;

/* Checks that group holds exactly these world ranks in this order. */
static void check_members(MPI_Group group, const int* members, int n) {
    int size = -1, i, *ranks = malloc(((size_t)n + 1) * sizeof(int)),
        *found = malloc(((size_t)n + 1) * sizeof(int)), mine = -1, expected = MPI_UNDEFINED;
    CHECK_OK(MPI_Group_size(group, &size));
    if (CHECK_EQ(n, size)) {
        for (i = 0; i < n; ++i) ranks[i] = i;
        CHECK_OK(MPI_Group_translate_ranks(group, n, ranks, world, found));
        for (i = 0; i < n; ++i) {
            CHECK_EQ(members[i], found[i]);
            if (members[i] == check_rank) expected = i;
        }
        CHECK_OK(MPI_Group_rank(group, &mine));
        CHECK_EQ(expected, mine);
    }
    free(ranks);
    free(found);
}

static void check_compare(int expected, MPI_Group a, MPI_Group b) {
    int result = -1;
    CHECK_OK(MPI_Group_compare(a, b, &result));
    CHECK_EQ(expected, result);
}

static MPI_Group make(const int* ranks, int n) {
    MPI_Group g = MPI_GROUP_NULL;
    CHECK_OK(MPI_Group_incl(world, n, ranks, &g));
    check_members(g, ranks, n);
    return g;
}

static void sets(void) {
    int a_list[] = {5, 1, 3, 0}, b_list[] = {2, 3, 5, 7};
    int or_list[] = {5, 1, 3, 0, 2, 7}, and_list[] = {5, 3}, minus_list[] = {1, 0};
    MPI_Group a = make(a_list, 4), b = make(b_list, 4), g;
    context("set operations");
    CHECK_OK(MPI_Group_union(a, b, &g));
    check_members(g, or_list, 6);
    CHECK_OK(MPI_Group_free(&g));
    CHECK(g == MPI_GROUP_NULL);
    CHECK_OK(MPI_Group_intersection(a, b, &g));
    check_members(g, and_list, 2);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_difference(a, b, &g));
    check_members(g, minus_list, 2);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_difference(a, a, &g));
    check_compare(MPI_IDENT, g, MPI_GROUP_EMPTY);
    check_members(g, a_list, 0);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_union(MPI_GROUP_EMPTY, b, &g));
    check_members(g, b_list, 4);
    check_compare(MPI_IDENT, g, b);
    check_compare(MPI_UNEQUAL, a, b);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_free(&a));
    CHECK_OK(MPI_Group_free(&b));
}

static void lists(void) {
    int some[] = {1, 4, 6}, rest[] = {0, 2, 3, 5, 7}, all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int turned[] = {7, 6, 5, 4, 3, 2, 1, 0};
    MPI_Group all8 = make(all, 8), g, h;
    context("incl and excl");
    CHECK_OK(MPI_Group_excl(all8, 3, some, &g));
    check_members(g, rest, 5);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_excl(all8, 0, NULL, &g));
    check_compare(MPI_IDENT, g, all8);
    CHECK_OK(MPI_Group_incl(all8, 8, turned, &h));
    check_members(h, turned, 8);
    check_compare(MPI_SIMILAR, g, h);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_free(&h));
    CHECK_OK(MPI_Group_incl(all8, 0, NULL, &g));
    check_compare(MPI_IDENT, g, MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_free(&all8));
}

static void ranges(void) {
    int all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int triples[3][3] = {{6, 7, 1}, {4, 0, -2}, {1, 1, 1}};
    int in[] = {6, 7, 4, 2, 0, 1}, out[] = {3, 5};
    MPI_Group all8 = make(all, 8), g;
    context("ranges");
    CHECK_OK(MPI_Group_range_incl(all8, 3, triples, &g));
    check_members(g, in, 6);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_range_excl(all8, 3, triples, &g));
    check_members(g, out, 2);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_range_incl(all8, 0, NULL, &g));
    check_compare(MPI_IDENT, g, MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_free(&g));
    CHECK_OK(MPI_Group_free(&all8));
}

static void translate(void) {
    int a_list[] = {3, 1, 6}, b_list[] = {6, 2, 3}, from[] = {0, 1, 2, MPI_PROC_NULL}, to[4];
    MPI_Group a = make(a_list, 3), b = make(b_list, 3);
    context("translate");
    CHECK_OK(MPI_Group_translate_ranks(a, 4, from, b, to));
    CHECK_EQ(2, to[0]);
    CHECK_EQ(MPI_UNDEFINED, to[1]);
    CHECK_EQ(0, to[2]);
    CHECK_EQ(MPI_PROC_NULL, to[3]);
    CHECK_OK(MPI_Group_free(&a));
    CHECK_OK(MPI_Group_free(&b));
}

static void predefined(void) {
    int size = -1, rank = 0;
    MPI_Group self, again;
    context("predefined groups");
    CHECK_OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
    CHECK_EQ(0, size);
    CHECK_OK(MPI_Group_rank(MPI_GROUP_EMPTY, &rank));
    CHECK_EQ(MPI_UNDEFINED, rank);
    CHECK_OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    check_members(self, &check_rank, 1);
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &again));
    check_compare(MPI_IDENT, world, again);
    check_compare(check_size == 1 ? MPI_IDENT : MPI_UNEQUAL, world, self);
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Group_free(&again));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    predefined();
    if (check_size >= 8) {
        sets();
        lists();
        ranges();
        translate();
    }
    CHECK_OK(MPI_Group_free(&world));
    return finish();
}
