/* Goal: every collective, with every predefined type that is alike on all systems and every
 * operation on it, against a sequential reference. Method: each case is drawn from its seed, the
 * same on all ranks: communicator, root, counts, lengths of blocks and gaps between them, in place
 * or not, blocking, non-blocking or persistent. Results are compared byte for byte with what loops
 * over all ranks' inputs give, gaps and guards included; of sums of arbitrary reals, which depend
 * on their order, all members of an allreduce must have the same bits.
 *
 *     coll_property [FIRST-SEED [SEEDS]]
 */
#include "coll_forms.h"
#include "coll_kinds.h"

enum collective { Bcast, Gather, Scatter, Allgather, Alltoall, Reduce, Allreduce, ReduceScatter, Scan, Exscan,
                  collectives };
static const char* const collective_names[] = {"bcast", "gather", "scatter", "allgather", "alltoall", "reduce",
                                               "allreduce", "reduce_scatter", "scan", "exscan"};
enum { guard_bytes = 32, ranks_max = 16 };

/* One case; what is not drawn belongs to this rank. */
static struct {
    uint64_t seed;
    enum collective collective;
    const struct kind* kind;
    enum operation operation;
    enum form form;
    MPI_Comm comm;
    int rank, size, root, count, in_place, lists, rough;
} c;

