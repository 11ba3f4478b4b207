/* Goal: sample sort: gather of samples, broadcast of splitters, alltoall of counts, alltoallv of
 * keys.
 * Method: the result is sorted within and across ranks and holds the same keys (sum and count).
 */
#include "check.h"

static int compare(const void* a, const void* b) {
    uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char** argv) {
    int n, p, i, r, total = 0, *to, *from, *at_to, *at_from;
    uint64_t state, *keys, *samples, *splitters, *sorted, sums[2] = {0, 0}, all[2], edge, last = 0;
    start(&argc, &argv);
    p = check_size;
    n = 20000 + 1000 * check_rank;
    state = (uint64_t)check_rank * 977 + 5;
    keys = malloc((size_t)n * 8);
    for (i = 0; i < n; ++i) keys[i] = random_next(&state) >> 20, sums[0] += keys[i];
    qsort(keys, (size_t)n, 8, compare);
    samples = malloc((size_t)p * p * 8), splitters = malloc((size_t)p * 8);
    for (i = 0; i < p; ++i) splitters[i] = keys[(size_t)n * i / p];
    CHECK_OK(MPI_Gather(splitters, p, MPI_UINT64_T, samples, p, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    if (check_rank == 0) {
        qsort(samples, (size_t)p * p, 8, compare);
        for (i = 1; i < p; ++i) splitters[i - 1] = samples[i * p];
    }
    CHECK_OK(MPI_Bcast(splitters, p - 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    to = calloc((size_t)p, 4), from = calloc((size_t)p, 4);
    at_to = calloc((size_t)p, 4), at_from = calloc((size_t)p, 4);
    for (r = i = 0; i < n; ++i) {
        while (r < p - 1 && keys[i] >= splitters[r]) ++r;
        ++to[r];
    }
    CHECK_OK(MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD));
    for (r = 0; r < p; ++r) {
        if (r > 0) at_to[r] = at_to[r - 1] + to[r - 1], at_from[r] = at_from[r - 1] + from[r - 1];
        total += from[r];
    }
    sorted = malloc(((size_t)total + 1) * 8);
    CHECK_OK(MPI_Alltoallv(keys, to, at_to, MPI_UINT64_T, sorted, from, at_from, MPI_UINT64_T,
                           MPI_COMM_WORLD));
    qsort(sorted, (size_t)total, 8, compare);
    CHECK_OK(MPI_Allreduce(sums, all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    for (i = 0; i < total; ++i) sums[1] += sorted[i];
    CHECK_OK(MPI_Allreduce(&sums[1], &all[1], 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all[0] == all[1]);
    CHECK_OK(MPI_Allreduce(&total, &i, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(20000 * p + 1000 * p * (p - 1) / 2, i);
    edge = total > 0 ? sorted[total - 1] : 0;
    CHECK_OK(MPI_Exscan(&edge, &last, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD));
    if (check_rank > 0 && total > 0) CHECK(last <= sorted[0]);
    free(keys), free(samples), free(splitters), free(sorted);
    free(to), free(from), free(at_to), free(at_from);
    return finish();
}
