// btl/link/carried.cc: see carried.h.
#include "btl/link/carried.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/link/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::link {

static constexpr Nanoseconds kMillisecond = 1'000'000;
static constexpr Nanoseconds kLookEvery = 20 * kMillisecond;
// Between hellos: from this on, doubling; for so long in all.
static constexpr Nanoseconds kHelloFirst = 2 * kMillisecond;
static constexpr Nanoseconds kAskFor = 1000 * kMillisecond;
// Without an answer so often there is a pause, until an owner says that its cable is back.
static constexpr int kFailuresMost = 2;
static constexpr Nanoseconds kRestFirst = 1000 * kMillisecond, kRestMost = 30'000 * kMillisecond;
// Who has no room asks what was taken after so long.
static constexpr Nanoseconds kBlocked = 5 * kMillisecond;
// What waits for room is looked at by who sleeps.
static constexpr Nanoseconds kNap = 50'000;
static constexpr uint64_t kWindow = 1 << 20;
// Of a frame, with the header of its link: what shared memory takes in one piece, and an RDMA
// message that has room for 64 KiB.
static constexpr size_t kPartMost = 64 << 10;
static constexpr uint64_t kRankMask = (uint64_t{1} << 24) - 1;
static constexpr uint8_t kFirst = 1, kLast = 2;

static constexpr Error kNoAnswer{Code::refused, "No way by another rank's queue pair was found"};
static constexpr Error kResting{Code::timed_out, "No way by another rank's queue pair was found"};
static constexpr Error kLost{Code::peer_gone, "The rank that owns the queue pair has lost the way"};
static constexpr Error kOwnerGone{Code::peer_gone, "The rank that owns the queue pair is gone"};
static constexpr Error kLeft{Code::peer_gone, "The other process does not need it any more"};

FrameHeader CarriedHeader::pack() const {
    uint64_t flags = (first ? kFirst : 0) | (last ? kLast : 0);
    return {{static_cast<uint64_t>(from) | static_cast<uint64_t>(to) << 24 |
                 static_cast<uint64_t>(kind) << 48 | flags << 56,
             sent, kCarriedWord, got}};
}

std::optional<CarriedHeader> parse_carried(const FrameHeader& frame, size_t payload) {
    CarriedHeader out;
    uint64_t word = frame.word[0], flags = word >> 56;
    out.from = static_cast<int>(word & kRankMask);
    out.to = static_cast<int>(word >> 24 & kRankMask);
    out.kind = static_cast<CarriedKind>(word >> 48 & 0xff);
    out.first = (flags & kFirst) != 0;
    out.last = (flags & kLast) != 0;
    out.sent = frame.word[1];
    out.got = frame.word[3];
    if (frame.word[2] != kCarriedWord || out.from == out.to || (flags & ~(kFirst | kLast)) != 0)
        return std::nullopt;
    switch (out.kind) {
    case CarriedKind::data:
        if (payload == 0 || payload > out.sent || (out.first && payload < sizeof(FrameHeader)))
            return std::nullopt;
        return out;
    case CarriedKind::hello:
    case CarriedKind::welcome:
    case CarriedKind::leave:
    case CarriedKind::broken:
    case CarriedKind::again:
        if (payload != 0 || flags != 0) return std::nullopt;
        return out;
    }
    return std::nullopt;
}

// One end of a path by another rank's queue pairs.
class CarriedEnd final : public Endpoint {
public:
    enum class State { none, asking, up, ended };

