/* Goal: blocking collectives that are called again, with the same arguments and other data, other
 * buffers, other counts in the same arrays, or in place. Method: all ranks draw the same calls from
 * a few sets of arguments, several times in a row; an element tells call, sender, receiver and
 * index; what lies beside the blocks must stay.
 */
#include "check.h"

enum kind {
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgatherv,
    Alltoallv,
    ReduceScatter,
    Scan,
    Exscan,
    kinds
};
static const char* const names[kinds] = {"Gather",         "Gatherv",    "Scatter",
                                         "Scatterv",       "Allgatherv", "Alltoallv",
                                         "Reduce_scatter", "Scan",       "Exscan"};
enum { guard = -77, sets = 5, calls = 4000, unit_most = 40, ranks_most = 8 };
enum { room = (ranks_most * (unit_most + 3) + 8) * 2 };

static int rank, size;
/* Of a set: units of one block, and whether blocks lie backwards. Lists have one place in memory,
 * as in programs that fill them anew before each call. */
static int units[sets] = {1, 2, 7, 33, 0}, backwards[sets] = {0, 1, 0, 1, 0};
static int counts[ranks_most], displs[ranks_most], from_counts[ranks_most], from_displs[ranks_most];
static int in[room], out[room], expected[room];

static unsigned long long state = 1;
static int draw(int below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (unsigned)below);
}

/* Elements of the block of rank `r` in lists of set `s`. */
static int length(int s, int r) { return (r + s) % 3 * units[s]; }
static void lists(int* count, int* displ, int s, int shift) {
    int at = 1;
    for (int i = 0; i < size; ++i) {
        int r = backwards[s] ? size - 1 - i : i;
        count[r] = length(s, r + shift);
        displ[r] = at;
        at += count[r] + 1;
    }
}
static int value(int call, int from, int to, int i) {
    return call * 10007 + from * 997 + to * 101 + i;
}
static void fill(int* data, int call, int from, int to, int n) {
    for (int i = 0; i < n; ++i) data[i] = value(call, from, to, i);
}
static void clear(int* data) {
    for (int i = 0; i < room; ++i) data[i] = guard;
}
static void same(void) {
    int wrong = -1;
    for (int i = 0; i < room && wrong < 0; ++i)
        if (out[i] != expected[i]) wrong = i;
    CHECK(wrong < 0);
}

static void rooted(int call, enum kind kind, int s, int root, int place, int in_place) {
    int v = kind == Gatherv || kind == Scatterv, gathers = kind == Gather || kind == Gatherv;
    int own = v ? length(s, rank) : units[s];
    int *all = (gathers ? out : in) + place, *one = (gathers ? in : out) + place;
    in_place = in_place && rank == root;
    lists(counts, displs, s, 0);
    for (int r = 0; r < size; ++r) {
        if (!v) counts[r] = units[s], displs[r] = r * units[s];
        if (!gathers && rank == root) fill(all + displs[r], call, root, r, counts[r]);
        if (gathers && rank == root) fill(expected + place + displs[r], call, r, root, counts[r]);
    }
    if (gathers && in_place) fill(all + displs[rank], call, rank, root, own);
    else if (gathers) fill(one, call, rank, root, own);
    else if (!in_place) fill(expected + place, call, root, rank, own);
    if (v && rank != root) /* not significant */
        for (int r = 0; r < size; ++r) counts[r] = -1 - call % 2, displs[r] = 1 << 30;
    void* mine = in_place ? MPI_IN_PLACE : (void*)one;
    int their = rank == root ? counts[0] : -3;
    MPI_Datatype type = rank == root ? MPI_INT : MPI_DATATYPE_NULL;
    int error = MPI_SUCCESS;
    switch (kind) {
    case Gather:
        error = MPI_Gather(mine, own, MPI_INT, all, their, type, root, MPI_COMM_WORLD);
        break;
    case Gatherv:
        error = MPI_Gatherv(mine, own, MPI_INT, all, counts, displs, type, root, MPI_COMM_WORLD);
        break;
    case Scatter:
        error = MPI_Scatter(all, their, type, mine, own, MPI_INT, root, MPI_COMM_WORLD);
        break;
    default:
        error = MPI_Scatterv(all, counts, displs, type, mine, own, MPI_INT, root, MPI_COMM_WORLD);
    }
    CHECK_EQ(MPI_SUCCESS, error);
}

