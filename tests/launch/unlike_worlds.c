/* tests/launch/unlike_worlds.c: a world that spawns another, whose long double is another one
 * (POMONA_FORMATS, set by what is spawned: test_hosts.py): types with a long double are refused
 * between the two, with a sentence that names both ranks, over the intercommunicator, merged, and
 * over a port; everything else passes. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static const char* side;

#define CHECK(good)                                                                                          \
    do {                                                                                                     \
        if (!(good)) {                                                                                       \
            printf("%s, line %d: " #good "\n", side, __LINE__);                                              \
            fflush(stdout);                                                                                  \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                    \
        }                                                                                                    \
    } while (0)

static void refused(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, class;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (class != MPI_ERR_TYPE || !strstr(text, "has no common format: rank ")) printf("%s: %s\n", side, text);
    CHECK(class == MPI_ERR_TYPE && strstr(text, "has no common format: rank "));
}

/* The two worlds talk by an intercommunicator; `first` sends first. */
static void talk(MPI_Comm other, int first) {
    long double mine = 0.5L, got = 0;
    int number = 7, theirs = 0;
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    if (first) {
        refused(MPI_Send(&mine, 1, MPI_LONG_DOUBLE, 0, 1, other));
        CHECK(MPI_Send(&number, 1, MPI_INT, 0, 2, other) == MPI_SUCCESS);
    } else {
        refused(MPI_Recv(&got, 1, MPI_LONG_DOUBLE, 0, 1, other, MPI_STATUS_IGNORE));
        CHECK(MPI_Recv(&theirs, 1, MPI_INT, 0, 2, other, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(theirs == 7);
    }
    refused(MPI_Allreduce(&mine, &got, 1, MPI_LONG_DOUBLE, MPI_SUM, other));
    theirs = 0;
    CHECK(MPI_Allreduce(&number, &theirs, 1, MPI_INT, MPI_SUM, other) == MPI_SUCCESS);
    CHECK(theirs > 0);
}

int main(int count, char** words) {
    MPI_Comm parent, other, all, met;
    char port[MPI_MAX_PORT_NAME] = "";
    long double mine = 1, sum = 0;
    int rank, in_other;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_parent(&parent);
    side = parent == MPI_COMM_NULL ? "parent" : "child";
    other = parent;
    if (parent == MPI_COMM_NULL)
        CHECK(MPI_Comm_spawn(words[1], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                             MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
    /* Rank 0 of either with rank 0 of the other: who is alone in its own world here. */
    if (rank == 0) {
        MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
        if (parent == MPI_COMM_NULL) refused(MPI_Send(&mine, 1, MPI_LONG_DOUBLE, 0, 5, other));
        else refused(MPI_Recv(&sum, 1, MPI_LONG_DOUBLE, 0, 5, other, MPI_STATUS_IGNORE));
    }
    MPI_Intercomm_merge(other, parent != MPI_COMM_NULL, &all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    refused(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, all));
    refused(MPI_Bcast(&mine, 1, MPI_LONG_DOUBLE, 0, all));
    /* Within one's own world it passes. */
    CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    MPI_Comm_remote_size(other, &in_other);
    CHECK(sum == (parent == MPI_COMM_NULL ? 1 : 2));
    /* By a port. */
    if (parent == MPI_COMM_NULL) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Bcast(port, sizeof port, MPI_CHAR, MPI_ROOT, other);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &met);
    } else {
        MPI_Bcast(port, sizeof port, MPI_CHAR, 0, other);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &met);
    }
    if (rank == 0 && parent == MPI_COMM_NULL) talk(met, 1);
    else if (rank == 0) talk(met, 0);
    else {
        int number = 7, got = 0;
        MPI_Comm_set_errhandler(met, MPI_ERRORS_RETURN);
        refused(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, met));
        CHECK(MPI_Allreduce(&number, &got, 1, MPI_INT, MPI_SUM, met) == MPI_SUCCESS);
    }
    MPI_Comm_disconnect(&met);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
    if (in_other > 0) printf("%s: passed\n", side);
    MPI_Finalize();
    return 0;
}
