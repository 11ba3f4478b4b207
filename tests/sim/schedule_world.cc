// tests/sim/schedule_world.cc: messages of schedules as events of a World.
#include "tests/sim/schedule_world.h"

#include "btl/base/check.h"
#include "tests/sim/schedule_rank.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace pomona::sim {

struct ScheduleWorld::SentNote {
    Watcher* to = nullptr;
    std::vector<std::byte> bytes;
};

// Notes overtake messages and each other.
void ScheduleWorld::Watcher::send(int process, ConstBytes note) {
    ++world.notes_;
    auto* sent = new SentNote{world.watchers_[process].get(), {note.begin(), note.end()}};
    double way = 2e3 + 1e5 * world.world_.random().unit();
    world.world_.at(
        world.world_.now() + way,
        [](void* context, uint64_t) {
            std::unique_ptr<SentNote> note(static_cast<SentNote*>(context));
            if (!note->to->world.network_.dead(note->to->rank))
                check(note->to->watch.take(note->bytes));
        },
        sent, label(12, rank, process, static_cast<int>(note.size())));
}

ScheduleWorld::ScheduleWorld(uint64_t seed, ScheduleOptions options)
    : options_(options), world_(seed),
      network_(world_, options.ranks,
               options.links ? *options.links : coll::links_of(options.machine, options.nodes),
               options.faults),
      outcomes_(options.ranks) {
    for (int r = 0; r < options.ranks; ++r)
        carriers_.push_back(std::make_unique<RankCarrier>(*this, r));
    for (int r = 0; r < options_.ranks && !options_.calls.empty(); ++r)
        watchers_.push_back(std::make_unique<Watcher>(*this, r, options_.calls[r]));
}

ScheduleWorld::~ScheduleWorld() = default;

ScheduleWorld::Message* ScheduleWorld::make_message() {
    if (free_messages_.empty()) {
        message_store_.push_back(std::make_unique<Message>());
        free_messages_.push_back(message_store_.back().get());
    }
    Message* message = free_messages_.back();
    free_messages_.pop_back();
    message->world = this;
    message->read = message->port_left = message->over = false;
    return message;
}

void ScheduleWorld::recycle(Message* message) {
    if (!message->port_left || !message->over) return;
    message->sending = nullptr;
    free_messages_.push_back(message);
}

const std::vector<Outcome>& ScheduleWorld::run(const std::vector<coll::Schedule>& schedules,
                                               const std::vector<coll::Binding>& bindings) {
    start_ = world_.now();
    makespan_ = 0;
    revoked_ = false;
    outcomes_.assign(options_.ranks, {});
    const Faults& faults = network_.faults();
    if (faults.dead_rank >= 0)
        world_.at(
            start_ + faults.dead_at,
            [](void* self, uint64_t) { static_cast<ScheduleWorld*>(self)->die(); }, this,
            label(4, faults.dead_rank, 0, 0));
    for (int r = 0; r < options_.ranks; ++r) {
        RankCarrier& carrier = *carriers_[r];
        carrier.meetings.clear();
        carrier.board = {};
        carrier.board.world = this;
        carrier.board.rank = r;
        carrier.chunks.seers.clear();
        carrier.chunks.rooms.clear();
        carrier.chunks.world = this;
        carrier.chunks.rank = r;
        // A rank that reads nothing need not pass anything.
        auto steps = schedules[r].steps();
        carrier.chunks.passed =
            std::any_of(steps.begin(), steps.end(),
                        [](const coll::Step& step) { return step.kind == coll::StepKind::pass; })
                ? -1
                : INT_MAX;
        for (int place = 0; place < coll::kChunksAhead; ++place) {
            carrier.chunks.shown[place] = carrier.chunks.used[place] = -1;
            carrier.chunks.lost[place] = false;
        }
        if (options_.data && schedules[r].chunk_count() && !carrier.chunks.memory)
            carrier.chunks.memory.reset(new std::byte[coll::kChunksAhead * coll::kPieceBytes]);
        carrier.binding = bindings[r];
        carrier.steps = static_cast<coll::StepId>(steps.size());
        carrier.binding.symbolic = !options_.data;
        if (!options_.data)  // never followed
            carrier.binding.input = carrier.binding.result = reinterpret_cast<void*>(0x10000);
        carrier.runner.prepare(schedules[r], !options_.data);
        double spread = options_.start_spread_ns * world_.random().unit();
        if (r == options_.late_rank) spread = options_.late_ns;
        world_.at(
            start_ + spread,
            [](void* context, uint64_t) { static_cast<RankCarrier*>(context)->begin(); }, &carrier,
            label(5, r, 0, 0));
    }
    schedule_failure();
    if (!watchers_.empty()) look();
    world_.run();
    return outcomes_;
}

