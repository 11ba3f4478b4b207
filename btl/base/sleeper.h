// btl/base/sleeper.h: the only place where Pomona sleeps.
// Idea: one libevent base (epoll, kqueue) over the sockets a rank watches plus its doorbell, a
// datagram socket that another process rings when it puts work into shared memory. A rank that
// watches no sockets sleeps on a word of that memory instead, which wakes it sooner. Waiting code
// spins first; it comes here after arming every transport (transport.h).
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/clock.h"
#include "btl/base/result.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace pomona {

class Sleeper {
public:
    // The doorbell is the Unix datagram socket `path` (made here, removed in the destructor); an
    // empty path makes a doorbell that only this process can ring.
    static Result<std::unique_ptr<Sleeper>> make(const std::string& path);
    ~Sleeper();

    // Watches a descriptor; sleep() returns when it can be read (or written, if asked).
    // Watching again replaces what was asked; forget() before closing it.
    struct Watch {
        bool read = true;
        bool write = false;
    };
    Status watch(int descriptor, Watch watch);
    void forget(int descriptor);

    // How others wake this rank until it has slept next: `bell`, or by setting the word to 0 and
    // waking who waits for it. What a transport stores in its word when it arms.
    enum Way : uint32_t { awake = 0, bell = 1, word = 2 };
    Way way();
    // The word, in memory shared with the other processes; null: none (any more).
    void set_word(std::atomic<uint32_t>* word);

    // Sleeps until a descriptor is ready, the doorbell rings, or the time is over, which returns
    // false. Returns at once if the doorbell rang since the last sleep. `nap`: wakes for a moment
    // each so often, since a core that has rested for long, and what of its caches others have
    // taken, is slow to return; 0: never.
    bool sleep(Nanoseconds longest, Nanoseconds nap = 0);

    // Wakes this process's sleeper, or the next sleep returns at once; from any thread.
    void wake();

private:
    struct State;
    explicit Sleeper(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Rings other processes' doorbells: one unconnected datagram socket, a byte to a path.
class Bell {
public:
    Bell();
    ~Bell();
    Bell(const Bell&) = delete;
    Bell& operator=(const Bell&) = delete;
    // A full or vanished doorbell is no error: the sleeper has been rung already, or is gone.
    void ring(const std::string& path) const;

private:
    int descriptor_ = -1;
};

}  // namespace pomona
