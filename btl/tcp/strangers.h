// btl/tcp/strangers.h: the listeners, and connections that have not proved to be of this job.
// Idea: anybody can connect, so who has not proved anything gets little: as many bytes of memory as
// the handshake has, a deadline, and a place among few, from which the oldest is sent away when
// more come. None is read from before the system says that bytes are there.
#pragma once

#include "btl/base/clock.h"
#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/link/handshake.h"
#include "btl/tcp/connection.h"
#include "btl/tcp/poller.h"

#include <functional>
#include <list>
#include <vector>

namespace pomona::tcp {

struct StrangersOptions {
    const link::Identity* identity = nullptr;
    // Does this end want that the connection is encrypted?
    std::function<bool(const Socket&)> encrypts;
    // A connection from a rank of this job (in a state after `waiting`): takes it out of its place,
    // or leaves it to be closed.
    std::function<void(std::unique_ptr<Connection>&, link::Handshake&)> admit;
};

class Strangers {
public:
    Strangers(const Params& params, Counters& counters, Clock& clock, Poller& poller,
              std::vector<Socket> listeners, StrangersOptions options);
    Status begin();

    // An entry of the poller is ready; turn() will look at it.
    void ready(Watched& entry);
    // Reads from those that are ready, lets more come, sends away those that took too long.
    void turn();

private:
    struct Stranger : Watched {
        Stranger(Socket socket, link::Handshake handshake, Nanoseconds deadline)
            : Watched{Kind::stranger}, socket(std::move(socket)), handshake(std::move(handshake)),
              deadline(deadline) {}
        Socket socket;
        link::Handshake handshake;
        Nanoseconds deadline;
        bool ready = false;
    };
    using Entry = std::list<Stranger>::iterator;
    struct Listener : Watched {
        explicit Listener(Socket socket) : Watched{Kind::listener}, socket(std::move(socket)) {}
        Socket socket;
        bool ready = false;
    };
    void accept_some(Listener& listener);
    void pause();
    bool greet(Stranger& stranger);
    void send_away(Entry stranger);
    void refuse(const char* why);

    const Params& params_;
    Counters& counters_;
    Clock& clock_;
    Poller& poller_;
    StrangersOptions options_;
    std::list<Listener> listeners_;
    bool more_come_ = false;         // one of them is ready
    Nanoseconds paused_until_ = 0;   // they are not watched: this process has no descriptors left
    std::list<Stranger> strangers_;  // the oldest first
    bool any_ready_ = false;
    uint64_t refused_ = 0;
};

}  // namespace pomona::tcp
