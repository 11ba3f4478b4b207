/* Goal: with POMONA_CHECK mistakes with windows are told by an error at the call: memory that an
 * operation still uses, operations outside an epoch, accesses of one epoch that meet in a target's
 * memory, of one origin or of two (docs/checking.md); what is right beside them is not accused.
 * Method: each mistake with MPI_ERRORS_RETURN, class and words compared, then the same after what
 * ends the first operation.
 */
#include "check.h"
#include "tells.h"

#include <stdlib.h>

enum { words = 64 };
static int* memory;
static MPI_Win win;
static int peer;

/* What follows a mistake is right. */
static void goes_on(void) {
    int one = 1, sum = 0;
    CHECK_OK(MPI_Win_fence(0, win));
    if (check_rank < 2)
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, 1 - check_rank, 60, 1, MPI_INT, MPI_SUM, win));
    CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(check_size, sum);
}

static void epochs(void) {
    int one = 1, sum = 0;
    context("a lock while operations of a fence's epoch are open");
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(&one, 1, MPI_INT, peer, 50 + check_rank, 1, MPI_INT, win));
    TELLS(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win), MPI_ERR_RMA_SYNC,
          "operations since the last MPI_Win_fence are in its epoch", "call MPI_Win_fence");
    TELLS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC, "operations since the last MPI_Win_fence");
    CHECK_OK(MPI_Win_fence(0, win));
    context("a lock after a fence");
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));
    CHECK_OK(MPI_Win_unlock(peer, win));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(check_size, sum);
}

static void buffers(void) {
    int data[8] = {0}, other[8] = {0};
    MPI_Request request;
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));
    context("a receive into what is put");
    CHECK_OK(MPI_Put(data, 4, MPI_INT, peer, 0, 4, MPI_INT, win));
    TELLS(MPI_Irecv(data + 3, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
          "buf is written while MPI_Put (to rank", "16 bytes", "reads the same memory");
    context("a get into what is put");
    TELLS(MPI_Get(data, 1, MPI_INT, peer, 8, 1, MPI_INT, win), MPI_ERR_BUFFER,
          "origin_addr is written while MPI_Put", "reads the same memory");
    context("two puts from one place");
    CHECK_OK(MPI_Put(data, 4, MPI_INT, peer, 4, 4, MPI_INT, win));
    context("after a flush");
    CHECK_OK(MPI_Win_flush_local(peer, win));
    CHECK_OK(MPI_Get(data, 1, MPI_INT, peer, 8, 1, MPI_INT, win));
    context("a put from what is got");
    TELLS(MPI_Put(data, 1, MPI_INT, peer, 16, 1, MPI_INT, win), MPI_ERR_BUFFER,
          "origin_addr is read while MPI_Get (from rank", "writes the same memory");
    context("two results");
    TELLS(MPI_Fetch_and_op(other, data, MPI_INT, peer, 20, MPI_SUM, win), MPI_ERR_BUFFER,
          "result_addr is written while MPI_Get");
    CHECK_OK(MPI_Win_unlock(peer, win));
    context("origin and result in one place");
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));
    TELLS(MPI_Fetch_and_op(data, data, MPI_INT, peer, 20, MPI_SUM, win), MPI_ERR_BUFFER,
          "origin_addr and result_addr share memory");
    context("a request's end");
    CHECK_OK(MPI_Rput(data, 4, MPI_INT, peer, 24, 4, MPI_INT, win, &request));
    TELLS(MPI_Get(data, 1, MPI_INT, peer, 8, 1, MPI_INT, win), MPI_ERR_BUFFER, "while MPI_Rput");
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Get(data, 1, MPI_INT, peer, 8, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_unlock(peer, win));
    context("after the epoch");
    CHECK_OK(MPI_Sendrecv(other, 1, MPI_INT, peer, 1, data, 1, MPI_INT, peer, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
}

static void one_origin(void) {
    int data[8] = {0}, result[8] = {0}, one = 1;
    MPI_Request request;
    MPI_Datatype column;
    CHECK_OK(MPI_Type_vector(4, 1, 4, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&column));
    context("no epoch");
    TELLS(MPI_Put(data, 1, MPI_INT, peer, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "no epoch is open");
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));
    context("two puts that meet");
    CHECK_OK(MPI_Put(data, 4, MPI_INT, peer, 0, 4, MPI_INT, win));
    TELLS(MPI_Put(data + 4, 2, MPI_INT, peer, 3, 2, MPI_INT, win), MPI_ERR_RMA_CONFLICT,
          "writes memory of rank", "that MPI_Put", "writes in the same epoch", "MPI_Win_flush");
    CHECK_OK(MPI_Put(data + 4, 2, MPI_INT, peer, 4, 2, MPI_INT, win));
    context("a get of what is put, and a sum on it");
    TELLS(MPI_Get(result, 1, MPI_INT, peer, 2, 1, MPI_INT, win), MPI_ERR_RMA_CONFLICT,
          "reads memory of rank");
    TELLS(MPI_Accumulate(&one, 1, MPI_INT, peer, 2, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_CONFLICT,
          "updates memory");
    context("after a flush");
    CHECK_OK(MPI_Win_flush_local(peer, win));
    TELLS(MPI_Get(result, 1, MPI_INT, peer, 2, 1, MPI_INT, win), MPI_ERR_RMA_CONFLICT, "that MPI_Put");
    CHECK_OK(MPI_Win_flush(peer, win));
    CHECK_OK(MPI_Get(result, 4, MPI_INT, peer, 0, 4, MPI_INT, win));
    context("two gets, and sums in a row");
    CHECK_OK(MPI_Get(result + 4, 4, MPI_INT, peer, 0, 4, MPI_INT, win));
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, peer, 10, 1, MPI_INT, MPI_SUM, win));
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, peer, 10, 1, MPI_INT, MPI_MAX, win));
    context("columns");
    CHECK_OK(MPI_Put(data, 4, MPI_INT, peer, 20, 1, column, win));
    CHECK_OK(MPI_Put(data, 4, MPI_INT, peer, 21, 1, column, win));
    TELLS(MPI_Put(data, 1, MPI_INT, peer, 24, 1, MPI_INT, win), MPI_ERR_RMA_CONFLICT,
          "writes memory");
    CHECK_OK(MPI_Put(data, 1, MPI_INT, peer, 22, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_unlock(peer, win));
    context("a get that has been waited for");
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Rget(result, 1, MPI_INT, peer, 2, 1, MPI_INT, win, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Put(data, 1, MPI_INT, peer, 2, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_unlock_all(win));
    context("post, start, complete, wait");
    MPI_Group world, other;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Group_incl(world, 1, &peer, &other));
    for (int turn = 0; turn < 2; ++turn) {
        CHECK_OK(MPI_Win_post(other, 0, win));
        CHECK_OK(MPI_Win_start(other, 0, win));
        CHECK_OK(MPI_Put(data, 1, MPI_INT, peer, 2, 1, MPI_INT, win));
        TELLS(MPI_Put(data, 1, MPI_INT, peer, 2, 1, MPI_INT, win), MPI_ERR_RMA_CONFLICT,
              "writes memory");
        CHECK_OK(MPI_Win_complete(win));
        CHECK_OK(MPI_Win_wait(win));
    }
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Group_free(&other));
    CHECK_OK(MPI_Type_free(&column));
}

