// btl/tcp/endpoint.cc: see endpoint.h.
#include "btl/tcp/endpoint.h"

#include "btl/link/link.h"

#include "btl/base/advice.h"
#include "btl/base/check.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/tcp/sealed.h"
#include "btl/tcp/shared.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pomona::tcp {

static constexpr size_t kTriedMost = 600;
// A path's attempt by one pair of addresses: at first, and in later rounds.
static constexpr Nanoseconds kAttemptFirst = 200'000'000;
static constexpr Nanoseconds kAttempt = 2'000'000'000;
// A path that has never succeeded is tried each time after a longer pause, up to so long.
static constexpr Nanoseconds kRestMost = 30'000'000'000;

// Of a connection by which long packets do not get through: bytes that arrived, and its age.
static constexpr uint64_t kHardly = 16 << 10;
static constexpr Nanoseconds kStarvedWithin = 15'000'000'000;
// Where other paths take what one does not bring, it is left long before its system finds that out:
// so many such connections on end. A line that is cut lets none be made.
static constexpr int kLeftMost = 4;

// Shorter than networks have them by themselves.
static constexpr int kShortPackets = 1200;

// Payloads of so many bytes tell how quickly the kernel takes them.
static constexpr size_t kLongPayload = 16 << 10;

// So much is written of a payload before what comes meanwhile is read. By plain sockets, 2 MiB both
// ways at once between two namespaces took 1.03 ms written 512 KiB at a time, 0.32 ms 128 KiB at a
// time with reads between, 0.43 ms 64 KiB at a time (a program that is not kept, two cores).
static constexpr size_t kWriteTurn = 128 << 10;

// Of a payload in two parts, the first one.
static constexpr size_t kFirstMost = 128;

TcpEndpoint::TcpEndpoint(EndpointOwner& owner, int peer, const Params& params)
    : Watched{Kind::endpoint}, peer(peer), owner_(owner) {
    // The link's own words are no part of a piece.
    size_t piece = std::max(params.tcp_fragment, params.tcp_eager_max);
    caps_ = {0, params.tcp_eager_max, piece + kLinkRoom};
}

Error TcpEndpoint::broken() const {
    if (errno == EBADMSG)
        return os_error(Code::peer_gone, "Encrypted bytes were changed on their way", peer);
    return os_error(Code::peer_gone, "The TCP connection is closed", peer);
}

void TcpEndpoint::begin_round(std::vector<Attempt> attempts_now) {
    bool same = attempts_now == plan;
    plan = std::move(attempts_now);
    next_attempt = same ? good_attempt : 0;
    attempts = 0;
    tried.clear();
    first_why = {};
}

void TcpEndpoint::note_failure(const Error& error, bool skipped) {
    bool first = first_why.what[0] == 0;
    // What was tried tells more than what was not.
    if (first || (first_skipped && !skipped)) {
        first_why = error;
        first_skipped = skipped;
    }
    if (skipped || tried.size() > kTriedMost) return;
    tried += format("{}{}: {}", tried.empty() ? "" : "; ", ends.text,
                    error.os_errno ? os_text(error.os_errno) : error.what);
}

void TcpEndpoint::end_round(Nanoseconds now, bool alone) {
    if (!alone && !was_up)
        rest_until = now + std::min(kRestMost, kAttemptFirst << std::min<size_t>(rounds, 8));
    ++rounds;
}

Nanoseconds TcpEndpoint::connect_patience() const {
    return std::min(kAttemptFirst << std::min<size_t>(rounds, 4), kAttempt);
}

// A peer that is busy outside MPI says nothing.
Nanoseconds TcpEndpoint::answer_patience() const { return kAttempt << std::min<size_t>(rounds, 4); }

void TcpEndpoint::find_ends(const Shared& shared) {
    auto own = connection->socket.own_ip(), theirs = connection->socket.peer_ip();
    ends = ends_of(own ? shared.place_of(*own) : nullptr, address.place_of(theirs), theirs);
    connection->leaves_machine(ends.kind != InterfaceKind::loopback);
}

