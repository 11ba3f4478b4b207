// mpi/object/communicator.cc: connects a group with its peers and contexts.
#include "mpi/object/communicator.h"

#include "mpi/check/checker.h"
#include "mpi/p2p/bsend.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/consensus.h"
#include "mpi/runtime/process.h"

namespace pomona {

Communicator::Communicator(Process& process, uint64_t context, Ref<Group> local, Ref<Group> remote)
    : Object(Kind::communicator), process(process), group(std::move(local)),
      remote_group(std::move(remote)), context_(context) {
    rank_ = group->rank();
    size_ = group->size();
    const Group& others = remote_group ? *remote_group : *group;
    for (int member : others.members()) peers.push_back(&process.peer(member));
    ranks_open = static_cast<unsigned>(peers.size());
    matcher = &process.engine.matcher(context_);
    matcher->comm = this;
    if (process.engine.any_failed())
        for (int member : process.engine.failed_of(*this)) lose(member);
    if (!matcher->revoked) return;
    become_revoked();  // by another, before it was made here
    process.agreements->made_revoked(*this);
}

void Communicator::become_revoked() {
    revoked = true;
    ranks_open = 0;
    if (collective) collective->fail_all();
    if (local) process.engine.revoke(local->context());
}

// In MPI_Finalize processes go as soon as they need nobody else.
void Communicator::lose(int member) {
    if (lost >= 0 || process.leaving) return;
    lost = member;
    if (collective) collective->fail_all();
}

// Released with the engine held (engine.h), or when nothing runs any more.
Communicator::~Communicator() {
    if (process.checker) process.checker->collectives.forget(*this);
    matcher->comm = nullptr;  // it may outlive us, with messages that nobody received
    process.engine.drop_context(context_);
    process.engine.drop_context(context_ | 1);
}

}  // namespace pomona
