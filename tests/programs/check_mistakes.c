/* Goal: with POMONA_CHECK mistakes of a program are told by an error at the call, in a sentence
 * that names who does what, and the program can go on (docs/checking.md). Method: each mistake with
 * MPI_ERRORS_RETURN; class and words are compared, and then the communicator still works.
 */
#include "check.h"
#include "tells.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static MPI_Comm comm;

/* What follows a mistake is right. */
static void goes_on(void) {
    int one = 1, sum = 0;
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(check_size, sum);
}

static void collectives(void) {
    int in[64] = {0}, out[64 * 8] = {0}, zero = check_rank == 0, error;
    double numbers[64] = {0};
    MPI_Request request;
    MPI_Comm made = MPI_COMM_NULL;

    context("different functions");
    error = zero ? MPI_Bcast(in, 2, MPI_INT, 0, comm)
                 : MPI_Allreduce(in, out, 4, MPI_INT, MPI_SUM, comm);
    TELLS(error, MPI_ERR_NOT_SAME, "the twin", "rank 0: MPI_Bcast with root 0 of 2 MPI_INT",
          "MPI_Allreduce with MPI_SUM of 4 MPI_INT", check_size == 2 ? "rank 1:" : "ranks 1");
    goes_on();
    error = zero ? MPI_Barrier(comm) : MPI_Allreduce(in, out, 4, MPI_INT, MPI_SUM, comm);
    TELLS(error, MPI_ERR_NOT_SAME, "rank 0: MPI_Barrier", "MPI_Allreduce");
    goes_on();
    error = zero ? MPI_Comm_dup(comm, &made) : MPI_Barrier(comm);
    TELLS(error, MPI_ERR_NOT_SAME, "rank 0: MPI_Comm_dup", "MPI_Barrier");
    error = zero ? MPI_Comm_split(comm, 0, 0, &made) : MPI_Barrier(comm);
    CHECK_EQ(MPI_ERR_NOT_SAME, class_of(error));
    goes_on();

    context("roots");
    TELLS(MPI_Bcast(in, 2, MPI_INT, zero ? 0 : 1, comm), MPI_ERR_NOT_SAME, "different roots",
          "rank 0: MPI_Bcast with root 0", "MPI_Bcast with root 1");
    goes_on();
    context("operations");
    TELLS(MPI_Allreduce(in, out, 2, MPI_INT, zero ? MPI_MAX : MPI_MIN, comm), MPI_ERR_NOT_SAME,
          "different operations", "MPI_MAX", "MPI_MIN");
    goes_on();
    context("counts");
    TELLS(MPI_Allreduce(in, out, zero ? 3 : 4, MPI_INT, MPI_SUM, comm), MPI_ERR_NOT_SAME,
          "different counts", "of 3 MPI_INT", "of 4 MPI_INT");
    TELLS(MPI_Bcast(in, zero ? 3 : 4, MPI_INT, 0, comm), MPI_ERR_NOT_SAME, "different counts");
    goes_on();
    context("datatypes");
    TELLS(MPI_Reduce(numbers, out, 4, zero ? MPI_FLOAT : MPI_INT, MPI_SUM, 0, comm), MPI_ERR_NOT_SAME,
          "different datatypes", "4 MPI_FLOAT", "4 MPI_INT");
    goes_on();
    context("blocks of a gather");
    TELLS(MPI_Gather(in, zero ? 2 : 1, MPI_INT, out, 2, MPI_INT, 0, comm), MPI_ERR_NOT_SAME,
          "MPI_Gather", "rank 1 sends 1 MPI_INT to rank 0, which receives 2 MPI_INT from it");
    goes_on();
    context("blocks of a scatter");
    TELLS(MPI_Scatter(in, 2, MPI_INT, numbers, zero ? 2 : 4, zero ? MPI_INT : MPI_SHORT, 0, comm),
          MPI_ERR_NOT_SAME, "rank 0 sends 2 MPI_INT to rank 1, which receives 4 MPI_SHORT from it");
    goes_on();
    context("blocks of an alltoallv");
    int counts[64], displs[64], other[64], apart[64];
    for (int i = 0; i < check_size; ++i) counts[i] = other[i] = 1, displs[i] = i, apart[i] = 2 * i;
    if (check_rank == 1) other[0] = 2;
    TELLS(MPI_Alltoallv(in, counts, displs, MPI_INT, out, other, apart, MPI_INT, comm),
          MPI_ERR_NOT_SAME, "rank 0 sends 1 MPI_INT to rank 1, which receives 2 MPI_INT from it");
    goes_on();

    context("buffers of one call that overlap");
    TELLS(MPI_Allreduce(in, in + 3, 4, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER,
          "the buffers of the call share memory, and one of them is written", "MPI_IN_PLACE");
    TELLS(MPI_Iallgather(out + 1, 2, MPI_INT, out, 2, MPI_INT, comm, &request), MPI_ERR_BUFFER,
          "share memory");
    CHECK_OK(MPI_Allreduce(in, in + 4, 4, MPI_INT, MPI_SUM, comm)); /* one behind the other */
    for (int i = 0; i < 64; ++i) in[i] = 0;
    goes_on();

    context("groups of MPI_Comm_create");
    MPI_Group all, some;
    int first[] = {0, 1}, turned[] = {1, 0};
    CHECK_OK(MPI_Comm_group(comm, &all));
    CHECK_OK(MPI_Group_incl(all, 2, zero ? first : turned, &some));
    TELLS(MPI_Comm_create(comm, some, &made), MPI_ERR_NOT_SAME, "the twin", "give unlike groups",
          "rank 0: MPI_Comm_create of ranks 0, 1", "MPI_Comm_create of ranks 1, 0");
    CHECK_OK(MPI_Group_free(&some));
    goes_on();
    /* Disjoint groups, and none, are right. */
    int own[] = {check_rank};
    CHECK_OK(MPI_Group_incl(all, check_rank < 2, own, &some));
    CHECK_OK(MPI_Comm_create(comm, some, &made));
    if (made != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&made));
    CHECK_OK(MPI_Group_free(&some));
    CHECK_OK(MPI_Group_free(&all));
    goes_on();

    context("not blocking");
    if (zero) CHECK_OK(MPI_Ibcast(in, 2, MPI_INT, 0, comm, &request));
    else CHECK_OK(MPI_Iallreduce(in, out, 4, MPI_INT, MPI_SUM, comm, &request));
    TELLS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NOT_SAME, "rank 0: MPI_Ibcast",
          "MPI_Iallreduce");
    goes_on();
    context("blocking and not blocking");
    if (zero) {
        error = MPI_Barrier(comm);
    } else {
        CHECK_OK(MPI_Ibarrier(comm, &request));
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    TELLS(error, MPI_ERR_NOT_SAME, "rank 0: MPI_Barrier", "MPI_Ibarrier");
    goes_on();
    context("persistent");
    error = MPI_Bcast_init(in, 2, MPI_INT, zero ? 0 : 1, comm, MPI_INFO_NULL, &request);
    TELLS(error, MPI_ERR_NOT_SAME, "MPI_Bcast_init with root 0", "MPI_Bcast_init with root 1");
    goes_on();
}

