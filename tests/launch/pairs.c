/* tests/launch/pairs.c: all pairs of ranks send each other messages in rounds, short and long ones,
 * which tell their sender, receiver, round and length, and check all that they get: one that is
 * lost, doubled or late shows. For test_hosts_cards.py.
 *     pairs FILE [BYTES]
 * In FILE stands a number. When it rises each rank prints the paths to all others, a line each with
 * the number, its own rank and the other one before it, and goes on; 0 ends the program. */
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kShort = 48, kText = 1 << 16 };

static int rank, size;

static int faulty(const char* what, int peer, int round) {
    fprintf(stderr, "rank %d, round %d: %s of rank %d\n", rank, round, what, peer);
    return MPI_Abort(MPI_COMM_WORLD, 9);
}

static unsigned value(int from, int to, int round, int length, int i) {
    return ((unsigned)from * 31u + (unsigned)to) * 1000003u + (unsigned)round * 8191u + (unsigned)length +
           (unsigned)i * 2654435761u;
}

/* In numbers; the second message of a round is long. */
static int length_of(int from, int to, int round, int which, int longest) {
    return which == 0 ? 1 + (from + to + round) % kShort : longest - (from + to + round) % kShort;
}

/* Of rank 0: what the test asks for. */
static int asked(const char* path) {
    int number = 0;
    FILE* file = fopen(path, "r");
    if (!file || fscanf(file, "%d", &number) != 1) number = -1;
    if (file) fclose(file);
    return number;
}

static void tell_paths(int number, int round) {
    static char text[kText], whole[kText];
    int used = 0;
    for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        int length = sizeof text;
        MPIX_Link_paths(MPI_COMM_WORLD, peer, text, &length);
        for (char* line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            used += snprintf(whole + used, sizeof whole - (size_t)used, "%d\t%d\t%d\t%s\n", number, rank, peer, line);
    }
    printf("%s%d\t%d\tround\t%d\n", whole, number, rank, round);
    fflush(stdout);
}

int main(int count, char** words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int longest = (count > 2 ? atoi(words[2]) : 1 << 18) / (int)sizeof(unsigned), seen = -1, now = -1, round, flag;
    unsigned* data = malloc((size_t)size * 4 * (size_t)longest * sizeof *data);
    MPI_Request* requests = malloc((size_t)size * 4 * sizeof *requests);
    MPI_Status* statuses = malloc((size_t)size * 4 * sizeof *statuses);
    for (round = 0; now != 0; ++round) {
        int n = 0;
        for (int peer = 0; peer < size; ++peer)
            for (int which = 0; which < 2 && peer != rank; ++which, ++n)
                MPI_Irecv(data + (size_t)n * (size_t)longest, longest, MPI_UNSIGNED, peer, which, MPI_COMM_WORLD, &requests[n]);
        int received = n;
        for (int peer = 0; peer < size; ++peer)
            for (int which = 0; which < 2 && peer != rank; ++which, ++n) {
                unsigned* out = data + (size_t)n * (size_t)longest;
                int length = length_of(rank, peer, round, which, longest);
                for (int i = 0; i < length; ++i) out[i] = value(rank, peer, round, length, i);
                MPI_Isend(out, length, MPI_UNSIGNED, peer, which, MPI_COMM_WORLD, &requests[n]);
            }
        MPI_Waitall(n, requests, statuses);
        for (n = 0; n < received; ++n) {
            const unsigned* in = data + (size_t)n * (size_t)longest;
            int got, peer = statuses[n].MPI_SOURCE, length = length_of(peer, rank, round, statuses[n].MPI_TAG, longest);
            MPI_Get_count(&statuses[n], MPI_UNSIGNED, &got);
            if (got != length) return faulty("another length", peer, round);
            for (int i = 0; i < length; ++i)
                if (in[i] != value(peer, rank, round, length, i)) return faulty("another message", peer, round);
        }
        if (rank == 0) now = asked(words[1]);
        MPI_Bcast(&now, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (now > 0 && now != seen) tell_paths(now, round);
        seen = now;
    }
    /* What has come twice is here now, or comes soon. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (double end = MPI_Wtime() + 0.2; MPI_Wtime() < end;) {
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        if (flag) return faulty("a message too many", status.MPI_SOURCE, round);
    }
    printf("rank %d: all is well\n", rank);
    free(data), free(requests), free(statuses);
    MPI_Finalize();
    return 0;
}
