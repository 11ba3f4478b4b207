// btl/link/relays.cc: see relays.h.
#include "btl/link/relays.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/link/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::link {

static constexpr Nanoseconds kMillisecond = 1'000'000;
static constexpr Nanoseconds kLookEvery = 20 * kMillisecond;
// Processes asked whom they reach: how often, and for how long before that has failed.
static constexpr Nanoseconds kSeekEvery = 100 * kMillisecond;
static constexpr Nanoseconds kSeekFor = 1000 * kMillisecond;
// So long without its own path a neighbour is none any more.
static constexpr Nanoseconds kHopPatience = 500 * kMillisecond;
// A route that brings no answer for so long may have a process that stands still. Others are looked
// for, more and more seldom, since it may be the other end that is busy outside MPI.
static constexpr Nanoseconds kSilence = 1000 * kMillisecond;
static constexpr Nanoseconds kSilencePauseMost = 8000 * kMillisecond;
// Another route waits so long for a word by the present one.
static constexpr Nanoseconds kPreference = 100 * kMillisecond;
// Bytes of a path that are under way, at the most; and of its long payloads, in one piece.
static constexpr uint64_t kRelayWindow = 1 << 20;
static constexpr size_t kRelayPiece = 64 << 10;
// New neighbours at a time, and those that are asked.
static constexpr int kNewNeighbours = 4;
static constexpr int kAskedMost = 32;

static_assert(kLinkRoom >= kRelayHead + 2 * sizeof(FrameHeader));

static constexpr Error kNobody{Code::not_found, "No process stands between that reaches it"};
static constexpr Error kBroken{Code::peer_gone, "A process between has lost the way"};
static constexpr Error kFirstLost{Code::peer_gone, "The first process between is not reached"};
static constexpr Error kNewer{Code::peer_gone, "Another route took its place"};
static constexpr Error kLeft{Code::peer_gone, "The other process does not need it any more"};

// One end of a path through others.
class RelayEnd final : public Endpoint {
public:
    enum class State { none, seeking, up, ended };

    RelayEnd(Relays& relays, int peer) : peer(peer), relays_(relays) {
        caps_ = {0, kRelayPiece, kRelayPiece};
    }
    Push push(const FrameHeader& header, ConstBytes payload) override {
        return push_fill(
            header, payload.size(),
            [](void* context, Bytes target) {
                auto& from = *static_cast<ConstBytes*>(context);
                std::copy(from.begin(), from.end(), target.begin());
            },
            &payload);
    }
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override {
        if (state != State::up) return state == State::seeking ? Push::busy : Push::gone;
        Link* hop = sent - arrived < kRelayWindow ? relays_.neighbour(route[1]) : nullptr;
        std::byte* place = hop ? hop->keep_relayed(kRelayHead + sizeof header + length) : nullptr;
        if (!place) return Push::busy;
        sent += sizeof header + length;
        told = taken;
        RelayHeader{RelayKind::data, 1, route, name, sent, taken}.write(place);
        std::memcpy(place + kRelayHead, &header, sizeof header);
        if (length != 0) fill(context, {place + kRelayHead + sizeof header, length});
        hop->sent_relayed();
        return Push::sent;
    }
    void abandon(const Error& reason) override {
        if (state == State::up) relays_.send_control({RelayKind::leave, 0, route, name, 0, 0});
        if (state == State::up || state == State::seeking) {
            state = State::ended;
            why = reason;
            relays_.next_look_ = 0;
        }
    }
    std::string text() const {
        if (state != State::up) return "";
        std::string out = route.count == 3 ? "through rank" : "through ranks";
        for (size_t i = 1; i + 1 < route.count; ++i) out += format(" {}", route[i]);
        return out;
    }

    const int peer;
    State state = State::none;
    Route route{};
    RelayName name{};                // of this one, or the last
    uint64_t sent = 0, arrived = 0;  // bytes; arrived: as the peer has told
    uint64_t taken = 0, told = 0;    // from the peer; told: as it knows
    std::vector<std::byte> address;  // the peer's
    uint64_t losses = 0;             // of the link to the first one between, when this path began
    Nanoseconds seek_until = 0, next_seek = 0, pause = kSilence;
    // Found while this one is silent.
    Route other{};
    Nanoseconds other_since = 0;
    Error why{};

private:
    Relays& relays_;
};

