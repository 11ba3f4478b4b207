// mpi/object/communicator.h: a group, a context of its own for messages, and what users attach.
// A context is a 64-bit number unique in the job (mpi/object/contexts.h). Its lowest bit tells
// collective traffic (1) from point to point (0).
#pragma once

#include "mpi/object/attribute.h"
#include "mpi/object/errhandler.h"
#include "mpi/object/group.h"
#include "mpi/object/info.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pomona {

class Matcher;
class Process;
class Topology;  // mpi/topo
struct Peer;
class BsendBuffer;       // mpi/p2p/bsend.h
struct CollectiveState;  // mpi/runtime/collective_state.h: schedules and idle requests

class Communicator final : public Object {
public:
    // `remote` is null for an intracommunicator.
    Communicator(Process& process, uint64_t context, Ref<Group> local, Ref<Group> remote);
    ~Communicator() override;

    bool is_inter() const { return static_cast<bool>(remote_group); }
    int rank() const { return rank_; }
    int size() const { return size_; }                                  // of the local group
    int remote_size() const { return static_cast<int>(peers.size()); }  // = size() for intra
    uint64_t context() const { return context_; }
    uint64_t collective_context() const { return context_ | 1; }

    Process& process;
    Ref<Group> group;
    Ref<Group> remote_group;
    // Whom a rank names in point to point: the remote group's processes (the own group's, intra).
    std::vector<Peer*> peers;
    // Ranks below it may be named in point to point: peers.size(), and 0 once the communicator is
    // revoked, so that the check of a rank finds that too.
    unsigned ranks_open = 0;
    bool revoked = false;
    void become_revoked();  // what Engine::revoke() does here; with the engine held
    // A member of either group that has failed, by its rank in the job; -1: none is known. Each
    // collective that is under way then ends with an error, and so does each later one: a member
    // that learnt of it sooner may have left the collective in which another waits for it.
    int lost = -1;
    void lose(int member);  // with the engine held
    bool ends_collectives() const { return revoked || lost >= 0; }
    size_t acknowledged = 0;     // of its failed members (Engine::failed_of), so many have been
    Matcher* matcher = nullptr;  // of context(); owned by the engine

    // Intercommunicators only: an intracommunicator over the local group, for internal use.
    Ref<Communicator> local;

    std::string name;
    Ref<Errhandler> errhandler;  // null: the default, MPI_ERRORS_ARE_FATAL
    Ref<Info> info;              // hints as set by the user
    Attributes attributes;
    std::shared_ptr<Topology> topology;
    std::unique_ptr<BsendBuffer> bsend;
    Ref<Object> session;  // it comes from, if from one
    std::unique_ptr<CollectiveState> collective;
    uint64_t sequence = 0;  // of collective operations started; keeps their messages apart
    uint64_t children = 0;  // communicators made from this one; names their contexts

private:
    uint64_t context_;
    int rank_ = -1;
    int size_ = 0;
};

}  // namespace pomona
