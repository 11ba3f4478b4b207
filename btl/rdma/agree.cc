// btl/rdma/agree.cc: how the two ends of a path agree on its queue pairs, and leave them.
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/rdma/endpoint.h"
#include "btl/rdma/neighbour.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::rdma {

// The other process may be busy outside MPI: it answers late, and nothing else waits for it.
static constexpr Nanoseconds kAnswerTime = 10'000'000'000;
static constexpr Nanoseconds kAskEvery = 1'000'000'000;
// Devices are asked for their state so often while the two ends wait for them, or for each other.
static constexpr Nanoseconds kLookEvery = 1'000'000;
static constexpr Nanoseconds kProbeTime = 10'000'000'000;
// Short messages got through, long ones did not within this: then the follower is asked whether it
// has looked, and once it has its probes have so long to come.
static constexpr Nanoseconds kLongTime = 100'000'000;
static constexpr Nanoseconds kProbeEvery = 20'000'000;
// Rounds through all pairs of devices without success before long pauses.
static constexpr int kRoundsMost = 2;
static constexpr Nanoseconds kRestFirst = 250'000'000;
static constexpr Nanoseconds kRestMost = 30'000'000'000;
static constexpr size_t kTriesMost = 16;
// So many messages of a queue pair were lost one after the other: it carries none any more. The
// path is made anew, which finds out what length still gets through.
static constexpr uint64_t kLostMost = 8;
static constexpr size_t kUnsaidMost = 16;

// Of a network that somebody has chosen. What systems take for themselves (169.254/16, RFC 3927)
// says nothing of the cable.
static bool names_network(const GidBytes& gid) {
    return is_ipv4(gid) && !(gid[12] == 169 && gid[13] == 254);
}

// Is it open, with its port up, and has it an address?
static bool address_of(Device& device, GidBytes& gid, Reason& why) {
    verbs::PortAttr port;
    if (!device.open(why) || !device.port(port, why)) return false;
    bool found = device.find_gid(port, gid) >= 0;
    device.hangs(why);
    return found;
}

// By their IPv4 addresses those of one cable are known; else all are tried.
void RdmaEndpoint::make_tries() {
    tries_.clear();
    joined_ = false;
    for (bool alike : {true, false})
        for (size_t own = 0; own < owner_.devices().size(); ++own) {
            GidBytes gid{};
            Reason why;
            bool known = address_of(owner_.devices()[own], gid, why);
            for (size_t theirs = 0; theirs < theirs_.size(); ++theirs) {
                const GidBytes& other = theirs_[theirs].gid;
                bool same = known && is_ipv4(gid) &&
                            std::equal(gid.begin(), gid.begin() + 15, other.begin());
                joined_ |= same && names_network(gid);
                // A second path is not worth trying what the addresses speak against.
                bool unlike = known && !same && names_network(gid) && names_network(other);
                if (unlike && owner_.path() != 0) continue;
                if (same == alike && tries_.size() < kTriesMost) tries_.push_back({own, theirs});
            }
        }
}

// Only the leader asks, and offers.
Status RdmaEndpoint::dial() {
    if (pairs_most_ == 0) return Error{Code::unsupported, messages::rdma_pairs_taken, peer};
    if (state_ != State::idle || tell_gone_ || tell_up_) return {};
    Nanoseconds now = owner_.now();
    bool alone = owner_.path() != 0 && tries_.empty();  // as far as was known the last time
    if (now < rest_until_)
        return alone ? Error{Code::refused, "There is no further cable to the other process", peer}
                     : Error{Code::timed_out, "RDMA has not worked with this process", peer};
    state_ = leads_ ? State::asking : State::waiting;
    if (leads_) {
        theirs_.clear();
        stride_ = 0;
        deadline_ = now + kAnswerTime;
        ask(now);
    }
    return {};
}

// Words are lost where a connection breaks.
void RdmaEndpoint::ask(Nanoseconds now) {
    asked_at_ = now;
    say(Words{Word::ask, 0});
}