// Each rank's watch looks each 20 ms, for a minute at most.
void ScheduleWorld::look() {
    bool waits = false;
    for (int r = 0; r < options_.ranks; ++r) {
        if (network_.dead(r) || outcomes_[r].done) continue;
        waits = true;
        watchers_[r]->watch.look();
    }
    if (!waits || world_.now() - start_ > 6e10) return;
    world_.at(
        world_.now() + 2e7, [](void* self, uint64_t) { static_cast<ScheduleWorld*>(self)->look(); },
        this, label(13, 0, 0, 0));
}

void ScheduleWorld::schedule_failure() {
    if (options_.failing_rank < 0) return;
    world_.at(
        start_ + options_.failing_at,
        [](void* context, uint64_t) { static_cast<RankCarrier*>(context)->runner.fail(kNoMemory); },
        carriers_[options_.failing_rank].get(), label(14, options_.failing_rank, 0, 0));
}

bool ScheduleWorld::all_done() const {
    for (const Outcome& outcome : outcomes_)
        if (!outcome.done || outcome.error || outcome.completions != 1) return false;
    return true;
}

// The sender's port is free again.
void ScheduleWorld::on_sent(Message& message) {
    message.port_left = true;
    if (!message.rendezvous) {
        RankCarrier::read(message);
        if (coll::Completion* sending = std::exchange(message.sending, nullptr))
            sending->function(sending, nullptr);
    }
    recycle(&message);
}

void ScheduleWorld::on_head(Message& message) {
    Time over = network_.arrive(message.from, message.to, message.source.size());
    world_.at(
        over,
        [](void* m, uint64_t) {
            static_cast<Message*>(m)->world->on_arrived(*static_cast<Message*>(m));
        },
        &message, label(6, message.from, message.to, message.slot));
}

void ScheduleWorld::on_arrived(Message& message) {
    if (network_.dead(message.to)) {
        message.over = true;
        if (coll::Completion* sending = std::exchange(message.sending, nullptr))
            sending->function(sending, &kGone);
        return recycle(&message);
    }
    auto& meetings = carriers_[message.to]->meetings;
    uint64_t where = RankCarrier::key(message.from, message.slot, message.call);
    Meeting& meeting = meetings[where];
    check(!meeting.message, message.from, message.to, message.slot);
    if (!meeting.receiving) {
        meeting.message = &message;
        return;
    }
    Meeting met = meeting;
    meetings.erase(where);
    deliver(message, met);
}

void ScheduleWorld::deliver(Message& message, Meeting meeting) {
    bool lost = message.source.empty() && !meeting.target.empty();
    bool unlike = !lost && message.source.size() != meeting.target.size();
    check(!unlike || !options_.calls.empty(), message.from, message.to, message.slot,
          message.source.size(), meeting.target.size());
    RankCarrier::read(message);
    if (options_.data && !message.payload.empty() && !unlike)
        std::memcpy(meeting.target.data(), message.payload.data(), message.payload.size());
    Error why = unlike ? Error{Code::truncated, "A simulated length differs"} : kLost;
    if (!options_.calls.empty()) why.peer = message.from;
    message.over = true;
    coll::Completion* sending = std::exchange(message.sending, nullptr);
    recycle(&message);
    if (sending) sending->function(sending, nullptr);
    meeting.receiving->function(meeting.receiving, lost || unlike ? &why : nullptr);
}

