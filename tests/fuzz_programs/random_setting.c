/* tests/fuzz_programs/random_setting.c: what a random program stands on (random_program.h). */
#include "random_program.h"

uint64_t seed, checksum;
int world_rank, world_size, step;

/* ---- random numbers: splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */

static uint64_t state;
static uint64_t next(void) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
int below(int bound) { return (int)(next() % (uint64_t)bound); }
void draw_from(uint64_t number) {
    state = seed * UINT64_C(0xd1342543de82ef95) + number;
    next();
}

/* ---- datatypes */

struct type types[types_count];

void make_type(struct type* t, int kind) {
    MPI_Datatype inner;
    MPI_Aint lb;
    int lengths[4], places[4], i, n = 1 + below(4), at = 0;
    t->ints = 0;
    for (i = 0; i < n; ++i) {
        lengths[i] = 1 + below(3);
        places[i] = at + below(3);
        at = places[i] + lengths[i];
        t->ints += lengths[i];
    }
    switch (kind) {
    case 0: t->ints = 1, MPI_Type_dup(MPI_INT, &t->handle); break;
    case 1: t->ints = n, MPI_Type_contiguous(n, MPI_INT, &t->handle); break;
    case 2: t->ints = 2 * n, MPI_Type_vector(n, 2, 3, MPI_INT, &t->handle); break;
    case 3: t->ints = n, MPI_Type_vector(n, 1, -2, MPI_INT, &t->handle); break;
    case 4: MPI_Type_indexed(n, lengths, places, MPI_INT, &t->handle); break;
    case 5:
        MPI_Type_indexed(n, lengths, places, MPI_INT, &inner);
        MPI_Type_create_resized(inner, -8, at * 4 + 20, &t->handle);
        MPI_Type_free(&inner);
        break;
    case 6: {
        MPI_Datatype parts[4];
        MPI_Aint bytes[4];
        for (i = 0; i < n; ++i) parts[i] = MPI_INT, bytes[i] = (places[n - 1 - i] - 7) * 4;
        for (i = 0; i < n / 2; ++i) {
            int other = lengths[i];
            lengths[i] = lengths[n - 1 - i];
            lengths[n - 1 - i] = other;
        }
        MPI_Type_create_struct(n, lengths, bytes, parts, &t->handle);
        break;
    }
    case 7: {
        int sizes[2] = {4, 5}, part[2] = {2, 3}, from[2] = {below(3), below(3)};
        t->ints = 6;
        MPI_Type_create_subarray(2, sizes, part, from, below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT,
                                 &t->handle);
        if (from[0] + part[0] > 4) abort();
        break;
    }
    default: { /* what one of four processes has of a distributed matrix */
        int sizes[2] = {4, 7}, grid[2] = {2, 2}, bytes;
        int kinds[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
        int blocks[2] = {MPI_DISTRIBUTE_DFLT_DARG, 1 + below(2)};
        MPI_Type_create_darray(4, below(4), 2, sizes, kinds, blocks, grid,
                               below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT, &t->handle);
        MPI_Type_size(t->handle, &bytes);
        t->ints = bytes / 4;
    }
    }
    MPI_Type_commit(&t->handle);
    MPI_Type_get_extent(t->handle, &lb, &t->extent);
    MPI_Type_get_true_extent(t->handle, &t->low, &t->length);
}

/* ---- buffers, and what is in flight */

struct buffer make_buffer(const struct type* t, int count, uint32_t salt) {
    struct buffer out = {NULL, NULL, 0};
    MPI_Aint last = count > 0 ? (count - 1) * t->extent : 0, low = t->low < 0 ? t->low : 0;
    MPI_Aint high = t->low + t->length + (last > 0 ? last : 0);
    size_t i;
    /* A type may end before its origin; reductions take the buffer as so many extents of plain
     * integers. */
    if (high < count * t->extent) high = count * t->extent;
    out.bytes = (size_t)(high - low) + 16;
    out.memory = malloc(out.bytes);
    out.base = out.memory - low;
    for (i = 0; i < out.bytes; ++i)
        out.memory[i] = (char)((i * 2654435761u + salt * 40503u) >> 11);
    return out;
}
void add_buffer(const struct buffer* b, int number) {
    uint64_t hash = UINT64_C(14695981039346656037) + (uint64_t)number * 1099511628211u;
    size_t i;
    for (i = 0; i < b->bytes; ++i) hash = (hash ^ (unsigned char)b->memory[i]) * UINT64_C(1099511628211);
    checksum += hash;
    if (getenv("FUZZ_TELL"))
        fprintf(stderr, "rank %d step %d: %016llx\n", world_rank, number, (unsigned long long)hash);
}

struct flight flights[flight_max];
int flying;

static void land(int slot) {
    struct flight* f = &flights[slot];
    if (f->persistent) MPI_Request_free(&f->request);
    if (f->counts) add_buffer(&f->in, f->step);
    free(f->in.memory);
    free(f->out.memory);
    free(f->numbers);
    if (f->comm != MPI_COMM_NULL) MPI_Comm_free(&f->comm);
    *f = flights[--flying];
}
void land_all(void) {
    MPI_Request requests[flight_max];
    int i, how = step % 3;
    for (i = 0; i < flying; ++i) requests[i] = flights[i].request;
    if (how == 0) MPI_Waitall(flying, requests, MPI_STATUSES_IGNORE);
    for (i = 0; i < flying && how == 1; ++i) {
        int index;
        MPI_Waitany(flying, requests, &index, MPI_STATUS_IGNORE);
    }
    for (i = 0; i < flying && how == 2; ++i) {
        int flag = 0;
        while (!flag) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    }
    /* Of persistent ones the handle stays; others are MPI_REQUEST_NULL now. */
    for (i = 0; i < flying; ++i) flights[i].request = requests[i];
    while (flying) land(0);
}
void fly(MPI_Request request, struct buffer in, struct buffer out, int counts, int persistent,
                void* numbers) {
    struct flight f = {request, in, out, step, counts, persistent, numbers, MPI_COMM_NULL};
    flights[flying++] = f;
}

/* ---- communicators */

struct group groups[comms_count];

#if FUZZ_VERSION >= 4
static MPI_Session session = MPI_SESSION_NULL;

/* The same processes as MPI_COMM_WORLD's, without it. */
static void make_by_session(MPI_Comm* comm) {
    MPI_Group all;
    char tag[32];
    snprintf(tag, sizeof tag, "seed %llu", (unsigned long long)seed);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    MPI_Comm_create_from_group(all, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, comm);
    MPI_Group_free(&all);
}
#endif

void free_groups(void) {
    int i;
    for (i = 0; i < comms_count; ++i) MPI_Comm_free(&groups[i].comm);
#if FUZZ_VERSION >= 4
    if (session != MPI_SESSION_NULL) MPI_Session_finalize(&session);
#endif
}

void make_groups(void) {
    MPI_Group all, backwards;
    int *order = malloc((size_t)world_size * sizeof(int)), i;
    MPI_Comm half;
#if FUZZ_VERSION >= 4
    if (below(2)) make_by_session(&groups[0].comm);
    else
#endif
        MPI_Comm_dup(MPI_COMM_WORLD, &groups[0].comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &half);
    groups[1].comm = half;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (i = 0; i < world_size; ++i) order[i] = world_size - 1 - i;
    MPI_Group_incl(all, world_size, order, &backwards);
    MPI_Comm_create(MPI_COMM_WORLD, backwards, &groups[2].comm);
    if (world_size > 1) {
        /* The leader of a half is its last rank in the world. */
        int other = world_rank % 2 == 0 ? (world_size / 2) * 2 - 1 : ((world_size + 1) / 2) * 2 - 2;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 5, &groups[3].comm);
        MPI_Intercomm_merge(groups[3].comm, world_rank % 2, &groups[4].comm);
    } else {
        MPI_Comm_dup(MPI_COMM_SELF, &groups[3].comm);
        MPI_Comm_dup(MPI_COMM_SELF, &groups[4].comm);
    }
    for (i = 0; i < comms_count; ++i) {
        MPI_Comm_rank(groups[i].comm, &groups[i].rank);
        MPI_Comm_size(groups[i].comm, &groups[i].size);
    }
    groups[3].low = world_rank % 2 == 0;
    if (world_size > 1) MPI_Comm_remote_size(groups[3].comm, &groups[3].remote);
    MPI_Group_free(&all);
    MPI_Group_free(&backwards);
    free(order);
}

int draw_count(const struct type* t, int parts) {
    static const int edges[] = {0,    4,    16,    64,    128,   256,    1024,   4096,
                                8192, 16384, 32768, 65536, 131072, 262144, 1 << 20};
    int bytes = edges[below(15)] + 4 * (below(3) - 1);
    int count = bytes / (4 * t->ints) / parts;
    return count < 0 ? 0 : count;
}
