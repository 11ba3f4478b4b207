/* Goal: kinds of windows and what hangs on them: shared and dynamic memory, attributes, names,
 * hints, error handlers, pairs with gaps, wrong calls, empty operations. Method: each feature's
 * smallest use with known result.
 */
#include "check.h"

static void shared(void) {
    MPI_Win win;
    MPI_Aint size;
    int *mine, *theirs, unit, peer = (check_rank + 1) % check_size;
    context("shared");
    CHECK_OK(MPI_Win_allocate_shared(10 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                                     &mine, &win));
    CHECK_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    mine[3] = check_rank + 1;
    CHECK_OK(MPI_Win_sync(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_sync(win));
    CHECK_OK(MPI_Win_shared_query(win, peer, &size, &unit, &theirs));
    CHECK_EQ(10 * sizeof(int), size);
    CHECK_EQ(sizeof(int), unit);
    CHECK_EQ(peer + 1, theirs[3]);
    CHECK_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &theirs));
    /* Parts touch each other unless asked otherwise. */
    CHECK_EQ(peer + 1, theirs[10 * peer + 3]);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_free(&win));
}

/* A part without memory keeps its unit of displacements. */
static void shared_part(void) {
    MPI_Win win;
    MPI_Aint size;
    int unit;
    char *mine, *theirs;
    context("shared, without memory at rank 0");
    CHECK_OK(MPI_Win_allocate_shared(8 * check_rank, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    CHECK_OK(MPI_Win_shared_query(win, 0, &size, &unit, &theirs));
    CHECK_EQ(0, size);
    CHECK_EQ(8, unit);
    CHECK_OK(MPI_Win_free(&win));
}

static void dynamic(void) {
    MPI_Win win;
    static int memory[100];
    int value = check_rank + 50, got = -1, peer = (check_rank + 1) % check_size;
    int from = (check_rank + check_size - 1) % check_size;
    MPI_Aint address, theirs[64];
    context("dynamic");
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_attach(win, memory, sizeof memory));
    CHECK_OK(MPI_Get_address(memory + 7, &address));
    CHECK_OK(MPI_Allgather(&address, 1, MPI_AINT, theirs, 1, MPI_AINT, MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(&value, 1, MPI_INT, peer, theirs[peer], 1, MPI_INT, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_EQ(from + 50, memory[7]);
    CHECK_OK(MPI_Get(&got, 1, MPI_INT, peer, theirs[peer], 1, MPI_INT, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_EQ(check_rank + 50, got);
    CHECK_OK(MPI_Win_detach(win, memory));
    CHECK_OK(MPI_Win_free(&win));
}

/* What is out of range is told where the epoch ends, of every kind of epoch. */
static void dynamic_range(void) {
    MPI_Win win;
    MPI_Group world, peers;
    static int memory[10];
    int value = 3, peer = (check_rank + 1) % check_size;
    int from = (check_rank + check_size - 1) % check_size;
    MPI_Aint address, theirs[64];
    if (known_limit("MPICH") || known_limit("Open MPI")) return; /* they do not look */
    context("dynamic, out of range");
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_attach(win, memory, sizeof memory));
    CHECK_OK(MPI_Get_address(memory + 10, &address)); /* just behind */
    CHECK_OK(MPI_Allgather(&address, 1, MPI_AINT, theirs, 1, MPI_AINT, MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_get_group(win, &world));
    if (check_size > 1) {
        CHECK_OK(MPI_Group_incl(world, 1, &from, &peers));
        CHECK_OK(MPI_Win_post(peers, 0, win));
        CHECK_OK(MPI_Group_free(&peers));
        CHECK_OK(MPI_Group_incl(world, 1, &peer, &peers));
        CHECK_OK(MPI_Win_start(peers, 0, win));
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, peer, theirs[peer], 1, MPI_INT, win));
        CHECK_CLASS(MPI_ERR_RMA_RANGE, MPI_Win_complete(win));
        CHECK_OK(MPI_Win_wait(win));
        CHECK_OK(MPI_Group_free(&peers));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, peer, theirs[peer], 1, MPI_INT, win));
        CHECK_CLASS(MPI_ERR_RMA_RANGE, MPI_Win_unlock(peer, win));
        CHECK_OK(MPI_Win_fence(0, win));
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, peer, theirs[peer], 1, MPI_INT, win));
        CHECK_CLASS(MPI_ERR_RMA_RANGE, MPI_Win_fence(0, win));
        CHECK_OK(MPI_Win_fence(0, win)); /* told once */
    }
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Win_detach(win, memory));
    CHECK_OK(MPI_Win_free(&win));
}

