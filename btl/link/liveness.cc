// btl/link/liveness.cc: what a link does by the clock: making paths, finding those by which nothing
// gets through, sending again what was lost, and giving up.
// Idea: that a process does not answer proves nothing: it may compute and not look at its messages
// for minutes. So a path is lost when its transport says so (TCP: the other machine's system does
// not acknowledge). What a path leaves lying while another one is answered goes by the other one as
// well.
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/link/state.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pomona::link {

static constexpr Nanoseconds kSecond = 1'000'000'000;
static constexpr Nanoseconds kLookEvery = 2'000'000;
// Between attempts to make a path again: from this on, doubling.
static constexpr Nanoseconds kPauseFirst = 5'000'000;
static constexpr Nanoseconds kPauseMost = 1'000'000'000;
// The side that did not make a path last leaves it to the other for so long.
static constexpr Nanoseconds kOthersTurn = 200'000'000;
// Bytes lie in a path for so long, while others get through: it is stalled.
static constexpr Nanoseconds kStall = 10'000'000;
// More for a path's round trip, of which much may be its own queue: bytes get through all the
// while.
static constexpr Nanoseconds kStallTrip = 20'000'000;
// Stalled for so long, a connection is given up and made again: its system tries ever more rarely,
// and one by which no long packet gets through, with all of its bytes in the system's hands, would
// stand like that until the system gives it up, half a minute later.
static constexpr Nanoseconds kStalledMost = 1'000'000'000;
// So many refusals on end by every path, for so long: nobody listens there any more.
static constexpr int kRefusals = 4;
static constexpr Nanoseconds kRefusedFor = 300'000'000;
// For so long if it was never reached, on another machine: there a firewall may refuse in its place
// while the other side connects, and a process between may be busy.
static constexpr Nanoseconds kRefusedAtFirst = 10'000'000'000;
// Sent again in one look.
static constexpr int kResendMost = 64;
// Looked at for when that is to be: those behind were sent later.
static constexpr uint64_t kSeenMost = 16;
// What was lost so often by a path that rides on others goes by one of these.
static constexpr int kTriesByRiding = 3;
// A link that has not come up: then that is said.
static constexpr Nanoseconds kSaidAfter = 2'000'000'000;
// A link that is wanted only as a part of the way to others is tried for so long.
static constexpr Nanoseconds kReachFor = 3'000'000'000;

Status Link::set_addresses(ConstBytes published) {
    auto all = parse_link_addresses(published);
    if (!all) return Error{Code::malformed, "The address of a link does not parse", peer};
    // The n-th transport of a kind here makes its path to the n-th of that kind there.
    std::map<std::string, size_t> used;
    for (Path& path : paths) {
        std::string name = path.transport->name();
        size_t skip = used[name]++;
        for (auto& [kind, address] : *all)
            if (kind == name && skip-- == 0) path.address = address;
    }
    published_.assign(published.begin(), published.end());
    if (relay_) relay_->address = published_;
    if (down_since_ == 0 && !any_up()) down_since_ = links_.now();
    next_look_ = 0;
    links_.activate(*this);
    return {};
}

// ---- paths come and go

void Link::path_up(Path& path) {
    path.endpoint = path.transport->path(peer);
    if (!path.endpoint) return;
    if (over) return path.endpoint->abandon(why);
    Nanoseconds now = links_.now();
    path.state = Path::State::up;
    path.description = path.transport->describe(peer);
    path.reliable = path.description.reliable;
    path.was_up = true;
    path.stalled = false;
    path.refusals = 0;
    path.pause = 0;
    path.asked_at = 0;
    path.question_waits = false;
    path.heard_at = path.moved_at = now;
    path.arrived = 0;
    path.intake = {};
    path.seen = {};
    path.shortest_trip = 0;
    path.measured = 0;
    path.by_question = false;
    path.measure_again = 0;
    path.trial = path.before_question = 0;
    // What the other side has of what was sent before has to be known first.
    path.settled = !was_up_;
    // Who is connected to has no address of ours, and may have to connect the next time.
    if (path.dialled && !told_address_) {
        auto own = links_.address();
        std::byte* place = keep(Kind::address, own.size());
        if (place) std::copy(own.begin(), own.end(), place);
        told_address_ = place != nullptr;
    }
    link_up(now);
    if (&path == relay_) LOG(info, btl, "{} is reached {}", name_of_peer(), path.description.text);
    order_paths();
    leave_relay();
    if (!path.settled || paths.size() > 1 || !path.reliable) ask(path, now);
    flush();
    next_look_ = 0;
    links_.activate(*this);
}

void Link::path_gone(Path& path, const Error& reason, Sink& sink) {
    if (path.state == Path::State::down) return;
    bool was = path.state == Path::State::up;
    displace(path, sink);
    path.state = Path::State::down;
    path.settled = false;
    path.why = reason;
    path.sending = nullptr;
    path.rest_length = 0;
    path.owes_answer = false;
    path.answer_time = 0;
    bool refused = reason.os_errno == ECONNREFUSED;
    path.refusals = refused ? path.refusals + 1 : 0;
    Nanoseconds now = links_.now();
    if (was) {
        path.pause = 0;
        path.retry_at = path.dialled || links_.options().rank < peer ? now : now + kOthersTurn;
        LOG(info, btl, "A path to {} is lost ({}): {}", name_of_peer(), path.description.text,
            reason.text());
    } else {
        path.pause = std::clamp(2 * path.pause, kPauseFirst, kPauseMost);
        path.retry_at = now + path.pause;
        path.description = path.transport->describe(peer);  // what was tried
    }
    if (over) return;
    // What this side has said by it about arrived frames may be lost, and nothing else may make it
    // say so.
    if (was && was_up_) owe(true);
    if (was && &path != relay_ && !direct()) indirect_since_ = now;
    take_back(path);
    order_paths();
    // Where its system found that out it has been silent for longer.
    bool silent = reason.os_errno == ETIMEDOUT;
    auto beat = static_cast<Nanoseconds>(links_.params.heartbeat_s) * kSecond;
    if (was && !any_up()) link_down(silent ? std::max<Nanoseconds>(now - 3 * beat, 1) : now);
    if (was && silent) note_fruit();
    next_look_ = 0;
    links_.activate(*this);
}

bool Link::any_up() const {
    return std::any_of(paths.begin(), paths.end(),
                       [](const Path& path) { return path.state == Path::State::up; });
}

// What went by this path and was not acknowledged goes again.
void Link::take_back(const Path& path) {
    for (uint64_t number = window_.first(); number < window_.next(); ++number)
        if (window_[number].path == path.index) mark_unsent(number);
    for (uint64_t number = first_piece_; number < first_piece_ + pieces_.size(); ++number) {
        Piece& each = piece(number);
        if (!each.of || each.path != path.index) continue;
        each.path = kUnsent;
        unsent_pieces_.push_back(number);
    }
}

void Link::link_down(Nanoseconds now) {
    down_since_ = now;
    warned_ = false;
}

// A path is lost whose system had no answer. If others come up and soon go so, they are of no use.
void Link::note_fruit() {
    uint64_t acknowledged = window_.first() + first_piece_;
    bool soon =
        down_since_ - up_since_ < static_cast<Nanoseconds>(links_.params.link_grace_s) * kSecond;
    if (fruitless_since_ != 0 && acknowledged == acknowledged_then_ && soon) return;
    fruitless_since_ = outstanding() ? down_since_ : 0;
    acknowledged_then_ = acknowledged;
}

void Link::link_up(Nanoseconds now) {
    if (warned_)
        LOG(warn, btl, "{} is reached{} after {:.1f} s", name_of_peer(), was_up_ ? " again" : "",
            static_cast<double>(now - down_since_) / kSecond);
    warned_ = false;
    if (down_since_ != 0 || !was_up_) up_since_ = now;
    down_since_ = 0;
    was_up_ = true;
}

void Link::give_up(Error reason) {
    if (over) return;
    over = true;
    why = reason;
    why.peer = peer;
    for (Path& path : paths) {
        path.placing = false;
        path.rest_length = 0;
        path.sending = nullptr;
        if (path.state != Path::State::down && path.endpoint) path.endpoint->abandon(reason);
    }
    order_.clear();
    simple_ = false;
    quick_ = nullptr;
    window_.clear();
    first_unsent_ = window_.next();
    outgoing_.clear();
    held_.clear();
    many_held_ = false;
    copied_ = 0;
    to_copy_ = 0;
    pieces_.clear();
    unsent_pieces_.clear();
    early_.clear();
    forget_forwards();
    owed_frames_ = 0;
    for (Path& path : paths) path.owes_answer = false;
    links_.activate(*this);
}

std::string Link::name_of_peer() const {
    const auto& host = links_.options().host;
    std::string name = host ? host(peer) : "";
    return name.empty() ? format("Rank {}", peer) : format("Rank {} on {}", peer, name);
}

std::string Link::names_of_paths() const {
    std::string out;
    for (const Path& path : paths) {
        if (path.address.empty() && !path.was_up) continue;
        if (!out.empty()) out += "; ";
        const std::string& text = path.description.text;
        out += text.empty() ? path.transport->name() : text;
        if (path.why.what[0] != 0) out += ": " + path.why.text();
    }
    return out;
}

// When what was sent so often is taken for lost: ever later, as the other side may be busy outside
// MPI.
static Nanoseconds lost_at(const Path& path, Nanoseconds sent_at, int sendings) {
    return sent_at + (path.patience() << std::clamp(sendings - 1, 0, 6));
}

// Between questions, which get rarer while none is answered.
static Nanoseconds question_pause(const Path& path, Nanoseconds now) {
    return std::max(path.patience(), path.asked_at == 0 ? 0 : (now - path.asked_at) / 4);
}

// ---- by the clock

void Link::look_at_time(Nanoseconds now) {
    next_look_ = now + kLookEvery;
    for (Path& path : paths) {
        if (path.state == Path::State::down && !path.address.empty() && now >= path.retry_at &&
            may_dial(path))
            dial(path, now);
        if (path.state != Path::State::up) continue;
        if (!path.settled && now - path.asked_last > question_pause(path, now)) ask(path, now);
        if (!path.reliable) look_at_losses(path, now);
        if (over) return;
    }
    if (paths.size() > 1) look_at_stalls(now);
    look_at_silence(now);
    if (!over) look_at_refusals(now);
    if (over || down_since_ == 0) return;
    Nanoseconds down = now - down_since_;
    if (for_others()) {
        if (down > kReachFor || all_refused()) rest();
        return;
    }
    if (all_refused() && down > refusals_for())
        return give_up({Code::peer_gone, was_up_ || refusals_for() == kRefusedFor
                                             ? "The other process does not listen any more"
                                             : messages::refused_at_first});
    if (!relay_ && wants_relay(now)) dial(need_relay(), now);
    // Who only waits for something from there leaves it to the other side to connect in its time.
    if (!was_up_ && !outstanding()) return;
    if (!was_up_ && !warned_ && down > kSaidAfter) {
        warned_ = true;
        LOG(warn, btl, messages::not_yet_connected, name_of_peer(), names_of_paths());
    }
    Nanoseconds grace = was_up_
                            ? static_cast<Nanoseconds>(links_.params.link_grace_s) * kSecond
                            : static_cast<Nanoseconds>(links_.params.connect_timeout_ms) * 1000000;
    if (was_up_ && !warned_ && down > kSecond) {
        warned_ = true;
        LOG(warn, btl, messages::link_down, name_of_peer(), static_cast<double>(down) / kSecond,
            names_of_paths(), links_.params.link_grace_s);
    }
    if (was_up_ && fruitless_since_ != 0 && fruitless_since_ < down_since_ &&
        now - fruitless_since_ > grace && acknowledged_then_ == window_.first() + first_piece_ &&
        outstanding())
        return give_up({Code::peer_gone, messages::nothing_arrives});
    // A connection that the other side's system has taken, and the process has not answered yet, is
    // no failure: it may be busy outside MPI.
    bool tries = std::any_of(paths.begin(), paths.end(), [&](const Path& path) {
        return path.state == Path::State::connecting && path.transport->describe(peer).taken;
    });
    if (down < grace || tries) return;
    Error last = was_up_ ? Error{Code::peer_gone, messages::link_lost}
                         : Error{Code::timed_out, "No connection could be made"};
    for (const Path& path : paths)
        if (!was_up_ && path.why.what[0] != 0 && &path != relay_) last = path.why;
    give_up(last);
}

// Its system says that nobody listens where the process was, and addresses are published when there
// is somebody: it has ended. For how long that has to be said.
Nanoseconds Link::refusals_for() const {
    if (was_up_) return kRefusedFor;
    bool here = true;
    for (const Path& path : paths)
        if (!path.address.empty() && &path != relay_ && !path.rides) here &= path.description.here;
    if (here) return kRefusedFor;
    return std::min(kRefusedAtFirst,
                    static_cast<Nanoseconds>(links_.params.link_grace_s) * kSecond);
}

bool Link::all_refused() const {
    bool any = false;
    for (const Path& path : paths) {
        if (path.address.empty() || &path == relay_ || path.rides) continue;
        if (path.refusals < kRefusals) return false;
        any = true;
    }
    return any;
}

void Link::dial(Path& path, Nanoseconds now) {
    auto made = path.transport->connect(peer, path.address);
    if (made.ok()) {
        path.endpoint = *made;
        path.state = Path::State::connecting;
        path.dialled = true;
        return;
    }
    path.why = made.error();
    if (made.error().code == Code::unsupported) path.address.clear();
    path.pause = std::clamp(2 * path.pause, kPauseFirst, kPauseMost);
    path.retry_at = now + path.pause;
}

void Link::ask(Path& path, Nanoseconds now) {
    path.question_waits = !send_state(path, kQuestion, static_cast<uint64_t>(now));
    if (path.question_waits) return;
    path.asked_last = now;
    if (path.asked_at == 0) path.asked_at = now;
    if (order_.size() < 2) return;
    path.look_at_pace(now);
    path.before_question = path.pace.queued;
}

// A path that may lose: what has not been acknowledged in time goes again. When nothing is heard
// at all, only the oldest, to find out.
void Link::look_at_losses(Path& path, Nanoseconds now) {
    Nanoseconds patience = path.patience();
    bool hears = now - path.heard_at < 4 * patience;
    auto lost = [&](Nanoseconds sent_at, int sendings) {
        return now > lost_at(path, sent_at, sendings);
    };
    int most = hears ? kResendMost : 1;
    bool worn = false;
    for (uint64_t n = window_.first(); n < window_.next() && most > 0; ++n) {
        Kept& frame = window_[n];
        if (frame.path != path.index) continue;
        if (lost(frame.sent_at, frame.sendings)) {
            worn |= frame.sendings >= kTriesByRiding;
            mark_unsent(n), --most;
        } else if (!hears) break;
    }
    for (uint64_t n = first_piece_; n < first_piece_ + pieces_.size() && most > 0; ++n) {
        Piece& each = piece(n);
        if (!each.of || each.path != path.index) continue;
        if (lost(each.sent_at, each.sendings)) {
            worn |= each.sendings >= kTriesByRiding;
            each.path = kUnsent;
            unsent_pieces_.push_back(n);
            --most;
        } else if (!hears) {
            break;
        }
    }
    if (worn && path.rides) go_by_standing(path, now);
}

// Who waits for acknowledgements asks for them by every path: what was said by one that is cut is
// lost, and who said it does not know. A path whose queue does not get shorter while another one is
// answered is stalled, until its queue does.
void Link::look_at_stalls(Nanoseconds now) {
    bool waits = outstanding(), changed = false;
    if (!waits) progress_at_ = now;
    // That a path stood still while nothing was under way says nothing.
    if (std::exchange(begun_anew_, false))
        for (Path& path : paths) path.moved_at = now;
    bool late = now - progress_at_ >= kStall;
    for (Path& path : paths) {
        if (!path.usable()) continue;
        bool moves = path.asked_at == 0 && !path.question_waits;
        bool asks = late && moves;
        if (path.reliable) {
            path.look_at_pace(now);
            moves = path.pace.queued == 0 || path.pace.arrived != path.arrived;
            path.arrived = path.pace.arrived;
        } else {
            asks = waits && now - path.heard_at > kStall;
        }
        // What a system acknowledges late without need, as words for paths that ride, stalls
        // nothing.
        if (moves || !waits) path.moved_at = now;
        if (moves) changed |= std::exchange(path.stalled, false);
        if (asks && now - path.asked_last > question_pause(path, now)) ask(path, now);
    }
    for (Path& path : paths) {
        Nanoseconds limit = kStall + std::min(2 * path.round_trip, kStallTrip);
        if (!path.usable() || path.stalled || now - path.moved_at < limit) continue;
        for (Path& other : paths) {
            if (&other == &path || !other.usable() || other.stalled) continue;
            if (other.answered_at > path.moved_at + limit) {
                path.stalled = true;
                path.stalled_at = now;
                take_back(path);
                changed = true;
                break;
            }
            if (other.asked_at == 0) ask(other, now);
        }
    }
    if (changed || order_.size() > 1) order_paths();
    bool any_moves = std::any_of(paths.begin(), paths.end(),
                                 [](const Path& path) { return path.usable() && !path.stalled; });
    for (Path& path : paths)
        if (any_moves && path.usable() && path.stalled && path.reliable && !path.rides &&
            &path != relay_ && now - path.stalled_at > kStalledMost)
            path.endpoint->abandon(
                {Code::timed_out, "Nothing got through, and by others it did", peer});
}

// Paths that do not watch themselves: nobody else will say that the other side is gone.
void Link::look_at_silence(Nanoseconds now) {
    bool silent = down_since_ == 0;
    Nanoseconds beat =
        std::max<Nanoseconds>(1, static_cast<Nanoseconds>(links_.params.heartbeat_s)) * kSecond;
    for (Path& path : paths) {
        if (path.state != Path::State::up) continue;
        if (path.description.watched) return;
        if (now - path.heard_at > beat && now - path.asked_last > beat) ask(path, now);
        silent &=
            now - path.heard_at > static_cast<Nanoseconds>(links_.params.link_grace_s) * kSecond;
    }
    if (silent && was_up_)
        give_up({Code::peer_gone, "The other process has not answered for link_grace_s"});
}

Nanoseconds Link::sleep_max(Nanoseconds now) const {
    if (over) return kSleepForever;
    Nanoseconds most = kSleepForever;
    auto within = [&](Nanoseconds time) { most = std::min(most, std::max<Nanoseconds>(time, 0)); };
    for (const Path& path : paths) {
        if (path.state == Path::State::down && !path.address.empty() && may_dial(path))
            within(path.retry_at - now);
        if (path.state != Path::State::up) continue;
        if (!path.settled) within(question_pause(path, now));
        if (!path.reliable && outstanding()) {
            within(question_pause(path, now));
            for (uint64_t n = window_.first();
                 n < std::min(window_.first() + kSeenMost, window_.next()); ++n)
                if (const Kept& each = window_[n]; each.path == path.index)
                    within(lost_at(path, each.sent_at, each.sendings) - now);
            for (size_t i = 0; i < std::min<size_t>(kSeenMost, pieces_.size()); ++i)
                if (const Piece& each = pieces_[i]; each.of && each.path == path.index)
                    within(lost_at(path, each.sent_at, each.sendings) - now);
        }
        if (!path.description.watched) within(kSecond / 4);
    }
    if (!held_.empty() || to_copy_ != 0) within(1'000'000);
    if (paths.size() > 1 && outstanding()) within(kStall / 2);
    if (unbegun() != 0 && order_.size() > 1) within(1'000'000);
    if (down_since_ != 0) within(kSecond / 4);
    return most;
}

}  // namespace pomona::link
