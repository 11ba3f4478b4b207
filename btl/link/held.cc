// btl/link/held.cc: messages whose payload stays in the caller's memory until they have arrived.
// Idea: a copy of each would cost more than the acknowledgement, which comes by itself in a row of
// messages. Where little is on its way, or the peer does not answer, copies free the memory.
#include "btl/link/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::link {

// Once this part of a window's bytes is on its way, the caller's memory is kept instead of a copy
// until all of it has arrived,
static constexpr size_t kHoldFrom = 16;
// but no longer than this without any acknowledgement: the peer may be busy outside MPI.
static constexpr Nanoseconds kHeldTime = 500'000;
// While less is on its way.
static constexpr Nanoseconds kHeldTimeOfFew = 20'000;
// So long after a row has grown or been acknowledged the peer is asked for its memory, if its
// program has answered the last rows: its answer acknowledges them, too.
static constexpr Nanoseconds kAskedAfter = 200'000;
// So long after the peer's system has all of it. Two ranks that exchange rows wait for each other's
// acknowledgement, and neither answers.
static constexpr Nanoseconds kAskedSoon = 15'000;
static constexpr int kRowsAnswered = 2;
// Both times are longer by so many nanoseconds for each byte on its way, which a line of 10 Gb/s
// needs.
static constexpr Nanoseconds kTimeOfByte = 1;

Push Link::push_held(const FrameHeader& header, ConstBytes payload, uint64_t ticket, bool& held) {
    held = false;
    if (payload.size() < kCopyFirst) return push(header, payload);
    if (over) return Push::gone;
    std::byte* place = keep(Kind::message, sizeof header, payload.size());
    if (!place) return Push::busy;
    held = true;
    std::memcpy(place, &header, sizeof header);
    window_.attach(payload.data(), payload.size(), ticket);
    held_.push_back(window_.next() - 1);
    held_moved_ = true;
    if (std::exchange(row_ended_, false)) rows_answered_ = 0;
    many_held_ |= held_.size() > 1 &&
                  window_.in_flight() >= static_cast<size_t>(links_.params.link_window) / kHoldFrom;
    sent_new();
    links_.activate(*this);
    return Push::sent;
}

// All has left, and the caller's memory is free when it has arrived: has that not been asked yet?
bool Link::wants_memory() const {
    bool alone = outgoing_.size() == 1 && outgoing_.front().copies;
    bool keeps = (!outgoing_.empty() && !alone) || (!held_.empty() && many_held_);
    if (!keeps || (asked_message_ == window_.next() && asked_piece_ == next_piece_number()))
        return false;
    return first_unsent_ == window_.next() && unsent_pieces_.empty() && unbegun() == 0 &&
           std::none_of(paths.begin(), paths.end(), [](const Path& each) { return each.busy(); });
}

bool Link::may_ask(Nanoseconds now) {
    if (!outgoing_.empty() || rows_answered_ < kRowsAnswered) return true;
    if (held_moved_) return all_there_at_ = 0, false;
    if (now - held_moved_at_ >= kAskedAfter + time_on_line()) return true;
    if (order_.size() != 1 || now - held_moved_at_ < kAskedSoon) return false;
    if (all_there_at_ == 0 && order_.front()->endpoint->pace().queued == 0) all_there_at_ = now;
    return all_there_at_ != 0 && now - all_there_at_ >= kAskedSoon;
}

Nanoseconds Link::time_on_line() const {
    return kTimeOfByte * static_cast<Nanoseconds>(window_.in_flight());
}

// One question for all that is on its way, and only when nothing comes and nothing is left to be
// sent: until then acknowledgements come by themselves, for many at once.
void Link::ask_for_memory(Nanoseconds now) {
    if (order_.empty() || !send_state(*order_.front(), kQuestion, 0)) return;
    held_moved_at_ = now;
    all_there_at_ = 0;
    asked_message_ = window_.next();
    asked_piece_ = next_piece_number();
}

// Gives the caller's memory back: soon where little is on its way, at once if nothing comes, so
// that there is time for the copies; else when the peer does not answer. A row that still grows
// from turn to turn may become a long one. The end of a long row is not copied either: its
// acknowledgement is asked for, and comes sooner than the copies end.
void Link::copy_held(Nanoseconds now, bool idle, Sink& sink) {
    bool moved = std::exchange(held_moved_, false);
    if (moved) held_moved_at_ = now;
    if (moved && !many_held_) return;
    Nanoseconds quiet = now - held_moved_at_;
    Nanoseconds patience = kHeldTime + time_on_line();
    size_t most = static_cast<size_t>(links_.params.link_window);
    while (!held_.empty() && !over) {
        Kept& frame = window_[held_.front()];
        bool due = many_held_ ? quiet >= patience : idle || quiet >= kHeldTimeOfFew;
        if (!due || (copied_ != 0 && copied_ + frame.data_length > most)) return;
        frame.own.reset(new std::byte[frame.data_length]);
        std::memcpy(frame.own.get(), frame.data, frame.data_length);
        frame.data = frame.own.get();
        copied_ += frame.data_length;
        count(links_.counters.link_copied_bytes, frame.data_length);
        held_.pop_front();
        many_held_ &= !held_.empty();
        sink.released(peer, std::exchange(frame.ticket, 0));
    }
}

// A frame has come; `ended`: it acknowledged the end of a row. The program there answers rows if a
// message comes behind each, be it behind the link's own answer to a question.
void Link::note_row(Kind kind, bool ended) {
    if (kind == Kind::message && (ended || row_ended_))
        rows_answered_ = std::min(rows_answered_ + 1, kRowsAnswered);
    if (kind == Kind::message || ended) row_ended_ = kind == Kind::state;
}

}  // namespace pomona::link
