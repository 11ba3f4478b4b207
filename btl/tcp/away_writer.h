// btl/tcp/away_writer.h: a thread that writes what a program has left in its connections when it
// went on without MPI.
// Idea: a message is over for its sender when the library has it; but the system may not have had
// room for all of it, least on a slow line, which is kept short of bytes (unsent.h). The rest would
// lie here for as long as the program computes. So when it leaves MPI its connections with such
// output are left to this thread, which writes once nobody has come back for kAway; whoever comes
// back takes them away first, at the cost of a lock that nobody else holds.
// Cost: nothing until output is left for the first time; then a thread that looks each millisecond
// while there is some.
#pragma once

#include "btl/base/clock.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace pomona::tcp {

struct Connection;

class AwayWriter {
    // One connection's place in the list. `of` is null while its owner has it.
    struct Place {
        std::mutex mutex;
        Connection* of = nullptr;
        Nanoseconds since = 0;
        bool listed = false;  // by the owner and the thread, with the list's mutex
    };

public:
    // A connection's, as its owner sees it: by one thread at a time. Taken back when destroyed.
    class Hold {
    public:
        Hold() = default;
        ~Hold() { take_back(); }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        bool left() const { return left_; }
        // Nobody else touches the connection when this returns.
        void take_back();

    private:
        friend class AwayWriter;
        std::shared_ptr<Place> place_;
        bool left_ = false;
    };

    // Null where no thread is to be had.
    static std::unique_ptr<AwayWriter> start();
    ~AwayWriter();
    AwayWriter(const AwayWriter&) = delete;
    AwayWriter& operator=(const AwayWriter&) = delete;

    // The thread may write the connection's output, until hold.take_back().
    void leave(Hold& hold, Connection& connection);

private:
    AwayWriter() = default;
    void run();
    int write(Place& place, Nanoseconds now);

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::shared_ptr<Place>> list_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace pomona::tcp
