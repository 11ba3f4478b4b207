/* Goal: mistakes in collectives and what follows is told, never a hang (MPI-5.0 sections 6.1,
 * 7.4.4, 8.5): one buffer for both sides, different lengths, and results after errors. Method: each
 * mistake on all ranks at once, with MPI_ERRORS_RETURN; the error class is compared.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* The own block must not be in both buffers. Every rank makes the mistake, so nobody waits. */
static void one_buffer(MPI_Comm comm) {
    int all[64] = {0}, counts[16], displs[16], i;
    for (i = 0; i < check_size; ++i) counts[i] = 2, displs[i] = 2 * i;
    context("one buffer");
    CHECK_EQ(MPI_ERR_BUFFER,
             class_of(MPI_Allgather(all + 2 * check_rank, 2, MPI_INT, all, 2, MPI_INT, comm)));
    CHECK_EQ(MPI_ERR_BUFFER, class_of(MPI_Allgatherv(all + 2 * check_rank, 2, MPI_INT, all, counts,
                                                     displs, MPI_INT, comm)));
    CHECK_EQ(MPI_ERR_BUFFER, class_of(MPI_Alltoall(all, 2, MPI_INT, all, 2, MPI_INT, comm)));
    CHECK_EQ(MPI_ERR_BUFFER, class_of(MPI_Alltoallv(all, counts, displs, MPI_INT, all, counts,
                                                    displs, MPI_INT, comm)));
    CHECK_EQ(MPI_ERR_BUFFER, class_of(MPI_Allreduce(all, all, 2, MPI_INT, MPI_SUM, comm)));
    /* Rooted ones on a communicator of this rank alone, where everybody is the root. */
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_EQ(MPI_ERR_BUFFER,
             class_of(MPI_Gather(all, 2, MPI_INT, all, 2, MPI_INT, 0, MPI_COMM_SELF)));
    CHECK_EQ(MPI_ERR_BUFFER, class_of(MPI_Gatherv(all, 2, MPI_INT, all, counts, displs, MPI_INT, 0,
                                                  MPI_COMM_SELF)));
    CHECK_EQ(MPI_ERR_BUFFER,
             class_of(MPI_Scatter(all, 2, MPI_INT, all, 2, MPI_INT, 0, MPI_COMM_SELF)));
    CHECK_EQ(MPI_ERR_BUFFER, class_of(MPI_Scatterv(all, counts, displs, MPI_INT, all, 2, MPI_INT, 0,
                                                   MPI_COMM_SELF)));
}

/* The others' counts differ from the root's: they are told, both ways round. */
static void lengths(MPI_Comm comm) {
    int data[10] = {0}, error;
    context("the root sends less");
    error = MPI_Bcast(data, check_rank == 0 ? 1 : 10, MPI_INT, 0, comm);
    if (check_rank != 0) CHECK(error != MPI_SUCCESS);
    CHECK_OK(MPI_Barrier(comm));
    context("the root sends more");
    error = MPI_Bcast(data, check_rank == 0 ? 10 : 1, MPI_INT, 0, comm);
    if (check_rank != 0) CHECK(error != MPI_SUCCESS);
    CHECK_OK(MPI_Barrier(comm));
}

/* Counts so far apart that members choose different algorithms, with messages that do not answer
 * each other: all end, and what they do next is right. */
static void far_apart(MPI_Comm comm) {
    static const int counts[] = {1, 5000, 60000, 2000000};
    int* in = calloc(counts[3], sizeof(int));
    int* out = calloc(counts[3], sizeof(int));
    int a, b, one = 1, sum, failed, failures;
    for (a = 0; a < 4; ++a) {
        for (b = 0; b < 4; ++b) {
            int count = check_rank == 0 ? counts[a] : counts[b];
            context("%d ints at rank 0, %d at the others", counts[a], counts[b]);
            failed = MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS;
            CHECK_OK(MPI_Allreduce(&failed, &failures, 1, MPI_INT, MPI_SUM, comm));
            CHECK(a == b || check_size == 1 ? failures == 0 : failures > 0);
            failed = MPI_Bcast(in, count, MPI_INT, 0, comm) != MPI_SUCCESS;
            if (a != b && check_rank != 0) CHECK(failed);
            CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK_EQ(check_size, sum);
            /* Blocks of the same length everywhere, of which there are more at rank 0. */
            failed = MPI_Allgather(in, count / check_size, MPI_INT, out, count / check_size, MPI_INT,
                                   comm) != MPI_SUCCESS;
            CHECK(a != b || !failed);
            CHECK_OK(MPI_Barrier(comm));
        }
    }
    free(in);
    free(out);
}

