// mpi/runtime/collective_state.cc: schedules by shape, per communicator; choices from parameters.
#include "mpi/runtime/collective_state.h"

#include "btl/base/log.h"
#include "mpi/runtime/collectives.h"

#include <algorithm>

namespace pomona {

CollectiveState::CollectiveState(Communicator& comm)
    : comm(comm), cache(comm.process.params.schedule_cache) {
    const Job& job = comm.process.job();
    for (int member : comm.group->members()) nodes.push_back(job.node(member));
    bool one = std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes[0]; });
    if (one) nodes.clear();
}

CollectiveState::~CollectiveState() {
    for (CollectiveRequest* each : idle) delete each;
}

// Everyone claims a strip, where it has any, and tells its number; when all have, everyone maps the
// others' memory and tells whether that went well. So all come to the same answer, which none could
// alone: what reaches whom differs from rank to rank.
void CollectiveState::make_board() {
    if (board_made_) return;
    board_made_ = true;
    Process& process = comm.process;
    auto size = static_cast<uint64_t>(comm.size());
    if (size < 2 || size > process.params.shm_board) return;
    std::vector<int> sorted = nodes;
    std::sort(sorted.begin(), sorted.end());
    bool meet = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    if (!nodes.empty() && !meet) return;  // nobody shares a node
    uint64_t context = comm.collective_context();
    // Of other nodes' members there is nothing to see, and a member alone on its node needs no board.
    auto apart = [&](size_t r) {
        return !nodes.empty() && nodes[r] != nodes[static_cast<size_t>(comm.rank())];
    };
    bool alone =
        std::count(nodes.begin(), nodes.end(), nodes.empty() ? 0 : nodes[comm.rank()]) == 1;
    std::vector<int> strips(size);
    int own = -1;
    if (!alone) {
        Engine::Hold hold(process.engine);
        own = process.engine.boards.claim(context);
    }
    int told = alone ? 0 : own;
    bool all = run_allgather(comm, &told, strips.data(), sizeof(int)) == MPI_SUCCESS &&
               *std::min_element(strips.begin(), strips.end()) >= 0;
    std::unique_ptr<Board> made;
    if (all && !alone) {
        for (size_t r = 0; r < size; ++r)
            if (apart(r)) strips[r] = -1;
        Engine::Hold hold(process.engine);
        made = process.engine.boards.open(context, comm.rank(), comm.peers, strips);
    }
    int good = made != nullptr || (all && alone);
    std::vector<int> answers(size);
    bool agreed = run_allgather(comm, &good, answers.data(), sizeof(int)) == MPI_SUCCESS &&
                  *std::min_element(answers.begin(), answers.end()) == 1;
    Engine::Hold hold(process.engine);
    if (agreed) {
        has_boards = true;
        board = std::move(made);
        // Those kept before go by messages at some ranks, and would be made anew at others.
        for (RepeatedCall& call : repeated) {
            check(!call.running);
            call.request.reset();
        }
    } else if (made) {
        made.reset();
    } else if (own >= 0) {
        process.engine.boards.disclaim(own);
    }
}

std::shared_ptr<const coll::Schedule> CollectiveState::schedule(coll::Shape& shape) {
    shape.nodes = nodes;
    bool built = false;
    auto found = cache.get(shape, *comm.process.policy, &built);
    Counters& counters = comm.process.counters;
    count(built ? counters.schedules_built : counters.schedules_reused);
    return found;
}

coll::Policy make_policy(const Params& params, bool shared_memory, bool several_nodes) {
    using coll::Collective;
    coll::Policy policy;
    std::string problem;
    auto links = coll::parse_links(params.links, problem);
    if (!links.ok()) LOG(warn, coll, "{} is ignored: {}", param_variable("links"), problem);
    policy.machine =
        coll::Machine::of(links.ok() ? *links : coll::Links(), shared_memory, several_nodes);
    struct Row {
        Collective collective;
        const std::string& text;
        const char* parameter;
    };
    const Row rows[] = {{Collective::allreduce, params.allreduce, "allreduce"},
                        {Collective::bcast, params.bcast, "bcast"},
                        {Collective::reduce, params.reduce, "reduce"},
                        {Collective::allgather, params.allgather, "allgather"},
                        {Collective::reduce_scatter, params.reduce_scatter, "reduce_scatter"},
                        {Collective::alltoall, params.alltoall, "alltoall"},
                        {Collective::barrier, params.barrier, "barrier"},
                        {Collective::gather, params.gather, "gather"},
                        {Collective::scatter, params.scatter, "scatter"},
                        {Collective::scan, params.scan, "scan"},
                        {Collective::exscan, params.scan, "scan"}};
    for (const Row& row : rows) {
        std::string problem;
        auto choice = coll::parse_choice_for(row.collective, row.text, problem);
        if (choice.ok()) policy.choices[static_cast<size_t>(row.collective)] = *choice;
        else LOG(warn, coll, "{} is ignored: {}", param_variable(row.parameter), problem);
    }
    return policy;
}

}  // namespace pomona
