/* Goal: files are opened, written, read and closed as the standard says (MPI 5.0, sections 14.2,
 * 14.4.2, 14.4.3): access modes, sizes, pointers, statuses, hints, atomic mode, deletion.
 * Method: every rank writes and reads its own part of one file, in each of the forms with an
 * explicit offset or the individual pointer; what lies in the file is compared by plain system
 * calls too.
 */
#include "io_files.h"

enum { n = 100 };

static int part[n], back[n];

static void fill(int seed) {
    for (int i = 0; i < n; ++i) part[i] = seed * 1000 + check_rank * n + i, back[i] = -1;
}

static void check_status(MPI_Status* s, int expected) {
    int count = -2;
    CHECK_OK(MPI_Get_count(s, MPI_INT, &count));
    CHECK_EQ(expected, count);
    CHECK_OK(MPI_Get_elements(s, MPI_INT, &count));
    CHECK_EQ(expected, count);
}

static MPI_File open_new(char* name, size_t bytes, int more) {
    MPI_File f = MPI_FILE_NULL;
    new_name(name, bytes);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | more, MPI_INFO_NULL, &f));
    CHECK(f != MPI_FILE_NULL);
    return f;
}

static void close_and_delete(MPI_File* f, const char* name) {
    CHECK_OK(MPI_File_close(f));
    CHECK(*f == MPI_FILE_NULL);
    if (check_rank == 0) {
        CHECK(exists(name));
        CHECK_OK(MPI_File_delete(name, MPI_INFO_NULL));
        CHECK(!exists(name));
    }
    barrier();
}

static void explicit_offsets(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name, 0);
    MPI_Offset size = -1, mine = (MPI_Offset)check_rank * n * (MPI_Offset)sizeof(int);
    MPI_Status s;
    MPI_Request r;
    int form;
    context("explicit offsets");
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(0, size);
    barrier();
    for (form = 0; form < 8; ++form) {
        context("explicit offsets, form %d", form);
        fill(form + 1);
        if (form & 1) {
            CHECK_OK(MPI_File_write_at_all(f, mine, part, n, MPI_INT, &s));
        } else if (form & 2) {
            CHECK_OK(MPI_File_iwrite_at(f, mine, part, n, MPI_INT, &r));
            CHECK_OK(MPI_Wait(&r, &s));
            CHECK(r == MPI_REQUEST_NULL);
        } else {
            CHECK_OK(MPI_File_write_at(f, mine, part, n, MPI_INT, &s));
        }
        check_status(&s, n);
        CHECK_OK(MPI_File_sync(f));
        barrier();
        CHECK_OK(MPI_File_sync(f));
        if (form & 2) {
            CHECK_OK(MPI_File_read_at_all(f, mine, back, n, MPI_INT, &s));
        } else if (form & 4) {
            int flag = 0;
            CHECK_OK(MPI_File_iread_at(f, mine, back, n, MPI_INT, &r));
            while (!flag) CHECK_OK(MPI_Test(&r, &flag, &s));
        } else {
            CHECK_OK(MPI_File_read_at(f, mine, back, n, MPI_INT, &s));
        }
        check_status(&s, n);
        CHECK_MEM(part, back, sizeof part);
        /* The neighbour's part, seen by the system too. */
        MPI_Offset next = (check_rank + 1) % check_size * n * (MPI_Offset)sizeof(int);
        CHECK_EQ(sizeof back, plain_read(name, back, (long)next, sizeof back));
        CHECK_EQ((form + 1) * 1000 + (check_rank + 1) % check_size * n, back[0]);
        barrier();
    }
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ((long)sizeof(int) * n * check_size, size);
    /* Over the end: what is there. */
    context("end of file");
    CHECK_OK(MPI_File_read_at(f, size - 8, back, n, MPI_INT, &s));
    check_status(&s, 2);
    CHECK_OK(MPI_File_read_at(f, size + 100, back, n, MPI_INT, &s));
    check_status(&s, 0);
    CHECK_OK(MPI_File_read_at_all(f, size - 4, back, n, MPI_INT, &s));
    /* MPICH 4.0 reports all of it when several ranks do that together. */
    if (!known_limit("MPICH")) check_status(&s, 1);
    CHECK_OK(MPI_File_read_at(f, 0, back, 0, MPI_INT, &s));
    check_status(&s, 0);
    CHECK_OK(MPI_File_read_at(f, 0, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
    close_and_delete(&f, name);
}

static void individual_pointer(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name, 0);
    MPI_Offset at = -1;
    MPI_Status s;
    MPI_Request r[2];
    context("individual pointer");
    fill(3);
    CHECK_OK(MPI_File_set_view(f, check_rank * n * (MPI_Offset)sizeof(int), MPI_INT, MPI_INT, "native",
                               MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(0, at);
    CHECK_OK(MPI_File_write(f, part, 10, MPI_INT, &s));
    check_status(&s, 10);
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(10, at);
    CHECK_OK(MPI_File_iwrite(f, part + 10, 20, MPI_INT, &r[0]));
    CHECK_OK(MPI_File_iwrite(f, part + 30, 20, MPI_INT, &r[1]));
    CHECK_OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_File_write_all(f, part + 50, 50, MPI_INT, &s));
    check_status(&s, 50);
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(n, at);
    CHECK_OK(MPI_File_get_byte_offset(f, 7, &at));
    CHECK_EQ((check_rank * n + 7) * (long)sizeof(int), at);
    CHECK_OK(MPI_File_seek(f, 5, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read(f, back + 5, 5, MPI_INT, &s));
    CHECK_OK(MPI_File_seek(f, -10, MPI_SEEK_CUR));
    CHECK_OK(MPI_File_read(f, back, 5, MPI_INT, &s));
    CHECK_OK(MPI_File_seek(f, 5, MPI_SEEK_CUR));
    CHECK_OK(MPI_File_iread(f, back + 10, 40, MPI_INT, &r[0]));
    CHECK_OK(MPI_Wait(&r[0], &s));
    check_status(&s, 40);
    CHECK_OK(MPI_File_read_all(f, back + 50, 50, MPI_INT, &s));
    CHECK_MEM(part, back, sizeof part);
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, -1, MPI_SEEK_SET));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(f, 0, 12345));
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(n, at);
    /* The end of the file, in etypes of this rank's view. */
    barrier();
    CHECK_OK(MPI_File_seek(f, -3, MPI_SEEK_END));
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ((check_size - check_rank) * n - 3, at);
    close_and_delete(&f, name);
}

