// btl/link/link.cc: one link's messages: numbers, order, acknowledgements.
// Idea: push() writes the frame into the window, which is both the queue and what is kept; it goes
// out from there at once if it can. Every frame that goes the other way acknowledges what has
// arrived; where none does for a while, a state frame does.
#include "btl/base/log.h"
#include "btl/link/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::link {

// An acknowledgement is owed at once after so many frames or bytes, else after so long a time.
static constexpr int kOwedFrames = 256;
static constexpr size_t kOwedBytes = 2 << 20;
// Of pieces by one path that loses nothing so many times as much: none of them is kept in the
// window, and who waits for their memory asks.
static constexpr size_t kPiecesWeigh = 8;
static constexpr Nanoseconds kOwedTime = 2'000'000;
// By paths that may lose, or several, whose sender wants to know more.
static constexpr size_t kOwedBytesLess = 128 << 10;
static constexpr Nanoseconds kOwedTimeLess = 200'000;
// Where there are several paths, what they carry is looked at so often.
static constexpr Nanoseconds kTimeEvery = 5'000'000;
// A window that has been empty for so long gives its memory back.
static constexpr Nanoseconds kIdleTime = 200'000'000;

Link::Link(Links& links, int peer)
    : peer(peer), links_(links),
      window_(static_cast<size_t>(links.params.link_window), links.windows_grew) {
    caps_ = links.options().caps;
    paths.reserve(links.transports().size() + 1);  // they stay where they are
    int index = 0;
    for (auto& transport : links.transports()) {
        Path path;
        path.transport = transport.get();
        path.index = index++;
        path.rides = transport->rides();
        paths.push_back(std::move(path));
    }
}

// ---- out

std::byte* Link::keep(Kind kind, size_t length, size_t elsewhere) {
    return window_.add(kind, length, elsewhere);
}

// The last frame added is ready to go.
void Link::sent_new() {
    uint64_t number = window_.next() - 1;
    if (first_unsent_ == number && !order_.empty()) {
        for (Path* path : message_paths()) {
            if (path->busy()) continue;
            if (send(number, *path) == Push::sent) {
                first_unsent_ = number + 1;
                if (!simple_) links_.activate(*this);
                return;
            }
        }
    }
    links_.owe();
    links_.activate(*this);
}

Push Link::push(const FrameHeader& header, ConstBytes payload) {
    if (quick_ && payload.size() < kCopyFirst && first_unsent_ == window_.next() && !quick_->busy())
        return push_quickly(header, payload);
    if (over) return Push::gone;
    std::byte* place = keep(Kind::message, sizeof header + payload.size());
    if (!place) return Push::busy;
    std::memcpy(place, &header, sizeof header);
    if (payload.size() >= kCopyFirst && push_from_caller(payload, place + sizeof header))
        return Push::sent;
    if (!payload.empty()) std::memcpy(place + sizeof header, payload.data(), payload.size());
    sent_new();
    return Push::sent;
}

// What push() does for nearly every short message, in few instructions and without the clock: times
// are taken in a later turn (take_times).
Push Link::push_quickly(const FrameHeader& header, ConstBytes payload) {
    size_t length = sizeof header + payload.size();
    std::byte* place = window_.add(Kind::message, length);
    if (!place) return Push::busy;
    std::memcpy(place, &header, sizeof header);
    if (!payload.empty()) std::memcpy(place + sizeof header, payload.data(), payload.size());
    uint64_t number = first_unsent_;
    Kept& frame = window_[number];
    if (quick_->endpoint->push_behind_room(message_header(number).pack(),
                                           window_.with_room(frame)) != Push::sent) {
        if (simple_) links_.owe(), links_.activate(*this);
        else sent_new();  // perhaps by another one
        return Push::sent;
    }
    first_unsent_ = number + 1;
    frame.path = quick_->index;
    frame.sendings = 1;
    if (owed_frames_ != 0 && received_.in_order() && received_pieces_.in_order()) nothing_owed();
    if (simple_) return Push::sent;
    frame.sent_at = kLater;
    if (window_.first() == number) {
        progress_at_ = kLater;
        begun_anew_ |= outgoing_.empty();
    }
    take_times_later(number);
    return Push::sent;
}