/* MPI_IN_PLACE at one rank only is a mistake: right sums all the same, or an error, at every
 * rank. */
static void place_of_one(MPI_Comm comm) {
    static const int counts[] = {100, 4000, 64000, 2000000};
    for (int c = 0; c < 4; ++c) {
        int count = counts[c];
        int* in = malloc(count * sizeof(int));
        int* out = malloc(count * sizeof(int));
        context("MPI_IN_PLACE at rank 0 only, %d ints", count);
        for (int i = 0; i < count; ++i) in[i] = out[i] = check_rank + i % 7;
        int error = MPI_Allreduce(check_rank == 0 ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, comm);
        int sum = check_size * (check_size - 1) / 2, wrong = 0;
        for (int i = 0; i < count; ++i) wrong += out[i] != sum + i % 7 * check_size;
        CHECK(error != MPI_SUCCESS || wrong == 0);
        if (error != MPI_SUCCESS) { /* who and whom */
            char text[MPI_MAX_ERROR_STRING], mine[40];
            int length;
            CHECK_OK(MPI_Error_string(error, text, &length));
            sprintf(mine, "(rank %d, the member is rank ", check_rank);
            CHECK(strstr(text, "MPI_Allreduce") && strstr(text, mine));
        }
        CHECK_OK(MPI_Barrier(comm));
        free(in);
        free(out);
    }
}

/* Members of one machine may see on a board that another goes another way; where no two share
 * memory all ask each other, and say more. */
static int by_messages(MPI_Comm comm) {
    MPI_Comm near;
    int size, most;
    if (getenv("POMONA_TRANSPORTS")) return 1;
    CHECK_OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    CHECK_OK(MPI_Comm_size(near, &size));
    CHECK_OK(MPI_Comm_free(&near));
    CHECK_OK(MPI_Allreduce(&size, &most, 1, MPI_INT, MPI_MAX, comm));
    return most == 1;
}
static int strict;

enum { BCAST, ALLREDUCE, BARRIER, GATHER, ALLTOALL, SCAN, CALLS };
static const char* const names[] = {"MPI_Bcast", "MPI_Allreduce", "MPI_Barrier",
                                    "MPI_Gather", "MPI_Alltoall", "MPI_Scan"};

static int one_call(int which, int count, int root, void* in, void* out, MPI_Comm comm) {
    switch (which) {
    case BCAST: return MPI_Bcast(out, count, MPI_INT, root, comm);
    case ALLREDUCE: return MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
    case BARRIER: return MPI_Barrier(comm);
    case GATHER: return MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, root, comm);
    case ALLTOALL: return MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm);
    default: return MPI_Scan(in, out, count, MPI_INT, MPI_SUM, comm);
    }
}

/* The sentence of an error: both calls, on the communicator, and two ranks. */
static void names_both(int error, const char* one, const char* other) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK_OK(MPI_Error_string(error, text, &length));
    if (!strict) return;
    int named = strstr(text, one) && strstr(text, other) && strstr(text, "the twin") &&
                strstr(text, "rank ");
    if (!named) printf("rank %d: %s\n", check_rank, text);
    CHECK(named);
}

/* Frees a communicator on which rank 0 has called `one` and the last rank `other`. Ranks that only
 * send have noticed nothing in the calls; now some are told. `failed`: this rank has been. */
static void free_twin(MPI_Comm* twin, const char* one, const char* other, int failed, MPI_Comm comm) {
    int error = MPI_Comm_free(twin), told, any;
    told = error != MPI_SUCCESS;
    CHECK(*twin == MPI_COMM_NULL);
    if (told) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        CHECK_OK(MPI_Error_string(error, text, &length));
        int named = strstr(text, one) && strstr(text, other) && strstr(text, "the twin") &&
                    strstr(text, "rank ");
        if (!named) printf("rank %d: %s\n", check_rank, text);
        CHECK(named);
    }
    told |= failed;
    CHECK_OK(MPI_Allreduce(&told, &any, 1, MPI_INT, MPI_MAX, comm));
    CHECK(!any || strcmp(one, other) != 0);
}

/* The last rank is in another collective than the others: the first one of a communicator, or a
 * later one. Who needs all others gets an error, and every error says what two members called. */
