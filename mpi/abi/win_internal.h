// mpi/abi/win_internal.h: what the files about windows share: handles and the way of errors.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/rma/window.h"

namespace pomona {

inline Window* resolve(MPI_Win handle) {
    return static_cast<Window*>(resolve_any(handle, Kind::window));
}

// Calls the window's error handler and returns the code.
int fail(const char* function, Window& window, int code, const std::string& sentence);
// MPI_SUCCESS, or the same for an operation's end.
int report(const char* function, Window& window, const RmaError& result);

// Calls the users' delete functions (mpi/abi/attribute.cc).
int delete_attributes(Window& window);

// Declares `window`, the window that handle `win` means, or returns MPI_ERR_WIN.
#define WIN_ARGUMENT()                                                                             \
    REQUIRE_RUNNING();                                                                             \
    Window* window = resolve(win);                                                                 \
    REQUIRE(window, nullptr, MPI_ERR_WIN, "win is not a valid window")

#define WIN_REQUIRE(condition, code, ...)                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            return ::pomona::fail(__func__, *window, code, ::pomona::format(__VA_ARGS__));         \
    } while (0)

#define WIN_RANK(rank)                                                                             \
    WIN_REQUIRE((rank) >= 0 && (rank) < window->comm().size(), MPI_ERR_RANK,                       \
                #rank " is {}; the window has {} members", rank, window->comm().size())

}  // namespace pomona
