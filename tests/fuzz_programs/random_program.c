/* tests/fuzz_programs/random_program.c: one correct MPI program for each seed.
 *
 *     random_program FIRST-SEED SEEDS STEPS [SELECTION]
 *
 * Every step is drawn from (SEED, its number), the same on all ranks, so steps can be left out
 * without changing the others: SELECTION lists those to run ("0-3,7"). A step moves data over one
 * of several communicators; what a rank receives, with the gaps between it, goes into its checksum.
 * Operations may stay in flight over the next steps. Data are integers and tags are unique, so the
 * checksum that rank 0 prints is the same for every transport, algorithm and library. run.py
 * compares and shrinks.
 */
#include "random_program.h"

static MPI_Datatype other_type(const struct type* t, int plain) { return plain ? MPI_INT : t->handle; }

/* Everybody sends to one and receives from one, in every mode. */
static void exchange(void) {
    const struct group* g = &groups[below(comms_count)];
    const struct type* t = &types[below(types_count)];
    int plain = below(2), count = draw_count(t, 1), mode = below(7), take = below(6), shift = below(g->size);
    int any = below(2), stays = below(2), tag = step, ready = mode == 4;
    int to = (g->rank + shift) % g->size, from = (g->rank + g->size - shift) % g->size;
    int in_count = plain ? count * t->ints : count;
    struct buffer out, in;
    MPI_Request sent, got;
    MPI_Status status;
    void* room = NULL;
    if (g->remote) {
        if (g->remote != g->size) return;
        to = (g->rank + shift) % g->remote; /* of the other group, whose shift is the same */
        from = (g->rank + g->remote - shift) % g->remote;
    }
    out = make_buffer(t, count, (uint32_t)(step * 1000 + world_rank));
    in = make_buffer(plain ? &types[0] : t, in_count, 77);
    if (any) from = MPI_ANY_SOURCE;
    if (ready) take = 1;
#if FUZZ_VERSION >= 4
    if (take == 1)
        MPI_Irecv_c(in.base, (MPI_Count)in_count, other_type(t, plain), from, tag, g->comm, &got);
    else
#endif
    if (take < 2)
        MPI_Irecv(in.base, in_count, other_type(t, plain), from, tag, g->comm, &got);
    if (ready) MPI_Barrier(g->comm); /* the receives are posted */
    switch (mode) {
    case 0: MPI_Isend(out.base, count, t->handle, to, tag, g->comm, &sent); break;
    case 1: MPI_Issend(out.base, count, t->handle, to, tag, g->comm, &sent); break;
    case 2: {
        int size;
        MPI_Pack_size(count, t->handle, g->comm, &size);
        room = malloc((size_t)(size + MPI_BSEND_OVERHEAD));
        MPI_Buffer_attach(room, size + MPI_BSEND_OVERHEAD);
        MPI_Bsend(out.base, count, t->handle, to, tag, g->comm);
        sent = MPI_REQUEST_NULL;
        break;
    }
    case 3:
        MPI_Send_init(out.base, count, t->handle, to, tag, g->comm, &sent);
        MPI_Start(&sent);
        break;
    case 4: MPI_Irsend(out.base, count, t->handle, to, tag, g->comm, &sent); break;
    case 5: {
        int size, at = 0;
        MPI_Pack_size(count, t->handle, g->comm, &size);
        room = malloc((size_t)size + 1);
        MPI_Pack(out.base, count, t->handle, room, size, &at, g->comm);
        MPI_Isend(room, at, MPI_PACKED, to, tag, g->comm, &sent);
        break;
    }
#if FUZZ_VERSION >= 4
    case 6: MPI_Isend_c(out.base, (MPI_Count)count, t->handle, to, tag, g->comm, &sent); break;
#endif
    default: MPI_Isend(out.base, count, t->handle, to, tag, g->comm, &sent);
    }
    if (take == 2) MPI_Recv(in.base, in_count, other_type(t, plain), from, tag, g->comm, &status);
    if (take == 3) {
        MPI_Probe(from, tag, g->comm, &status);
        MPI_Recv(in.base, in_count, other_type(t, plain), status.MPI_SOURCE, tag, g->comm, &status);
    }
    if (take >= 4) {
        MPI_Message message;
        MPI_Mprobe(from, tag, g->comm, &message, &status);
        if (take == 4) MPI_Mrecv(in.base, in_count, other_type(t, plain), &message, &status);
        else MPI_Imrecv(in.base, in_count, other_type(t, plain), &message, &got);
    }
    if ((take < 2 || take == 5) && stays && !room && mode != 3) {
        struct buffer none = {NULL, NULL, 0};
        fly(sent, none, out, 0, 0, NULL);
        fly(got, in, none, 1, 0, NULL);
        return;
    }
    if (take < 2 || take == 5) MPI_Wait(&got, &status);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    if (mode == 3) MPI_Request_free(&sent);
    if (mode == 2) {
        int size;
        void* back;
        MPI_Buffer_detach(&back, &size);
    }
    MPI_Get_elements(&status, other_type(t, plain), &in_count);
    checksum += (uint64_t)in_count * 31 + (uint64_t)status.MPI_TAG;
    add_buffer(&in, step);
    free(room);
    free(in.memory);
    free(out.memory);
}

