// mpi/abi/guard.h: the one place where errors become MPI error codes and reach error handlers.
// Use in the body of an MPI function:
//     Communicator* comm = resolve(comm_handle);
//     REQUIRE(comm, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
//     REQUIRE(count >= 0, comm, MPI_ERR_COUNT, "count is {}; it must not be negative", count);
// The second argument is the communicator whose error handler is called (null: the one of
// MPI_COMM_SELF, as the standard asks). The sentence is printed by MPI_ERRORS_ARE_FATAL and kept
// for MPI_Error_string of the calling thread. An error code is its class; user-defined codes come
// from MPI_Add_error_code.
#pragma once

#include "btl/base/format.h"
#include "mpi/abi/handle.h"

#include <string>
#include <string_view>

namespace pomona {

// Calls the error handler and returns the code. `function` is __func__ of the MPI function.
int fail(const char* function, Communicator* comm, int code, const std::string& sentence);
// The same for what has no communicator but an error handler of its own (sessions).
int fail_with(const char* function, Errhandler* handler, void* handle, int code,
              const std::string& sentence);
// The same where a communicator was to be made without a parent: the handler it was to have.
int fail_new(const char* function, MPI_Errhandler errhandler, int code,
             const std::string& sentence);
// For an error of the library's own making (Result).
int fail(const char* function, Communicator* comm, const Error& error);

// MPI_Send for "PMPI_Send_c".
std::string mpi_name(const char* function);
// Why Datatype::count_most() is exceeded, by the argument `name`, `times` times.
std::string too_many_text(std::string_view name, MPI_Count count, const Datatype& type,
                          MPI_Count times = 1);
// The error class of a Result's code.
int error_class_of(Code code);
// "MPI_ERR_COMM: invalid communicator"; "" for unknown classes. Table in guard.cc.
const char* error_class_text(int error_class);

#define REQUIRE(condition, comm, code, ...)                                                        \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            return ::pomona::fail(__func__, comm, code, ::pomona::format(__VA_ARGS__));            \
    } while (0)

// REQUIRE by the error handler that the caller named for the new communicator.
#define REQUIRE_NEW(condition, errhandler, code, ...)                                              \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            return ::pomona::fail_new(__func__, errhandler, code, ::pomona::format(__VA_ARGS__));  \
    } while (0)

// MPI_SUCCESS where MPI runs; else what fail() returned.
int check_running(const char* function);
// MPI_SUCCESS where MPI runs and, with POMONA_CHECK, the calling thread may call; else what fail()
// returned.
int check_entry(const char* function);
inline int enter(const char* function) {
    bool open = process().open_to_all.load(std::memory_order_relaxed);
    return __builtin_expect(open, 1) ? MPI_SUCCESS : check_entry(function);
}

// Every function that needs MPI to run begins with this; only MPI_Init and a few do not.
#define REQUIRE_RUNNING()                                                                          \
    if (int error = ::pomona::enter(__func__)) return error

}  // namespace pomona