bool TcpEndpoint::starved(const Error& reason, Nanoseconds now) {
    if (state != State::up) return false;
    size_t waits = connection->socket.unacknowledged();
    uint64_t arrived = connection->written - std::min<uint64_t>(connection->written, waits);
    bool unheard = reason.os_errno == ETIMEDOUT;
    if (arrived >= kHardly) left_ = 0;
    if (arrived >= kHardly || now - up_at >= kStarvedWithin) {
        unheard_ |= unheard;
        return false;
    }
    // A cable that is pulled has the first of these ends, and seldom a second one that soon.
    if (unheard) return std::exchange(unheard_, true);
    // What would have gone in short packets tells nothing.
    if (waits <= kShortPackets || ++left_ < kLeftMost) return false;
    left_ = 0;
    return true;
}

bool TcpEndpoint::seal(const link::Crypto& crypto, const link::DirectionKeys& keys) {
    if (connection->has_output()) return false;
    connection->socket.seal(
        std::make_unique<Sealed>(crypto, initiator ? keys.from_dialer : keys.from_listener,
                                 initiator ? keys.from_listener : keys.from_dialer));
    return true;
}

PathDescription TcpEndpoint::describe() const {
    PathDescription out;
    bool made = state >= State::met && state < State::gone;
    if (made) out.text = " " + ends.text;
    else if (!tried.empty()) out.text = ", tried " + tried;
    if (!made && !was_up && first_why.what[0] != 0) {
        NetworkFault fault = first_why.code == Code::timed_out ? NetworkFault::timed_out
                                                               : network_fault(first_why.os_errno);
        std::string_view advice = network_advice(fault);
        if (!advice.empty()) out.text += format(" ({})", advice);
    }
    if (made && connection && connection->socket.sealed()) out.text += ", encrypted";
    int packet = made && connection ? connection->socket.segment_bytes() : 0;
    if (packet > 0 && packet <= kShortPackets)
        out.text += format(", packets of {} bytes at most", packet);
    out.kind = interface_kind_name(ends.kind);
    out.taken = made || state == State::greeting;
    return out;
}

// ---- frames in

bool TcpEndpoint::receive(Sink& sink, int most, int& handed, bool& moved) {
    Connection& c = *connection;
    while (handed < most && reads()) {
        bool more = false;  // the kernel may have more
        count(owner_.counters().tcp_reads);
        ssize_t got = c.in_payload ? c.read_payload(more) : c.read_in(kReadMost, more);
        if (got <= 0) return got == 0;
        moved = true;
        if (c.in_payload && c.payload_done == c.head.length) finish_payload(sink, handed);
        if (!c.in_payload && !parse_frames(sink, handed)) return false;
        if (!more || sink.enough) return true;
    }
    return true;
}

// Hands on the whole frames in the buffer; begins to place a longer one. False when it is no frame.
bool TcpEndpoint::parse_frames(Sink& sink, int& handed) {
    Connection& c = *connection;
    while (c.in_end - c.in_begin >= kFrameHead && reads()) {
        std::memcpy(&c.head, c.in.data() + c.in_begin, kFrameHead);
        if (c.head.length > caps().fragment_max) return errno = EPROTO, false;
        size_t there = c.in_end - c.in_begin - kFrameHead;
        const std::byte* payload = c.in.data() + c.in_begin + kFrameHead;
        if (there >= c.head.length) {
            c.in_begin += kFrameHead + c.head.length;
            ++handed;
            sink.arrive(peer, c.head.header, {payload, c.head.length});
            continue;
        }
        // Short ones are worth waiting for in the buffer; long ones go straight to their place.
        if (c.head.length <= kWaitMax) break;
        c.target = sink.place(peer, c.head.header, c.head.length);
        if (!c.target) {
            c.gathered.reserve(c.head.length);
            c.target = c.gathered.data();
        }
        if (c.head.length >= kLongPayload) owner_.long_payload_comes();
        std::memcpy(c.target, payload, there);
        c.payload_done = there;
        c.in_payload = true;
        c.in_begin = c.in_end = 0;
        return true;
    }
    c.close_ranks();
    return true;
}

