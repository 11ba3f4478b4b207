/* Goal: gatherv, scatterv, allgatherv, alltoallv, alltoallw and reduce_scatter in all forms, with
 * zero counts, gaps, blocks out of order, in place. Method: block r has (r + shift) % 3 * unit
 * elements; displacements leave gaps and run backwards; everything outside the blocks must stay.
 */
#include "coll_forms.h"

enum { guard = -77, gap = 3 };
static int rank, size;
static int *counts, *displs, *counts_to, *displs_to, *counts_from, *displs_from;
static MPI_Datatype* types;
static int total;

#if MPI_AT_LEAST(4, 0)
/* The same as MPI_Count and MPI_Aint arrays for the _c forms (kept until the call completed). */
static MPI_Count large_counts[3][64];
static MPI_Aint large_displs[3][64];

static const MPI_Count* large(const int* from, int slot) {
    for (int r = 0; r < size; ++r) large_counts[slot][r] = from[r];
    return large_counts[slot];
}

static const MPI_Aint* wide(const int* from, int slot) {
    for (int r = 0; r < size; ++r) large_displs[slot][r] = from[r];
    return large_displs[slot];
}
#define LARGE_V(Upper, lower, large_args, ...)                                                  \
    case Persistent:                                                                            \
        return run_request(MPI_##Upper##_init(__VA_ARGS__, MPI_INFO_NULL, &r), &r);             \
    case BlockingLarge: return MPI_##Upper##_c large_args;                                      \
    default:                                                                                    \
        break;
#else
#define LARGE_V(Upper, lower, large_args, ...) default: break;
#endif

static int do_gatherv(enum form f, const void* in, int n, void* out, int root, MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (f) {
        case Blocking: return MPI_Gatherv(in, n, MPI_INT, out, counts, displs, MPI_INT, root, comm);
        case Nonblocking:
            return complete_request(MPI_Igatherv(in, n, MPI_INT, out, counts, displs, MPI_INT, root,
                                                 comm, &r), &r);
            LARGE_V(Gatherv, gatherv,
                    (in, n, MPI_INT, out, large(counts, 0), wide(displs, 0), MPI_INT, root, comm),
                    in, n, MPI_INT, out, counts, displs, MPI_INT, root, comm)
    }
#if MPI_AT_LEAST(4, 0)
    if (f == NonblockingLarge) {
        return complete_request(MPI_Igatherv_c(in, n, MPI_INT, out, large(counts, 0),
                                               wide(displs, 0), MPI_INT, root, comm, &r), &r);
    }
    return run_request(MPI_Gatherv_init_c(in, n, MPI_INT, out, large(counts, 0), wide(displs, 0),
                                          MPI_INT, root, comm, MPI_INFO_NULL, &r), &r);
#endif
    return MPI_ERR_OTHER;
}

static int do_scatterv(enum form f, const void* in, void* out, int n, int root, MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (f) {
        case Blocking: return MPI_Scatterv(in, counts, displs, MPI_INT, out, n, MPI_INT, root, comm);
        case Nonblocking:
            return complete_request(MPI_Iscatterv(in, counts, displs, MPI_INT, out, n, MPI_INT,
                                                  root, comm, &r), &r);
            LARGE_V(Scatterv, scatterv,
                    (in, large(counts, 0), wide(displs, 0), MPI_INT, out, n, MPI_INT, root, comm),
                    in, counts, displs, MPI_INT, out, n, MPI_INT, root, comm)
    }
#if MPI_AT_LEAST(4, 0)
    if (f == NonblockingLarge) {
        return complete_request(MPI_Iscatterv_c(in, large(counts, 0), wide(displs, 0), MPI_INT, out,
                                                n, MPI_INT, root, comm, &r), &r);
    }
    return run_request(MPI_Scatterv_init_c(in, large(counts, 0), wide(displs, 0), MPI_INT, out, n,
                                           MPI_INT, root, comm, MPI_INFO_NULL, &r), &r);
#endif
    return MPI_ERR_OTHER;
}

static int do_allgatherv(enum form f, const void* in, int n, void* out, MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (f) {
        case Blocking: return MPI_Allgatherv(in, n, MPI_INT, out, counts, displs, MPI_INT, comm);
        case Nonblocking:
            return complete_request(MPI_Iallgatherv(in, n, MPI_INT, out, counts, displs, MPI_INT,
                                                    comm, &r), &r);
            LARGE_V(Allgatherv, allgatherv,
                    (in, n, MPI_INT, out, large(counts, 0), wide(displs, 0), MPI_INT, comm),
                    in, n, MPI_INT, out, counts, displs, MPI_INT, comm)
    }
#if MPI_AT_LEAST(4, 0)
    if (f == NonblockingLarge) {
        return complete_request(MPI_Iallgatherv_c(in, n, MPI_INT, out, large(counts, 0),
                                                  wide(displs, 0), MPI_INT, comm, &r), &r);
    }
    return run_request(MPI_Allgatherv_init_c(in, n, MPI_INT, out, large(counts, 0),
                                             wide(displs, 0), MPI_INT, comm, MPI_INFO_NULL, &r), &r);
#endif
    return MPI_ERR_OTHER;
}

static int do_alltoallv(enum form f, const void* in, void* out, MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (f) {
        case Blocking:
            return MPI_Alltoallv(in, counts_to, displs_to, MPI_INT, out, counts_from, displs_from,
                                 MPI_INT, comm);
        case Nonblocking:
            return complete_request(MPI_Ialltoallv(in, counts_to, displs_to, MPI_INT, out,
                                                   counts_from, displs_from, MPI_INT, comm, &r), &r);
            LARGE_V(Alltoallv, alltoallv,
                    (in, large(counts_to, 0), wide(displs_to, 0), MPI_INT, out,
                     large(counts_from, 1), wide(displs_from, 1), MPI_INT, comm),
                    in, counts_to, displs_to, MPI_INT, out, counts_from, displs_from, MPI_INT, comm)
    }
#if MPI_AT_LEAST(4, 0)
    if (f == NonblockingLarge) {
        return complete_request(
            MPI_Ialltoallv_c(in, large(counts_to, 0), wide(displs_to, 0), MPI_INT, out,
                             large(counts_from, 1), wide(displs_from, 1), MPI_INT, comm, &r), &r);
    }
    return run_request(
        MPI_Alltoallv_init_c(in, large(counts_to, 0), wide(displs_to, 0), MPI_INT, out,
                             large(counts_from, 1), wide(displs_from, 1), MPI_INT, comm,
                             MPI_INFO_NULL, &r), &r);
#endif
    return MPI_ERR_OTHER;
}

static int do_alltoallw(enum form f, const void* in, const int* sd, void* out, const int* rd,
                        MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    const int *sc = counts_to, *rc = counts_from;
    switch (f) {
        case Blocking: return MPI_Alltoallw(in, sc, sd, types, out, rc, rd, types, comm);
        case Nonblocking:
            return complete_request(MPI_Ialltoallw(in, sc, sd, types, out, rc, rd, types, comm, &r),
                                    &r);
            LARGE_V(Alltoallw, alltoallw,
                    (in, large(sc, 0), wide(sd, 0), types, out, large(rc, 1), wide(rd, 1), types,
                     comm),
                    in, sc, sd, types, out, rc, rd, types, comm)
    }
#if MPI_AT_LEAST(4, 0)
    if (f == NonblockingLarge) {
        return complete_request(MPI_Ialltoallw_c(in, large(sc, 0), wide(sd, 0), types, out,
                                                 large(rc, 1), wide(rd, 1), types, comm, &r), &r);
    }
    return run_request(MPI_Alltoallw_init_c(in, large(sc, 0), wide(sd, 0), types, out, large(rc, 1),
                                            wide(rd, 1), types, comm, MPI_INFO_NULL, &r), &r);
#endif
    return MPI_ERR_OTHER;
}

static int do_reduce_scatter(enum form f, const void* in, void* out, MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (f) {
        case Blocking: return MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
        case Nonblocking:
            return complete_request(
                MPI_Ireduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm, &r), &r);
            LARGE_V(Reduce_scatter, reduce_scatter,
                    (in, out, large(counts, 0), MPI_INT, MPI_SUM, comm), in, out, counts, MPI_INT,
                    MPI_SUM, comm)
    }
#if MPI_AT_LEAST(4, 0)
    if (f == NonblockingLarge) {
        return complete_request(
            MPI_Ireduce_scatter_c(in, out, large(counts, 0), MPI_INT, MPI_SUM, comm, &r), &r);
    }
    return run_request(MPI_Reduce_scatter_init_c(in, out, large(counts, 0), MPI_INT, MPI_SUM, comm,
                                                 MPI_INFO_NULL, &r), &r);
#endif
    return MPI_ERR_OTHER;
}