// Devices are opened when they are asked about: the two processes are joined then, and a driver
// that does not answer keeps nobody waiting.
void RdmaEndpoint::look_at_devices(Nanoseconds now) {
    if (now - devices_looked_ < kLookEvery) return;
    devices_looked_ = now;
    Words answer{Word::devices, 0};
    bool opening = false;
    for (size_t i = 0; i < owner_.devices().size(); ++i) {
        Device& device = owner_.devices()[i];
        GidBytes gid{};
        Reason why;
        if (!address_of(device, gid, why) && !device.is_opening() && !why.what.empty()) note(why);
        opening |= device.is_opening();
        answer.devices.push_back({device.name(), gid});
    }
    if (!opening && std::exchange(asked_, false)) say(std::move(answer));
    if (state_ != State::asking) return;
    if (theirs_.empty()) {
        if (now - asked_at_ > kAskEvery) ask(now);
        return;
    }
    if (opening) return;
    if (owner_.path() != 0 && !owner_.devices().chosen(peer)) {
        deadline_ = now + kAnswerTime;
        return;
    }
    make_tries();
    if (tries_.empty()) {
        rest_until_ = now + kRestMost;
        return give_up({Code::refused, "There is no further cable to the other process", peer});
    }
    next_ = good_try_ < tries_.size() ? good_try_ : 0;
    first_reason_.clear();
    state_ = State::offered;
    begin_try();
}

void RdmaEndpoint::begin_try() {
    if (stride_ == 0) stride_ = pairs_most_ > 1 ? owner_.stride_most() : kLimits.frame;
    for (; next_ < tries_.size(); ++next_) {
        const Try& now = tries_[next_];
        drop_cable();
        cable_ = std::make_unique<Cable>();
        Reason why;
        if (!owner_.devices().take(peer, owner_.path(), now.own) ||
            !cable_->make(owner_.devices()[now.own],
                          {++attempt_, stride_, owner_.checks(), owner_.pairs_type(),
                           &owner_.devices().copiers()},
                          why)) {
            drop_cable();
            if (!why.what.empty()) note(why);
            continue;
        }
        state_ = State::offered;
        deadline_ = owner_.now() + kAnswerTime;
        look_for_neighbour(cable_->end().device, theirs_[now.theirs].gid);
        Words words{Word::offer, attempt_};
        words.device = static_cast<uint8_t>(now.theirs);
        words.end = cable_->end();
        return say(std::move(words));
    }
    give_up_round();
}

void RdmaEndpoint::next_try(const Reason& why, bool shorter) {
    Words words{Word::gone, attempt_};
    words.text = why.what;
    say(std::move(words));
    drop_cable();
    if (shorter && stride_ > kLimits.frame) {
        stride_ = std::max(stride_ / 2 / kLimits.frame, size_t{1}) * kLimits.frame;
        LOG(info, btl, "Messages by RDMA to rank {} get through up to {} bytes at most", peer,
            stride_);
        return begin_try();
    }
    note(why);
    ++next_;
    begin_try();
}

// None has worked. After two rounds the pauses get long; a change at either end ends them.
void RdmaEndpoint::give_up_round() {
    good_try_ = 0;
    ++failures_;
    if (failures_ >= kRoundsMost)
        rest_until_ =
            owner_.now() + std::min(kRestMost, kRestFirst << std::min(failures_ - kRoundsMost, 7));
    // Where there is a cable a person expects it to be used, and can do something about it.
    bool first = owner_.path() == 0 && !owner_.devices().is_reached(peer, 0);
    bool said = first_reason_.empty();  // with the device
    if (failures_ == kRoundsMost && first && !said && (joined_ || was_up_))
        LOG(warn, btl, messages::rdma_given_up, peer, first_reason_);
    give_up({Code::refused, "RDMA could not be agreed on", peer});
}

void RdmaEndpoint::give_up(const Error& why) {
    drop_cable();
    owner_.devices().has_chosen(peer);
    state_ = State::idle;
    why_gone_ = why;
    tell_gone_ = true;
}

// ---- words

void RdmaEndpoint::hear(const Words& words) {
    bool current = words.attempt == attempt_ && cable_ && !stopped_;
    switch (words.word) {
    case Word::offer: return offered(words);
    case Word::accept:
        if (current && state_ == State::offered) accepted(words);
        return;
    case Word::refuse:
        if (current && state_ == State::offered) next_try({words.text}, false);
        return;
    case Word::go:
        if (current && state_ == State::answering) come_up();
        return;
    case Word::gone:
        if (!current) return;
        if (leads_ && state_ != State::up)
            return next_try({words.text}, state_ == State::probing && cable_->pairs() > 1);
        return leave({Code::peer_gone, "The other process has left the RDMA path", peer},
                     words.text);
    case Word::resync:
        if (!current || state_ < State::answering) return;
        std::copy(std::begin(words.frames), std::end(words.frames), resync_);
        resync_asked_ = true;
        return;
    case Word::credit:
        if (!current || (state_ != State::up && state_ != State::probing)) return;
        for (int i = 0; i < cable_->pairs(); ++i) cable_->take_credit(i, words.frames[i]);
        if (state_ == State::probing && short_at_ != 0 && !has_looked_) {
            has_looked_ = true;
            deadline_ = std::min(deadline_, owner_.now() + kLongTime);
        }
        return;
    case Word::again: return try_again();
    case Word::asleep:
        if (current && state_ == State::up) peer_falls_asleep(words);
        return;
    case Word::knows:
        if (current && sleep_ == Sleep::told) sleep_ = Sleep::known;
        return;
    case Word::bell: sleep_ = Sleep::no; return owner_.woken();
    case Word::ask:
        asked_ = true;
        devices_looked_ = 0;
        return;
    case Word::devices:
        if (state_ == State::asking) theirs_ = words.devices;
        devices_looked_ = 0;
        return;
    }
}

