// mpi/p2p/waiting.h: waits that last long, for those who report them.
// Idea: a wait knows nothing of reports until it has found nothing to do for a while; then a
// LongWait stands on the waiting thread's stack. What it waits for is asked of the condition
// itself, which has a function describe() if there is more to tell than the name of the MPI
// function; that name is found on the stack. So a wait that ends soon costs nothing.
#pragma once

#include "btl/base/clock.h"
#include "btl/base/waiting.h"

#include <optional>
#include <string>
#include <vector>

namespace pomona {

class Communicator;
class Request;

struct LongWait {
    bool (*ready)(void* context);
    void (*describe)(void* context, Waiting& out);  // null: there is nothing to tell
    void* context;
    Nanoseconds since = 0;   // when it began to last long
    Nanoseconds looked = 0;  // when the watch looked at it last
};

// A LongWait for a condition: a function object, perhaps with `void describe(Waiting&) const`.
template <class Ready> LongWait long_wait(Ready& ready) {
    LongWait wait{[](void* context) { return (*static_cast<Ready*>(context))(); }, nullptr,
                  const_cast<void*>(static_cast<const void*>(&ready))};
    if constexpr (requires(Waiting & out) { ready.describe(out); })
        wait.describe = [](void* context, Waiting& out) {
            static_cast<const Ready*>(context)->describe(out);
        };
    return wait;
}

// A condition with a description, from two function objects.
template <class Ready, class Describe> struct Described {
    Ready ready;
    Describe description;
    bool operator()() { return ready(); }
    void describe(Waiting& out) const { description(out); }
};
template <class Ready, class Describe> Described(Ready, Describe) -> Described<Ready, Describe>;

// What several requests wait for: all of them, or any.
struct Unfinished {
    const std::vector<Request*>& requests;  // null: not active
    bool any = false;
    void describe(Waiting& out) const;
    uint64_t key() const;
};
struct UnfinishedOne {
    const Request& request;
    void describe(Waiting& out) const;
    uint64_t key() const { return reinterpret_cast<uintptr_t>(&request); }
};

// What one test looks for, for reports: refers to a function object with `void describe(Waiting&)
// const` and `uint64_t key() const`, by which the same operation is known again; or to nothing.
struct Tested {
    Tested() = default;
    template <class What> explicit Tested(const What& what)
        : describe([](const void* context, Waiting& out) {
              static_cast<const What*>(context)->describe(out);
          }),
          key([](const void* context) { return static_cast<const What*>(context)->key(); }),
          context(&what) {}
    void (*describe)(const void* context, Waiting& out) = nullptr;
    uint64_t (*key)(const void* context) = nullptr;
    const void* context = nullptr;
};

// Who is told of long waits: mpi/runtime/wait_reports.h. All calls with the engine held, from the
// thread that waits.
class WaitWatch {
public:
    virtual ~WaitWatch() = default;
    // Every half second or so.
    virtual void look(const LongWait& wait, Nanoseconds now) = 0;
    // The wait is over; it was looked at.
    virtual void over(const LongWait& wait) = 0;
    // Since `since` this process has tested in vain, and now once more, for this; nothing was sent
    // and nothing has come meanwhile. Often.
    virtual void tested(const Tested& what, Nanoseconds since, Nanoseconds now) = 0;
    // Something was sent or has come, or the process does something else; it was told of tests.
    virtual void tests_over() = 0;
};

// "MPI_COMM_WORLD", or what else names it for people.
std::string name_for_people(const Communicator& comm);
// Of a message: "from rank 1, tag 5, 8 bytes".
struct MessageText {
    const char* direction;  // "from" or "to"
    int rank, tag;          // as the user gave them
    std::optional<size_t> bytes;
};
std::string message_text(const MessageText& message);
// Adds all whom a rank of the communicator may name, or the one.
void await_source(Waiting& out, const Communicator& comm, int rank, Need need);

// The outermost MPI function that the calling thread is in: "MPI_Recv"; "" outside, or where the
// system does not tell.
std::string mpi_function_on_stack();

}  // namespace pomona
