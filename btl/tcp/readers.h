// btl/tcp/readers.h: which connections of a TCP transport are read without asking whether anything
// has come.
// Idea: to read one that has nothing costs a system call, and so does asking for all which have
// something. Few are read without asking, and leave the Poller's set, since what arrives by those
// in it costs the system more. One by which nothing came while the others moved often is quiet: it
// stands in the set and is asked about now and then, so that a rank with many peers that speaks to
// two of them pays for two. While nothing comes by any of them none becomes quiet.
#pragma once

#include "btl/tcp/endpoint.h"
#include "btl/tcp/poller.h"

#include <algorithm>
#include <vector>

namespace pomona::tcp {

class Readers {
public:
    explicit Readers(Poller& poller) : poller_(poller) {}

    // It has come up.
    void add(TcpEndpoint& endpoint) {
        std::erase(quiet_, &endpoint);
        endpoint.moved_at = moves_;
        if (std::find(busy_.begin(), busy_.end(), &endpoint) == busy_.end())
            busy_.push_back(&endpoint);
    }
    // Those that are not up any more.
    void forget_unread() {
        std::erase_if(busy_, [](TcpEndpoint* each) { return !each->reads(); });
        std::erase_if(quiet_, [](TcpEndpoint* each) { return !each->reads(); });
    }
    // Those that are not quiet. While they are many(), the Poller is to be asked which have bytes.
    std::vector<TcpEndpoint*>& busy() { return busy_; }
    bool many() const { return busy_.size() > kAskEach; }
    // In this turn the Poller is to be asked about the quiet ones.
    bool asks_quiet(unsigned turn) const {
        return !quiet_.empty() && (busy_.empty() || turn % kTurnsPerAsk == 0);
    }
    // The Poller has found bytes there; nobody goes through busy().
    void found(TcpEndpoint& endpoint) {
        if (quiet_.empty()) return;
        auto place = std::find(quiet_.begin(), quiet_.end(), &endpoint);
        if (place == quiet_.end()) return;
        quiet_.erase(place);
        add(endpoint);
        if (out_of_set_) leave_set(endpoint);
    }
    // Something has come by it.
    void moved(TcpEndpoint& endpoint) { endpoint.moved_at = ++moves_; }
    // Nobody goes through busy().
    void end_turn() {
        if (moves_ - sorted_at_ >= kQuietAfter) [[unlikely]]
            find_quiet();
    }

    bool out_of_set() const { return out_of_set_; }
    // While few are busy: the Poller does not know them any more.
    void leave_set() {
        out_of_set_ = true;
        for (TcpEndpoint* each : busy_)
            if (each->reads()) leave_set(*each);
    }
    // All stand in the set again. False: the system does not take one of them.
    bool watch_all() {
        for (TcpEndpoint* each : busy_)
            if (each->reads() && !watch(*each)) return false;
        out_of_set_ = false;
        return true;
    }

private:
    // So many are read from without asking.
    static constexpr size_t kAskEach = 3;
    // Reads that brought something, by all together.
    static constexpr unsigned kQuietAfter = 1024;
    static constexpr unsigned kTurnsPerAsk = 8;

    void leave_set(TcpEndpoint& endpoint) {
        poller_.remove(endpoint.connection->socket.descriptor());
        endpoint.out_of_set = true;
        endpoint.output_waits = false;
    }
    bool watch(TcpEndpoint& endpoint) {
        if (!endpoint.out_of_set) return true;
        if (!poller_.add(endpoint.connection->socket.descriptor(), endpoint.token()).ok())
            return false;
        endpoint.out_of_set = false;
        return true;
    }
    void find_quiet() {
        sorted_at_ = moves_;
        std::erase_if(busy_, [this](TcpEndpoint* each) {
            bool quiet = each->reads() && moves_ - each->moved_at >= kQuietAfter && watch(*each);
            if (quiet) quiet_.push_back(each);
            return quiet;
        });
    }

    Poller& poller_;
    std::vector<TcpEndpoint*> busy_, quiet_;
    unsigned moves_ = 0, sorted_at_ = 0;
    bool out_of_set_ = false;  // some of the busy ones are not in the Poller's set
};

}  // namespace pomona::tcp