bool RdmaEndpoint::ask_for_credit() {
    Words words{Word::resync, attempt_};
    for (int i = 0; i < cable_->pairs(); ++i) words.frames[i] = cable_->sent_frames(i);
    return owner_.say(peer, words);
}

// The device has had nothing more: what the peer had sent when it asked, and has not come, is lost.
// Before, it might still come, and take receives that the peer would be told of.
void RdmaEndpoint::answer_resync() {
    resync_asked_ = false;
    Words answer{Word::credit, attempt_};
    for (int i = 0; i < cable_->pairs(); ++i) {
        cable_->lost_below(i, resync_[i]);
        // Its short messages may arrive all the same: only this end knows of the others.
        if (state_ == State::up && cable_->lost_in_row(i) >= kLostMost)
            return fail(
                {format(messages::rdma_all_lost, cable_->stride(i), cable_->device().name())});
        answer.frames[i] = cable_->credit(i);
    }
    cable_->told_credit();
    say(std::move(answer));
}

// What has not arrived there may have been sent before it slept.
void RdmaEndpoint::peer_falls_asleep(const Words& words) {
    bool all = true;
    for (int i = 0; i < cable_->pairs(); ++i) all &= cable_->sent_frames(i) == words.frames[i];
    peer_sleeps_ = all;
    say(Words{all ? Word::knows : Word::bell, attempt_});
}

void RdmaEndpoint::offered(const Words& words) {
    if (leads_) return;
    // A newer one than what is here: the leader has left that.
    if (state_ == State::up || stopped_ || tell_gone_)
        leave({Code::peer_gone, "The other process has left the RDMA path", peer},
              "it is replaced");
    drop_cable();
    stopped_ = false;
    attempt_ = words.attempt;
    Reason why;
    Devices& devices = owner_.devices();
    size_t stride = words.end.pairs.size() > 1 ? words.end.pairs[1].stride : kLimits.frame;
    bool made = false;
    if (words.device >= devices.size()) {
        why = {"there is no such device"};
    } else if (!devices.take(peer, owner_.path(), words.device)) {
        why = {format("another path goes by {}", devices[words.device].name())};
    } else {
        cable_ = std::make_unique<Cable>();
        look_for_neighbour(devices[words.device].name(), words.end.gid);
        Cable::Options options{attempt_, stride, owner_.checks(), words.end.type,
                               &owner_.devices().copiers()};
        made = cable_->make(devices[words.device], options, why) && cable_->connect(words.end, why);
    }
    Words answer{made ? Word::accept : Word::refuse, attempt_};
    if (made) {
        answer.end = cable_->end();
        answer.end.pairs.resize(static_cast<size_t>(cable_->pairs()));
        state_ = State::answering;
        deadline_ = owner_.now() + kAnswerTime;
    } else {
        answer.text = why.text();
        drop_cable();
        note(why);
        if (state_ != State::waiting) state_ = State::idle;
    }
    say(std::move(answer));
}

void RdmaEndpoint::accepted(const Words& words) {
    Reason why;
    if (!cable_->connect(words.end, why)) return next_try(why, false);
    state_ = State::probing;
    Nanoseconds now = owner_.now();
    deadline_ = now + kProbeTime;
    probed_at_ = now;
    for (int pair = 0; pair < cable_->pairs(); ++pair) probes_[pair].owed = cable_->slots(pair);
    probe_again(now);
}

// ---- probes

// Each end fills each queue pair, since some devices take one long message and stall at several.
// The leader begins, and the follower answers when half of them have come. After that single ones
// go: some may be lost.
uint32_t RdmaEndpoint::probes_wanted(int pair) const { return (cable_->slots(pair) + 1) / 2; }

bool RdmaEndpoint::probes_came(int pair) const { return probes_[pair].came >= probes_wanted(pair); }