static void everybody(int call, enum kind kind, int s, int place, int in_place) {
    int error = MPI_SUCCESS;
    lists(counts, displs, s, kind == Alltoallv ? rank : 0);
    if (kind == Allgatherv) {
        for (int r = 0; r < size; ++r) fill(expected + place + displs[r], call, r, r, counts[r]);
        int own = counts[rank];
        if (in_place) fill(out + place + displs[rank], call, rank, rank, own);
        else fill(in + place, call, rank, rank, own);
        error = MPI_Allgatherv(in_place ? MPI_IN_PLACE : (void*)(in + place), own, MPI_INT,
                               out + place, counts, displs, MPI_INT, MPI_COMM_WORLD);
    } else if (kind == Alltoallv) { /* from a to b: length(s, a + b), alike both ways */
        lists(from_counts, from_displs, s, rank);
        for (int r = 0; r < size; ++r) {
            fill(in + place + displs[r], call, rank, r, counts[r]);
            if (in_place) fill(out + place + from_displs[r], call, rank, r, counts[r]);
            fill(expected + place + from_displs[r], call, r, rank, from_counts[r]);
        }
        error =
            MPI_Alltoallv(in_place ? MPI_IN_PLACE : (void*)(in + place), counts, displs, MPI_INT,
                          out + place, from_counts, from_displs, MPI_INT, MPI_COMM_WORLD);
    } else if (kind == ReduceScatter) {
        int total = 0, before = 0;
        for (int r = 0; r < size; ++r) {
            if (r < rank) before += counts[r];
            total += counts[r];
        }
        int* data = (in_place ? out : in) + place;
        fill(data, call, rank, 0, total);
        if (in_place) fill(expected + place, call, rank, 0, total); /* but for the result */
        for (int i = 0; i < counts[rank]; ++i) {
            expected[place + i] = 0;
            for (int r = 0; r < size; ++r) expected[place + i] += value(call, r, 0, before + i);
        }
        error = MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : (void*)(in + place), out + place,
                                   counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (in_place) /* what the standard leaves undefined */
            for (int i = counts[rank]; i < total; ++i) out[place + i] = expected[place + i];
    } else {
        fill((in_place ? out : in) + place, call, rank, 0, units[s]);
        int last = kind == Scan ? rank : rank - 1;
        for (int i = 0; i < units[s] && last >= 0; ++i) {
            expected[place + i] = 0;
            for (int r = 0; r <= last; ++r) expected[place + i] += value(call, r, 0, i);
        }
        error = (kind == Scan ? MPI_Scan : MPI_Exscan)(
            in_place ? MPI_IN_PLACE : (void*)(in + place), out + place, units[s], MPI_INT, MPI_SUM,
            MPI_COMM_WORLD);
        if (last < 0) /* undefined at rank 0 */
            for (int i = 0; i < units[s]; ++i) out[place + i] = expected[place + i];
    }
    CHECK_EQ(MPI_SUCCESS, error);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= ranks_most);
    enum kind kind = Gather;
    int s = 0, root = 0, place = 0, in_place = 0, left = 0;
    for (int call = 0; call < calls; ++call) {
        if (!left--) {
            kind = (enum kind)draw(kinds), s = draw(sets), root = draw(size),
            in_place = draw(4) == 0;
            left = draw(6);
        }
        place = draw(2) * (room / 2); /* the call is known, its buffers are not */
        context("call %d: MPI_%s, set %d, root %d%s", call, names[kind], s, root,
                in_place ? ", in place" : "");
        clear(in), clear(out), clear(expected);
        if (kind <= Scatterv) rooted(call, kind, s, root, place, in_place);
        else everybody(call, kind, s, place, in_place);
        same();
        if (call == calls / 4) MPI_Barrier(MPI_COMM_WORLD); /* the first that makes the board */
    }
    return finish();
}
