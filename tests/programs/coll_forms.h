/* tests/programs/coll_forms.h: one call for the six forms of a collective.
 *
 * do_bcast(form, ...) and its like run the blocking, non-blocking or persistent form, each with int or
 * MPI_Count counts, and complete it, so that a test loops over the forms. Also the communicators that
 * the tests run on. Forms that the headers lack are left out of form_count.
 */
#ifndef POMONA_TESTS_PROGRAMS_COLL_FORMS_H
#define POMONA_TESTS_PROGRAMS_COLL_FORMS_H

#include "check.h"

enum form { Blocking, Nonblocking, Persistent, BlockingLarge, NonblockingLarge, PersistentLarge };
#if MPI_AT_LEAST(4, 0)
enum { form_count = 6 };
#else
enum { form_count = 2 };
#endif
static const char* const form_names[] = {"blocking",     "non-blocking",     "persistent",
                                         "blocking, _c", "non-blocking, _c", "persistent, _c"};

/* Waits for what a non-blocking call returned. */
static inline int complete_request(int code, MPI_Request* request) {
    return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* Starts, waits and frees a persistent request. */
static inline int run_request(int code, MPI_Request* request) {
    if (code == MPI_SUCCESS) code = MPI_Start(request);
    if (code == MPI_SUCCESS) code = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) code = MPI_Request_free(request);
    return code;
}

#if MPI_AT_LEAST(4, 0)
#define LARGE_FORMS(Upper, lower, ...)                                                             \
    case Persistent: return run_request(MPI_##Upper##_init(__VA_ARGS__, MPI_INFO_NULL, &r), &r);   \
    case BlockingLarge: return MPI_##Upper##_c(__VA_ARGS__);                                       \
    case NonblockingLarge: return complete_request(MPI_I##lower##_c(__VA_ARGS__, &r), &r);         \
    case PersistentLarge:                                                                          \
        return run_request(MPI_##Upper##_init_c(__VA_ARGS__, MPI_INFO_NULL, &r), &r);
#else
#define LARGE_FORMS(Upper, lower, ...)
#endif

#define FORMS(Upper, lower, parameters, ...)                                                       \
    static inline int do_##lower parameters {                                                      \
        MPI_Request r = MPI_REQUEST_NULL;                                                          \
        switch (form) {                                                                            \
        case Blocking: return MPI_##Upper(__VA_ARGS__);                                            \
        case Nonblocking:                                                                          \
            return complete_request(MPI_I##lower(__VA_ARGS__, &r), &r);                            \
            LARGE_FORMS(Upper, lower, __VA_ARGS__)                                                 \
        default: return MPI_ERR_OTHER;                                                             \
        }                                                                                          \
    }

FORMS(Bcast, bcast, (enum form form, void* data, int n, MPI_Datatype type, int root, MPI_Comm comm),
      data, n, type, root, comm)
FORMS(Reduce, reduce,
      (enum form form, const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root,
       MPI_Comm comm),
      in, out, n, type, op, root, comm)
FORMS(Allreduce, allreduce,
      (enum form form, const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
       MPI_Comm comm),
      in, out, n, type, op, comm)
FORMS(Scan, scan,
      (enum form form, const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
       MPI_Comm comm),
      in, out, n, type, op, comm)
FORMS(Exscan, exscan,
      (enum form form, const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
       MPI_Comm comm),
      in, out, n, type, op, comm)
FORMS(Reduce_scatter_block, reduce_scatter_block,
      (enum form form, const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
       MPI_Comm comm),
      in, out, n, type, op, comm)
FORMS(Gather, gather,
      (enum form form, const void* in, int sn, MPI_Datatype st, void* out, int rn, MPI_Datatype rt,
       int root, MPI_Comm comm),
      in, sn, st, out, rn, rt, root, comm)
FORMS(Scatter, scatter,
      (enum form form, const void* in, int sn, MPI_Datatype st, void* out, int rn, MPI_Datatype rt,
       int root, MPI_Comm comm),
      in, sn, st, out, rn, rt, root, comm)
FORMS(Allgather, allgather,
      (enum form form, const void* in, int sn, MPI_Datatype st, void* out, int rn, MPI_Datatype rt,
       MPI_Comm comm),
      in, sn, st, out, rn, rt, comm)
FORMS(Alltoall, alltoall,
      (enum form form, const void* in, int sn, MPI_Datatype st, void* out, int rn, MPI_Datatype rt,
       MPI_Comm comm),
      in, sn, st, out, rn, rt, comm)

static inline int do_barrier(enum form form, MPI_Comm comm) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (form) {
    case Nonblocking: return complete_request(MPI_Ibarrier(comm, &r), &r);
#if MPI_AT_LEAST(4, 0)
    case Persistent: return run_request(MPI_Barrier_init(comm, MPI_INFO_NULL, &r), &r);
#endif
    default: return MPI_Barrier(comm);
    }
}

/* The communicators a collective is tried on. */
enum { comm_kinds = 4 };
static const char* const comm_kind_names[] = {"world", "self", "reversed", "odd and even"};

static inline MPI_Comm make_comm(int kind) {
    MPI_Comm comm = MPI_COMM_NULL;
    switch (kind) {
    case 0: CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm)); break;
    case 1: CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm)); break;
    case 2: CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 3, -check_rank, &comm)); break;
    default: CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &comm)); break;
    }
    return comm;
}

/* The element at index i that rank sends to peer; small, so that sums stay exact. */
static inline int element(int rank, int peer, int i) {
    return (rank * 1009 + peer * 101 + i * 7) % 100003 + 1;
}

static inline int* new_ints(size_t n, int value) {
    int* data = (int*)malloc((n + 1) * sizeof(int));
    for (size_t i = 0; i <= n; ++i) data[i] = value;
    return data;
}

/* Compares n ints and the guard after them; one check. */
static inline void check_ints(const int* expected, const int* found, size_t n, int guard,
                              const char* file, int line) {
    size_t i = 0;
    while (i < n && expected[i] == found[i]) ++i;
    if (i < n) {
        check_equal(expected[i], found[i], "element", file, line);
        if (check_failures <= check_failures_shown_max) {
            check_report(file, line, "  at index %zu of %zu", i, n);
        }
        return;
    }
    check_equal(guard, found[n], "element after the end", file, line);
}
#define CHECK_INTS(expected, found, n, guard)                                                      \
    check_ints((expected), (found), (size_t)(n), (guard), __FILE__, __LINE__)

#endif
