/* tests/programs/check.h: the checks every conformance program uses.
 *
 * A program calls start() (or its own MPI_Init and begin_program()), any number of CHECK lines, and returns
 * finish(). A failed check prints file:line, rank, what was expected and what was found; finish()
 * adds the counts of all ranks up, prints "ok NAME checks=N" on rank 0 when all went well, and
 * returns the exit code. A program that checked nothing fails. Plain C11, so that any MPI's compiler
 * wrapper takes it.
 */
#ifndef POMONA_TESTS_PROGRAMS_CHECK_H
#define POMONA_TESTS_PROGRAMS_CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True when the library's headers are at least version major.minor of the standard. */
#define MPI_AT_LEAST(major, minor)                                                                 \
    (MPI_VERSION > (major) || (MPI_VERSION == (major) && MPI_SUBVERSION >= (minor)))

enum { check_failures_shown_max = 20, check_skip_code = 77 };

static const char* check_program = "?";
static int check_rank = -1;
static int check_size = 0;
static long check_count = 0;
static long check_failures = 0;
static char check_note[256] = "";

/* What the next checks are about (an operation, a type, a size); printed with a failure. */
static inline void context(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check_note, sizeof check_note, format, arguments);
    va_end(arguments);
}

/* Counts one check; true when the caller should describe its failure. */
static inline int check_failed(int good) {
    ++check_count;
    if (good) return 0;
    return ++check_failures <= check_failures_shown_max;
}

static inline void check_report(const char* file, int line, const char* format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: rank %d of %d: %s%s%s%s\n", file, line, check_rank, check_size, text,
            check_note[0] ? " [" : "", check_note, check_note[0] ? "]" : "");
}

static inline int check_that(int good, const char* text, const char* file, int line) {
    if (check_failed(good)) check_report(file, line, "expected true: %s", text);
    return good;
}

static inline int check_equal(long long expected, long long found, const char* text,
                              const char* file, int line) {
    if (check_failed(expected == found)) {
        check_report(file, line, "%s: expected %lld, found %lld", text, expected, found);
    }
    return expected == found;
}

static inline int check_near(double expected, double found, double relative, const char* text,
                             const char* file, int line) {
    double scale = expected < 0 ? -expected : expected;
    double error = expected > found ? expected - found : found - expected;
    int good = error <= relative * (scale > 1 ? scale : 1);
    if (check_failed(good)) {
        check_report(file, line, "%s: expected %.17g, found %.17g", text, expected, found);
    }
    return good;
}

static inline int check_string(const char* expected, const char* found, const char* text,
                               const char* file, int line) {
    int good = strcmp(expected, found) == 0;
    if (check_failed(good)) {
        check_report(file, line, "%s: expected \"%s\", found \"%s\"", text, expected, found);
    }
    return good;
}

static inline int check_bytes(const void* expected, const void* found, size_t bytes,
                              const char* text, const char* file, int line) {
    const unsigned char* e = (const unsigned char*)expected;
    const unsigned char* f = (const unsigned char*)found;
    size_t at = 0;
    while (at < bytes && e[at] == f[at]) ++at;
    if (check_failed(at == bytes)) {
        check_report(file, line, "%s: byte %zu of %zu: expected 0x%02x, found 0x%02x", text, at,
                     bytes, e[at], f[at]);
    }
    return at == bytes;
}

/* The error class of what an MPI call returned. */
static inline int class_of(int code) {
    int error_class = MPI_ERR_UNKNOWN;
    if (code == MPI_SUCCESS) return MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

static inline int check_class(int expected, int code, const char* text, const char* file,
                              int line) {
    int found = class_of(code);
    if (check_failed(expected == found)) {
        char message[MPI_MAX_ERROR_STRING] = "success";
        int length = 0;
        if (code != MPI_SUCCESS) MPI_Error_string(code, message, &length);
        check_report(file, line, "%s: expected error class %d, found %d (%.300s)", text, expected,
                     found, message);
    }
    return expected == found;
}

/* As check_class, where the standard leaves two classes open. */
static inline int check_either(int one, int other, int code, const char* text, const char* file,
                               int line) {
    int found = class_of(code);
    return check_class(found == other ? other : one, code, text, file, line);
}

#define CHECK(condition) check_that((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_EQ(expected, found)                                                                  \
    check_equal((long long)(expected), (long long)(found), #found, __FILE__, __LINE__)
#define CHECK_NEAR(expected, found, relative)                                                      \
    check_near((double)(expected), (double)(found), (relative), #found, __FILE__, __LINE__)
#define CHECK_STR(expected, found) check_string((expected), (found), #found, __FILE__, __LINE__)
#define CHECK_MEM(expected, found, bytes)                                                          \
    check_bytes((expected), (found), (bytes), #found, __FILE__, __LINE__)
#define CHECK_OK(call) check_class(MPI_SUCCESS, (call), #call, __FILE__, __LINE__)
#define CHECK_CLASS(expected, call) check_class((expected), (call), #call, __FILE__, __LINE__)
#define CHECK_CLASS2(one, other, call)                                                             \
    check_either((one), (other), (call), #call, __FILE__, __LINE__)

/* The file's name without folder and ending. */
static inline const char* check_name_of(const char* path) {
    static char name[128];
    const char* slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    if (strrchr(name, '.')) *strrchr(name, '.') = '\0';
    return name;
}

static inline void begin_named(const char* path) {
    check_program = check_name_of(path);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
}

static inline void start_named(int* argc, char*** argv, const char* path) {
    int code = MPI_Init(argc, argv);
    if (code != MPI_SUCCESS) {
        fprintf(stderr, "%s: MPI_Init returned %d\n", path, code);
        exit(1);
    }
    begin_named(path);
}

#define begin_program() begin_named(__FILE__)
#define start(argc, argv) start_named((argc), (argv), __FILE__)

/* Ends the program: sums the counts of all ranks; the exit code for main to return. */
static inline int finish(void) {
    long mine[2], all[2] = {0, 1};
    check_note[0] = '\0';
    mine[0] = check_count;
    mine[1] = check_failures;
    if (MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) all[1] = 1;
    if (check_failures > check_failures_shown_max) {
        fprintf(stderr, "%s: rank %d: %ld more failures not shown\n", check_program, check_rank,
                check_failures - check_failures_shown_max);
    }
    if (check_rank == 0) {
        if (all[1] != 0) {
            fprintf(stderr, "%s: %ld of %ld checks failed\n", check_program, all[1], all[0]);
        } else if (all[0] > 0) {
            printf("ok %s checks=%ld\n", check_program, all[0]);
            fflush(stdout);
        } else {
            fprintf(stderr, "%s: nothing was checked\n", check_program);
        }
    }
    if (MPI_Finalize() != MPI_SUCCESS) return 1;
    return all[1] != 0 || all[0] == 0;
}

/* True when the library's version text contains name: for single checks that another library is
 * known not to pass, so that the rest of a program can still be proven on it. */
static inline int known_limit(const char* name) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    return strstr(text, name) != NULL;
}

/* Ends a program that cannot run here. */
static inline int skip(const char* reason) {
    if (check_rank == 0) printf("skip %s: %s\n", check_program, reason);
    MPI_Finalize();
    return check_skip_code;
}

/* A small repeatable generator (xorshift64*, Vigna 2016), the same on all ranks for one seed. */
static inline uint64_t random_next(uint64_t* state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

static inline int random_below(uint64_t* state, int bound) {
    return (int)(random_next(state) % (uint64_t)bound);
}

#endif