// Of what has been sent, from this number on, or has come: at the next look at this link, which is
// active until then.
void Link::take_times_later(uint64_t number) {
    if (untimed_) return;
    untimed_from_ = number;
    untimed_ = true;
    links_.activate(*this, false);
}

void Link::take_times(Nanoseconds now) {
    untimed_ = false;
    for (uint64_t n = std::max(untimed_from_, window_.first()); n < window_.next(); ++n)
        if (window_[n].sent_at == kLater) window_[n].sent_at = now;
    for (Path& path : paths)
        if (path.heard_at == kLater) path.heard_at = now;
    if (progress_at_ == kLater) progress_at_ = now;
}

// The message added last leaves from the caller's memory, which is then in the caches for the copy;
// and the copy is made while it travels. False when no path takes it now: nothing has been done.
bool Link::push_from_caller(ConstBytes payload, std::byte* copy) {
    uint64_t number = window_.next() - 1;
    if (first_unsent_ != number) return false;
    for (Path* path : message_paths()) {
        if (path->busy()) continue;
        Kept& frame = window_[number];
        ConstBytes header = window_.bytes(frame).first(sizeof(FrameHeader));
        size_t taken = 0;
        Push push =
            path->endpoint->push_gathered(message_header(number).pack(), header, payload, taken);
        if (push != Push::sent) continue;
        std::memcpy(copy, payload.data(), payload.size());
        note_taken(*path, number, sizeof(FrameHeader), taken, payload.size());
        note_sent(frame, *path, window_.first() == number);
        first_unsent_ = number + 1;
        if (!simple_ || path->busy()) links_.activate(*this);
        return true;
    }
    return false;
}

// Of a message whose path has taken a part: where its offsets count from.
const std::byte* Link::message_bytes(uint64_t number) {
    Kept& frame = window_[number];
    return frame.data ? frame.data : window_.bytes(frame).data();
}

Push Link::push_fill(const FrameHeader& header, size_t length, FillFunction fill, void* context) {
    if (over) return Push::gone;
    std::byte* place = keep(Kind::message, sizeof header + length);
    if (!place) return Push::busy;
    std::memcpy(place, &header, sizeof header);
    fill(context, {place + sizeof header, length});
    sent_new();
    return Push::sent;
}

// What is kept under this number goes by this path.
Push Link::send(uint64_t number, Path& path) {
    Kept& frame = window_[number];
    FrameHeader header = message_header(number).pack();
    Push push;
    if (frame.kind == Kind::relay && &path == relay_) {
        push = path.endpoint->push(header, window_.bytes(frame).first(1));
        if (push == Push::sent) ++relay_losses_;
    } else if (!frame.data) {
        push = path.endpoint->push_behind_room(header, window_.with_room(frame));
    } else {
        size_t taken = 0;
        push = path.endpoint->push_gathered(header, window_.bytes(frame),
                                            {frame.data, frame.data_length}, taken);
        if (push == Push::sent) note_taken(path, number, 0, taken, frame.data_length);
    }
    if (push == Push::sent) note_sent(frame, path, window_.first() == number);
    return push;
}

// The path has taken so much of a message's payload, which begins at `offset` of message_bytes().
void Link::note_taken(Path& path, uint64_t number, size_t offset, size_t taken, size_t length) {
    bool all = taken == length;
    path.note_intake(taken, !all, all ? 0 : links_.now());
    if (all) return;
    links_.owe();
    path.begun = number;
    path.rest_offset = offset + taken;
    path.rest_length = length - taken;
}

// Paths that have taken all that waited for them: nothing shows how quick they are, until more
// waits.
void Link::pause_intake() {
    if (first_unsent_ != window_.next() || unbegun() != 0) return;
    for (Path& path : paths)
        if (!path.busy()) path.intake.idle();
}

