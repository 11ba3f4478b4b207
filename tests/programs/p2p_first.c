/* Goal: the first message between two ranks arrives though its sender computes and does not call
 * MPI again.
 * Method: rank 0 sends one to each other rank, which answers; nothing was exchanged before. Who is
 * through stays outside MPI until all are, which memory of all tells.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPatience = 1000, kInts = 100 };

/* A file that all ranks find without a message: their launcher is the parent of all. */
static int* share(char* file, size_t length) {
    const char* job = getenv("PMIX_NAMESPACE");
    int descriptor;
    void* memory;
    if (job) snprintf(file, length, "/tmp/pomona-first-%s", job);
    else snprintf(file, length, "/tmp/pomona-first-%ld", (long)getppid());
    descriptor = open(file, O_RDWR | O_CREAT, 0600);
    CHECK(descriptor >= 0 && ftruncate(descriptor, sizeof(int[2])) == 0);
    memory = mmap(NULL, sizeof(int[2]), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Outside MPI until so many ranks are. */
static void leave_until(int ranks, int* through) {
    int tries;
    __sync_fetch_and_add(through, 1);
    for (tries = 0; tries < kPatience && __sync_fetch_and_add(through, 0) < ranks; ++tries)
        usleep(10000);
    CHECK(tries < kPatience);
}

int main(int argc, char** argv) {
    char file[300];
    int data[kInts] = {0}, i, *through;
    start(&argc, &argv);
    through = share(file, sizeof file);
    context("the first messages from rank 0");
    for (i = 1; i < check_size && check_rank == 0; ++i) {
        data[0] = i;
        CHECK_OK(MPI_Send(data, kInts, MPI_INT, i, 0, MPI_COMM_WORLD));
    }
    if (check_rank != 0) {
        CHECK_OK(MPI_Recv(data, kInts, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(check_rank, data[0]);
    }
    leave_until(check_size, &through[0]);
    context("the first messages between the others, each to the one above");
    if (check_rank > 0 && check_rank + 1 < check_size)
        CHECK_OK(MPI_Send(data, kInts, MPI_INT, check_rank + 1, 1, MPI_COMM_WORLD));
    if (check_rank > 1)
        CHECK_OK(MPI_Recv(data, kInts, MPI_INT, check_rank - 1, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    leave_until(check_size, &through[1]);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) unlink(file);
    return finish();
}
