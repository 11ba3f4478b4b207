/* Goal: a wrong argument or an impossible file gives the standard's error class through the file's
 * error handler, on all ranks, and the file goes on to work (MPI 5.0, sections 14.7 and 14.8).
 * Method: each call is made wrongly, once; errors of one rank in a collective call must end the
 * call on all. Handlers of users are counted.
 */
#include "io_files.h"

static int handler_calls, handler_code;
static MPI_File handler_file;

static void handler(MPI_File* f, int* code, ...) {
    ++handler_calls;
    handler_code = *code;
    handler_file = *f;
}

static void openings(void) {
    char name[200], longer[260];
    MPI_File f = (MPI_File)0;
    context("opening");
    new_name(name, sizeof name);
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE,
                MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    CHECK(f == MPI_FILE_NULL);
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, 0, MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE, MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_WRONLY,
                                             MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                                             MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
                                             MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_COMM, MPI_File_open(MPI_COMM_NULL, name, MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, "/", MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    snprintf(longer, sizeof longer, "%s/inside", name);
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, longer, MPI_MODE_RDWR | MPI_MODE_CREATE,
                                                    MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, "/dev/null/inside", MPI_MODE_RDONLY,
                                                MPI_INFO_NULL, &f));
    if (check_size > 1) {
        CHECK_CLASS(MPI_ERR_NOT_SAME,
                    MPI_File_open(MPI_COMM_WORLD, name,
                                  check_rank ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_CREATE | MPI_MODE_WRONLY,
                                  MPI_INFO_NULL, &f));
    }
    CHECK(f == MPI_FILE_NULL);
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_close(&f));
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
}

