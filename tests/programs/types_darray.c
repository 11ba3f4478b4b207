/* Goal: MPI_Type_create_darray distributes an array over a grid of processes exactly as HPF does
 * (MPI-5.0 section 5.1.4). Method: for all distributions, arguments and orders on small arrays, the
 * owner of each element is computed from the definition; each process's packed type must hold its
 * elements in storage order, and all together each element once.
 */
#include "check.h"

enum { room = 2048 };
static int cells[room];

/* Owner of index i of n in one dimension over p processes. */
static int owner_of(int i, int n, int dist, int darg, int p) {
    int block;
    if (dist == MPI_DISTRIBUTE_NONE) return 0;
    if (dist == MPI_DISTRIBUTE_BLOCK) {
        block = darg == MPI_DISTRIBUTE_DFLT_DARG ? (n + p - 1) / p : darg;
        return i / block;
    }
    block = darg == MPI_DISTRIBUTE_DFLT_DARG ? 1 : darg;
    return i / block % p;
}

static void one(int order, const int* n, const int* dist, const int* darg, const int* p) {
    int total = n[0] * n[1], ranks = p[0] * p[1], r, seen = 0;
    context("darray %dx%d, dist %d %d, darg %d %d, grid %dx%d, order %d", n[0], n[1], dist[0],
            dist[1], darg[0], darg[1], p[0], p[1], order);
    for (r = 0; r < ranks; ++r) {
        MPI_Datatype t;
        MPI_Aint lb, extent;
        int packed[room], expected[room], mine = 0, position = 0, size = -1, cell;
        /* The grid of processes is always in C order, the array in the order given. */
        int r0 = r / p[1], r1 = r % p[1];
        for (cell = 0; cell < total; ++cell) {
            int i = order == MPI_ORDER_C ? cell / n[1] : cell % n[0];
            int j = order == MPI_ORDER_C ? cell % n[1] : cell / n[0];
            if (owner_of(i, n[0], dist[0], darg[0], p[0]) == r0 &&
                owner_of(j, n[1], dist[1], darg[1], p[1]) == r1) {
                expected[mine++] = cells[cell];
            }
        }
        CHECK_OK(MPI_Type_create_darray(ranks, r, 2, n, dist, darg, p, order, MPI_INT, &t));
        CHECK_OK(MPI_Type_commit(&t));
        CHECK_OK(MPI_Type_size(t, &size));
        CHECK_EQ(mine * 4, size);
        CHECK_OK(MPI_Type_get_extent(t, &lb, &extent));
        CHECK_EQ(0, lb);
        CHECK_EQ(total * 4, extent);
        CHECK_OK(MPI_Pack(cells, 1, t, packed, (int)sizeof packed, &position, MPI_COMM_SELF));
        CHECK_EQ(size, position);
        CHECK_MEM(expected, packed, (size_t)mine * 4);
        CHECK_OK(MPI_Type_free(&t));
        seen += mine;
    }
    CHECK_EQ(total, seen);
}

int main(int argc, char** argv) {
    static const int dists[][2] = {{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG},
                                   {MPI_DISTRIBUTE_BLOCK, 7},
                                   {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG},
                                   {MPI_DISTRIBUTE_CYCLIC, 2},
                                   {MPI_DISTRIBUTE_CYCLIC, 3},
                                   {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_DFLT_DARG}};
    static const int grids[][2] = {{1, 1}, {2, 2}, {3, 2}, {2, 3}};
    static const int arrays[][2] = {{8, 6}, {11, 13}, {5, 14}};
    int a, g, d, e, o, i;
    start(&argc, &argv);
    for (i = 0; i < room; ++i) cells[i] = i * 3 + 1;
    for (a = 0; a < 3; ++a) {
        for (g = 0; g < 4; ++g) {
            for (d = 0; d < 6; ++d) {
                for (e = 0; e < 6; ++e) {
                    for (o = 0; o < 2; ++o) {
                        int p[2] = {grids[g][0], grids[g][1]};
                        int dist[2] = {dists[d][0], dists[e][0]};
                        int darg[2] = {dists[d][1], dists[e][1]};
                        if (dist[0] == MPI_DISTRIBUTE_NONE) p[0] = 1;
                        if (dist[1] == MPI_DISTRIBUTE_NONE) p[1] = 1;
                        /* A block argument must cover the array: darg * p >= n. */
                        if (dist[0] == MPI_DISTRIBUTE_BLOCK && darg[0] > 0 &&
                            darg[0] * p[0] < arrays[a][0]) {
                            continue;
                        }
                        if (dist[1] == MPI_DISTRIBUTE_BLOCK && darg[1] > 0 &&
                            darg[1] * p[1] < arrays[a][1]) {
                            continue;
                        }
                        one(o ? MPI_ORDER_FORTRAN : MPI_ORDER_C, arrays[a], dist, darg, p);
                    }
                }
            }
        }
    }
    return finish();
}