/* Zero elements of any type with any predefined operation move nothing and are no mistake. */
static void empty_operations(void) {
    MPI_Win win;
    MPI_Datatype nothing, mixed, parts[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Aint places[2] = {0, 8};
    MPI_Request request;
    int memory[4] = {1, 2, 3, 4}, lengths[2] = {1, 1};
    char some = 7;
    context("empty operations");
    CHECK_OK(MPI_Type_contiguous(0, MPI_BYTE, &nothing));
    CHECK_OK(MPI_Type_commit(&nothing));
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, parts, &mixed));
    CHECK_OK(MPI_Type_commit(&mixed));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, NULL, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
    CHECK_OK(MPI_Accumulate(NULL, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
    CHECK_OK(MPI_Accumulate(&some, 1, nothing, 0, 0, 1, nothing, MPI_MAX, win));
    CHECK_OK(MPI_Accumulate(NULL, 0, mixed, 0, 0, 0, mixed, MPI_SUM, win));
    CHECK_OK(MPI_Put(NULL, 0, MPI_INT, 0, 0, 0, MPI_DOUBLE, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    CHECK_OK(MPI_Rget_accumulate(NULL, 0, MPI_BYTE, NULL, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM,
                                 win, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Win_unlock(0, win));
    CHECK_EQ(1, memory[0]);
    CHECK_EQ(7, some);
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Type_free(&nothing));
    CHECK_OK(MPI_Type_free(&mixed));
}

static int deleted = 0;
static int on_delete(MPI_Win win, int key, void* value, void* extra) {
    (void)win, (void)key, (void)extra;
    deleted += *(int*)value;
    return MPI_SUCCESS;
}

static int handled = 0;
static void on_error(MPI_Win* win, int* code, ...) {
    (void)win, (void)code;
    ++handled;
}

static void attributes(void) {
    MPI_Win win;
    MPI_Errhandler handler, found;
    MPI_Info info, used;
    static int memory[8], value = 5;
    int key, flag = 0, length = 0, *unit, *flavor, *model, *got;
    void* base;
    MPI_Aint* size;
    char name[MPI_MAX_OBJECT_NAME];
    context("attributes");
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "no_locks", "false"));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 4, info, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == memory);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    CHECK(flag && *size == sizeof memory);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag));
    CHECK(flag && *unit == 4);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_CREATE);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
    CHECK(flag && *model == MPI_WIN_UNIFIED);
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL));
    CHECK_OK(MPI_Win_set_attr(win, key, &value));
    CHECK_OK(MPI_Win_get_attr(win, key, &got, &flag));
    CHECK(flag && got == &value);
    CHECK_OK(MPI_Win_set_name(win, "a window"));
    CHECK_OK(MPI_Win_get_name(win, name, &length));
    CHECK_STR("a window", name);
    CHECK_EQ(8, length);
    CHECK_OK(MPI_Win_get_info(win, &used));
    CHECK_OK(MPI_Info_free(&used));
    context("error handlers");
    CHECK_OK(MPI_Win_create_errhandler(on_error, &handler));
    CHECK_OK(MPI_Win_set_errhandler(win, handler));
    CHECK_OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == handler);
    CHECK_OK(MPI_Errhandler_free(&found));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK_EQ(1, handled);
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    CHECK_CLASS(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win));
    CHECK_CLASS2(MPI_ERR_LOCKTYPE, MPI_ERR_ARG, MPI_Win_lock(77, 0, 0, win));
    CHECK_OK(MPI_Win_delete_attr(win, key));
    CHECK_EQ(5, deleted);
    CHECK_OK(MPI_Win_set_attr(win, key, &value));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_EQ(10, deleted);
    CHECK_OK(MPI_Win_free_keyval(&key));
}

/* Pairs have gaps: the bytes between must not be touched, and nothing may be lost. */
static void pairs(void) {
    typedef struct { double value; int index; int gap; } Pair;
    static Pair memory[3], out[3], old[3];
    MPI_Win win;
    int i;
    context("pairs");
    for (i = 0; i < 3; ++i) {
        memory[i].value = -1, memory[i].index = -1, memory[i].gap = 77;
        out[i].value = i * 10 + check_rank, out[i].index = check_rank, out[i].gap = 99;
    }
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(Pair), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Accumulate(out, 3, MPI_DOUBLE_INT, 0, 0, 3, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Get_accumulate(out, 3, MPI_DOUBLE_INT, old, 3, MPI_DOUBLE_INT, 0, 0, 3,
                                MPI_DOUBLE_INT, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (i = 0; i < 3; ++i) {
        CHECK_EQ(77, memory[i].gap);
        CHECK_EQ(0, old[i].gap);
        CHECK_EQ(check_size - 1, old[i].index);
        CHECK(old[i].value == i * 10 + check_size - 1);
    }
    CHECK_OK(MPI_Win_free(&win));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    shared();
    shared_part();
    dynamic();
    dynamic_range();
    attributes();
    empty_operations();
    pairs();
    return finish();
}