LinkHeader Link::message_header(uint64_t number) {
    const Kept& frame = window_[number];
    uint8_t flags = window_.crowded() ? kQuestion : uint8_t{0};
    return {frame.kind, flags, number, received_.next(), received_pieces_.next(), 0, 0, 0};
}

void Link::note_sent(Kept& frame, Path& path, bool oldest) {
    if (!path.reliable || (oldest && paths.size() > 1)) frame.sent_at = links_.now();
    if (oldest && frame.sendings == 0) {
        progress_at_ = frame.sent_at;
        begun_anew_ |= outgoing_.empty();
    }
    frame.path = path.index;
    ++frame.sendings;
    if (frame.length + frame.data_length >= kTimedLeast) time_path(path);
    if (received_.in_order() && received_pieces_.in_order()) nothing_owed();
}

// Long bytes went by this path: a question behind them tells how long they take. One path alone
// needs none.
void Link::time_path(Path& path) {
    if (order_.size() < 2 || path.asked_at != 0) return;
    Nanoseconds now = links_.now();
    if (path.measured == 0 || now - path.asked_last >= kTimeEvery) ask(path, now);
}

void Link::nothing_owed() {
    owed_frames_ = 0;
    owed_bytes_ = 0;
    owed_now_ = owes_end_ = false;
    owed_since_ = 0;
}

// Sends what has not been sent, in order; true when something was.
bool Link::flush() {
    bool moved = false;
    for (; first_unsent_ < window_.next(); ++first_unsent_) {
        if (window_[first_unsent_].path != kUnsent) continue;
        bool sent = false;
        for (Path* path : message_paths()) {
            if (path->busy()) continue;
            sent = send(first_unsent_, *path) == Push::sent;
            if (sent) break;
        }
        if (!sent) return moved;
        moved = true;
    }
    return moved;
}

void Link::mark_unsent(uint64_t number) {
    window_[number].path = kUnsent;
    first_unsent_ = std::min(first_unsent_, number);
}

// By the time that a message takes; those that ride before all others, stalled ones only where
// there is no other.
void Link::order_paths() {
    const Path* front = order_.empty() ? nullptr : order_.front();
    order_.clear();
    for (int worse = 0; worse < 4 && order_.empty(); ++worse)
        for (Path& path : paths)
            if (path.usable() && worse == (path.stalled ? 2 + path.rides : !path.rides))
                order_.push_back(&path);
    simple_ = paths.size() == 1 && order_.size() == 1 && paths[0].reliable &&
              paths[0].description.watched && used_;
    if (order_.size() > 1) order_by_time(order_, front, links_.now());
    quick_ = used_ && !order_.empty() && !left_ ? order_.front() : nullptr;
}

// Those that messages may take: the first, and others that are not much slower when it has no room.
std::span<Path* const> Link::message_paths() const {
    return {order_.data(), order_.size() < 2 ? order_.size() : link::message_paths(order_)};
}

// False when the path took nothing.
bool Link::send_state(Path& path, uint8_t flags, uint64_t time) {
    if (path.busy()) return false;
    LinkHeader header{Kind::state, flags, 0, received_.next(), received_pieces_.next(), 0, 0, time};
    auto ranges = write_ranges(received_.beyond(), received_pieces_.beyond());
    if (path.endpoint->push(header.pack(), ranges) != Push::sent) return false;
    nothing_owed();
    return true;
}

// By the path that brought something last: the first one may be cut, which who only receives does
// not find.
bool Link::send_owed_state() {
    if (untimed_) take_times(links_.now());
    auto last =
        std::max_element(order_.begin(), order_.end(), [](const Path* one, const Path* other) {
            return one->heard_at < other->heard_at;
        });
    if (last != order_.end() && send_state(**last, 0, 0)) return true;
    return std::any_of(order_.begin(), order_.end(),
                       [&](Path* path) { return send_state(*path, 0, 0); });
}

