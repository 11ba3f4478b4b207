/* Goal: what the program frees twice, by a copy of the handle, is refused the second time, and what
 * others still use of it stays. MPI calls it an error (MPI-5.0 section 2.5.1). Method: objects that
 * the library or another object keeps: groups of communicators and windows, an error handler in
 * use, a datatype of which another one is made.
 */
#include "check.h"

static void handler(MPI_Comm* comm, int* code, ...) {
    (void)comm, (void)code;
}

static void groups(MPI_Win win) {
    MPI_Group first, second, copy;
    int i, size;
    context("groups");
    for (i = 0; i < 3; ++i) {
        CHECK_OK(i == 0   ? MPI_Comm_group(MPI_COMM_WORLD, &first)
                 : i == 1 ? MPI_Comm_group(MPI_COMM_SELF, &first)
                          : MPI_Win_get_group(win, &first));
        CHECK_OK(i == 2 ? MPI_Win_get_group(win, &second)
                        : MPI_Comm_group(i == 0 ? MPI_COMM_WORLD : MPI_COMM_SELF, &second));
        copy = first;
        CHECK_OK(MPI_Group_free(&first));
        CHECK_OK(MPI_Group_size(second, &size));
        CHECK_EQ(i == 1 ? 1 : check_size, size);
        CHECK_OK(MPI_Group_free(&second));
        CHECK_EQ(MPI_ERR_GROUP, class_of(MPI_Group_free(&copy)));
        CHECK_EQ(MPI_ERR_GROUP, class_of(MPI_Group_free(&copy)));
    }
}

static void handlers(void) {
    MPI_Errhandler made, got, copy;
    MPI_Comm comm;
    context("error handlers");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(handler, &made));
    CHECK_OK(MPI_Comm_set_errhandler(comm, made));
    copy = made;
    CHECK_OK(MPI_Comm_get_errhandler(comm, &got));
    CHECK_OK(MPI_Errhandler_free(&made));
    CHECK_OK(MPI_Errhandler_free(&got));
    CHECK_EQ(MPI_ERR_ERRHANDLER, class_of(MPI_Errhandler_free(&copy)));
    CHECK_OK(MPI_Comm_get_errhandler(comm, &got));
    CHECK_OK(MPI_Errhandler_free(&got));
    CHECK_OK(MPI_Comm_free(&comm));
}

static void datatypes(void) {
    MPI_Datatype part, whole, copy;
    int bytes, from[6] = {1, 2, 3, 4, 5, 6}, to[6] = {0};
    context("datatypes");
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &part));
    CHECK_OK(MPI_Type_contiguous(2, part, &whole));
    CHECK_OK(MPI_Type_commit(&whole));
    copy = part;
    CHECK_OK(MPI_Type_free(&part));
    CHECK_EQ(MPI_ERR_TYPE, class_of(MPI_Type_free(&copy)));
    CHECK_OK(MPI_Type_size(whole, &bytes));
    CHECK_EQ((int)(4 * sizeof(int)), bytes);
    CHECK_OK(MPI_Sendrecv(from, 1, whole, 0, 0, to, 1, whole, 0, 0, MPI_COMM_SELF,
                          MPI_STATUS_IGNORE));
    CHECK_EQ(1, to[0]);
    CHECK_EQ(0, to[1]);
    CHECK_EQ(3, to[2]);
    CHECK_OK(MPI_Type_free(&whole));
}

int main(int argc, char** argv) {
    static int memory[2];
    MPI_Win win;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    groups(win);
    handlers();
    datatypes();
    CHECK_OK(MPI_Win_free(&win));
    return finish();
}
