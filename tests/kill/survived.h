/* tests/kill/survived.h: what the programs of survive.py have in common. */
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);                 \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

static int rank;

static int class_of(int code) {
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    return found;
}