static uint64_t mixed(uint64_t a, uint64_t b) {
    uint64_t z = (a + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xd1342543de82ef95);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static uint64_t drawn(int from, int to, int number) {
    return mixed(mixed(c.seed, (uint64_t)(from * ranks_max + to)), (uint64_t)number);
}

/* ---- buffers */

static size_t bytes_of(int elements) {
    return (size_t)elements * (size_t)c.kind->extent + guard_bytes;
}
static char* new_buffer(int elements, uint64_t salt) {
    char* data = (char*)malloc(bytes_of(elements));
    for (size_t i = 0; i < bytes_of(elements); ++i) data[i] = (char)mixed(salt, i);
    return data;
}
static char* copy_of(const char* from, int elements) {
    return (char*)memcpy(malloc(bytes_of(elements)), from, bytes_of(elements));
}
/* The element that `from` gives to `to`: any bytes, for what is only moved. */
static void put_block(char* buffer, int at, int from, int to, int n) {
    for (int i = 0; i < n; ++i) {
        uint64_t element[4] = {drawn(from, to, i)};
        for (int j = 1; j < 4; ++j) element[j] = mixed(element[0], (uint64_t)j);
        copy_element(c.kind, buffer + (size_t)(at + i) * (size_t)c.kind->extent, element);
    }
}
/* The number that a rank gives at an index of a reduction, as its type holds it. */
static struct number given(int from, int i) {
    uint64_t memory[4] = {0};
    write_number(c.kind, memory, draw_number(c.kind, c.operation, c.rough, drawn(from, 0, i)));
    return read_number(c.kind, memory);
}
static void put_vector(char* buffer, int from, int first, int n) {
    for (int i = 0; i < n; ++i)
        write_number(c.kind, buffer + (size_t)i * (size_t)c.kind->extent, given(from, first + i));
}
static void check_buffer(const char* expected, const char* found, int elements, const char* what) {
    size_t at = 0;
    if (check_failed(memcmp(expected, found, bytes_of(elements)) == 0)) {
        while (expected[at] == found[at]) ++at;
        check_report(__FILE__, __LINE__,
                     "%s: byte %zu of %zu (of an element of %d): expected 0x%02x, found 0x%02x",
                     what, at, bytes_of(elements), c.kind->extent, expected[at] & 255,
                     found[at] & 255);
    }
}

/* ---- blocks of several lengths */

static int lengths[ranks_max][ranks_max]; /* from, to */
static int send_counts[ranks_max], send_places[ranks_max], receive_counts[ranks_max],
    receive_places[ranks_max];

static void draw_lengths(void) {
    for (int i = 0; i < c.size; ++i)
        for (int j = 0; j < c.size; ++j) {
            int symmetric = c.collective == Alltoall && c.in_place;
            int from = symmetric && j < i ? j : i, to = symmetric && j < i ? i : j;
            if (c.collective != Alltoall) from = 0;
            lengths[i][j] =
                c.lists ? (int)(drawn(from, to, -1) % (uint64_t)(c.count + 2)) : c.count;
        }
}
/* Places of blocks in a buffer, in either direction, with gaps; how long the buffer is. */
static int lay_out(const int* counts, int* places, int salt) {
    int end = 0, backwards = c.lists && drawn(0, salt, -2) % 2;
    for (int i = 0; i < c.size; ++i) {
        int r = backwards ? c.size - 1 - i : i;
        if (c.lists) end += (int)(drawn(r, salt, -3) % 3);
        places[r] = end;
        end += counts[r];
    }
    return end;
}

#if MPI_AT_LEAST(4, 0)
#define PERSISTENT(Upper, ...)                                                                     \
    if (c.form == Persistent)                                                                      \
        return run_request(MPI_##Upper##_init(__VA_ARGS__, MPI_INFO_NULL, &r), &r);
#else
#define PERSISTENT(Upper, ...)
#endif
#define LISTS(Upper, lower, parameters, ...)                                                       \
    static int lists_##lower parameters {                                                          \
        MPI_Request r = MPI_REQUEST_NULL;                                                          \
        if (c.form == Nonblocking) return complete_request(MPI_I##lower(__VA_ARGS__, &r), &r);     \
        PERSISTENT(Upper, __VA_ARGS__)                                                             \
        return MPI_##Upper(__VA_ARGS__);                                                           \
    }
LISTS(Gatherv, gatherv, (const void* in, int n, void* out), in, n, c.kind->type, out,
      receive_counts, receive_places, c.kind->type, c.root, c.comm)
LISTS(Scatterv, scatterv, (const void* in, void* out, int n), in, send_counts, send_places,
      c.kind->type, out, n, c.kind->type, c.root, c.comm)
LISTS(Allgatherv, allgatherv, (const void* in, int n, void* out), in, n, c.kind->type, out,
      receive_counts, receive_places, c.kind->type, c.comm)
LISTS(Alltoallv, alltoallv, (const void* in, void* out), in, send_counts, send_places, c.kind->type,
      out, receive_counts, receive_places, c.kind->type, c.comm)
LISTS(Reduce_scatter, reduce_scatter, (const void* in, void* out), in, out, receive_counts,
      c.kind->type, handle_of(c.operation), c.comm)

/* ---- collectives that move data */

static void bcast(void) {
    char* data = new_buffer(c.count, mixed(c.seed, (uint64_t)c.rank));
    char* expected = copy_of(data, c.count);
    put_block(expected, 0, c.root, 0, c.count);
    if (c.rank == c.root) put_block(data, 0, c.root, 0, c.count);
    CHECK_OK(do_bcast(c.form, data, c.count, c.kind->type, c.root, c.comm));
    check_buffer(expected, data, c.count, "result");
    free(data), free(expected);
}

/* gather and allgather; the root, or each, has all blocks in the end. */
static void gather(void) {
    int all = c.collective == Allgather, mine = lengths[0][c.rank], code, i;
    int room = lay_out(receive_counts, receive_places, 1), collects = all || c.rank == c.root;
    int in_place = c.in_place && collects;
    char *in = new_buffer(mine, 1), *out = new_buffer(room, 2), *sent, *expected;
    const void* given_in = in_place ? MPI_IN_PLACE : (const void*)in;
    put_block(in, 0, c.rank, 0, mine);
    if (in_place) put_block(out, receive_places[c.rank], c.rank, 0, mine);
    sent = copy_of(in, mine);
    expected = copy_of(out, room);
    for (i = 0; collects && i < c.size; ++i)
        put_block(expected, receive_places[i], i, 0, receive_counts[i]);
    if (all && c.lists) code = lists_allgatherv(given_in, mine, out);
    else if (all)
        code =
            do_allgather(c.form, given_in, mine, c.kind->type, out, c.count, c.kind->type, c.comm);
    else if (c.lists) code = lists_gatherv(given_in, mine, out);
    else
        code = do_gather(c.form, given_in, mine, c.kind->type, out, c.count, c.kind->type, c.root,
                         c.comm);
    CHECK_OK(code);
    check_buffer(expected, out, room, "result");
    check_buffer(sent, in, mine, "what was sent");
    free(in), free(out), free(sent), free(expected);
}

static void scatter(void) {
    int mine = lengths[0][c.rank], room = lay_out(send_counts, send_places, 1), i, code;
    int in_place = c.in_place && c.rank == c.root;
    char *in = new_buffer(room, 1), *out = new_buffer(mine, 2), *sent, *expected;
    for (i = 0; i < c.size && c.rank == c.root; ++i)
        put_block(in, send_places[i], c.root, i, send_counts[i]);
    sent = copy_of(in, room);
    expected = copy_of(out, mine);
    if (!in_place) put_block(expected, 0, c.root, c.rank, mine);
    if (c.lists) code = lists_scatterv(in, in_place ? MPI_IN_PLACE : (void*)out, mine);
    else
        code = do_scatter(c.form, in, c.count, c.kind->type, in_place ? MPI_IN_PLACE : (void*)out,
                          mine, c.kind->type, c.root, c.comm);
    CHECK_OK(code);
    check_buffer(expected, out, mine, "result");
    check_buffer(sent, in, room, "what was sent");
    free(in), free(out), free(sent), free(expected);
}

static void alltoall(void) {
    int to_send = lay_out(send_counts, send_places, 1),
        room = lay_out(receive_counts, receive_places, 2), i, code;
    char *in = new_buffer(to_send, 1), *out = new_buffer(room, 2), *sent, *expected;
    const void* given_in = c.in_place ? MPI_IN_PLACE : (const void*)in;
    for (i = 0; i < c.size; ++i) {
        put_block(in, send_places[i], c.rank, i, send_counts[i]);
        if (c.in_place) put_block(out, receive_places[i], c.rank, i, receive_counts[i]);
    }
    sent = copy_of(in, to_send);
    expected = copy_of(out, room);
    for (i = 0; i < c.size; ++i)
        put_block(expected, receive_places[i], i, c.rank, receive_counts[i]);
    if (c.lists) code = lists_alltoallv(given_in, out);
    else
        code = do_alltoall(c.form, given_in, c.count, c.kind->type, out, c.count, c.kind->type,
                           c.comm);
    CHECK_OK(code);
    check_buffer(expected, out, room, "result");
    check_buffer(sent, in, to_send, "what was sent");
    free(in), free(out), free(sent), free(expected);
}

/* ---- reductions */

static double size_of(double x) { return x < 0 ? -x : x; }

/* What any order of the operations may give of rough numbers counts as expected. Zeros count
 * without their sign, and between the numbers of a pair nothing is looked at. */
static void allow(char* expected, const char* found, int n) {
    double precision = 64;
    int fraction = 8 * c.kind->bytes - 1 - c.kind->exponent, i;
    for (i = 0; i < fraction && i < 52; ++i) precision /= 2;
    for (i = 0; i < n; ++i) {
        char* e = expected + (size_t)i * (size_t)c.kind->extent;
        const char* f = found + (size_t)i * (size_t)c.kind->extent;
        struct number wanted = read_number(c.kind, e), got = read_number(c.kind, f);
        int first = c.kind->bytes, rest = c.kind->extent - first;
        if (c.kind->exponent) {
            double scale = size_of(wanted.re) + size_of(wanted.im),
                   error = c.rough ? precision * scale : 0;
            if (size_of(wanted.re - got.re) <= error) memcpy(e, f, (size_t)first);
            if (c.kind->family == Complex && size_of(wanted.im - got.im) <= error)
                memcpy(e + c.kind->second, f + c.kind->second, (size_t)first);
        }
        if (c.kind->family == Pair) {
            int place = wanted.place;
            memcpy(e + first, f + first, (size_t)rest);
            memcpy(e + c.kind->second, &place, sizeof place);
        }
    }
}

/* The elements from `first` on of ranks' vectors, from rank 0 to `last`, one after the other. */
static void put_total(char* out, int last, int first, int n) {
    for (int i = 0; i < n; ++i) {
        struct number total = given(0, first + i);
        for (int r = 1; r <= last; ++r)
            total = combine(c.kind, c.operation, total, given(r, first + i));
        write_number(c.kind, out + (size_t)i * (size_t)c.kind->extent, total);
    }
}

static int call_reduction(const void* in, void* out, int vector) {
    MPI_Datatype type = c.kind->type;
    MPI_Op op = handle_of(c.operation);
    switch (c.collective) {
    case Reduce: return do_reduce(c.form, in, out, vector, type, op, c.root, c.comm);
    case Allreduce: return do_allreduce(c.form, in, out, vector, type, op, c.comm);
    case Scan: return do_scan(c.form, in, out, vector, type, op, c.comm);
    case Exscan: return do_exscan(c.form, in, out, vector, type, op, c.comm);
    default:
        return c.lists ? lists_reduce_scatter(in, out)
                       : do_reduce_scatter_block(c.form, in, out, c.count, type, op, c.comm);
    }
}

static void reduction(void) {
    int blocks = c.collective == ReduceScatter, vector = blocks ? 0 : c.count, result = c.count,
        first = 0, i;
    int in_place = c.in_place && (c.collective != Reduce || c.rank == c.root), last = c.size - 1,
        gets = 1;
    char *in, *out, *sent, *expected;
    for (i = 0; i < c.size && blocks; ++i) {
        if (i < c.rank) first += receive_counts[i];
        vector += receive_counts[i];
    }
    if (blocks) result = receive_counts[c.rank];
    if (c.collective == Reduce) gets = c.rank == c.root;
    if (c.collective == Scan) last = c.rank;
    if (c.collective == Exscan) last = c.rank - 1, gets = c.rank > 0;
    in = new_buffer(vector, 1), out = new_buffer(vector, 2);
    put_vector(in_place ? out : in, c.rank, 0, vector);
    sent = copy_of(in, vector);
    expected = copy_of(out, vector);
    if (gets) put_total(expected, last, first, result);
    CHECK_OK(call_reduction(in_place ? MPI_IN_PLACE : (const void*)in, out, vector));
    if (gets) allow(expected, out, result);
    /* What else was in these may be used up. */
    if (in_place && blocks)
        memcpy(expected + bytes_of(result) - guard_bytes, out + bytes_of(result) - guard_bytes,
               bytes_of(vector) - bytes_of(result));
    if (c.collective == Exscan && !gets) memcpy(expected, out, bytes_of(vector) - guard_bytes);
    check_buffer(expected, out, vector, "result");
    check_buffer(sent, in, vector, "what was sent");
    if (c.collective == Allreduce && c.kind->family != Pair) {
        memcpy(expected, out, bytes_of(vector) - guard_bytes);
        CHECK_OK(MPI_Bcast(expected, (int)(bytes_of(vector) - guard_bytes), MPI_BYTE, 0, c.comm));
        check_buffer(expected, out, vector, "result, and that of rank 0");
    }
    free(in), free(out), free(sent), free(expected);
}

static void draw(uint64_t seed, const MPI_Comm* comms) {
    static const int counts[] = {0, 1, 2, 3, 5, 8, 17, 64, 255, 1000, 3001};
    uint64_t state = mixed(seed, 17) | 1;
    int fitting = 0, comm, i;
    c.seed = mixed(seed, 18);
    c.collective = (enum collective)(seed % collectives);
    c.form = (enum form)random_below(&state, form_count);
    comm = random_below(&state, comm_kinds);
    c.comm = comms[comm];
    c.root = random_below(&state, 1 << 20);
    c.count = counts[random_below(&state, sizeof counts / sizeof counts[0])];
    c.lists = random_below(&state, 2);
    if (c.collective == Bcast || (c.collective >= Reduce && c.collective != ReduceScatter))
        c.lists = 0;
    c.in_place = random_below(&state, 3) == 0;
    c.rough = random_below(&state, 2);
    /* The kind whose operation tells order, and complex numbers, whose products tell how they are
     * rounded, come more often than others. */
    do c.kind = &kinds[random_below(&state, kinds_count)];
    while (c.collective >= Reduce && c.root % 3 == 0 ? c.kind->family != Matrix
           : c.collective >= Reduce && c.root % 3 == 1
               ? c.kind->family != Complex
               : c.collective >= Reduce && c.kind->family == Moved);
    for (i = 0; i < operations; ++i) fitting += allowed(c.kind, (enum operation)i);
    i = fitting ? random_below(&state, fitting) : 0;
    for (c.operation = Sum; fitting && (!allowed(c.kind, c.operation) || i-- > 0);)
        c.operation = (enum operation)(c.operation + 1);
    if (!c.kind->exponent || c.operation > Prod || c.kind->family == Pair) c.rough = 0;
    MPI_Comm_rank(c.comm, &c.rank);
    MPI_Comm_size(c.comm, &c.size);
    c.root %= c.size; /* halves of the world have different sizes */
    context("seed %llu: %s%s%s, %s, %s%s%s, count %d, root %d, %d ranks (%s)",
            (unsigned long long)seed, c.lists ? "irregular " : "", collective_names[c.collective],
            c.in_place ? " in place" : "", form_names[c.form], c.kind->name,
            c.collective >= Reduce ? " " : "",
            c.collective >= Reduce ? operation_names[c.operation] : "", c.count, c.root, c.size,
            comm_kind_names[comm]);
    draw_lengths();
    for (i = 0; i < c.size; ++i) {
        int to_all = c.collective != Alltoall;
        send_counts[i] = to_all ? lengths[0][i] : lengths[c.rank][i];
        receive_counts[i] = to_all ? lengths[0][i] : lengths[i][c.rank];
    }
}

int main(int argc, char** argv) {
    MPI_Comm comms[comm_kinds];
    uint64_t first = 1, seeds = 600, seed;
    start(&argc, &argv);
    if (check_size > ranks_max) return skip("made for at most 16 ranks");
    if (argc > 1) first = strtoull(argv[1], NULL, 0);
    if (argc > 2) seeds = strtoull(argv[2], NULL, 0);
    make_kinds();
    for (int i = 0; i < comm_kinds; ++i) comms[i] = make_comm(i);
    for (seed = first; seed < first + seeds; ++seed) {
        draw(seed, comms);
        switch (c.collective) {
        case Bcast: bcast(); break;
        case Gather:
        case Allgather: gather(); break;
        case Scatter: scatter(); break;
        case Alltoall: alltoall(); break;
        default: reduction(); break;
        }
    }
    for (int i = 0; i < comm_kinds; ++i) CHECK_OK(MPI_Comm_free(&comms[i]));
    free_kinds();
    return finish();
}
