// mpi/runtime/collective_state.cc: schedules by shape, per communicator; choices from parameters.
#include "mpi/runtime/collective_state.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "coll/ring_order.h"
#include "mpi/check/checker.h"
#include "mpi/object/hints.h"
#include "mpi/runtime/forests.h"

#include <algorithm>

namespace pomona {

static bool of_one_world(const Communicator& comm) {
    const Job& job = comm.process.job();
    const auto& members = comm.group->members();
    return std::all_of(members.begin(), members.end(),
                       [&](int member) { return member >= job.first && member < job.size; });
}

// The costs of the links between the members. Those of other worlds share no memory with ours, also
// on one machine; that somebody is of another world all members see alike.
static coll::Machine machine_of(const Communicator& comm, const std::vector<int>& nodes) {
    const coll::Policy& policy = *comm.process.policy;
    bool one_world = of_one_world(comm);
    // Other worlds' machines stand in no table that all members have.
    coll::Links links = policy.links;
    if (!one_world) links.pairs.clear();
    coll::Machine machine = coll::Machine::among(links, policy.shared_memory && one_world, nodes,
                                                 one_world ? policy.roads : Roads{});
    if (const Detours& detours = machine.detours; detours.any())
        LOG(info, coll,
            "Collectives on {} count on ways of up to {} links, through other machines; on one's line "
            "with {:.2f} messages at a time, in rings {:.2f}",
            name_for_people(comm), detours.links, detours.all, detours.ring);
    if (machine.apart)
        LOG(info, coll, "Collectives on {} count on a line for each two machines",
            name_for_people(comm));
    else if (machine.by_cable)
        LOG(info, coll, "Collectives on {} count on cables between some of the machines",
            name_for_people(comm));
    if (machine.by_island)
        LOG(info, coll,
            "Collectives on {} count on islands of machines that reach each other quickly",
            name_for_people(comm));
    return machine;
}

static std::string text_of(const std::vector<int>& ranks) {
    std::string text;
    for (int rank : ranks) text += format("{}{}", text.empty() ? "" : " ", rank);
    return text;
}

CollectiveState::CollectiveState(Communicator& comm)
    : comm(comm), cache(comm.process.params.schedule_cache) {
    const Job& job = comm.process.job();
    for (int member : comm.group->members()) nodes.push_back(job.node(member));
    bool one = std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes[0]; });
    if (one) nodes.clear();
    machine = machine_of(comm, nodes);
    if (of_one_world(comm)) machine.forests = forests_among(*comm.process.policy, nodes);
    std::vector<int> ring = coll::ring_order(machine, nodes);
    places = coll::with_ring(nodes, ring);
    placed.size = comm.size();
    placed.place(places);
    if (machine.forests)
        LOG(info, coll, "Collectives on {} go by {} forests of the user's", name_for_people(comm),
            machine.forests->size());
    if (machine.pairs.known())
        LOG(info, coll, "Collectives on {} count on unlike links; rings go by {}",
            name_for_people(comm), ring.empty() ? "number" : text_of(ring));
    read_own_rules();
}

void CollectiveState::read_own_rules() {
    const std::string* text = comm.info ? comm.info->get(kChoicesHint) : nullptr;
    std::string problem;
    auto rules = coll::parse_rules(text ? *text : "", problem);
    own_rules = rules.ok() ? *rules : coll::Rules();
    if (!rules.ok() && comm.rank() == 0)
        LOG(warn, coll, "the hint {} is ignored: {}", kChoicesHint, problem);
}

void CollectiveState::hints_changed() {
    read_own_rules();
    cache.clear();
    for (RepeatedCall& call : repeated) call.key.forget();
}

CollectiveState::~CollectiveState() {
    for (CollectiveRequest* each : idle) delete each;
}

coll::WatchedGroup* CollectiveState::watched_by_messages() {
    if (!comm.process.watching || (comm.size() < 2 && !comm.is_inter())) return nullptr;
    if (!watched_) watched_ = std::make_unique<WatchedCommunicator>(*comm.process.watching, comm);
    return watched_.get();
}

void CollectiveState::make_board(const coll::Shape& cause, int strips_most) {
    if (board_begun_) return;
    board_begun_ = true;
    making = BoardMaking::prepare(comm, comm.collective_context(), *this, cause, strips_most);
    if (!making) return;
    for (RepeatedCall& call : repeated) {
        // Made anew when all know: some members would call it before that, others after.
        check(!call.running);
        call.request.reset();
    }
    making.load()->start();
}