void TcpEndpoint::finish_payload(Sink& sink, int& handed) {
    Connection& c = *connection;
    c.in_payload = false;
    ++handed;
    sink.arrive(peer, c.head.header, {c.target, c.head.length});
}

// ---- frames out

Push TcpEndpoint::end_output() {
    why = broken();
    connection->output_over = true;
    owner_.attend(*this);
    return Push::busy;
}

// Nothing of a frame was taken. Who sleeps is woken when there is room.
Push TcpEndpoint::no_room() {
    connection->refused = true;
    owner_.attend(*this);
    return Push::busy;
}

Pace TcpEndpoint::pace() {
    if (state != State::up) return {};
    take_back_output();
    Pace found = connection->pace(owner_.clock().now());
    if (connection->paced) owner_.attend(*this);
    return found;
}

size_t TcpEndpoint::kept() { return state == State::up ? connection->socket.unacknowledged() : 0; }

// What it has left to the AwayWriter is its own again, and to be left anew.
void TcpEndpoint::take_back_output() {
    if (!connection->away.left()) return;
    connection->away.take_back();
    owner_.attend(*this);
}

// Is the connection up and everything before out?
bool TcpEndpoint::can_push(Push& why_not) {
    if (state != State::up) {
        why_not = refusal();
        return false;
    }
    Connection& c = *connection;
    take_back_output();
    why_not = Push::busy;
    if (c.output_over) return false;
    if (c.has_output() && !c.flush()) return why_not = end_output(), false;
    return !c.blocked();
}

Push TcpEndpoint::push(const FrameHeader& header, ConstBytes payload) {
    size_t taken = 0;
    Push done = push_part(header, payload, taken);
    if (done == Push::sent && taken < payload.size()) keep_rest(payload.subspan(taken));
    return done;
}

// The kernel took a part: the rest is ours to bring.
bool TcpEndpoint::keep_rest(ConstBytes rest) {
    if (state != State::up) return false;
    take_back_output();
    connection->queue(rest);
    connection->rest = 0;
    connection->in_turns = false;
    owner_.attend(*this);
    return true;
}

bool TcpEndpoint::push_kept(const FrameHeader& header, ConstBytes first, ConstBytes second) {
    if (state != State::up || connection->output_over || connection->rest != 0) return false;
    take_back_output();
    FrameHead head{first.size() + second.size(), header};
    connection->queue({reinterpret_cast<const std::byte*>(&head), sizeof head});
    connection->queue(first);
    connection->queue(second);
    owner_.attend(*this);
    return true;
}

// One piece for the kernel, without a copy that puts the head before the payload.
Push TcpEndpoint::push_behind_room(const FrameHeader& header, Bytes whole) {
    static_assert(kFrameHead <= kHeadRoom);
    Push why_not;
    if (!can_push(why_not)) return why_not;
    ConstBytes payload = whole.subspan(kHeadRoom);
    FrameHead head{payload.size(), header};
    Bytes frame = whole.subspan(kHeadRoom - kFrameHead);
    std::memcpy(frame.data(), &head, sizeof head);
    ssize_t moved = connection->socket.write(frame, {});
    if (moved < 0) return end_output();
    if (moved == 0) return no_room();
    size_t taken = 0;
    begun(frame.first(kFrameHead), payload, static_cast<size_t>(moved), taken);
    if (taken < payload.size()) keep_rest(payload.subspan(taken));
    return Push::sent;
}

