// btl/link/riding.cc: paths that are made by words over a link's other paths (transport.h, rule
// 14), as RDMA's are over TCP. The others stand by themselves: without one of them no such path is
// made, and only they tell that the other process has ended.
#include "btl/link/state.h"

#include <algorithm>
#include <utility>

namespace pomona::link {

// Only such paths are up, and nobody listens any more where the process was, for so long.
static constexpr Nanoseconds kRefusedFor = 300'000'000;

bool Link::stands() const {
    return std::any_of(paths.begin(), paths.end(), [&](const Path& path) {
        return path.state == Path::State::up && !path.rides && &path != relay_;
    });
}

bool Link::say(ConstBytes words) {
    if (over) return false;
    LinkHeader header{Kind::words, 0, 0, received_.next(), received_pieces_.next(), 0, 0, 0};
    FrameHeader frame = header.pack();
    return std::any_of(paths.begin(), paths.end(), [&](Path& path) {
        if (path.state != Path::State::up || path.rides || &path == relay_) return false;
        if (!path.busy() && path.endpoint->push(frame, words) == Push::sent) return true;
        // One that has no room takes them all the same: they are short, and a sleeper may wait.
        return path.endpoint->push_kept(frame, words, {});
    });
}

// By the first that has room.
Push Link::push_carried(const FrameHeader& header, ConstBytes first, ConstBytes second) {
    for (Path& path : paths) {
        size_t taken = 0;
        if (carries(path) && !path.busy() &&
            path.endpoint->push_gathered(header, first, second, taken) == Push::sent)
            return Push::sent;
    }
    return carries() ? Push::busy : Push::gone;
}

// Not by what others carry in turn.
bool Link::carries(const Path& path) const {
    return path.rides && path.usable() && !links_.is_carried(*path.transport);
}

bool Link::carries() const {
    return !over && std::any_of(paths.begin(), paths.end(),
                                [this](const Path& path) { return carries(path); });
}

// What has been sent may be lost though another path loses nothing.
bool Link::loses() const {
    return std::any_of(paths.begin(), paths.end(), [](const Path& path) {
        return path.rides && path.state == Path::State::up;
    });
}

// The last words must not be lost.
void Link::leave_by_standing() {
    if (!stands()) return;
    std::erase_if(order_, [](const Path* path) { return path->rides; });
    for (Path& path : paths)
        if (order_.empty() && !path.rides && path.usable()) order_.push_back(&path);
    quick_ = nullptr;
}

// All that is under way by a path that rides goes by the others as well, this once.
void Link::go_by_standing(Path& path, Nanoseconds now) {
    if (!stands()) return;
    bool stalled = path.stalled;
    path.stalled = true;
    take_back(path);
    order_paths();
    flush();
    if (!outgoing_.empty()) drain_bulk(now);
    path.stalled = stalled;
    order_paths();
}

void Link::look_at_refusals(Nanoseconds now) {
    bool only_riding = down_since_ == 0 && loses() && !stands();
    if (!only_riding) {
        unwatched_since_ = 0;
        return;
    }
    if (unwatched_since_ == 0) unwatched_since_ = now;
    if (now - unwatched_since_ > kRefusedFor && all_refused())
        give_up({Code::peer_gone, "The other process does not listen any more"});
}

void Links::hear(int peer, ConstBytes words) {
    for (auto& each : transports_)
        if (each->rides()) each->hear(peer, words);
}

// It may come while another transport is polled.
void Links::carry(int peer, const FrameHeader& header, ConstBytes payload, Sink& sink) {
    if (!carried_) return;
    Sink* before = std::exchange(sink_, &sink);
    carried_->arrive(peer, header, payload, *ways_.back());
    sink_ = before;
}

}  // namespace pomona::link
