// mpi/io/posix.h: one open file of the operating system, and what its errors mean in MPI.
// Idea: everything that differs between Linux and macOS about files stands in posix.cc: locks that
// belong to the open file, how much one call may transfer, preallocation, and reaching the disk.
// Calls that are interrupted or transfer a part only are continued here; results are errno values.
#pragma once

#include "mpi/include/mpi.h"

#include <cstddef>
#include <string>

namespace pomona {

// What an operation on a file ends with: an MPI error class, and a sentence for the user.
struct IoError {
    int error = MPI_SUCCESS;
    std::string sentence;
    explicit operator bool() const { return error != MPI_SUCCESS; }
};

// The error class for an errno value of a file operation.
int io_error_class(int os_errno);
// "Cannot open "name": Permission denied; give yourself the right ..." with that class.
IoError io_error(const std::string& doing, const std::string& name, int os_errno);

class PosixFile {
public:
    PosixFile() = default;
    PosixFile(const PosixFile&) = delete;
    PosixFile& operator=(const PosixFile&) = delete;
    ~PosixFile() { close(); }

    // All return 0 or an errno value. `flags` are open(2)'s.
    int open(const char* path, int flags, unsigned permissions);
    int close();
    bool is_open() const { return descriptor_ >= 0; }

    // `done` tells how many bytes were transferred; a read that meets the end has fewer.
    int read_at(void* to, size_t length, MPI_Offset offset, size_t& done) const;
    int write_at(const void* from, size_t length, MPI_Offset offset, size_t& done) const;

    int size(MPI_Offset& bytes) const;
    int truncate(MPI_Offset bytes) const;
    // Makes room for `bytes` bytes; the file grows to that, and never shrinks.
    int preallocate(MPI_Offset bytes) const;
    // Data reach the storage device.
    int sync() const;

    // A lock on [offset, offset + length), length 0: to the end; waits. Locks exclude other
    // openings of the file, in this process too where the system can.
    int lock(MPI_Offset offset, MPI_Offset length, bool exclusive) const;
    int unlock(MPI_Offset offset, MPI_Offset length) const;

private:
    int descriptor_ = -1;
};

}  // namespace pomona
