// btl/base/waiting.h: what a rank that has waited for long tells of it: in which operation, and for
// whom.
// Idea: a plain value that the engine fills in, a rank puts into its warning, and mpirun collects
// into the job's table (pmix/launch/table.h).
#pragma once

#include "btl/base/bytes.h"

#include <string>
#include <utility>
#include <vector>

namespace pomona {

// What a rank needs of another one before it can go on.
enum class Need : uint8_t {
    message,   // a message, of which nothing has come
    rest,      // the rest of a message that has begun
    receive,   // that it receives what was sent to it
    arrival,   // that it begins the collective operation: it has not
    part,      // its part of a collective operation that it has begun
    answer,    // its answer to a one-sided operation
    lock,      // the lock of its window, which somebody may hold
    unlock,    // that it gives back a window's lock, or gets it and gives it back first
    exposure,  // MPI_Win_post
    complete,  // MPI_Win_complete
    partner,   // that it accepts or connects at the same port
    count_
};

struct Waiting {
    std::string operation;     // as the user called it: "MPI_Recv", "MPI_Wait of an MPI_Irecv"
    std::string communicator;  // "MPI_COMM_WORLD", "a communicator of 3 ranks"; "" without
    std::string detail;        // "from rank 1, tag 5, 8 bytes"; ranks in the communicator
    struct Awaited {
        int rank;  // in the job
        Need need;
        bool operator==(const Awaited&) const = default;
    };
    std::vector<Awaited> awaited;
    bool any = false;       // one of them is enough; else all are needed
    bool releases = false;  // something else may end the wait: a transfer under way, a process
                            // that holds a lock
    // Threads that call MPI here: while fewer wait, one of the others may end this wait. idle:
    // there may be more, which have not called MPI yet.
    uint32_t threads = 1;
    bool idle_threads = false;
    // It does not wait, but tests again and again, in vain; nothing was sent or has come since it
    // began.
    bool tests = false;
    // A collective operation: by its context and its number there members know it.
    bool collective = false;
    uint64_t context = 0, number = 0;
    // How many collective operations this rank has begun in each of its contexts; not all_begun:
    // there are more of them.
    std::vector<std::pair<uint64_t, uint64_t>> begun;
    bool all_begun = true;
    // What is said above was so as many nanoseconds ago: others had to be asked.
    uint64_t old = 0;

    void await(int rank, Need need);
    // Of several operations, this one is awaited, too.
    void join(const Waiting& other);
    bool operator==(const Waiting&) const = default;

    void write(Writer& out) const;
    // False when the bytes do not parse.
    bool read(Reader& in);
};

// Of what is a deadlock only if no thread of the program that has not called MPI yet does so.
inline constexpr char kUnlessThread[] = ", unless a thread that has not called MPI yet does so";

// "MPI_Recv on MPI_COMM_WORLD (from rank 1, tag 5, 8 bytes)"
std::string operation_text(const Waiting& waiting);
// "rank 1", "ranks 1 and 2", "ranks 1, 2 and 3", "ranks 0, 1, ... and 9 more"
std::string ranks_text(const std::vector<int>& ranks);
// "ranks 1 and 2 have not come; nothing has come from rank 3". `links`: how a rank is reached, by
// rank; may be empty.
std::string needs_text(const Waiting& waiting,
                       const std::vector<std::pair<int, std::string>>& links = {});
// "has waited for 12 s", "has been tested in vain for 12 s"
std::string duration_text(const Waiting& waiting, double seconds);
// "12 s", "1.5 s"
std::string seconds_text(double seconds);

}  // namespace pomona
