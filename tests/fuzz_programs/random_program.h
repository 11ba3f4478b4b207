/* tests/fuzz_programs/random_program.h: what the parts of a random program share.
 *
 * random_setting.c makes what a seed's program stands on: random numbers, datatypes, buffers,
 * operations in flight, communicators. random_program.c has messages, collectives and main,
 * random_windows.c one-sided access.
 */
#ifndef POMONA_TESTS_FUZZ_PROGRAMS_RANDOM_PROGRAM_H
#define POMONA_TESTS_FUZZ_PROGRAMS_RANDOM_PROGRAM_H

#include <mpi.h>
/* What a library of an older standard lacks is left out of programs that are compared with it. */
#ifndef FUZZ_VERSION
#define FUZZ_VERSION MPI_VERSION
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern uint64_t seed, checksum;
extern int world_rank, world_size, step;

int below(int bound);
void draw_from(uint64_t number);

/* ---- datatypes, all of MPI_INTs: gaps, negative strides and bounds, overlapping extents never */

enum { types_count = 9, comms_count = 5 };
struct type {
    MPI_Datatype handle;
    int ints;
    MPI_Aint low, length, extent; /* of the data of one element */
};
extern struct type types[types_count];
void make_type(struct type* t, int kind);

/* ---- buffers, and what is in flight */

struct buffer {
    char *memory, *base;
    size_t bytes;
};
struct buffer make_buffer(const struct type* t, int count, uint32_t salt);
void add_buffer(const struct buffer* b, int number);

enum { flight_max = 8 };
struct flight {
    MPI_Request request;
    struct buffer in, out;
    int step, counts, persistent;
    void* numbers; /* counts and displacements that the operation reads */
    MPI_Comm comm; /* of its own, or MPI_COMM_NULL */
};
extern struct flight flights[flight_max];
extern int flying;
void fly(MPI_Request request, struct buffer in, struct buffer out, int counts, int persistent,
         void* numbers);
void land_all(void);

/* ---- communicators: of all, of parts, and between two groups */

struct group {
    MPI_Comm comm;
    int rank, size, remote; /* remote: size of the other group, 0 within one */
    int low;                /* whether this is the first group of an intercommunicator */
};
extern struct group groups[comms_count];
void make_groups(void);
void free_groups(void);

/* Elements of a type, so that a message is about as long as an edge between two protocols. */
int draw_count(const struct type* t, int parts);

/* random_windows.c: a window, and one epoch of it. */
void one_sided(void);

#endif
