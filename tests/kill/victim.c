/* tests/kill/victim.c: all ranks repeat one operation without end; rank 1 kills itself in the
 * middle.
 * Goal: nobody hangs. Method: argument 1 names the operation (without arguments: lists them); every
 * rank tells its process, and "alive" once it is under way; rank 1 raises SIGKILL after some
 * rounds. Argument 2: "fatal"; "return": the others have MPI_ERRORS_RETURN and end by MPI_Abort at
 * the first error they see; "alone": the same, but they end by themselves, since nobody would end
 * them; "live": nobody kills itself (the launcher is killed from outside). With VICTIM_TABLE, a
 * folder, there is no launcher: ranks meet by its files (MPIX_Wireup_set). Files are made beside
 * the program. "child" as the operation: what the operation "spawned" has started. */
#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 50000
#define WORLD MPI_COMM_WORLD
#define TRY(call) \
    do { \
        int error_ = (call); \
        if (error_) return error_; \
    } while (0)

static int rank, size, left, right;
static double *in, *out, *cells;
static MPI_Comm twin, inter = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL;
static MPI_File file = MPI_FILE_NULL;
static char *program;
static MPI_Request persistent[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

static int put(void *folder, const char *key, const void *value, size_t length) {
    char path[4096], unnamed[4200];
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, key);
    snprintf(unnamed, sizeof unnamed, "%s.%d", path, rank);
    FILE *file = fopen(unnamed, "wb");
    if (!file) return 1;
    size_t written = fwrite(value, 1, length, file);
    return fclose(file) || written != length || rename(unnamed, path);
}

static int get(void *folder, const char *key, void *value, size_t room, size_t *length) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, key);
    FILE *file;
    while (!(file = fopen(path, "rb"))) usleep(1000);
    size_t taken = fread(value, 1, room, file);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    return fclose(file) || (taken < room && taken < *length);
}

static int alive(void) {
    if (printf("alive %d\n", rank) < 0) return 1;
    return fflush(stdout);
}

/* ---- point to point */