static void two_origins(void) {
    int data[8] = {0};
    int zero = check_rank == 0;
    context("two puts into one place");
    CHECK_OK(MPI_Win_fence(0, win));
    if (check_rank < 2) CHECK_OK(MPI_Put(data, 2, MPI_INT, 1, zero ? 4 : 5, 2, MPI_INT, win));
    TELLS(MPI_Win_fence(0, win), MPI_ERR_RMA_CONFLICT, "bytes 20 to 24 of rank 1", "rank 0: MPI_Put",
          "rank 1: MPI_Put");
    context("a put and a get");
    if (zero) CHECK_OK(MPI_Put(data, 2, MPI_INT, 1, 8, 2, MPI_INT, win));
    if (check_rank == 1) CHECK_OK(MPI_Get(data, 1, MPI_INT, 1, 8, 1, MPI_INT, win));
    TELLS(MPI_Win_fence(0, win), MPI_ERR_RMA_CONFLICT, "rank 0: MPI_Put", "rank 1: MPI_Get");
    context("operations that differ");
    CHECK_OK(MPI_Accumulate(data, 1, MPI_INT, 0, 8, 1, MPI_INT, zero ? MPI_SUM : MPI_MAX, win));
    TELLS(MPI_Win_fence(0, win), MPI_ERR_RMA_CONFLICT, "rank 0: MPI_Accumulate", "MPI_SUM", "MPI_MAX");
    context("right ones");
    CHECK_OK(MPI_Accumulate(data, 1, MPI_INT, 0, 8, 1, MPI_INT, MPI_SUM, win));
    CHECK_OK(MPI_Get(data + 4, 1, MPI_INT, 0, 12, 1, MPI_INT, win));
    if (check_rank < 2)
        CHECK_OK(MPI_Put(data, 1, MPI_INT, 1, zero ? 4 : 5, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    if (!getenv("POMONA_CHECK") || check_size < 2) {
        if (check_rank == 0) printf("skip check_windows: needs POMONA_CHECK and 2 ranks\n");
        MPI_Finalize();
        return check_skip_code;
    }
    peer = check_rank == 0 ? 1 : 0;
    for (int allocated = 0; allocated < 2; ++allocated) {
        int own[words] = {0};
        if (allocated)
            CHECK_OK(MPI_Win_allocate(sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
        else CHECK_OK(MPI_Win_create(own, sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
        CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        if (check_rank < 2) {
            buffers();
            one_origin();
        }
        goes_on();
        epochs();
        two_origins();
        goes_on();
        CHECK_OK(MPI_Win_free(&win));
    }
    return finish();
}
