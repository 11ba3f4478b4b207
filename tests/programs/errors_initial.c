/* Goal: the error handler that a process begins with is the one that mpirun's -initial-errhandler
 * or MPI_Comm_spawn's info key mpi_initial_errhandler names, else MPI_ERRORS_ARE_FATAL (MPI 5.0,
 * sections 9.3 and 11.5). Method: initial_errhandler.sh says which one is expected (return, abort
 * or fatal) and checks how jobs end whose error is not returned; "spawn" makes children, which a
 * parent with another handler expects to have what the key says. Without arguments it makes no
 * errors.
 */
#include "check.h"

static MPI_Errhandler expected(const char* name) {
    if (strcmp(name, "return") == 0) return MPI_ERRORS_RETURN;
    return strcmp(name, "abort") == 0 ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL;
}

static void check_handler(MPI_Comm comm, const char* name) {
    MPI_Errhandler found;
    CHECK_OK(MPI_Comm_get_errhandler(comm, &found));
    CHECK(found == expected(name));
    CHECK_OK(MPI_Errhandler_free(&found));
}

static void spawn(const char* program, const char* key, char* name) {
    char* arguments[] = {name, "child", NULL};
    char text[64];
    MPI_Comm inter;
    MPI_Info info = MPI_INFO_NULL;
    if (key) {
        snprintf(text, sizeof text, "mpi_errors_%s", key);
        CHECK_OK(MPI_Info_create(&info));
        CHECK_OK(MPI_Info_set(info, "mpi_initial_errhandler", text));
    }
    CHECK_OK(MPI_Comm_spawn(program, arguments, 1, info, 0, MPI_COMM_SELF, &inter,
                            MPI_ERRCODES_IGNORE));
    CHECK_OK(MPI_Barrier(inter));
    CHECK_OK(MPI_Comm_disconnect(&inter));
    if (key) CHECK_OK(MPI_Info_free(&info));
}

int main(int argc, char** argv) {
    const char* name = argc > 1 ? argv[1] : "fatal";
    const char* what = argc > 2 ? argv[2] : "";
    char text[64] = "", wanted[64];
    int flag = 0, returns = strcmp(name, "return") == 0, code;
    MPI_Comm parent, copy;
    MPI_Info info, none = MPI_INFO_NULL;
    if (returns) CHECK(MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS); /* before MPI_Init */
    start(&argc, &argv);
    check_handler(MPI_COMM_WORLD, name);
    check_handler(MPI_COMM_SELF, name);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    check_handler(copy, name);
    CHECK_OK(MPI_Comm_free(&copy));
    snprintf(wanted, sizeof wanted, "mpi_errors_%s", strcmp(name, "fatal") ? name : "are_fatal");
    CHECK_OK(MPI_Info_get(MPI_INFO_ENV, "mpi_initial_errhandler", 63, text, &flag));
    CHECK(flag && strcmp(text, wanted) == 0);
    CHECK_OK(MPI_Comm_get_parent(&parent));
    if (strcmp(what, "child") == 0) {
        check_handler(parent, name);
        CHECK_OK(MPI_Barrier(parent));
        CHECK_OK(MPI_Comm_disconnect(&parent));
    } else if (strcmp(what, "spawn") == 0) {
        spawn(argv[0], NULL, "fatal");
        spawn(argv[0], "abort", "abort");
        spawn(argv[0], "return", "return");
        CHECK_OK(MPI_Info_create(&info));
        CHECK_OK(MPI_Info_set(info, "mpi_initial_errhandler", "mpi_errors_nosuch"));
        if (returns) {
            code = MPI_Comm_spawn(argv[0], NULL, 1, info, 0, MPI_COMM_SELF, &copy,
                                  MPI_ERRCODES_IGNORE);
            CHECK(code != MPI_SUCCESS);
        }
        CHECK_OK(MPI_Info_free(&info));
    } else if (argc > 1) {
        code = MPI_Send(&flag, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        CHECK(returns && code == MPI_ERR_RANK);
        code = MPI_Info_free(&none); /* without an object: MPI_COMM_SELF's */
        CHECK(returns && code == MPI_ERR_INFO);
    }
    return finish();
}
