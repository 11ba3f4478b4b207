/* Goal: small collectives, which ranks of one machine do over boards in shared memory, are right
 * whatever the order and the pace: roots that run ahead, several under way and ended in another
 * order, large ones and persistent ones in between, more communicators than there are boards,
 * lengths that differ.
 * Method: every result is compared; ranks are slowed down in turn; a performance variable tells
 * that boards were used where nothing forbids it.
 */
#include "check.h"
#include "counter.h"

#include <unistd.h>

enum { longest = 1200 }; /* ints: beyond what a board takes, 4096 bytes */
static const int counts[] = {1, 2, 27, 28, 29, 100, 1023, 1024, 1025, longest};
enum { kinds = sizeof counts / sizeof *counts };

static void slow(int round) {
    if (round % (3 * check_size) == check_rank) usleep(300);
}

/* Roots run ahead of the others, beyond the cells of a board; no call in between holds them
 * back. */
static void ahead(MPI_Comm comm) {
    static int data[longest];
    int round, i, total = 0;
    context("ahead");
    for (round = 0; round < 300; ++round) {
        int n = counts[round % kinds], root = round / 50 % check_size;
        for (i = 0; i < n; ++i) data[i] = check_rank == root ? round + i : -1;
        slow(round);
        CHECK_OK(MPI_Bcast(data, n, MPI_INT, root, comm));
        CHECK_EQ(round, data[0]);
        CHECK_EQ(round + n - 1, data[n - 1]);
        CHECK_OK(MPI_Reduce(&round, &total, 1, MPI_INT, MPI_SUM, root, comm));
        if (check_rank == root) CHECK_EQ(round * check_size, total);
    }
}

static void every_kind(MPI_Comm comm) {
    static int mine[16 * longest], all[16 * longest];
    int round, i, j, p = check_size, r = check_rank;
    for (round = 0; round < 6 * kinds; ++round) {
        int n = counts[round % kinds], root = round % p;
        context("count %d", n);
        for (i = 0; i < p * n; ++i) mine[i] = r * 1000 + i + round;
        slow(round);
        CHECK_OK(MPI_Allreduce(mine, all, n, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(p * (p - 1) / 2 * 1000 + p * (n - 1 + round), all[n - 1]);
        CHECK_OK(MPI_Allgather(mine, n, MPI_INT, all, n, MPI_INT, comm));
        for (j = 0; j < p; ++j) CHECK_EQ(j * 1000 + n - 1 + round, all[j * n + n - 1]);
        CHECK_OK(MPI_Alltoall(mine, n, MPI_INT, all, n, MPI_INT, comm));
        for (j = 0; j < p; ++j) CHECK_EQ(j * 1000 + r * n + round, all[j * n]);
        CHECK_OK(MPI_Reduce_scatter_block(mine, all, n, MPI_INT, MPI_MAX, comm));
        CHECK_EQ((p - 1) * 1000 + r * n + n - 1 + round, all[n - 1]);
        CHECK_OK(MPI_Gather(mine, n, MPI_INT, all, n, MPI_INT, root, comm));
        for (j = 0; j < p && r == root; ++j) CHECK_EQ(j * 1000 + n - 1 + round, all[j * n + n - 1]);
        CHECK_OK(MPI_Scatter(mine, n, MPI_INT, all, n, MPI_INT, root, comm));
        CHECK_EQ(root * 1000 + r * n + n - 1 + round, all[n - 1]);
        CHECK_OK(MPI_Scan(mine, all, n, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(r * (r + 1) / 2 * 1000 + (r + 1) * (n - 1 + round), all[n - 1]);
        CHECK_OK(MPI_Exscan(mine, all, n, MPI_INT, MPI_SUM, comm));
        if (r) CHECK_EQ(r * (r - 1) / 2 * 1000 + r * (n - 1 + round), all[n - 1]);
        memcpy(all, mine, sizeof(int) * (size_t)n);
        CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, all, n, MPI_INT, MPI_MIN, comm));
        CHECK_EQ(n - 1 + round, all[n - 1]);
    }
}

/* Many under way, waited for in another order at each rank; a persistent one, started at will. */
static void under_way(MPI_Comm comm) {
    enum { many = 90 }; /* more than a board has cells */
    MPI_Request requests[many], persistent;
    int in[many], out[many], round, i, sum = 0, part = 0;
    CHECK_OK(
        MPI_Allreduce_init(&part, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &persistent));
    for (round = 0; round < 20; ++round) {
        context("under way, round %d", round);
        part = round + check_rank;
        CHECK_OK(MPI_Start(&persistent));
        for (i = 0; i < many; ++i) {
            in[i] = i * check_rank + round;
            out[i] = i % 3 == 1 && check_rank == i % check_size ? i + round : -1;
            if (i % 3 == 0)
                CHECK_OK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]));
            else if (i % 3 == 1)
                CHECK_OK(MPI_Ibcast(&out[i], 1, MPI_INT, i % check_size, comm, &requests[i]));
            else CHECK_OK(MPI_Ibarrier(comm, &requests[i]));
        }
        slow(round);
        for (i = 0; i < many; ++i) {
            int k = (i * 7 + check_rank * 11) % many;
            CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
            if (k % 3 == 0)
                CHECK_EQ(k * check_size * (check_size - 1) / 2 + check_size * round, out[k]);
            if (k % 3 == 1) CHECK_EQ(k + round, out[k]);
        }
        CHECK_OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
        CHECK_EQ(check_size * round + check_size * (check_size - 1) / 2, sum);
    }
    CHECK_OK(MPI_Request_free(&persistent));
}