using State = RelayEnd::State;

Relays::Relays(Links& links) : links_(links) {}
Relays::~Relays() = default;

// ---- the transport

RelayEnd& Relays::end(int peer) {
    auto& slot = ends_[peer];
    if (!slot) slot = std::make_unique<RelayEnd>(*this, peer);
    return *slot;
}

Result<Endpoint*> Relays::connect(int peer, ConstBytes address) {
    RelayEnd& made = end(peer);
    if (made.state == State::none) {
        Nanoseconds now = links_.now();
        made.state = State::seeking;
        made.address.assign(address.begin(), address.end());
        made.seek_until = now + kSeekFor;
        made.next_seek = now;
        next_look_ = 0;
    }
    return static_cast<Endpoint*>(&made);
}

Endpoint* Relays::path(int peer) { return &end(peer); }

PathDescription Relays::describe(int peer) {
    RelayEnd& of = end(peer);
    PathDescription out;
    out.text = of.text();
    out.kind = "relay";
    out.taken = of.state == State::up;
    return out;
}

int Relays::poll(Sink& sink, int) {
    if (rests()) return 0;
    Nanoseconds now = links_.now();
    if (now < next_look_) return 0;
    next_look_ = now + kLookEvery;
    for (auto& [peer, each] : ends_) look_at(*each, now, sink);
    look_at_flows(now);
    return 0;
}

bool Relays::arm() { return ends_.empty() || next_look_ != 0; }

Nanoseconds Relays::sleep_max() {
    Nanoseconds most = kSleepForever;
    for (auto& [peer, each] : ends_) {
        if (each->state == State::seeking) most = kLookEvery;
        if (each->state == State::up) most = std::min(most, 5 * kLookEvery);
    }
    return flows_.empty() ? most : std::min(most, 5 * kLookEvery);
}

void Relays::look_at(RelayEnd& end, Nanoseconds now, Sink& sink) {
    switch (end.state) {
    case State::none: return;
    case State::ended: return finish(end, end.why, sink);
    case State::seeking:
        if (now >= end.seek_until) return finish(end, kNobody, sink);
        if (now < end.next_seek) return;
        end.next_seek = now + kSeekEvery;
        return seek(end, now);
    case State::up: break;
    }
    if (hop_lost(end.route[1], now) || losses(end.route[1]) != end.losses)
        return finish(end, kFirstLost, sink);
    if (end.taken - end.told >= kRelayWindow / 4 &&
        send_control({RelayKind::credit, 0, end.route, end.name, end.sent, end.taken}))
        end.told = end.taken;
    if (now - links_.link(end.peer).heard_through_others() < kSilence) {
        end.pause = kSilence;
        end.next_seek = 0;
        end.other = {};
        return;
    }
    if (end.other.count != 0 && now - end.other_since > kPreference)
        return begin(end, std::exchange(end.other, {}),
                     {end.name.number + 1, static_cast<uint32_t>(links_.options().rank)}, sink);
    if (now < end.next_seek || !links_.link(end.peer).outstanding()) return;
    end.next_seek = now + end.pause;
    end.pause = std::min(2 * end.pause, kSilencePauseMost);
    seek(end, now);
}

// The path can be used from now on; an older one cannot.
void Relays::begin(RelayEnd& end, const Route& route, RelayName name, Sink& sink) {
    if (end.state == State::up)  // those between need not stay for it
        send_control({RelayKind::leave, 0, end.route, end.name, 0, 0});
    if (end.state != State::none && end.state != State::seeking) finish(end, kNewer, sink);
    end.state = State::up;
    end.route = route;
    end.name = name;
    end.sent = end.arrived = end.taken = end.told = 0;
    end.losses = losses(route[1]);
    end.other = {};
    end.next_seek = 0;
    end.pause = kSilence;
    if (links_.options().on_peer) links_.options().on_peer(end.peer);
    links_.link(end.peer).relay_up();
}

void Relays::finish(RelayEnd& end, const Error& why, Sink& sink) {
    end.state = State::none;
    links_.link(end.peer).relay_gone(why, sink);
}

// ---- neighbours

Link* Relays::neighbour(int rank) {
    Link* link = links_.existing(rank);
    return link && link->direct() ? link : nullptr;
}

