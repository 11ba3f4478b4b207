/* Goal: sessions may begin on several threads at the same time (MPI-5.0 section 11.3.1: always
 * thread safe), and each can be used at once, also while the first one is still starting the
 * library. Sessions that begin while another thread is in MPI_Finalize can be used, or are
 * refused. Method: threads that begin together, without MPI_Init; each looks at the process sets
 * and makes a communicator of this process alone. Then sessions one after the other beside the
 * world's end.
 */
#include "check.h"
#include <pthread.h>

#if MPI_AT_LEAST(4, 0)
enum { THREADS = 8 };
static pthread_barrier_t together;
static int bad[THREADS];

static void* round_of(void* number) {
    int self = (int)(intptr_t)number, sets = 0, size = 0, sum = 0, code;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info, used;
    MPI_Group group;
    MPI_Comm comm;
    char tag[32];
    bad[self] = 1;
    if (MPI_Info_create(&info) || MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"))
        return NULL;
    pthread_barrier_wait(&together);
    bad[self] = 2;
    if (MPI_Session_init(info, MPI_ERRORS_RETURN, &session)) return NULL;
    bad[self] = 3;
    if (MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets) || sets < 2) return NULL;
    if (MPI_Session_get_info(session, &used) || MPI_Info_free(&used)) return NULL;
    bad[self] = 4;
    if (MPI_Group_from_session_pset(session, "mpi://SELF", &group)) return NULL;
    snprintf(tag, sizeof tag, "thread %d", self);
    code = MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    bad[self] = 5;
    if (code || MPI_Comm_size(comm, &size) || size != 1) return NULL;
    if (MPI_Allreduce(&size, &sum, 1, MPI_INT, MPI_SUM, comm) || sum != 1) return NULL;
    bad[self] = 6;
    if (MPI_Comm_free(&comm) || MPI_Group_free(&group) || MPI_Info_free(&info)) return NULL;
    bad[self] = MPI_Session_finalize(&session) == MPI_SUCCESS ? 0 : 7;
    return NULL;
}

static void* go_on(void* number) {
    int self = (int)(intptr_t)number, i, sets;
    MPI_Info info;
    bad[self] = MPI_Info_create(&info) || MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    pthread_barrier_wait(&together);
    for (i = 0; i < 200; ++i) {
        MPI_Session session = MPI_SESSION_NULL;
        if (MPI_Session_init(info, MPI_ERRORS_RETURN, &session)) continue;
        if (MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets)) bad[self] = 8;
        if (MPI_Session_finalize(&session)) bad[self] = 9;
    }
    if (MPI_Info_free(&info)) bad[self] = 10;
    return NULL;
}

int main(int argc, char** argv) {
    pthread_t threads[THREADS];
    int i, provided;
    check_program = check_name_of(argv[0]);
    pthread_barrier_init(&together, NULL, THREADS);
    for (i = 0; i < THREADS; ++i)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, round_of, (void*)(intptr_t)i));
    for (i = 0; i < THREADS; ++i) CHECK_EQ(0, pthread_join(threads[i], NULL));
    for (i = 0; i < THREADS; ++i) CHECK_EQ(0, bad[i]);
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    for (i = 1; i < THREADS; ++i)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, go_on, (void*)(intptr_t)i));
    pthread_barrier_wait(&together);
    CHECK_OK(MPI_Finalize());
    for (i = 1; i < THREADS; ++i) CHECK_EQ(0, pthread_join(threads[i], NULL));
    for (i = 1; i < THREADS; ++i) CHECK_EQ(0, bad[i]);
    if (check_failures) return 1;
    printf("ok threads_sessions checks=%ld\n", check_count);
    return 0;
}
#else
int main(int argc, char** argv) {
    start(&argc, &argv);
    return skip("needs MPI 4.0");
}
#endif