static int block_count(int from, int to, int unit) { return (from + 2 * to + 1) % 3 * unit; }

/* Places blocks of the given counts from the end backwards with gaps. */
static int place_backwards(const int* n, int* at) {
    int here = gap;
    for (int r = size - 1; r >= 0; --r) {
        at[r] = here;
        here += n[r] + gap;
    }
    return here;
}

static void lay_out(int unit) {
    int r;
    for (r = 0; r < size; ++r) {
        counts[r] = block_count(r, 1, unit);
        counts_to[r] = block_count(rank, r, unit);
        counts_from[r] = block_count(r, rank, unit);
    }
    total = place_backwards(counts, displs);
    place_backwards(counts_to, displs_to);
    place_backwards(counts_from, displs_from);
}

static void fill_blocks(int* data) {
    for (int r = 0; r < size; ++r) {
        for (int i = 0; i < counts[r]; ++i) data[displs[r] + i] = element(r, 0, i);
    }
}

static void gathers(enum form f, int root, int in_place, int everywhere, MPI_Comm comm) {
    int n = counts[rank], *mine = new_ints(n, guard), *out = new_ints(total, guard);
    int *expected = new_ints(total, guard), i;
    int receives = everywhere || rank == root;
    const void* in = mine;
    for (i = 0; i < n; ++i) mine[i] = element(rank, 0, i);
    if (receives) fill_blocks(expected);
    if (in_place && receives) {
        memcpy(out + displs[rank], mine, (size_t)n * sizeof(int));
        in = MPI_IN_PLACE;
    }
    if (everywhere) {
        CHECK_OK(do_allgatherv(f, in, n, out, comm));
    } else {
        CHECK_OK(do_gatherv(f, in, n, out, root, comm));
    }
    CHECK_INTS(expected, out, total, guard);
    free(mine);
    free(out);
    free(expected);
}

