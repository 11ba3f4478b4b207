// mpi/runtime/collective_waiting.cc: what a collective operation that lasts long tells of itself
// (mpi/p2p/waiting.h): which members its steps wait for, and whether these have begun it.
#include "mpi/check/checker.h"
#include "mpi/runtime/collective_carrier.h"
#include "mpi/runtime/collective_state.h"

#include <cctype>

namespace pomona {

// A member of this machine that has not begun it has told so on the board; of others nobody knows.
void EngineCarrier::describe(const coll::Step& step, Waiting& out) const {
    auto await = [&](int member, Need need) {
        if (member == comm_->rank() && !comm_->is_inter()) return;
        bool told = board_ && board_->has_strip(member);
        if (told) need = board_->has_come(member, number_) ? Need::part : Need::arrival;
        out.await(comm_->peers[static_cast<size_t>(member)]->rank, need);
    };
    switch (step.kind) {
    case coll::StepKind::send: return await(step.peer, Need::receive);
    case coll::StepKind::recv: return await(step.peer, Need::message);
    case coll::StepKind::look:
    case coll::StepKind::see: return await(step.peer, Need::part);
    case coll::StepKind::post:
        for (int member : board_->behind_post(number_)) await(member, Need::part);
        return;
    case coll::StepKind::room:
        for (int member : board_->behind_chunk(chunk_of(step.slot))) await(member, Need::part);
        return;
    default: return;
    }
}

void EngineCarrier::describe(const coll::Runner& runner, Waiting& out) const {
    runner.each_active([&](const coll::Step& step) { describe(step, out); });
    bool persistent = base_ & 1 << 30;
    out.collective = !persistent;
    out.releases |= persistent;  // members may start theirs in any order
    out.context = comm_->collective_context();
    // Tags have its number modulo a power of two; it is one of the last.
    constexpr uint64_t modulus = Engine::kCollectiveNumbers;
    uint64_t last = comm_->sequence - 1;
    out.number =
        last - (last - static_cast<uint64_t>(base_ >> Engine::kCollectiveSlotBits)) % modulus;
}

void BoardMaking::describe(Waiting& out) const {
    out.communicator = name_for_people(comm_);
    carrier_.describe(runner_, out);
}

void CollectiveState::describe_making(Waiting& out) const {
    if (const BoardMaking* now = making) now->describe(out);
}

void CollectiveRequest::describe(Waiting& out) const {
    const Communicator& named = plan_.comm ? *plan_.comm : *comm_;
    std::string name = collective_name(plan_.shape.collective);
    out.operation = persistent_ ? "MPI_" + name + "_init" : "MPI_I" + name;
    if (persistent_) out.operation[4] = static_cast<char>(std::toupper(out.operation[4]));
    if (comm_->process.checker) comm_->process.checker->collectives.describe(*comm_, *this, out);
    if (out.collective) return out.communicator = name_for_people(named), void();
    if (making_) making_->describe(out);
    else if (runner_.running()) carrier_.describe(runner_, out);
    else if (comm_->collective) comm_->collective->describe_making(out);
    out.communicator = name_for_people(named);
}

}  // namespace pomona