    CarriedEnd(Carried& carried, int peer) : peer(peer), carried_(carried) {
        size_t most = kPartMost - sizeof(FrameHeader);
        caps_ = {0, most, most};
    }
    Push push(const FrameHeader& header, ConstBytes payload) override {
        size_t taken = 0;
        return push_gathered(header, payload, {}, taken);
    }
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override {
        if (Push can = can_push(); can != Push::sent) return can;
        std::vector<std::byte> bytes(length);
        fill(context, bytes);
        return push(header, bytes);
    }
    Push push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                       size_t& taken) override {
        taken = second.size();
        if (Push can = can_push(); can != Push::sent) return can;
        // The header is a part of the first bytes; those are short, or all there is.
        std::byte head[sizeof header + kHeadMost];
        std::memcpy(head, &header, sizeof header);
        if (sizeof header + first.size() + second.size() <= kPartMost &&
            first.size() <= kHeadMost) {
            std::copy(first.begin(), first.end(), head + sizeof header);
            return push_part_of(true, true, {head, sizeof header + first.size()}, second);
        }
        if (second.empty() && sizeof header + first.size() <= kPartMost)
            return push_part_of(true, true, {head, sizeof header}, first);
        rest_.assign(head, head + sizeof header);
        rest_.insert(rest_.end(), first.begin(), first.end());
        rest_.insert(rest_.end(), second.begin(), second.end());
        rest_done_ = 0;
        Push result = drain_rest();
        if (rest_done_ == 0) rest_.clear();
        return rest_done_ == 0 && result != Push::sent ? result : Push::sent;
    }
    Pace pace() override {
        size_t queued = static_cast<size_t>(sent - arrived);
        return {meter_.rate(queued, arrived, carried_.now()), queued, arrived};
    }
    void abandon(const Error& reason) override {
        if (state == State::up) carried_.tell(*this, CarriedKind::leave);
        end(reason);
    }
    void end(const Error& reason) {
        if (state != State::up && state != State::asking) return;
        state = State::ended;
        why = reason;
        rest_.clear();
        carried_.next_look_ = 0;
    }
    std::string state_text() const override { return "another rank's RDMA"; }
    bool waits_for_room() const { return !rest_.empty() || sent - arrived >= kWindow / 2; }
    // The parts of a frame of which the first has gone.
    Push drain_rest() {
        while (!rest_.empty()) {
            size_t left = rest_.size() - rest_done_, part = std::min(left, kPartMost);
            ConstBytes bytes{rest_.data() + rest_done_, part};
            Push result = push_part_of(rest_done_ == 0, part == left, bytes, {});
            if (result != Push::sent) return result;
            rest_done_ += part;
            if (part == left) rest_.clear();
        }
        return Push::sent;
    }
    // A part that is not the next one is one of a frame that has lost others: its link sends it
    // again. True: `frame` is whole.
    bool assemble(const CarriedHeader& header, ConstBytes payload, ConstBytes& frame) {
        if (header.first && header.last) {
            frame = payload;
            return true;
        }
        if (header.first) assembly_.clear();
        else if (assembly_.empty() || header.sent - payload.size() != assembled_) return false;
        assembly_.insert(assembly_.end(), payload.begin(), payload.end());
        assembled_ = header.sent;
        if (!header.last) return false;
        whole_ = std::exchange(assembly_, {});
        frame = whole_;
        return true;
    }

    const int peer;
    State state = State::none;
    uint64_t sent = 0, arrived = 0;  // bytes; arrived: as the peer has told
    uint64_t taken = 0, told = 0;    // from the peer; told: as it knows
    Nanoseconds ask_until = 0, next_hello = 0, pause = 0, rest_until = 0;
    int failures = 0;  // one after the other
    Error why{};

private:
    static constexpr size_t kHeadMost = 256;

    Push can_push() {
        if (state == State::asking) return Push::busy;
        if (state != State::up) return Push::gone;
        if (!rest_.empty() && drain_rest() != Push::sent) return Push::busy;
        return sent - arrived < kWindow ? Push::sent : Push::busy;
    }
    Push push_part_of(bool first, bool last, ConstBytes one, ConstBytes two) {
        CarriedHeader header{CarriedKind::data,
                             first,
                             last,
                             carried_.self(),
                             peer,
                             sent + one.size() + two.size(),
                             taken};
        Push result = carried_.push(carried_.hop_to(peer), header.pack(), one, two);
        if (result == Push::gone) end(kOwnerGone);
        if (result != Push::sent) return result;
        count(carried_.links_.counters.carried_bytes, one.size() + two.size());
        sent = header.sent;
        told = taken;
        return result;
    }

    Carried& carried_;
    PaceMeter meter_;
    std::vector<std::byte> rest_;
    size_t rest_done_ = 0;
    std::vector<std::byte> assembly_, whole_;
    uint64_t assembled_ = 0;  // `sent` of its last part
};

using State = CarriedEnd::State;

Carried::Carried(Links& links) : links_(links) {}
Carried::~Carried() = default;

Nanoseconds Carried::now() { return links_.now(); }
int Carried::self() const { return links_.options().rank; }
bool Carried::is_local(int rank) const {
    int owner = links_.options().owner_of(rank);
    return owner >= 0 && owner == links_.options().owner_of(self());
}

int Carried::hop_to(int rank) const {
    if (is_local(rank)) return rank;
    int here = links_.options().owner_of(self());
    return self() == here ? links_.options().owner_of(rank) : here;
}

// ---- the transport

// The other side has such paths.
std::vector<std::byte> Carried::address() const { return std::vector<std::byte>(1); }

