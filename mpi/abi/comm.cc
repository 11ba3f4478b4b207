// mpi/abi/comm.cc: communicators: queries, duplication, creation, splitting, freeing (MPI 5.0,
// chapter 7). Context numbers are computed, not agreed on (mpi/object/contexts.h), so duplication
// needs no message at all. Intercommunicators: mpi/abi/intercomm.cc.
#include "btl/base/log.h"
#include "mpi/abi/buffer.h"
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/object/hints.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/collectives.h"

#include <algorithm>
#include <cstring>

using namespace pomona;

namespace pomona {

// A child inherits its parent's error handler (MPI 5.0, section 9.3).
Communicator* make_child(Communicator& parent, uint64_t context, Ref<Group> local,
                         Ref<Group> remote) {
    Engine::Hold hold(parent.process.engine);
    auto* made = new Communicator(parent.process, context, std::move(local), std::move(remote));
    made->errhandler = parent.errhandler;
    made->session = parent.session;
    return made;
}

uint64_t next_child(Communicator& parent) {
    return child_context(parent.context(), ++parent.children);
}

}  // namespace pomona

// ---- queries

POMONA_MPI(int, Comm_size, (MPI_Comm comm, int* size)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(size, owner, MPI_ERR_ARG, "size is a null pointer");
    *size = owner->size();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_rank, (MPI_Comm comm, int* rank)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(rank, owner, MPI_ERR_ARG, "rank is a null pointer");
    *rank = owner->rank();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_remote_size, (MPI_Comm comm, int* size)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(owner->is_inter(), owner, MPI_ERR_COMM, "comm is not an intercommunicator");
    REQUIRE(size, owner, MPI_ERR_ARG, "size is a null pointer");
    *size = owner->remote_size();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_test_inter, (MPI_Comm comm, int* flag)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(flag, owner, MPI_ERR_ARG, "flag is a null pointer");
    *flag = owner->is_inter();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_group, (MPI_Comm comm, MPI_Group* group)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(group, owner, MPI_ERR_ARG, "group is a null pointer");
    *group = hand_out<MPI_Group>(Ref(owner->group).detach());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_remote_group, (MPI_Comm comm, MPI_Group* group)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(owner->is_inter(), owner, MPI_ERR_COMM, "comm is not an intercommunicator");
    REQUIRE(group, owner, MPI_ERR_ARG, "group is a null pointer");
    *group = hand_out<MPI_Group>(Ref(owner->remote_group).detach());
    return MPI_SUCCESS;
}

static int compare(const Group& a, const Group& b) {
    if (a.members() == b.members()) return MPI_CONGRUENT;
    std::vector<int> x = a.members(), y = b.members();
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    return x == y ? MPI_SIMILAR : MPI_UNEQUAL;
}

POMONA_MPI(int, Comm_compare, (MPI_Comm comm1, MPI_Comm comm2, int* result)) {
    COMM_ARGUMENT(first, comm1);
    COMM_ARGUMENT(second, comm2);
    REQUIRE(result, first, MPI_ERR_ARG, "result is a null pointer");
    if (first == second) return *result = MPI_IDENT, MPI_SUCCESS;
    *result = MPI_UNEQUAL;
    if (first->is_inter() != second->is_inter()) return MPI_SUCCESS;
    *result = compare(*first->group, *second->group);
    if (first->is_inter() && *result != MPI_UNEQUAL) {
        int remote = compare(*first->remote_group, *second->remote_group);
        *result = remote == MPI_UNEQUAL || remote == MPI_SIMILAR ? remote : *result;
    }
    return MPI_SUCCESS;
}

// ---- names and hints

