/* Goal: offsets and displacements beyond 4 GiB and 2^31 etypes are right (MPI 5.0, section 14.4).
 * Method: sparse files: a few integers at far places, by view, by offset and by pointer; then a
 * filetype whose extent is several GiB. Needs a file system with sparse files of 40 GiB; only pages
 * touched count.
 */
#include "io_files.h"

int main(int argc, char** argv) {
    char name[200];
    MPI_File f;
    MPI_Offset gib = (MPI_Offset)1 << 30, at = -1, size = -1;
    MPI_Datatype far_type, wide;
    MPI_Status s;
    int value, back = -1, k, blocks[2] = {1, 1}, count = -1;
    MPI_Aint places[2] = {0, ((MPI_Aint)5 << 30) + 4};
    start(&argc, &argv);
    new_name(name, sizeof name);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                           MPI_INFO_NULL, &f));
    context("offset");
    value = 1000 + check_rank;
    CHECK_OK(MPI_File_write_at(f, 5 * gib + check_rank * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(5 * gib + check_size * 4, size);
    barrier();
    context("etypes");
    CHECK_OK(MPI_File_set_view(f, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    at = 3 * gib + check_rank;
    CHECK_OK(MPI_File_write_at_all(f, at, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_get_byte_offset(f, at, &size));
    CHECK_EQ(12 * gib + 4 + check_rank * 4, size);
    CHECK_OK(MPI_File_seek(f, 5 * gib / 4 - 1, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read(f, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(1000, back);
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(5 * gib / 4, at);
    CHECK_OK(MPI_File_seek_shared(f, 3 * gib, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read_ordered(f, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(value, back);
    barrier();
    CHECK_OK(MPI_File_seek(f, -1, MPI_SEEK_END));
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(3 * gib + check_size - 1, at);
    /* Two integers 5 GiB apart, again after 6 GiB; rank by rank. */
    context("filetype");
    CHECK_OK(MPI_Type_create_hindexed(2, blocks, places, MPI_INT, &far_type));
    CHECK_OK(MPI_Type_create_resized(far_type, 0, 6 * gib, &wide));
    CHECK_OK(MPI_Type_commit(&wide));
    CHECK_OK(MPI_File_set_view(f, 8192 + check_rank * 8, MPI_INT, wide, "native", MPI_INFO_NULL));
    for (k = 0; k < 3; ++k) {
        int pair[2] = {k * 100 + check_rank, k * 100 + 50 + check_rank};
        CHECK_OK(MPI_File_write_all(f, pair, 2, MPI_INT, &s));
        CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
        CHECK_EQ(2, count);
    }
    CHECK_OK(MPI_File_sync(f));
    barrier();
    for (k = 0; k < 3; ++k) {
        long place = (long)(8192 + k * 6 * gib) + check_rank * 8;
        CHECK_EQ(4, plain_read(name, &back, place, 4));
        CHECK_EQ(k * 100 + check_rank, back);
        CHECK_EQ(4, plain_read(name, &back, place + places[1], 4));
        CHECK_EQ(k * 100 + 50 + check_rank, back);
        CHECK_OK(MPI_File_read_at_all(f, 2 * k + 1, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(k * 100 + 50 + check_rank, back);
    }
    CHECK_OK(MPI_File_get_byte_offset(f, 5, &at));
    CHECK_EQ(8192 + check_rank * 8 + 12 * gib + places[1], at);
    CHECK_OK(MPI_Type_free(&far_type));
    CHECK_OK(MPI_Type_free(&wide));
    barrier();
    /* Further than a file can be. */
    CHECK_OK(MPI_File_set_view(f, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
    if (!known_limit("MPICH"))
        CHECK_CLASS(MPI_ERR_ARG, MPI_File_read_at(f, INT64_MAX / 4, &size, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK(!exists(name));
    return finish();
}
