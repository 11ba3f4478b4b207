// mpi/p2p/peers.cc: the processes that the engine knows: making endpoints to them, and pushing what
// waits for them.
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "coll/helper.h"
#include "mpi/p2p/engine.h"

#include <algorithm>

namespace pomona {

// Messages of so many bytes that go to another machine without being asked for may stay where they
// are until the peer has them; shorter ones are copied.
static constexpr size_t kHeldMin = 8 << 10;

static constexpr Nanoseconds kLookUpEvery = 1'000'000;  // of a peer that is not up yet

// ---- set-up

void Engine::attach(int job_size, std::vector<Transport*> transports, Sleeper* sleeper,
                    ConnectFunction connect) {
    for (Transport* each : transports) add(each);
    sleeper_ = sleeper;
    connect_ = std::move(connect);
    for (int rank = 0; rank < job_size; ++rank) peers_.push_back(std::make_unique<Peer>(rank));
}

void Engine::detach() {
    transports_.clear();
    sleeper_ = nullptr;
    helper_.reset();
    for (auto& peer : peers_) { peer->endpoint = nullptr; }
}

bool Engine::connect(Peer& peer) {
    if (peer.gone) return false;
    if (peer.connect_until != 0 && clock_.now() < peer.connect_again) return false;
    auto endpoint = connect_(peer.rank);
    if (endpoint.ok() && *endpoint == nullptr) return wait_to_connect(peer), false;
    if (!endpoint.ok()) {
        LOG(error, btl, "No way to reach rank {}: {}", peer.rank, endpoint.error().text());
        gone(peer.rank, endpoint.error());
        return false;
    }
    peer.endpoint = *endpoint;
    const Caps& caps = peer.endpoint->caps();
    size_t limit = params_.eager_max ? params_.eager_max : caps.eager_max;
    peer.eager_limit = peer.eager_limit_open = std::min(limit, caps.fragment_max) + 1;
    peer.held_from = peer.held_from_open =
        peer.endpoint->takes_bulk() ? std::min(peer.eager_limit, kHeldMin) : peer.eager_limit;
    return true;
}

// The peer has not published where it is: asks again soon, and not for ever.
void Engine::wait_to_connect(Peer& peer) {
    Nanoseconds now = clock_.now();
    if (peer.connect_until == 0)
        peer.connect_until = now + static_cast<Nanoseconds>(params_.connect_timeout_ms) * 1'000'000;
    if (now > peer.connect_until)
        return gone(peer.rank, Error{Code::timed_out, messages::never_up, peer.rank});
    peer.connect_again = now + kLookUpEvery;
    queue(peer);
}

Matcher& Engine::find_matcher(uint64_t context) {
    auto& slot = matchers_[context];
    if (!slot) slot = std::make_unique<Matcher>();
    last_context_ = context;
    last_matcher_ = slot.get();
    return *slot;
}

void Engine::drop_context(uint64_t context) {
    auto found = matchers_.find(context);
    if (found == matchers_.end() || found->second->posted_count() || found->second->message_count())
        return;  // erroneous program (messages never received): keep, so that nothing dangles
    if (found->second->revoked) return;  // whoever does not know yet shall still be refused
    if (last_context_ == context) last_context_ = ~uint64_t{0};
    matchers_.erase(found);
}

std::vector<Communicator*> Engine::communicators() const {
    std::vector<Communicator*> all;
    for (const auto& [context, matching] : matchers_)
        if (matching->comm) all.push_back(matching->comm);
    return all;
}

// ---- what waits

void Engine::queue(Peer& peer) {
    if (peer.queued) return;
    peer.queued = true;
    queued_peers_.push_back(&peer);
}

void Engine::push_control(Peer& peer, const Header& header) {
    if (!peer.endpoint) connect(peer);
    if (peer.gone) return;
    if (peer.endpoint && peer.control.empty()) {
        Push push = peer.endpoint->push(header.pack(), {});
        if (push == Push::sent) return;
        if (push == Push::gone) peer.refuses = true;
    }
    peer.control.push_back(header.pack());
    queue(peer);
}

// Pushes what waits for one peer; true when something moved.
bool Engine::drain(Peer& peer) {
    bool moved = false;
    if (!peer.readable.empty()) moved = drain_readable(peer);
    // A fragment under way lets nothing else pass.
    if (peer.piece.send) {
        moved |= drain_streams(peer);
        if (peer.piece.send) return moved;
    }
    while (!peer.control.empty()) {
        Push push = peer.endpoint->push(peer.control.front(), {});
        if (push != Push::sent) return stop_draining(peer, push, moved);
        peer.control.pop_front();
        moved = true;
    }
    if (!peer.notices.empty()) {
        moved |= drain_notices(peer);
        if (peer.gone || !peer.notices.empty()) return moved;
    }
    while (P2pRequest* send = peer.backlog.front()) {
        // Taken out first: completion may hand the request back to its owner.
        List<P2pRequest>::remove(send);
        Push push = push_message(peer, *send);
        if (push != Push::sent) {
            peer.backlog.push_front(send);
            return stop_draining(peer, push, moved);
        }
        moved = true;
    }
    return drain_streams(peer) || moved;
}

}  // namespace pomona
