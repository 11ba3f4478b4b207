// mpi/runtime/collective_watching.cc: see collective_watching.h.
#include "mpi/runtime/collective_watching.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "mpi/runtime/collective_request.h"
#include "mpi/runtime/collective_state.h"

#include <algorithm>
#include <vector>

namespace pomona {

// Contexts of communicators are hashes.
static constexpr uint64_t kNoteContext = 0xfffffffffffffff1;
static constexpr Nanoseconds kWorkEvery = 20'000'000;

static coll::Completion nobody{[](coll::Completion*, const Error*) {}};

struct CollectiveWatching::Outgoing : coll::Completion {
    std::vector<std::byte> note;
};

CollectiveWatching::CollectiveWatching(Engine& engine, int rank, Clock& clock)
    : watch(rank, clock, *this), engine_(engine), rank_(rank), clock_(clock) {
    incoming_.owner = this;
    incoming_.function = arrived;
}

CollectiveWatching::~CollectiveWatching() {
    closing_ = true;
    if (listening_) engine_.cancel_step(kNoteContext, incoming_);
}

void CollectiveWatching::listen() {
    if (!listening_) post();
}

// Nothing is received any more by a process that counts as gone itself (a simulated death).
void CollectiveWatching::post() {
    listening_ = !engine_.peer(rank_).gone;
    if (!listening_) return;
    room_.fill(std::byte{0});
    engine_.recv_step(engine_.peer(rank_), kNoteContext, MPI_ANY_SOURCE, MPI_ANY_TAG, room_,
                      incoming_);
}

// Its length stands in front.
void CollectiveWatching::arrived(coll::Completion* self, const Error* error) {
    CollectiveWatching& own = *static_cast<Incoming*>(self)->owner;
    if (own.closing_) return;
    std::vector<std::byte> note;
    if (!error) {
        Reader in(own.room_);
        ConstBytes bytes = in.get_sized(own.room_.size());
        note.assign(bytes.begin(), bytes.end());
    }
    if (!error && !own.watch.take(note))
        LOG(warn, mpi, "A note about collective operations does not parse");
    own.post();
}

bool CollectiveWatching::reaches(int process) const {
    return process >= 0 && process < engine_.known_peers() && !engine_.peer(process).gone;
}

void CollectiveWatching::send(int process, ConstBytes note) {
    auto* out = new Outgoing;
    out->function = [](coll::Completion* self, const Error*) {
        delete static_cast<Outgoing*>(self);
    };
    Writer sized;
    sized.put_sized(note);
    out->note = sized.bytes();
    check(out->note.size() <= room_.size(), out->note.size());
    engine_.send_step(engine_.peer(process), kNoteContext, rank_, 0, out->note, *out);
}

void CollectiveWatching::work() {
    Nanoseconds now = clock_.now();
    if (watch.groups().empty() || now - worked_ < kWorkEvery) return;
    worked_ = now;
    for (coll::WatchedGroup* each : watch.groups())
        static_cast<WatchedCommunicator*>(each)->refuse_late(engine_);
    watch.look();
}

// ---- communicators

WatchedCommunicator::WatchedCommunicator(CollectiveWatching& watching, Communicator& comm)
    : WatchedGroup(watching.watch, comm.collective_context()), comm_(comm) {
    watching.listen();
}

int WatchedCommunicator::process_of(int member) const {
    return comm_.peers[static_cast<size_t>(member)]->rank;
}

std::string WatchedCommunicator::name_of(int process) const {
    const std::vector<int>& members = comm_.group->members();
    auto found = std::find(members.begin(), members.end(), process);
    if (comm_.is_inter() || found == members.end()) return format("rank {} of the job", process);
    return format("rank {}", found - members.begin());
}

std::string WatchedCommunicator::name() const { return name_for_people(comm_); }

// Numbers are taken when a collective is called; while a board is made, it and what has been called
// since wait for their turn.
uint64_t WatchedCommunicator::begun() const {
    uint64_t begun = comm_.sequence;
    for (const BoardMaking* each : collective_state(comm_).makings)
        begun = std::min(begun, each->next_number());
    return begun;
}

std::optional<Error> WatchedCommunicator::closed() const {
    if (!comm_.ends_collectives()) return std::nullopt;
    return why_ended(comm_);
}

void WatchedCommunicator::refuse_late(Engine& engine) {
    uint64_t context = comm_.collective_context();
    Matcher& matching = engine.matcher(context);
    auto is_late = [&](const Message& message) {
        int tag = message.header.tag;
        return tag >= 0 && failed([&](const coll::CollectiveId& id) {
                   return id.context == context &&
                          Engine::collective_tag(id.number, 0) ==
                              (tag & ~((1 << Engine::kCollectiveSlotBits) - 1));
               });
    };
    while (matching.message_count()) {
        Message* late = matching.find_kept(is_late);
        if (!late) return;
        engine.recv_step(*late->peer, context, late->header.source, late->header.tag, {}, nobody);
    }
}

}  // namespace pomona