static void accesses(MPI_File f) {
    int value = 1, k;
    MPI_Datatype raw;
    context("access");
    CHECK_OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &raw));
    for (k = 0; k < 2; ++k) {
        int (*read_at)(MPI_File, MPI_Offset, void*, int, MPI_Datatype, MPI_Status*) =
            k ? MPI_File_read_at_all : MPI_File_read_at;
        int (*write_at)(MPI_File, MPI_Offset, const void*, int, MPI_Datatype, MPI_Status*) =
            k ? MPI_File_write_at_all : MPI_File_write_at;
        CHECK_CLASS(MPI_ERR_ARG, read_at(f, -1, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_ARG, write_at(f, -1, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_COUNT, read_at(f, 0, &value, -1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_COUNT, write_at(f, 0, &value, -1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_TYPE, read_at(f, 0, &value, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_TYPE, write_at(f, 0, &value, 1, raw, MPI_STATUS_IGNORE));
        /* Three bytes are no whole number of etypes. */
        CHECK_CLASS(MPI_ERR_IO, read_at(f, 0, &value, 3, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_IO, write_at(f, 0, &value, 3, MPI_BYTE, MPI_STATUS_IGNORE));
        if (!known_limit("MPICH"))
            CHECK_CLASS(MPI_ERR_BUFFER, read_at(f, 0, NULL, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_read_at(MPI_FILE_NULL, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Type_free(&raw));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_set_size(f, -1));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_preallocate(f, -1));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, -1, MPI_SEEK_SET));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, 0, 17));
}

static void views(MPI_File f) {
    static const int two[2] = {1, 1}, both[2] = {2, 2}, falling[2] = {3, 0}, touching[2] = {0, 1};
    MPI_Datatype bad;
    context("views");
    CHECK_CLASS2(MPI_ERR_DISP, MPI_ERR_ARG,
                 MPI_File_set_view(f, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS2(MPI_ERR_DISP, MPI_ERR_ARG,
                 MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_DATAREP,
                MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "no such", MPI_INFO_NULL));
    CHECK_CLASS2(MPI_ERR_TYPE, MPI_ERR_ARG,
                 MPI_File_set_view(f, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS2(MPI_ERR_TYPE, MPI_ERR_ARG,
                 MPI_File_set_view(f, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_Type_indexed(2, two, falling, MPI_INT, &bad));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_set_view(f, 0, MPI_INT, bad, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_Type_commit(&bad));
    CHECK_CLASS2(MPI_ERR_TYPE, MPI_ERR_IO, MPI_File_set_view(f, 0, MPI_INT, bad, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_Type_free(&bad));
    CHECK_OK(MPI_Type_indexed(2, both, touching, MPI_INT, &bad));
    CHECK_OK(MPI_Type_commit(&bad));
    CHECK_CLASS2(MPI_ERR_TYPE, MPI_ERR_IO, MPI_File_set_view(f, 0, MPI_INT, bad, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_Type_free(&bad));
}

/* Not checked by other libraries: one rank's wrong argument, differing arguments, full devices. */
static void agreement(MPI_File f) {
    int value = 1, last = check_rank == check_size - 1, i;
    char all_zero[64] = {0};
    MPI_File full;
    MPI_Offset at = -1;
    context("agreement");
    CHECK_CLASS(MPI_ERR_COUNT,
                MPI_File_write_at_all(f, 0, &value, last ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_read_all(f, &value, 1, last ? MPI_DATATYPE_NULL : MPI_INT,
                                                MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(0, at);
    CHECK_CLASS(MPI_ERR_COUNT, MPI_File_write_ordered(f, &value, last ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(0, at);
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_set_view(f, 0, MPI_INT, last ? MPI_DATATYPE_NULL : MPI_INT, "native",
                                                MPI_INFO_NULL));
    if (check_size > 1) {
        CHECK_CLASS(MPI_ERR_NOT_SAME, MPI_File_set_size(f, 100 + last));
        CHECK_CLASS(MPI_ERR_NOT_SAME, MPI_File_seek_shared(f, last, MPI_SEEK_SET));
        CHECK_CLASS(MPI_ERR_NOT_SAME, MPI_File_set_view(f, 0, MPI_INT, MPI_INT, last ? "native" : "internal",
                                                        MPI_INFO_NULL));
        CHECK_CLASS(MPI_ERR_NOT_SAME, MPI_File_set_view(f, 0, last ? MPI_INT : MPI_BYTE,
                                                        last ? MPI_INT : MPI_BYTE, "native", MPI_INFO_NULL));
    }
    /* Linux has a device that is always full. */
    if (!exists("/dev/full")) return;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &full));
    for (i = 0; i < 2; ++i)
        CHECK_CLASS(MPI_ERR_NO_SPACE,
                    i ? MPI_File_write_at(full, 0, all_zero, 64, MPI_CHAR, MPI_STATUS_IGNORE)
                      : MPI_File_write_at_all(full, 0, all_zero, last ? 64 : 0, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&full));
}

static void handlers(const char* name) {
    MPI_Errhandler mine, found, comm_handler;
    MPI_File f;
    context("handlers");
    CHECK_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_File_create_errhandler(handler, &mine));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    CHECK_OK(MPI_File_get_errhandler(f, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_File_set_errhandler(f, mine));
    CHECK_OK(MPI_File_get_errhandler(f, &found));
    CHECK(found == mine);
    CHECK_OK(MPI_Errhandler_free(&found));
    handler_calls = 0;
    int code = MPI_File_seek(f, -1, MPI_SEEK_SET);
    CHECK_CLASS(MPI_ERR_ARG, code);
    CHECK_EQ(1, handler_calls);
    CHECK_EQ(code, handler_code);
    CHECK(handler_file == f);
    CHECK_OK(MPI_File_call_errhandler(f, MPI_ERR_NO_SPACE));
    CHECK_EQ(2, handler_calls);
    CHECK_CLASS(MPI_ERR_NO_SPACE, handler_code);
    CHECK_OK(MPI_File_set_errhandler(f, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, -1, MPI_SEEK_SET));
    CHECK_EQ(2, handler_calls);
    /* A handler of communicators is none of files. */
    CHECK_OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function*)(void (*)(void))handler, &comm_handler));
#if MPI_AT_LEAST(5, 0)
    CHECK_CLASS(MPI_ERR_ERRHANDLER, MPI_File_set_errhandler(f, comm_handler));
#endif
    CHECK_OK(MPI_Errhandler_free(&comm_handler));
    CHECK_OK(MPI_File_close(&f));
    /* New files take over what MPI_FILE_NULL has, and failed openings call it. MPICH 4.0 loses
     * count of the handler's users there. */
    if (known_limit("MPICH")) return;
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, 0, MPI_INFO_NULL, &f));
    CHECK_EQ(3, handler_calls);
    CHECK(handler_file == MPI_FILE_NULL);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, -1, MPI_SEEK_SET));
    CHECK_EQ(4, handler_calls);
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&mine));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, -1, MPI_SEEK_SET));
    CHECK_EQ(5, handler_calls);
    CHECK_OK(MPI_File_close(&f));
}

static int extent_of(MPI_Datatype type, MPI_Aint* extent, void* state) {
    (void)type, (void)state;
    *extent = 4;
    return MPI_SUCCESS;
}

static void datareps(void) {
    context("data representations");
    CHECK_OK(MPI_Register_datarep("pomona test", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of,
                                  NULL));
    CHECK_CLASS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("pomona test", MPI_CONVERSION_FN_NULL,
                                                          MPI_CONVERSION_FN_NULL, extent_of, NULL));
}

int main(int argc, char** argv) {
    char name[200];
    MPI_File f;
    start(&argc, &argv);
    openings();
    new_name(name, sizeof name);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    accesses(f);
    views(f);
    if (!known_limit("MPICH") && !known_limit("Open MPI")) agreement(f);
    CHECK_OK(MPI_File_close(&f));
    handlers(name);
    datareps();
    barrier();
    if (check_rank == 0) CHECK_OK(MPI_File_delete(name, MPI_INFO_NULL));
    return finish();
}