#if FUZZ_VERSION >= 4
/* In parts, made ready in an order of the sender's own; the receiver's parts may be others. Twice,
 * since the requests are persistent. */
static void in_parts(void) {
    const struct group* g = &groups[below(3)];
    const struct type* t = &types[below(types_count)];
    int parts = 1 + below(4), in_parts = 1 + below(4), each = draw_count(t, parts * in_parts);
    int shift = below(g->size), stride = parts == 4 ? 3 : 1, early = below(2), turn, i;
    int to = (g->rank + shift) % g->size, from = (g->rank + g->size - shift) % g->size;
    struct buffer out = make_buffer(t, parts * in_parts * each, (uint32_t)(step * 1000 + world_rank));
    struct buffer in = make_buffer(t, parts * in_parts * each, 77);
    MPI_Request requests[2];
    MPI_Psend_init(out.base, parts, in_parts * each, t->handle, to, step, g->comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in.base, in_parts, parts * each, t->handle, from, step, g->comm, MPI_INFO_NULL, &requests[1]);
    for (turn = 0; turn < 2; ++turn) {
        MPI_Startall(2, requests);
        for (i = 0; i < parts; ++i) MPI_Pready((i * stride + turn) % parts, requests[0]);
        for (i = 0; early && i < in_parts; ++i) {
            int flag = 0;
            while (!flag) MPI_Parrived(requests[1], i, &flag);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        add_buffer(&in, step);
        for (i = 0; i < (int)out.bytes; ++i) out.memory[i] = (char)(out.memory[i] * 3 + 1);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(in.memory);
    free(out.memory);
}
#endif

/* Composition of maps x -> a x + b, modulo 2^32: associative, and the order matters. */
static void compose(void* in, void* inout, int* length, MPI_Datatype* type) {
    uint32_t *left = in, *right = inout;
    int i;
    (void)type;
    for (i = 0; i < *length; ++i, left += 2, right += 2) {
        uint32_t a = right[0] * left[0], b = right[0] * left[1] + right[1];
        right[0] = a;
        right[1] = b;
    }
}
static MPI_Op composition;
static MPI_Datatype maps;

static int start_when_persistent(MPI_Request* request, int persistent) {
    if (persistent) MPI_Start(request);
    return persistent;
}

#if FUZZ_VERSION >= 4
#define COLLECTIVE(name, Iname, init_name, ...)                                                              \
    do {                                                                                                     \
        if (form == 0) MPI_##name(__VA_ARGS__, g->comm);                                                     \
        else if (form == 1) MPI_##Iname(__VA_ARGS__, g->comm, &request);                                     \
        else MPI_##init_name(__VA_ARGS__, g->comm, MPI_INFO_NULL, &request);                                 \
    } while (0)
#else
#define COLLECTIVE(name, Iname, init_name, ...)                                                              \
    do {                                                                                                     \
        if (form == 0) MPI_##name(__VA_ARGS__, g->comm);                                                     \
        else MPI_##Iname(__VA_ARGS__, g->comm, &request);                                                    \
    } while (0)
#endif

static void finish_collective(MPI_Request request, int form, struct buffer in, struct buffer out, int counts,
                              void* numbers) {
    int persistent = 0;
#if FUZZ_VERSION >= 4
    if (form == 2) persistent = start_when_persistent(&request, 1);
#else
    (void)start_when_persistent;
#endif
    if (form == 0) request = MPI_REQUEST_NULL;
    fly(request, in, out, counts, persistent, numbers);
    if (form == 0 && flying == 1) land_all();
}

static void reduction(void) {
    int which = below(3);
    const struct group* g = &groups[which == 2 ? 4 : which];
    int kind = below(6), form = below(3), ordered = below(2), in_place = below(2), i, p = g->size;
    int count = draw_count(&types[1], 1) % 65536, root = below(p), counts = 1, total = count;
    static const int op_of[] = {0, 1, 2};
    MPI_Op plain_ops[3] = {MPI_SUM, MPI_MAX, MPI_BXOR};
    MPI_Op op = ordered ? composition : plain_ops[op_of[below(3)]];
    MPI_Datatype type = ordered ? maps : MPI_UNSIGNED;
    struct type shape = {type, ordered ? 2 : 1, 0, ordered ? 8 : 4, ordered ? 8 : 4};
    struct buffer out, in;
    MPI_Request request = MPI_REQUEST_NULL;
    int* numbers = malloc((size_t)p * sizeof(int));
    void* from;
    for (i = 0; i < p; ++i) numbers[i] = below(1 + count);
    if (kind == 2)
        for (total = 0, i = 0; i < p; ++i) total += numbers[i];
    if (kind == 3) total = count * p;
    out = make_buffer(&shape, total, (uint32_t)(step * 1000 + world_rank));
    in = make_buffer(&shape, total, 77);
    from = out.base;
    if (in_place && kind != 1) {
        memcpy(in.memory, out.memory, out.bytes);
        from = MPI_IN_PLACE;
    }
    switch (kind) {
    case 0: COLLECTIVE(Allreduce, Iallreduce, Allreduce_init, from, in.base, count, type, op); break;
    case 1:
        counts = g->rank == root;
        COLLECTIVE(Reduce, Ireduce, Reduce_init, from, in.base, count, type, op, root);
        break;
    case 2:
        /* In place, what follows a rank's own part of the result is undefined. */
        if (in_place) memcpy(out.memory, in.memory, in.bytes), from = out.base;
        COLLECTIVE(Reduce_scatter, Ireduce_scatter, Reduce_scatter_init, from, in.base, numbers, type, op);
        break;
    case 3:
        if (in_place) from = out.base;
        COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, Reduce_scatter_block_init, from, in.base,
                   count, type, op);
        break;
    case 4: COLLECTIVE(Scan, Iscan, Scan_init, from, in.base, count, type, op); break;
    default:
        counts = g->rank > 0;
        COLLECTIVE(Exscan, Iexscan, Exscan_init, from, in.base, count, type, op);
    }
    finish_collective(request, form, in, out, counts, numbers);
}

static void moving(void) {
    static const int usable[] = {0, 1, 2, 4, 3};
    const struct group* g = &groups[usable[below(5)]];
    const struct type* t = &types[below(types_count)];
    int kind = below(8), form = below(3), plain = below(2), p = g->remote ? g->remote : g->size, i;
    int most = g->remote + g->size, count = draw_count(t, most), root = below(g->size), counts = 1;
    int each = plain ? t->ints : 1, base = 0, in_base = 0, total;
    int* n = malloc((size_t)(p * 5 + 1) * sizeof(int));
    int *sends = n, *from = n + p, *takes = n + 2 * p, *at = n + 3 * p;
    MPI_Datatype type = t->handle, in_type = other_type(t, plain);
    struct buffer out, in;
    MPI_Request request = MPI_REQUEST_NULL;
    if (count > 20000) count = 20000;
    if (g->remote) { /* roots and counts of two groups: the symmetric operations only */
        kind = kind % 2 ? 3 : kind < 4 ? 5 : 7;
    }
    /* How much rank a gives to rank b: the same rule at both. */
    for (i = 0; i < p; ++i) {
        sends[i] = count > 0 ? (g->rank * 3 + i * 5 + step) % (count + 1) : 0;
        takes[i] = (count > 0 ? (i * 3 + g->rank * 5 + step) % (count + 1) : 0) * each;
        from[i] = base, at[i] = in_base;
        base += sends[i] + 1, in_base += takes[i] + each;
    }
    if (kind == 4) /* allgatherv: of each rank its own number */
        for (i = 0, in_base = 0; i < p; ++i) {
            takes[i] = (i * 3 + step) % (count + 1) * each;
            at[i] = in_base;
            in_base += takes[i] + each;
        }
    total = count * p > base ? count * p : base;
    out = make_buffer(t, total, (uint32_t)(step * 1000 + world_rank));
    in = make_buffer(plain ? &types[0] : t, (total > in_base ? total : in_base) * each + in_base, 77);
    switch (kind) {
    case 0:
        if (g->rank == root) memcpy(in.memory, out.memory, in.bytes < out.bytes ? in.bytes : out.bytes);
        COLLECTIVE(Bcast, Ibcast, Bcast_init, in.base, count * each, in_type, root);
        break;
    case 1:
        counts = g->rank == root;
        COLLECTIVE(Gather, Igather, Gather_init, out.base, count, type, in.base, count * each, in_type, root);
        break;
    case 2:
        COLLECTIVE(Scatter, Iscatter, Scatter_init, out.base, count, type, in.base, count * each, in_type,
                   root);
        break;
    case 3:
        COLLECTIVE(Allgather, Iallgather, Allgather_init, out.base, count, type, in.base, count * each,
                   in_type);
        break;
    case 4:
        COLLECTIVE(Allgatherv, Iallgatherv, Allgatherv_init, out.base,
                   (g->rank * 3 + step) % (count + 1), type, in.base, takes, at, in_type);
        break;
    case 5:
        COLLECTIVE(Alltoall, Ialltoall, Alltoall_init, out.base, count, type, in.base, count * each, in_type);
        break;
    case 6: /* as if of one rank to all: gatherv of alltoall's numbers to the root */
        counts = g->rank == root;
        for (i = 0, in_base = 0; i < p; ++i) {
            takes[i] = (i * 3 + root * 5 + step) % (count + 1) * each;
            at[i] = in_base;
            in_base += takes[i] + each;
        }
        COLLECTIVE(Gatherv, Igatherv, Gatherv_init, out.base, (g->rank * 3 + root * 5 + step) % (count + 1),
                   type, in.base, takes, at, in_type, root);
        break;
    default:
        COLLECTIVE(Alltoallv, Ialltoallv, Alltoallv_init, out.base, sends, from, type, in.base, takes, at,
                   in_type);
    }
    finish_collective(request, form, in, out, counts, n);
}

/* Neighbours in a grid, or in a graph that both ends of each edge know. */
struct neighborhood {
    MPI_Comm comm;
    int into, out;      /* edges */
    int *from, *to;     /* ranks, in the order of the edges; MPI_PROC_NULL at a grid's border */
};
static struct neighborhood make_neighborhood(const struct group* g) {
    struct neighborhood n = {MPI_COMM_NULL, 0, 0, NULL, NULL};
    int periods[2] = {below(2), below(2)}, grid = below(2), dimensions[2] = {0, 0}, i, p = g->size;
    n.from = malloc((size_t)(p + 4) * sizeof(int));
    n.to = malloc((size_t)(p + 4) * sizeof(int));
    if (grid) {
        MPI_Dims_create(p, 2, dimensions);
        MPI_Cart_create(g->comm, 2, dimensions, periods, 0, &n.comm);
        for (i = 0; i < 2; ++i) MPI_Cart_shift(n.comm, i, 1, &n.from[2 * i], &n.from[2 * i + 1]);
        for (i = 0; i < 4; ++i) n.to[i] = n.from[i];
        n.into = n.out = 4;
        return n;
    }
    for (i = 0; i < p; ++i) {
        if ((g->rank * 7 + i * 3 + step) % 3 == 0) n.to[n.out++] = i;
        if (((p - 1 - i) * 7 + g->rank * 3 + step) % 3 == 0) n.from[n.into++] = p - 1 - i;
    }
    MPI_Dist_graph_create_adjacent(g->comm, n.into, n.from, MPI_UNWEIGHTED, n.out, n.to, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &n.comm);
    return n;
}

enum { edges_max = 12 };
struct edges { /* lives as long as the operation */
    int sends[edges_max], at[edges_max], takes[edges_max], in_at[edges_max];
    MPI_Aint bytes[edges_max], in_bytes[edges_max];
    MPI_Datatype types[edges_max];
};

static void neighbors(void) {
    const struct group* parent = &groups[below(3)];
    const struct type* t = &types[below(types_count)];
    int count = draw_count(t, 4) % 4096, kind = below(5), form = below(3), i, base = 0, in_base = 0;
    struct neighborhood n;
    struct edges* e = calloc(1, sizeof *e);
    struct group grid = *parent, *g = &grid;
    struct buffer out, in;
    MPI_Request request = MPI_REQUEST_NULL;
    if (parent->size > edges_max - 4) {
        free(e);
        return;
    }
    n = make_neighborhood(parent);
    g->comm = n.comm;
    /* How much rank a gives to rank b: the same rule at both. */
    for (i = 0; i < n.out; ++i) {
        e->sends[i] = n.to[i] < 0 ? 0 : (g->rank * 3 + n.to[i] * 5 + step) % (count + 1);
        e->at[i] = base, base += e->sends[i] + 1;
    }
    for (i = 0; i < n.into; ++i) {
        int gives = kind == 1 ? n.from[i] * 3 + step : n.from[i] * 3 + g->rank * 5 + step;
        e->takes[i] = n.from[i] < 0 ? 0 : gives % (count + 1);
        e->in_at[i] = in_base, in_base += e->takes[i] + 1;
    }
    for (i = 0; i < edges_max; ++i) {
        e->types[i] = t->handle;
        e->bytes[i] = e->at[i] * t->extent, e->in_bytes[i] = e->in_at[i] * t->extent;
    }
    out = make_buffer(t, (n.out + 1) * (count + 1), (uint32_t)(step * 1000 + world_rank));
    in = make_buffer(t, (n.into + 1) * (count + 1), 77);
    switch (kind) {
    case 0:
        COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, Neighbor_allgather_init, out.base, count,
                   t->handle, in.base, count, t->handle);
        break;
    case 1:
        COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, Neighbor_allgatherv_init, out.base,
                   (g->rank * 3 + step) % (count + 1), t->handle, in.base, e->takes, e->in_at, t->handle);
        break;
    case 2:
        COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, Neighbor_alltoall_init, out.base, count, t->handle,
                   in.base, count, t->handle);
        break;
    case 3:
        COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, Neighbor_alltoallv_init, out.base, e->sends,
                   e->at, t->handle, in.base, e->takes, e->in_at, t->handle);
        break;
    default:
        COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, Neighbor_alltoallw_init, out.base, e->sends,
                   e->bytes, e->types, in.base, e->takes, e->in_bytes, e->types);
    }
    free(n.from);
    free(n.to);
    finish_collective(request, form, in, out, 1, e);
    if (flying) flights[flying - 1].comm = n.comm;
    else MPI_Comm_free(&n.comm);
}

