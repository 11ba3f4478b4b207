// btl/link/through.cc: a link whose path goes through other processes, and one that carries frames
// for others (relays.h).
#include "btl/link/state.h"

#include <algorithm>
#include <cstring>

namespace pomona::link {

// A link that has been up is tried for so long by paths of its own alone.
static constexpr Nanoseconds kDirectFirst = 500'000'000;

bool Link::direct() const {
    return !over && std::any_of(paths.begin(), paths.end(), [&](const Path& path) {
        return path.state == Path::State::up && &path != relay_;
    });
}

void Link::asked() {
    if (used_) return;
    used_ = true;
    order_paths();
    // It was quietly given up before.
    if (over && told) told = false, links_.activate(*this);
}

void Link::reach(ConstBytes published) {
    for_others_ = true;
    if (!over) (void)set_addresses(published);
}

bool Link::reached() const {
    return over || rests() || any_up() ||
           std::all_of(paths.begin(), paths.end(), [](const Path& path) {
               return path.state == Path::State::down &&
                      (path.address.empty() || path.rides || path.why.what[0] != 0);
           });
}

void Link::rest() {
    down_since_ = 0;
    for (Path& path : paths) path.address.clear();
}

// No path of its own has come up, or not again.
bool Link::wants_relay(Nanoseconds now) {
    if (!links_.relays().may_reach(peer)) return false;
    if (now - down_since_ > kDirectFirst) return true;
    return !was_up_ && std::all_of(paths.begin(), paths.end(), [](const Path& path) {
        return path.address.empty() || path.why.what[0] != 0;
    });
}

Path& Link::need_relay() {
    if (relay_) return *relay_;
    Path path;
    path.transport = &links_.relays();
    path.index = static_cast<int>(paths.size());
    path.address = published_;
    if (path.address.empty()) path.address.resize(1);  // it is tried all the same
    paths.push_back(std::move(path));
    relay_ = &paths.back();
    order_paths();
    return *relay_;
}

// A path of its own is used instead.
void Link::leave_relay() {
    if (!relay_ || std::none_of(paths.begin(), paths.end(),
                                [&](const Path& path) { return path.usable() && &path != relay_; }))
        return;
    if (relay_->state == Path::State::down) return drop_relay();
    if (relay_->endpoint)
        relay_->endpoint->abandon({Code::ok, "There is a path without others", peer});
}

void Link::drop_relay() {
    relay_ = nullptr;
    paths.pop_back();
    order_paths();
}

void Link::relay_up() { path_up(need_relay()); }

void Link::relay_gone(const Error& reason, Sink& sink) {
    if (!relay_) return;
    path_gone(*relay_, reason, sink);
    if (!over) leave_relay();
}

void Link::arrive_relayed(const FrameHeader& frame, ConstBytes payload, Sink& sink) {
    if (relay_) arrive(*relay_, frame, payload, sink);
}

// Half of the window is for this process's own messages.
std::byte* Link::keep_relayed(size_t length) {
    if (over || window_.in_flight() > static_cast<size_t>(links_.params.link_window) / 2)
        return nullptr;
    return keep(Kind::relay, length);
}

bool Link::forward(ConstBytes message, size_t at) {
    if (over) return false;
    std::byte* place = forwards_.empty() ? keep_relayed(message.size()) : nullptr;
    if (place) {
        std::memcpy(place, message.data(), message.size());
        place[1] = static_cast<std::byte>(at);
        sent_new();
        return true;
    }
    if (links_.forwarded + message.size() > kForwardMost) return false;
    links_.forwarded += message.size();
    forwards_.emplace_back(message.begin(), message.end());
    forwards_.back()[1] = static_cast<std::byte>(at);
    links_.activate(*this);
    return true;
}

bool Link::drain_forwards() {
    bool moved = false;
    while (!forwards_.empty()) {
        std::vector<std::byte>& next = forwards_.front();
        std::byte* place = keep_relayed(next.size());
        if (!place) break;
        std::memcpy(place, next.data(), next.size());
        links_.forwarded -= next.size();
        forwards_.pop_front();
        sent_new();
        moved = true;
    }
    return moved;
}

void Link::forget_forwards() {
    for (auto& each : forwards_) links_.forwarded -= each.size();
    forwards_.clear();
}

std::string Link::state_text() const {
    if (over) return "gone";
    if (order_.empty()) return was_up_ ? "not reached" : "not connected yet";
    return order_.front() == relay_ ? relay_->description.text : "connected";
}

std::vector<LinkPath> Link::describe_paths() const {
    static constexpr const char* kStates[] = {"down", "connecting", "up"};
    std::vector<LinkPath> out;
    for (const Path& path : paths) {
        LinkPath& each = out.emplace_back();
        each.name = &path == relay_ ? "through others" : path.transport->name();
        each.state = kStates[static_cast<size_t>(path.state)];
        each.first = !order_.empty() && order_.front() == &path;
        each.kind = path.description.kind;
        each.text = path.description.text;
        if (path.state != Path::State::up && path.why.what[0]) each.why = path.why.text();
        each.round_trip = path.round_trip;
        each.rate = path.pace.rate;
    }
    return out;
}

// Paths through others, and by RDMA, say nothing of the line that TCP takes, and take bytes from
// it that are not counted.
LinkSeen Link::seen() const {
    LinkSeen out;
    for (const Path& path : paths) {
        if (path.state != Path::State::up) continue;
        if (!path.is_line() || &path == relay_) return {};
        std::vector<FullTime> times = path.seen.times();
        out.times.insert(out.times.end(), times.begin(), times.end());
        if (!order_.empty() && order_.front() == &path) out.by = path.description.text;
    }
    return out;
}

void Link::ask_for_round_trip() {
    if (!over && !order_.empty()) ask(*order_.front(), links_.now());
}

Nanoseconds Link::shortest_round_trip() const {
    Nanoseconds out = 0;
    for (const Path& path : paths)
        if (path.shortest_trip != 0 && (out == 0 || path.shortest_trip < out))
            out = path.shortest_trip;
    return out;
}

}  // namespace pomona::link

namespace pomona {

LinkSeen seen_of(const Endpoint& endpoint) {
    const auto* link = dynamic_cast<const link::Link*>(&endpoint);
    return link ? link->seen() : LinkSeen();
}

void ask_for_round_trip(Endpoint& endpoint) {
    if (auto* link = dynamic_cast<link::Link*>(&endpoint)) link->ask_for_round_trip();
}

Nanoseconds shortest_round_trip(const Endpoint& endpoint) {
    const auto* link = dynamic_cast<const link::Link*>(&endpoint);
    return link ? link->shortest_round_trip() : 0;
}

std::vector<LinkPath> paths_of(const Endpoint& endpoint) {
    const auto* link = dynamic_cast<const link::Link*>(&endpoint);
    return link ? link->describe_paths() : std::vector<LinkPath>();
}

}  // namespace pomona
