/* Goal: making, comparing, naming and freeing communicators (MPI-5.0 section 7.4): dup, idup,
 * dup_with_info, idup_with_info, split, split_type, create, create_group, names, info, compare.
 * Method: ranks and sizes computed by hand; each new communicator must carry messages of its own
 * and collectives.
 */
#include "check.h"

/* The communicator works and is apart from its parent: expected rank and size, a sum, a ring. */
static void check_comm(MPI_Comm comm, int rank, int size) {
    int r = -1, s = -1, one = 1, sum = 0, mine, got = -1;
    CHECK_OK(MPI_Comm_rank(comm, &r));
    CHECK_OK(MPI_Comm_size(comm, &s));
    CHECK_EQ(rank, r);
    CHECK_EQ(size, s);
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(size, sum);
    mine = r;
    CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, (r + 1) % s, 1, &got, 1, MPI_INT, (r + s - 1) % s, 1,
                          comm, MPI_STATUS_IGNORE));
    CHECK_EQ((r + s - 1) % s, got);
}

static void check_compare(int expected, MPI_Comm a, MPI_Comm b) {
    int result = -1;
    CHECK_OK(MPI_Comm_compare(a, b, &result));
    CHECK_EQ(expected, result);
}

static void free_comm(MPI_Comm* comm) {
    CHECK_OK(MPI_Comm_free(comm));
    CHECK(*comm == MPI_COMM_NULL);
}

static void dups(void) {
    MPI_Comm a, b, c;
    MPI_Request r[2];
    MPI_Info info;
    context("dup");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    check_comm(a, check_rank, check_size);
    check_compare(MPI_CONGRUENT, MPI_COMM_WORLD, a);
    check_compare(MPI_IDENT, a, a);
    context("two idups at once");
    CHECK_OK(MPI_Comm_idup(a, &b, &r[0]));
    CHECK_OK(MPI_Comm_idup(MPI_COMM_WORLD, &c, &r[1]));
    CHECK_OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    check_comm(c, check_rank, check_size);
    check_comm(b, check_rank, check_size);
    check_compare(MPI_CONGRUENT, b, c);
    free_comm(&b);
    free_comm(&c);
    context("dup with info");
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
    CHECK_OK(MPI_Comm_dup_with_info(a, info, &b));
    check_comm(b, check_rank, check_size);
    free_comm(&b);
#if MPI_AT_LEAST(4, 0)
    CHECK_OK(MPI_Comm_idup_with_info(a, info, &b, &r[0]));
    CHECK_OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    check_comm(b, check_rank, check_size);
    free_comm(&b);
#endif
    CHECK_OK(MPI_Comm_set_info(a, info));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Comm_get_info(a, &info));
    CHECK(info != MPI_INFO_NULL);
    CHECK_OK(MPI_Info_free(&info));
    free_comm(&a);
}

/* This rank's place among those of its host, and their number, by the names of the hosts. */
static void on_this_host(int* place, int* size) {
    char own[MPI_MAX_PROCESSOR_NAME] = "";
    char* all = malloc((size_t)check_size * sizeof own);
    int length, i;
    CHECK_OK(MPI_Get_processor_name(own, &length));
    CHECK_OK(MPI_Allgather(own, (int)sizeof own, MPI_CHAR, all, (int)sizeof own, MPI_CHAR,
                           MPI_COMM_WORLD));
    for (*place = *size = i = 0; i < check_size; ++i) {
        if (strcmp(all + (size_t)i * sizeof own, own) != 0) continue;
        ++*size;
        *place += i < check_rank;
    }
    free(all);
}

static void splits(void) {
    MPI_Comm a, b;
    int color, size = 0, i, mine = 0;
    for (color = 1; color <= 3; ++color) {
        context("split in %d", color);
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % color, 0, &a));
        for (size = 0, i = check_rank % color; i < check_size; i += color) ++size;
        check_comm(a, check_rank / color, size);
        free_comm(&a);
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % color, check_size - check_rank, &a));
        check_comm(a, size - 1 - check_rank / color, size);
        free_comm(&a);
    }
    context("split without rank 0");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank ? 5 : MPI_UNDEFINED, 7, &a));
    if (check_rank == 0) {
        CHECK(a == MPI_COMM_NULL);
    } else {
        check_comm(a, check_rank - 1, check_size - 1);
        free_comm(&a);
    }
    context("split, similar");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &a));
    check_compare(check_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR, MPI_COMM_WORLD, a);
    check_compare(check_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL, MPI_COMM_SELF, a);
    free_comm(&a);
    context("split by shared memory");
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &a));
    on_this_host(&mine, &size);
    check_comm(a, mine, size);
    CHECK_OK(MPI_Comm_split_type(a, MPI_UNDEFINED, 0, MPI_INFO_NULL, &b));
    CHECK(b == MPI_COMM_NULL);
    free_comm(&a);