/* Collectives between two groups: from or to a root in one of them, and those of all. */
static void between(void) {
    const struct group* g = &groups[3];
    const struct type* t = &types[below(types_count)];
    int kind = below(9), form = below(3), low_has_root = below(2), drawn = below(world_size), i;
    int lows = (world_size + 1) / 2, holders = low_has_root ? lows : world_size - lows;
    int in_root_group = (g->low != 0) == (low_has_root != 0), count = draw_count(t, world_size) % 8192;
    int root, is_root, p = g->remote, total = 0, counts = 1, *n;
    MPI_Op ops[3] = {MPI_SUM, MPI_MAX, MPI_BXOR}, op = ops[below(3)];
    struct buffer out, in;
    MPI_Request request = MPI_REQUEST_NULL;
    if (!g->remote) return;
#ifdef MPICH_VERSION
    /* In MPICH 5.0.2 other groups get nothing of these from roots that are not 0. */
    if (kind == 0) form = 0;
#endif
    root = drawn % holders;
    is_root = in_root_group && g->rank == root;
    if (in_root_group) root = is_root ? MPI_ROOT : MPI_PROC_NULL;
    n = malloc((size_t)(2 * p) * sizeof(int));
    for (i = 0; i < p; ++i) {
        n[i] = (i * 3 + step) % (count + 1);
        n[p + i] = total, total += n[i] + 1;
    }
    if (total < count * p) total = count * p;
    out = make_buffer(t, total, (uint32_t)(step * 1000 + world_rank));
    in = make_buffer(t, total, 77);
    switch (kind) {
    case 0:
        COLLECTIVE(Bcast, Ibcast, Bcast_init, is_root ? out.base : in.base, count, t->handle, root);
        break;
    case 1:
        COLLECTIVE(Gather, Igather, Gather_init, out.base, count, t->handle, in.base, count, t->handle, root);
        break;
    case 2:
        COLLECTIVE(Scatter, Iscatter, Scatter_init, out.base, count, t->handle, in.base, count, t->handle,
                   root);
        break;
    case 3:
        COLLECTIVE(Gatherv, Igatherv, Gatherv_init, out.base, (g->rank * 3 + step) % (count + 1), t->handle,
                   in.base, n, n + p, t->handle, root);
        break;
    case 4:
        COLLECTIVE(Scatterv, Iscatterv, Scatterv_init, out.base, n, n + p, t->handle, in.base,
                   (g->rank * 3 + step) % (count + 1), t->handle, root);
        break;
    case 5: {
        /* Gaps count as data here. What the root's group has to send is not read. */
        int ints = count > 1 ? (int)((count - 1) * t->extent / 4) : 0;
        COLLECTIVE(Reduce, Ireduce, Reduce_init, in_root_group ? NULL : out.base, in.base, ints,
                   MPI_UNSIGNED, op, root);
        break;
    }
    case 6: COLLECTIVE(Allreduce, Iallreduce, Allreduce_init, out.base, in.base, count, MPI_UNSIGNED, op); break;
    case 7:
        COLLECTIVE(Allgatherv, Iallgatherv, Allgatherv_init, out.base, (g->rank * 3 + step) % (count + 1),
                   t->handle, in.base, n, n + p, t->handle);
        break;
    default:
        if (form == 0) MPI_Barrier(g->comm);
        else form = 1, MPI_Ibarrier(g->comm, &request);
    }
    finish_collective(request, form, in, out, counts, n);
}
/* ---- the program */