static void different_calls(MPI_Comm comm) {
    static const int counts[] = {1, 5000, 300000};
    int *in = calloc(counts[2] * check_size, sizeof(int));
    int *out = calloc(counts[2] * check_size, sizeof(int));
    int turn = 0;
    for (int a = 0; a < CALLS; ++a)
        for (int b = 0; b < CALLS; ++b, ++turn) {
            MPI_Comm twin;
            int count = counts[turn % 3], later = turn % 2, any = 0, error, failed;
            int mine = check_rank == check_size - 1 ? b : a;
            context("%s, %s at the last rank, %d ints, %s", names[a], names[b], count,
                    later ? "later" : "first");
            CHECK_OK(MPI_Comm_dup(comm, &twin));
            CHECK_OK(MPI_Comm_set_name(twin, "the twin"));
            if (later) CHECK_OK(MPI_Barrier(twin));
            error = one_call(mine, count, 0, in, out, twin);
            failed = error != MPI_SUCCESS;
            if (a == b || check_size == 1) CHECK(!failed);
            else if (strict && (mine == ALLREDUCE || mine == BARRIER || mine == ALLTOALL))
                CHECK(failed);
            if (failed) names_both(error, names[a], names[b]);
            CHECK_OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm));
            /* Ranks that all only send notice nothing. */
            int sends = b == GATHER && (a == BCAST || a == SCAN);
            CHECK(a == b || check_size == 1 ? !any : any || sends || !strict);
            free_twin(&twin, names[a], names[b], failed, comm);
        }
    free(in);
    free(out);
}

/* Short calls of two functions that look alike on a board, after some that were right: whoever
 * needs data of a member that called another one gets an error, which names both. */
static void alike(MPI_Comm comm) {
    int in[64] = {0}, out[64] = {0}, one = 1, sum, size;
    MPI_Comm near;
    CHECK_OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    CHECK_OK(MPI_Comm_size(near, &size));
    CHECK_OK(MPI_Comm_free(&near));
    for (int a = 0; a < CALLS && check_size > 1; ++a)
        for (int b = 0; b < CALLS; ++b) {
            MPI_Comm twin;
            int error, failed, any = 0, mine = check_rank == check_size - 1 ? b : a;
            if (a == b) continue;
            context("%s, %s at the last rank", names[a], names[b]);
            CHECK_OK(MPI_Comm_dup(comm, &twin));
            CHECK_OK(MPI_Comm_set_name(twin, "the twin"));
            for (int round = 0; round < 3; ++round)
                CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin));
            error = one_call(mine, 1, 0, in, out, twin);
            failed = error != MPI_SUCCESS;
            if (failed && size == check_size) {
                char text[MPI_MAX_ERROR_STRING];
                int length;
                CHECK_OK(MPI_Error_string(error, text, &length));
                int named = strstr(text, names[a]) && strstr(text, names[b]) && strstr(text, "rank ");
                if (!named) printf("rank %d: %s\n", check_rank, text);
                CHECK(named);
            }
            CHECK_OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm));
            CHECK(any || (b == GATHER && (a == BCAST || a == SCAN))); /* who only sends sees nothing */
            free_twin(&twin, names[a], names[b], failed, comm);
        }
}

/* The last rank names another root. */
static void different_roots(MPI_Comm comm) {
    static const int calls[] = {BCAST, GATHER}, counts[] = {3, 200000};
    int *in = calloc(counts[1] * check_size, sizeof(int));
    int *out = calloc(counts[1] * check_size, sizeof(int));
    for (int c = 0; c < 2 && check_size > 1; ++c)
        for (int n = 0; n < 2; ++n) {
            MPI_Comm twin;
            int failed, any, root = check_rank == check_size - 1 ? check_size - 1 : 0, error;
            context("%s of %d ints, the last rank has another root", names[calls[c]], counts[n]);
            CHECK_OK(MPI_Comm_dup(comm, &twin));
            CHECK_OK(MPI_Comm_set_name(twin, "the twin"));
            error = one_call(calls[c], counts[n], root, in, out, twin);
            failed = error != MPI_SUCCESS;
            if (failed) names_both(error, "with root 0", names[calls[c]]);
            CHECK_OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm));
            CHECK(any || calls[c] == BCAST || !strict); /* two roots that only send */
            free_twin(&twin, names[calls[c]], "root", failed, comm);
        }
    free(in);
    free(out);
}