void ScheduleWorld::seen(Post& post) {
    post.visible = true;
    std::vector<Look*> waiting;
    waiting.swap(post.waiting);
    for (Look* look : waiting)
        if (!network_.dead(look->rank)) carriers_[look->rank]->take(post, *look);
}

void ScheduleWorld::shown(Chunks& chunks, int index) {
    chunks.shown[index % coll::kChunksAhead] = index;
    std::vector<Chunks::Seer> now;
    std::erase_if(chunks.seers, [&](const Chunks::Seer& seer) {
        if (seer.index == index) now.push_back(seer);
        return seer.index == index;
    });
    for (const Chunks::Seer& seer : now)
        if (!network_.dead(seer.rank)) carriers_[seer.rank]->take(chunks, seer);
}

void ScheduleWorld::grant_rooms() {
    for (auto& carrier : carriers_)
        for (size_t i = 0; i < carrier->chunks.rooms.size();) {
            Chunks::Seer wait = carrier->chunks.rooms[i];
            if (network_.dead(wait.rank) || !carrier->take_room(wait.index, wait.bytes)) {
                ++i;
                continue;
            }
            carrier->chunks.rooms.erase(carrier->chunks.rooms.begin() + static_cast<long>(i));
            wait.done->function(wait.done, nullptr);
            i = 0;  // anything may have changed
        }
}

bool ScheduleWorld::someone_died() const {
    int dead = network_.faults().dead_rank;
    return dead >= 0 && network_.dead(dead);
}

// As in the library: whoever waits may wait for one who waits for the dead.
void ScheduleWorld::fail_chunk_waits() {
    for (auto& carrier : carriers_)
        for (auto* waits : {&carrier->chunks.seers, &carrier->chunks.rooms})
            while (!waits->empty()) {
                Chunks::Seer wait = waits->back();
                waits->pop_back();
                if (!network_.dead(wait.rank)) wait.done->function(wait.done, &kGone);
            }
}

void ScheduleWorld::rank_done(int rank, const Error* error) {
    Outcome& outcome = outcomes_[rank];
    outcome.done = true;
    ++outcome.completions;
    outcome.time = world_.now() - start_;
    if (outcome.time > makespan_) makespan_ = outcome.time;
    if (!error) return;
    outcome.error = *error;
    if (options_.revokes && !revoked_) {
        revoked_ = true;
        world_.at(
            world_.now() + options_.machine.far.latency_ns,
            [](void* self, uint64_t) { static_cast<ScheduleWorld*>(self)->revoke(); }, this,
            label(7, rank, 0, 0));
    }
}

// Receives from the dead fail, and looks for what it has not posted; what it sent is still
// delivered.
void ScheduleWorld::die() {
    int dead = network_.faults().dead_rank;
    for (int r = 0; r < options_.ranks; ++r) {
        if (r == dead) continue;
        auto& meetings = carriers_[r]->meetings;
        std::vector<coll::Completion*> failed;
        for (auto it = meetings.begin(); it != meetings.end();) {
            bool from_dead = static_cast<int>(it->first >> 32) == dead && it->second.receiving;
            if (from_dead) failed.push_back(it->second.receiving);
            it = from_dead ? meetings.erase(it) : std::next(it);
        }
        // The first error makes the Runner withdraw the others, which are not here any more.
        for (coll::Completion* receiving : failed) receiving->function(receiving, &kGone);
    }
    fail_chunk_waits();
    Post& post = carriers_[dead]->board;
    if (post.made) return;
    std::vector<Look*> waiting;
    waiting.swap(post.waiting);
    for (Look* look : waiting) look->done->function(look->done, &kGone);
}

void ScheduleWorld::revoke() {
    for (int r = 0; r < options_.ranks; ++r)
        if (!network_.dead(r)) carriers_[r]->runner.fail(kGone);
}

}  // namespace pomona::sim