Outcome CollectiveState::await_board() {
    if (!making) return {};
    making_failed = {};
    comm.process.engine.wait_until(
        Described{[&] { return making == nullptr; }, [&](Waiting& out) { describe_making(out); }});
    return making_failed;
}

void CollectiveState::board_made(bool agreed, std::unique_ptr<Board> made, const Error* error) {
    making = nullptr;
    has_boards = agreed;
    board = std::move(made);
    std::vector<CollectiveRequest*> waiting;
    waiting.swap(postponed);
    for (CollectiveRequest* each : waiting) {
        if (error) each->refuse(*error);
        else each->launch(has_boards, board.get());
    }
    if (error) making_failed = CollectiveRequest::outcome_of(*error);
    comm.process.engine.notify();
}

const std::shared_ptr<const coll::Schedule>& CollectiveState::schedule(coll::Shape& shape) {
    shape.nodes = placed.nodes;
    shape.reordered = placed.reordered;
    if (const auto* known = cache.again(shape)) {
        count(comm.process.counters.schedules_reused);
        return *known;
    }
    bool built = false;
    const coll::Choice& choice = comm.process.policy->choice(shape.collective);
    const coll::Rules* rules[] = {&own_rules, &comm.process.policy->rules};
    const auto& found = cache.get(shape, machine, choice, &built, rules);
    if (built) {
        say_lowered(choice, shape.collective);
        say_other(choice, shape, found->algorithm());
        LOG(debug, coll, "{} of {} bytes on {} goes by {}", coll::collective_name(shape.collective),
            shape.bytes(), name_for_people(comm), found->algorithm());
    }
    Counters& counters = comm.process.counters;
    count(built ? counters.schedules_built : counters.schedules_reused);
    return found;
}

// Once, by one rank: the user's segments are more than a schedule among so many ranks can number.
void CollectiveState::say_lowered(const coll::Choice& choice, coll::Collective collective) {
    int most = coll::segments_most(comm.size());
    if (choice.options.segments <= most || said_lowered_ || comm.rank() != 0) return;
    said_lowered_ = true;
    LOG(warn, coll,
        "{}={}:segments={} is lowered to {} among {} ranks, the most that can be numbered",
        coll::collective_name(collective), choice.algorithm, choice.options.segments, most,
        comm.size());
}

// Once for a collective, by one rank: what the user wants has no schedule for this call.
void CollectiveState::say_other(const coll::Choice& choice, const coll::Shape& shape,
                                const char* taken) {
    uint32_t bit = uint32_t{1} << static_cast<unsigned>(shape.collective);
    bool other = !choice.algorithm.empty() && choice.algorithm != taken;
    if (!other || comm.size() < 2 || comm.rank() != 0 || (said_other_ & bit) != 0) return;
    said_other_ |= bit;
    LOG(info, coll, "{}={} has no schedule for {} bytes on {}: {} is used",
        coll::collective_name(shape.collective), choice.algorithm, shape.bytes(),
        name_for_people(comm), taken);
}

Error why_ended(const Communicator& comm) {
    if (comm.revoked) return {Code::refused, kRevokedText, -1, 0};
    Error why{Code::peer_gone, "A member of the communicator has failed", comm.lost, 0};
    if (comm.lost < 0) return why;
    // What is known of it helps more: where no shared memory was found, nobody has failed.
    const Error& reason = comm.process.engine.peer(comm.lost).why;
    if (reason.what[0]) why.what = reason.what;
    if (reason.code == Code::out_of_memory) why.code = reason.code;
    return why;
}

std::string CollectiveState::find_unlike() {
    if (comm.ends_collectives()) return {};
    if (board)
        if (Board::Unlike found = board->find_unlike(); found.member >= 0)
            return format("On {} {}", name_for_people(comm), found.sentence);
    return watched_ ? watched_->take_left() : "";
}

void CollectiveState::fail_all() {
    for (RepeatedCall& call : repeated) call.key.forget();
    comm.retain();  // the last request may be its last user
    Error why = why_ended(comm);
    // Failing one ends no other; those whose data others still read end later.
    std::vector<CollectiveRequest*> requests;
    for (CollectiveRequest* each = under_way.front(); each; each = under_way.next(each))
        requests.push_back(each);
    for (CollectiveRequest* each : requests) each->fail(why);
    // Then what has waited for a board begins, and ends.
    for (BoardMaking* each : std::vector<BoardMaking*>(makings)) each->fail(why);
    if (comm.process.checker) comm.process.checker->collectives.give_up(comm, why);
    comm.release();
}

}  // namespace pomona