POMONA_MPI(int, Comm_set_name, (MPI_Comm comm, const char* comm_name)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(comm_name, owner, MPI_ERR_ARG, "comm_name is a null pointer");
    owner->name.assign(comm_name, strnlen(comm_name, MPI_MAX_OBJECT_NAME - 1));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_get_name, (MPI_Comm comm, char* comm_name, int* resultlen)) {
    if (comm == MPI_COMM_NULL && comm_name && resultlen) {  // named too (MPI 5.0, section 7.8)
        std::strcpy(comm_name, "MPI_COMM_NULL");
        *resultlen = static_cast<int>(std::strlen(comm_name));
        return MPI_SUCCESS;
    }
    COMM_ARGUMENT(owner, comm);
    REQUIRE(comm_name && resultlen, owner, MPI_ERR_ARG, "comm_name or resultlen is a null pointer");
    std::memcpy(comm_name, owner->name.c_str(), owner->name.size() + 1);
    *resultlen = static_cast<int>(owner->name.size());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_set_info, (MPI_Comm comm, MPI_Info info)) {
    COMM_ARGUMENT(owner, comm);
    Info* hints = resolve(info);
    REQUIRE(hints || info == MPI_INFO_NULL, owner, MPI_ERR_INFO, "info is not a valid info object");
    if (!hints) return MPI_SUCCESS;
    take_hints(kCommHints, *hints, owner->info);
    if (hints->get(kChoicesHint) && owner->collective) {
        Engine::Hold hold(owner->process.engine);
        owner->collective->hints_changed();
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_get_info, (MPI_Comm comm, MPI_Info* info_used)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(info_used, owner, MPI_ERR_ARG, "info_used is a null pointer");
    auto* copy = new Info;
    if (owner->info) copy->entries = owner->info->entries;
    tell_memory_kinds(*copy);
    *info_used = hand_out<MPI_Info>(copy);
    return MPI_SUCCESS;
}

// ---- duplication

// The copy of a communicator. `with_info`: hints of the original go along.
static int duplicate(const char* function, Communicator* owner, bool with_info, MPI_Comm* newcomm) {
    *newcomm = MPI_COMM_NULL;
    uint64_t context = next_child(*owner);
    Ref made(make_child(*owner, context, owner->group, owner->remote_group));
    if (owner->is_inter())
        made->local = Ref(make_child(*owner->local, next_child(*owner->local), owner->group, {}));
    made->topology = owner->topology;
    if (with_info && owner->info) {
        made->info = Ref(new Info);
        made->info->entries = owner->info->entries;
    }
    // Copies attributes by the users' callbacks, which may refuse.
    if (int error = copy_attributes(*owner, *made)) {
        Engine::Hold hold(owner->process.engine);
        made = {};
        return fail(function, owner, error, "an attribute's copy function refused");
    }
    *newcomm = hand_out<MPI_Comm>(made.detach(), function);
    return MPI_SUCCESS;
}

static int duplicate_with(const char* function, Communicator* owner, MPI_Info info,
                          MPI_Comm* newcomm) {
    Info* hints = resolve(info);
    if (!hints && info != MPI_INFO_NULL)
        return fail(function, owner, MPI_ERR_INFO, "info is not a valid info object");
    if (int error = duplicate(function, owner, false, newcomm)) return error;
    if (hints) {
        Communicator* made = resolve(*newcomm);
        take_hints(kCommHints, *hints, made->info);
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_dup, (MPI_Comm comm, MPI_Comm* newcomm)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    if (int error = check_same_call(__func__, *owner)) return error;
    return duplicate(__func__, owner, true, newcomm);
}

POMONA_MPI(int, Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    if (int error = check_same_call(__func__, *owner)) return error;
    return duplicate_with(__func__, owner, info, newcomm);
}

// Nothing has to be waited for, so the non-blocking forms are complete at once.
POMONA_MPI(int, Comm_idup, (MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm && request, owner, MPI_ERR_ARG, "newcomm or request is a null pointer");
    if (int error = duplicate(__func__, owner, true, newcomm)) return error;
    *request = handle_of<MPI_Request>(make_empty_request(*owner));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm,
                                      MPI_Request* request)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm && request, owner, MPI_ERR_ARG, "newcomm or request is a null pointer");
    if (int error = duplicate_with(__func__, owner, info, newcomm)) return error;
    *request = handle_of<MPI_Request>(make_empty_request(*owner));
    return MPI_SUCCESS;
}