static int selected(const char* text, int number) {
    if (!text) return 1;
    while (*text) {
        char* end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (number >= first && number <= last) return 1;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static void run_seed(uint64_t number, int steps, const char* selection) {
    uint64_t* all;
    int i;
    seed = number;
    checksum = 0;
    draw_from(~UINT64_C(0));
    for (i = 0; i < types_count; ++i) make_type(&types[i], i);
    make_groups();
    for (step = 0; step < steps; ++step) {
        int kind;
        if (!selected(selection, step)) continue;
        draw_from((uint64_t)step);
        kind = below(16);
        if (kind == 14 || flying > flight_max - 2) land_all();
        if (kind < 4) exchange();
        else if (kind < 6) reduction();
        else if (kind < 9) moving();
        else if (kind < 11) neighbors();
        else if (kind == 11) between();
        else if (kind < 14) one_sided();
#if FUZZ_VERSION >= 4
        else if (kind == 15) in_parts();
#endif
    }
    land_all();
    all = calloc((size_t)world_size, sizeof *all);
    MPI_Gather(&checksum, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (i = 1; i < world_size; ++i) all[0] = all[0] * 31 + all[i];
    if (world_rank == 0) {
        printf("seed %llu checksum %016llx\n", (unsigned long long)seed, (unsigned long long)all[0]);
        fflush(stdout);
    }
    free(all);
    for (i = 0; i < types_count; ++i) MPI_Type_free(&types[i].handle);
    free_groups();
}

int main(int argc, char** argv) {
    uint64_t first;
    int count, i;
    MPI_Init(&argc, &argv);
    if (argc < 4) {
        fprintf(stderr, "usage: random_program FIRST-SEED SEEDS STEPS [SELECTION]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    first = strtoull(argv[1], NULL, 10);
    count = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &maps);
    MPI_Type_commit(&maps);
    MPI_Op_create(compose, 0, &composition);
    for (i = 0; i < count; ++i) run_seed(first + (uint64_t)i, atoi(argv[3]), argc > 4 ? argv[4] : NULL);
    MPI_Type_free(&maps);
    MPI_Op_free(&composition);
    MPI_Finalize();
    return 0;
}