static void types(void) {
    int in[8] = {0}, error;
    float numbers[8] = {0};
    long large[100000 / sizeof(long)] = {0};
    MPI_Status status;
    MPI_Datatype pair, swapped;
    int lengths[] = {1, 1};
    MPI_Aint places[] = {0, 8};
    MPI_Datatype one[] = {MPI_INT, MPI_DOUBLE}, two[] = {MPI_DOUBLE, MPI_INT};
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, one, &pair));
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, two, &swapped));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Type_commit(&swapped));
    if (check_rank == 0) {
        CHECK_OK(MPI_Send(in, 3, MPI_INT, 1, 1, comm));
        CHECK_OK(MPI_Ssend(in, 3, MPI_INT, 1, 2, comm));
        CHECK_OK(MPI_Send(large, 12500, MPI_LONG, 1, 3, comm));
        CHECK_OK(MPI_Send(in, 2, MPI_INT, 1, 4, comm));
        CHECK_OK(MPI_Send(large, 3, pair, 1, 5, comm));
        CHECK_OK(MPI_Send(large, 2, pair, 1, 6, comm));
        CHECK_OK(MPI_Send(in, 2, MPI_INT, 1, 7, comm));
        CHECK_OK(MPI_Send(in, 8, MPI_BYTE, 1, 8, comm));
        /* Right ones: fewer than there is room for, and packed ones. */
        CHECK_OK(MPI_Send(large, 2, pair, 1, 9, comm));
        CHECK_OK(MPI_Send(in, 2, MPI_INT, 1, 10, comm));
        CHECK_OK(MPI_Send(in, 1, MPI_2INT, 1, 11, comm));
    } else if (check_rank == 1) {
        MPI_Request request;
        context("types of a message");
        error = MPI_Recv(numbers, 8, MPI_FLOAT, 0, 1, comm, &status);
        TELLS(error, MPI_ERR_TYPE, "the sender gave 3 MPI_INT", "MPI_Recv takes 8 MPI_FLOAT",
              "rank 1, peer 0, tag 1");
        CHECK_EQ(1, status.MPI_TAG);
        context("of a synchronous one");
        TELLS(MPI_Recv(numbers, 8, MPI_FLOAT, 0, 2, comm, &status), MPI_ERR_TYPE, "3 MPI_INT");
        context("of a long one");
        TELLS(MPI_Recv(large, 12500, MPI_DOUBLE, 0, 3, comm, &status), MPI_ERR_TYPE,
              "12500 MPI_LONG", "12500 MPI_DOUBLE");
        context("from any source, later");
        CHECK_OK(MPI_Irecv(numbers, 8, MPI_FLOAT, MPI_ANY_SOURCE, 4, comm, &request));
        TELLS(MPI_Wait(&request, &status), MPI_ERR_TYPE, "2 MPI_INT", "MPI_Irecv takes");
        context("mixed types");
        TELLS(MPI_Recv(large, 3, swapped, 0, 5, comm, &status), MPI_ERR_TYPE, "MPI_INT, MPI_DOUBLE");
        TELLS(MPI_Recv(large, 100, MPI_INT, 0, 6, comm, &status), MPI_ERR_TYPE, "MPI_INT, MPI_DOUBLE");
        context("matched");
        MPI_Message message;
        CHECK_OK(MPI_Mprobe(0, 7, comm, &message, &status));
        TELLS(MPI_Mrecv(numbers, 8, MPI_FLOAT, &message, &status), MPI_ERR_TYPE, "MPI_Mrecv takes");
        context("bytes");
        TELLS(MPI_Recv(in, 8, MPI_CHAR, 0, 8, comm, &status), MPI_ERR_TYPE, "8 MPI_BYTE");
        context("right ones");
        CHECK_OK(MPI_Recv(large, 100, pair, 0, 9, comm, &status));
        CHECK_OK(MPI_Recv(large, 100, MPI_PACKED, 0, 10, comm, &status));
        CHECK_OK(MPI_Recv(in, 2, MPI_INT, 0, 11, comm, &status));
    }
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Type_free(&swapped));
    goes_on();
}

