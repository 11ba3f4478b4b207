/* Goal: one-sided, file and dynamic-process functions either work or say so: a call that the library
 * does not have returns MPI_ERR_UNSUPPORTED_OPERATION through the error handler, never a crash, a hang
 * or a false success. Method: with MPI_ERRORS_RETURN the first call of each chapter is made; where it
 * succeeds, its simplest use must give the right result.
 */
#include "check.h"
#include <unistd.h>

static void windows(void) {
    MPI_Win win = MPI_WIN_NULL;
    int memory[4] = {-1, -1, -1, -1}, code, mine = check_rank;
    context("one-sided");
    code = MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (code != MPI_SUCCESS) {
        CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, code);
        CHECK(win == MPI_WIN_NULL);
        return;
    }
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(&mine, 1, MPI_INT, (check_rank + 1) % check_size, 1, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_EQ((check_rank + check_size - 1) % check_size, memory[1]);
    CHECK_OK(MPI_Win_free(&win));
}

static void files(void) {
    MPI_File file = MPI_FILE_NULL;
    char name[64];
    int code, out = 123, in = 0;
    context("files");
    snprintf(name, sizeof name, "/tmp/pomona-programs-%d", (int)getpid());
    code = MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (code != MPI_SUCCESS) {
        CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, code);
        CHECK(file == MPI_FILE_NULL);
        unlink(name);
        return;
    }
    CHECK_OK(MPI_File_write_at(file, 0, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, 0, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(123, in);
    CHECK_OK(MPI_File_close(&file));
    unlink(name);
}

static void processes(void) {
    MPI_Comm parent = MPI_COMM_WORLD;
    int code;
    context("dynamic processes");
    code = MPI_Comm_get_parent(&parent);
    if (code == MPI_SUCCESS) {
        CHECK(parent == MPI_COMM_NULL);
    } else {
        CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, code);
    }
}

int main(int argc, char** argv) {
    int one = 1, sum = 0;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    windows();
    files();
    processes();
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(check_size, sum);
    return finish();
}
