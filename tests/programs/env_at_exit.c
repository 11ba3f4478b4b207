/* Goal: MPI may be used, and ended, by functions that exit() calls, also by one that was registered
 * before MPI began: by then the main thread's own variables of C++ are gone, and what a library has
 * made since that registration. Method: errors whose sentences are read, before and in such a
 * function, which ends MPI; then many blocks of memory, which find what was freed twice.
 */
#include "check.h"

#include <unistd.h>

static void make_error(void) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, code = MPI_Send(NULL, 0, MPI_BYTE, check_size + 1000, 0, MPI_COMM_WORLD);
    CHECK_CLASS(MPI_ERR_RANK, code);
    CHECK_OK(MPI_Error_string(code, text, &length));
    CHECK(length > 0);
}

static void at_exit(void) {
    void* blocks[200];
    int i, code;
    for (i = 0; i < 3; ++i) make_error();
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    code = finish();
    for (i = 0; i < 200; ++i) blocks[i] = malloc((size_t)(10 + 10 * i));
    for (i = 0; i < 200; ++i) free(blocks[i]);
    if (code != 0) _exit(code);
}

int main(int argc, char** argv) {
    if (atexit(at_exit) != 0) return 1;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    make_error();
    return 0;
}
