/* tests/fuzz_programs/random_windows.c: one-sided access of a random program: windows of three
 * flavors, in seven kinds of epochs (random_program.h).
 */
#include "random_program.h"

/* A window of each rank: a part for each other one, a row that all add to, and a cell for each
 * other one. */
struct places {
    MPI_Win win;
    MPI_Aint* bases; /* of a dynamic window: addresses by rank; else NULL */
    int part, size, rank;
    const struct type* type; /* of what is written and read: as much as fits into a part */
    int count;
};
static MPI_Aint place(const struct places* w, int target, MPI_Aint ints) {
    return w->bases ? w->bases[target] + 4 * ints : ints;
}
static MPI_Aint part_of(const struct places* w, int target) {
    return place(w, target, (MPI_Aint)w->rank * w->part + (w->type->low < 0 ? -w->type->low / 4 : 0));
}
static MPI_Aint row_of(const struct places* w, int target) {
    return place(w, target, (MPI_Aint)w->size * w->part);
}
static MPI_Aint cell_of(const struct places* w, int target) {
    return place(w, target, (MPI_Aint)(w->size + 1) * w->part + w->rank);
}
static void put(const struct places* w, const struct buffer* b, int to) {
    MPI_Put(b->base, w->count * w->type->ints, MPI_INT, to, part_of(w, to), w->count, w->type->handle, w->win);
}
static void get(const struct places* w, const struct buffer* b, int to) {
    MPI_Get(b->base, w->count, w->type->handle, to, part_of(w, to), w->count, w->type->handle, w->win);
}
static void add(const struct places* w, const struct buffer* b, int to, MPI_Op op) {
    MPI_Accumulate(b->base, w->part, MPI_INT, to, row_of(w, to), w->part, MPI_INT, op, w->win);
}

