/* tests/programs/io_files.h: names for the files of the io_* programs, and bytes to compare.
 * Files lie in TMPDIR (else /tmp); rank 0 makes the name, all ranks get it.
 */
#ifndef POMONA_TESTS_PROGRAMS_IO_FILES_H
#define POMONA_TESTS_PROGRAMS_IO_FILES_H

#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The same name on all ranks; the file does not exist. */
static inline void new_name(char* name, size_t bytes) {
    static int number = 0;
    const char* folder = getenv("TMPDIR");
    snprintf(name, bytes, "%s/pomona-%s-%ld-%d", folder && *folder ? folder : "/tmp", check_program,
             (long)getpid(), ++number);
    if (check_rank == 0) unlink(name);
    MPI_Bcast(name, (int)bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

/* What lies in the file, by the operating system's calls; -1 when it is not there. */
static inline long plain_read(const char* name, void* to, long offset, long bytes) {
    int file = open(name, O_RDONLY);
    long got;
    if (file < 0) return -1;
    got = (long)pread(file, to, (size_t)bytes, offset);
    close(file);
    return got;
}

static inline int exists(const char* name) {
    struct stat state;
    return stat(name, &state) == 0;
}

static inline void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

#endif