CarriedEnd& Carried::end(int peer) {
    auto& slot = ends_[peer];
    if (!slot) slot = std::make_unique<CarriedEnd>(*this, peer);
    return *slot;
}

Result<Endpoint*> Carried::connect(int peer, ConstBytes) {
    if (!links_.options().by_owner(peer))
        return Error{Code::unsupported, "This pair has queue pairs of its own, or no owner", peer};
    CarriedEnd& made = end(peer);
    Nanoseconds time = now();
    if (made.state == State::none) {
        if (time < made.rest_until) return kResting;
        made.state = State::asking;
        made.ask_until = time + kAskFor;
        made.next_hello = time;
        made.pause = kHelloFirst;
        next_look_ = 0;
    }
    return static_cast<Endpoint*>(&made);
}

Endpoint* Carried::path(int peer) {
    auto found = ends_.find(peer);
    return found == ends_.end() ? nullptr : found->second.get();
}

PathDescription Carried::describe(int peer) {
    PathDescription out;
    int here = links_.options().owner_of(self());
    out.text = here == self() ? format("rdma by this rank's queue pair to rank {}", hop_to(peer))
                              : format("rdma by rank {}'s queue pair", here);
    out.kind = "thunderbolt";
    out.reliable = out.watched = out.taken = false;
    return out;
}

int Carried::poll(Sink& sink, int) {
    if (rests()) return 0;
    int moved = waiting_ != 0 && drain() ? 1 : 0;
    if (ends_.empty() && served_.empty()) return moved;
    Nanoseconds time = now();
    if (time < next_look_) return moved;
    next_look_ = time + kLookEvery;
    for (auto& [peer, each] : ends_) look_at(*each, time, sink);
    look_at_served();
    return moved;
}

Nanoseconds Carried::sleep_max() {
    if (waiting_ != 0) return kNap;
    Nanoseconds most = served_.empty() ? kSleepForever : 5 * kLookEvery;
    for (auto& [peer, each] : ends_) {
        if (each->state == State::asking) most = std::min(most, each->pause);
        if (each->state == State::up && each->waits_for_room()) most = std::min(most, kBlocked);
    }
    return most;
}

void Carried::look_at(CarriedEnd& end, Nanoseconds time, Sink& sink) {
    switch (end.state) {
    case State::none: return;
    case State::ended: end.state = State::none; return sink.gone(end.peer, end.why);
    case State::asking:
        if (time >= end.ask_until) {
            if (++end.failures >= kFailuresMost)
                end.rest_until =
                    time +
                    std::min(kRestMost, kRestFirst << std::min(end.failures - kFailuresMost, 6));
            end.end(kNoAnswer);
            return;
        }
        if (time >= end.next_hello) {
            tell(end, CarriedKind::hello);
            end.next_hello = time + end.pause;
            end.pause = std::min(2 * end.pause, kAskFor / 4);
        }
        next_look_ = std::min(next_look_, end.next_hello);
        return;
    case State::up: break;
    }
    if (end.taken - end.told >= kWindow / 4) tell(end, CarriedKind::welcome);
    if (end.drain_rest() == Push::gone) return;
    if (!end.waits_for_room()) return;
    if (time >= end.next_hello) {
        tell(end, CarriedKind::hello);
        end.next_hello = time + kBlocked;
    }
    next_look_ = std::min(next_look_, end.next_hello);
}

// ---- to the next process

Push Carried::push(int hop, const FrameHeader& header, ConstBytes first, ConstBytes second) {
    if (auto queue = queues_.find(hop); queue != queues_.end() && !queue->second.empty())
        return Push::busy;
    if (is_local(hop)) {
        Endpoint* local = links_.options().local(hop);
        size_t taken = 0;
        return local ? local->push_gathered(header, first, second, taken) : Push::gone;
    }
    Link* link = links_.existing(hop);
    if (link && !link->rests()) return link->push_carried(header, first, second);
    if (auto address = links_.options().address_of(hop); address.ok()) links_.reach(hop, *address);
    return Push::gone;
}

bool Carried::send(int hop, const CarriedHeader& header, ConstBytes payload) {
    FrameHeader frame = header.pack();
    Push result = push(hop, frame, payload, {});
    if (result != Push::busy) return result == Push::sent;
    if (waiting_ + sizeof frame + payload.size() > kForwardMost) return true;  // lost
    waiting_ += sizeof frame + payload.size();
    queues_[hop].push_back({frame, {payload.begin(), payload.end()}});
    return true;
}

