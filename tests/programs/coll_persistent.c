/* Goal: persistent collectives started many times with changing data, several active at once, in
 * any order of completion, freed when inactive (MPI-5.0 section 6.13). Method: one request of each
 * collective on three communicators; every start's result is computed anew.
 */
#include "coll_forms.h"

#if MPI_AT_LEAST(4, 0)
enum { n = 120, kinds = 12, ranks_max = 8, guard = -77 };
static int in[kinds][n * ranks_max + 1], out[kinds][n * ranks_max + 1];
static int rank, size, counts[ranks_max], displs[ranks_max];

static void make(MPI_Comm c, MPI_Request* r) {
    MPI_Info i = MPI_INFO_NULL;
    MPI_Datatype t = MPI_INT;
    int root = size - 1;
    CHECK_OK(MPI_Bcast_init(in[0], n, t, root, c, i, &r[0]));
    CHECK_OK(MPI_Allreduce_init(in[1], out[1], n, t, MPI_SUM, c, i, &r[1]));
    CHECK_OK(MPI_Reduce_init(in[2], out[2], n, t, MPI_MAX, root, c, i, &r[2]));
    CHECK_OK(MPI_Gather_init(in[3], n, t, out[3], n, t, root, c, i, &r[3]));
    CHECK_OK(MPI_Scatter_init(in[4], n, t, out[4], n, t, root, c, i, &r[4]));
    CHECK_OK(MPI_Allgather_init(in[5], n, t, out[5], n, t, c, i, &r[5]));
    CHECK_OK(MPI_Alltoall_init(in[6], n, t, out[6], n, t, c, i, &r[6]));
    CHECK_OK(MPI_Scan_init(in[7], out[7], n, t, MPI_SUM, c, i, &r[7]));
    CHECK_OK(MPI_Exscan_init(in[8], out[8], n, t, MPI_SUM, c, i, &r[8]));
    CHECK_OK(MPI_Reduce_scatter_block_init(in[9], out[9], n, t, MPI_SUM, c, i, &r[9]));
    CHECK_OK(MPI_Allgatherv_init(in[10], counts[rank], t, out[10], counts, displs, t, c, i, &r[10]));
    CHECK_OK(MPI_Barrier_init(c, i, &r[11]));
}

static int sum_to(int last, int seed, int k) {
    int sum = 0;
    for (int q = 0; q <= last; ++q) sum += element(q, seed, k);
    return sum;
}

/* Expected element k of kind, or guard where nothing is written (or defined). */
static int expected(int kind, int seed, int k) {
    int root = rank == size - 1, q = k / n, e = k % n, best = 0;
    switch (kind) {
        case 1: return k < n ? sum_to(size - 1, seed, k) : guard;
        case 2:
            if (!root || k >= n) return guard;
            for (q = 0; q < size; ++q) best = element(q, seed, k) > best ? element(q, seed, k) : best;
            return best;
        case 3: return root ? element(q, seed, e) : guard;
        case 4: return k < n ? element(size - 1, seed, rank * n + k) : guard;
        case 5: return element(q, seed, e);
        case 6: return element(q, seed, rank * n + e);
        case 7: return k < n ? sum_to(rank, seed, k) : guard;
        case 8: return k < n && rank > 0 ? sum_to(rank - 1, seed, k) : guard;
        case 9: return k < n ? sum_to(size - 1, seed, rank * n + k) : guard;
        case 10:
            for (q = 0; q < size; ++q) {
                if (k >= displs[q] && k < displs[q] + counts[q]) {
                    return element(q, seed, k - displs[q]);
                }
            }
            return guard;
        default: return guard;
    }
}

static void rounds(MPI_Comm comm, const char* name) {
    MPI_Request r[kinds];
    int round, kind, k, flag;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (k = 0; k < size; ++k) {
        counts[k] = 1 + (k * 13) % n;
        displs[k] = (size - 1 - k) * n;
    }
    make(comm, r);
    for (round = 0; round < 12; ++round) {
        for (kind = 0; kind < kinds; ++kind) {
            for (k = 0; k < n * size; ++k) {
                in[kind][k] = element(rank, round + kind, k);
                out[kind][k] = guard;
            }
            out[kind][n * size] = guard;
        }
        if (round % 3 == 0) {
            CHECK_OK(MPI_Startall(kinds, r));
        } else {
            for (kind = 0; kind < kinds; ++kind) CHECK_OK(MPI_Start(&r[kind]));
        }
        if (round % 2) {
            for (kind = kinds - 1; kind >= 0; --kind) CHECK_OK(MPI_Wait(&r[kind], MPI_STATUS_IGNORE));
        } else if (known_limit("MPICH")) { /* its Testall refuses persistent collectives */
            CHECK_OK(MPI_Waitall(kinds, r, MPI_STATUSES_IGNORE));
        } else {
            for (flag = 0; !flag;) CHECK_OK(MPI_Testall(kinds, r, &flag, MPI_STATUSES_IGNORE));
        }
        context("%s, round %d, bcast", name, round);
        for (k = 0; k < n && in[0][k] == element(size - 1, round, k); ++k) {
        }
        CHECK_EQ(n, k);
        for (kind = 1; kind < kinds - 1; ++kind) {
            context("%s, round %d, kind %d", name, round, kind);
            for (k = 0; k <= n * size; ++k) {
                int e = k == n * size ? guard : expected(kind, round + kind, k);
                if (kind == 8 && rank == 0) break;
                if (e != out[kind][k]) {
                    CHECK_EQ(e, out[kind][k]);
                    break;
                }
            }
            if (k > n * size) CHECK(1);
        }
    }
    for (kind = 0; kind < kinds; ++kind) {
        CHECK(r[kind] != MPI_REQUEST_NULL);
        CHECK_OK(MPI_Request_free(&r[kind]));
    }
}

/* Two requests so far apart that numbers of a bounded length come again, started in different
 * orders. */
static void far_apart(void) {
    enum { apart = 8192 };
    int mine[2] = {1 + rank, 1000 * (1 + rank)}, sums[2] = {guard, guard}, i, total = 0;
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Request both[2], between;
    for (i = 0; i < size; ++i) total += 1 + i;
    CHECK_OK(MPI_Allreduce_init(&mine[0], &sums[0], 1, MPI_INT, MPI_SUM, c, MPI_INFO_NULL, &both[0]));
    for (i = 1; i < apart; ++i) {
        CHECK_OK(MPI_Barrier_init(c, MPI_INFO_NULL, &between));
        CHECK_OK(MPI_Request_free(&between));
    }
    CHECK_OK(MPI_Allreduce_init(&mine[1], &sums[1], 1, MPI_INT, MPI_SUM, c, MPI_INFO_NULL, &both[1]));
    CHECK_OK(MPI_Start(&both[rank % 2]));
    CHECK_OK(MPI_Start(&both[1 - rank % 2]));
    CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    CHECK_EQ(sums[0], total);
    CHECK_EQ(sums[1], 1000 * total);
    for (i = 0; i < 2; ++i) CHECK_OK(MPI_Request_free(&both[i]));
}

int main(int argc, char** argv) {
    int kind;
    start(&argc, &argv);
    if (check_size > ranks_max) return skip("at most 8 ranks");
    for (kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        rounds(comm, comm_kind_names[kind]);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    rank = check_rank, size = check_size;
    far_apart();
    return finish();
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
