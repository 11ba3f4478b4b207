// mpi/runtime/collective_watch.cc: asking, answering, and ending collectives in which members do not meet.
// Notes travel as messages of a context of their own, which one receive of any source is posted for.
#include "mpi/runtime/collective_watch.h"

#include "btl/base/check.h"
#include "btl/base/format.h"

#include <algorithm>
#include <cstring>

namespace pomona {

static constexpr uint64_t kNoteContext =
    0xfffffffffffffff1;  // contexts of communicators are hashes
static constexpr Nanoseconds kLookEach = 20'000'000;
static constexpr Nanoseconds kAskFirst = 100'000'000, kAskLast = 2'000'000'000;
static constexpr size_t kSentencesMost = 1000;

// On the wire; little-endian. `from` is the sender's rank in the job.
struct CollectiveWatch::Note {
    uint64_t context, round, bytes;
    int32_t tag, from, root;
    uint32_t mark;
    uint8_t kind, state, collective, makes_board;
    char algorithm[28];

    CollectiveCall call() const {
        CollectiveCall call;
        call.mark = mark;
        call.collective = static_cast<coll::Collective>(collective);
        call.makes_board = makes_board != 0;
        call.root = root;
        call.bytes = bytes;
        return call;
    }
};

struct CollectiveWatch::Outgoing : coll::Completion {
    Note note{};
};

// ---- calls

CollectiveCall CollectiveCall::of(const coll::Schedule& schedule, const coll::Shape& shape) {
    using coll::Collective;
    bool rooted = shape.collective == Collective::bcast || shape.collective == Collective::reduce ||
                  shape.collective == Collective::gather || shape.collective == Collective::scatter;
    CollectiveCall call;
    call.mark = schedule.mark();
    call.collective = shape.collective;
    call.root = rooted ? shape.root : -1;
    call.bytes = shape.bytes();
    call.algorithm = schedule.algorithm();
    return call;
}

CollectiveCall CollectiveCall::making(const coll::Shape& shape) {
    CollectiveCall call;
    call.collective = shape.collective;
    call.makes_board = true;
    call.bytes = shape.bytes();
    return call;
}

bool CollectiveCall::meets(const CollectiveCall& other) const {
    if (makes_board || other.makes_board) return makes_board == other.makes_board;
    if (collective != other.collective) return false;
    return !mark || !other.mark || mark == other.mark;
}

std::string CollectiveCall::text() const {
    static const char* const names[] = {
        "MPI_Barrier",   "MPI_Bcast",          "MPI_Reduce",   "MPI_Allreduce",
        "MPI_Allgather", "MPI_Reduce_scatter", "MPI_Alltoall", "MPI_Gather",
        "MPI_Scatter",   "MPI_Scan",           "MPI_Exscan",   "a neighborhood collective"};
    static_assert(std::size(names) == static_cast<size_t>(coll::Collective::count_));
    std::string text = names[static_cast<size_t>(collective)];
    if (collective != coll::Collective::barrier && bytes) text += format(" of {} bytes", bytes);
    if (root >= 0) text += format(" with root {}", root);
    if (algorithm[0]) text += format(" ({})", algorithm);
    return text;
}

// ---- what a communicator has under way

CollectiveLog::CollectiveLog(CollectiveWatch& watch, Communicator& comm)
    : watch_(&watch), comm_(comm) {
    watch.logs_.push_back(this);
    watch.listen();
}

CollectiveLog::~CollectiveLog() {
    if (watch_) std::erase(watch_->logs_, this);
}

CollectiveLog::Entry* CollectiveLog::find(CollectiveKey key) {
    for (Entry& each : under_way_)
        if (each.key == key) return &each;
    return nullptr;
}

const CollectiveLog::Past* CollectiveLog::find_past(CollectiveKey key) const {
    for (const Past& each : past_)
        if (each.key == key) return &each;
    return nullptr;
}

void CollectiveLog::end(CollectiveKey key, bool failed) {
    Entry* entry = find(key);
    check(entry != nullptr, key.tag, key.round);
    Entry ended = *entry;
    under_way_.erase(under_way_.begin() + (entry - under_way_.data()));
    past_[ended_++ % kPast] = {key, ended.call, failed};
    if (__builtin_expect(!failed, 1) || !watch_) return;
    // Those whom this rank would have sent to, or received from, may wait for it.
    std::vector<bool> told(comm_.peers.size());
    for (const coll::Step& step : ended.runner->schedule().steps()) {
        if (step.kind != coll::StepKind::send && step.kind != coll::StepKind::recv) continue;
        auto rank = static_cast<size_t>(step.peer);
        Peer& peer = *comm_.peers[rank];
        if (told[rank] || peer.gone || !peer.endpoint || peer.rank == watch_->rank_) continue;
        told[rank] = true;
        watch_->send(peer, CollectiveWatch::Kind::tell, CollectiveWatch::State::failed, *this, key,
                     ended.call);
    }
}

// A message of a collective that is over here, which nobody receives.
bool CollectiveLog::is_late(const Message& message) const {
    int tag = message.header.tag;
    if (tag < 0 || tag >> 30) return false;  // leaders' exchanges, persistent collectives
    int base = tag >> Engine::kCollectiveSlotBits << Engine::kCollectiveSlotBits;
    auto is_of_it = [&](const auto& each) { return each.key.tag == base; };
    return std::any_of(past_.begin(), past_.end(), is_of_it) &&
           std::none_of(under_way_.begin(), under_way_.end(), is_of_it);
}

// ---- the process

CollectiveWatch::CollectiveWatch(Engine& engine, int rank, Clock& clock)
    : engine_(engine), rank_(rank), clock_(clock), arrived_(std::make_unique<Note>()) {
    incoming_.watch = this;
    incoming_.function = [](coll::Completion* self, const Error* error) {
        CollectiveWatch& watch = *static_cast<Incoming*>(self)->watch;
        if (watch.closing_) return;
        Note note = *watch.arrived_;
        watch.listening_ = false;
        watch.listen();
        if (!error) watch.take(note);
    };
}

CollectiveWatch::~CollectiveWatch() {
    closing_ = true;
    for (CollectiveLog* each : logs_) each->watch_ = nullptr;
    if (listening_) engine_.cancel_step(kNoteContext, incoming_);
}

void CollectiveWatch::listen() {
    if (std::exchange(listening_, true)) return;
    *arrived_ = {};
    engine_.recv_step(engine_.peer(rank_), kNoteContext, MPI_ANY_SOURCE, MPI_ANY_TAG,
                      {reinterpret_cast<std::byte*>(arrived_.get()), sizeof(Note)}, incoming_);
}

CollectiveLog* CollectiveWatch::find(uint64_t context) {
    for (CollectiveLog* each : logs_)
        if (each->comm_.collective_context() == context) return each;
    return nullptr;
}

static coll::Completion nobody{[](coll::Completion*, const Error*) {}};

void CollectiveWatch::before_sleep() {
    if (logs_.empty()) return;
    Nanoseconds now = clock_.now();
    if (now - looked_ < kLookEach) return;
    looked_ = now;
    for (size_t i = 0; i < logs_.size(); ++i) look_at(*logs_[i], now);
}

void CollectiveWatch::look_at(CollectiveLog& log, Nanoseconds now) {
    uint64_t context = log.comm_.collective_context();
    Matcher& matching = engine_.matcher(context);
    auto late = [&](const Message& message) { return log.is_late(message); };
    while (matching.message_count()) {
        Message* message = matching.find_kept(late);
        if (!message) break;
        engine_.recv_step(*message->peer, context, message->header.source, message->header.tag, {},
                          nobody);
    }
    for (CollectiveLog::Entry& entry : log.under_way_) {
        if (!entry.pause) {
            entry.pause = kAskFirst;
            entry.ask_at = now + entry.pause;
        }
        if (now < entry.ask_at) continue;
        entry.pause = std::min(2 * entry.pause, kAskLast);
        entry.ask_at = now + entry.pause;
        if (ask_for(log, entry)) return;  // the list may have changed
    }
}

// True when something may have failed meanwhile.
bool CollectiveWatch::ask_for(CollectiveLog& log, CollectiveLog::Entry& entry) {
    std::vector<int> awaited;
    entry.runner->awaited(awaited);
    CollectiveKey key = entry.key;
    CollectiveCall call = entry.call;
    for (int rank : awaited) {
        Peer& peer = *log.comm_.peers[static_cast<size_t>(rank)];
        if (!peer.gone && peer.rank != rank_)
            send(peer, Kind::ask, State::under_way, log, key, call);
    }
    return !awaited.empty();
}

void CollectiveWatch::send(Peer& to, Kind kind, State state, const CollectiveLog& log,
                           CollectiveKey key, const CollectiveCall& call) {
    auto* out = new Outgoing;
    out->function = [](coll::Completion* self, const Error*) {
        delete static_cast<Outgoing*>(self);
    };
    Note& note = out->note;
    note.context = log.comm_.collective_context();
    note.round = key.round;
    note.tag = key.tag;
    note.from = rank_;
    note.bytes = call.bytes;
    note.root = call.root;
    note.mark = call.mark;
    note.kind = static_cast<uint8_t>(kind);
    note.state = static_cast<uint8_t>(state);
    note.collective = static_cast<uint8_t>(call.collective);
    note.makes_board = call.makes_board;
    std::strncpy(note.algorithm, call.algorithm, sizeof note.algorithm - 1);
    engine_.send_step(to, kNoteContext, rank_, 0,
                      {reinterpret_cast<const std::byte*>(&note), sizeof note}, *out);
}

void CollectiveWatch::take(const Note& note) {
    bool known = note.from >= 0 && note.from < engine_.known_peers() &&
                 note.collective < static_cast<uint8_t>(coll::Collective::count_) &&
                 note.algorithm[sizeof note.algorithm - 1] == 0;
    CollectiveLog* log = known ? find(note.context) : nullptr;
    if (!log) return;
    CollectiveLog::Entry* entry = log->find({note.tag, note.round});
    auto kind = static_cast<Kind>(note.kind);
    auto state = static_cast<State>(note.state);
    CollectiveCall theirs = note.call();
    theirs.algorithm = note.algorithm;
    if (kind == Kind::ask) answer(*log, note);
    if (!entry) return;
    bool meets = entry->call.meets(theirs);
    if (!meets || (kind == Kind::tell && state == State::failed))
        end_with(*entry, theirs, note.from);
}

// Says what this rank does instead of what is asked for; nothing where it has not come yet, or is in the
// same collective and waits itself.
void CollectiveWatch::answer(CollectiveLog& log, const Note& note) {
    CollectiveKey key{note.tag, note.round};
    Peer& to = engine_.peer(note.from);
    if (to.gone) return;
    if (const CollectiveLog::Entry* entry = log.find(key)) {
        if (!entry->call.meets(note.call()))
            send(to, Kind::tell, State::under_way, log, key, entry->call);
        return;
    }
    const CollectiveLog::Past* past = log.find_past(key);
    if (!past || (!past->failed && past->call.meets(note.call()))) return;
    send(to, Kind::tell, past->failed ? State::failed : State::over, log, key, past->call);
}

void CollectiveWatch::end_with(CollectiveLog::Entry& entry, const CollectiveCall& theirs,
                               int peer) {
    const CollectiveCall& mine = entry.call;
    Error why{Code::data_lost, "", peer};
    if (!mine.meets(theirs)) {
        if (mine.collective == theirs.collective && mine.bytes != theirs.bytes)
            why.code = Code::truncated;
        why.what = keep(format("rank {} of the job called {}, this rank (rank {} of the job) {}",
                               peer, theirs.text(), rank_, mine.text()));
    } else {
        why.what = keep(format("{} failed at rank {} of the job", mine.text(), peer));
    }
    entry.runner->fail(why);
}

const char* CollectiveWatch::keep(std::string sentence) {
    if (sentences_.size() >= kSentencesMost && !sentences_.count(sentence))
        return "A member of the communicator is in another collective, or failed in this one";
    return sentences_.insert(std::move(sentence)).first->c_str();
}

}  // namespace pomona
