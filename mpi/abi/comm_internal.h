// mpi/abi/comm_internal.h: what the files about communicators share.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/object/contexts.h"

namespace pomona {

// Declares `name`, the communicator that handle `argument` means, or returns MPI_ERR_COMM.
#define COMM_ARGUMENT(name, argument)                                                              \
    REQUIRE_RUNNING();                                                                             \
    Communicator* name = resolve(argument);                                                        \
    REQUIRE(name, nullptr, MPI_ERR_COMM, #argument " is not a valid communicator")

// The same for functions that need the other processes: they end at once where it is revoked.
#define LIVE_COMM_ARGUMENT(name, argument)                                                         \
    COMM_ARGUMENT(name, argument);                                                                 \
    REQUIRE(!name->revoked, name, MPIX_ERR_REVOKED, "The communicator has been revoked (rank {})", \
            name->rank())

// A new communicator with the parent's error handler; one reference for the caller.
Communicator* make_child(Communicator& parent, uint64_t context, Ref<Group> local,
                         Ref<Group> remote);
// The context of the parent's next child; called by all members in the same order.
uint64_t next_child(Communicator& parent);

// Calls the users' copy or delete functions (mpi/abi/attribute.cc); an MPI error class.
int copy_attributes(Communicator& from, Communicator& to);
int delete_attributes(Communicator& comm);

// MPI_Comm_create on an intercommunicator (mpi/abi/intercomm.cc).
int create_inter(const char* function, Communicator& owner, Group& members, uint64_t context,
                 MPI_Comm* newcomm);
// Both groups of an intercommunicator tell each other: everybody has `mine`, gets `theirs`.
int exchange_between(Communicator& inter, const void* mine, size_t mine_bytes, void* theirs,
                     size_t theirs_bytes);

// An intercommunicator between `local` and a group that nothing connects yet. At `root`, `partner`
// is the job rank of the other group's root, and `meeting` a number that only these two have.
int join_worlds(const char* function, Communicator& local, int root, int partner, uint64_t meeting,
                MPI_Comm* newcomm);
// A spawned world meets its parent, in MPI_Init; MPI_SUCCESS for other worlds.
int meet_parent(const char* function);
// The handle is going to be freed: it is no parent any more.
void forget_parent(Communicator& comm);

// Of a program that is checked: do all members call this function now? MPI_SUCCESS, or what the MPI
// function returns; only for those that do not call any other collective.
int check_same_call(const char* function, Communicator& comm);
// The same, and whether the members of `group` give the same one.
int check_same_group(const char* function, Communicator& comm, const Group& group);

// A complete request with an empty status.
Request* make_empty_request(Communicator& comm);

}  // namespace pomona