bool Relays::hop_lost(int rank, Nanoseconds now) {
    Link* link = links_.existing(rank);
    return !link || link->over || (!link->direct() && now - link->indirect_since() > kHopPatience);
}

uint64_t Relays::losses(int rank) const {
    Link* link = links_.existing(rank);
    return link ? link->relay_losses() : 0;
}

const std::vector<int>& Relays::candidates() {
    if (!std::exchange(knows_candidates_, true) && links_.options().relays)
        candidates_ = links_.options().relays();
    return candidates_;
}

bool Relays::may_reach(int peer) {
    return std::any_of(candidates().begin(), candidates().end(),
                       [&](int each) { return each != peer && each != links_.options().rank; });
}

// Connects to a few more of those who may stand between.
void Relays::want_neighbours(int most) {
    for (int rank : candidates()) {
        if (rank == links_.options().rank) continue;
        Link* link = links_.existing(rank);
        if (link && !link->rests()) continue;
        auto address = links_.options().address_of(rank);
        if (!address.ok()) continue;
        links_.reach(rank, *address);
        if (--most == 0) return;
    }
}

void Relays::seek(RelayEnd& end, Nanoseconds) {
    want_neighbours(kNewNeighbours);
    RelayHeader header{RelayKind::seek, 1, Route{}.with(links_.options().rank), {}, 0, 0};
    header.name.number = ++seeks_;
    send_seek(header, {end.peer, end.address});
}

void Relays::send_seek(const RelayHeader& header, const Sought& sought) {
    Writer out;
    std::byte head[kRelayHead];
    header.write(head);
    out.put_bytes(head);
    out.put(static_cast<uint32_t>(sought.destination));
    out.put_sized(sought.address);
    int asked = 0;
    for (int rank : candidates()) {
        if (rank == sought.destination || rank == links_.options().rank || header.route.has(rank))
            continue;
        Link* link = neighbour(rank);
        if (link && link->forward(out.bytes(), header.at) && ++asked == kAskedMost) return;
    }
}

// ---- between others

// From this process to the last one of the route. False: the way is lost, or full.
bool Relays::send_control(RelayHeader header) {
    size_t own = 0;
    while (header.route[own] != links_.options().rank) ++own;
    header.at = own + 1;
    std::byte bytes[kRelayHead];
    header.write(bytes);
    Link* hop = links_.existing(header.route[header.at]);
    return hop && hop->forward(bytes, header.at);
}

void Relays::arrive(Link& from, ConstBytes message, Sink& sink) {
    if (message.size() == 1) return;
    auto header = parse_relay(message);
    int self = links_.options().rank;
    bool right = header && header->route[header->at - 1] == from.peer;
    for (size_t i = 0; right && i < header->route.count; ++i)
        right = header->route[i] < links_.options().size;
    if (right && header->kind != RelayKind::seek) right = header->route[header->at] == self;
    if (!right) return from.malformed("A frame for others does not parse");
    ConstBytes body = message.subspan(kRelayHead);
    if (header->kind == RelayKind::seek) return take_seek(*header, body);
    if (header->at + 1 < header->route.count) return forward(*header, message);
    take(*header, body, sink);
}

static std::pair<int, int> ends_of(const Route& route) {
    return std::minmax({route.front(), route.back()});
}

void Relays::forward(const RelayHeader& header, ConstBytes message) {
    Nanoseconds now = links_.now();
    int next = header.route[header.at + 1];
    bool is_data = header.kind == RelayKind::data || header.kind == RelayKind::credit;
    Link* hop = hop_lost(next, now) ? nullptr : links_.existing(next);
    bool went = hop && hop->forward(message, header.at + 1);
    auto pair = ends_of(header.route);
    if (is_data && went) {
        count(links_.counters.relayed_frames);
        count(links_.counters.relayed_bytes, message.size());
        Flow& flow = flows_[pair];
        if (flow.route.count == 0 || !(flow.name == header.name)) {
            bool first = header.route.front() == pair.first;
            flow.route = first ? header.route : header.route.reversed();
            flow.name = header.name;
            flow.losses = losses(next) + losses(header.route[header.at - 1]);
        }
        if (links_.options().on_relay) links_.options().on_relay();
        return;
    }
    if (header.kind != RelayKind::found) flows_.erase(pair);
    if (is_data && !went)
        send_control({RelayKind::broken, 0, header.route.reversed(), header.name, 0, 0});
}

