/* Goal: in a job over several machines the ranks of each use its shared memory, however many ranks
 * the job has. Method: large and small collectives among all ranks and among those of each machine
 * are right, and performance variables tell that boards and their chunks were used, where a machine
 * has no more ranks than POMONA_SHM_BOARD allows.
 */
#include "check.h"
#include "counter.h"

enum { count = 1 << 18 };

static int boards_allowed(int ranks) {
    const char* most = getenv("POMONA_SHM_BOARD");
    const char* transports = getenv("POMONA_TRANSPORTS");
    return ranks > 1 && ranks <= (most ? atoi(most) : 32) && (!transports || strstr(transports, "shm"));
}

static int forced_to_chunks(void) {
    const char* algorithm = getenv("POMONA_ALLREDUCE");
    return algorithm && strstr(algorithm, "chunks");
}

static int* vector;

static void sums(MPI_Comm comm, int n) {
    int i, size, rank;
    CHECK_OK(MPI_Comm_size(comm, &size));
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    for (i = 0; i < n; ++i) vector[i] = rank + i;
    CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, vector, n, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(size * (size - 1) / 2, vector[0]);
    CHECK_EQ(size * (size - 1) / 2 + size * (n - 1), vector[n - 1]);
}

int main(int argc, char** argv) {
    MPI_Comm machine;
    int ranks, extremes[2];
    start(&argc, &argv);
    vector = malloc(count * sizeof *vector);
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    CHECK_OK(MPI_Comm_size(machine, &ranks));
    extremes[0] = ranks, extremes[1] = -ranks;
    CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD));

    context("chunks of each machine, among all");
    counter_start("board_chunks");
    sums(MPI_COMM_WORLD, count);
    sums(MPI_COMM_WORLD, count);
    unsigned long long chunks = counter_end();
    if (extremes[0] < check_size && forced_to_chunks() && ranks > 1)
        CHECK_EQ(boards_allowed(extremes[0]), chunks > 0);

    context("the board of a machine");
    sums(machine, 2);
    counter_start("board_posts");
    sums(machine, 2);
    unsigned long long posts = counter_end();
    CHECK_EQ(boards_allowed(ranks), posts > 0);
    CHECK_OK(MPI_Comm_free(&machine));
    free(vector);
    return finish();
}