static int sendrecv(void) {
    return MPI_Sendrecv(in, 10, MPI_DOUBLE, right, 0, out, 10, MPI_DOUBLE, left, 0, WORLD,
                        MPI_STATUS_IGNORE);
}
static int rendezvous(void) {
    return MPI_Sendrecv(in, COUNT, MPI_DOUBLE, right, 0, out, COUNT, MPI_DOUBLE, left, 0, WORLD,
                        MPI_STATUS_IGNORE);
}
static int ssend(void) {
    MPI_Request request;
    TRY(MPI_Irecv(out, 10, MPI_DOUBLE, left, 0, WORLD, &request));
    TRY(MPI_Ssend(in, 10, MPI_DOUBLE, right, 0, WORLD));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static int bsend(void) {
    static char *room;
    if (!room) {
        room = malloc(1 << 20);
        TRY(MPI_Buffer_attach(room, 1 << 20));
    }
    TRY(MPI_Bsend(in, 1000, MPI_DOUBLE, right, 0, WORLD));
    return MPI_Recv(out, 1000, MPI_DOUBLE, left, 0, WORLD, MPI_STATUS_IGNORE);
}
/* Only sends, to the one that dies, which never receives: the flood is held back, then in vain. */
static int flood(void) {
    MPI_Request request;
    if (rank == 1) return usleep(1000);
    TRY(MPI_Isend(in, 1000, MPI_DOUBLE, 1, 0, WORLD, &request));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static int any_source(void) {
    TRY(MPI_Send(in, 1, MPI_DOUBLE, right, 0, WORLD));
    return MPI_Recv(out, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, MPI_STATUS_IGNORE);
}
static int probe(void) {
    MPI_Status status;
    TRY(MPI_Send(in, 1, MPI_DOUBLE, right, 0, WORLD));
    TRY(MPI_Probe(left, 0, WORLD, &status));
    return MPI_Recv(out, 1, MPI_DOUBLE, left, 0, WORLD, &status);
}
static int iprobe(void) {
    int flag = 0;
    MPI_Status status;
    TRY(MPI_Send(in, 1, MPI_DOUBLE, right, 0, WORLD));
    while (!flag) TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, &status));
    return MPI_Recv(out, 1, MPI_DOUBLE, left, 0, WORLD, &status);
}
static int isendrecv(void) {
    MPI_Request request;
    TRY(MPI_Isendrecv(in, 3000, MPI_DOUBLE, right, 0, out, 3000, MPI_DOUBLE, left, 0, WORLD, &request));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static int sendrecv_replace(void) {
    return MPI_Sendrecv_replace(out, COUNT, MPI_DOUBLE, right, 0, left, 0, WORLD, MPI_STATUS_IGNORE);
}
static int mprobe(void) {
    MPI_Message message;
    MPI_Request request;
    TRY(MPI_Isend(in, 5000, MPI_DOUBLE, right, 0, WORLD, &request));
    TRY(MPI_Mprobe(left, 0, WORLD, &message, MPI_STATUS_IGNORE));
    TRY(MPI_Mrecv(out, 5000, MPI_DOUBLE, &message, MPI_STATUS_IGNORE));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- forms of waiting, for a receive and a send */

static int pair(MPI_Request *requests) {
    TRY(MPI_Irecv(out, 3000, MPI_DOUBLE, left, 0, WORLD, &requests[0]));
    return MPI_Isend(in, 3000, MPI_DOUBLE, right, 0, WORLD, &requests[1]);
}
static int waitall(void) {
    MPI_Request requests[2];
    TRY(pair(requests));
    return MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}
static int waitany(void) {
    MPI_Request requests[2];
    int index;
    TRY(pair(requests));
    TRY(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
    return MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}
static int waitsome(void) {
    MPI_Request requests[2];
    int over = 0, count, indices[2];
    TRY(pair(requests));
    for (; over < 2; over += count)
        TRY(MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE));
    return MPI_SUCCESS;
}
static int test(void) {
    MPI_Request requests[2];
    int flag = 0;
    TRY(pair(requests));
    while (!flag) TRY(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    return MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}
static int testall(void) {
    MPI_Request requests[2];
    int flag = 0;
    TRY(pair(requests));
    while (!flag) TRY(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE));
    return MPI_SUCCESS;
}
static int persistent_p2p(void) {
    if (persistent[0] == MPI_REQUEST_NULL) {
        TRY(MPI_Recv_init(out, 3000, MPI_DOUBLE, left, 0, WORLD, &persistent[0]));
        TRY(MPI_Send_init(in, 3000, MPI_DOUBLE, right, 0, WORLD, &persistent[1]));
    }
    TRY(MPI_Startall(2, persistent));
    return MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
}
static int partitioned(void) {
    int part;
    if (persistent[0] == MPI_REQUEST_NULL) {
        TRY(MPI_Precv_init(out, 4, 500, MPI_DOUBLE, left, 0, WORLD, MPI_INFO_NULL, &persistent[0]));
        TRY(MPI_Psend_init(in, 4, 500, MPI_DOUBLE, right, 0, WORLD, MPI_INFO_NULL, &persistent[1]));
    }
    TRY(MPI_Startall(2, persistent));
    for (part = 0; part < 4; ++part) TRY(MPI_Pready(part, persistent[1]));
    return MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
}

static int testany(void) {
    MPI_Request requests[2];
    int over, flag, index;
    TRY(pair(requests));
    for (over = 0; over < 2; over += flag)
        TRY(MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE));
    return MPI_SUCCESS;
}
static int testsome(void) {
    MPI_Request requests[2];
    int over, count, indices[2];
    TRY(pair(requests));
    for (over = 0; over < 2; over += count)
        TRY(MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE));
    return MPI_SUCCESS;
}

/* ---- collectives */

