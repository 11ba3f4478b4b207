/* tests/bench/many_ranks.c: what a rank's memory comes to among many ranks of one machine.
 * Idea: every pair of ranks exchanges so much, in messages of two sizes, and then rank 0 tells, for
 * each stage, the greatest of all ranks' resident memory, share of resident memory (shared pages
 * divided among their users) and address space, and what the job's files in /dev/shm hold. Stages:
 * after MPI_Init, after a message of 8 bytes between all pairs, and after 512 KB between all pairs.
 * A line of JSON a stage; many_ranks.py runs it. Linux only. */
#include <mpi.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size;

/* Kilobytes of a line of a file of /proc/self. */
static long read_kb(const char *file, const char *key) {
    char line[256];
    long kb = -1;
    FILE *in = fopen(file, "r");
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, key, strlen(key))) kb = atol(line + strlen(key));
    if (in) fclose(in);
    return kb;
}

/* What stands in /dev/shm for this job, in kilobytes. */
static long shared_kb(void) {
    char prefix[128], path[512];
    const char *id = getenv("POMONA_JOB_ID");
    long kb = 0;
    struct dirent *entry;
    DIR *directory = opendir("/dev/shm");
    snprintf(prefix, sizeof prefix, "pomona-%s-", id ? id : "");
    while (directory && (entry = readdir(directory))) {
        struct stat status;
        if (strncmp(entry->d_name, prefix, strlen(prefix))) continue;
        snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
        if (stat(path, &status) == 0) kb += status.st_blocks / 2;
    }
    if (directory) closedir(directory);
    return kb;
}

/* The shares are read one rank after the other: the system walks all pages for each. */
static void tell(const char *stage) {
    long mine[3], most[3], token = 0;
    if (rank > 0) MPI_Recv(&token, 1, MPI_LONG, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mine[0] = read_kb("/proc/self/status", "VmRSS:");
    mine[1] = read_kb("/proc/self/smaps_rollup", "Pss:");
    mine[2] = read_kb("/proc/self/status", "VmSize:");
    if (rank + 1 < size) MPI_Send(&token, 1, MPI_LONG, rank + 1, 7, MPI_COMM_WORLD);
    MPI_Reduce(mine, most, 3, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("{\"stage\": \"%s\", \"ranks\": %d, \"resident_kb\": %ld, \"share_kb\": %ld, "
               "\"address_space_kb\": %ld, \"dev_shm_kb\": %ld}\n",
               stage, size, most[0], most[1], most[2], shared_kb());
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void exchange(char *in, char *out, int bytes, int times) {
    int step, i;
    for (step = 1; step < size; ++step)
        for (i = 0; i < times; ++i)
            MPI_Sendrecv(in, bytes, MPI_CHAR, (rank + step) % size, 0, out, bytes, MPI_CHAR,
                         (rank + size - step) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    char *in, *out;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    in = calloc(1, 8192);
    out = calloc(1, 8192);
    tell("after MPI_Init");
    exchange(in, out, 8, 1);
    tell("after 8 bytes between all pairs");
    exchange(in, out, 8192, 64);
    tell("after 512 KB between all pairs");
    MPI_Finalize();
    free(in);
    free(out);
    return 0;
}
