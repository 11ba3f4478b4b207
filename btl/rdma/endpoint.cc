// btl/rdma/endpoint.cc: frames through a path's queue pairs. agree.cc makes the path.
#include "btl/rdma/endpoint.h"

#include "btl/base/check.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/link/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::rdma {

// Without credit for so long, the peer is told how far it is; then after twice the time, and so on.
static constexpr Nanoseconds kBlockedFirst = 5'000'000;
static constexpr Nanoseconds kBlockedMost = 500'000'000;
static constexpr Nanoseconds kPortEvery = 20'000'000;
// For so many looks at the port a queue pair has sent nothing of what it has, though the other end
// has posted receives for all of it: its device stands still, and the path is made anew.
static constexpr int kStuckLooks = 12;
// What sending and receiving a message takes, in bytes of a cable's time.
static constexpr size_t kMessageCost = 2048;
static constexpr size_t kShortMost = room_in(kLimits.frame);
// Of messages that are over for their sender when a link has them.
static constexpr size_t kWholeMost = (64 << 10) + kLinkRoom;
static_assert(kShortMost < kApartFrom);

RdmaEndpoint::RdmaEndpoint(EndpointOwner& owner, int peer, bool leads, size_t frame_most,
                           int pairs_most)
    : peer(peer), owner_(owner), leads_(leads), frame_most_(frame_most), pairs_most_(pairs_most) {
    caps_ = {0, room_in(kLimits.frame), frame_most};
}

// ---- out

// Short frames go in slots of 4 KiB, also as many of them: a long slot always goes as a whole, so
// that a frame of half its length would take the cable for twice its time.
int RdmaEndpoint::pair_for(size_t length) const {
    if (cable_->pairs() == 1) return 0;
    auto messages = [&](size_t stride) { return (length + room_in(stride) - 1) / room_in(stride); };
    size_t stride = cable_->stride(1);
    size_t small = messages(kLimits.frame) * (kLimits.frame + kMessageCost);
    return small <= messages(stride) * (stride + kMessageCost) ? 0 : 1;
}

// What a program may leave behind as over has room as a whole or does not go: of the room for the
// rest only this process would hear. Longer frames are pieces of messages that are not over.
bool RdmaEndpoint::has_room_for(size_t length) const {
    size_t room = room_in(cable_->stride(rest_pair_));
    bool whole = length <= kWholeMost;
    return cable_->has_room_for(rest_pair_, whole ? (length + room - 1) / room : 1);
}

// `sent`: it can take a frame of so many bytes.
Push RdmaEndpoint::can_push(size_t length) {
    if (stopped_) return Push::gone;
    if (state_ != State::up || !told_up_) return told_up_ ? Push::gone : Push::busy;
    if (!rest_.empty()) return Push::busy;
    check(length <= frame_most_, length, frame_most_);
    rest_pair_ = pair_for(length);
    if (has_room_for(length)) return Push::sent;
    if (blocked_since_ == 0) blocked_since_ = owner_.now();
    blocked_length_ = length;
    return Push::busy;
}

Push RdmaEndpoint::push(const FrameHeader& header, ConstBytes payload) {
    // What push_parts() does for nearly every short one, in few instructions.
    bool quick = state_ == State::up && told_up_ && !stopped_ && rest_.empty() &&
                 payload.size() <= kShortMost && cable_->has_room(0, false);
    if (!quick) return push_parts(header, {payload, {}});
    return has_sent(cable_->send_short(header, payload)) ? Push::sent : Push::gone;
}

Push RdmaEndpoint::push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                                 size_t& taken) {
    taken = second.size();
    return push_parts(header, {first, second});
}

Push RdmaEndpoint::push_parts(const FrameHeader& header, const Parts& payload) {
    Push can = can_push(payload.size());
    if (can != Push::sent) return can;
    rest_header_ = header;
    rest_done_ = 0;
    rest_total_ = payload.size();
    do {
        if (!send_part(payload)) return Push::gone;
    } while (rest_done_ < rest_total_ && cable_->has_room(rest_pair_, false));
    // The rest waits for credit here.
    if (rest_done_ < rest_total_) {
        size_t of_first = std::min(rest_done_, payload.first.size());
        ConstBytes first = payload.first.subspan(of_first);
        ConstBytes second = payload.second.subspan(rest_done_ - of_first);
        rest_.assign(first.begin(), first.end());
        rest_.insert(rest_.end(), second.begin(), second.end());
    }
    return Push::sent;
}