void Link::owe(bool at_once) {
    ++owed_frames_;
    owed_now_ |= at_once;
    bool much = owed_frames_ >= kOwedFrames || owed_bytes_ >= owed_bytes_most();
    links_.activate(*this, at_once || much || !quick_);
}

// ---- in

std::byte* Link::place(Path& path, const FrameHeader& frame, size_t length, Sink& sink) {
    if (over) return nullptr;
    auto header = parse(frame, length);
    if (!header || header->kind != Kind::piece || received_pieces_.has(header->number))
        return nullptr;
    FrameHeader engines = piece_header(header->place, header->offset, length);
    forget_overlap(path, engines, length, sink);
    std::byte* place = over ? nullptr : sink.place(peer, engines, length);
    if (!place) return nullptr;
    path.placing = true;
    path.placed_number = header->number;
    path.placed_header = engines;
    path.placed_length = length;
    return place;
}

// The bytes of a piece come by another path: one that was writing them, and stopped, must not go
// on.
void Link::forget_overlap(const Path& path, const FrameHeader& header, size_t length, Sink& sink) {
    uint64_t begin = header.word[3], end = begin + length;
    for (Path& other : paths) {
        uint64_t from = other.placed_header.word[3];
        if (&other == &path || !other.placing || other.placed_header.word[0] != header.word[0] ||
            from >= end || from + other.placed_length <= begin)
            continue;
        displace(other, sink);
        other.endpoint->abandon({Code::timed_out, "Its piece came by another path", peer});
    }
}

void Link::displace(Path& path, Sink& sink) {
    if (!path.placing) return;
    path.placing = false;
    if (!over) sink.displaced(peer, path.placed_header, path.placed_length);
}

void Link::arrive(Path& path, const FrameHeader& frame, ConstBytes payload, Sink& sink) {
    if (quick_ && arrive_quickly(path, frame, payload, sink)) return;
    bool placed = path.placing;
    path.placing = false;
    if (over) return;
    auto header = parse(frame, payload.size());
    if (!header) return malformed("A frame of a link does not parse");
    if (!path.reliable || paths.size() > 1 || !path.settled) {
        path.heard_at = links_.now();
        if (!path.settled) {
            path.settled = true;
            order_paths();
            leave_relay();
            links_.activate(*this);
        }
    }
    if (header->kind == Kind::carried) return links_.carry(peer, frame, payload, sink);
    bool had_row = many_held_;
    if (!acknowledge(*header, sink) || over) return;
    note_row(header->kind, had_row && held_.empty());
    switch (header->kind) {
    case Kind::state: return arrive_state(path, *header, payload, sink);
    case Kind::words: return links_.hear(peer, payload);
    case Kind::piece:
        if (placed) path.placing = true;  // arrive_piece() ends it
        return arrive_piece(path, *header, payload, sink);
    default: return arrive_numbered(path, *header, payload, sink);
    }
}

// What arrive() does for the next message of a link with nothing unusual about it, in few
// instructions. False when it is something else: nothing has been done.
bool Link::arrive_quickly(Path& path, const FrameHeader& frame, ConstBytes payload, Sink& sink) {
    uint64_t flags = frame.word[2] >> 8, next = frame.word[1];
    bool usual = (frame.word[2] & 0xff) == static_cast<uint64_t>(Kind::message) &&
                 (flags & ~uint64_t{kQuestion}) == 0 && frame.word[0] == handed_on_ &&
                 payload.size() >= sizeof(FrameHeader) && early_.empty() && !over &&
                 next >= window_.first() && next <= first_unsent_ &&
                 frame.word[3] == first_piece_ && held_.empty() && copied_ == 0 && !row_ended_ &&
                 path.settled && !path.placing && &path != relay_;
    if (!usual) return false;
    for (const Path& each : paths)
        if (each.busy()) return false;
    if (!simple_) {
        path.heard_at = kLater;
        if (next != window_.first()) progress_at_ = kLater;
        take_times_later(window_.next());
    }
    window_.drop_below(next);
    received_.add(handed_on_++);
    owed_bytes_ += payload.size();
    owe((flags & kQuestion) != 0);
    FrameHeader header;
    std::memcpy(&header, payload.data(), sizeof header);
    sink.arrive(peer, header, payload.subspan(sizeof header));
    return true;
}