/* Rank 0 awaits a block of each, which the last one does not send; nobody else knows. */
static void different_blocks(MPI_Comm comm) {
    int in[64] = {0}, out[64] = {0}, counts[64], displs[64], sends[64], error, failed, any;
    MPI_Comm twin;
    if (check_size == 1) return;
    context("MPI_Alltoallv, the last rank sends nothing to rank 0");
    for (int i = 0; i < check_size; ++i) counts[i] = sends[i] = 1, displs[i] = i;
    if (check_rank == check_size - 1) sends[0] = 0;
    CHECK_OK(MPI_Comm_dup(comm, &twin));
    CHECK_OK(MPI_Comm_set_name(twin, "the twin"));
    error = MPI_Alltoallv(in, sends, displs, MPI_INT, out, counts, displs, MPI_INT, twin);
    failed = error != MPI_SUCCESS;
    if (failed) names_both(error, "MPI_Alltoall", "MPI_Alltoall");
    if (check_rank == 0) CHECK(failed);
    CHECK_OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm));
    CHECK(any);
    free_twin(&twin, "MPI_Alltoall", "rank ", failed, comm);
}

static int refuse(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_ERR_OTHER;
}

static void null_after_errors(MPI_Comm comm) {
    MPI_Comm own, made = comm;
    int key = MPI_KEYVAL_INVALID, dims[1], periods[1] = {0};
    context("no communicator after an error");
    CHECK_OK(MPI_Comm_dup(comm, &own));
    CHECK_OK(MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    CHECK_OK(MPI_Comm_set_attr(own, key, NULL));
    CHECK(MPI_Comm_dup(own, &made) != MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    CHECK_OK(MPI_Comm_free_keyval(&key));
    CHECK_OK(MPI_Comm_free(&own));
    dims[0] = check_size + 1;
    made = comm;
    CHECK(MPI_Cart_create(comm, 1, dims, periods, 0, &made) != MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
}

static int calls = 0;
static void forgive(MPI_Comm* comm, int* code, ...) {
    (void)comm;
    ++calls;
    *code = MPI_SUCCESS;
}

/* A handler that calls the error none: the function still must not go on with wrong arguments. */
static void forgiving_handler(MPI_Comm comm) {
    MPI_Errhandler handler;
    int value = 1;
    context("a forgiving error handler");
    CHECK_OK(MPI_Comm_create_errhandler(forgive, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    MPI_Send(&value, -1, MPI_INT, 0, 0, comm);
    MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, comm);
    MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, comm);
    CHECK_EQ(3, calls);
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&handler));
}

static void hints(MPI_Comm comm) {
    MPI_Info info, used;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 1, length = sizeof value;
    context("hints");
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "pomona_no_such_hint", "true"));
    CHECK_OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    CHECK_OK(MPI_Comm_set_info(comm, info));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Comm_get_info(comm, &used));
    CHECK_OK(MPI_Info_get_string(used, "pomona_no_such_hint", &length, value, &flag));
    CHECK(!flag);
    CHECK_OK(MPI_Info_free(&used));
}

/* On one machine's board too the error of a barrier that meets an allreduce names both calls and
 * ranks. */
static void barrier_on_a_board(MPI_Comm comm) {
    MPI_Comm near;
    int size, one = 1, sum, round, error, length, last = check_rank == check_size - 1;
    char text[MPI_MAX_ERROR_STRING], mine[40];
    CHECK_OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    CHECK_OK(MPI_Comm_size(near, &size));
    CHECK_OK(MPI_Comm_free(&near));
    if (size != check_size || size == 1) return;
    for (round = 0; round < 50; ++round) {
        context("round %d", round);
        error = last ? MPI_Barrier(comm) : MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(error != MPI_SUCCESS);
        if (error == MPI_SUCCESS) continue;
        CHECK_OK(MPI_Error_string(error, text, &length));
        sprintf(mine, "(rank %d, the member is rank ", check_rank);
        int named = strstr(text, "MPI_Barrier") && strstr(text, "MPI_Allreduce") && strstr(text, mine);
        if (!named) fprintf(stderr, "rank %d: %s\n", check_rank, text);
        CHECK(named);
        CHECK_OK(MPI_Barrier(comm));
    }
}

int main(int argc, char** argv) {
    MPI_Comm comm;
    char letters[2] = {1, 2}, sum[2] = {0, 0};
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    one_buffer(comm);
    lengths(comm);
    far_apart(comm);
    place_of_one(comm);
    strict = by_messages(comm);
    different_calls(comm);
    alike(comm);
    different_roots(comm);
    different_blocks(comm);
    barrier_on_a_board(comm);
    null_after_errors(comm);
    forgiving_handler(comm);
    hints(comm);
    context("sum of MPI_CHAR");
    CHECK_OK(MPI_Allreduce(letters, sum, 2, MPI_CHAR, MPI_SUM, comm));
    CHECK(sum[0] == check_size && sum[1] == 2 * check_size);
    CHECK_OK(MPI_Comm_free(&comm));
    return finish();
}