/* By requests, each waited for before what follows it needs it. */
static void by_requests(const struct places* w, const struct buffer* out, const struct buffer* got, int to,
                        MPI_Op op) {
    MPI_Request requests[2];
    int ints = w->count * w->type->ints;
    MPI_Win_lock_all(0, w->win);
    MPI_Rput(out->base, ints, MPI_INT, to, part_of(w, to), w->count, w->type->handle, w->win, &requests[0]);
    MPI_Raccumulate(out->base, w->part, MPI_INT, to, row_of(w, to), w->part, MPI_INT, op, w->win, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush(to, w->win);
    MPI_Rget(got->base, w->count, w->type->handle, to, part_of(w, to), w->count, w->type->handle, w->win,
             &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    add_buffer(got, step);
    MPI_Rget_accumulate(out->base, ints, MPI_INT, got->base, w->count, w->type->handle, to, part_of(w, to),
                        w->count, w->type->handle, MPI_SUM, w->win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(w->win);
}

/* On the own cell of one target, so that the order is this rank's own. */
static void by_atomics(const struct places* w, int to) {
    int add_this[4], seen[4], swapped = 5, i;
    uint64_t hash = (uint64_t)step;
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w->win);
    for (i = 0; i < 4; ++i) {
        add_this[i] = step + i;
        MPI_Fetch_and_op(&add_this[i], &seen[i], MPI_INT, to, cell_of(w, to), i == 2 ? MPI_REPLACE : MPI_SUM, w->win);
    }
    MPI_Win_flush_local(to, w->win);
    MPI_Compare_and_swap(&seen[1], &add_this[3], &swapped, MPI_INT, to, cell_of(w, to), w->win);
    MPI_Win_unlock(to, w->win);
    /* Added, since what is in flight may be added before or after it. */
    for (i = 0; i < 4; ++i) hash = hash * 31 + (uint32_t)seen[i];
    checksum += (hash * 31 + (uint32_t)swapped) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Every member exposes to some and accesses some: groups of more than one, and MPI_Win_test. */
static void by_groups(const struct places* w, const struct group* g, const struct buffer* out, int shift, int polls) {
    MPI_Group all, targets, origins;
    int to[2], from[2], few, i, p = g->size;
    to[0] = (g->rank + shift) % p, to[1] = (g->rank + shift + 1) % p;
    from[0] = (g->rank + p - shift) % p, from[1] = (g->rank + 2 * p - shift - 1) % p;
    few = p > 1 ? 2 : 1;
    MPI_Comm_group(g->comm, &all);
    MPI_Group_incl(all, few, to, &targets);
    MPI_Group_incl(all, few, from, &origins);
    MPI_Win_post(origins, 0, w->win);
    MPI_Win_start(targets, 0, w->win);
    for (i = 0; i < few; ++i) {
        put(w, out, to[i]);
        add(w, out, to[i], MPI_SUM);
    }
    MPI_Win_complete(w->win);
    if (polls) {
        int flag = 0;
        while (!flag) MPI_Win_test(w->win, &flag);
    } else {
        MPI_Win_wait(w->win);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
}

void one_sided(void) {
    const struct group* g = &groups[below(3)];
    int p = g->size, part = 1 + draw_count(&types[0], p) % 20000, epoch = below(7), flavor = below(3);
    int shift = below(p), to = (g->rank + shift) % p, polls = below(2), i, room;
    MPI_Op ops[3] = {MPI_SUM, MPI_MAX, MPI_BXOR}, op = ops[below(3)];
    struct type ints = {MPI_INT, 1, 0, 4, 4};
    struct places w = {MPI_WIN_NULL, NULL, part, p, g->rank, &types[below(types_count)], 0};
    struct buffer out, got, window = {NULL, NULL, 0};
    MPI_Aint bytes = ((MPI_Aint)(p + 1) * part + p) * 4;
    int* memory = NULL;
    /* What stands before the first element's data belongs to the part too: two ranks' parts that
     * met would make results depend on who comes first. */
    room = 4 * part - (w.type->low > 0 ? (int)w.type->low : 0);
    w.count = room < w.type->length ? 0 : (int)((room - w.type->length) / w.type->extent);
    if (w.count < 0) w.count = 0;
    out = make_buffer(&ints, part + w.count * w.type->ints, (uint32_t)(step * 1000 + world_rank));
    got = make_buffer(w.type, w.count, 77);
    if (flavor != 1) memory = malloc((size_t)bytes);
    if (flavor == 0) MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, g->comm, &w.win);
    else if (flavor == 1) MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, g->comm, &memory, &w.win);
    else {
        MPI_Aint mine;
        MPI_Win_create_dynamic(MPI_INFO_NULL, g->comm, &w.win);
        MPI_Win_attach(w.win, memory, bytes);
        MPI_Get_address(memory, &mine);
        w.bases = malloc((size_t)p * sizeof(MPI_Aint));
        MPI_Allgather(&mine, 1, MPI_AINT, w.bases, 1, MPI_AINT, g->comm);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, g->rank, 0, w.win);
    for (i = 0; i < bytes / 4; ++i) memory[i] = i * 7 + g->rank;
    MPI_Win_unlock(g->rank, w.win);
    MPI_Barrier(g->comm);
    switch (epoch) {
    case 0:
        MPI_Win_fence(polls ? MPI_MODE_NOPRECEDE : 0, w.win);
        put(&w, &out, to);
        add(&w, &out, to, op);
        MPI_Win_fence(0, w.win);
        get(&w, &got, to);
        MPI_Win_fence(polls ? MPI_MODE_NOSUCCEED : 0, w.win);
        break;
    case 1:
        for (i = 0; i < p; ++i) {
            MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, i, 0, w.win);
            put(&w, &out, i);
            add(&w, &out, i, op);
            MPI_Win_unlock(i, w.win);
        }
        break;
    case 2:
        MPI_Win_lock_all(0, w.win);
        put(&w, &out, to);
        if (polls) MPI_Win_flush_all(w.win);
        else MPI_Win_flush(to, w.win);
        get(&w, &got, to);
        add(&w, &out, to, op);
        MPI_Win_unlock_all(w.win);
        break;
    case 3: by_groups(&w, g, &out, shift, polls); break;
    case 4: by_requests(&w, &out, &got, to, op); break;
    case 5: by_atomics(&w, to); break;
    default:
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w.win);
        MPI_Get_accumulate(out.base, w.count * w.type->ints, MPI_INT, got.base, w.count, w.type->handle, to,
                           part_of(&w, to), w.count, w.type->handle, polls ? MPI_NO_OP : op, w.win);
        MPI_Win_unlock(to, w.win);
    }
    MPI_Barrier(g->comm);
    MPI_Win_lock(MPI_LOCK_SHARED, g->rank, 0, w.win);
    window.memory = (char*)memory;
    window.bytes = (size_t)bytes;
    add_buffer(&window, step);
    add_buffer(&got, step);
    MPI_Win_unlock(g->rank, w.win);
    if (w.bases) MPI_Win_detach(w.win, memory);
    MPI_Win_free(&w.win);
    if (flavor != 1) free(memory);
    free(w.bases);
    free(out.memory);
    free(got.memory);
}
