// pmix/launch/listener.h: accepts connections from mpirun's loop.
// Idea: without a free descriptor a connection stays in the queue and the socket readable; so it is
// left alone for a moment then, instead of being tried again at once for ever.
#pragma once

#include "pmix/launch/forward.h"

#include <functional>

namespace pomona {

class Listener {
public:
    Listener() = default;
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Takes ownership of a socket that listens and does not block. Accepted ones close on exec and
    // do not block either.
    void start(event_base* base, int descriptor, std::function<void(int)> on_connection);
    // Those that have arrived.
    void accept_all();
    // After a round of accept_all from the loop.
    std::function<void()> on_round;

private:
    event_base* base_ = nullptr;
    int descriptor_ = -1;
    std::function<void(int)> on_connection_;
    EventPtr readable_, resume_;
};

}  // namespace pomona
