/* tests/programs/counter.h: one of Pomona's counters, read as a performance variable, and whether all ranks
 * share a machine: what a program checks of the way that its messages went.
 */
#ifndef POMONA_TESTS_PROGRAMS_COUNTER_H
#define POMONA_TESTS_PROGRAMS_COUNTER_H

#include "check.h"

static MPI_T_pvar_session counter_session;
static MPI_T_pvar_handle counter_handle;

static inline void counter_start(const char* name) {
    int provided, index, count;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    CHECK_OK(MPI_T_pvar_session_create(&counter_session));
    CHECK_OK(MPI_T_pvar_handle_alloc(counter_session, index, NULL, &counter_handle, &count));
}

static inline unsigned long long counter_now(void) {
    unsigned long long value = 0;
    CHECK_OK(MPI_T_pvar_read(counter_session, counter_handle, &value));
    return value;
}

static inline unsigned long long counter_end(void) {
    unsigned long long value = counter_now();
    CHECK_OK(MPI_T_pvar_handle_free(counter_session, &counter_handle));
    CHECK_OK(MPI_T_pvar_session_free(&counter_session));
    CHECK_OK(MPI_T_finalize());
    return value;
}

/* Where a test asks for several TCP connections, the further ones have to carry something. */
static inline int streams_asked(void) {
    const char* streams = getenv("POMONA_TCP_STREAMS");
    return check_size > 1 && streams && atoi(streams) > 1;
}

/* By RDMA (rdma_cables.sh) sums are made where their parts arrive. */
static inline int reducing_asked(void) { return check_size > 1 && getenv("RDMA_CABLES"); }

static inline int ranks_here(void) {
    MPI_Comm near;
    int size;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    CHECK_OK(MPI_Comm_size(near, &size));
    CHECK_OK(MPI_Comm_free(&near));
    return size;
}
static inline int one_machine(void) { return ranks_here() == check_size; }

#endif