void Link::arrive_numbered(Path&, const LinkHeader& header, ConstBytes payload, Sink& sink) {
    uint64_t number = header.number;
    bool at_once = (header.flags & kQuestion) != 0;
    owed_bytes_ += payload.size();
    if (number == handed_on_ && early_.empty()) {
        received_.add(number);
        ++handed_on_;
        owe(at_once);
        return hand_on(header.kind, payload, sink);
    }
    if (number >= handed_on_ + kAheadMost) return malformed("A message's number is too high");
    owe(true);
    if (!received_.add(number)) return;
    early_bytes_ += payload.size();
    if (early_bytes_ > kEarlyBytesMost) return malformed("Too much came before its turn");
    early_[number] = {header.kind, {payload.begin(), payload.end()}};
    while (!over && !early_.empty() && early_.begin()->first == handed_on_) {
        auto next = early_.extract(early_.begin());
        ++handed_on_;
        early_bytes_ -= next.mapped().second.size();
        hand_on(next.mapped().first, next.mapped().second, sink);
    }
}

void Link::hand_on(Kind kind, ConstBytes payload, Sink& sink) {
    if (kind == Kind::relay) {
        for_others_ = true;
        return links_.relays().arrive(*this, payload, sink);
    }
    if (kind == Kind::message) {
        asked();
        FrameHeader header;
        std::memcpy(&header, payload.data(), sizeof header);
        return sink.arrive(peer, header, payload.subspan(sizeof header));
    }
    if (kind == Kind::bye)
        return give_up({Code::peer_gone, "The other process has left MPI", peer});
    if (!set_addresses(payload).ok()) malformed("A link's address does not parse");
}

void Link::arrive_piece(Path& path, const LinkHeader& header, ConstBytes payload, Sink& sink) {
    path.placing = false;
    owed_bytes_ += payload.size() / (simple_ ? kPiecesWeigh : 1);
    if (header.number >= received_pieces_.next() + kAheadMost)
        return malformed("A piece's number is too high");
    FrameHeader engines = piece_header(header.place, header.offset, payload.size());
    // The last one to come may close the gap, by a slower path than the one that asks.
    bool in_order = received_pieces_.in_order();
    if (!received_pieces_.has(header.number)) {
        forget_overlap(path, engines, payload.size(), sink);
        received_pieces_.add(header.number);
        asked();
        if (!over) sink.arrive(peer, engines, payload);
    }
    in_order &= received_pieces_.in_order();
    if (over) return;
    owe((header.flags & kQuestion) != 0 || !in_order);
    owed_now_ |= (header.flags & kSoon) != 0;
    if (header.flags & kEnd) {
        owes_end_ = true;
        links_.owe();
    }
}

void Link::arrive_state(Path& path, const LinkHeader& header, ConstBytes payload, Sink& sink) {
    auto ranges = parse_ranges(header, payload);
    if (!ranges) return malformed("The state of a link does not parse");
    for (const Range& each : ranges->messages) {
        if (each.end > window_.next()) return malformed("A message was acknowledged before it was");
        for (uint64_t n = std::max(each.first, window_.first()); n < each.end && !over; ++n)
            message_arrived(n, sink);
    }
    if (over) return;
    for (const Range& each : ranges->pieces) {
        if (each.end > first_piece_ + pieces_.size())
            return malformed("A piece was acknowledged before it was");
        for (uint64_t n = std::max(each.first, first_piece_); n < each.end && !over; ++n)
            piece_arrived(piece(n), sink);
    }
    if (over) return;
    if (header.flags & kQuestion) {
        path.owes_answer = true;
        // A question without a time must not take another one's place: that would stay unanswered.
        if (header.time != 0) path.answer_time = header.time;
        links_.activate(*this);
    }
    if (header.flags & kAnswer && header.time != 0) {
        Nanoseconds now = links_.now(), trip = now - static_cast<Nanoseconds>(header.time);
        bool last = static_cast<Nanoseconds>(header.time) == path.asked_last;
        if (trip >= 0 && trip < 3'600'000'000'000)
            path.took(trip, last ? path.before_question : 0, now);
        path.asked_at = 0;
        path.answered_at = now;
        order_paths();
    }
}

