// mpi/runtime/launcher_watch.h: what the launcher says of processes that have ended, as one more
// thing for the engine to poll.
// Idea: a transport finds out by itself that a peer has ended with whom it has exchanged anything,
// sooner than the launcher says it and in order with what the peer had sent. The launcher's word is
// for the others: processes of whom nobody has heard, or whose end the transport cannot see. So it
// counts only after a while, in which what they had sent is taken in. Nothing is looked at while
// messages come: once in 1,024 turns without any, after each sleep and where the user asks who has
// failed, and then at most each 50 ms.
#pragma once

#include "btl/base/clock.h"
#include "btl/transport.h"
#include "mpi/p2p/engine.h"
#include "pmix/wireup/wireup.h"

#include <mutex>
#include <vector>

namespace pomona {

class LauncherWatch final : public Transport {
public:
    LauncherWatch(Wireup& wireup, Engine& engine, Clock& clock);
    ~LauncherWatch() override;

    const char* name() const override { return "launcher"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        return Error{Code::unsupported, "The launcher carries no messages", peer};
    }
    int poll(Sink& sink, int) override { return ++polls_ % kPollsEach ? 0 : look(sink); }
    bool arm() override { return true; }
    void disarm() override { look_soon(); }
    void look_soon() { polls_ = kPollsEach - 1; }  // at the next poll

    static constexpr Nanoseconds kLookEach = 50'000'000;
    static constexpr Nanoseconds kWait = 1'000'000'000;  // from the word until it counts

private:
    int look(Sink& sink);

    struct Word {
        int rank;
        Nanoseconds heard;
        bool taken_in;  // the transports have been polled since `heard` + kWait
    };
    static constexpr uint32_t kPollsEach = 1024;

    Wireup& wireup_;
    Engine& engine_;
    Clock& clock_;
    uint32_t polls_ = 0;
    Nanoseconds looked_ = 0;
    std::vector<Word> words_;
    std::mutex mutex_;        // the wire-up may call from a thread of its own
    std::vector<int> heard_;  // guarded by mutex_
};

}  // namespace pomona