/* More communicators at a time, and one after the other, than a rank has boards. */
static void communicators(void) {
    enum { many = 50 };
    MPI_Comm made[many];
    int i, round, data, sum;
    for (round = 0; round < 4; ++round) {
        context("communicators, round %d", round);
        for (i = 0; i < many; ++i) {
            CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -check_rank : check_rank, &made[i]));
            CHECK_OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, made[i]));
            CHECK_EQ(check_size * (check_size - 1) / 2, sum);
        }
        for (i = many - 1; i >= 0; --i) {
            data = check_rank == (i % 2 ? check_size - 1 : 0) ? i + round : -1;
            CHECK_OK(MPI_Bcast(&data, 1, MPI_INT, 0, made[i]));
            CHECK_EQ(i + round, data);
            slow(i);
            CHECK_OK(MPI_Comm_free(&made[i])); /* the root's post may not have been read */
        }
    }
}

/* A communicator that knows nothing but bcast and reduce, as a row of a matrix: long ones go by
 * chunks from the third on. Short ones hold no root back. */
static void rooted(int one) {
    enum { many = 64 << 10, rounds = 12 };
    static int data[many], total[many];
    int round, i, token = 0, kind;
    unsigned long long shown = 0, all = 0;
    for (kind = 0; kind < 2; ++kind) {
        MPI_Comm comm;
        MPI_Info info;
        context("rooted, %s", kind ? "reduce" : "bcast");
        CHECK_OK(MPI_Info_create(&info));
        CHECK_OK(MPI_Info_set(info, "pomona_choices", kind ? "reduce: chunks" : "bcast: chunks"));
        CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
        CHECK_OK(MPI_Info_free(&info));
        counter_start("board_chunks");
        for (round = 0; round < rounds; ++round) {
            for (i = 0; i < many; ++i) data[i] = check_rank == 0 || kind ? round + i % 5 : -1;
            if (kind) CHECK_OK(MPI_Reduce(data, total, many, MPI_INT, MPI_SUM, 0, comm));
            else CHECK_OK(MPI_Bcast(data, many, MPI_INT, 0, comm));
            for (i = 0; i < many; ++i)
                if (!kind) CHECK_EQ(round + i % 5, data[i]);
                else if (check_rank == 0) CHECK_EQ((round + i % 5) * check_size, total[i]);
        }
        shown += counter_end();
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_OK(MPI_Allreduce(&shown, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    /* What a parameter forces counts before the hint. */
    CHECK(all > 0 || !one || getenv("POMONA_BCAST") || getenv("POMONA_REDUCE"));
    context("short bcasts before a send");
    {
        MPI_Comm comm;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (check_rank > 0)
            CHECK_OK(MPI_Recv(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (round = 0; round < 8; ++round) {
            int value = check_rank == 0 ? round : -1;
            CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, 0, comm));
            CHECK_EQ(round, value);
        }
        for (i = 1; i < check_size && check_rank == 0; ++i)
            CHECK_OK(MPI_Send(&token, 1, MPI_INT, i, 3, MPI_COMM_WORLD));
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

/* A short message meets a long one: one side posts, the other does not. Told, never a hang. */
static void lengths(void) {
    static int data[4 * longest];
    MPI_Comm comm;
    int round, error;
    for (round = 0; round < 2; ++round) {
        context("the root gives %s", round ? "more" : "less");
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        CHECK_OK(MPI_Barrier(comm));
        error = MPI_Bcast(data, (check_rank == 0) == round ? 4 * longest : 1, MPI_INT, 0, comm);
        if (check_rank) CHECK(error != MPI_SUCCESS);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

int main(int argc, char** argv) {
    unsigned long long posted;
    int boards, one;
    start(&argc, &argv);
    boards = check_size > 1 && !getenv("POMONA_TRANSPORTS") && !getenv("POMONA_SHM_BOARD");
    one = one_machine();
    /* While there are places. With POMONA_CHECK a root waits for the others. */
    if (boards && !getenv("POMONA_CHECK")) rooted(one);
    counter_start("board_posts");
    ahead(MPI_COMM_WORLD); /* before and after there is a board */
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    ahead(MPI_COMM_WORLD);
    every_kind(MPI_COMM_WORLD);
    under_way(MPI_COMM_WORLD);
    communicators();
    posted = counter_end();
    if (boards) {
        CHECK(posted > 1000 || !one);
        lengths();
    }
    return finish();
}