#if MPI_AT_LEAST(4, 0)
    context("split by hardware, unguided");
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &a));
    if (a != MPI_COMM_NULL) {
        CHECK_OK(MPI_Comm_size(a, &size));
        CHECK(size >= 1 && size < check_size);
        free_comm(&a);
    }
#endif
}

static void creates(void) {
    MPI_Group world, part;
    MPI_Comm a;
    int ranks[64], n = 0, i, mine = -1;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (i = check_size - 1; i >= 0; i -= 2) {
        if (i == check_rank) mine = n;
        ranks[n++] = i;
    }
    CHECK_OK(MPI_Group_incl(world, n, ranks, &part));
    context("create");
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, part, &a));
    if (mine >= 0) {
        check_comm(a, mine, n);
        free_comm(&a);
    } else {
        CHECK(a == MPI_COMM_NULL);
    }
    context("create_group, called by the group alone");
    if (mine >= 0) {
        CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, part, 17, &a));
        check_comm(a, mine, n);
        free_comm(&a);
    }
    context("create of the empty group");
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &a));
    CHECK(a == MPI_COMM_NULL);
    context("create with disjoint groups at once");
    CHECK_OK(MPI_Group_free(&part));
    for (n = 0, i = check_rank % 2; i < check_size; i += 2) ranks[n++] = i;
    CHECK_OK(MPI_Group_incl(world, n, ranks, &part));
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, part, &a));
    check_comm(a, check_rank / 2, n);
    free_comm(&a);
    CHECK_OK(MPI_Group_free(&part));
    CHECK_OK(MPI_Group_free(&world));
}

static void names(void) {
    char text[MPI_MAX_OBJECT_NAME];
    int length = -1;
    MPI_Comm a;
    context("names");
    CHECK_OK(MPI_Comm_get_name(MPI_COMM_WORLD, text, &length));
    CHECK_STR("MPI_COMM_WORLD", text);
    CHECK_EQ(14, length);
    CHECK_OK(MPI_Comm_get_name(MPI_COMM_SELF, text, &length));
    CHECK_STR("MPI_COMM_SELF", text);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    CHECK_OK(MPI_Comm_get_name(a, text, &length));
    CHECK_STR("", text);
    CHECK_EQ(0, length);
    CHECK_OK(MPI_Comm_set_name(a, "orchard"));
    CHECK_OK(MPI_Comm_get_name(a, text, &length));
    CHECK_STR("orchard", text);
    CHECK_EQ(7, length);
    free_comm(&a);
}

/* Many communicators alive at once, and many made one after another. */
static void many(void) {
    enum { alive = 60 };
    MPI_Comm all[alive];
    int i;
    context("many communicators");
    for (i = 0; i < alive; ++i) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &all[i]));
    check_comm(all[0], check_rank, check_size);
    check_comm(all[alive - 1], check_rank, check_size);
    for (i = 0; i < alive; ++i) free_comm(&all[(i * 7) % alive]);
    for (i = 0; i < 300; ++i) {
        MPI_Comm a;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
        CHECK_OK(MPI_Comm_free(&a));
    }
}

/* A freed communicator lives until its operations have completed. */
static void freed_early(void) {
    MPI_Comm a;
    MPI_Request r[2];
    int mine = check_rank, got = -1;
    context("freed with operations running");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, (check_rank + 1) % check_size, 1, a, &r[0]));
    CHECK_OK(MPI_Isend(&mine, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 1, a, &r[1]));
    CHECK_OK(MPI_Comm_free(&a));
    CHECK_OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    CHECK_EQ((check_rank + 1) % check_size, got);
}

int main(int argc, char** argv) {
    int flag = -1;
    start(&argc, &argv);
    check_comm(MPI_COMM_WORLD, check_rank, check_size);
    check_comm(MPI_COMM_SELF, 0, 1);
    check_compare(MPI_IDENT, MPI_COMM_WORLD, MPI_COMM_WORLD);
    CHECK_OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    CHECK_EQ(0, flag);
    dups();
    splits();
    creates();
    names();
    many();
    freed_early();
    return finish();
}
