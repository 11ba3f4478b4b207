/* Goal: one message and one broadcast of more than 2 GiB by the int forms (a large type) and by the
 * MPI_Count forms. Method: 2.25 GiB with a pattern checked at every page and at both ends; runs
 * only with run.py --big, since it needs 5 GiB of memory.
 */
#include "check.h"

int main(int argc, char** argv) {
    const size_t block = 1 << 20, blocks = 2304, bytes = block * blocks;
    unsigned char* data = malloc(bytes);
    MPI_Datatype megabyte;
    MPI_Status s;
    MPI_Count count = -1;
    size_t i;
    int small = 0;
    start(&argc, &argv);
    if (!data) return skip("not enough memory");
    CHECK_OK(MPI_Type_contiguous((int)block, MPI_CHAR, &megabyte));
    CHECK_OK(MPI_Type_commit(&megabyte));
    for (i = 0; i < bytes; i += 4096) data[i] = check_rank ? 0 : (unsigned char)(i / 4096 * 7 + 1);
    data[bytes - 1] = check_rank ? 0 : 99;
    if (check_rank == 0) CHECK_OK(MPI_Send(data, (int)blocks, megabyte, 1, 1, MPI_COMM_WORLD));
    if (check_rank == 1) {
        CHECK_OK(MPI_Recv(data, (int)blocks, megabyte, 0, 1, MPI_COMM_WORLD, &s));
        CHECK_OK(MPI_Get_count(&s, megabyte, &small));
        CHECK_EQ(blocks, small);
        CHECK_OK(MPI_Get_elements_x(&s, MPI_CHAR, &count));
        CHECK_EQ(bytes, count);
        CHECK_OK(MPI_Get_count(&s, MPI_CHAR, &small));
        CHECK_EQ(MPI_UNDEFINED, small);
        for (i = 0; i < bytes && data[i] == (unsigned char)(i / 4096 * 7 + 1); i += 4096) {
        }
        CHECK(i >= bytes);
        CHECK_EQ(99, data[bytes - 1]);
    }
#if MPI_AT_LEAST(4, 0)
    for (i = 0; i < bytes; i += 4096) data[i] = check_rank != 1 ? 0 : (unsigned char)(i / 4096 * 5);
    CHECK_OK(MPI_Bcast_c(data, (MPI_Count)bytes, MPI_CHAR, 1, MPI_COMM_WORLD));
    for (i = 0; i < bytes && data[i] == (unsigned char)(i / 4096 * 5); i += 4096) {
    }
    CHECK(i >= bytes);
#endif
    CHECK_OK(MPI_Type_free(&megabyte));
    free(data);
    return finish();
}