Push TcpEndpoint::push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) {
    Push why_not;
    if (!can_push(why_not)) return why_not;
    Connection& c = *connection;
    FrameHead head{payload.size(), header};
    ConstBytes now = for_turn(payload);
    ssize_t moved = c.write_frame(head, now);
    if (moved < 0) return end_output();
    if (moved == 0) return no_room();
    c.in_turns =
        now.size() < payload.size() && static_cast<size_t>(moved) == sizeof head + now.size();
    return begun({reinterpret_cast<const std::byte*>(&head), sizeof head}, payload,
                 static_cast<size_t>(moved), taken);
}

Push TcpEndpoint::push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                                size_t& taken) {
    std::byte whole[sizeof(FrameHead) + kFirstMost];
    check(first.size() <= kFirstMost, first.size());
    Push why_not;
    if (!can_push(why_not)) return why_not;
    FrameHead head{first.size() + second.size(), header};
    std::memcpy(whole, &head, sizeof head);
    std::memcpy(whole + sizeof head, first.data(), first.size());
    ConstBytes begin{whole, sizeof head + first.size()};
    ssize_t moved = connection->socket.write(begin, second);
    if (moved < 0) return end_output();
    if (moved == 0) return no_room();
    return begun(begin, second, static_cast<size_t>(moved), taken);
}

// What is to be written of it now.
ConstBytes TcpEndpoint::for_turn(ConstBytes payload) {
    bool turns = payload.size() > kWriteTurn && owner_.receives_long();
    return turns ? payload.first(kWriteTurn) : payload;
}

// The kernel has taken bytes of a long payload.
void TcpEndpoint::note_intake(size_t taken) {
    if (ends.kind == InterfaceKind::loopback) return;
    Connection& c = *connection;
    bool full = c.rest != 0 && !c.in_turns;
    if (c.unsent.took(taken, full, owner_.clock().now(), full ? kept() : 0))
        c.socket.keep_unsent(c.unsent.most());
}

// The kernel took `moved` bytes of a frame. What is left of its head is queued.
Push TcpEndpoint::begun(ConstBytes head, ConstBytes payload, size_t moved, size_t& taken) {
    Connection& c = *connection;
    c.written += moved;
    if (moved < head.size()) {
        c.queue(head.subspan(moved));
        moved = head.size();
    }
    taken = moved - head.size();
    c.rest = payload.size() - taken;
    if (payload.size() >= kLongPayload) note_intake(taken);
    if (c.in_turns) {
        owner_.attend(*this);
    } else if (c.blocked()) {
        count(owner_.counters().tcp_write_blocked);
        owner_.attend(*this);
    }
    return Push::sent;
}

Push TcpEndpoint::push_rest(ConstBytes rest, size_t& taken) {
    if (state != State::up) return refusal();
    Connection& c = *connection;
    check(rest.size() == c.rest, rest.size(), c.rest);
    take_back_output();
    if (c.output_over) return Push::busy;
    if (c.has_output()) {
        if (!c.flush()) return end_output();
        if (c.has_output()) return Push::busy;
    }
    ConstBytes now = for_turn(rest);
    c.in_turns = false;
    ssize_t moved = c.socket.write(now, {});
    if (moved < 0) return end_output();
    if (moved == 0) return Push::busy;
    taken = static_cast<size_t>(moved);
    c.in_turns = taken == now.size() && taken < rest.size();
    c.written += taken;
    c.rest -= taken;
    note_intake(taken);
    return Push::sent;
}

Push TcpEndpoint::push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                            void* context) {
    Push why_not;
    if (!can_push(why_not)) return why_not;
    Connection& c = *connection;
    Bytes frame = c.add_output(kFrameHead + length);
    FrameHead head{length, header};
    std::memcpy(frame.data(), &head, sizeof head);
    fill(context, frame.subspan(sizeof head));
    if (!c.flush()) end_output();  // reported by the next poll
    else if (c.has_output()) owner_.attend(*this);
    return Push::sent;
}

}  // namespace pomona::tcp