bool Carried::drain() {
    bool moved = false;
    for (auto& [hop, queue] : queues_) {
        std::deque<Waiting> waits = std::exchange(queue, {});  // push() looks at it
        Push result = Push::sent;
        while (!waits.empty()) {
            Waiting& next = waits.front();
            result = push(hop, next.header, next.payload, {});
            if (result == Push::busy) break;
            waiting_ -= sizeof next.header + next.payload.size();
            waits.pop_front();
            moved = true;
        }
        queue = std::move(waits);
    }
    return moved;
}

bool Carried::tell(CarriedEnd& end, CarriedKind kind) {
    end.told = end.taken;
    return send(hop_to(end.peer), {kind, false, false, self(), end.peer, end.sent, end.taken}, {});
}

// ---- from there

void Carried::arrive(int hop, const FrameHeader& frame, ConstBytes payload, Sink& sink) {
    auto header = parse_carried(frame, payload.size());
    const auto& owner_of = links_.options().owner_of;
    // From a rank here, of its own; or from an owner, of its machine.
    bool right = header && owner_of(header->from) >= 0 && owner_of(header->to) >= 0;
    if (right && is_local(header->to))
        right = hop == owner_of(self()) || hop == owner_of(header->from);
    else if (right) right = is_local(hop) && hop == header->from;
    if (!right) {
        LOG(error, btl, "Rank {} sent a frame for others that does not parse", hop);
        return;
    }
    if (header->to == self()) take(*header, payload, sink);
    else hand_on(hop, *header, payload);
}

void Carried::hand_on(int hop, const CarriedHeader& header, ConstBytes payload) {
    if (links_.options().owner_of(self()) != self()) return;
    int next = hop_to(header.to);
    bool outwards = is_local(hop);
    Served* served = nullptr;
    if (outwards) {
        served = &served_[next];
        served->ranks.insert(hop);
        if (links_.options().on_relay) links_.options().on_relay();
    }
    if (!send(next, header, payload)) {
        if (outwards && header.kind == CarriedKind::data) {
            served->up = false;
            tell_served(next, CarriedKind::broken);
        }
        return;
    }
    if (outwards) served->up = true;
    if (header.kind != CarriedKind::data) return;
    count(links_.counters.relayed_frames);
    count(links_.counters.relayed_bytes, payload.size());
}

// What a cable does that nothing is sent by: its ranks may only wait.
void Carried::look_at_served() {
    for (auto& [owner, served] : served_) {
        Link* link = links_.existing(owner);
        bool up = link && link->carries();
        if (up == served.up) continue;
        served.up = up;
        tell_served(owner, up ? CarriedKind::again : CarriedKind::broken);
    }
}

void Carried::tell_served(int owner, CarriedKind kind) {
    CarriedHeader header{kind, false, false, owner, 0, 0, 0};
    for (int rank : served_[owner].ranks) {
        header.to = rank;
        send(rank, header, {});
    }
    hear_of_way(header);
}

void Carried::hear_of_way(const CarriedHeader& header) {
    for (auto& [peer, each] : ends_) {
        if (links_.options().owner_of(peer) != header.from) continue;
        if (header.kind == CarriedKind::again) each->rest_until = 0;
        else if (each->state == State::up) each->end(kLost);
    }
}

void Carried::take(const CarriedHeader& header, ConstBytes payload, Sink& sink) {
    if (header.kind == CarriedKind::broken || header.kind == CarriedKind::again)
        return hear_of_way(header);
    if (!ends_.contains(header.from) && !links_.options().by_owner(header.from)) return;
    CarriedEnd& of = end(header.from);
    if (header.kind == CarriedKind::leave) return of.end(kLeft);
    if (of.state == State::none || of.state == State::asking) {
        // TCP stands first.
        Link* link = links_.existing(header.from);
        if (!link || !link->may_ride()) return;
        of.state = State::up;
        of.failures = 0;
        of.rest_until = 0;
        of.next_hello = 0;
        sink.up(of.peer);
    }
    if (of.state != State::up) return;
    of.arrived = std::min(of.sent, std::max(of.arrived, header.got));
    of.taken = std::max(of.taken, header.sent);
    if (header.kind == CarriedKind::hello) tell(of, CarriedKind::welcome);
    else if (of.taken - of.told >= kWindow / 4) next_look_ = 0;
    ConstBytes frame;
    if (header.kind != CarriedKind::data || !of.assemble(header, payload, frame)) return;
    FrameHeader head;
    std::memcpy(&head, frame.data(), sizeof head);
    sink.arrive(of.peer, head, frame.subspan(sizeof head));
}

}  // namespace pomona::link