static int barrier(void) { return MPI_Barrier(WORLD); }
static int bcast(void) { return MPI_Bcast(out, COUNT, MPI_DOUBLE, 1, WORLD); }
/* The same once there is a board: through chunks. */
static int bcast_chunks(void) {
    TRY(MPI_Barrier(WORLD));
    return bcast();
}
static int reduce(void) { return MPI_Reduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, 0, WORLD); }
static int allreduce(void) { return MPI_Allreduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, WORLD); }
static int allreduce_small(void) { return MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, WORLD); }
static int gather(void) {
    int n = COUNT / size;
    return MPI_Gather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 2, WORLD);
}
static int scatter(void) {
    int n = COUNT / size;
    return MPI_Scatter(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 1, WORLD);
}
static int allgather(void) {
    int n = COUNT / size;
    return MPI_Allgather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, WORLD);
}
static int alltoall(void) {
    int n = COUNT / size;
    return MPI_Alltoall(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, WORLD);
}
static int reduce_scatter(void) {
    return MPI_Reduce_scatter_block(in, out, COUNT / size, MPI_DOUBLE, MPI_SUM, WORLD);
}
static int scan(void) { return MPI_Scan(in, out, COUNT, MPI_DOUBLE, MPI_SUM, WORLD); }
static int exscan(void) { return MPI_Exscan(in, out, COUNT, MPI_DOUBLE, MPI_SUM, WORLD); }
/* Members' parts differ in length: rank r has (r + 1) * 100 elements. */
static int allgatherv(void) {
    int counts[64], places[64], i, sum = 0;
    for (i = 0; i < size; ++i) {
        counts[i] = (i + 1) * 100;
        places[i] = sum;
        sum += counts[i];
    }
    return MPI_Allgatherv(in, counts[rank], MPI_DOUBLE, out, counts, places, MPI_DOUBLE, WORLD);
}
static int alltoallw(void) {
    int counts[64], places[64], i;
    MPI_Datatype types[64];
    for (i = 0; i < size; ++i) {
        counts[i] = 500;
        places[i] = 500 * i * (int)sizeof *in;
        types[i] = MPI_DOUBLE;
    }
    return MPI_Alltoallw(in, counts, places, types, out, counts, places, types, WORLD);
}
static int iallreduce(void) {
    MPI_Request request;
    TRY(MPI_Iallreduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, WORLD, &request));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static int ibarrier_test(void) {
    MPI_Request request;
    int flag = 0;
    TRY(MPI_Ibarrier(WORLD, &request));
    while (!flag) TRY(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    return MPI_SUCCESS;
}
static int several(void) {
    MPI_Request requests[3];
    int n = COUNT / size;
    TRY(MPI_Ibcast(out, 100, MPI_DOUBLE, 1, WORLD, &requests[0]));
    TRY(MPI_Ialltoall(in, n, MPI_DOUBLE, out + 100, n - 100, MPI_DOUBLE, WORLD, &requests[1]));
    TRY(MPI_Ireduce(in, cells, 10, MPI_DOUBLE, MPI_SUM, 0, WORLD, &requests[2]));
    return MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
}
static int persistent_allreduce(void) {
    if (persistent[0] == MPI_REQUEST_NULL)
        TRY(MPI_Allreduce_init(in, out, COUNT, MPI_DOUBLE, MPI_SUM, WORLD, MPI_INFO_NULL,
                               &persistent[0]));
    TRY(MPI_Start(&persistent[0]));
    return MPI_Wait(&persistent[0], MPI_STATUS_IGNORE);
}
static int neighbors(void) {
    static MPI_Comm ring = MPI_COMM_NULL;
    int periodic = 1;
    if (ring == MPI_COMM_NULL) TRY(MPI_Cart_create(WORLD, 1, &size, &periodic, 0, &ring));
    return MPI_Neighbor_allgather(in, 2000, MPI_DOUBLE, out, 2000, MPI_DOUBLE, ring);
}

static int ineighbors(void) {
    static MPI_Comm ring = MPI_COMM_NULL;
    MPI_Request request;
    int both[2], weights[2] = {1, 1};
    both[0] = left;
    both[1] = right;
    if (ring == MPI_COMM_NULL)
        TRY(MPI_Dist_graph_create_adjacent(WORLD, 2, both, weights, 2, both, weights, MPI_INFO_NULL,
                                           0, &ring));
    TRY(MPI_Ineighbor_alltoall(in, 1000, MPI_DOUBLE, out, 1000, MPI_DOUBLE, ring, &request));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- communicators: the world with nobody's part missing, and two groups that talk */

static int split(void) {
    MPI_Comm made;
    TRY(MPI_Comm_split(WORLD, rank % 2, rank, &made));
    return MPI_Comm_free(&made);
}
static int comm_dup(void) {
    MPI_Comm made;
    TRY(MPI_Comm_dup(WORLD, &made));
    TRY(MPI_Barrier(made));
    return MPI_Comm_free(&made);
}
static int make_inter(void) {
    MPI_Comm half;
    if (inter != MPI_COMM_NULL) return MPI_SUCCESS;
    TRY(MPI_Comm_split(WORLD, rank == 1, rank, &half));
    return MPI_Intercomm_create(half, 0, WORLD, rank == 1 ? 0 : 1, 9, &inter);
}
static int inter_barrier(void) {
    TRY(make_inter());
    return MPI_Barrier(inter);
}
static int inter_allreduce(void) {
    TRY(make_inter());
    return MPI_Allreduce(in, out, 5000, MPI_DOUBLE, MPI_SUM, inter);
}
static int inter_bcast(void) {
    TRY(make_inter());
    return MPI_Bcast(out, 5000, MPI_DOUBLE, rank == 1 ? MPI_ROOT : 0, inter);
}
static int inter_merge(void) {
    MPI_Comm merged;
    TRY(make_inter());
    TRY(MPI_Intercomm_merge(inter, rank == 1, &merged));
    TRY(MPI_Barrier(merged));
    return MPI_Comm_free(&merged);
}
static int comm_idup(void) {
    MPI_Comm made;
    MPI_Request request;
    TRY(MPI_Comm_idup(WORLD, &made, &request));
    TRY(MPI_Wait(&request, MPI_STATUS_IGNORE));
    TRY(MPI_Barrier(made)); /* without it nothing would be sent */
    return MPI_Comm_free(&made);
}
/* Rank 1 meets the others at a port. */
static int connected(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half;
    if (inter == MPI_COMM_NULL) {
        TRY(MPI_Comm_split(WORLD, rank == 1, rank, &half));
        if (rank == 0) {
            TRY(MPI_Open_port(MPI_INFO_NULL, port));
            TRY(MPI_Send(port, sizeof port, MPI_CHAR, 1, 8, WORLD));
        }
        if (rank == 1) {
            TRY(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 8, WORLD, MPI_STATUS_IGNORE));
            TRY(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
        } else {
            TRY(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
        }
    }
    return inter_allreduce();
}
/* Two further processes, which do the same. */
static int spawned(void) {
    char *arguments[] = {"child", NULL};
    if (inter == MPI_COMM_NULL)
        TRY(MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, WORLD, &inter,
                           MPI_ERRCODES_IGNORE));
    return inter_allreduce();
}
static int inter_sendrecv(void) {
    TRY(make_inter());
    if (rank >= 2) return usleep(1000);  /* the groups are rank 1 and all others */
    return MPI_Sendrecv(in, 5000, MPI_DOUBLE, 0, 0, out, 5000, MPI_DOUBLE, 0, 0, inter,
                        MPI_STATUS_IGNORE);
}

/* ---- windows, over own memory (commands to the target) and allocated ones (shared on one node) */

static int make_window(int allocated) {
    if (window != MPI_WIN_NULL) return MPI_SUCCESS;
    if (allocated)
        TRY(MPI_Win_allocate(COUNT * sizeof(double), sizeof(double), MPI_INFO_NULL, WORLD, &cells,
                             &window));
    else
        TRY(MPI_Win_create(cells, COUNT * sizeof(double), sizeof(double), MPI_INFO_NULL, WORLD, &window));
    return MPI_Win_set_errhandler(window, twin == MPI_COMM_NULL ? MPI_ERRORS_ARE_FATAL
                                                                 : MPI_ERRORS_RETURN);
}
static int fence_put(int allocated) {
    TRY(make_window(allocated));
    TRY(MPI_Win_fence(0, window));
    TRY(MPI_Put(in, 5000, MPI_DOUBLE, right, 0, 5000, MPI_DOUBLE, window));
    return MPI_Win_fence(0, window);
}
static int rma_fence(void) { return fence_put(0); }
static int rma_fence_allocated(void) { return fence_put(1); }
static int lock_add(int allocated, int type) {
    TRY(make_window(allocated));
    TRY(MPI_Win_lock(type, 1, 0, window));
    TRY(MPI_Accumulate(in, 100, MPI_DOUBLE, 1, 0, 100, MPI_DOUBLE, MPI_SUM, window));
    TRY(MPI_Get(out, 100, MPI_DOUBLE, 1, 200, 100, MPI_DOUBLE, window));
    TRY(MPI_Win_flush(1, window));
    return MPI_Win_unlock(1, window);
}
static int rma_lock(void) { return lock_add(0, MPI_LOCK_EXCLUSIVE); }
static int rma_lock_shared(void) { return lock_add(0, MPI_LOCK_SHARED); }
static int rma_lock_allocated(void) { return lock_add(1, MPI_LOCK_EXCLUSIVE); }
/* Rank 1 dies holding the lock of rank 0 that the others want. */
static int rma_holder(void) {
    static int round;
    TRY(make_window(0));
    TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    TRY(MPI_Put(in, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, window));
    if (rank == 1 && ++round == 60) raise(SIGKILL);
    return MPI_Win_unlock(0, window);
}
static int rma_get(void) {
    MPI_Request request;
    static int open;
    TRY(make_window(0));
    if (!open) TRY(MPI_Win_lock_all(0, window));
    open = 1;
    TRY(MPI_Rget(out, 5000, MPI_DOUBLE, right, 0, 5000, MPI_DOUBLE, window, &request));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static int rma_pscw(void) {
    static MPI_Group before = MPI_GROUP_NULL, after = MPI_GROUP_NULL;
    TRY(make_window(0));
    if (before == MPI_GROUP_NULL) {
        MPI_Group all;
        TRY(MPI_Comm_group(WORLD, &all));
        TRY(MPI_Group_incl(all, 1, &left, &before));
        TRY(MPI_Group_incl(all, 1, &right, &after));
    }
    TRY(MPI_Win_post(before, 0, window));
    TRY(MPI_Win_start(after, 0, window));
    TRY(MPI_Put(in, 5000, MPI_DOUBLE, right, 0, 5000, MPI_DOUBLE, window));
    TRY(MPI_Win_complete(window));
    return MPI_Win_wait(window);
}
static int lock_everywhere(void) {
    static int open;
    TRY(make_window(0));
    if (!open) TRY(MPI_Win_lock_all(0, window));
    open = 1;
    return MPI_SUCCESS;
}
static int rma_fetch(void) {
    TRY(lock_everywhere());
    TRY(MPI_Fetch_and_op(in, out, MPI_DOUBLE, right, 0, MPI_SUM, window));
    return MPI_Win_flush(right, window);
}
static int rma_flush_all(void) {
    int i;
    TRY(lock_everywhere());
    for (i = 0; i < size; ++i)
        TRY(MPI_Put(in, 500, MPI_DOUBLE, i, 500 * rank, 500, MPI_DOUBLE, window));
    return MPI_Win_flush_all(window);
}
static int rma_get_accumulate(void) {
    MPI_Request request;
    TRY(lock_everywhere());
    TRY(MPI_Rget_accumulate(in, 100, MPI_DOUBLE, out, 100, MPI_DOUBLE, right, 0, 100, MPI_DOUBLE,
                            MPI_SUM, window, &request));
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static int rma_dynamic(void) {
    MPI_Aint places[64];
    static MPI_Aint there;
    if (window == MPI_WIN_NULL) {
        MPI_Aint own;
        TRY(MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &window));
        TRY(MPI_Win_set_errhandler(window, twin == MPI_COMM_NULL ? MPI_ERRORS_ARE_FATAL
                                                                  : MPI_ERRORS_RETURN));
        TRY(MPI_Win_attach(window, cells, COUNT * sizeof *cells));
        TRY(MPI_Get_address(cells, &own));
        TRY(MPI_Allgather(&own, 1, MPI_AINT, places, 1, MPI_AINT, WORLD));
        there = places[right];
    }
    TRY(MPI_Win_fence(0, window));
    TRY(MPI_Put(in, 5000, MPI_DOUBLE, right, there, 5000, MPI_DOUBLE, window));
    return MPI_Win_fence(0, window);
}
static int rma_make(void) {
    double *memory;
    MPI_Win made;
    TRY(MPI_Win_allocate(1 << 16, 1, MPI_INFO_NULL, WORLD, &memory, &made));
    return MPI_Win_free(&made);
}

/* ---- files: each of these needs all members, since other accesses are no communication */

static int open_file(void) {
    char name[4200];
    if (file != MPI_FILE_NULL) return MPI_SUCCESS;
    snprintf(name, sizeof name, "%s.file", program);
    TRY(MPI_File_open(WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    return MPI_File_set_errhandler(file, twin == MPI_COMM_NULL ? MPI_ERRORS_ARE_FATAL
                                                               : MPI_ERRORS_RETURN);
}
/* Elements of the ranks in turns, so that members move them for each other. */
static int file_collective(void) {
    MPI_Datatype every;
    int viewed = file != MPI_FILE_NULL;
    TRY(open_file());
    if (!viewed) {
        TRY(MPI_Type_vector(500, 1, size, MPI_DOUBLE, &every));
        TRY(MPI_Type_commit(&every));
        TRY(MPI_File_set_view(file, rank * (MPI_Offset)sizeof *in, MPI_DOUBLE, every, "native",
                              MPI_INFO_NULL));
        TRY(MPI_Type_free(&every));
    }
    TRY(MPI_File_write_at_all(file, 0, in, 500, MPI_DOUBLE, MPI_STATUS_IGNORE));
    return MPI_File_read_at_all(file, 0, out, 500, MPI_DOUBLE, MPI_STATUS_IGNORE);
}
static int file_split(void) {
    TRY(open_file());
    TRY(MPI_File_write_at_all_begin(file, rank * 4000, in, 500, MPI_DOUBLE));
    return MPI_File_write_at_all_end(file, in, MPI_STATUS_IGNORE);
}
static int file_ordered(void) {
    TRY(open_file());
    TRY(MPI_File_write_ordered(file, in, 10, MPI_DOUBLE, MPI_STATUS_IGNORE));
    return MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
}
static int file_make(void) {
    TRY(open_file());
    TRY(MPI_File_set_size(file, 1 << 16));
    return MPI_File_close(&file);
}

static int compute(void) { return usleep(1000); }

/* Rank 1 ends in good order and never comes to MPI: main() sees to that. */
static int absent(void) { return MPI_Recv(out, 1, MPI_DOUBLE, 1, 0, WORLD, MPI_STATUS_IGNORE); }

/* Rank 1 dies before anything was exchanged with it: no connection to it has ever come up. */
static int unmet(void) {
    usleep(rank == 1 ? 300000 : 600000);
    if (rank == 1) raise(SIGKILL);
    if (rank == 0) return MPI_Ssend(in, 10, MPI_DOUBLE, 1, 0, WORLD);
    return MPI_Recv(out, 10, MPI_DOUBLE, 1, 0, WORLD, MPI_STATUS_IGNORE);
}

/* Before MPI_Init and in MPI_Finalize: each rank has its part in main(). */
static int init(void) { return MPI_SUCCESS; }
static int finalize(void) { return MPI_SUCCESS; }

#define OPERATION(name) {#name, name}
static const struct { const char *name; int (*round)(void); } operations[] = {
    OPERATION(sendrecv), OPERATION(rendezvous), OPERATION(ssend), OPERATION(bsend), OPERATION(flood),
    OPERATION(any_source), OPERATION(probe), OPERATION(iprobe), OPERATION(mprobe),
    OPERATION(isendrecv), OPERATION(sendrecv_replace), OPERATION(testany), OPERATION(testsome),
    OPERATION(waitall), OPERATION(waitany), OPERATION(waitsome), OPERATION(test), OPERATION(testall),
    OPERATION(persistent_p2p), OPERATION(partitioned),
    OPERATION(barrier), OPERATION(bcast), OPERATION(bcast_chunks), OPERATION(reduce), OPERATION(allreduce),
    OPERATION(allreduce_small), OPERATION(gather), OPERATION(scatter), OPERATION(allgather),
    OPERATION(alltoall), OPERATION(reduce_scatter), OPERATION(scan), OPERATION(exscan),
    OPERATION(iallreduce), OPERATION(ibarrier_test), OPERATION(several),
    OPERATION(persistent_allreduce), OPERATION(neighbors), OPERATION(ineighbors),
    OPERATION(allgatherv), OPERATION(alltoallw),
    OPERATION(split), OPERATION(comm_dup), OPERATION(comm_idup), OPERATION(connected),
    OPERATION(spawned), OPERATION(inter_bcast), OPERATION(inter_merge),
    OPERATION(inter_barrier), OPERATION(inter_allreduce), OPERATION(inter_sendrecv),
    OPERATION(rma_fence), OPERATION(rma_fence_allocated), OPERATION(rma_lock),
    OPERATION(rma_lock_shared), OPERATION(rma_lock_allocated), OPERATION(rma_holder),
    OPERATION(rma_get), OPERATION(rma_pscw), OPERATION(rma_make), OPERATION(rma_fetch),
    OPERATION(rma_flush_all), OPERATION(rma_get_accumulate), OPERATION(rma_dynamic),
    OPERATION(file_collective), OPERATION(file_split), OPERATION(file_ordered), OPERATION(file_make),
    OPERATION(unmet), OPERATION(absent), OPERATION(compute), OPERATION(init), OPERATION(finalize)};
enum { operation_count = sizeof operations / sizeof *operations };

static void introduce(const char *what) {
    const char *id = getenv("POMONA_JOB_ID");
    printf("%s %d job %s\n", what, (int)getpid(), id ? id : "?");
    fflush(stdout);
}

/* What spawned() has started goes on until it sees an error. */
static int child(void) {
    introduce("child");
    MPI_Init(NULL, NULL);
    in = calloc(COUNT, sizeof *in);
    out = calloc(COUNT, sizeof *out);
    MPI_Comm_get_parent(&inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    while (!inter_allreduce()) continue;
    _exit(7);
}

static void begin(const char *how, int early, int without) {
    const char *place = getenv("POMONA_JOB_RANK");
    if (!place) place = getenv("VICTIM_RANK");
    rank = place ? atoi(place) : 0;
    introduce("process");
    if (early) {
        alive();
        usleep(200000);
        if (rank == 1) raise(SIGKILL);
    }
    if (without) {
        alive();
        if (rank == 1) exit(0);
    }
    if (getenv("VICTIM_TABLE")) {
        MPIX_Wireup table = {rank, atoi(getenv("VICTIM_RANKS")), 60, getenv("VICTIM_TABLE"), put, get};
        MPIX_Wireup_set(&table);
    }
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    twin = MPI_COMM_NULL;
    if (strcmp(how, "fatal") != 0) {
        MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
        twin = WORLD;
    }
    in = calloc(COUNT, sizeof *in);
    out = calloc(COUNT, sizeof *out);
    cells = calloc(COUNT, sizeof *cells);
}

int main(int argc, char **argv) {
    const char *how = argc > 2 ? argv[2] : "fatal";
    int (*one_round)(void) = NULL;
    int i, error = 0;
    long round;
    program = argv[0];
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    for (i = 0; i < operation_count; ++i) {
        if (argc < 2) puts(operations[i].name);
        else if (!strcmp(argv[1], operations[i].name)) one_round = operations[i].round;
    }
    if (argc < 2) return 0;
    if (!one_round) return fprintf(stderr, "unknown operation %s\n", argv[1]), 2;
    begin(how, one_round == init, one_round == absent);
    if (one_round == init) one_round = barrier;
    for (round = 0; !error; ++round) {
        if (round == (one_round == unmet ? 0 : 20) && strcmp(argv[1], "init") != 0) {
            alive();
            if (one_round != unmet) MPI_Barrier(WORLD); /* nobody dies before all have told */
        }
        if (one_round == finalize && round > 20) break;
        if (round == 100 && rank == 1 && strcmp(how, "live") != 0) raise(SIGKILL);
        error = one_round();
    }
    if (!error) { /* finalize: rank 1 never gets there */
        if (rank != 1) MPI_Finalize();
        else usleep(300000), raise(SIGKILL);
        return 0;
    }
    fprintf(stderr, "rank %d saw error %d\n", rank, error);
    if (!strcmp(how, "alone")) _exit(7);
    MPI_Abort(WORLD, 3);
}
