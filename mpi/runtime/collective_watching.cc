// mpi/runtime/collective_watching.cc: see collective_watching.h.
#include "mpi/runtime/collective_watching.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "mpi/runtime/collective_carrier.h"
#include "mpi/runtime/collective_request.h"
#include "mpi/runtime/collective_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pomona {

// Contexts of communicators are hashes.
static constexpr uint64_t kNoteContext = 0xfffffffffffffff1;
static constexpr Nanoseconds kWorkEvery = 20'000'000;
// A look at thousands of collectives takes long, on a busy machine still longer. So the next one
// comes after kWorkPart times as long as it took, but after kWorkLast at the latest.
static constexpr Nanoseconds kWorkPart = 20, kWorkLast = 2'000'000'000;
static constexpr uint64_t kLeftMost = 128;     // twice what WatchedGroup::look_back() comes after
static constexpr size_t kLookedThrough = 256;  // more messages are of collectives to come

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
    Nanoseconds begin = clock_.now();
    if (watch.groups().empty() || begin < work_at_) return;
    for (coll::WatchedGroup* each : watch.groups())
        static_cast<WatchedCommunicator*>(each)->refuse_late();
    watch.look();
    Nanoseconds end = clock_.now();
    work_at_ = end + std::clamp(kWorkPart * (end - begin), kWorkEvery, kWorkLast);
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

void WatchedCommunicator::refuse_late() {
    Engine& engine = comm_.process.engine;
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

// Tags have a collective's number modulo a power of two; it is one of the last. Of others it is not
// known whether they have failed here, and left it for that.
const Message* WatchedCommunicator::find_left(coll::CollectiveId& id) {
    Matcher& matching = comm_.process.engine.matcher(comm_.collective_context());
    if (matching.message_count() == 0 || comm_.ends_collectives()) return nullptr;
    constexpr uint64_t modulus = Engine::kCollectiveNumbers;
    uint64_t next = begun();
    return matching.find_kept([&](const Message& message) {
        int tag = message.header.tag;
        uint64_t low = static_cast<uint64_t>(tag >> Engine::kCollectiveSlotBits);
        uint64_t before = (next - low) % modulus;
        // Who prepares its first collective waits for an answer, and asks.
        if (EngineCarrier::prepares(message.header.source)) return false;
        if (tag < 0 || before == 0 || before > kLeftMost || before > next) return false;
        id = {comm_.collective_context(), next - before};
        if (is_under_way(id) || failed([&](const auto& each) { return each == id; })) return false;
        // Of another length only: the sender has got an error, or will.
        const coll::Call* own = past_call(id);
        return own && !EngineCarrier::calls(message.header.source, *own);
    });
}

void WatchedCommunicator::look_back() {
    Matcher& matching = comm_.process.engine.matcher(comm_.collective_context());
    if (!suspect_.sentence.empty() && matching.find_message(suspect_.source, suspect_.tag)) return;
    suspect_.sentence.clear();
    if (matching.message_count() > kLookedThrough) return;
    coll::CollectiveId id;
    const Message* left = find_left(id);
    if (!left) return;
    const Header& header = left->header;
    suspect_ = {header.source, header.tag,
                text_of(name(), header.source, comm_.rank(), past_call(id)->text())};
}

std::string WatchedCommunicator::take_left() {
    look_back();
    return std::exchange(suspect_.sentence, {});
}

// Ranks are those of the groups.
std::string WatchedCommunicator::text_of(const std::string& name, int source, int rank,
                                         const std::string& call) {
    return format("On {} rank {} called {}, and rank {} called {}", name,
                  EngineCarrier::sender(source), EngineCarrier::call_of(source), rank, call);
}

void WatchedCommunicator::remember(CollectiveWatching& watching) const {
    if (comm_.ends_collectives()) return;
    CollectiveWatching::Ended& ended =
        watching.ended_[watching.ended_count_++ % watching.ended_.size()];
    ended = {comm_.collective_context(), comm_.rank(), false, name(), {}};
    const Errhandler* handler = comm_.errhandler.get();
    ended.fatal = !handler || handler->action == Errhandler::Action::fatal ||
                  handler->action == Errhandler::Action::abort;
    uint64_t next = begun();
    for (auto& [number, call] : ended.calls) {
        number = CollectiveWatching::kNoNumber;
        if (next == 0) continue;
        if (const coll::Call* known = past_call({ended.context, --next}))
            number = next, call = *known;
    }
}

std::string CollectiveWatching::find_unlike(bool& fatal) {
    for (const Ended& each : ended_) {
        if (!each.context) continue;
        fatal = each.fatal;
        for (const auto& [number, call] : each.calls) {
            if (number == kNoNumber) continue;
            int tag = Engine::collective_tag(number, 0);
            const Message* left = engine_.matcher(each.context).find_kept([&](const Message& kept) {
                return kept.header.tag >> Engine::kCollectiveSlotBits ==
                           tag >> Engine::kCollectiveSlotBits &&
                       !EngineCarrier::prepares(kept.header.source) &&
                       !EngineCarrier::calls(kept.header.source, call);
            });
            if (left)
                return WatchedCommunicator::text_of(each.name, left->header.source, each.rank,
                                                    call.text());
        }
    }
    return {};
}

}  // namespace pomona