// The next message of the frame; `payload` is all of it, or what is left.
bool RdmaEndpoint::send_part(const Parts& payload) {
    size_t left = rest_total_ - rest_done_;
    size_t part = std::min(left, room_in(cable_->stride(rest_pair_)));
    bool whole = part == rest_total_;
    uint32_t checksum =
        cable_->copy_to_slot(rest_pair_, payload, payload.size() - left, part, whole);
    if (!send(rest_pair_, MessageKind::data, rest_header_,
              {part, rest_total_, rest_done_, checksum}))
        return false;
    rest_done_ += part;
    return true;
}

bool RdmaEndpoint::send(int pair, MessageKind kind, const FrameHeader& header,
                        const Cable::Part& part) {
    return has_sent(cable_->send(pair, kind, header, part));
}

bool RdmaEndpoint::has_sent(int error) {
    if (error != 0) return fail_message(cable_->not_taken(error)), false;
    if (peer_sleeps_) {
        peer_sleeps_ = false;
        say(Words{Word::bell, attempt_});
    }
    return true;
}

void RdmaEndpoint::drain_rest() {
    while (!rest_.empty() && cable_->has_room(rest_pair_, false)) {
        if (!send_part({rest_, {}})) return;
        if (rest_done_ == rest_total_) rest_.clear();
    }
    if (!rest_.empty() && blocked_since_ == 0) blocked_since_ = owner_.now();
}

Push RdmaEndpoint::push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                             void* context) {
    Push can = can_push(length);
    if (can != Push::sent) return can;
    if (length > room_in(cable_->stride(rest_pair_))) {
        std::vector<std::byte> bytes(length);
        fill(context, bytes);
        return push(header, bytes);
    }
    fill(context, {cable_->payload_slot(rest_pair_), length});
    uint32_t checksum = cable_->slot_checksum(rest_pair_, length);
    bool sent = send(rest_pair_, MessageKind::data, header, {length, length, 0, checksum});
    return sent ? Push::sent : Push::gone;
}

Pace RdmaEndpoint::pace() {
    if (!cable_) return {};
    size_t queued = cable_->queued() + rest_.size();
    uint64_t left = cable_->left();
    return {meter_.rate(queued, left, owner_.now()), queued, left};
}

void RdmaEndpoint::tell_credit() {
    // Before, the follower would take it for the leader's first message.
    if (state_ != State::up || !cable_->owes_credit() || !cable_->has_room(0, true)) return;
    send(0, MessageKind::credit, {}, {});
}

void RdmaEndpoint::go_to_sleep() {
    if (state_ != State::up || stopped_ || sleep_ != Sleep::no) return;
    Words words{Word::asleep, attempt_};
    for (int i = 0; i < cable_->pairs(); ++i) words.frames[i] = cable_->seen_frames(i);
    sleep_ = Sleep::told;
    say(std::move(words));
}

// ---- in

int RdmaEndpoint::poll(Sink& sink, int most) {
    if (!cable_ || stopped_ || tell_gone_ || state_ < State::probing) return 0;
    sink_ = &sink;
    handed_ = 0;
    int found = cable_->poll(*this, most, stopped_, poll_why_);
    sink_ = nullptr;
    if (found < 0) return fail_poll();
    if (found == 0 && resync_asked_ && !stopped_) [[unlikely]]
        answer_resync();
    if (found == 0 && rest_.empty() && blocked_since_ == 0) return 0;
    if (handed_ > 0) sleep_ = Sleep::no;
    if (found > 0) tell_credit();
    if (!rest_.empty() && !stopped_) drain_rest();
    else if (blocked_since_ != 0 && has_room_for(blocked_length_)) blocked_since_ = 0;
    return handed_;
}

[[gnu::noinline]] int RdmaEndpoint::fail_poll() {
    fail_message(std::exchange(poll_why_, {}));
    return handed_;
}