void Link::message_arrived(uint64_t number, Sink& sink) {
    Kept& frame = window_[number];
    if (frame.path == kArrived) return;
    frame.path = kArrived;
    for (Path& path : paths)
        if (path.busy() && !path.sending && path.begun == number) stop_bringing(path);
    if (frame.own) copied_ -= frame.data_length;
    uint64_t ticket = frame.ticket;
    if (frame.data) window_.drop_payload(frame);
    if (ticket == 0) return;
    held_moved_ = true;
    if (held_.front() == number) held_.pop_front();  // nearly always
    else std::erase(held_, number);
    many_held_ &= !held_.empty();
    sink.released(peer, ticket);
}

void Link::messages_below(uint64_t next, Sink& sink) {
    bool plain = held_.empty() && copied_ == 0;
    for (const Path& path : paths) plain &= !path.busy() || path.sending;
    for (uint64_t number = window_.first(); !plain && number < next && !over; ++number)
        message_arrived(number, sink);
    if (!over) window_.drop_below(next);
}

// False when it acknowledges what was never sent.
bool Link::acknowledge(const LinkHeader& header, Sink& sink) {
    uint64_t piece_end = first_piece_ + pieces_.size();
    if (header.next_message > window_.next() ||
        (header.kind != Kind::piece && header.next_piece > piece_end)) {
        malformed("What was never sent was acknowledged");
        return false;
    }
    if (header.next_message > window_.first()) {
        messages_below(header.next_message, sink);
        if (over) return false;
        first_unsent_ = std::max(first_unsent_, window_.first());
        progress_at_ = paths.size() > 1 || !paths[0].reliable ? links_.now() : 0;
    }
    if (header.kind != Kind::piece && header.next_piece > first_piece_)
        pieces_below(header.next_piece, sink);
    return true;
}

void Link::malformed(const char* what) {
    LOG(error, btl, "{} sent what it must not: {}; it is given up", name_of_peer(), what);
    give_up({Code::malformed, what, peer});
}

// ---- turns

bool Link::has_work() const {
    if (over) return !told;
    if (first_unsent_ < window_.next() || !unsent_pieces_.empty() || owed_frames_ != 0 ||
        owes_answer() || wants_memory() || !held_.empty() || to_copy_ != 0 || !forwards_.empty())
        return true;
    for (const Path& path : paths)
        if (path.busy() || (path.question_waits && path.state == Path::State::up)) return true;
    return unbegun() != 0;
}

bool Link::watches() const {
    if (over) return false;
    for (const Path& path : paths) {
        if (path.state == Path::State::down && !path.address.empty()) return true;
        if (path.state == Path::State::connecting) return true;
        if (path.state == Path::State::up &&
            (!path.settled || path.stalled || !path.description.watched || !path.reliable))
            return true;
    }
    return down_since_ != 0 || (paths.size() > 1 && outstanding());
}

size_t Link::owed_bytes_most() const { return simple_ ? kOwedBytes : kOwedBytesLess; }

bool Link::owes_answer() const {
    return std::any_of(paths.begin(), paths.end(),
                       [](const Path& path) { return path.owes_answer; });
}

