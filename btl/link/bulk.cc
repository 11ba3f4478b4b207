// btl/link/bulk.cc: long payloads: cut into pieces, shared among paths, released when all has
// arrived.
#include "btl/link/state.h"

#include <algorithm>
#include <cstring>

namespace pomona::link {

// Of a link with one path: pieces pushed before something else has its turn.
static constexpr int kPiecesAtOnce = 4;
// A payload of so many bytes is copied rather than waited for, where nothing else is on its way.
static constexpr size_t kCopyMost = 1 << 20;
// An answer to it, which acknowledges it too, is waited for as long.
static constexpr Nanoseconds kCopyAfter = 25'000;
static constexpr size_t kCopyLaterFrom = 256 << 10;
static constexpr Nanoseconds kCopyLater = 500'000;

// A path whose rate is not known yet is tried beside others that have so much to do; one that would
// help them where they have more.
static constexpr size_t kTrialFrom = 128 << 10, kHelpTrialFrom = 1 << 20;
// After so many bytes on end it is decided anew who carries them.
static constexpr size_t kDecidedFor = 64 << 20;

// What goes by the same wire as the path that it would help is no help.
std::vector<Path*> Link::helpers() {
    std::vector<Path*> out;
    if (order_.empty() || !order_.front()->rides) return out;
    for (Path& path : paths)
        if (path.usable() && !path.rides && !path.stalled && &path != relay_ &&
            path.description.kind != order_.front()->description.kind)
            out.push_back(&path);
    return out;
}

void Link::bulk_begins(size_t length) {
    if (helped_bytes_ > kDecidedFor) bulk_ends();
    if (helped_since_ == 0) {
        if (order_.empty() || !order_.front()->rides) return;
        helped_ = help_choice_.help(length);
        helped_since_ = links_.now();
    }
    helped_bytes_ += length;
}

void Link::bulk_ends() {
    if (helped_since_ == 0) return;
    help_choice_.took(helped_, helped_bytes_, links_.now() - helped_since_);
    helped_since_ = 0;
    helped_bytes_ = 0;
    helped_ = false;
}

Push Link::push_bulk(const Bulk& bulk) {
    if (over) return Push::gone;
    bulk_begins(bulk.length);
    if (paths.size() > 1 && !outstanding()) {
        progress_at_ = links_.now();
        begun_anew_ = true;
    }
    outgoing_.push_back({bulk});
    links_.activate(*this);
    // With the answer that lets it go a question may have come, whose own answer must not stand
    // behind all of it: then the two directions would work one after the other.
    if (!links_.reads() && first_unsent_ == window_.next()) drain_bulk(links_.now());
    return over ? Push::gone : Push::sent;
}

size_t Link::unbegun() const {
    size_t sum = 0;
    for (const Outgoing& each : outgoing_) sum += each.bulk.length - each.begun;
    return sum;
}

// What the path has to do, with what of a piece its transport has not taken yet.
static void look_at_pace(Path& path, Nanoseconds now) {
    path.look_at_pace(now);
    path.pace.queued += path.rest_length;
}

// Pushes pieces by all paths that take some; true when something moved.
bool Link::drain_bulk(Nanoseconds now) {
    std::vector<Path*> help, own = order_;
    if (helped_ && outgoing_.back().begun < outgoing_.back().bulk.length) help = helpers();
    if (order_.size() > 1 || !help.empty()) {
        for (Path* path : order_) look_at_pace(*path, now);
        own = sharers(order_);
    }
    // Those that help have a share by their rates; to find these out, two short pieces at a time.
    bool known = std::all_of(own.begin(), own.end(), [](Path* path) { return path->pace.rate; });
    if (!known) help.clear();
    std::vector<const Path*> sharing(own.begin(), own.end());
    for (Path* path : help) {
        look_at_pace(*path, now);
        if (path->pace.rate != 0) sharing.push_back(path);
    }
    bool moved = false;
    // With several, each in its turn: one whose buffers are large would take a message alone.
    int times = sharing.size() > 1 ? 1 : kPiecesAtOnce;
    auto drain = [&](Path& path, const std::vector<const Path*>& among, size_t longest) {
        for (int n = 0; n < times && first_unsent_ == window_.next(); ++n) {
            if (path.busy() || !push_next_piece(path, among, longest, now)) return;
            moved = true;
            if (among.size() > 1) look_at_pace(path, now);
        }
    };
    for (Path* path : own) drain(*path, sharing, SIZE_MAX);
    times = 1;
    for (Path* path : order_) {
        bool shares = std::find(own.begin(), own.end(), path) != own.end();
        if (shares || unbegun() < kTrialFrom) continue;
        if (size_t most = trial_piece(*path, now)) drain(*path, {path}, most);
    }
    for (Path* path : help) {
        if (path->pace.rate != 0) drain(*path, sharing, SIZE_MAX);
        else if (path->pace.queued <= kPieceMin && unbegun() >= kHelpTrialFrom)
            drain(*path, {path}, kPieceMin);
    }
    pause_intake();
    return moved;
}

// Brings more of what the path has begun to take.
bool Link::push_begun(Path& path, Nanoseconds now) {
    const std::byte* bytes = path.sending ? path.sending->bulk.data : message_bytes(path.begun);
    size_t taken = 0;
    Push push = path.endpoint->push_rest({bytes + path.rest_offset, path.rest_length}, taken);
    path.note_intake(taken, taken < path.rest_length && !path.endpoint->has_room(), now);
    if (push != Push::sent) return false;
    path.rest_offset += taken;
    path.rest_length -= taken;
    if (path.rest_length == 0) path.sending = nullptr;
    return true;
}

// A path that still brings what has arrived by another one must not read the payload any more.
void Link::stop_bringing(Path& path) {
    path.sending = nullptr;
    path.rest_length = 0;
    path.endpoint->abandon({Code::timed_out, "What it was sending went by another path", peer});
}

// One that was lost, or a new one; false when the path takes none now.
bool Link::push_next_piece(Path& path, const std::vector<const Path*>& sharing, size_t most,
                           Nanoseconds now) {
    most = std::min(most, path.piece_most());
    while (!unsent_pieces_.empty()) {
        uint64_t number = unsent_pieces_.front();
        bool waits = number >= first_piece_ && piece(number).of && piece(number).path == kUnsent;
        if (waits && !push_piece(path, number, now)) return false;
        unsent_pieces_.pop_front();
        if (waits) return true;
    }
    for (Outgoing& each : outgoing_) {
        size_t left = each.bulk.length - each.begun;
        if (left == 0) continue;
        size_t longest = std::min({most, caps_.fragment_max, path.endpoint->caps().fragment_max});
        size_t length =
            next_piece(sharing, path, longest, left, sharing.size() > 1 ? unbegun() : left);
        if (length == 0) return false;
        pieces_.push_back({&each, each.begun, length, kUnsent, 0, 0});
        if (!push_piece(path, first_piece_ + pieces_.size() - 1, now)) {
            pieces_.pop_back();
            return false;
        }
        each.begun += length;
        return true;
    }
    return false;
}

namespace {
struct Gather {
    const Bulk* bulk;
    size_t offset;
};
void gather(void* context, Bytes target) {
    auto* what = static_cast<Gather*>(context);
    what->bulk->gather(what->bulk->context, what->offset, target);
}
}  // namespace

bool Link::push_piece(Path& path, uint64_t number, Nanoseconds now) {
    Piece& what = piece(number);
    const Bulk& bulk = what.of->bulk;
    size_t length = what.length;
    // The last one of a payload alone is acknowledged at once; of a row, when the program there
    // leaves MPI, or when all has been sent (ask_for_memory).
    bool last = what.offset + length == bulk.length || what.sendings > 0;
    bool in_row = simple_ && outgoing_.size() > 1 && what.sendings == 0;
    bool copies = last && simple_ && outgoing_.size() == 1 && bulk.length <= kCopyMost &&
                  bulk.data && what.sendings == 0;
    uint8_t flags = !last ? uint8_t{0} : copies ? kSoon : in_row ? kEnd : kQuestion;
    LinkHeader header{Kind::piece, flags, number, received_.next(), 0, bulk.place, what.offset, 0};
    size_t taken = length;
    Push push;
    if (bulk.data) {
        push = path.endpoint->push_part(header.pack(), {bulk.data + what.offset, length}, taken);
    } else {
        Gather context{&bulk, what.offset};
        push = path.endpoint->push_fill(header.pack(), length, gather, &context);
    }
    if (push != Push::sent) taken = 0;
    path.note_intake(taken, taken < length && !path.endpoint->has_room(), now);
    if (push != Push::sent) return false;
    if (taken < length) {
        path.sending = what.of;
        path.rest_offset = what.offset + taken;
        path.rest_length = length - taken;
    }
    if (copies && !what.of->copies && !what.of->own) {
        what.of->copies = true;
        ++to_copy_;
    }
    what.path = path.index;
    ++what.sendings;
    if (!path.reliable) what.sent_at = links_.now();
    if (length >= kTimedLeast) time_path(path);
    if (!order_.empty() && &path != order_.front())
        count(links_.counters.further_path_bytes, length);
    return true;
}

void Link::piece_arrived(Piece& piece, Sink& sink) {
    Outgoing* of = piece.of;
    if (!of) return;
    piece.of = nullptr;
    of->arrived += piece.length;
    if (of->arrived < of->bulk.length) return;
    for (Path& path : paths)
        if (path.sending == of) stop_bringing(path);
    uint64_t ticket = of->bulk.ticket;
    bool released = of->own != nullptr;
    if (of->copies && !released) --to_copy_;
    outgoing_.remove_if([&](const Outgoing& each) { return &each == of; });
    if (outgoing_.empty()) bulk_ends();
    if (!released) sink.released(peer, ticket);
}

// All of it has been pushed, and nothing waits behind it. Programs answer what they receive, and an
// answer acknowledges it, which costs nobody a frame; the peer may also compute for long. So the
// copy is made when no answer has come for about as long as the copy takes.
void Link::copy_bulk(Nanoseconds now, Sink& sink) {
    for (Outgoing& each : outgoing_) {
        if (!each.copies || each.own || paths[0].sending == &each) continue;
        if (each.pushed_at == 0) each.pushed_at = now;
        Nanoseconds wait = each.bulk.length < kCopyLaterFrom ? kCopyAfter : kCopyLater;
        if (now - each.pushed_at < wait) continue;
        each.own.reset(new std::byte[each.bulk.length]);
        std::memcpy(each.own.get(), each.bulk.data, each.bulk.length);
        each.bulk.data = each.own.get();
        --to_copy_;
        return sink.released(peer, each.bulk.ticket);
    }
}

bool Link::copy_bulk(uint64_t ticket) {
    for (Outgoing& each : outgoing_) {
        Bulk& bulk = each.bulk;
        if (bulk.ticket != ticket || each.own) continue;
        each.own.reset(new std::byte[bulk.length]);
        if (bulk.data) std::memcpy(each.own.get(), bulk.data, bulk.length);
        else bulk.gather(bulk.context, 0, {each.own.get(), bulk.length});
        bulk.data = each.own.get();
        if (each.copies) --to_copy_;
        return true;
    }
    return false;
}

void Link::pieces_below(uint64_t next, Sink& sink) {
    for (uint64_t number = first_piece_; number < next && !over; ++number)
        piece_arrived(piece(number), sink);
    while (!over && first_piece_ < next) {
        pieces_.pop_front();
        ++first_piece_;
    }
    if (!over && (paths.size() > 1 || !paths[0].reliable)) progress_at_ = links_.now();
}

}  // namespace pomona::link