void RdmaEndpoint::message(int pair, const MessageHead& head, ConstBytes payload) {
    if (stopped_) return;
    auto which = static_cast<size_t>(pair);
    // Nearly every short frame.
    bool quick = head.kind == MessageKind::data && head.length == head.total &&
                 head.checked != Checked::apart && state_ == State::up && !tell_up_ &&
                 head.total <= frame_most_ && assembly_[which].bytes.empty();
    if (quick) {
        ++handed_;
        return sink_->arrive(peer, head.header, payload);
    }
    if (head.kind == MessageKind::probe) {
        if (payload_is_sound(head, payload, owner_.devices().copiers())) probe_came(pair);
        return;
    }
    // The leader sends frames only when it is through: its `go` may come later.
    if (state_ == State::answering) come_up();
    Assembly& assembly = assembly_[which];
    if (head.kind == MessageKind::credit) {
        // A frame that waited for room goes on behind it.
        if (head.sequence == assembly.next) assembly.next += frames_of(cable_->stride(pair));
        return;
    }
    if (state_ != State::up) return;
    if (head.total > frame_most_) return fail({"the peer sent too long a frame"});
    // Before the first frame.
    if (tell_up_) {
        tell_up_ = false;
        told_up_ = true;
        sink_->up(peer);
        if (stopped_) return;
    }
    if (head.length == head.total) {
        assembly.bytes.clear();
        if (!bring(head, payload)) return;
        ++handed_;
        return sink_->arrive(peer, head.header, payload);
    }
    // A part that is not the next one was overtaken, or the one before is lost: the link sends the
    // frame again.
    bool goes_on = head.offset == assembly.bytes.size() &&
                   (head.offset == 0 || head.sequence == assembly.next);
    if (!goes_on && head.offset != 0) return;
    if (!goes_on) assembly.bytes.clear();
    if (head.offset == 0) assembly.bytes.reserve(head.total);
    assembly.bytes.insert(assembly.bytes.end(), payload.begin(), payload.end());
    assembly.next = head.sequence + frames_of(cable_->stride(pair));
    if (assembly.bytes.size() < head.total) return;
    ++handed_;
    std::vector<std::byte> whole = std::move(assembly.bytes);
    assembly.bytes.clear();
    sink_->arrive(peer, head.header, whole);
}

// A payload that came whole, which is copied to its place, if it has one, where that is one pass
// with the checksum. False when it was changed: the link sends it again.
bool RdmaEndpoint::bring(const MessageHead& head, ConstBytes& payload) {
    bool asks = head.checked == Checked::apart;
    std::byte* place = asks ? sink_->place(peer, head.header, payload.size()) : nullptr;
    if (stopped_) return false;
    Copiers& copiers = owner_.devices().copiers();
    if (!place) return payload_is_sound(head, payload, copiers);
    uint32_t checksum = copiers.sum(place, payload);
    if (checksum != head.offset) {
        sink_->displaced(peer, head.header, payload.size());
        return false;
    }
    payload = {place, payload.size()};
    return true;
}

// ---- by the clock

void RdmaEndpoint::look(Nanoseconds now, Sink& sink) {
    drain_unsaid();
    if (stopped_) drop_cable();
    if (std::exchange(tell_gone_, false)) {
        told_up_ = false;
        sink.gone(peer, why_gone_);
    }
    if (std::exchange(tell_up_, false)) {
        told_up_ = true;
        sink.up(peer);
    }
    if (asked_ || state_ == State::asking) look_at_devices(now);
    if (state_ == State::probing || state_ == State::answering) probe_again(now);
    bool due = now - port_looked_ > kPortEvery;
    if (cable_ && !stopped_ && (due || cable_->device().is_asked_for_port())) {
        if (due) port_looked_ = now;
        Reason why;
        if (!cable_->device().port_stays(why)) fail(why);
        else if (due && cable_->is_stuck(kStuckLooks))
            fail_message({format(messages::rdma_stuck, cable_->device().name())});
    }
    if (state_ == State::up && !stopped_ && blocked_since_ != 0) {
        if (blocked_pause_ == 0) blocked_pause_ = kBlockedFirst;
        // What the device still has is not lost.
        if (now - blocked_since_ > blocked_pause_ && cable_->all_sent()) {
            if (ask_for_credit()) {
                blocked_since_ = now;
                blocked_pause_ = std::min(2 * blocked_pause_, kBlockedMost);
            }
        }
    } else {
        blocked_pause_ = 0;
    }
    bool waits = state_ >= State::asking && state_ < State::up;
    if (waits && !stopped_ && now > deadline_) {
        Reason why{leads_ ? "the other process did not answer in time"
                          : "the other process did not go on in time"};
        if (state_ == State::asking) note(why), give_up_round();
        else if (leads_) next_try(why, state_ == State::probing && has_looked_);
        else fail(why);
    }
}

PathDescription RdmaEndpoint::describe() const {
    PathDescription out;
    out.text = "rdma";
    if (cable_)
        out.text += format(" {} {}", cable_->device().name(), text_of_gid(cable_->end().gid));
    else if (!reason_.empty()) out.text += ": " + reason_;
    if (cable_ && cable_->end().type == verbs::kRc) out.text += ", reliable";
    if (cable_ && cable_->pairs() > 1) out.text += format(", messages of {}", cable_->stride(1));
    out.kind = "thunderbolt";
    out.reliable = false;
    out.watched = false;
    out.taken = false;
    return out;
}

}  // namespace pomona::rdma