// Nothing but acknowledgements that are not urgent.
bool Link::only_owes() const {
    return quick_ && !over && !owed_now_ && owed_bytes_ < owed_bytes_most() && !owes_answer() &&
           first_unsent_ == window_.next() && outgoing_.empty() && held_.empty() &&
           forwards_.empty() && std::none_of(paths.begin(), paths.end(), [](const Path& path) {
               return path.busy() || path.question_waits;
           });
}

// Answers and acknowledgements.
void Link::say_what_is_owed(Nanoseconds now) {
    for (Path& path : paths)
        if (path.owes_answer && send_state(path, kAnswer, path.answer_time)) {
            path.owes_answer = false;
            path.answer_time = 0;
        }
    if (owed_frames_ != 0) {
        if (owed_since_ == 0) owed_since_ = now;
        if (owed_now_ || owed_frames_ >= kOwedFrames || owed_bytes_ >= owed_bytes_most() ||
            now - owed_since_ >= (simple_ ? kOwedTime : kOwedTimeLess))
            send_owed_state();
    }
}

bool Link::work(Nanoseconds now, bool idle, Sink& sink) {
    if (over) {
        if (!told) {
            told = true;
            if (!for_others()) sink.gone(peer, why);
        }
        return false;
    }
    if (untimed_) take_times(now);
    bool moved = false;
    for (Path& path : paths) {
        if (path.state != Path::State::up) continue;
        if (path.busy()) moved |= push_begun(path, now);
        // Before the next message or piece, which would take the path for as long again.
        if (path.question_waits && !path.busy()) ask(path, now);
    }
    // Before anything is sent: what has to go again by another path goes in this turn, as sleep may
    // follow it.
    if (now >= next_look_) look_at_time(now);
    if (over) return work(now, idle, sink);
    say_what_is_owed(now);
    if (!forwards_.empty()) moved |= drain_forwards();
    if (first_unsent_ < window_.next()) moved |= flush();
    if (!outgoing_.empty()) moved |= drain_bulk(now);
    else if (moved) pause_intake();
    if (idle && may_ask(now) && wants_memory()) ask_for_memory(now);
    if (!held_.empty()) copy_held(now, idle, sink);
    if (to_copy_ != 0 && !over) copy_bulk(now, sink);
    if (over) return work(now, idle, sink);
    return moved;
}

bool Link::settle_for_sleep() {
    if (over) return told;
    if (untimed_) take_times(links_.now());
    if (owed_frames_ != 0) send_owed_state();
    if (wants_memory()) ask_for_memory(links_.now());
    return true;
}

bool Link::pending() const {
    if (over || rests()) return false;
    if (first_unsent_ < window_.next() || owed_frames_ != 0 || !forwards_.empty()) return true;
    for (const Outgoing& each : outgoing_)
        if (!each.own || each.begun < each.bulk.length) return true;
    // What a path that loses nothing has taken will arrive.
    auto safe = [](const Path& path) { return path.state == Path::State::up && path.reliable; };
    return (!window_.empty() || !outgoing_.empty()) &&
           (loses() || std::none_of(paths.begin(), paths.end(), safe));
}

bool Link::gives_back(Nanoseconds now) {
    if (!window_.large()) return true;
    if (!window_.empty() || window_.next() != seen_next_ || seen_at_ == 0) {
        seen_next_ = window_.next();
        seen_at_ = now;
        return false;
    }
    if (now - seen_at_ < kIdleTime) return false;
    window_.give_back();
    return true;
}

void Link::say_bye() {
    if (over || left_) return;
    left_ = true;
    leave_by_standing();
    if (!keep(Kind::bye, 0)) return;
    sent_new();
}

// Among several paths long messages are shared, in pieces.
size_t Link::unasked_most() const {
    if (order_.size() != 1) return 0;
    return order_.front()->unasked_most(window_.in_flight(), links_.options().unasked_max);
}

Pace Link::pace() {
    Pace sum;
    for (Path* path : order_) {
        Pace one = path->endpoint->pace();
        sum.rate += one.rate;
        sum.queued += one.queued;
        sum.arrived += one.arrived;
    }
    return sum;
}

}  // namespace pomona::link
