// mpi/abi/file_internal.h: what the files about MPI files share: handles, the way of errors, and
// the decoding of data accesses.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/io/file.h"

namespace pomona {

inline File* resolve(MPI_File handle) {
    return static_cast<File*>(resolve_any(handle, Kind::file));
}

// Calls the file's error handler (null: that of MPI_FILE_NULL) and returns the code.
int fail_file(const char* function, File* file, int code, const std::string& sentence);
// MPI_SUCCESS, or the same for an operation's end.
int report_file(const char* function, File* file, const IoError& result);

// Declares `file`, the file that `fh` means, or returns MPI_ERR_FILE.
#define FILE_ARGUMENT()                                                                            \
    REQUIRE_RUNNING();                                                                             \
    File* file = resolve(fh);                                                                      \
    FILE_REQUIRE(file, MPI_ERR_FILE, "fh is not an open file")

#define FILE_REQUIRE(condition, code, ...)                                                         \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            return ::pomona::fail_file(__func__, file, code, ::pomona::format(__VA_ARGS__));       \
    } while (0)

// Where an access is.
enum class Where { offset, individual, shared };

// One call's access, decoded. `fault` tells what is wrong with the arguments: independent calls
// report it, collective ones take it along, so that the other members do not wait.
struct FileCall {
    FileCall(const char* function, File* file, bool write) : function(function), file(file) {
        access.write = write;
    }
    // `offset` counts for Where::offset only. The individual pointer moves when nothing is wrong.
    void decode(Where place, MPI_Offset offset, const void* buffer, MPI_Count count,
                MPI_Datatype type);
    // Independent access to its end; the shared pointer moves here.
    IoError run(MPI_Count& bytes);

    const char* function;
    File* file;
    Where where = Where::offset;
    Transfer access;
    IoError fault;
};

// Tells the user: status, error handler. `bytes` were transferred.
int finish_access(const FileCall& call, const IoError& result, MPI_Count bytes, MPI_Status* status);
// The same with a request, which is complete; after an error there is none.
int finish_access(const FileCall& call, const IoError& result, MPI_Count bytes,
                  MPI_Request* request);

}  // namespace pomona