// ---- creation from groups

// Every member of `group` must be in the communicator's own group.
static bool within(const Group& group, const Group& all) {
    return std::all_of(group.members().begin(), group.members().end(),
                       [&](int member) { return all.find(member) >= 0; });
}

POMONA_MPI(int, Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    Group* members = resolve(group);
    REQUIRE(members, owner, MPI_ERR_GROUP, "group is not a valid group");
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    REQUIRE(within(*members, *owner->group), owner, MPI_ERR_GROUP,
            "group has members that are not in comm");
    if (int error = check_same_group(__func__, *owner, *members)) return error;
    uint64_t context = next_child(*owner);
    *newcomm = MPI_COMM_NULL;
    if (owner->is_inter()) return create_inter(__func__, *owner, *members, context, newcomm);
    if (members->rank() >= 0)
        *newcomm = hand_out<MPI_Comm>(make_child(*owner, context, Ref<Group>::share(members), {}));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    Group* members = resolve(group);
    REQUIRE(members, owner, MPI_ERR_GROUP, "group is not a valid group");
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    REQUIRE(!owner->is_inter(), owner, MPI_ERR_COMM, "comm must be an intracommunicator");
    REQUIRE(tag >= 0, owner, MPI_ERR_TAG, "tag is {}; it must not be negative", tag);
    REQUIRE(within(*members, *owner->group), owner, MPI_ERR_GROUP,
            "group has members that are not in comm");
    *newcomm = MPI_COMM_NULL;
    if (members->rank() < 0) return MPI_SUCCESS;
    uint64_t name =
        hash_members(combine(owner->context(), static_cast<uint64_t>(tag)), members->members());
    uint64_t context = child_context(name, owner->process.next_use(name));
    *newcomm = hand_out<MPI_Comm>(make_child(*owner, context, Ref<Group>::share(members), {}));
    return MPI_SUCCESS;
}

// ---- splitting

namespace {

struct ColorKey {
    int color;
    int key;
};

// The group of those with color `mine.color`, ordered by key, then rank.
Ref<Group> group_of(const Group& all, const std::vector<ColorKey>& wishes, int color,
                    int my_job_rank) {
    std::vector<std::pair<int, int>> chosen;  // key, rank
    for (int rank = 0; rank < all.size(); ++rank)
        if (wishes[rank].color == color) chosen.emplace_back(wishes[rank].key, rank);
    std::stable_sort(chosen.begin(), chosen.end());
    std::vector<int> members;
    for (auto [key, rank] : chosen) members.push_back(all.member(rank));
    return Ref(new Group(std::move(members), my_job_rank));
}

int split(const char* function, Communicator& owner, int color, int key, MPI_Comm* newcomm) {
    ColorKey mine{color, key};
    std::vector<ColorKey> all(static_cast<size_t>(owner.size()));
    Communicator& local = owner.is_inter() ? *owner.local : owner;
    uint64_t context = next_child(owner);  // also where it fails: all members count alike
    if (int error = run_allgather(local, &mine, all.data(), sizeof mine))
        return fail(function, &owner, error, why_unfinished(error));
    *newcomm = MPI_COMM_NULL;
    int me = owner.process.job().rank;
    if (!owner.is_inter()) {
        if (color == MPI_UNDEFINED) return MPI_SUCCESS;
        *newcomm = hand_out<MPI_Comm>(
            make_child(owner, context, group_of(*owner.group, all, color, me), {}), function);
        return MPI_SUCCESS;
    }
    std::vector<ColorKey> remote(static_cast<size_t>(owner.remote_size()));
    if (int error = exchange_between(owner, all.data(), all.size() * sizeof mine, remote.data(),
                                     remote.size() * sizeof mine))
        return fail(function, &owner, error, why_unfinished(error));
    uint64_t local_context = next_child(local);
    if (color == MPI_UNDEFINED) return MPI_SUCCESS;
    Ref<Group> here = group_of(*owner.group, all, color, me);
    Ref<Group> there = group_of(*owner.remote_group, remote, color, me);
    if (there->size() == 0) return MPI_SUCCESS;  // nobody of that color over there
    Communicator* made = make_child(owner, context, here, there);
    made->local = Ref(make_child(local, local_context, here, {}));
    *newcomm = hand_out<MPI_Comm>(made, function);
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* newcomm)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    REQUIRE(color >= 0 || color == MPI_UNDEFINED, owner, MPI_ERR_ARG,
            "color is {}; it must not be negative, or MPI_UNDEFINED", color);
    return split(__func__, *owner, color, key, newcomm);
}

