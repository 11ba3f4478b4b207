/* tests/launch/unlike.c: three ranks, of which rank 1 says that its long double is another
 * (POMONA_FORMATS, set by test_hosts.py): types with a long double are refused where it takes part,
 * with a sentence that names both, and pass between the others; everything else passes
 * everywhere. */
#include "unlike_check.h"

#include <stddef.h>
#include <string.h>
#include <wchar.h>

/* Is it refused, with this in the sentence? */
static void refused(int code, const char* words) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == MPI_ERR_TYPE);
    if (!strstr(text, words)) printf("rank %d: %s\n", rank, text);
    CHECK(strstr(text, words));
}

struct pair {
    int number;
    long double real;
};

int main(int count, char** words) {
    long double mine = 0.5L, got = 0, sum = 0;
    struct pair one = {1, 0.25L}, other = {0, 0};
    wchar_t letter = L'x', theirs = 0;
    double real = 1, total = 0;
    MPI_Datatype mixed, types[2] = {MPI_INT, MPI_LONG_DOUBLE};
    int lengths[2] = {1, 1}, i;
    MPI_Aint places[2] = {offsetof(struct pair, number), offsetof(struct pair, real)};
    MPI_Comm even;
    MPI_Win window;
    long double memory = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_create_struct(2, lengths, places, types, &mixed);
    MPI_Type_commit(&mixed);
    /* Between those who have it alike. */
    if (rank == 0) {
        CHECK(MPI_Send(&mine, 1, MPI_LONG_DOUBLE, 2, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
        CHECK(MPI_Send(&one, 1, mixed, 2, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    }
    if (rank == 2) {
        CHECK(MPI_Recv(&got, 1, MPI_LONG_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(got == mine);
        CHECK(MPI_Recv(&other, 1, mixed, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
              MPI_SUCCESS);
        CHECK(other.number == 1 && other.real == 0.25L);
    }
    /* With the one that has not: both sides are told, also of a type that holds one. */
    for (i = 0; i < 2; ++i) {
        int peer = rank == 1 ? 2 * i : 1;
        if (rank == 2 - 2 * i) continue;
        refused(MPI_Send(&mine, 1, MPI_LONG_DOUBLE, peer, 0, MPI_COMM_WORLD), "MPI_LONG_DOUBLE has no common");
        refused(MPI_Recv(&got, 1, MPI_LONG_DOUBLE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                "take a type that is alike on all systems (MPI_DOUBLE)");
        refused(MPI_Send(&one, 1, mixed, peer, 0, MPI_COMM_WORLD), "a datatype with MPI_LONG_DOUBLE");
        CHECK(MPI_Send(&mine, 0, MPI_LONG_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    }
    if (rank == 0) CHECK(MPI_Send(&letter, 1, MPI_WCHAR, 1, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == 1) {
        CHECK(MPI_Recv(&theirs, 1, MPI_WCHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(theirs == letter);
    }
    /* Of all: every member is told, and the communicator goes on. */
    refused(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
            "rank 0 of the job has a long double of");
    refused(MPI_Bcast(&one, 1, mixed, 0, MPI_COMM_WORLD), "rank 1 a long double of 8 bytes (53");
    CHECK(MPI_Allreduce(&real, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(total == 3);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &even);
    if (rank != 1) {
        CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, even) == MPI_SUCCESS);
        CHECK(sum == 1);
    }
    /* One-sided. */
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, window);
    if (rank == 0) {
        CHECK(MPI_Put(&mine, 1, MPI_LONG_DOUBLE, 2, 0, 1, MPI_LONG_DOUBLE, window) == MPI_SUCCESS);
        refused(MPI_Put(&mine, 1, MPI_LONG_DOUBLE, 1, 0, 1, MPI_LONG_DOUBLE, window), "no common format");
    }
    MPI_Win_fence(0, window);
    CHECK(memory == (rank == 2 ? mine : 0));
    MPI_Win_free(&window);
    MPI_Comm_free(&even);
    MPI_Type_free(&mixed);
    MPI_Finalize();
    printf("rank %d: passed\n", rank);
    return 0;
}