static void modes(void) {
    char name[200], line[16] = "";
    MPI_File f = open_new(name, sizeof name, MPI_MODE_EXCL), g = f;
    MPI_Offset at = -1;
    MPI_Group group, world;
    int amode = 0, same = 0, value = 7;
    context("modes");
    CHECK_OK(MPI_File_get_amode(f, &amode));
    CHECK_EQ(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_EXCL, amode);
    CHECK_OK(MPI_File_get_group(f, &group));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Group_compare(group, world, &same));
    CHECK_EQ(MPI_IDENT, same);
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Group_free(&world));
    if (check_rank == 0) CHECK_OK(MPI_File_write_at(f, 0, "hello", 5, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK_CLASS(MPI_ERR_FILE_EXISTS,
                MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
                              MPI_INFO_NULL, &g));
    /* Appending begins at the end. */
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &f));
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(5, at);
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(5, at);
    barrier();
    if (check_rank == check_size - 1) CHECK_OK(MPI_File_write(f, " world", 6, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_ACCESS, MPI_File_read_at(f, 0, line, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                           &f));
    CHECK_OK(MPI_File_read_at_all(f, 0, line, 11, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_STR("hello world", line);
    CHECK_CLASS(MPI_ERR_READ_ONLY, MPI_File_write_at(f, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK(!exists(name));
    /* A communicator's part opens a file of its own. */
    snprintf(name + strlen(name), 20, "-%d", check_rank);
    CHECK_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_UNIQUE_OPEN,
                           MPI_INFO_NULL, &f));
    CHECK_OK(MPI_File_write_all(f, &check_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK_EQ(sizeof value, plain_read(name, &value, 0, sizeof value));
    CHECK_EQ(check_rank, value);
    CHECK_OK(MPI_File_delete(name, MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE,
                MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
}

static void sizes(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name, 0);
    MPI_Offset size = -1;
    char byte = 1;
    int flag = -1;
    context("sizes");
    CHECK_OK(MPI_File_set_size(f, 12345));
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(12345, size);
    barrier();
    CHECK_OK(MPI_File_read_at(f, 12344, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(0, byte);
    CHECK_OK(MPI_File_preallocate(f, 20000));
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(20000, size);
    barrier();
    CHECK_OK(MPI_File_preallocate(f, 100));
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(20000, size);
    barrier();
    CHECK_OK(MPI_File_set_size(f, 5));
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(5, size);
    barrier();
    CHECK_OK(MPI_File_get_atomicity(f, &flag));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_File_set_atomicity(f, 1));
    CHECK_OK(MPI_File_get_atomicity(f, &flag));
    CHECK_EQ(1, flag);
    close_and_delete(&f, name);
}

static void hints(void) {
    char name[200], value[MPI_MAX_INFO_VAL + 1] = "";
    MPI_File f;
    MPI_Info info, used;
    int flag = 0, length = MPI_MAX_INFO_VAL;
    context("hints");
    new_name(name, sizeof name);
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "cb_buffer_size", "65536"));
    CHECK_OK(MPI_Info_set(info, "no_such_hint_anywhere", "1"));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    CHECK_OK(MPI_File_get_info(f, &used));
#if MPI_AT_LEAST(4, 0)
    CHECK_OK(MPI_Info_get_string(used, "cb_buffer_size", &length, value, &flag));
#else
    CHECK_OK(MPI_Info_get(used, "cb_buffer_size", length, value, &flag));
#endif
    CHECK_EQ(1, flag);
    CHECK_STR("65536", value);
#if MPI_AT_LEAST(4, 1)
    CHECK_OK(MPI_Info_get(used, "mpi_memory_alloc_kinds", MPI_MAX_INFO_VAL - 1, value, &flag));
    if (flag || !known_limit("MPICH")) CHECK(flag && strstr(value, "mpi") && strstr(value, "system"));
#endif
    CHECK_OK(MPI_Info_free(&used));
    CHECK_OK(MPI_Info_set(info, "cb_buffer_size", "131072"));
    CHECK_OK(MPI_File_set_info(f, info));
    CHECK_OK(MPI_File_set_info(f, MPI_INFO_NULL));
    CHECK_OK(MPI_Info_free(&info));
    close_and_delete(&f, name);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    explicit_offsets();
    individual_pointer();
    modes();
    sizes();
    hints();
    return finish();
}