POMONA_MPI(int, Comm_split_type, (MPI_Comm comm, int split_type, int key, MPI_Info info,
                                  MPI_Comm* newcomm)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    REQUIRE(resolve(info) || info == MPI_INFO_NULL, owner, MPI_ERR_INFO,
            "info is not a valid info object");
    const Job& job = owner->process.job();
    int color = MPI_UNDEFINED;
    switch (split_type) {
    case MPI_UNDEFINED: break;
    case MPI_COMM_TYPE_SHARED: color = job.node_of[job.rank]; break;
    case MPI_COMM_TYPE_HW_UNGUIDED:
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED: {
        // The machine is the only hardware resource known by name; others give no communicator.
        Info* hints = resolve(info);
        const std::string* wanted = hints ? hints->get("mpi_hw_resource_type") : nullptr;
        if (split_type != MPI_COMM_TYPE_HW_UNGUIDED && wanted && *wanted == "mpi_shared_memory")
            color = job.node_of[job.rank];
        break;
    }
    default:
        return fail(__func__, owner, MPI_ERR_ARG,
                    format("split_type is {}, which is none of MPI_COMM_TYPE_*", split_type));
    }
    return split(__func__, *owner, color, key, newcomm);
}

// ---- freeing

static int free_comm(const char* function, MPI_Comm* comm) {
    REQUIRE(comm, nullptr, MPI_ERR_COMM, "comm is a null pointer");
    Communicator* owner = resolve(*comm);
    if (!owner) return fail(function, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    if (owner->builtin_handle)
        return fail(function, owner, MPI_ERR_COMM, "a predefined communicator cannot be freed");
    if (int error = delete_attributes(*owner))
        return fail(function, owner, error, "an attribute's delete function refused");
    detach_buffer(owner->bsend);
    forget_parent(*owner);
    std::string unlike;
    if (owner->collective) {
        Engine::Hold hold(owner->process.engine);
        unlike = owner->collective->find_unlike();
        owner->collective->remember();
    }
    int told = unlike.empty() ? MPI_SUCCESS : fail(function, owner, MPI_ERR_OTHER, unlike);
    *comm = MPI_COMM_NULL;
    take_back(owner);
    Engine::Hold hold(owner->process.engine);
    owner->release();
    return told;
}

POMONA_MPI(int, Comm_free, (MPI_Comm* comm)) {
    REQUIRE_RUNNING();
    return free_comm(__func__, comm);
}

// Pending communication keeps what it needs by references; a barrier makes sure that the partners
// have come as far.
POMONA_MPI(int, Comm_disconnect, (MPI_Comm* comm)) {
    REQUIRE_RUNNING();
    REQUIRE(comm, nullptr, MPI_ERR_COMM, "comm is a null pointer");
    Communicator* owner = resolve(*comm);
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    Communicator& mine = owner->is_inter() ? *owner->local : *owner;
    int error = run_barrier(mine), word = 0, theirs = 0;
    if (owner->is_inter() && !error)
        error = exchange_between(*owner, &word, sizeof word, &theirs, sizeof theirs);
    if (error) LOG(warn, mpi, "MPI_Comm_disconnect: a process of the communicator has ended");
    return free_comm(__func__, comm);
}
