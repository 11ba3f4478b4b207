/* Goal: MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap give what
 * they should in own and others' memory, one element and many, also where the buffers lie in the
 * window itself; what is wrong is refused each time, and changes nothing. Method: all ranks add to
 * the counters of all, whose sums are known; then each rank alone, against a copy of the memory.
 */
#include "check.h"

enum { cells = 300, rounds = 200 };
static int rank, size;

/* Counters: everybody's sums come together, and each value of a fetch is seen once. */
static void together(MPI_Win window, long* memory) {
    MPI_Win_lock_all(0, window);
    long one = 1, before, seen = 0;
    for (int i = 0; i < rounds; ++i) {
        for (int target = 0; target < size; ++target) {
            MPI_Fetch_and_op(&one, &before, MPI_LONG, target, 0, MPI_SUM, window);
            MPI_Win_flush(target, window);
            CHECK(before >= i && before < (long)size * rounds);
            seen += before;
            MPI_Accumulate(&one, 1, MPI_LONG, target, 1, 1, MPI_LONG, MPI_SUM, window);
            long expected, found = 0; /* add by compare and swap */
            do {
                expected = found;
                long next = expected + 1;
                MPI_Compare_and_swap(&next, &expected, &found, MPI_LONG, target, 2, window);
                MPI_Win_flush(target, window);
            } while (found != expected);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    long all = (long)size * rounds, sum = 0;
    MPI_Allreduce(&seen, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(all * (all - 1) / 2 * size, sum);
    CHECK_EQ(all, memory[0]);
    CHECK_EQ(all, memory[1]);
    CHECK_EQ(all, memory[2]);
}

static long combined(MPI_Op op, long one, long two) {
    if (op == MPI_SUM) return (long)((unsigned long)one + (unsigned long)two);
    if (op == MPI_MAX) return one > two ? one : two;
    if (op == MPI_BXOR) return one ^ two;
    return one; /* MPI_REPLACE */
}

/* Alone: rank 0 works on the memory of `target`, of which `copy` says how it should look. */
static void alone(MPI_Win window, int target, long* memory, long* copy) {
    MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_REPLACE};
    long origin[cells], result[cells], now[cells];
    for (int i = 0; i < cells; ++i) origin[i] = i % 7 * (i % 2 ? 1 : -1) + 5;
    for (int k = 0; k < 4; ++k) {
        for (int count = 1; count <= cells; count = count * 3 + 1) {
            context("operation %d, %d elements, target %d", k, count, target);
            int first = count * 5 % (cells - count + 1);
            CHECK_OK(MPI_Accumulate(origin, count, MPI_LONG, target, first, count, MPI_LONG, ops[k], window));
            MPI_Win_flush(target, window);
            for (int i = 0; i < count; ++i) copy[first + i] = combined(ops[k], origin[i], copy[first + i]);
            CHECK_OK(MPI_Get_accumulate(origin, count, MPI_LONG, result, count, MPI_LONG, target, first, count,
                                        MPI_LONG, ops[k], window));
            MPI_Win_flush(target, window);
            CHECK_MEM(copy + first, result, (size_t)count * sizeof(long));
            for (int i = 0; i < count; ++i) copy[first + i] = combined(ops[k], origin[i], copy[first + i]);
        }
        CHECK_OK(MPI_Fetch_and_op(origin + k, result, MPI_LONG, target, k, ops[k], window));
        MPI_Win_flush(target, window);
        CHECK_EQ(copy[k], result[0]);
        copy[k] = combined(ops[k], origin[k], copy[k]);
    }
    context("target %d", target);
    CHECK_OK(MPI_Fetch_and_op(NULL, result, MPI_LONG, target, 9, MPI_NO_OP, window));
    CHECK_OK(MPI_Compare_and_swap(origin, copy + 9, result + 1, MPI_LONG, target, 9, window));
    MPI_Win_flush(target, window);
    CHECK_EQ(copy[9], result[0]);
    CHECK_EQ(copy[9], result[1]);
    copy[9] = origin[0];
    /* In the own window, from what it changes: the elements lie one after the other. */
    if (target == rank) {
        CHECK_OK(MPI_Accumulate(memory + 20, 10, MPI_LONG, target, 30, 10, MPI_LONG, MPI_SUM, window));
        MPI_Win_flush(target, window);
        for (int i = 0; i < 10; ++i) copy[30 + i] += copy[20 + i];
    }
    int wrong = MPI_ERR_RMA_RANGE;
    CHECK_CLASS(wrong, MPI_Accumulate(origin, 2, MPI_LONG, target, cells - 1, 2, MPI_LONG, MPI_SUM, window));
    CHECK_CLASS(wrong, MPI_Fetch_and_op(origin, result, MPI_LONG, target, cells, MPI_SUM, window));
    CHECK_CLASS(wrong, MPI_Compare_and_swap(origin, origin, result, MPI_LONG, target, cells, window));
    CHECK_CLASS(wrong, MPI_Put(origin, 2, MPI_LONG, target, cells - 1, 2, MPI_LONG, window));
#ifdef MPI_ABI_VERSION /* others do not look */
    /* Whose place, or number of bytes, would be 0 if it were taken modulo 2^64. */
    MPI_Aint far = (MPI_Aint)1 << 61;
    CHECK_CLASS(wrong, MPI_Put(origin, 1, MPI_LONG, target, far, 1, MPI_LONG, window));
    CHECK_CLASS(wrong, MPI_Accumulate(origin, 1, MPI_LONG, target, far, 1, MPI_LONG, MPI_SUM, window));
    CHECK_CLASS(wrong, MPI_Fetch_and_op(origin, result, MPI_LONG, target, far, MPI_SUM, window));
    CHECK_CLASS(wrong, MPI_Compare_and_swap(origin, origin, result, MPI_LONG, target, far, window));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Put_c(origin, far, MPI_LONG, target, 0, far, MPI_LONG, window));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Accumulate_c(origin, far, MPI_LONG, target, 0, far, MPI_LONG, MPI_SUM, window));
#endif
    CHECK_CLASS(MPI_ERR_OP, MPI_Accumulate(origin, 1, MPI_DOUBLE, target, 0, 1, MPI_DOUBLE, MPI_BXOR, window));
    CHECK_CLASS(MPI_ERR_OP, MPI_Fetch_and_op(origin, result, MPI_DOUBLE, target, 0, MPI_BXOR, window));
    CHECK_CLASS(MPI_ERR_TYPE,
                MPI_Compare_and_swap(origin, origin, result, MPI_DOUBLE, target, 0, window));
    CHECK_CLASS(MPI_ERR_RANK, MPI_Fetch_and_op(origin, result, MPI_LONG, size, 0, MPI_SUM, window));
    CHECK_OK(MPI_Get(now, cells, MPI_LONG, target, 0, cells, MPI_LONG, window));
    MPI_Win_flush(target, window);
    CHECK_MEM(copy, now, sizeof now);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int allocated = 0; allocated < 2; ++allocated) {
        long *memory, own[cells], copy[cells];
        MPI_Win window;
        if (allocated) MPI_Win_allocate(sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        else MPI_Win_create(memory = own, sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
        for (int i = 0; i < cells; ++i) memory[i] = copy[i] = i < 3 ? 0 : 11 * i;
        MPI_Win_fence(0, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
        long result;
        CHECK_CLASS(MPI_ERR_RMA_SYNC, MPI_Fetch_and_op(copy, &result, MPI_LONG, 0, 5, MPI_SUM, window));
        CHECK_CLASS(MPI_ERR_RMA_SYNC, MPI_Accumulate(copy, 1, MPI_LONG, 0, 5, 1, MPI_LONG, MPI_SUM, window));
        together(window, memory);
        for (int i = 0; i < 3; ++i) copy[i] = memory[i];
        for (int target = 0; target < size; ++target) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank != 0) continue;
            long theirs[cells];
            memcpy(theirs, copy, sizeof theirs);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
            alone(window, target, memory, theirs);
            MPI_Win_unlock(target, window);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_free(&window);
    }
    return finish();
}