static void scatters(enum form f, int root, int in_place, MPI_Comm comm) {
    int n = counts[rank], *in = new_ints(total, guard), *out = new_ints(n, guard);
    int *expected = new_ints(n, guard), i;
    if (rank == root) fill_blocks(in);
    for (i = 0; i < n; ++i) expected[i] = element(rank, 0, i);
    if (in_place && rank == root) {
        CHECK_OK(do_scatterv(f, in, MPI_IN_PLACE, n, root, comm));
    } else {
        CHECK_OK(do_scatterv(f, in, out, n, root, comm));
        CHECK_INTS(expected, out, n, guard);
    }
    free(in);
    free(out);
    free(expected);
}

/* wide_types: alltoallw with displacements in bytes; else alltoallv. */
static void alltoalls(enum form f, int in_place, int wide_types, MPI_Comm comm) {
    int saved_size = size * 3 * 2000 + (size + 1) * gap, r, i;
    int *in = new_ints(saved_size, guard), *out = new_ints(saved_size, guard);
    int *expected = new_ints(saved_size, guard), *sd = new_ints(size, 0), *rd = new_ints(size, 0);
    for (r = 0; r < size; ++r) {
        for (i = 0; i < counts_to[r]; ++i) in[displs_to[r] + i] = element(rank, r, i);
        for (i = 0; i < counts_from[r]; ++i) {
            expected[displs_from[r] + i] = element(r, rank, i);
            /* In place needs equal counts both ways: the receive layout holds what is sent. */
            if (in_place) out[displs_from[r] + i] = element(rank, r, i);
        }
        sd[r] = displs_to[r] * (int)sizeof(int);
        rd[r] = displs_from[r] * (int)sizeof(int);
    }
    if (wide_types) {
        CHECK_OK(do_alltoallw(f, in_place ? MPI_IN_PLACE : in, sd, out, rd, comm));
    } else {
        CHECK_OK(do_alltoallv(f, in_place ? MPI_IN_PLACE : in, out, comm));
    }
    CHECK_INTS(expected, out, saved_size, guard);
    free(in);
    free(out);
    free(expected);
    free(sd);
    free(rd);
}