// Neighbours that are lost: who needs them is told, and what waited for them is not kept.
void Relays::look_at_flows(Nanoseconds now) {
    int self = links_.options().rank;
    std::erase_if(flows_, [&](const auto& each) {
        const Flow& flow = each.second;
        size_t own = 1;
        while (flow.route[own] != self) ++own;
        int left = flow.route[own - 1], right = flow.route[own + 1];
        bool some = losses(left) + losses(right) != flow.losses;
        bool left_lost = hop_lost(left, now), right_lost = hop_lost(right, now);
        if ((right_lost || some) && !left_lost)
            send_control({RelayKind::broken, 0, flow.route.reversed(), flow.name, 0, 0});
        if ((left_lost || some) && !right_lost)
            send_control({RelayKind::broken, 0, flow.route, flow.name, 0, 0});
        for (int rank : {left, right})
            if (Link* link = links_.existing(rank); link && hop_lost(rank, now))
                link->forget_forwards();
        return left_lost || right_lost || some;
    });
}

void Relays::take_seek(const RelayHeader& header, ConstBytes body) {
    auto sought = parse_sought(body);
    int self = links_.options().rank, origin = header.route.front();
    if (!sought || sought->destination >= links_.options().size || header.route.has(self) ||
        header.route.has(sought->destination))
        return;
    uint32_t& heard = seeks_heard_[origin];
    if (static_cast<int32_t>(header.name.number - heard) <= 0) return;
    heard = header.name.number;
    Route way = header.route.with(self);
    if (neighbour(sought->destination) && way.count <= kHopsMost) {
        send_control({RelayKind::found, 0, way.with(sought->destination).reversed(), {}, 0, 0});
        return;
    }
    if (sought->destination == self) {
        if (way.count >= 3) send_control({RelayKind::found, 0, way.reversed(), {}, 0, 0});
        return;
    }
    if (Link* link = links_.existing(sought->destination);
        !sought->address.empty() && (!link || link->rests()))
        links_.reach(sought->destination, sought->address);
    if (way.count + 2 > kHopsMost + 1) return;
    want_neighbours(kNewNeighbours);
    send_seek({RelayKind::seek, way.count, way, header.name, 0, 0}, *sought);
}

// ---- for this process

void Relays::take(const RelayHeader& header, ConstBytes body, Sink& sink) {
    if (header.kind == RelayKind::found) return take_found(header, sink);
    RelayEnd& of = end(header.route.front());
    if (header.kind == RelayKind::data && header.name.newer_than(of.name))
        begin(of, header.route.reversed(), header.name, sink);
    if (of.state != State::up || !(of.name == header.name)) return;
    switch (header.kind) {
    case RelayKind::broken: return finish(of, kBroken, sink);
    case RelayKind::leave:
        send_control({RelayKind::leave, 0, of.route, of.name, 0, 0});
        return finish(of, kLeft, sink);
    default: break;
    }
    of.arrived = std::min(of.sent, std::max(of.arrived, header.got));
    if (header.kind != RelayKind::data) return;
    of.taken = std::max(of.taken, header.sent);
    if (of.taken - of.told >= kRelayWindow / 4) next_look_ = 0;
    FrameHeader frame;
    std::memcpy(&frame, body.data(), sizeof frame);
    links_.link(of.peer).arrive_relayed(frame, body.subspan(sizeof frame), sink);
}

void Relays::take_found(const RelayHeader& header, Sink& sink) {
    Route route = header.route.reversed();
    auto found = ends_.find(route.back());
    if (found == ends_.end()) return;
    RelayEnd& of = *found->second;
    auto self = static_cast<uint32_t>(links_.options().rank);
    if (of.state == State::seeking) return begin(of, route, {of.name.number + 1, self}, sink);
    if (of.state != State::up) return;
    if (route == of.route) {
        of.other = {};  // all of them move: the other end is busy
    } else if (of.other.count == 0) {
        of.other = route;
        of.other_since = links_.now();
    }
}

void Relays::say_bye() {
    for (auto& [peer, each] : ends_)
        if (each->state == State::up)
            send_control({RelayKind::leave, 0, each->route, each->name, 0, 0});
}

}  // namespace pomona::link
