// mpi/runtime/board_making.cc: see board_making.h.
#include "mpi/runtime/board_making.h"

#include "mpi/runtime/collective_state.h"

#include <algorithm>
#include <utility>

namespace pomona {

// Of the members on one node, the most: all members know that. Nodes are by rank; empty: all are on
// one.
static uint64_t most_on_a_node(std::vector<int> nodes, int size) {
    std::sort(nodes.begin(), nodes.end());
    auto most = static_cast<std::ptrdiff_t>(nodes.empty() ? size : 0);
    for (auto at = nodes.begin(); at != nodes.end();) {
        auto next = std::upper_bound(at, nodes.end(), *at);
        most = std::max(most, next - at);
        at = next;
    }
    return static_cast<uint64_t>(most);
}

BoardMaking* BoardMaking::prepare(Communicator& comm, uint64_t name, BoardOwner& owner,
                                  const coll::Shape& cause, int strips_most) {
    uint64_t most = most_on_a_node(collective_state(comm).nodes, comm.size());
    if (most < 2 || most > comm.process.params.shm_board) return nullptr;
    return new BoardMaking(comm, name, owner, cause, strips_most);
}

BoardMaking::BoardMaking(Communicator& comm, uint64_t name, BoardOwner& owner,
                         const coll::Shape& cause, int strips_most)
    : comm_(comm), name_(name), owner_(&owner), number_(comm.sequence),
      theirs_(static_cast<size_t>(comm.size())) {
    cause_.collective = cause.collective;
    cause_.count = cause.count;
    cause_.element = cause.element;
    cause_.irregular = cause.irregular;
    comm.sequence += 2;
    comm.retain();
    ++comm.process.boards_in_making;
    collective_state(comm).makings.push_back(this);
    const std::vector<int>& nodes = collective_state(comm).nodes;
    alone_ = !nodes.empty() && std::count(nodes.begin(), nodes.end(), nodes[comm.rank()]) == 1;
    if (!alone_) strip_ = comm.process.engine.boards.claim(name, strips_most);
    function = told;
    carrier_.set_owner(this, [](void* self, const Error& error) {
        static_cast<BoardMaking*>(self)->end(false, &error);
    });
}

BoardMaking::~BoardMaking() {
    --comm_.process.boards_in_making;
    std::erase(collective_state(comm_).makings, this);
    comm_.release();
}

void BoardMaking::tell(int mine) {
    if (comm_.ends_collectives()) {
        Error why = why_ended(comm_);
        return end(false, &why);
    }
    mine_ = mine;
    coll::Shape shape;
    shape.collective = coll::Collective::allgather;
    shape.rank = comm_.rank();
    shape.size = comm_.size();
    shape.count = sizeof mine_;
    schedule_ = collective_state(comm_).schedule(shape);
    carrier_.label(comm_, cause_, true);
    carrier_.attach(comm_, nullptr, *schedule_, comm_.collective_context(),
                    collective_state(comm_).watched_beside(nullptr, *schedule_), cause_, true);
    carrier_.number(number_++);
    runner_.prepare(*schedule_);
    carrier_.begin(runner_);
    coll::Binding binding;
    binding.input = &mine_;
    binding.result = theirs_.data();
    runner_.start(carrier_, binding, *this);
}

void BoardMaking::told(coll::Completion* self, const Error* error) {
    auto& making = *static_cast<BoardMaking*>(self);
    if (error) {
        Error why = *error;
        if (making.carrier_.end(&why)) making.end(false, &why);
        return;
    }
    making.carrier_.end(nullptr);
    int least = *std::min_element(making.theirs_.begin(), making.theirs_.end());
    if (making.opened_) return making.end(least == 1, nullptr);
    making.opened_ = true;
    if (least >= 0) making.open();
    making.tell(least >= 0 && (making.board_ || making.alone_));
}

// Of other nodes' members there is nothing to see, and a member alone on its node needs no board.
void BoardMaking::open() {
    if (alone_) return;
    const std::vector<int>& nodes = collective_state(comm_).nodes;
    std::vector<int> strips = theirs_;
    for (size_t r = 0; r < nodes.size(); ++r)
        if (nodes[r] != nodes[static_cast<size_t>(comm_.rank())]) strips[r] = -1;
    board_ = comm_.process.engine.boards.open(name_, comm_.rank(), comm_.peers, strips);
    if (board_) strip_ = -1;  // the board's now
}

void BoardMaking::end(bool agreed, const Error* error) {
    if (strip_ >= 0) comm_.process.engine.boards.disclaim(strip_);
    if (!agreed) board_ = nullptr;
    if (BoardOwner* owner = owner_) owner->board_made(agreed, std::move(board_), error);
    delete this;
}

}  // namespace pomona