static void reduce_scatter(enum form f, int in_place, MPI_Comm comm) {
    int n = counts[rank], before = 0, sum = 0, i, r;
    int *in, *out = new_ints(n, guard), *expected = new_ints(n, guard);
    for (r = 0; r < size; ++r) {
        before += r < rank ? counts[r] : 0;
        sum += counts[r];
    }
    in = new_ints(sum, guard);
    for (i = 0; i < sum; ++i) in[i] = element(rank, 4, i);
    for (i = 0; i < n; ++i) {
        for (expected[i] = r = 0; r < size; ++r) expected[i] += element(r, 4, before + i);
    }
    if (in_place) {
        CHECK_OK(do_reduce_scatter(f, MPI_IN_PLACE, in, comm));
        CHECK_MEM(expected, in, (size_t)n * sizeof(int));
    } else {
        CHECK_OK(do_reduce_scatter(f, in, out, comm));
        CHECK_INTS(expected, out, n, guard);
    }
    free(in);
    free(out);
    free(expected);
}

static void symmetric_counts(int unit) {
    for (int r = 0; r < size; ++r) counts_to[r] = counts_from[r] = (rank + r) % 3 * unit;
    place_backwards(counts_to, displs_to);
    place_backwards(counts_from, displs_from);
}

int main(int argc, char** argv) {
    static const int units[] = {0, 1, 37, 2000};
    int kind, form, u, root, r;
    start(&argc, &argv);
    counts = new_ints(64, 0), displs = new_ints(64, 0);
    counts_to = new_ints(64, 0), displs_to = new_ints(64, 0);
    counts_from = new_ints(64, 0), displs_from = new_ints(64, 0);
    types = malloc(64 * sizeof(MPI_Datatype));
    for (r = 0; r < 64; ++r) types[r] = MPI_INT;
    for (kind = 0; kind < comm_kinds; ++kind) {
        MPI_Comm comm = make_comm(kind);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (form = 0; form < form_count; ++form) {
            for (u = 0; u < 4; ++u) {
                enum form f = (enum form)form;
                context("%s, %s, unit %d", comm_kind_names[kind], form_names[form], units[u]);
                lay_out(units[u]);
                for (root = 0; root < size; root += (size + 1) / 2) {
                    gathers(f, root, 0, 0, comm);
                    gathers(f, root, 1, 0, comm);
                    scatters(f, root, 0, comm);
                    scatters(f, root, 1, comm);
                }
                gathers(f, 0, 0, 1, comm);
                gathers(f, 0, 1, 1, comm);
                reduce_scatter(f, 0, comm);
                reduce_scatter(f, 1, comm);
                alltoalls(f, 0, 0, comm);
                alltoalls(f, 0, 1, comm);
                symmetric_counts(units[u]);
                alltoalls(f, 1, 0, comm);
                alltoalls(f, 1, 1, comm);
            }
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return finish();
}