static void buffers(void) {
    int data[100] = {0}, other[100] = {0};
    MPI_Request first, second = MPI_REQUEST_NULL;
    MPI_Datatype column;
    int peer = check_rank == 0 ? 1 : 0;
    if (check_rank < 2) {
        context("a receive into what another receives");
        CHECK_OK(MPI_Irecv(data, 10, MPI_INT, peer, 1, comm, &first));
        TELLS(MPI_Irecv(data + 9, 10, MPI_INT, peer, 2, comm, &second), MPI_ERR_BUFFER,
              "buf is written while MPI_Irecv (from rank ", "tag 1", "writes the same memory");
        context("a send of it");
        TELLS(MPI_Send(data, 1, MPI_INT, peer, 2, comm), MPI_ERR_BUFFER, "buf is read while MPI_Irecv");
        context("a collective on it");
        TELLS(MPI_Allreduce(MPI_IN_PLACE, data, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF), MPI_ERR_BUFFER,
              "MPI_Irecv");
        context("beside it, and between its elements");
        CHECK_OK(MPI_Send(data + 10, 1, MPI_INT, peer, 1, comm));
        CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Type_vector(10, 1, 10, MPI_INT, &column));
        CHECK_OK(MPI_Type_commit(&column));
        CHECK_OK(MPI_Irecv(data, 1, column, peer, 1, comm, &first));
        CHECK_OK(MPI_Irecv(data + 1, 1, column, peer, 1, comm, &second));
        CHECK_OK(MPI_Send(data + 2, 1, column, peer, 1, comm));
        CHECK_OK(MPI_Send(data + 2, 1, column, peer, 1, comm));
        TELLS(MPI_Send(data + 21, 1, MPI_INT, peer, 1, comm), MPI_ERR_BUFFER, "buf is read");
        CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Type_free(&column));
        context("two sends of one buffer");
        CHECK_OK(MPI_Isend(data, 10, MPI_INT, peer, 1, comm, &first));
        CHECK_OK(MPI_Isend(data, 10, MPI_INT, peer, 1, comm, &second));
        CHECK_OK(MPI_Recv(other, 10, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE));
        context("a receive into what is sent");
        TELLS(MPI_Recv(data, 10, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE), MPI_ERR_BUFFER,
              "buf is written while MPI_Isend (to rank ", "reads the same memory");
        CHECK_OK(MPI_Recv(other, 10, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
        context("both sides of an exchange");
        TELLS(MPI_Sendrecv(data, 2, MPI_INT, peer, 1, data + 1, 2, MPI_INT, peer, 1, comm,
                           MPI_STATUS_IGNORE), MPI_ERR_BUFFER, "sendbuf and recvbuf share memory");
        context("a persistent receive");
        CHECK_OK(MPI_Recv_init(data, 10, MPI_INT, peer, 1, comm, &first));
        CHECK_OK(MPI_Recv_init(data, 10, MPI_INT, peer, 2, comm, &second));
        CHECK_OK(MPI_Start(&first));
        TELLS(MPI_Start(&second), MPI_ERR_BUFFER, "the buffer is written while MPI_Recv_init");
        CHECK_OK(MPI_Send(other, 10, MPI_INT, peer, 1, comm));
        CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Start(&second));
        CHECK_OK(MPI_Send(other, 10, MPI_INT, peer, 2, comm));
        CHECK_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&first));
        CHECK_OK(MPI_Request_free(&second));
    }
    context("a collective under way");
    CHECK_OK(MPI_Ibcast(data, 10, MPI_INT, 0, comm, &first));
    int error = MPI_Recv(data, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE);
    CHECK_OK(error);
    TELLS(MPI_Irecv(data, 1, MPI_INT, peer, 7, comm, &second), MPI_ERR_BUFFER, "while MPI_Ibcast");
    CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
    goes_on();
}

