/* Goal: MPI_Finalize first frees MPI_COMM_SELF, so that its attributes' delete functions run in the
 * reverse order of their setting, while MPI still works (MPI-5.0 section 11.2.4). Method: three
 * keyvals whose delete functions note their order and call MPI.
 */
#include "check.h"

static int order[8], calls = 0, usable = 1;

static int on_delete(MPI_Comm comm, int keyval, void* value, void* extra) {
    int flag = 1, size = 0;
    (void)comm;
    (void)keyval;
    (void)extra;
    MPI_Finalized(&flag);
    if (flag || MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || size != check_size) {
        usable = 0;
    }
    if (calls < 8) order[calls++] = (int)(intptr_t)value;
    return MPI_SUCCESS;
}

int main(int argc, char** argv) {
    int key[3], i, code;
    start(&argc, &argv);
    for (i = 0; i < 3; ++i) {
        CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key[i], NULL));
        CHECK_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key[i], (void*)(intptr_t)(i + 1)));
    }
    CHECK_OK(MPI_Comm_free_keyval(&key[1]));
    CHECK_EQ(MPI_KEYVAL_INVALID, key[1]);
    CHECK_EQ(0, calls);
    code = finish();
    if (calls != 3 || order[0] != 3 || order[1] != 2 || order[2] != 1 || !usable) {
        fprintf(stderr, "env_finalize.c: rank %d: %d delete calls in order %d %d %d, usable %d\n",
                check_rank, calls, order[0], order[1], order[2], usable);
        return 1;
    }
    return code;
}