void RdmaEndpoint::probe_came(int pair) {
    Probes& probes = probes_[pair];
    uint32_t all = cable_->slots(pair);
    ++probes.came;
    if (leads_) return;
    if (probes.came == probes_wanted(pair)) probes.owed = all;
    else if (probes.came > all) ++probes.owed;
}

bool RdmaEndpoint::send_probes() {
    for (int pair = 0; pair < cable_->pairs(); ++pair)
        for (uint32_t& owed = probes_[pair].owed; owed > 0 && cable_->has_room(pair, false);
             --owed) {
            size_t length = room_in(cable_->stride(pair));
            Cable::Part part{length, length, 0, cable_->slot_checksum(pair, length)};
            if (!send(pair, MessageKind::probe, {}, part)) return false;
        }
    return true;
}

void RdmaEndpoint::probe_again(Nanoseconds now) {
    if (leads_) {
        bool all = probes_came(0) && (cable_->pairs() == 1 || probes_came(1));
        if (all) {
            say(Words{Word::go, attempt_});
            return come_up();
        }
        if (probes_came(0) && short_at_ == 0) short_at_ = now;
        if (short_at_ != 0 && !has_asked_ && now - short_at_ > kLongTime) {
            has_asked_ = true;
            ask_for_credit();
        }
        if (now - probed_at_ > kProbeEvery) {
            probed_at_ = now;
            for (int pair = 0; pair < cable_->pairs(); ++pair)
                if (!probes_came(pair)) probes_[pair].owed = std::max(probes_[pair].owed, 1U);
        }
    }
    send_probes();
}

void RdmaEndpoint::come_up() {
    state_ = State::up;
    owner_.devices().has_chosen(peer);
    tell_up_ = true;
    failures_ = 0;
    rest_until_ = 0;
    was_up_ = true;
    good_try_ = next_;
    reason_.clear();
    if (cable_->pairs() > 1) caps_.fragment_max = room_in(cable_->stride(1));
    else caps_.fragment_max = 8 * room_in(kLimits.frame);
    LOG(info, btl, "Rank {} is reached by {}", peer, describe().text);
    tell_credit();  // that probes took
}

// ---- the end

// Its memory may be in use further up the stack: the cable goes at the next look.
void RdmaEndpoint::leave(const Error& error, const std::string& text) {
    if (state_ == State::idle || stopped_) return;
    bool was = told_up_ || leads_;
    if (state_ != State::waiting) {
        Words words{Word::gone, attempt_};
        words.text = text;
        say(std::move(words));
    }
    if (state_ == State::up) LOG(info, btl, "The RDMA path to rank {} is left: {}", peer, text);
    stopped_ = cable_ != nullptr;
    // The sink has not heard of it: a follower waits on.
    state_ = was ? State::idle : State::waiting;
    tell_up_ = false;
    if (!was) return;
    why_gone_ = error;
    why_gone_.peer = peer;
    tell_gone_ = true;
}

// A device may end what is too long for it with an error: as where it is lost, shorter messages are
// tried, then other devices.
void RdmaEndpoint::fail_message(const Reason& why) {
    if (leads_ && state_ == State::probing && !stopped_) next_try(why, cable_->pairs() > 1);
    else fail(why);
}

void RdmaEndpoint::fail(const Reason& why) {
    note(why);
    leave({Code::io, "RDMA does not work any more", peer, why.os_errno}, why.text());
}

void RdmaEndpoint::drop_cable() {
    stopped_ = false;
    cable_.reset();
    owner_.devices().release(peer, owner_.path());
    rest_.clear();
    blocked_since_ = blocked_pause_ = 0;
    resync_asked_ = false;
    for (Assembly& each : assembly_) each.bytes.clear();
    for (Probes& each : probes_) each = {};
    short_at_ = 0;
    has_asked_ = has_looked_ = false;
    meter_ = {};
    sleep_ = Sleep::no;
    peer_sleeps_ = false;
    probed_at_ = 0;
}

void RdmaEndpoint::note(const Reason& why) {
    std::string text = why.text();
    if (first_reason_.empty() && !why.told) first_reason_ = text;
    if (text == reason_) return;
    reason_ = std::move(text);
    LOG(info, btl, "RDMA is not used for rank {}: {}", peer, reason_);
}

void RdmaEndpoint::say(Words words) {
    // The last ones count.
    if (unsaid_.size() == kUnsaidMost) unsaid_.pop_front();
    unsaid_.push_back(std::move(words));
    drain_unsaid();
}

void RdmaEndpoint::drain_unsaid() {
    while (!unsaid_.empty() && owner_.say(peer, unsaid_.front())) unsaid_.pop_front();
}

}  // namespace pomona::rdma