static void requests(void) {
    int in = -1, out = check_rank;
    MPI_Request both[2];
    context("one request twice in an array");
    CHECK_OK(MPI_Irecv(&in, 1, MPI_INT, check_rank, 7, comm, &both[0]));
    both[1] = both[0];
    TELLS(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
          "array_of_requests[0] and [1] are the same request");
    CHECK_OK(MPI_Send(&out, 1, MPI_INT, check_rank, 7, comm));
    CHECK_OK(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
    CHECK_EQ(check_rank, in);
    goes_on();
}

/* Handles that look like addresses of objects, where no memory is: before, inside and at the end of
 * memory that was there, and where it ends within what an object takes. */
static void garbage(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char* memory = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int data[4] = {0}, count;
    context("handles without memory");
    CHECK(memory != MAP_FAILED);
    if (memory == MAP_FAILED) return;
    CHECK_EQ(0, munmap(memory + page, 3 * page));
    CHECK_EQ(0, mprotect(memory, page, PROT_READ));
    char* values[] = {memory + 2 * page, memory + page + 64, memory + 4 * page - 8,
                      memory + page,     memory + page - 8,  memory};
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
        MPI_Request request = (MPI_Request)values[i], two[] = {MPI_REQUEST_NULL, request};
        MPI_Comm bad = (MPI_Comm)values[i], made;
        MPI_Datatype type = (MPI_Datatype)values[i];
        MPI_Info info = (MPI_Info)values[i];
        CHECK_EQ(MPI_ERR_COMM, class_of(MPI_Comm_size(bad, &count)));
        CHECK_EQ(MPI_ERR_COMM, class_of(MPI_Send(data, 1, MPI_INT, 0, 0, bad)));
        CHECK_EQ(MPI_ERR_COMM, class_of(MPI_Barrier(bad)));
        CHECK_EQ(MPI_ERR_COMM, class_of(MPI_Comm_dup(bad, &made)));
        CHECK_EQ(MPI_ERR_TYPE, class_of(MPI_Type_size(type, &count)));
        CHECK_EQ(MPI_ERR_TYPE, class_of(MPI_Send(data, 1, type, 0, 0, comm)));
        CHECK_EQ(MPI_ERR_OP, class_of(MPI_Allreduce(data, data + 2, 1, MPI_INT, (MPI_Op)values[i], comm)));
        CHECK_EQ(MPI_ERR_REQUEST, class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)));
        CHECK_EQ(MPI_ERR_REQUEST, class_of(MPI_Waitall(2, two, MPI_STATUSES_IGNORE)));
        CHECK_EQ(MPI_ERR_GROUP, class_of(MPI_Group_size((MPI_Group)values[i], &count)));
        CHECK_EQ(MPI_ERR_INFO, class_of(MPI_Info_get_nkeys(info, &count)));
        CHECK_EQ(MPI_ERR_WIN, class_of(MPI_Win_fence(0, (MPI_Win)values[i])));
        CHECK_EQ(MPI_ERR_FILE, class_of(MPI_File_close(&(MPI_File){(MPI_File)values[i]})));
    }
    CHECK_EQ(0, munmap(memory, page));
    goes_on();
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    const char* wanted = getenv("POMONA_CHECK");
    if (!wanted || check_size < 2) {
        if (check_rank == 0) printf("skip check_mistakes: needs POMONA_CHECK and 2 ranks\n");
        MPI_Finalize();
        return check_skip_code;
    }
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_name(comm, "the twin"));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    collectives();
    types();
    buffers();
    requests();
    garbage();
    CHECK_OK(MPI_Comm_free(&comm));
    return finish();
}
